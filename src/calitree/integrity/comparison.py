"""The keys of both sides of a join, counted together: contractions of the two messages that meet there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calitree.engines.api.contraction import Column, Contraction, Output, Stored, Table
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import COUNT, MAX
from calitree.integrity.key_counts import MORE_THAN_ONE, ROWS, KeyCounts


@dataclass(frozen=True)
class Totals:
    """Of some keys: their number, that of their rows, and the most rows that one of them has."""

    keys: int = 0
    rows: int = 0
    most: int = 0


@dataclass(frozen=True)
class KeyComparison:
    """Of each side all keys without NULL, and those that the other side has too."""

    known: tuple[Totals, Totals]
    matched: tuple[Totals, Totals]
    joined_rows: int


def compare(left: KeyCounts, right: KeyCounts) -> KeyComparison:
    """Count the keys of both sides, in one contraction."""
    inputs = (left.keys_and_rows, right.keys_and_rows, left.keys, right.keys)
    joined = Column("joined", COUNT, (Stored(2, ROWS), Stored(3, ROWS)))
    outputs = (
        *(Output((at,), side.known, (), _totals(at)) for at, side in enumerate((left, right))),
        Output((2, 3), (), (), (*_totals(2), *_totals(3), joined)),
    )
    ours, theirs, (*matched, rows) = _rows(left.engine, Contraction(inputs, outputs))
    both = Totals(*matched[:3]), Totals(*matched[3:])
    return KeyComparison((Totals(*ours), Totals(*theirs)), both, rows)


def repeated_keys(side: KeyCounts) -> Totals:
    """The keys that have several rows."""
    output = Output((0,), (*side.known, *side.condition(MORE_THAN_ONE)), (), _totals(0))
    (row,) = _rows(side.engine, Contraction((side.keys_and_rows,), (output,)))
    return Totals(*row)


def matched_keys(left: KeyCounts, right: KeyCounts) -> Table:
    """The keys that both sides have."""
    output = Output((0, 1), (), tuple(left.kinds), ())
    (table,) = left.engine.contract(Contraction((left.keys, right.keys), (output,)))
    return table


def _totals(at: int) -> tuple[Column, ...]:
    """The columns of `Totals` for one of the inputs."""
    rows = (Stored(at, ROWS),)
    return (
        Column(f"keys {at}", COUNT, ()),
        Column(f"rows {at}", COUNT, rows),
        Column(f"most {at}", MAX, rows),
    )


def _rows(engine: Engine, contraction: Contraction) -> Iterator[list[int]]:
    """The numbers in the one row of each output; zeros if it has none."""
    tables = engine.contract(contraction)
    for table, output in zip(tables, contraction.outputs, strict=True):
        rows = engine.arrow(table)
        columns = [rows.column(column.name) for column in output.columns]
        yield [int(column[0].as_py()) if rows.num_rows else 0 for column in columns]
