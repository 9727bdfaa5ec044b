"""How an answer differs between two versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.cache import cached_property
from calitree.query.binder import Measures, Question
from calitree.results.result import Result
from calitree.results.tabular import Tabular, text_of

if TYPE_CHECKING:
    import pyarrow as pa


Ask = Callable[[Question], tuple[Result, Result]]
"""What a question is answered before and after."""


class Difference(Tabular):
    """The groups whose measures are not the same, each measure before and after.

    A measure `n` gives the columns `n_before` and `n_after`, and if it is a number `n_change`. A group
    that was not there before, or is not after, has NULL on that side; counts and sums then change from
    or to 0, and other measures by NULL.
    """

    def __init__(self, ask: Ask, question: Question) -> None:
        self._ask = ask
        self.before, self.after = ask(question)

    def query(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Difference:
        """Another question about the same two versions."""
        return Difference(self._ask, Question(group_by, where, measures, relations))

    @cached_property
    def _arrow(self) -> pa.Table:
        import pyarrow as pa

        keys = [text for text, _ in self.before.query.group_by]
        measures = dict(self.before.query.measures)
        names = list(measures)
        then, now = self.before.arrow(), self.after.arrow()
        old, new = _by_key(then, keys), _by_key(now, keys)
        differ = [
            key
            for key in dict.fromkeys((*old, *new))
            if key not in old or key not in new or not _same(old[key], new[key], names)
        ]
        columns: dict[str, Any] = {}
        for at, name in enumerate(keys):
            values = [(old.get(key) or new[key])[name] for key in differ]
            columns[name] = pa.array(values, then.schema.field(at).type)
        for name in names:
            dtype = _wider(then.schema.field(name).type, now.schema.field(name).type)
            sides = []
            for table in (then, now):
                # An exact number may be a floating-point one on the other side.
                cells = table.column(name).cast(dtype, safe=False).to_pylist()
                found = dict(zip(_keys(table, keys), cells, strict=True))
                sides.append([found.get(key) for key in differ])
            columns[f"{name}_before"] = pa.array(sides[0], dtype)
            columns[f"{name}_after"] = pa.array(sides[1], dtype)
            if _is_number(dtype):
                nothing = 0 if isinstance(measures[name].plain, exp.Count | exp.Sum) else None
                change = [_change(a, b, nothing) for a, b in zip(*sides, strict=True)]
                columns[f"{name}_change"] = _numbers(change, dtype)
        return pa.table(columns)

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __repr__(self) -> str:
        return text_of(self._arrow.slice(0, 10).to_pylist(), self._arrow.column_names, len(self))


def _change(before: Any, after: Any, nothing: int | None) -> Any:
    before = nothing if before is None else before
    after = nothing if after is None else after
    return None if before is None or after is None else after - before


def _by_key(table: pa.Table, keys: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return dict(zip(_keys(table, keys), table.to_pylist(), strict=True))


def _keys(table: pa.Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(_key(row[name]) for name in keys) for row in table.select(keys).to_pylist()]


def _key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else value


def _same(old: dict[str, Any], new: dict[str, Any], names: Sequence[str]) -> bool:
    return all(_key(old[name]) == _key(new[name]) for name in names)


def _is_number(dtype: pa.DataType) -> bool:
    import pyarrow as pa

    kinds = pa.types
    return bool(kinds.is_integer(dtype) or kinds.is_floating(dtype) or kinds.is_decimal(dtype))


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """A type that has the values of both: what a sum needs depends on how large it is."""
    import pyarrow as pa

    kinds = pa.types
    if a == b or kinds.is_null(a):
        return b
    if kinds.is_null(b):
        return a
    if kinds.is_floating(a) or kinds.is_floating(b):
        return pa.float64()
    if kinds.is_decimal(a) or kinds.is_decimal(b):
        scale = max(each.scale for each in (a, b) if kinds.is_decimal(each))
        return pa.decimal128(38, scale)
    return pa.int64()


def _numbers(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Differences, which may need a digit more than what they are of, and a sign."""
    import pyarrow as pa

    if pa.types.is_integer(dtype):
        fits = all(value is None or -(2**63) <= value < 2**63 for value in values)
        return pa.array(values, pa.int64() if fits else pa.decimal128(38, 0))
    return pa.array(values, pa.decimal128(38, dtype.scale) if pa.types.is_decimal(dtype) else dtype)
