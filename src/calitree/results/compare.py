"""The groups of a result beside those of an earlier time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import QueryError
from calitree.grouping import contiguous
from calitree.query.binder import Question
from calitree.query.shift.moved import Moved
from calitree.query.shift.period import Period
from calitree.query.shift.times import Times
from calitree.results.asked import Asked, ResultLike
from calitree.results.changes import changes, check_new_names, is_number, ratios
from calitree.results.rollup import matching_rows
from calitree.results.summands import Array, same_type
from calitree.results.tabular import Tabular
from calitree.sql.analysis import Resolved
from calitree.sql.evaluator import evaluate
from calitree.sql.kernels.values import MAX_DIGITS, common_type
from calitree.sql.parser import typed
from calitree.types import kind_of_arrow

MAX_CALENDAR_ROWS = 200_000
"""Of a relation that may have one row for each time: five centuries of days, or 23 years of hours."""


class PeriodComparison(Tabular):
    """Each group of a result beside the same group a period earlier.

    Made by `Result.compare`. A measure `n` gives the columns `n` and `n_before`, and if it is a number
    `n_change` and `n_ratio`. A group that only one of the two has is NULL in the other; counts and sums then
    change from or to 0, and other measures by NULL.

    Attributes:
        result: The result that is compared.
        before: The answer about the earlier time.

    >>> wide.query(["price"], where="price > 9").compare(10, by="price").rows()[1]
    {'price': 20, 'revenue': 20, 'revenue_before': 10, 'revenue_change': 10, 'revenue_ratio': 2.0}
    """

    def __init__(
        self,
        result: ResultLike,
        asked: Asked,
        period: Period,
        by: str | None = None,
        on: str | None = None,
    ) -> None:
        times = Times(asked.snapshot.schema, asked.question, result.query)
        time = times.column(period, by, on)
        times.refuse_moving_measures(time)
        if on is None:
            _refuse_other_times(asked, times, time)
        self.result, self._period = result, period
        self._timed = times.timed(time, period)
        measures = dict(result.query.measures)
        check_new_names(result.columns, measures, "before", "change", "ratio")
        expressions = [
            *times.conditions,
            *(meaning for name, meaning in times.groups.items() if name not in self._timed),
        ]
        is_moved = any(time in expression.attributes for expression in expressions)
        if not is_moved and not self._timed:
            raise QueryError(
                f"This question has neither a group nor a filter of {time}, so nothing of it is "
                f"{period.text} earlier."
            )

        def earlier(days: int) -> ResultLike:
            if not is_moved:
                return result
            moved = Moved(times, time, period.with_days(days))
            return asked.ask(moved.question(self._timed))

        self.before = earlier(0)
        self._clamped = {days: earlier(days) for days in np.unique(self._excess).tolist() if days}

    @property
    def columns(self) -> list[str]:
        """The group-by columns, then each measure and what stands beside it."""
        return list(self._arrow.column_names)

    @cached_property
    def _excess(self) -> Array:
        """By how many days the group a period earlier, a period later, is before a group.

        A month before the 31st of March is the 28th of February, of which the 28th is a month later.
        """
        size = len(self.result)
        excess = np.zeros(size, np.int64)
        for name in self._timed if self._period.months else ():
            column = _column(self.result, name)
            again = self._forward(self._back(column))
            times = [_microseconds(column), _microseconds(again)]
            apart = pc.subtract(*times).fill_null(0).to_numpy(zero_copy_only=False)
            excess = np.where(excess == 0, apart // 86_400_000_000, excess)
        return excess

    def _back(self, column: pa.Array) -> pa.Array:
        return _evaluated(self._period.subtracted, column)

    def _forward(self, column: pa.Array) -> pa.Array:
        return _evaluated(self._period.added, column)

    @cached_property
    def _arrow(self) -> pa.Table:
        befores = {0: self.before, **self._clamped}
        partners = np.full(len(self.result), -1, np.int64)
        first = 0
        for days, before in befores.items():
            rows = self._partners(before)
            partners = np.where((self._excess == days) & (rows >= 0), rows + first, partners)
            first += len(before)
        only_before = self._only_before()
        columns: dict[str, Any] = {}
        for name, _ in self.result.query.group_by:
            own, theirs = _column(self.result, name), _column(self.before, name)
            more = theirs.take(pa.array(only_before))
            more = self._forward(more) if name in self._timed else more
            columns[name] = pa.concat_arrays(same_type(own, more))
        sides = [np.r_[partners, only_before], len(only_before)]
        for name, measure in self.result.query.measures:
            now, before = self._values(name, list(befores.values()), *sides)
            columns |= {name: now, f"{name}_before": before}
            if is_number(now.type):
                both = before.to_pylist(), now.to_pylist()
                columns[f"{name}_change"] = changes(measure, both, now.type)
                columns[f"{name}_ratio"] = ratios(measure, both)
        return pa.table(columns)

    def _values(
        self, name: str, befores: Sequence[ResultLike], partners: Array, only_before: int
    ) -> tuple[pa.Array, pa.Array]:
        """The values of a measure now and before, of one type."""
        now, *others = (_column(result, name) for result in (self.result, *befores))
        dtype = now.type
        for other in others:
            # An exact number may be a floating-point one on the other side.
            dtype = common_type(dtype, other.type, digits=MAX_DIGITS)
        now, *others = (column.cast(dtype, safe=False) for column in (now, *others))
        before = pa.concat_arrays(others).take(pa.array(partners, mask=partners < 0))
        return pa.concat_arrays([now, pa.nulls(only_before, dtype)]), before

    def _partners(self, before: ResultLike) -> Array:
        """For each group the row of the earlier answer that it is compared with; -1 if there is none."""
        names = [name for name, _ in self.result.query.group_by]
        if not names:
            return np.zeros(1, np.int64)
        own = {name: _column(self.result, name) for name in names}
        own |= {name: self._back(own[name]) for name in self._timed}
        return self._rows_among(own, {name: _column(before, name) for name in names})

    def _only_before(self) -> Array:
        """The rows of the earlier answer whose group, a period later, the result does not have."""
        names = [name for name, _ in self.result.query.group_by]
        if not names:
            return np.empty(0, np.int64)
        groups = {name: _column(self.before, name) for name in names}
        wanted = np.ones(len(self.before), bool)
        for name in self._timed:
            moved = self._forward(groups[name])
            again = pc.equal(*same_type(self._back(moved), groups[name])).fill_null(False)
            wanted &= again.to_numpy(zero_copy_only=False).astype(bool)
            groups[name] = moved
        rows = self._rows_among(groups, {name: _column(self.result, name) for name in names})
        return np.flatnonzero(wanted & (rows < 0))

    def _rows_among(self, groups: dict[str, pa.Array], among: dict[str, pa.Array]) -> Array:
        """Where groups are among others; a group without a time is nowhere."""
        pairs = [same_type(column, among[name]) for name, column in groups.items()]
        rows = matching_rows([own for own, _ in pairs], [other for _, other in pairs])
        for name in self._timed:
            known = groups[name].is_valid().to_numpy(zero_copy_only=False)
            rows = np.where(known, rows, -1)
        return rows


def _column(result: ResultLike, name: str) -> pa.Array:
    return contiguous(result.arrow().column(name))


def _microseconds(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())


def _evaluated(move: Any, column: pa.Array) -> pa.Array:
    """A column of times moved, by our rules."""
    kind = kind_of_arrow(column.type)
    node = move(exp.column("time"), kind)
    moved = typed(node, lambda table, name: Resolved(name, (), kind))
    values = evaluate(moved.node, {"time": column}, len(column))
    return values.cast(column.type) if kind.is_temporal else values


def _refuse_other_times(asked: Asked, times: Times, time: str) -> None:
    """An error if a filter or a group that stays as it is may be of the time too."""
    schema = times.schema
    owners = [name for name, _ in schema.attributes[time].columns if name in times.joined]
    beside = {a: name for name in owners for a in schema.attributes_of[name] if a != time}
    parts = {f"filter {condition}": condition for condition in times.conditions}
    parts |= {f"group {name!r}": meaning for name, meaning in times.groups.items()}
    for what, expression in parts.items():
        others = sorted(expression.attributes - {time})
        if any(times.kind(other).is_temporal for other in others):
            raise QueryError(
                f"The {what} is of another time than {time}. Give on={time!r} if it is to stay as it is."
            )
        calendars = dict.fromkeys(beside[other] for other in others if other in beside)
        if any(_is_calendar(asked, times, name, time) for name in calendars):
            raise QueryError(
                f"The {what} may be of the time too, as each {time} has one row. Write it as an expression "
                f"over {time}, or give on={time!r} if it is to stay as it is."
            )


def _is_calendar(asked: Asked, times: Times, relation: str, time: str) -> bool:
    """Whether a relation has one row for each time, so that its other columns follow from the time."""
    rows = times.schema.rows(relation)
    if rows > MAX_CALENDAR_ROWS:
        return False
    column = times.schema.columns_of[relation][time]
    name = exp.column(column, table=relation, quoted=True).sql()
    counted = asked.ask(Question([name], None, {"n": "count(*)"}, [relation]))
    return len(counted) == rows
