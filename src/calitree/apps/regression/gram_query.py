"""The queries for a `Gram`: one for all numbers, one for each column with levels, one for each two of those.

No row of the join is built for any of them.

With the same centres the sums are the same from call to call, whatever else is asked for, and their
messages are reused. Centres are rounded for that: the last digits of a mean depend on the order
in which the rows were summed, and the first ones stay when rows come and go.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from calitree.apps.regression.factors import (
    ROWS,
    CentredColumn,
    Factor,
    complete_rows,
    factors_of,
    total,
)
from calitree.apps.regression.gram import Gram
from calitree.calibration.planning.plan import Plan
from calitree.errors import QueryError
from calitree.progress import Progress, progress_bar
from calitree.query.binder import Question
from calitree.query.measure import Measure
from calitree.wide_table import WideTable

MIN_RELATIVE_DEVIATION = 1e-7
"""A smaller deviation, relative to the mean, is lost in the rounding of the squares."""


class GramQuery:
    """The columns of a model, and the queries for the sums that are fitted.

    Text has levels, and so have the columns named in `categorical`. Rows where the target or a feature
    is NULL are left out, and those for which `where` is not true. `by` is a column whose values, such as
    the numbers of folds, have a `Gram` each.

    `centres` of its methods are values near the means of some numbers, by name, such as those of another
    `Gram`; the means of the others are queried first.
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
        sums, pairs = _sums(columns), list(combinations(self.leveled, 2))
        return [
            Question(self.by, self.where, {**sums, **_products(columns)}),
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
            tables = []
            for step, question in zip(steps, self.questions(around), strict=True):
                listener.begin(len(plans), 1 + len(steps), "sums", step, 0)
                result = self.wide.ask(question)
                plans.append(result.plan)
                tables.append(result.arrow())
            listener.end(1 + len(steps))
        return self._assembled(around, tables, tuple(plans))

    def _columns(self, centres: Mapping[str, float]) -> list[CentredColumn]:
        return [factor.around(centres[factor.name]) for factor in self.numbers]

    def _centres(self, given: Mapping[str, float]) -> tuple[dict[str, float], list[Plan]]:
        unknown = [factor for factor in self.numbers if factor.name not in given]
        centres, plans = dict(given), []
        if unknown:
            columns = [factor.around(0.0) for factor in unknown]
            measures = {f"s{i}": total(column) for i, column in enumerate(columns)}
            measures |= {f"p{i}": total(column, column) for i, column in enumerate(columns)}
            # By the same column as the products: what is calibrated for those then serves here too.
            result = self.wide.query(self.by, self.where, {"rows": ROWS, **measures})
            plans.append(result.plan)
            rows, *sums = _matrix(result.arrow(), len(self.by)).sum(axis=0).tolist()
            means = [value / (rows or 1) for value in sums]
            for factor, mean, square in zip(unknown, means, means[len(unknown) :], strict=False):
                if not math.isfinite(square):
                    raise _not_finite(factor)
                centres[factor.name] = centre_of(mean, square)
        return {factor.name: float(centres[factor.name]) for factor in self.numbers}, plans

    # -- the answers as matrices -----------------------------------------------------------------

    def _assembled(
        self, centres: Mapping[str, float], tables: list[pa.Table], plans: tuple[Plan, ...]
    ) -> dict[Any, Gram]:
        first, *others = tables
        keys = first.column(0).to_pylist() if self.by else [None]
        rows, sums, products = self._numbers(first, len(keys))
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
        return {
            key: Gram(
                target=self.target.name,
                features=tuple(factor.name for factor in self.features),
                numbers=tuple(factor.name for factor in self.numbers),
                centres=centres,
                rows=float(rows[k]),
                sums=sums[k],
                products=products[k],
                levels=levels,
                counts={name: values[k, :, 0] for name, (_, values) in by_level.items()},
                sums_by={name: values[k, :, 1:] for name, (_, values) in by_level.items()},
                pairs={pair: blocks[k] for pair, blocks in crossed.items()},
                plans=plans,
            )
            for k, key in enumerate(keys)
        }

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


def _sums(columns: Sequence[CentredColumn]) -> dict[str, Measure]:
    return {"rows": ROWS, **{f"s{i}": total(column) for i, column in enumerate(columns)}}


def _products(columns: Sequence[CentredColumn]) -> dict[str, Measure]:
    """The products of each two, in the order of the upper triangle of a matrix."""
    return {
        f"p{i}_{j}": total(columns[i], columns[j])
        for i in range(len(columns))
        for j in range(i, len(columns))
    }


def centre_of(mean: float, square: float) -> float:
    """A number less than a deviation away from the mean, with few digits.

    So it stays the same if some rows come or go, and messages that were computed with it need only be
    maintained.

    >>> centre_of(mean=12.345, square=12.345**2 + 0.5**2)
    12.3
    """
    deviation = math.sqrt(max(square - mean * mean, 0.0))
    if deviation <= MIN_RELATIVE_DEVIATION * abs(mean):
        return float(f"{mean:.9g}")
    return round(mean, -math.floor(math.log10(deviation)))


def _codes(column: pa.ChunkedArray, values: Sequence[Any]) -> NDArray[np.int64]:
    """The position of each cell among these values."""
    codes = pc.index_in(column, value_set=pa.array(values, column.type))
    return np.asarray(codes.combine_chunks(), dtype=np.int64)


def _matrix(table: pa.Table, after: int) -> NDArray[np.float64]:
    """The columns after these, as one matrix."""
    return np.column_stack([np.asarray(column, np.float64) for column in table.columns[after:]])


def _not_finite(factor: Factor) -> QueryError:
    return QueryError(
        f"{factor.name} has values over these rows that are not a number, infinite, or too large to be "
        f'squared; leave them out: where="abs({factor.name}) < 1e100".'
    )
