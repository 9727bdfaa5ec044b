"""Arrow types as columns of relations have them: few, one for each way in which values are encoded.

Users hand over many types for one kind of value: dictionaries, run ends, views, large and small offsets,
coarse time units, extension types. They are converted where rows enter, so that engines need not know
them. A column of another type is left out of its relation; a question that names it is told why.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import EngineError, SchemaError

MAX_DIGITS = 38
"""Of a decimal in 128 bits."""

_PLAIN = frozenset(
    (
        *(pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.float32(), pa.float64()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    )
)
_REPLACED = {
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    **dict.fromkeys((pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), pa.binary()),
}
_EXTENSIONS = {"arrow.uuid": pa.string(), "arrow.json": pa.string(), "arrow.bool8": pa.bool_()}

_LISTS = "give its elements as rows of a relation of their own"
_HINTS = {
    "pandas.period": "convert it to timestamps, as Series.dt.to_timestamp does",
    "pandas.interval": "give its two ends as columns",
    "arrow.fixed_shape_tensor": _LISTS,
}


class SupportedColumns(NamedTuple):
    """The columns of a source that can be used, and for every other one why it cannot."""

    schema: pa.Schema
    unsupported: dict[str, str]


def plain_type(dtype: pa.DataType) -> pa.DataType | None:
    """The type that a column of this type has in a relation; None if it cannot be used.

    >>> plain_type(pa.dictionary(pa.int8(), pa.large_string())), plain_type(pa.list_(pa.int8()))
    (DataType(string), None)
    """
    if dtype in _PLAIN:
        return dtype
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _EXTENSIONS.get(dtype.extension_name)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return plain_type(dtype.value_type)
    if t.is_decimal(dtype):
        scale, digits = max(dtype.scale, 0), dtype.precision - min(dtype.scale, 0)
        return pa.decimal128(min(digits, MAX_DIGITS), scale) if scale <= MAX_DIGITS else None
    if t.is_timestamp(dtype):
        return dtype if dtype.unit == "ns" else pa.timestamp("us", dtype.tz)
    if t.is_time(dtype):
        return dtype if dtype.unit == "ns" else pa.time64("us")
    if t.is_duration(dtype):
        return dtype if dtype.unit == "ns" else pa.duration("us")
    if t.is_fixed_size_binary(dtype):
        return pa.binary()
    return _REPLACED.get(dtype)


def supported_columns(name: str, schema: pa.Schema, *, is_read: bool = False) -> SupportedColumns:
    """The columns of a relation, in the types that they have there; `name` is for errors.

    If the rows are read, they were converted (`plain_table`) unless their values do not fit.
    """
    types = {field.name: plain_type(field.type) for field in schema}
    if is_read:
        types = {f.name: f.type if types[f.name] == f.type else None for f in schema}
    fields = [pa.field(label, dtype) for label, dtype in types.items() if dtype is not None]
    unsupported = {f.name: reason(f.type) for f in schema if types[f.name] is None}
    if unsupported and not fields:
        listed = "; ".join(f"{label} is {why}" for label, why in unsupported.items())
        raise SchemaError(f"{name} has no column that can be used: {listed}.")
    return SupportedColumns(pa.schema(fields), unsupported)


def plain_table(table: pa.Table) -> pa.Table:
    """A table with its columns as relations have them; those that cannot be used are as they were."""
    for at, column in enumerate(table.columns):
        dtype = plain_type(column.type)
        if dtype not in (None, column.type):
            with suppress(pa.ArrowInvalid):  # digits of a decimal, or years, that do not fit
                converted = _converted(column, dtype)
                table = table.set_column(at, table.field(at).name, converted)
    return table


def plain_column(label: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that was read from a file, as relations have it; `label` is for errors."""
    dtype = plain_type(column.type)
    try:
        return column if dtype is None else _converted(column, dtype)
    except pa.ArrowInvalid as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise EngineError(
            f"{label} is {column.type}, and not all of its values fit {dtype} ({first}). Cast it in its "
            "source."
        ) from None


def reason(dtype: pa.DataType) -> str:
    """The end of a sentence that begins with the name of a column: why it cannot be used."""
    plain = plain_type(dtype)
    if plain is None:
        return f"{dtype}, which cannot be used here: {_hint(dtype)}"
    return f"{dtype}, and not all of its values fit {plain}: cast it in its source"


def _hint(dtype: pa.DataType) -> str:
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _HINTS.get(dtype.extension_name, f"give its storage, {dtype.storage_type}")
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _hint(dtype.value_type)
    if t.is_struct(dtype):
        return "give its fields as columns"
    if t.is_interval(dtype):
        return "give it as a duration, or as a number of months"
    if t.is_decimal(dtype):
        return f"cast it to a decimal of at most {MAX_DIGITS} digits"
    return _LISTS if t.is_nested(dtype) else "cast it in its source"


def _converted(column: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    if column.type == dtype:
        return column
    chunks = [piece for chunk in column.chunks for piece in _pieces(chunk, dtype)]
    return pa.chunked_array(chunks, dtype)


def _pieces(array: pa.Array, dtype: pa.DataType) -> list[pa.Array]:
    """An array in one piece, or where its text is too much for the offsets of one, in several."""
    try:
        return [_plain(array, dtype)]
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        if len(array) < 2 or not (pa.types.is_string(dtype) or pa.types.is_binary(dtype)):
            raise
        half = len(array) // 2
        return [*_pieces(array[:half], dtype), *_pieces(array[half:], dtype)]


def _plain(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        is_uuid = array.type.extension_name == "arrow.uuid"
        return _uuid_texts(array.storage) if is_uuid else _plain(array.storage, dtype)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array), dtype)
    if pa.types.is_dictionary(array.type):
        return pc.take(_plain(array.dictionary, dtype), array.indices)
    return array if array.type == dtype else array.cast(dtype)


_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_HYPHENS = (8, 13, 18, 23)
_UUID_LENGTH = 36


def _uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs as they are written: their text has the same order, and conditions can name them."""
    count = len(array)
    data = np.empty(0, np.uint8)
    if count:
        filled = array.fill_null(bytes(16))
        data = np.frombuffer(filled.buffers()[1], np.uint8, 16 * count, 16 * filled.offset)
    texts = np.full((count, _UUID_LENGTH), ord("-"), np.uint8)
    texts[:, np.setdiff1d(np.arange(_UUID_LENGTH), _HYPHENS)] = _HEX[data].reshape(count, 32)
    lines = pa.py_buffer(np.ascontiguousarray(texts))
    fixed = pa.Array.from_buffers(pa.binary(_UUID_LENGTH), count, [None, lines])
    written = fixed.cast(pa.binary()).cast(pa.string())
    return pc.if_else(array.is_valid(), written, None) if array.null_count else written
