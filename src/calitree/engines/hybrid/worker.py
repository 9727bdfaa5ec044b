"""What Spark's tasks do: read some rows of a relation, run the local engine on them, and send home
the messages they found.

The rows are either *splits* (a file and some of its row groups), of which Spark hands out the
numbers and which a task reads with pyarrow; or what Spark itself has read and hands over as Arrow
data. Nothing here runs in the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from calitree.cache import LRUCache
from calitree.engines.api.contraction import Contraction, Input, Output
from calitree.engines.local import LocalEngine
from calitree.engines.local.encoding.buckets import buckets_of
from calitree.engines.local.encoding.wire import from_wire, merging, to_wire
from calitree.engines.local.tables.tables import ArrowColumns, EncodedMessage, EncodedRelation
from calitree.errors import CalitreeError, EngineError
from calitree.storage.filesystem import shown
from calitree.storage.parquet import Split, read_split

SCHEMA = "output int, bucket int, data binary"

PARTS = 8
"""Messages of one output that a task collects before it sums them."""

REMEMBERED = 1 << 23
"""Values that a Python process may have numbered before it begins anew."""

BLOCK = 1 << 20
"""Rows of Spark's own that are gathered before a contraction."""

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Splits:
    """Rows that a task reads by itself: what Spark sends are numbers of splits."""

    splits: tuple[Split, ...]
    types: Mapping[str, pa.DataType]
    """The columns to read, and what they are to be."""

    def tables(self, batches: Batches) -> Iterator[tuple[pa.Table, str]]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                split = self.splits[number]
                where = f"{shown(split.file)}{_groups(split)}"
                with _reading(where):
                    rows = read_split(split, self.types)
                yield rows, where


@dataclass(frozen=True)
class SparkRows:
    """Rows that Spark has read, under the names c0, c1, …."""

    label: str

    def tables(self, batches: Batches) -> Iterator[tuple[pa.Table, str]]:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= BLOCK:
                yield _in_utc(pa.Table.from_batches(waiting)), self.label
                waiting = []
        if waiting:
            yield _in_utc(pa.Table.from_batches(waiting)), self.label


@dataclass(frozen=True)
class Work:
    """What every task has to know, sent with its code: no table but the messages is in it."""

    name: str
    """Its own; a Python process that runs several tasks prepares the messages once."""

    source: Splits | SparkRows
    names: Mapping[int, Mapping[str, str]]
    """For each input which of its columns carries which attribute."""

    relation: int
    """Which input the rows are of; the others are messages."""

    messages: Mapping[int, bytes]
    outputs: tuple[Output, ...]
    limit: int
    """Bytes that one bucket of one part of a message should have; what is larger stays here, and
    only that is told.
    """

    buckets: int
    """Into how many the rows of each message are dealt."""

    def run(self, batches: Batches) -> Batches:
        """What `mapInArrow` calls in a task."""
        sums = [_Sum(output, self.limit * self.buckets) for output in self.outputs]
        for rows, where in self.source.tables(batches):
            engine, arrived = _prepared.of(self.name, self._prepare)
            relation = EncodedRelation(engine.book, ArrowColumns(rows))
            inputs = {**arrived, self.relation: Input(relation, self.names[self.relation])}
            given = tuple(inputs[at] for at in sorted(inputs))
            with _reading(where):
                found = engine.contract(Contraction(given, self.outputs))
            for each, message in zip(sums, found, strict=True):
                each.add(to_wire(message))
            if engine.book.values > REMEMBERED:
                _prepared.clear()
            if all(each.is_too_large for each in sums):
                break
        for number, (each, output) in enumerate(zip(sums, self.outputs, strict=True)):
            if each.is_too_large:
                yield _row(number, 0, None)
            for table in each.total():
                parts = buckets_of(table, output.keep, self.buckets)
                yield from (_row(number, bucket, part) for bucket, part in parts)

    def _prepare(self) -> tuple[LocalEngine, dict[int, Input]]:
        # After every task PySpark has Python look for garbage among all that is loaded by now.
        gc.freeze()
        engine = LocalEngine(threads=1)
        return engine, {
            at: Input(from_wire(engine.book, [table_of(data)]), self.names[at])
            for at, data in self.messages.items()
        }


_prepared = LRUCache[tuple[LocalEngine, dict[int, Input]]](1)


@dataclass(frozen=True)
class Merging:
    """Sums, bucket by bucket, the parts that other tasks have sent."""

    outputs: tuple[Output, ...]
    limit: int
    """Bytes that one bucket of a message may have."""

    def run(self, batches: Batches) -> Batches:
        """What `mapInArrow` calls in a task that has got all parts of its buckets."""
        sums: dict[tuple[int, int], _Sum] = {}
        beyond: set[int] = set()
        for batch in batches:
            for number, bucket, data in rows_of(batch):
                if data is None:
                    beyond.add(number)
                else:
                    key = (number, bucket)
                    each = sums.setdefault(key, _Sum(self.outputs[number], self.limit))
                    each.add(table_of(data))
        beyond |= {number for (number, _), each in sums.items() if each.is_too_large}
        for number in beyond:
            yield _row(number, 0, None)
        for (number, bucket), each in sums.items():
            if number not in beyond:
                yield from (_row(number, bucket, table) for table in each.total())


class _Sum:
    """Parts of one message, summed now and then; forgotten once one is too large."""

    def __init__(self, output: Output, limit: int) -> None:
        self.output, self.limit = output, limit
        self.is_too_large = False
        self.parts: list[pa.Table] = []

    def add(self, part: pa.Table) -> None:
        self.parts.append(part)
        if len(self.parts) >= PARTS:
            self.parts = [self._merged()]
        if self.is_too_large or self.parts[-1].nbytes > self.limit:
            self.is_too_large, self.parts = True, []

    def total(self) -> list[pa.Table]:
        """All in one; nothing if there was nothing, or too much."""
        return [self._merged()] if len(self.parts) > 1 else self.parts

    def _merged(self) -> pa.Table:
        return to_wire(merged(LocalEngine(threads=1), self.output, self.parts))


def merged(engine: LocalEngine, output: Output, parts: Sequence[pa.Table]) -> EncodedMessage:
    """The parts of a message, summed by its key."""
    (message,) = engine.contract(merging(from_wire(engine.book, parts), output))
    return message


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[int, int, bytes | None]]:
    """The output, the bucket and the data of each row that a task has sent."""
    yield from zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)


def _row(number: int, bucket: int, part: pa.Table | None) -> pa.RecordBatch:
    data = None if part is None else bytes_of(part)
    columns = [
        pa.array([number], pa.int32()),
        pa.array([bucket], pa.int32()),
        pa.array([data], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["output", "bucket", "data"])


def bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def table_of(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _in_utc(table: pa.Table) -> pa.Table:
    """Timestamps come in the session's time zone, which is nobody's business."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            table = table.set_column(
                at, field.name, table.column(at).cast(pa.timestamp("us", "UTC"))
            )
    return table


def _groups(split: Split) -> str:
    return f", row groups {split.groups[0]} to {split.groups[-1]}" if split.groups else ""


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """An error of a task, with what it was reading in its one line."""
    try:
        yield
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        name = "" if isinstance(error, CalitreeError) else f"{type(error).__name__}: "
        raise EngineError(f"{name}{reason} (reading {where})") from error
