"""Folds for cross-validation over a join that is never built.

The rows of a join cannot be dealt out one by one, but the values of a column can: a small table says which
value is in which fold, and it joins like any other. The fold is then a column to group by, and one
query has the sums of all folds. Rows with the same value are in the same fold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from calitree.errors import QueryError
from calitree.wide_table import WideTable

FEW = 20
"""A column with no more values than this has a fold for each."""
ELSE = "Name another column: fold='relation.column'."


@dataclass(frozen=True, eq=False)
class Folded:
    """A wide table that has a column of folds."""

    wide: WideTable
    column: str
    by: str
    """The column whose values are in the folds."""


def folded(
    wide: WideTable,
    target: str,
    fold: str | None,
    cv: int,
    seed: int,
    where: str | None,
    taken: Collection[str],
) -> Folded:
    """The values of a column that there are where a condition holds, dealt out in folds. The table that
    is added for it has none of the names that are `taken`.
    """
    if isinstance(cv, bool) or not isinstance(cv, int) or cv < 2:
        raise QueryError(f"cv is a number of folds, at least 2; got {cv!r}.")
    by = _widest_key(wide, target) if fold is None else fold
    values = wide.query([by], where, {"rows": "count(*)"}).arrow().column(0).unique()
    if len(values) < 2:
        count = "one value" if len(values) else "no value"
        raise QueryError(f"{by} has {count} here, so nothing can be held out by it. {ELSE}")
    if fold is not None and len(values) <= FEW:
        return Folded(wide, by, by)
    if values.null_count:
        raise QueryError(f"{by} has NULLs, and rows without a value are in no fold. {ELSE}")
    import numpy as np
    import pyarrow as pa

    # Sorted, since engines answer in orders of their own.
    order = np.random.default_rng(seed).permutation(len(values))
    table = pa.table({"value": values.sort(), "fold": order % min(cv, len(values))})
    name = "_folds"
    while name in taken or name in wide.schema.relations:
        name += "_"
    return Folded(wide.augment(table, on={by: "value"}, name=name), f"{name}.fold", by)


def _widest_key(wide: WideTable, target: str) -> str:
    """The column with the most values among those that the target's relation joins on; such a column
    has no NULL in the join.
    """
    schema = wide.schema
    relation = schema.column(target).owners[0]
    keys = [
        f"{relation}.{column}"
        for name, column in schema.columns_of[relation].items()
        if len(schema.attributes[name].columns) > 1
    ]
    if not keys:
        raise QueryError(
            f"{relation}, which has {target}, joins with nothing, so there is no key whose values could "
            "be dealt out in folds. Name a column: fold='relation.column'."
        )
    return max(keys, key=lambda each: len(wide.query([each], measures={"rows": "count(*)"})))
