"""Whether two contestants gave the same answer. A fast wrong answer is worth nothing.

It is not the comparison that `WideTable.verify` uses: what is measured does not judge itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

RELATIVE = 1e-9
ROUNDING = 1e-12
"""A sum in which positive and negative terms nearly cancel has few digits left to agree in; such a
one may differ by this much of the largest in its column."""


@dataclass(frozen=True)
class Answer:
    """A table whose first `keys` columns say which group a row is.

    The names of its columns and the order of its rows are the contestant's own.
    """

    table: pa.Table
    keys: int = 0


Answers = Mapping[str, Answer]
"""What a contestant found out, by question. Two are compared in what both were asked."""


def difference(ours: Answers, theirs: Answers) -> str:
    """The first difference as text, or nothing."""
    both = [name for name in ours if name in theirs]
    if not both:
        return f"nothing to compare: {sorted(ours)} and {sorted(theirs)}"
    for name in both:
        text = table_difference(ours[name], theirs[name])
        if text:
            return f"{name}: {text}"
    return ""


def table_difference(ours: Answer, theirs: Answer) -> str:
    """Floats agree to a relative 1e-9, all else exactly; the order of rows does not matter."""
    a, b = ours.table, theirs.table
    if ours.keys != theirs.keys or a.num_columns != b.num_columns:
        return (
            f"{a.num_columns} columns ({ours.keys} keys), not {b.num_columns} ({theirs.keys} keys)"
        )
    if a.num_rows != b.num_rows:
        return f"{a.num_rows} rows, not {b.num_rows}"
    left, right = (_sorted(answer.table, answer.keys) for answer in (ours, theirs))
    for i, name in enumerate(a.column_names):
        x, y = left.column(i), right.column(i)
        is_float = pa.types.is_floating(x.type) or pa.types.is_floating(y.type)
        at = _floats(x, y) if is_float and i >= ours.keys else _exact(x, y)
        if at is not None:
            group = [left.column(k)[at].as_py() for k in range(ours.keys)]
            shown = f" of {group}" if group else ""
            return f"{name}{shown} is {x[at].as_py()!r}, not {y[at].as_py()!r}"
    return ""


def _sorted(table: pa.Table, keys: int) -> pa.Table:
    """By its keys, under names that cannot clash and types that sort alike."""
    table = table.rename_columns([f"c{i}" for i in range(table.num_columns)])
    if not keys:
        return table
    for i in range(keys):
        table = table.set_column(i, f"c{i}", _plain(table.column(i)))
    return table.sort_by([(f"c{i}", "ascending") for i in range(keys)])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        return _plain(column.cast(dtype.value_type))
    if pa.types.is_integer(dtype):
        return column.cast(pa.int64())
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return column.cast(pa.string())
    return column


def _exact(x: pa.ChunkedArray, y: pa.ChunkedArray) -> int | None:
    """Where they first differ. Python, not Arrow, knows that an integer can equal a decimal."""
    if x.type == y.type and x.equals(y):
        return None
    pairs = enumerate(zip(x.to_pylist(), y.to_pylist(), strict=True))
    return next((at for at, (a, b) in pairs if not _same(a, b)), None)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return bool(a == b or (a != a and b != b))


def _floats(x: pa.ChunkedArray, y: pa.ChunkedArray) -> int | None:
    """Where they first differ by more than rounding."""
    a, b = (c.cast(pa.float64()).to_numpy(zero_copy_only=False) for c in (x, y))
    null_a, null_b = (c.is_null().to_numpy() for c in (x, y))
    size = np.maximum(np.abs(a), np.abs(b))
    known = size[np.isfinite(size)]
    least = ROUNDING * known.max() if len(known) else 0.0
    with np.errstate(invalid="ignore"):
        close = (a == b) | (np.abs(a - b) <= np.maximum(RELATIVE * size, least))
    close |= np.isnan(a) & np.isnan(b)
    wrong = np.flatnonzero(~close | (null_a != null_b))
    return int(wrong[0]) if len(wrong) else None
