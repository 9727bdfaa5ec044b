"""What can be said of a join graph without looking at its keys."""

from __future__ import annotations

from collections.abc import Iterator

from calitree.integrity.report import Finding
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Schema

LARGE_BAG_ROWS = 100_000_000
"""From so many possible rows on a bag of several relations is a warning."""


def graph_findings(schema: Schema, tree: Hypertree | None) -> Iterator[Finding]:
    """Relations that join nothing or have no rows, columns that cannot be used, parts, cycles."""
    parts = schema.components()
    joined = {name for join in schema.joins for name in (join.left, join.right)}
    if len(parts) > 1:
        listed = "; ".join(", ".join(part) for part in parts)
        message = f"it has {len(parts)} parts that no join connects: {listed}."
        yield Finding("error", "not-connected", "the graph", message)
    for name, relation in schema.relations.items():
        if name not in joined and len(schema.relations) > 1:
            yield Finding("error", "unjoined", name, "no join names this relation.")
        if not relation.table.rows:
            yield Finding("warning", "empty", name, "it has no rows.", rows=0)
        for column, reason in relation.table.unsupported.items():
            yield Finding("remark", "unusable-column", name, f"{column} is {reason}.")
    if tree is not None:
        yield from _bag_findings(tree)


def _bag_findings(tree: Hypertree) -> Iterator[Finding]:
    """Bags that several relations share, because their joins close a cycle."""
    for bag in tree.bags:
        width = tree.widths[bag.name]
        if len(bag.relations) > 1 or width.exponent > 1:
            severe = width.rows is not None and width.rows >= LARGE_BAG_ROWS
            relations = ", ".join(bag.relations) or "no relation"
            yield Finding(
                "warning" if severe else "remark",
                "cyclic",
                bag.name,
                f"joins that close a cycle meet in this bag ({relations}): {width}.",
            )
