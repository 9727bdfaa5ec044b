"""Taking over what others have saved to a directory since a tree was saved there, or opened from there.

Revisions of relations are unique, so it can be told which side has changed a relation. One that has
changed on one side only is taken from that side. One that has changed on both is a conflict.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

from calitree.calibration.branch import Branch
from calitree.calibration.planning.staleness import stale_relations
from calitree.calibration.revisions import Change, Updated, own_table_at
from calitree.calibration.state import TreeState
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, Persistent
from calitree.errors import ConflictError, SavedError
from calitree.jointree.joins.as_of import conflicting
from calitree.jointree.schema import Relation, Schema
from calitree.saved.directory import Directory
from calitree.saved.guard.checks import check
from calitree.saved.location import SavedLocation, Saves, Version
from calitree.saved.manifest import Manifest, newest, read
from calitree.saved.read_files import decoded_logs
from calitree.saved.tree_codec import cube_pivots, merge_streams
from calitree.storage.file_log import FileLog
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
    location = saves.location(directory.path)
    known, number = location.manifest, newest(directory)
    if known is None or number in (0, known.number):
        return number
    theirs = read(directory)
    check(theirs, str(directory))
    if theirs.number < known.number or not _is_one_tree(known, theirs):
        raise ConflictError(
            f"Version {theirs.number} of {directory} is another tree than this one, which was its "
            f"version {known.number}. Open that one, or save this one to another directory."
        )
    with branch.lock:
        changed, conflicts = _compared(branch.head.schema, known, theirs)
        if conflicts:
            raise ConflictError(
                f"{', '.join(conflicts)} changed in {directory} between its versions {known.number} "
                f"and {theirs.number}, and in this tree too. Open it again and repeat the update, or "
                "save this tree to another directory."
            )
        _merge(branch, directory, location, theirs, changed)
    location.manifest = theirs
    saves.last = Version(directory.path, theirs.number)
    return theirs.number


def _is_one_tree(known: Manifest, theirs: Manifest) -> bool:
    """Whether these are two versions of one tree."""
    names = [[relation.name for relation in manifest.relations] for manifest in (known, theirs)]
    same_shape = known.tree.shape == theirs.tree.shape and names[0] == names[1]
    return known.tree.lineage == theirs.tree.lineage and same_shape


def _compared(
    schema: Schema, known: Manifest, theirs: Manifest
) -> tuple[list[SavedRelation], list[str]]:
    """The relations that only they have changed, and the names of those that both sides have."""
    before = {saved.name: saved.revisions[-1] for saved in known.relations}
    changed: list[SavedRelation] = []
    by_us, by_them = set[str](), set[str]()
    for saved in theirs.relations:
        name, relation, revision = saved.name, schema.relations[saved.name], saved.revisions[-1]
        is_ours = relation.revision not in (*saved.revisions, before[name])
        if is_ours:
            by_us.add(name)
        if own_table_at(revision, relation) is None:
            if revision != before[name]:
                by_them.add(name)
            if not is_ours:
                changed.append(saved)
    return changed, conflicting(schema, by_us, by_them)


def _merge(
    branch: Branch,
    directory: Directory,
    location: SavedLocation,
    theirs: Manifest,
    taken: list[SavedRelation],
) -> None:
    state, relations = branch.state, branch.head.schema.relations
    changed = {
        saved.name: restored(state.engine, saved, location, relations[saved.name])
        for saved in taken
    }
    for saved in theirs.relations:
        live = relations[saved.name]
        if saved.name not in changed and _has_moved(live, saved, location):
            again = restored(state.engine, saved, location)
            changed[saved.name] = replace(again, added=live.added, derived=live.derived)
        elif saved.name not in changed:
            _adopt(location, live, saved)
    now = {**relations, **changed}
    revisions = {name: relation.revision for name, relation in now.items()}
    fresh, old = [], []
    for message in theirs.messages:
        since = stale_relations(state.tree, message, revisions)
        if not since:
            fresh.append(message)
        elif message.pinned and None not in (own_table_at(v, now[n]) for n, v in since.items()):
            old.append(message)
    state.store.shelve(fresh, old, cast(Persistent, state.engine).restore)
    merge_streams(state, theirs.tree)
    _take_over_logs(state, directory, location, theirs, changed)
    state.add_pivots(cube_pivots(theirs.tree))
    state.set_present(changed)
    branch.advance(changed)


def _has_moved(live: Relation, saved: SavedRelation, location: SavedLocation) -> bool:
    """Whether the rows of a relation that has not changed are in other files than it would read."""
    known = location.entries.get(live.table)
    if not isinstance(known, SavedRelation) or live.revision != saved.revisions[-1]:
        return False
    return not set(known.own_files) <= set(saved.own_files)


def _take_over_logs(
    state: TreeState,
    directory: Directory,
    location: SavedLocation,
    theirs: Manifest,
    changed: Collection[str],
) -> None:
    """Remember the files that they have read instead of ours, where these go with their rows.

    A relation and its log change together. Only a file without rows changes nothing but the log.
    """
    assert location.manifest is not None
    known = decoded_logs(location.manifest.tree, directory, location)
    logs = decoded_logs(theirs.tree, directory, location)
    for name in {*known, *logs, *state.read_files}:
        if name in changed or state.read_files.get(name) == known.get(name):
            state.read_files[name] = logs.get(name, FileLog())


def _adopt(location: SavedLocation, relation: Relation, saved: SavedRelation) -> None:
    """Use the files in which others have a relation, for the table that it was at that revision."""
    then = own_table_at(saved.revisions[-1], relation)
    if then is None:
        return
    if isinstance(relation.table, Updated):
        for step in relation.table.back():
            if step is then:
                break
            location.entries.pop(step, None)  # its files may be named by no manifest any more
    location.entries[then] = saved


def restored(
    engine: Engine, saved: SavedRelation, location: SavedLocation, live: Relation | None = None
) -> Relation:
    """A saved relation. It goes on from what is there already, if that is one of its revisions."""
    saver = cast(Persistent, engine)
    if live is not None and live.revision in saved.revisions:
        table, revision = live.table, live.revision
        changes = saved.changes[saved.revisions.index(live.revision) :]
    else:
        readable = location.allowed.readable(saved)
        table, revision, changes = saver.restore(readable), saved.revision, saved.changes
        location.entries[table] = replace(saved, changes=())
    for change in changes:
        rows, revision = _change(saver, saved, change), change.revision
        table = Updated(engine, saved.name, table, rows, old=change.old, revision=revision)
    location.entries[table] = saved
    if live is not None:
        return replace(live, table=table, revision=revision)
    return Relation(saved.name, table, revision)


def _change(saver: Persistent, saved: SavedRelation, change: SavedChange) -> Change:
    def tables(rows: SavedRows | None) -> tuple[Table, ...]:
        return () if rows is None else (saver.restore(saved.part(rows)),)

    return Change(tables(change.came), tables(change.went))
