"""Rows of Python values that are of the types of a relation's columns already.

Others are inferred, compared and converted (`storage.frames`, `dml.fitting`), which takes longer than all else
that is done for a single row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from calitree.interrupts import run

_PYTHON_TYPES: dict[int, type] = {
    **dict.fromkeys(
        (
            *(dtype.id for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
            *(dtype.id for dtype in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
        ),
        int,
    ),
    pa.float64().id: float,
    pa.string().id: str,
    pa.bool_().id: bool,
    pa.date32().id: date,
    pa.decimal128(1).id: Decimal,
}
"""By the id of an Arrow type, the Python type whose values it holds as they are, or refuses."""


def rows_of_types(rows: Sequence[Any], types: pa.Schema) -> pa.Table | None:
    """Dictionaries as a table of some of these columns; None if names or values are not just so.

    >>> types = pa.schema({"item": pa.int32(), "price": pa.decimal128(9, 2)})
    >>> rows_of_types([{"price": Decimal("1.5"), "item": 7}], types).to_pylist()
    [{'item': 7, 'price': Decimal('1.50')}]
    >>> rows_of_types([{"item": "7"}], types) is None
    True
    """
    return run(lambda: _table(rows, types), len(rows))


def _table(rows: Sequence[Any], types: pa.Schema) -> pa.Table | None:
    if not rows or not all(type(row) is dict for row in rows):
        return None
    labels = rows[0].keys()
    fields = [field for field in types if field.name in labels]
    if not fields or len(fields) < len(labels) or any(row.keys() != labels for row in rows[1:]):
        return None
    for field in fields:
        given = {type(row[field.name]) for row in rows}
        given.discard(type(None))
        if given and given != {_PYTHON_TYPES.get(field.type.id)}:
            return None
    try:
        columns = pa.array(rows, pa.struct(fields)).flatten()
    except (pa.ArrowException, ValueError, OverflowError):  # a value does not fit
        return None
    return pa.Table.from_arrays(
        columns, schema=types if len(fields) == len(types) else pa.schema(fields)
    )
