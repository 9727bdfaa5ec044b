"""What Spark's tasks do: read rows of a relation, contract them by the local engine, return messages.

The rows are either *splits* (a file and some of its row groups), of which Spark hands out the
numbers and which a task reads with pyarrow; or what Spark itself has read and hands over as Arrow
data. The driver makes a `ScanTask` and a `MergeTask` for others to run; by itself it calls only
`merged` and the functions that encode and decode what is sent.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from calitree.cache import LRUCache
from calitree.engines.api.contraction import Contraction, Input, Match, Output, Table
from calitree.engines.local import LocalEngine
from calitree.engines.local.encoding.buckets import buckets_of
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.tables.tables import ArrowColumns, EncodedMessage, EncodedRelation
from calitree.engines.local.tables.wire import from_wire, merging, to_wire
from calitree.engines.spark.fields import arrow_for_spark, in_process_type
from calitree.errors import CalitreeError, EngineError
from calitree.sql.parser import Expression
from calitree.storage.filesystem import shown
from calitree.storage.parquet import Split, read_split

SCHEMA = "output int, bucket int, data binary"
_ARROW_SCHEMA = pa.schema({"output": pa.int32(), "bucket": pa.int32(), "data": pa.binary()})

PARTS_PER_MERGE = 8
"""Partial messages of one output that a task collects before it sums them."""

MAX_CODEBOOK_VALUES = 1 << 23
"""Distinct values that a Python process may have encoded before it starts a new codebook."""

BATCH_ROWS = 1 << 20
"""Rows from Spark that are collected before a contraction."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`."""

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class FileSplits:
    """Rows that a task reads by itself: what Spark sends are numbers of splits."""

    splits: tuple[Split, ...]
    types: Mapping[str, pa.DataType]
    """The columns to read, and their types."""
    attributes: Mapping[str, str]
    """The column of each attribute."""

    def tables(self, batches: Batches) -> Iterator[tuple[pa.Table, str]]:
        """The rows of each split, and where they are from."""
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
    attributes: Mapping[str, str]
    """The column of each attribute."""

    def tables(self, batches: Batches) -> Iterator[tuple[pa.Table, str]]:
        """The rows in larger batches, and where they are from."""
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(held.num_rows for held in waiting) >= BATCH_ROWS:
                yield _in_process(pa.Table.from_batches(waiting)), self.label
                waiting = []
        if waiting:
            yield _in_process(pa.Table.from_batches(waiting)), self.label


@dataclass(frozen=True)
class ReadTask:
    """Reads the splits of a relation into a frame of Spark's."""

    label: str
    source: FileSplits

    def run(self, batches: Batches) -> Batches:
        """What `mapInArrow` calls in a task."""
        for rows, _ in self.source.tables(batches):
            sent = arrow_for_spark(self.label, rows)
            types = [pa.time64("ns") if pa.types.is_time(t) else t for t in sent.schema.types]
            fields = zip(sent.column_names, types, strict=True)  # of a time, Spark counts these
            yield from sent.cast(pa.schema(fields)).to_batches()


@dataclass(frozen=True)
class SentInput:
    """A message as it is sent to tasks: encoded rows, and the column of each attribute."""

    rows: bytes
    attributes: Mapping[str, str]
    key: tuple[str, ...] = ()
    known: bytes = b""
    """Across an outer join, the rows that have the keys."""

    def received(self, book: Codebook) -> Input:
        """The message in a task."""
        match = Match(self.key, _received(book, self.known)) if self.key else None
        return Input(_received(book, self.rows), self.attributes, match=match)


def sent_input(given: Input) -> SentInput:
    """A message of the driver's, to be sent."""
    match = given.match
    key, known = (match.key, _sent(match.known)) if match else ((), b"")
    return SentInput(_sent(given.table), given.attributes, key, known)


def _sent(table: Table) -> bytes:
    assert isinstance(table, EncodedMessage)
    return bytes_of(to_wire(table))


def _received(book: Codebook, rows: bytes) -> EncodedMessage:
    return from_wire(book, [table_of(rows)])


