"""Plans without a relation that cannot be read: its rows cost more than all others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from calitree.engines.api.contraction import Table
from calitree.jointree.schema import Schema


class Unreachable:
    """Stands for a table that cannot be read: larger than any other, where plans are compared."""

    rows = 1 << 62
    nbytes = 0
    exact = True

    def __init__(self, table: Table) -> None:
        self.kinds, self.null_free = table.kinds, table.null_free


def within_reach(schema: Schema, missing: Collection[str]) -> Schema:
    """The schema to plan with, so that the missing relations are needed only where all ways do."""
    if not missing:
        return schema
    relations = {
        name: replace(each, table=Unreachable(each.table)) if name in missing else each
        for name, each in schema.relations.items()
    }
    return replace(schema, relations=relations)
