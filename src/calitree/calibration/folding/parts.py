"""The questions that the folds of a measure take, and their answers put together by group.

A fold is asked for as one more question: by the groups of the question itself and by what is carried, with
the number of rows of each. Folds that carry the same share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from calitree.calibration.projection import Projection
from calitree.engines.api.protocol import DISTINCT
from calitree.errors import QueryError
from calitree.grouping import contiguous
from calitree.interrupts import run
from calitree.query.binder import Question
from calitree.query.carried.fold import Fold
from calitree.query.grain import GrainMeasure
from calitree.query.groups import named_groups

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CARRIED_ROWS = 100_000_000
"""Of values by group that are folded in this process."""


class Part(NamedTuple):
    """A question that some folds share, and the names of its columns."""

    question: Question
    groups: tuple[str, ...]
    carried: tuple[str, ...]
    weights: Mapping[GrainMeasure, str]
    """The column of each weight."""
    folds: tuple[Fold, ...]

    @property
    def only_counts(self) -> bool:
        """Whether all that is asked is how many values of one column there are."""
        return len(self.carried) == 1 and all(
            fold == Fold("count", fold.carried, distinct=True, options=(False,))
            for fold in self.folds
        )

    @property
    def why(self) -> str:
        """What is carried, and what for."""
        return ", ".join(dict.fromkeys(map(str, self.folds)))

    @property
    def way_out(self) -> str:
        """What could be asked for instead of the folds, in the end of a sentence that may have it."""
        instead = dict.fromkeys(fold.approximation for fold in self.folds)
        if "" in instead:
            return ", or ask for fewer values"
        return f", or ask for {' and '.join(instead)}, which is close to it and takes fewer"


def parts_of(question: Question, folds: Mapping[Fold, str]) -> list[Part]:
    """The questions whose answers are folded."""
    shared: dict[tuple[tuple[str, ...], str | None], list[Fold]] = {}
    for fold in folds:
        shared.setdefault((fold.carried, fold.where), []).append(fold)
    return [_part(question, tuple(same)) for same in shared.values()]


def _weight(fold: Fold) -> GrainMeasure:
    """The measure that each carried value has."""
    return GrainMeasure(fold.weight, fold.grain or None)


def _part(question: Question, folds: tuple[Fold, ...]) -> Part:
    groups = dict(named_groups(question.group_by))
    weights = dict.fromkeys(map(_weight, folds))
    prefix = "carried"
    while any(name.startswith(prefix) for name in groups):
        prefix += "'"
    carried = {f"{prefix} {at}": text for at, text in enumerate(folds[0].carried)}
    names = {weight: f"{prefix} rows {at}" for at, weight in enumerate(weights)}
    where = question.where
    if folds[0].where is not None:
        where = folds[0].where if where is None else f"({where}\n) AND ({folds[0].where}\n)"
    asked = Question(
        {**groups, **carried},
        where,
        {name: weight for weight, name in names.items()},
        question.relations,
    )
    return Part(asked, tuple(groups), tuple(carried), names, folds)


class PartAnswer(NamedTuple):
    """The answer to a part: the absorbed table, or the number of values by group if these are counted."""

    projection: Projection
    table: pa.Table
    is_counted: bool


Ask = Callable[[Part], PartAnswer]


def with_folds(projection: Projection, absorbed: pa.Table, parts: list[Part], ask: Ask) -> pa.Table:
    """The absorbed table with a column for each fold."""
    keys = list(projection.keys(absorbed).values())
    names = projection.query.folds
    for part in parts:
        answered = ask(part)
        if answered.is_counted:
            (fold,) = part.folds
            rows = list(projection.keys(answered.table).values())
            counts = _counts(answered.table, keys, rows, absorbed.num_rows)
            absorbed = absorbed.append_column(names[fold], counts)
            continue
        if answered.table.num_rows > MAX_CARRIED_ROWS:
            raise QueryError(
                f"{part.why} takes {answered.table.num_rows:,} values by group, of at most "
                f"{MAX_CARRIED_ROWS:,}. Group by less, filter{part.way_out}."
            )
        table = run(partial(answered.projection.answer, answered.table), answered.table.num_rows)
        columns = run(partial(_folded, part, table, keys, absorbed.num_rows), table.num_rows)
        for fold in part.folds:
            absorbed = absorbed.append_column(names[fold], columns[fold])
    return absorbed


def _counts(table: pa.Table, keys: list[Any], rows: list[Any], groups: int) -> pa.Array:
    """The number of values in each group; those that have none are not in the table."""
    import numpy as np
    import pyarrow as pa

    from calitree.calibration.folding.carried import group_numbers

    counts = np.zeros(groups, np.int64)
    if table.num_rows == 0:
        return pa.array(counts)
    counts[group_numbers(keys, rows, groups, table.num_rows)] = table.column(DISTINCT).fill_null(0)
    return pa.array(counts)


def _folded(part: Part, table: pa.Table, keys: list[Any], groups: int) -> dict[Fold, pa.Array]:
    """The column of each fold of a part, a value for each group of the question."""
    import pyarrow as pa

    from calitree.calibration.folding.carried import Carried, group_numbers
    from calitree.calibration.folding.functions import folded

    if any(pa.types.is_null(field.type) for field in table.schema):
        return {fold: _nothing(fold, groups) for fold in part.folds}
    if not keys and not part.carried:
        table = table.slice(0, groups)
    rows = [table.column(name) for name in part.groups]
    numbers = group_numbers(keys, rows, groups, table.num_rows)
    values = tuple(contiguous(table.column(name)) for name in part.carried)
    columns: dict[Fold, pa.Array] = {}
    for fold in part.folds:
        weights = contiguous(table.column(part.weights[_weight(fold)]))
        carried = Carried(numbers, groups, values, weights)
        if fold.function == "value":
            columns[fold] = _placed(carried, fold)
            continue
        carried = carried.counted() if fold.weight.startswith("count(") else carried
        carried = carried.once() if fold.distinct else carried
        columns[fold] = folded(fold.function, carried, fold.options)
    return columns


def _nothing(fold: Fold, groups: int) -> pa.Array:
    """A fold of no values, whose type an engine need not know."""
    import pyarrow as pa

    if fold.over_nothing is not None:
        return pa.array([fold.over_nothing] * groups, pa.int64())
    return pa.nulls(groups)


def _placed(carried: Any, fold: Fold) -> pa.Array:
    """The aggregate itself in each group; a group that no row of the condition is in has none."""
    import numpy as np
    import pyarrow as pa

    at = np.full(carried.groups, -1, np.int64)
    at[carried.numbers] = np.arange(len(carried.numbers))
    values = carried.weights.take(pa.array(at, mask=at < 0))
    return values if fold.over_nothing is None else values.fill_null(fold.over_nothing)
