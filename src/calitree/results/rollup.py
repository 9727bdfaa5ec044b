"""The groups of an answer together with the aggregates of which its measures are computed.

From them other answers are computed without a query: the same measures by fewer columns, and for each
group the measures over all the *other* groups, which is the answer without the group's rows. Nothing is
subtracted for that: the groups before one and those after it are added up (⊕) from both ends. So it works
for MIN and MAX as it does for sums, exact numbers stay exact, and removing a large group does not cost the
digits of the small ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.cache import cached_property
from calitree.calibration.message import column_names
from calitree.calibration.projection import Projection
from calitree.errors import QueryError, did_you_mean
from calitree.grouping import contiguous, row_keys
from calitree.query.binder import Query
from calitree.results.summands import (
    Array,
    CovarianceSummand,
    Summand,
    same_type,
    summands_of,
)
from calitree.results.tabular import Tabular
from calitree.types import Kind, kind_of_arrow

MAX_DENSE_CODES = 1 << 20
"""Up to so many combinations of values are numbered through a table of all possible ones."""


@dataclass(frozen=True, eq=False)
class Key:
    """A group-by column, dictionary-encoded: for each group the position of its value in `values`."""

    codes: Array
    values: pa.Array

    @classmethod
    def of(cls, column: Any) -> Key:
        """Encode a column; NULL is a value."""
        encoded = contiguous(column).dictionary_encode(null_encoding="encode")
        return cls(np.asarray(encoded.indices).astype(np.int64), encoded.dictionary)

    def ranks(self, descending: bool = False) -> Array:
        """For each group the place of its value in their order; NULL is last in both."""
        order = np.asarray(pc.array_sort_indices(self.values))  # NaN comes last, as the largest
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        if descending:
            is_known = np.asarray(self.values.is_valid())
            rank = np.where(is_known, np.count_nonzero(is_known) - 1 - rank, rank)
        return rank[self.codes]

    def arrow(self) -> pa.Array:
        """The column, decoded."""
        return self.values.take(pa.array(self.codes))


class Groups(Tabular):
    """The groups of an answer, each with its aggregates.

    Found as `Result.groups`. It never changes, and threads may share it.

    >>> wide.query(["city"], measures={"mean": "avg(price)"}).groups.rows()
    [{'city': 'Quito', 'mean': 15.0}, {'city': 'Cuenca', 'mean': 5.0}]
    """

    def __init__(
        self,
        projection: Projection,
        keys: Mapping[str, Key],
        parts: Sequence[Summand | CovarianceSummand],
        size: int,
    ) -> None:
        self._projection = projection
        self._keys = dict(keys)
        self._parts = tuple(parts)
        self._size = size

    @classmethod
    def absorbed(cls, projection: Projection, table: pa.Table) -> Groups:
        """The groups of an answer as the root has absorbed it; users have `Result.groups`.

        Args:
            projection: How the answer is computed from the absorbed table.
            table: The absorbed table.

        Returns:
            Its groups.

        >>> len(wide.query(["city"]).groups)
        2
        """
        parts = dict(zip(table.column_names, table.columns, strict=True))
        return cls._of(projection, projection.keys(table), parts, table.num_rows)

    @classmethod
    def _of(
        cls, projection: Projection, keys: Mapping[str, Any], parts: Mapping[str, Any], size: int
    ) -> Groups:
        coded = {name: Key.of(column) for name, column in keys.items()}
        summands = [
            summand
            for aggregate, name in column_names(projection.query.aggregates).items()
            for summand in summands_of(name, aggregate.semiring, parts)
        ]
        groups = cls(projection, coded, summands, size)
        return groups if keys else groups.by([])  # a total is one row, even of nothing

    def __reduce__(self) -> tuple[Any, ...]:
        return Groups._of, (self._projection, self._key_columns, self._absorbed, self._size)

    @property
    def query(self) -> Query:
        """The question whose answer they were; they may be by fewer columns."""
        return self._projection.query

    @property
    def keys(self) -> list[str]:
        """The group-by columns."""
        return list(self._keys)

    def kind(self, name: str) -> Kind:
        """The kind of a group-by column.

        Args:
            name: The column, as it was written in the query.

        Returns:
            Its kind.

        >>> wide.query(["city"]).groups.kind("city").value
        'string'
        """
        return kind_of_arrow(self._keys[name].values.type)

    @property
    def columns(self) -> list[str]:
        """The group-by columns, then the measures."""
        return [*self._keys, *(name for name, _ in self._projection.query.measures)]

    def by(self, group_by: Sequence[str]) -> Groups:
        """Roll up: groups that agree on these columns become one.

        Args:
            group_by: Some of the group-by columns, as they were written in the query, or none.

        Returns:
            The groups by these columns.

        Raises:
            QueryError: The answer is not grouped by one of them.

        >>> wide.query(["city", "price"]).groups.by(["city"]).rows()
        [{'city': 'Quito', 'revenue': 30}, {'city': 'Cuenca', 'revenue': 5}]
        """
        self._check(group_by)
        chosen = {name: self._keys[name] for name in group_by}
        if chosen:
            numbers, firsts = number_groups(list(chosen.values()))
        else:
            numbers, firsts = np.zeros(self._size, np.int64), np.zeros(1, np.int64)
        keys = {name: replace(key, codes=key.codes[firsts]) for name, key in chosen.items()}
        parts = [part.summed(numbers, len(firsts)) for part in self._parts]
        return Groups(self._projection, keys, parts, len(firsts))

    def _check(self, group_by: Sequence[str]) -> None:
        for name in group_by:
            if not isinstance(name, str) or name not in self._keys:
                raise QueryError(
                    f"{name!r} is not grouped by.{did_you_mean(str(name), self._keys)}"
                )

    def without(self) -> Groups:
        """For each group the measures over all the others: what they would be without its rows.

        Returns:
            As many groups, with the same keys.

        >>> wide.query(["city"], measures={"dearest": "max(price)"}).groups.without().rows()
        [{'city': 'Quito', 'dearest': 5}, {'city': 'Cuenca', 'dearest': 20}]
        """
        parts = [part.others() for part in self._parts]
        return Groups(self._projection, self._keys, parts, self._size)

    def running(self, by: Sequence[str], descending: bool = False) -> tuple[Groups, Groups]:
        """The groups in the order of some columns, within the others, and the measures up to each.

        Args:
            by: Some of the group-by columns.
            descending: Whether the greatest comes first. NULL is last in both orders.

        Returns:
            The same groups in this order, and with the measures of all up to each.

        Raises:
            QueryError: The answer is not grouped by one of them.

        >>> wide.query(["price"], measures={"mean": "avg(price)"}).groups.running(["price"])[1].rows()[1]
        {'price': 10, 'mean': 7.5}
        """
        self._check(by)
        others = [key for name, key in self._keys.items() if name not in by]
        along = [self._keys[name].ranks(descending) for name in by]
        within = [key.ranks() for key in others]
        order = np.lexsort([*along[::-1], *within[::-1]])
        keys = {name: replace(key, codes=key.codes[order]) for name, key in self._keys.items()}
        parts = [part.taken(order) for part in self._parts]
        is_first = np.zeros(self._size, bool)
        is_first[:1] = True
        for ranks in within:
            is_first[1:] |= np.diff(ranks[order]) != 0
        starts = np.flatnonzero(is_first).tolist()
        sums = [part.running(starts) for part in parts]
        ordered = Groups(self._projection, keys, parts, self._size)
        return ordered, Groups(self._projection, keys, sums, self._size)

    def plus(self, other: Groups) -> Groups:
        """The groups of two answers together.

        Args:
            other: Those of the same question about other rows: no row may be in both.

        Returns:
            The groups of all these rows.

        >>> cheap, dear = (wide.query(["city"], where=w) for w in ("price < 15", "price >= 15"))
        >>> cheap.groups.plus(dear.groups).rows()
        [{'city': 'Quito', 'revenue': 30}, {'city': 'Cuenca', 'revenue': 5}]
        """

        def both(own: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, pa.Array]:
            return {
                name: pa.concat_arrays(same_type(column, others[name]))
                for name, column in own.items()
            }

        keys = both(self._key_columns, other._key_columns)
        parts = both(self._absorbed, other._absorbed)
        together = Groups._of(self._projection, keys, parts, len(self) + len(other))
        return together.by(list(self._keys))

    @property
    def _key_columns(self) -> dict[str, pa.Array]:
        return {name: key.arrow() for name, key in self._keys.items()}

    @property
    def _absorbed(self) -> dict[str, pa.Array]:
        return {name: column for part in self._parts for name, column in part.columns().items()}

    @cached_property
    def _arrow(self) -> pa.Table:
        measures = self._projection.measured(self._absorbed, self._size)
        return pa.table({**self._key_columns, **measures})

    def __len__(self) -> int:
        return self._size


def number_groups(keys: Sequence[Key]) -> tuple[Array, Array]:
    """For each row the number of its combination of values, and for each number a row that has it."""
    code, width = row_keys([key.codes for key in keys], [max(1, len(key.values)) for key in keys])
    if width > MAX_DENSE_CODES:
        _, firsts, numbers = np.unique(code, return_index=True, return_inverse=True)
        return numbers, firsts
    row = np.full(width, -1, np.int64)
    row[code] = np.arange(len(code))
    present = row >= 0
    return (np.cumsum(present) - 1)[code], row[present]


def matching_rows(columns: Sequence[pa.Array], among: Sequence[pa.Array]) -> Array:
    """For each row of some columns, the row with the same values in others; -1 if there is none.

    The rows of `among` are distinct. NULL equals NULL here.
    """
    keys = [Key.of(pa.concat_arrays(pair)) for pair in zip(columns, among, strict=True)]
    numbers, firsts = number_groups(keys)
    size = len(columns[0])
    rows = np.full(len(firsts), -1, np.int64)
    rows[numbers[size:]] = np.arange(len(among[0]))
    return rows[numbers[:size]]
