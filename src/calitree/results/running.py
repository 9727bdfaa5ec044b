"""Measures that run along a group: over all rows up to each."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from calitree.cache import cached_property
from calitree.errors import QueryError
from calitree.query.binder import check_list
from calitree.results.changes import check_new_names, chosen_measures
from calitree.results.rollup import Groups
from calitree.results.tabular import Tabular


class Cumulative(Tabular):
    """The groups of a result in order, with each measure over all rows up to there.

    Made by `Result.cumulative`. It never changes, and threads may share it.

    >>> wide.query(["price"]).cumulative(descending=True)
    price  revenue  revenue_cumulative
    20     20       20
    10     10       30
    5      5        35
    """

    def __init__(
        self,
        groups: Groups,
        by: str | Sequence[str] | None,
        measures: Sequence[str] | None,
        descending: bool,
    ) -> None:
        self._names = list(chosen_measures(groups.query, measures))
        check_new_names(groups.columns, self._names, "cumulative")
        along = _ordered_groups(groups) if by is None else [by] if isinstance(by, str) else by
        check_list("by", along, "groups")
        if not along:
            raise QueryError("A measure runs along a group; name one with by=.")
        self._groups, self._sums = groups.running(along, descending)

    @property
    def columns(self) -> list[str]:
        """The group-by columns, then each measure and its running one."""
        return list(self._arrow.column_names)

    @cached_property
    def _arrow(self) -> pa.Table:
        now, sums = self._groups.arrow(), self._sums.arrow()
        columns = {name: now[name] for name in self._groups.keys}
        for name in self._names:
            columns |= {name: now[name], f"{name}_cumulative": sums[name]}
        return pa.table(columns)


def _ordered_groups(groups: Groups) -> list[str]:
    """The only group-by column, or the only one that has times."""
    names = groups.keys
    times = [name for name in names if groups.kind(name).is_temporal]
    for only in (names, times):
        if len(only) == 1:
            return only
    if not names:
        raise QueryError("This result has no groups to run along; ask for some.")
    raise QueryError(f"Name the group that measures run along: by={(times or names)[0]!r}.")
