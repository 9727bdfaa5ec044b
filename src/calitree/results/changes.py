"""Columns that stand beside measures: their names, and how much two values of a measure differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.errors import QueryError, did_you_mean
from calitree.query.binder import Query, check_list
from calitree.query.measure import Measure

if TYPE_CHECKING:
    import pyarrow as pa


def changes(measure: Measure, sides: Sequence[Sequence[Any]], dtype: pa.DataType) -> pa.Array:
    """The differences of numbers before and after; counts and sums change from or to 0 where there is none."""
    absent = absent_value(measure)
    return _numbers([_change(a, b, absent) for a, b in zip(*sides, strict=True)], dtype)


def ratios(measure: Measure, sides: Sequence[Sequence[Any]]) -> pa.Array:
    """The quotients of numbers after and before, as doubles; NULL where the divisor is zero."""
    import pyarrow as pa

    absent = absent_value(measure)
    return pa.array([_ratio(a, b, absent) for a, b in zip(*sides, strict=True)], pa.float64())


def absent_value(measure: Measure) -> int | None:
    """What a measure is over no rows: 0 for counts and sums, though SQL's sum is NULL."""
    return 0 if isinstance(measure.plain, exp.Count | exp.Sum) else None


def _change(before: Any, after: Any, absent: int | None) -> Any:
    before = absent if before is None else before
    after = absent if after is None else after
    return None if before is None or after is None else after - before


def _ratio(before: Any, after: Any, absent: int | None) -> float | None:
    after = absent if after is None else after
    return None if not before or after is None else float(after) / float(before)


def is_number(dtype: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers."""
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_integer(dtype) or kinds.is_floating(dtype) or kinds.is_decimal(dtype))


def _numbers(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Differences, which may need a digit more than what they are of, and a sign."""
    import pyarrow as pa

    from calitree.sql.kernels.values import MAX_DIGITS

    if pa.types.is_integer(dtype):
        fits = all(value is None or -(2**63) <= value < 2**63 for value in values)
        return pa.array(values, pa.int64() if fits else pa.decimal128(MAX_DIGITS, 0))
    if pa.types.is_decimal(dtype):
        dtype = pa.decimal128(MAX_DIGITS, dtype.scale)
    return pa.array(values, dtype)


def chosen_measures(query: Query, names: Sequence[str] | None) -> dict[str, Measure]:
    """Some of the measures of a query, or all."""
    known = dict(query.measures)
    if names is None:
        return known
    check_list("measures", names, "names")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise QueryError(f"The result has no measure {name!r}.{did_you_mean(str(name), known)}")
    return {name: known[name] for name in names}


def check_new_names(columns: Collection[str], measures: Collection[str], *suffixes: str) -> None:
    """Refuse columns beside measures whose names others have."""
    for name in (f"{measure}_{suffix}" for measure in measures for suffix in suffixes):
        if name in columns:
            raise QueryError(
                f"The result has a column {name!r} already; give it another name in the question."
            )
