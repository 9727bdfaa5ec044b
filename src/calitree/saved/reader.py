"""Opening a saved tree.

Only the newest manifest is read; a message or a relation is read when a query first needs it.
"""

from __future__ import annotations

from os import PathLike

from calitree.calibration.branch import Branch
from calitree.calibration.store import Store
from calitree.engines.api.protocol import Engine, Persistent, budget_of
from calitree.errors import ExpressionError, QueryError, SavedError, SchemaError, TreeError
from calitree.memory.budget import default_limit
from calitree.saved.directory import Directory
from calitree.saved.guard.checks import check, damaged
from calitree.saved.guard.trust import Allow, AllowedPlaces
from calitree.saved.location import Saves, Version
from calitree.saved.manifest import read
from calitree.saved.read_files import decoded_logs
from calitree.saved.rebase import restored
from calitree.saved.tree_codec import decoded_tree


def read_tree(
    path: str | PathLike[str],
    engine: Engine,
    version: int | None,
    allow: Allow | None = None,
    memory_limit: int | None = None,
) -> tuple[Branch, Saves]:
    """The newest tree of a directory, or an older `version`, and where it comes from."""
    if not isinstance(engine, Persistent):
        raise SavedError(f"The {engine.name} engine cannot open saved trees; choose another.")
    directory = Directory(path)
    manifest = read(directory, version)
    check(manifest, str(directory))
    saves = Saves(Version(directory.path, manifest.number), AllowedPlaces(allow))
    location = saves.location(directory.path)
    location.manifest = manifest
    relations = {saved.name: restored(engine, saved, location) for saved in manifest.relations}
    saved = min(manifest.tree.memory_limit, default_limit())  # that machine may have had more
    limit = saved if memory_limit is None else memory_limit
    store = Store(limit, manifest.messages, engine.restore, budget_of(engine))
    try:
        snapshot = decoded_tree(manifest.tree, engine, relations, store)
        snapshot.checked()
    except (SchemaError, ExpressionError, TreeError, QueryError, RecursionError) as error:
        raise damaged(manifest.number, str(directory), error) from error
    snapshot.state.read_files = decoded_logs(manifest.tree, directory, location)
    return Branch(snapshot), saves
