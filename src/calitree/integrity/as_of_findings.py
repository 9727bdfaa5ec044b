"""What is worth knowing of as-of joins: rows that meet nothing, and rows that are the latest together."""

from __future__ import annotations

from collections.abc import Iterator

from calitree.engines.api.contraction import Column, Contraction, Input, Output
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import COUNT
from calitree.engines.api.signed import Linear
from calitree.integrity.comparison import repeated_keys
from calitree.integrity.key_counts import (
    EXAMPLES,
    MORE_THAN_ONE,
    ROWS,
    KeyCounts,
    counts_by_key,
)
from calitree.integrity.report import Finding, KeyExample
from calitree.jointree.schema import Schema
from calitree.sql.analysis import Resolved
from calitree.sql.parser import parse_predicate


def as_of_findings(engine: Engine, schema: Schema) -> Iterator[Finding]:
    """Those of all as-of joins of a graph."""
    for name in schema.matches:
        yield from _without_match(engine, schema, name)
        yield from _ties(engine, schema, name)


def _without_match(engine: Engine, schema: Schema, name: str) -> Iterator[Finding]:
    """Rows on the left that meet no row on the right."""
    as_of, matches = schema.matches[name], schema.relations[name]
    *columns, at = as_of.columns
    attributes = [schema.attribute_of[as_of.left, column] for column in as_of.left_columns]
    times = Resolved("at", (name,), matches.columns[at])
    given = Input(matches.table, {**dict(zip(attributes, columns, strict=True)), "at": at})
    output = Output(
        (0, 1),
        parse_predicate("at is not null", lambda *_: times),
        (),
        (Column(ROWS, COUNT, ()),),
    )
    contraction = Contraction((schema.input_of(as_of.left, attributes), given), (output,))
    (matched,) = Linear(contraction, [ROWS]).tables(engine)
    rows = schema.rows(as_of.left)
    lost = rows - sum(engine.arrow(matched).column(ROWS).to_pylist())
    if not lost:
        return
    is_kept = any(join.right == name and join.how != "inner" for join in schema.joins)
    yield Finding(
        "remark" if is_kept else "warning",
        "orphans",
        name,
        f"{lost:,} of {rows:,} rows of {as_of.left} ({lost / rows:.2%}) have no row of {as_of.right} at or "
        f"before them{' within the tolerance' if as_of.tolerance is not None else ''}, and the join "
        f"{'keeps them beside NULL' if is_kept else 'loses them'}.",
        rows=lost,
        share=lost / rows,
    )


def _ties(engine: Engine, schema: Schema, name: str) -> Iterator[Finding]:
    """Rows on the right with the same key and time: a row on the left meets all of them."""
    as_of = schema.matches[name]
    relation = schema.relations[as_of.right]
    key = tuple(
        (schema.attribute_of[as_of.right, column], column) for column in as_of.right_columns
    )
    given = schema.input_of(as_of.right, (attribute for attribute, _ in key))
    (table,) = counts_by_key(engine, given, [key])
    kinds = {attribute: relation.columns[column] for attribute, column in key}
    counts = KeyCounts(engine, table, kinds, frozenset(kinds))
    repeated = repeated_keys(counts)
    if repeated.keys:
        yield Finding(
            "warning",
            "repeated-keys",
            name,
            f"{repeated.rows:,} of {relation.table.rows:,} rows of {as_of.right} are the latest together with "
            f"others: a row of {as_of.left} meets all of them, up to {repeated.most:,}.",
            rows=repeated.rows,
            share=repeated.rows / relation.table.rows,
            keys=repeated.keys,
            examples=tuple(
                KeyExample(*one) for one in counts.most_frequent(EXAMPLES, MORE_THAN_ONE)
            ),
        )
