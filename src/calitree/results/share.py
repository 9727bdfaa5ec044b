"""Measures as shares of their totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import QueryError
from calitree.grouping import contiguous
from calitree.query.binder import check_list
from calitree.results.changes import check_new_names, chosen_measures
from calitree.results.rollup import Groups, matching_rows
from calitree.results.tabular import Tabular


class Shares(Tabular):
    """The groups of a result, with each measure as a share of its total.

    Made by `Result.share`. It never changes, and threads may share it.

    >>> wide.query(["city"], where="price < 15").share()
    city    revenue  revenue_share
    Quito   10       0.666667
    Cuenca  5        0.333333
    """

    def __init__(
        self, groups: Groups, within: str | Sequence[str], measures: Sequence[str] | None
    ) -> None:
        within = [within] if isinstance(within, str) else within
        check_list("within", within, "groups")
        chosen = chosen_measures(groups.query, measures)
        for name, measure in chosen.items():
            if measure.plain is None or not _adds_up(measure.plain):
                raise QueryError(
                    f"Measure {name!r} does not add up to a total, so a group has no share of it; choose "
                    "counts and sums with measures=."
                )
        check_new_names(groups.columns, chosen, "share")
        self._names, self._within = list(chosen), list(within)
        self._groups = groups
        self._totals = self._groups.by(self._within)

    @property
    def columns(self) -> list[str]:
        """The group-by columns, then each measure and its share."""
        return list(self._arrow.column_names)

    @cached_property
    def _arrow(self) -> pa.Table:
        own, totals = self._groups.arrow(), self._totals.arrow()
        rows = np.zeros(len(own), np.int64)
        if self._within:
            sides = [[contiguous(t[name]) for name in self._within] for t in (own, totals)]
            rows = matching_rows(*sides)
        columns = {name: own[name] for name in self._groups.keys}
        for name in self._names:
            whole = totals[name].take(pa.array(rows)).to_pylist()
            parts = zip(own[name].to_pylist(), whole, strict=True)
            shares = pa.array([_share(part, total) for part, total in parts], pa.float64())
            columns |= {name: own[name], f"{name}_share": shares}
        return pa.table(columns)


def _share(part: Any, total: Any) -> float | None:
    return None if part is None or not total else float(part) / float(total)


def _adds_up(node: exp.Expr) -> bool:
    """Whether a measure of all groups is the sum of that of each."""
    if isinstance(node, exp.Paren | exp.Neg | exp.Filter):
        return _adds_up(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return _adds_up(node.left) and _adds_up(node.right)
    if isinstance(node, exp.Mul):
        left, right = node.left.unnest(), node.right.unnest()
        return (isinstance(left, exp.Literal) and _adds_up(right)) or (
            isinstance(right, exp.Literal) and _adds_up(left)
        )
    return isinstance(node, exp.Count | exp.Sum)
