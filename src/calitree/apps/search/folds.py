"""Folds for cross-validation over a join that is never built.

The rows of a join cannot be dealt out one by one, but the values of a column can: a small table says which
value is in which fold, and it joins like any other. The fold is then a column to group by, and one
query has the sums of all folds. Rows with the same value are in the same fold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.apps.regression.gram import Gram, all_but_one
from calitree.apps.search.leaderboard import Score
from calitree.apps.search.task import Model, Task
from calitree.errors import QueryError
from calitree.wide_table import WideTable

MAX_VALUES_AS_FOLDS = 20
"""A column with no more values than this has a fold for each."""
NAME_ANOTHER = "Name another column: fold='relation.column'."


@dataclass(frozen=True, eq=False)
class Folded:
    """A wide table that has a column of folds."""

    wide: WideTable
    column: str
    by: str
    """The column whose values are in the folds."""


def folded(task: Task, *, fold: str | None, cv: int, seed: int, taken: Collection[str]) -> Folded:
    """Deal out in folds the values that a column has in the rows of a task.

    The table that is added for it has none of the names that are `taken`.
    """
    wide = task.wide
    if isinstance(cv, bool) or not isinstance(cv, int) or cv < 2:
        raise QueryError(f"cv is a number of folds, at least 2; got {cv!r}.")
    by = _widest_key(wide, task.target) if fold is None else fold
    values = wide.query([by], task.where, {"rows": "count(*)"}).arrow().column(0).unique()
    if len(values) < 2:
        count = "one value" if len(values) else "no value"
        raise QueryError(f"{by} has {count} here, so nothing can be held out by it. {NAME_ANOTHER}")
    if fold is not None and len(values) <= MAX_VALUES_AS_FOLDS:
        return Folded(wide, by, by)
    if values.null_count:
        raise QueryError(f"{by} has NULLs, and rows without a value are in no fold. {NAME_ANOTHER}")
    # Sorted, since engines answer in orders of their own.
    order = np.random.default_rng(seed).permutation(len(values))
    table = pa.table({"value": values.sort(), "fold": order % min(cv, len(values))})
    name = "_folds"
    while name in taken or name in wide.schema.relations:
        name += "_"
    return Folded(wide.augment(table, on={by: "value"}, name=name), f"{name}.fold", by)


def _widest_key(wide: WideTable, target: str) -> str:
    """The column with the most values among those that the target's relation joins on.

    Such a column has no NULL, but where an outer join keeps what has no partner.
    """
    schema = wide.schema
    relation = schema.column(target).owners[0]
    null_free = schema.relations[relation].table.null_free
    keys = [
        f"{relation}.{column}"
        for name, column in schema.columns_of[relation].items()
        if len(schema.attributes[name].columns) > 1
        and (column in null_free or not schema.attributes[name].match)
    ]
    if not keys:
        raise QueryError(
            f"{relation}, which has {target}, joins with nothing, so there is no key whose values could "
            "be dealt out in folds. Name a column: fold='relation.column'."
        )
    return max(keys, key=lambda key: len(wide.query([key], measures={"rows": "count(*)"})))


def cross_validated(model: Model, grams: Mapping[Any, Gram]) -> Score:
    """Each fold scored by a model that was fitted to the others. One of a single row has no R²."""
    folds = list(grams.values())
    if len(folds) < 2 or all(gram.rows < 2 for gram in folds):
        left = "in one fold" if grams else "NULL somewhere, or have no partner"
        raise QueryError(f"Nothing can be held out: all rows are {left}.")
    held = [
        (gram, rest) for gram, rest in zip(folds, all_but_one(folds), strict=True) if gram.rows >= 2
    ]
    scores = [model.solved(rest).r2(gram) for gram, rest in held]
    rows = sum(gram.rows for gram in folds)
    return Score(float(np.mean(scores)), float(np.std(scores)), int(rows))
