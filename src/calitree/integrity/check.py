"""Checking a join graph: its shape, then every join by the keys of its two sides."""

from __future__ import annotations

from collections.abc import Iterable

from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine
from calitree.integrity.as_of_findings import as_of_findings
from calitree.integrity.edges import MeetingKeys
from calitree.integrity.graph_findings import graph_findings
from calitree.integrity.key_counts import Columns, KeyCounts, counts_by_key
from calitree.integrity.report import SEVERITIES, EdgeCheck, GraphCheck
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.from_clause import effective_hows
from calitree.jointree.joins.join import ColumnName, Join
from calitree.jointree.schema import Schema
from calitree.progress import Progress, progress_bar

SideKey = tuple[str, Columns]
"""A relation and a key of it."""


def check_graph(
    engine: Engine,
    schema: Schema,
    tree: Hypertree | None,
    progress: Progress | bool | None = None,
) -> GraphCheck:
    """Look at every join of a graph, and at the graph as a whole.

    Args:
        engine: The engine of the relations.
        schema: The graph.
        tree: Its tree; None if it has none, as it is not connected.
        progress: As for `JoinGraph.calibrate`.

    Returns:
        What was seen.
    """
    joins = [
        (join, _sides(schema, join))
        for join in schema.joins
        if join.pairs and schema.matches.keys().isdisjoint((join.left, join.right))
    ]
    hows = dict(zip(schema.joins, effective_hows(schema.relations, schema.joins), strict=True))
    edges: list[EdgeCheck] = []
    findings = list(graph_findings(schema, tree))
    with progress_bar(progress) as listener:
        wanted = _by_relation(side for _, sides in joins for side in sides)
        total = len(wanted) + len(joins)
        messages: dict[SideKey, Table] = {}
        for done, (name, keys) in enumerate(wanted.items()):
            table = schema.relations[name].table
            watch = listener.begin(done, total, name, f"keys of {name}", table.rows)
            given = schema.input_of(name, (a for key in keys for a, _ in key))
            tables = counts_by_key(engine, given, keys, watch)
            messages |= zip([(name, key) for key in keys], tables, strict=True)
        for join, sides in joins:
            left, right = (_counts(engine, schema, messages[side], side) for side in sides)
            rows = left.table.rows + right.table.rows
            listener.begin(total - len(joins) + len(edges), total, str(join), str(join), rows)
            meeting = MeetingKeys(schema, join, hows[join], (left, right))
            edges.append(meeting.edge)
            findings += meeting.findings()
        findings += as_of_findings(engine, schema)
        listener.end(total)
    findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    return GraphCheck(tuple(edges), tuple(findings))


def _by_relation(sides: Iterable[SideKey]) -> dict[str, list[Columns]]:
    """The different keys of each relation."""
    wanted: dict[str, list[Columns]] = {}
    for name, key in dict.fromkeys(sides):
        wanted.setdefault(name, []).append(key)
    return wanted


def _sides(schema: Schema, join: Join) -> tuple[SideKey, SideKey]:
    """The key of a join on both sides, under the same attributes."""
    names = [_common(schema, {(join.left, a), (join.right, b)}) for a, b in join.pairs]
    left = tuple((name, a) for name, (a, _) in zip(names, join.pairs, strict=True))
    right = tuple((name, b) for name, (_, b) in zip(names, join.pairs, strict=True))
    return (join.left, left), (join.right, right)


def _common(schema: Schema, columns: set[ColumnName]) -> str:
    """The attribute of two columns that are compared: they are equal, or a match."""
    return next(a.name for a in schema.attributes.values() if columns.issubset(a.columns))


def _counts(engine: Engine, schema: Schema, message: Table, side: SideKey) -> KeyCounts:
    name, key = side
    relation = schema.relations[name]
    kinds = {attribute: relation.columns[column] for attribute, column in key}
    known = relation.table.null_free
    nullable = frozenset(attribute for attribute, column in key if column not in known)
    return KeyCounts(engine, message, kinds, nullable)
