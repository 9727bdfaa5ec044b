"""Messages as Arrow tables and back: for another process, for a file, or to merge parts of one.

Attributes travel as values, since codes mean nothing elsewhere. Annotations travel as they are
(whole numbers, doubles), with what they stand for in the metadata of their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from calitree.engines.api.contraction import Column, Contraction, Input, Output, Stored
from calitree.engines.local.annotation import values as v
from calitree.engines.local.annotation.labels import from_column
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.grouping import contiguous
from calitree.types import kind_of_arrow

SCALE, EXACT, POSITIVE, LABELS = b"scale", b"exact", b"positive", b"labels"


def to_wire(message: EncodedMessage) -> pa.Table:
    """The whole message; a table of no columns still has its number of rows."""
    fields: list[pa.Field] = []
    arrays: list[pa.Array] = []
    for name in message.attributes:
        arrays.append(message.values(name, {name: name}))
        fields.append(pa.field(name, arrays[-1].type))
    for name, value in message.annotations.items():
        arrays.append(_plain(value))
        fields.append(pa.field(name, arrays[-1].type, metadata=_described(value)))
    if not fields:
        return pa.table({"": pa.nulls(message.rows)}).select([])
    return pa.table(arrays, schema=pa.schema(fields))


def from_wire(book: Codebook, parts: Sequence[pa.Table]) -> EncodedMessage:
    """One message of one or more parts. Parts that share a key leave it with several rows."""
    with book.eviction.use():
        return _read(book, parts)


def _read(book: Codebook, parts: Sequence[pa.Table]) -> EncodedMessage:
    first = parts[0].schema
    codes, values = {}, {}
    for name in first.names:
        columns = [part.column(name) for part in parts]
        if first.field(name).metadata is None:
            codes[name] = book.dictionary(name).encode(_concatenated(columns))
        else:
            described = [part.schema.field(name).metadata for part in parts]
            values[name] = _together(
                [_value(c, m) for c, m in zip(columns, described, strict=True)]
            )
    kinds = {name: kind_of_arrow(first.field(name).type) for name in codes}
    return EncodedMessage(book, codes, values, sum(part.num_rows for part in parts), kinds)


def merging(message: EncodedMessage, output: Output) -> Contraction:
    """The contraction that sums the parts of an output by its key."""
    given = Input(message, {name: name for name in output.keep})
    columns = tuple(
        Column(column.name, column.semiring, (Stored(0, column.name),)) for column in output.columns
    )
    return Contraction((given,), (Output((0,), (), output.keep, columns),))


def _plain(value: Value) -> pa.Array:
    """A value as numbers: without its scale, but with what labels stand for."""
    if value.labels is not None:
        return v.to_arrow(value)
    if value.is_wide:
        return v.wide_decimals(value, 0)
    return pa.array(value.data, mask=None if value.valid is None else ~value.valid)


def _described(value: Value) -> dict[bytes, bytes]:
    flags = {EXACT: value.exact, POSITIVE: value.positive, LABELS: value.labels is not None}
    return {SCALE: b"%d" % value.scale, **{k: b"1" if on else b"" for k, on in flags.items()}}


def _value(column: pa.ChunkedArray, described: dict[bytes, bytes]) -> Value:
    value = from_column(column)
    if described[LABELS]:
        return value
    exact, positive = bool(described[EXACT]), bool(described[POSITIVE])
    return Value(
        value.data, value.valid, scale=int(described[SCALE]), exact=exact, positive=positive
    )


def _together(parts: list[Value]) -> Value:
    """The values of all parts. If some have become doubles, all do."""
    if len(parts) == 1:
        return parts[0]
    if any(part.labels is not None for part in parts):
        return from_column(_concatenated([pa.chunked_array([v.to_arrow(p)]) for p in parts]))
    parts = v.unified(parts)
    exact = all(part.exact for part in parts)
    data = np.concatenate([part.data for part in parts])
    valid = None
    if any(part.valid is not None for part in parts):
        every = [np.ones(len(p.data), bool) if p.valid is None else p.valid for p in parts]
        valid = np.concatenate(every)
    positive = all(part.positive for part in parts)
    return Value(data, valid, scale=parts[0].scale, exact=exact, positive=positive)


def _concatenated(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return contiguous(pa.chunked_array(chunks, columns[0].type))
