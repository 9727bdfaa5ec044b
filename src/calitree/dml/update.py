"""Updates of a branch, and branches that suppose some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calitree.calibration.branch import Branch
from calitree.calibration.versions import Change
from calitree.dml.rows import Columns
from calitree.dml.updating import Updating
from calitree.errors import UpdateError


def update(
    branch: Branch,
    relation: str,
    insert: Any = None,
    delete: Any = None,
    upsert: Any = None,
    key: Columns | None = None,
) -> int:
    """Change the rows of a relation; the number of the new version."""
    with branch.lock:
        branch.check_present()
        updating = Updating.of(branch.head, relation)
        return branch.update({updating.name: updating.change(insert, delete, upsert, key)})


def suppose(
    branch: Branch,
    delete: Mapping[str, Any] | None,
    update: Mapping[str, Any] | None,
    insert: Mapping[str, Any] | None,
) -> Branch:
    """A branch of its own on which these changes are made, one after the other."""
    other = branch.fork()
    steps: list[tuple[Mapping[str, Any] | None, Callable[[Updating, Any], Change]]] = [
        (delete, Updating.deleting),
        (update, Updating.updating),
        (insert, lambda updating, rows: updating.change(rows, None, None, None)),
    ]
    for given, change_of in steps:
        if not given:
            continue
        if not isinstance(given, Mapping):
            raise UpdateError(
                f"A what-if names relations: {{relation: rows or condition}}; got {given!r}."
            )
        changes = {}
        for relation, what in given.items():
            updating = Updating.of(other.head, relation)
            changes[updating.name] = change_of(updating, what)
        other.update(changes)
    return other
