"""The queries for a `Gram`: one for all numbers, one for each column with levels, one for each two of those.

No row of the join is built for any of them.

With the same centres the sums are the same from call to call, whatever else is asked for, and their
messages are reused. Centres are rounded for that: the last digits of a mean depend on the order
in which the rows were summed, and the first ones stay when rows come and go.

Centres that were given, or are those of all folds, may be far from the mean of the rows concerned. That
shows in the sums: little of the squares is spread. Such sums are asked for again, around the mean.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from calitree.apps.regression.centres import MAX_ROUNDS, MIN_MEAN_SQUARE, doubtful, next_centre
from calitree.apps.regression.factors import (
    ROWS,
    CentredColumn,
    Factor,
    complete_rows,
    extremes_of,
    factors_of,
    products_of,
    total,
    totals,
)
from calitree.apps.regression.gram import Gram
from calitree.calibration.planning.plan import Plan
from calitree.errors import QueryError
from calitree.progress import Progress, progress_bar
from calitree.query.binder import Question
from calitree.sql.quoting import literal
from calitree.wide_table import WideTable

CONSTANT = 1e-14
"""Where less of the squares is spread, it is rounding, or too little to matter."""


class GramQuery:
    """The columns of a model, and the queries for the sums that are fitted.

    Text has levels, and so have the columns named in `categorical`. Rows where the target or a feature
    is NULL are left out, and those for which `where` is not true. `by` is a column whose values, such as
    the numbers of folds, have a `Gram` each.

    `centres` of its methods are values near the means of some numbers, by name, such as those of another
    `Gram`; the means of the others are queried first. A `Gram` whose means are elsewhere has other centres.
    """

    def __init__(
        self,
        wide: WideTable,
        target: str,
        features: Sequence[str],
        *,
        categorical: Collection[str] = (),
        where: str | None = None,
        by: str | None = None,
    ) -> None:
        self.wide, self.by = wide, () if by is None else (by,)
        self.target, self.features = factors_of(wide.schema, target, features, categorical)
        # In an order that does not depend on which of them is the target: the same sums are then asked
        # for in the same words.
        numbers = [self.target, *(factor for factor in self.features if not factor.has_levels)]
        self.numbers = sorted(numbers, key=lambda factor: factor.name)
        self.leveled = [factor.name for factor in self.features if factor.has_levels]
        self.where = complete_rows([self.target, *self.features], where)

    def questions(self, centres: Mapping[str, float]) -> list[Question]:
        """What is asked for the sums around these centres, which are those of all numbers.

        Calibrated as pivots, they leave little to compute for a model with one more feature.
        """
        columns = self._columns(centres)
        sums, pairs = totals(columns), list(combinations(self.leveled, 2))
        return [
            Question(self.by, self.where, {**sums, **products_of(columns)}),
            *(Question((*self.by, name), self.where, sums) for name in self.leveled),
            *(Question((*self.by, *pair), self.where, {"rows": ROWS}) for pair in pairs),
        ]

    def centres(self, given: Mapping[str, float] | None = None) -> dict[str, float]:
        """A value near the mean of each number: those given, and one query for the others."""
        return self._centres(given or {})[0]

    def gram(
        self,
        centres: Mapping[str, float] | None = None,
        progress: Progress | bool | None = False,
    ) -> Gram:
        """The sums over all rows, of a query without `by`."""
        return self.grams(centres, progress)[None]

    def grams(
        self,
        centres: Mapping[str, float] | None = None,
        progress: Progress | bool | None = False,
    ) -> dict[Any, Gram]:
        """The sums for each value of `by`."""
        pairs = list(combinations(self.leveled, 2))
        steps = ["products", *self.leveled, *(f"{one} × {other}" for one, other in pairs)]
        with progress_bar(progress) as listener:
            listener.begin(0, 1 + len(steps), "sums", "means", 0)
            around, plans = self._centres(centres or {})
            tables: list[pa.Table] = []
            for step, question in zip(steps, self.questions(around), strict=True):
                listener.begin(len(tables) + 1, 1 + len(steps), "sums", step, 0)
                tables.append(self._asked(question, plans))
            listener.end(1 + len(steps))
        return self._assembled(around, tables, plans)

    def _asked(self, question: Question, plans: list[Plan]) -> pa.Table:
        result = self.wide.ask(question)
        plans.append(result.plan)
        return result.arrow()

    def _columns(self, centres: Mapping[str, float]) -> list[CentredColumn]:
        return [factor.around(centres[factor.name]) for factor in self.numbers]

    def _centres(self, given: Mapping[str, float]) -> tuple[dict[str, float], list[Plan]]:
        centres = {factor.name: float(given.get(factor.name, 0.0)) for factor in self.numbers}
        unknown = [factor for factor in self.numbers if factor.name not in given]
        plans: list[Plan] = []
        for attempt in range(MAX_ROUNDS):
            if not unknown:
                break
            columns = [factor.around(centres[factor.name]) for factor in unknown]
            offsets, squares, constant = self._located(columns, plans, attempt > 0)
            settled = constant.copy()
            for i, factor in enumerate(unknown):
                if attempt == 0:
                    _check(factor, offsets[i], squares[i])
                if constant[i]:
                    centres[factor.name] += offsets[i]
                else:
                    centres[factor.name], settled[i] = next_centre(
                        centres[factor.name], offsets[i], squares[i]
                    )
            unknown = [factor for factor, known in zip(unknown, settled, strict=True) if not known]
        return centres, plans

    def _located(
        self, columns: list[CentredColumn], plans: list[Plan], extremes: bool
    ) -> tuple[list[float], list[float], list[bool]]:
        """The means of some columns and of their squares; if asked for, whether a column is constant."""
        measures = totals(columns)
        measures |= {f"p{i}": total(column, column) for i, column in enumerate(columns)}
        measures |= extremes_of(columns) if extremes else {}
        # By the same column as the products: what is calibrated for those then serves here too.
        table = self._asked(Question(self.by, self.where, measures), plans)
        matrix, count = _matrix(table, len(self.by)), len(columns)
        rows, *sums = matrix[:, : 1 + 2 * count].sum(axis=0).tolist()
        means = [value / (rows or 1) for value in sums]
        least, largest = np.split(matrix[:, 1 + 2 * count :], 2, axis=1)
        constant = [False] * count
        if extremes:
            constant = (least.min(axis=0) == largest.max(axis=0)).tolist()
            means[:count] = np.where(constant, least[0], means[:count]).tolist()
        return means[:count], means[count:], constant

    # -- the answers as matrices -----------------------------------------------------------------

    def _assembled(
        self, centres: Mapping[str, float], tables: list[pa.Table], plans: list[Plan]
    ) -> dict[Any, Gram]:
        first, *others = tables
        keys = first.column(0).to_pylist() if self.by else [None]
        rows, offsets, spread, away = self._moments(first, keys, centres, plans)
        by_level = {
            name: self._by_level(name, table, keys)
            for name, table in zip(self.leveled, others, strict=False)
        }
        levels = {name: values for name, (values, _) in by_level.items()}
        crossed = {
            (one, other): self._crossed(table, keys, levels[one], levels[other])
            for (one, other), table in zip(
                combinations(self.leveled, 2), others[len(by_level) :], strict=True
            )
        }
        grams = {
            key: Gram(
                target=self.target.name,
                features=tuple(factor.name for factor in self.features),
                numbers=tuple(factor.name for factor in self.numbers),
                centres=centres,
                rows=float(rows[k]),
                offsets=offsets[k],
                spread=spread[k],
                levels=levels,
                counts={name: values[k, :, 0] for name, (_, values) in by_level.items()},
                sums_by={
                    name: values[k, :, 1:] - np.outer(values[k, :, 0], offsets[k])
                    for name, (_, values) in by_level.items()
                },
                pairs={pair: blocks[k] for pair, blocks in crossed.items()},
                plans=tuple(plans),
            )
            for k, key in enumerate(keys)
        }
        return grams | {
            keys[k]: self._again(grams[keys[k]], keys[k], near) for k, near in away.items()
        }

    def _moments(
        self, table: pa.Table, keys: list[Any], centres: Mapping[str, float], plans: list[Plan]
    ) -> tuple[Any, Any, Any, dict[int, dict[str, float]]]:
        """For each key the number of rows, the offsets and the spread.

        And for each key around whose means they must be asked for again, centres that are nearer to them.
        """
        rows, sums, products = self._numbers(table, len(keys))
        offsets = sums / np.maximum(rows, 1)[:, None]
        spread = products - sums[:, :, None] * offsets[:, None, :]
        own, squares = (np.diagonal(array, axis1=1, axis2=2) for array in (spread, products))
        unsure = doubtful(rows, offsets, own, squares, self.numbers.index(self.target))
        constant = ~unsure & (own <= CONSTANT * squares)
        if unsure.any():
            columns, at = self._columns(centres), np.flatnonzero(unsure.any(axis=0))
            measures = extremes_of([columns[i] for i in at])
            extremes = self._asked(Question(self.by, self.where, measures), plans)
            order = np.argsort(self._key_codes(extremes, keys))
            least, largest = np.split(_matrix(extremes, len(self.by))[order], 2, axis=1)
            constant[:, at] |= least == largest
            offsets[:, at] = np.where(least == largest, least, offsets[:, at])
        spread[constant[:, :, None] | constant[:, None, :]] = 0.0
        away: dict[int, dict[str, float]] = {}
        for k, i in np.argwhere(unsure & ~constant).tolist():
            centre = centres[self.numbers[i].name]
            near, _ = next_centre(centre, offsets[k, i], squares[k, i] / rows[k])
            if near != centre:
                away.setdefault(k, dict(centres))[self.numbers[i].name] = near
        return rows, offsets, spread, away

    def _again(self, gram: Gram, key: Any, centres: Mapping[str, float]) -> Gram:
        """The sums of one key, around these centres."""
        query = copy.copy(self)
        if self.by:
            is_key = f"{self.by[0]} IS NULL" if key is None else f"{self.by[0]} = {literal(key)}"
            query.where = is_key if self.where is None else f"({self.where}) AND {is_key}"
        (again,) = query.grams(centres).values()
        sums_by = {name: np.zeros_like(sums) for name, sums in gram.sums_by.items()}
        for name, sums in again.sums_by.items():
            sums_by[name][[gram.levels[name].index(level) for level in again.levels[name]]] = sums
        return replace(
            gram,
            centres=again.centres,
            offsets=again.offsets,
            spread=again.spread,
            sums_by=sums_by,
            plans=gram.plans + again.plans,
        )

    def _numbers(self, table: pa.Table, keys: int) -> tuple[Any, Any, Any]:
        """For each key the number of rows, the sums, and the products."""
        count = len(self.numbers)
        upper = np.triu_indices(count)
        rows, sums, above = np.split(_matrix(table, len(self.by)), (1, 1 + count), axis=1)
        products = np.zeros((keys, count, count))
        products[:, upper[0], upper[1]] = products[:, upper[1], upper[0]] = above
        for i, factor in enumerate(self.numbers):
            if not np.isfinite(products[:, i, i]).all():
                raise _not_finite(factor)
        return rows[:, 0], sums, products

    def _by_level(self, name: str, table: pa.Table, keys: list[Any]) -> tuple[tuple[Any, ...], Any]:
        """The levels of a column; for each key and level the number of rows and the sums."""
        at = len(self.by)
        column = table.column(at)
        levels = tuple(sorted(column.unique().to_pylist()))
        if any(level != level for level in levels):
            raise _not_finite(next(factor for factor in self.features if factor.name == name))
        values = np.zeros((len(keys), len(levels), 1 + len(self.numbers)))
        values[self._key_codes(table, keys), _codes(column, levels)] = _matrix(table, at + 1)
        return levels, values

    def _crossed(
        self, table: pa.Table, keys: list[Any], one: tuple[Any, ...], other: tuple[Any, ...]
    ) -> list[Any]:
        """For each key how many rows have each two levels of two columns."""
        from scipy.sparse import csr_array

        at, codes = len(self.by), self._key_codes(table, keys)
        left, right = _codes(table.column(at), one), _codes(table.column(at + 1), other)
        rows, shape = _matrix(table, at + 2)[:, 0], (len(one), len(other))
        chosen = [codes == k for k in range(len(keys))]
        return [csr_array((rows[k], (left[k], right[k])), shape=shape) for k in chosen]

    def _key_codes(self, table: pa.Table, keys: list[Any]) -> NDArray[np.int64]:
        """For each row of an answer the position of its key."""
        return _codes(table.column(0), keys) if self.by else np.zeros(table.num_rows, np.int64)


def _codes(column: pa.ChunkedArray, values: Sequence[Any]) -> NDArray[np.int64]:
    """The position of each cell among these values."""
    codes = pc.index_in(column, value_set=pa.array(values, column.type))
    return np.asarray(codes.combine_chunks(), dtype=np.int64)


def _matrix(table: pa.Table, after: int) -> NDArray[np.float64]:
    """The columns after these, as one matrix."""
    return np.column_stack([np.asarray(column, np.float64) for column in table.columns[after:]])


def _check(factor: Factor, mean: float, square: float) -> None:
    """Raise if squares are lost: the mean of the values and that of their squares tell."""
    if not math.isfinite(square):
        raise _not_finite(factor)
    if square < MIN_MEAN_SQUARE and (square or mean):
        raise QueryError(
            f"{factor.name} has values over these rows that are too small to be squared; add a column "
            "with larger ones: its values times 1e200."
        )


def _not_finite(factor: Factor) -> QueryError:
    return QueryError(
        f"{factor.name} has values over these rows that are not a number, infinite, or too large to be "
        f'squared; leave them out: where="abs({factor.name}) < 1e100".'
    )