@dataclass(frozen=True)
class ScanTask:
    """A scan as it is sent to tasks, with the messages but without the rows of the relation."""

    name: str
    """Unique, so that a Python process that runs several tasks decodes the messages once."""
    source: FileSplits | SparkRows
    relation: int
    """The position of the relation among the inputs."""
    derived: Mapping[str, Expression]
    """The derived attributes of the relation."""
    messages: Mapping[int, SentInput]
    """The other inputs, by their positions."""
    outputs: tuple[Output, ...]
    limit: int
    """Bytes that one bucket of one part of a message may have.

    A larger message is not returned; a row without data says so.
    """
    buckets: int
    """Into how many buckets the rows of each message are hashed."""

    def run(self, batches: Batches) -> Batches:
        """What `mapInArrow` calls in a task."""
        sums = [_PartialSum(output, self.limit * self.buckets) for output in self.outputs]
        for rows, where in self.source.tables(batches):
            engine, messages = _prepared.of(self.name, self._prepare)
            relation = EncodedRelation(engine.book, ArrowColumns(rows))
            inputs = {**messages, self.relation: self._scanned(relation)}
            given = tuple(inputs[at] for at in sorted(inputs))
            with _reading(where):
                results = engine.contract(Contraction(given, self.outputs))
            for total, message in zip(sums, results, strict=True):
                total.add(to_wire(message))
            if engine.book.values > MAX_CODEBOOK_VALUES:
                _prepared.clear()
            if all(total.is_too_large for total in sums):
                break
        for number, (total, output) in enumerate(zip(sums, self.outputs, strict=True)):
            if total.is_too_large:
                yield _row(number, 0, None)
            for table in total.tables():
                parts = buckets_of(table, output.keep, self.buckets)
                yield from (_row(number, bucket, part) for bucket, part in parts)

    def _scanned(self, relation: EncodedRelation) -> Input:
        return Input(relation, self.source.attributes, self.derived)

    def _prepare(self) -> tuple[LocalEngine, dict[int, Input]]:
        # After every task PySpark runs a garbage collection over all that is loaded by now.
        gc.freeze()
        _keep_freed_memory()
        engine = LocalEngine(threads=1)
        return engine, {at: sent.received(engine.book) for at, sent in self.messages.items()}


_prepared = LRUCache[tuple[LocalEngine, dict[int, Input]]](1)


@dataclass(frozen=True)
class MergeTask:
    """Sums, bucket by bucket, the parts of messages that other tasks have returned."""

    outputs: tuple[Output, ...]
    limit: int
    """Bytes that one bucket of a message may have."""

    def run(self, batches: Batches) -> Batches:
        """What `mapInArrow` calls in a task that has got all parts of its buckets."""
        sums: dict[tuple[int, int], _PartialSum] = {}
        too_large: set[int] = set()
        for batch in batches:
            for number, bucket, data in rows_of(batch):
                if data is None:
                    too_large.add(number)
                else:
                    empty = _PartialSum(self.outputs[number], self.limit)
                    sums.setdefault((number, bucket), empty).add(table_of(data))
        too_large |= {number for (number, _), total in sums.items() if total.is_too_large}
        for number in too_large:
            yield _row(number, 0, None)
        for (number, bucket), total in sums.items():
            if number not in too_large:
                yield from (_row(number, bucket, table) for table in total.tables())


class _PartialSum:
    """Parts of one message, summed now and then; dropped once one is too large."""

    def __init__(self, output: Output, limit: int) -> None:
        self.output, self.limit = output, limit
        self.is_too_large = False
        self.parts: list[pa.Table] = []

    def add(self, part: pa.Table) -> None:
        self.parts.append(part)
        if len(self.parts) >= PARTS_PER_MERGE:
            self.parts = [self._merged()]
        if self.is_too_large or self.parts[-1].nbytes > self.limit:
            self.is_too_large, self.parts = True, []

    def tables(self) -> list[pa.Table]:
        """The sum as one table; none if there was no part, or too much."""
        return [self._merged()] if len(self.parts) > 1 else self.parts

    def _merged(self) -> pa.Table:
        return to_wire(merged(LocalEngine(threads=1), self.output, self.parts))


def merged(engine: LocalEngine, output: Output, parts: Sequence[pa.Table]) -> EncodedMessage:
    """The parts of a message, summed by its key."""
    (message,) = engine.contract(merging(from_wire(engine.book, parts), output))
    return message


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[int, int, bytes | None]]:
    """The output, the bucket and the data of each row that a task has returned."""
    yield from zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)


def _row(number: int, bucket: int, part: pa.Table | None) -> pa.RecordBatch:
    data = None if part is None else bytes_of(part)
    row = {"output": number, "bucket": bucket, "data": data}
    return pa.RecordBatch.from_pylist([row], _ARROW_SCHEMA)


def bytes_of(table: pa.Table) -> bytes:
    """A table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_of(data: bytes) -> pa.Table:
    """A table from Arrow's stream format."""
    return pa.ipc.open_stream(data).read_all()


def _in_process(table: pa.Table) -> pa.Table:
    """Rows of Spark's in the types that they have in this process."""
    fields = [field.with_type(in_process_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _keep_freed_memory() -> None:
    """Let this process use what one split has freed for the next, and not give it back in between.

    Else the pages of every array are faults again: 50,000 in a scan of ten million rows, a fifth of its
    time. Only glibc can be told so; others ignore it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 64 << 20)


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
