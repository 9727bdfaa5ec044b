"""Contractions inside of Spark's tasks: each reads its own part of a Parquet relation with pyarrow
and runs the local engine on it.

Spark's reader hands rows to Python over a pipe, which costs more than all the rest. So Spark only
says who reads what: its rows are the numbers of *splits* (a file and some of its row groups). A
task sends home the messages of its splits, each as Arrow data, and they are summed here. That is
right for files that are read as they are, and for nothing else: a table may have deleted rows,
filters and permissions, of which only Spark knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from calitree.engines import Contraction, Input, Lifted, Output
from calitree.engines.local import LocalEngine
from calitree.engines.local.tables import ArrowColumns, Message, Relation
from calitree.engines.local.wire import from_wire, merging, to_wire
from calitree.engines.spark_jobs import Jobs, explained
from calitree.parquet import ParquetColumns, Split, read_split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "output int, data binary"

SPLIT = 1 << 20
"""Rows that a task reads at a time."""


@dataclass(frozen=True)
class Work:
    """What every task has to know, sent with its code: no table but the messages is in it."""

    splits: tuple[Split, ...]
    types: Mapping[str, pa.DataType]
    """The columns to read, and what they are to be."""

    names: Mapping[int, Mapping[str, str]]
    """For each input which of its columns carries which attribute."""

    relation: int
    """Which input the splits are of; the others are messages."""

    messages: Mapping[int, bytes]
    outputs: tuple[Output, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Given numbers of splits, their messages: what `mapInArrow` calls in a task."""
        engine = LocalEngine(threads=1)
        arrived = {
            at: Input(from_wire(engine.book, [_table(data)]), self.names[at])
            for at, data in self.messages.items()
        }
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = read_split(self.splits[number], self.types)
                relation = Input(
                    Relation(engine.book, ArrowColumns(rows)), self.names[self.relation]
                )
                inputs = {**arrived, self.relation: relation}
                given = tuple(inputs[at] for at in sorted(inputs))
                found = engine.contract(Contraction(given, self.outputs))
                data = [_bytes(to_wire(message)) for message in found]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(range(len(data)), pa.int32()), pa.array(data, pa.binary())],
                    names=["output", "data"],
                )


class Tasks:
    """The driver's side: hands out the splits of one large relation, and sums what comes home."""

    def __init__(self, engine: LocalEngine, jobs: Jobs, split: int = SPLIT) -> None:
        self.engine, self.jobs, self.split = engine, jobs, split

    def contract(
        self, session: SparkSession, contraction: Contraction, relation: int
    ) -> list[Message]:
        """A contraction whose input `relation` is Parquet, and whose other inputs are messages."""
        columns = _columns(contraction, relation)
        columns.check()
        work = self._work(contraction, relation, columns)
        count = len(work.splits)
        frame = session.range(0, count, 1, numPartitions=count).mapInArrow(work.run, SCHEMA)
        with explained(f"compute messages from {columns.name} ({count} splits)"):
            (found,) = self.jobs.run(session, [frame.toArrow])
        parts: list[list[pa.Table]] = [[] for _ in work.outputs]
        for number, data in zip(*(found.column(i).to_pylist() for i in range(2)), strict=True):
            parts[number].append(_table(data))
        return [
            self._merged(output, tables) for output, tables in zip(work.outputs, parts, strict=True)
        ]

    def _merged(self, output: Output, parts: list[pa.Table]) -> Message:
        (message,) = self.engine.contract(merging(from_wire(self.engine.book, parts), output))
        return message

    def _work(self, contraction: Contraction, relation: int, columns: ParquetColumns) -> Work:
        needed = _needed(contraction, relation)
        names = {at: dict(given.attributes) for at, given in enumerate(contraction.inputs)}
        names[relation] = {a: c for a, c in names[relation].items() if a in needed}
        types = {label: columns.schema.field(label).type for label in names[relation].values()}
        messages = {}
        for at, given in enumerate(contraction.inputs):
            if at != relation:
                assert isinstance(given.table, Message)
                messages[at] = _bytes(to_wire(given.table))
        splits = tuple(columns.splits(self.split))
        return Work(splits, types, names, relation, messages, contraction.outputs)


def _columns(contraction: Contraction, relation: int) -> ParquetColumns:
    table = contraction.inputs[relation].table
    assert isinstance(table, Relation) and isinstance(table.columns, ParquetColumns)
    return table.columns


def _needed(contraction: Contraction, relation: int) -> set[str]:
    """The attributes of the relation that anyone asks for."""
    needed: set[str] = set()
    for at, given in enumerate(contraction.inputs):
        if at != relation:
            needed |= given.attributes.keys()
    for output in contraction.outputs:
        needed |= set(output.keep).union(*(p.attributes for p in output.where))
        for column in output.columns:
            for factor in column.factors:
                if isinstance(factor, Lifted) and factor.input == relation:
                    needed = needed.union(*(each.attributes for each in factor.expressions))
    return needed


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
