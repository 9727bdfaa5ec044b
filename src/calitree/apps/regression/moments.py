"""Asking a wide table for moments: one query for all numbers, one for each column with levels, one for
each two of those. No row of the join is made for any of them.

With the same centres the sums are the same from call to call, whatever else is asked for, and their
messages are found again. Centres are rounded for that: the last digits of a mean depend on the order
in which the rows were summed, and the first ones stay when rows come and go.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from calitree.apps.regression.factors import ROWS, Factor, Number, complete_rows, factor_of, total
from calitree.apps.regression.gram import Gram
from calitree.calibration.planning.plan import Plan
from calitree.errors import QueryError
from calitree.progress import Listener, Progress, progress_bar
from calitree.query.binder import Question
from calitree.query.measure import Measure
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

CLOSE = 1e-7
"""A deviation that is less, compared with the mean, cannot be told from the squares of numbers."""


def gram_of(
    wide: WideTable,
    target: str,
    features: Sequence[str],
    *,
    categorical: Collection[str] = (),
    where: str | None = None,
    centres: Mapping[str, float] | None = None,
    progress: Progress | bool | None = False,
) -> Gram:
    """The moments of a target and features over the join, of the rows where none of them is NULL.

    Text has levels, and so have the columns named in `categorical`. `centres` are values near the means
    of some numbers, by name, such as those of another `Gram`; for the others their means are asked
    first.
    """
    asking = _Asking(wide, target, features, categorical, where, ())
    with progress_bar(progress) as listener:
        return asking.grams(centres or {}, listener)[()]


def grams_of(
    wide: WideTable,
    target: str,
    features: Sequence[str],
    *,
    by: str,
    categorical: Collection[str] = (),
    where: str | None = None,
    centres: Mapping[str, float] | None = None,
    progress: Progress | bool | None = False,
) -> dict[Any, Gram]:
    """The moments for each value of a column, such as the number of a fold. See `gram_of`."""
    asking = _Asking(wide, target, features, categorical, where, (by,))
    with progress_bar(progress) as listener:
        grams = asking.grams(centres or {}, listener)
    return {value: gram for (value,), gram in grams.items()}


def centres_of(
    wide: WideTable,
    target: str,
    features: Sequence[str],
    *,
    categorical: Collection[str] = (),
    where: str | None = None,
    centres: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """A value near the mean of each number, as `gram_of` would take it: those given, and one query for
    the others.
    """
    return _Asking(wide, target, features, categorical, where, ())._centres(centres or {})


def questions_of(
    wide: WideTable,
    target: str,
    features: Sequence[str],
    *,
    by: str | None = None,
    categorical: Collection[str] = (),
    where: str | None = None,
    centres: Mapping[str, float],
) -> list[Question]:
    """What `grams_of` would ask, or without `by` `gram_of`. Calibrated as pivots, they leave little to
    compute for whoever adds a feature to these.
    """
    own = () if by is None else (by,)
    asking = _Asking(wide, target, features, categorical, where, own)
    numbers = [each.around(centres[each.name]) for each in asking.numbers]
    sums, names = _sums(numbers), [each.name for each in asking.leveled]
    asked: list[tuple[tuple[str, ...], dict[str, Measure]]]
    asked = [(own, {**sums, **_squares(numbers)})]
    asked += [((*own, name), sums) for name in names]
    asked += [((*own, *pair), {"rows": ROWS}) for pair in combinations(names, 2)]
    return [Question(group_by, asking.where, measures) for group_by, measures in asked]


def _sums(numbers: Sequence[Number]) -> dict[str, Measure]:
    return {"rows": ROWS, **{f"s{i}": total(each) for i, each in enumerate(numbers)}}


def _squares(numbers: Sequence[Number]) -> dict[str, Measure]:
    """The products of each two, in the order of the upper triangle of a matrix."""
    return {
        f"p{i}_{j}": total(numbers[i], numbers[j])
        for i in range(len(numbers))
        for j in range(i, len(numbers))
    }


def factors_of(
    wide: WideTable, target: str, features: Sequence[str], categorical: Collection[str]
) -> tuple[Factor, list[Factor]]:
    """The columns of a model: its target and its features, each found and checked."""
    for what, given in (("features", features), ("categorical", categorical)):
        if isinstance(given, str) or not isinstance(given, Collection):
            raise QueryError(f"{what} is a list of columns; got {given!r}.")
    for name in features:
        if list(features).count(name) > 1:
            raise QueryError(f"{name!r} is a feature twice.")
    for name in categorical:
        if name not in features:
            raise QueryError(f"{name!r} is categorical, but not among the features.")
    found = [factor_of(wide.schema, name, categorical) for name in features]
    aim = factor_of(wide.schema, target)
    if aim.has_levels:
        raise QueryError(
            f"The target {target} is text; a linear model predicts a number. Add a numeric column."
        )
    for each in found:
        if each.attribute == aim.attribute:
            raise QueryError(f"{each.name} is the target; it cannot be a feature too.")
    return aim, found


class _Asking:
    """The queries of one call. `by` is what they are grouped by besides."""

    def __init__(
        self,
        wide: WideTable,
        target: str,
        features: Sequence[str],
        categorical: Collection[str],
        where: str | None,
        by: tuple[str, ...],
    ) -> None:
        aim, found = factors_of(wide, target, features, categorical)
        self.wide, self.target, self.features, self.by = wide, target, tuple(features), by
        # In an order that does not depend on which of them is the target: the same sums are then asked
        # for in the same words.
        numbers = [aim, *(each for each in found if not each.has_levels)]
        self.numbers = sorted(numbers, key=lambda each: each.name)
        self.leveled = [each for each in found if each.has_levels]
        self.where = complete_rows([aim, *found], where)
        self.plans: list[Plan] = []
        self.keys: list[tuple[Any, ...]] = []
        """The values that the moments are grouped by."""

    def grams(self, given: Mapping[str, float], listener: Listener) -> dict[Any, Gram]:
        pairs = list(combinations(self.leveled, 2))
        steps = 2 + len(self.leveled) + len(pairs)

        def begin(what: str) -> None:
            listener.begin(len(self.plans), steps, "moments", what, 0)

        begin("means")
        centres = self._centres(given)
        numbers = [each.around(centres[each.name]) for each in self.numbers]
        begin("products")
        rows, sums, products = self._products(numbers)
        levels: dict[str, tuple[Any, ...]] = {}
        counts: list[dict[str, Any]] = [{} for _ in self.keys]
        sums_by: list[dict[str, Any]] = [{} for _ in self.keys]
        crossed: list[dict[tuple[str, str], Any]] = [{} for _ in self.keys]
        for each in self.leveled:
            begin(each.name)
            levels[each.name], by_level = self._by_level(each, numbers)
            for k, values in enumerate(by_level):
                counts[k][each.name], sums_by[k][each.name] = values[:, 0], values[:, 1:]
        for one, other in pairs:
            begin(f"{one.name} × {other.name}")
            for k, block in enumerate(self._crossed(one.name, other.name, levels)):
                crossed[k][one.name, other.name] = block
        listener.end(steps)
        names = tuple(each.name for each in self.numbers)
        head, plans = (self.target, self.features, names, centres), tuple(self.plans)
        return {
            key: Gram(
                *head, float(rows[k]), sums[k], products[k], levels, counts[k], sums_by[k], crossed[k], plans
            )
            for k, key in enumerate(self.keys)
        }  # fmt: skip

    def _ask(self, measures: Mapping[str, Any], group_by: Iterable[str] = ()) -> pa.Table:
        result = self.wide.query(list(group_by), self.where, measures)
        self.plans.append(result.plan)
        return result.arrow()

    def _centres(self, given: Mapping[str, float]) -> dict[str, float]:
        """A value near the mean of each number."""
        found = {each.name: given[each.name] for each in self.numbers if each.name in given}
        unknown = [each for each in self.numbers if each.name not in given]
        if unknown:
            numbers = [each.around(0.0) for each in unknown]
            measures = {f"s{i}": total(each) for i, each in enumerate(numbers)}
            measures |= {f"p{i}": total(each, each) for i, each in enumerate(numbers)}
            # By the same column as the products: what is calibrated for those then serves here too.
            table = self._ask({"rows": ROWS, **measures}, self.by)
            rows, *found_sums = _matrix(table, len(self.by)).sum(axis=0).tolist()
            means = [each / (rows or 1) for each in found_sums]
            for each, mean, square in zip(unknown, means, means[len(unknown) :], strict=False):
                if not math.isfinite(square):
                    raise _not_finite(each)
                found[each.name] = centre_of(mean, square)
        return {each.name: float(found[each.name]) for each in self.numbers}

    def _products(self, numbers: list[Number]) -> tuple[Any, Any, Any]:
        """For each key the number of rows, the sums, and the products."""
        import numpy as np

        count = len(numbers)
        upper = np.triu_indices(count)
        table = self._ask({**_sums(numbers), **_squares(numbers)}, self.by)
        found = [column.to_pylist() for column in table.columns[: len(self.by)]]
        self.keys = list(zip(*found, strict=True)) if found else [()]
        rows, sums, above = np.split(_matrix(table, len(self.by)), (1, 1 + count), axis=1)
        products = np.zeros((len(self.keys), count, count))
        products[:, upper[0], upper[1]] = products[:, upper[1], upper[0]] = above
        for i, each in enumerate(self.numbers):
            if not np.isfinite(products[:, i, i]).all():
                raise _not_finite(each)
        return rows[:, 0], sums, products

    def _by_level(self, factor: Factor, numbers: list[Number]) -> tuple[tuple[Any, ...], Any]:
        """The levels of a column; for each key and level the number of rows and the sums."""
        import numpy as np

        table = self._ask(_sums(numbers), (*self.by, factor.name))
        column = table.column(len(self.by))
        levels = tuple(sorted(column.unique().to_pylist()))
        if any(level != level for level in levels):
            raise _not_finite(factor)
        values = np.zeros((len(self.keys), len(levels), 1 + len(numbers)))
        values[self._key_of(table), _codes(column, levels)] = _matrix(table, len(self.by) + 1)
        return levels, values

    def _crossed(
        self, one: str, other: str, levels: Mapping[str, tuple[Any, ...]]
    ) -> Iterable[Any]:
        """For each key how many rows have each two levels of two columns."""
        from scipy.sparse import csr_array

        table = self._ask({"rows": ROWS}, (*self.by, one, other))
        at = len(self.by)
        left = _codes(table.column(at), levels[one])
        right = _codes(table.column(at + 1), levels[other])
        rows, keys = _matrix(table, at + 2)[:, 0], self._key_of(table)
        shape = len(levels[one]), len(levels[other])
        for k in range(len(self.keys)):
            here = keys == k
            yield csr_array((rows[here], (left[here], right[here])), shape=shape)

    def _key_of(self, table: pa.Table) -> NDArray[np.int64]:
        """For each row of an answer the position of its key."""
        import numpy as np

        if not self.by:
            return np.zeros(table.num_rows, dtype=np.int64)
        return _codes(table.column(0), [value for (value,) in self.keys])


def centre_of(mean: float, square: float) -> float:
    """A number less than a deviation away from the mean, with few digits, so that it stays the same if
    some rows come or go: then messages that were made with it need only take what has changed.

    >>> centre_of(mean=12.345, square=12.345**2 + 0.5**2)
    12.3
    """
    deviation = math.sqrt(max(square - mean * mean, 0.0))
    if deviation <= CLOSE * abs(mean):
        return float(f"{mean:.9g}")
    return round(mean, -math.floor(math.log10(deviation)))


def _codes(column: pa.ChunkedArray, values: Sequence[Any]) -> NDArray[np.int64]:
    """The position of each cell among these values."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(column, value_set=pa.array(values, column.type))
    return np.asarray(found.combine_chunks(), dtype=np.int64)


def _matrix(table: pa.Table, after: int) -> NDArray[np.float64]:
    """The columns after these, as one matrix."""
    import numpy as np

    columns = [np.asarray(each, dtype=np.float64) for each in table.columns[after:]]
    return np.column_stack(columns)


def _not_finite(factor: Factor) -> QueryError:
    return QueryError(
        f"{factor.name} has values over these rows that are not a number, infinite, or too large to be "
        f'squared; leave them out: where="abs({factor.name}) < 1e100".'
    )
