"""What others have saved to a directory meanwhile, and how a tree that came from there takes it over.

Relations have versions that nobody gives twice, so it is seen who has changed what. If a relation has
changed on one side only, both sides go together: theirs stands on what this tree has, or this tree's on
theirs. If one has changed on both, nobody can tell what is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from calitree.calibration.branch import Branch
from calitree.calibration.planning.staleness import stale_relations
from calitree.calibration.versions import Change, Updated, own_table_at
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, Persistent
from calitree.errors import ConflictError, SavedError
from calitree.jointree.schema import Relation
from calitree.saved.codec import Manifest
from calitree.saved.directory import Directory
from calitree.saved.manifest import Place, Saves, Version, newest, read
from calitree.saved.tree_codec import cube_pivots
from calitree.storage.table_format import SavedChange, SavedRelation, SavedRows


def reload(branch: Branch, saves: Saves) -> int:
    """Take over what is new where the tree was saved last; see `WideTable.reload`."""
    branch.check_present()
    with saves.lock:
        if saves.last is None:
            raise SavedError(
                "This tree was neither saved nor opened, so there is nothing to reload it from."
            )
        take_over(branch, saves, Directory(saves.last.directory))
        return branch.head.number


def take_over(branch: Branch, saves: Saves, directory: Directory) -> int:
    """Bring a tree up to the newest version of a directory that it came from; that one's number."""
    place = saves.place(directory.path)
    known, number = place.manifest, newest(directory)
    if known is None or number in (0, known.number):
        return number
    theirs = read(directory)
    if theirs.number < known.number or theirs.lineage != known.lineage:
        raise ConflictError(
            f"Version {theirs.number} of {directory} is another tree than this one, which was its "
            f"version {known.number}. Open that one, or save this one to another directory."
        )
    with branch.lock:
        taken, both = _sorted_out(branch.head.schema.relations, known, theirs)
        if both:
            raise ConflictError(
                f"{', '.join(both)} changed in {directory} between its versions {known.number} "
                f"and {theirs.number}, and in this tree too. Open it again and repeat the update, or "
                "save this tree to another directory."
            )
        _take(branch, place, theirs, taken)
    place.manifest = theirs
    saves.last = Version(directory.path, theirs.number)
    return theirs.number


def _sorted_out(
    live: Mapping[str, Relation], known: Manifest, theirs: Manifest
) -> tuple[list[SavedRelation], list[str]]:
    """The relations that are to be taken over, and those that have changed on both sides."""
    before = {each.name: each.versions[-1] for each in known.relations}
    taken, both = [], []
    for each in theirs.relations:
        ours = live[each.name].version
        if own_table_at(each.versions[-1], live[each.name]) is not None:
            continue
        if ours in (*each.versions, before[each.name]):
            taken.append(each)
        elif each.versions[-1] != before[each.name]:
            both.append(each.name)
    return taken, sorted(both)


def _take(branch: Branch, place: Place, theirs: Manifest, taken: list[SavedRelation]) -> None:
    state, relations = branch.state, branch.head.schema.relations
    engine, tree = state.engine, state.tree
    changed = {each.name: restored(engine, each, place, relations[each.name]) for each in taken}
    for each in theirs.relations:
        if each.name not in changed:
            _adopt(place, relations[each.name], each)
    now = {**relations, **changed}
    versions = {name: each.version for name, each in now.items()}
    fresh, old = [], []
    for message in theirs.messages:
        since = stale_relations(tree, message, versions)
        if not since:
            fresh.append(message)
        elif message.pinned and all(
            own_table_at(v, now[name]) is not None for name, v in since.items()
        ):
            old.append(message)
    state.store.shelve(fresh, old, cast(Persistent, engine).restore)
    for relation, sql, value in theirs.tree["centers"]:
        state.centers.setdefault((relation, sql), value)
    for stream, batch in theirs.tree.get("streams", {}).items():
        state.streams[stream] = max(batch, state.streams.get(stream, batch))
    state.add_pivots(cube_pivots(theirs.tree))
    state.set_present(changed)
    branch.advance(changed)


def _adopt(place: Place, relation: Relation, saved: SavedRelation) -> None:
    """From now on a relation is in the files where the others have it, as it was then."""
    then = own_table_at(saved.versions[-1], relation)
    if then is None:
        return
    if isinstance(relation.table, Updated):
        for each in relation.table.back():
            if each is then:
                break
            place.entries.pop(each, None)  # it may stand on files that are not named any more
    place.entries[then] = saved


def restored(
    engine: Engine, saved: SavedRelation, place: Place, live: Relation | None = None
) -> Relation:
    """A saved relation. It goes on from what is there already, if that is one of its versions."""
    saver = cast(Persistent, engine)
    at = saved.versions.index(live.version) if live and live.version in saved.versions else None
    if live is not None and at is not None:
        table = live.table
    else:
        at, table = 0, saver.restore(saved)
        place.entries[table] = replace(saved, changes=())
    for change in saved.changes[at:]:
        rows = _change(saver, saved, change)
        table = Updated(engine, saved.name, table, rows, old=change.old, version=change.version)
    place.entries[table] = saved
    added = live is not None and live.added
    return Relation(saved.name, table, saved.versions[-1], added)


def _change(saver: Persistent, saved: SavedRelation, change: SavedChange) -> Change:
    def tables(rows: SavedRows | None) -> tuple[Table, ...]:
        return () if rows is None else (saver.restore(saved.part(rows)),)

    return Change(tables(change.came), tables(change.went))
