"""Arrow's types in a saved tree: as text, and as types that every engine can read from Parquet."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from calitree.errors import SavedError
from calitree.storage.filesystem import reason

if TYPE_CHECKING:
    import pyarrow as pa


def text_of_schema(schema: pa.Schema) -> str:
    """A schema as text for JSON."""
    return base64.b64encode(schema.remove_metadata().serialize()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """The schema that `text_of_schema` has written."""
    import pyarrow as pa

    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
        if len(set(schema.names)) != len(schema):
            raise ValueError("a column is there twice")
    except (pa.ArrowException, ValueError, OSError) as error:
        raise SavedError(f"The saved tree has wrong types of columns: {reason(error)}.") from error
    return schema


def portable(column: Any) -> Any:
    """The column in a type that every engine can read; as it is if its values do not fit that.

    An instant is a number of microseconds: Spark would write it in a type that only Spark can read.
    """
    import pyarrow as pa

    target = _portable_type(column.type)
    try:
        if pa.types.is_timestamp(target) and target.tz is not None:
            return column.cast(target).cast(pa.int64())
        return column if target == column.type else column.cast(target)
    except pa.ArrowInvalid:
        return column


def original(column: Any, dtype: pa.DataType) -> Any:
    """What `portable` made, as the type that it was."""
    import pyarrow as pa

    if column.type == dtype:
        return column
    if pa.types.is_null(dtype):
        return pa.chunked_array([pa.nulls(len(column))])
    if pa.types.is_timestamp(dtype) and pa.types.is_int64(column.type):
        column = column.cast(pa.timestamp("us", dtype.tz))
    return column.cast(dtype)


def _portable_type(dtype: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(dtype):
        return _portable_type(dtype.value_type)
    if kinds.is_timestamp(dtype):
        return pa.timestamp("us", dtype.tz)
    if kinds.is_time(dtype):
        return pa.time64("us")
    if kinds.is_decimal256(dtype):
        return pa.decimal128(38, min(38, dtype.scale))
    if kinds.is_null(dtype):
        return pa.int32()
    if kinds.is_large_string(dtype) or kinds.is_string_view(dtype):
        return pa.string()
    if kinds.is_large_binary(dtype) or kinds.is_fixed_size_binary(dtype):
        return pa.binary()
    return pa.date32() if kinds.is_date64(dtype) else dtype
