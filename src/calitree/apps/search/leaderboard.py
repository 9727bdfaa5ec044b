"""What came of a search for tables: how each does, the best first, and those that were chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from calitree.apps.regression.linear import LinearRegression, Ridge
from calitree.apps.search.tables import Candidate
from calitree.cache import cached_property
from calitree.calibration.planning.plan import Plan
from calitree.results.tabular import Tabular, html_of, text_of
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa

Model = LinearRegression | Ridge


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be predicted, from what, and by which kind of model."""

    wide: WideTable
    model: Model
    target: str
    features: tuple[str, ...]
    where: str | None


@dataclass(frozen=True)
class Score:
    """R² on rows that were held out: the mean over the folds, and their deviation."""

    mean: float
    deviation: float
    rows: int


@dataclass(frozen=True)
class Scored:
    """One candidate. It has no score where it could not be tried; `warnings` tell why."""

    name: str
    on: str = ""
    features: tuple[str, ...] = ()
    score: Score | None = None
    baseline: Score | None = None
    """The model without it, on the same rows."""
    coverage: float | None = None
    """The part of the rows that have a partner in it, one without NULLs."""
    copies: int | None = None
    """How many rows of it have the same key, at most."""
    leaks: tuple[str, ...] = ()
    """Features that tell the target too well to be true."""
    warnings: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()
    """How its moments were found: what was reused, and what was computed."""

    @property
    def gain(self) -> float:
        """What it adds to R² over all rows: those without a partner keep the model without it."""
        if self.score is None or self.baseline is None or self.coverage is None:
            return -math.inf
        return (self.score.mean - self.baseline.mean) * self.coverage


class Search(Tabular):
    """A leaderboard of candidate tables, by their gain; `selected` are those that were chosen one after
    the other, each for what it adds to the ones before.
    """

    def __init__(
        self,
        task: Task,
        fold: str,
        base: Score,
        board: Sequence[Scored],
        chosen: Sequence[tuple[Candidate, Scored]],
    ) -> None:
        self.fold = fold
        """The column whose values were dealt out in folds."""
        self.base = base
        """How the model does without any candidate."""
        self.board = tuple(sorted(board, key=lambda each: -each.gain))
        self.steps = tuple(scored for _, scored in chosen)
        """The selected tables, each as it was scored beside those before it."""
        self._task, self._chosen = task, tuple(each for each, _ in chosen)

    @property
    def best(self) -> Scored:
        """The candidate that improves the model most."""
        return self.board[0]

    @property
    def selected(self) -> list[str]:
        return [each.name for each in self.steps]

    @cached_property
    def wide(self) -> WideTable:
        """The wide table with the selected tables."""
        found = self._task.wide
        for each in self._chosen:
            found = found.augment(each.table)
        return found

    @cached_property
    def model(self) -> Model:
        """The model with the features of the selected tables, fitted to all rows of their join."""
        task = self._task
        features = [*task.features, *(name for each in self._chosen for name in each.features)]
        options = task.model.get_params()
        options["categorical"] = [x for x in options["categorical"] or () if x in features]
        again = type(task.model)(**options)
        return again.fit(self.wide, target=task.target, features=features, where=task.where)

    @cached_property
    def _arrow(self) -> pa.Table:
        import pyarrow as pa

        real, whole, text = pa.float64(), pa.int64(), pa.string()
        order = {name: at for at, name in enumerate(self.selected, 1)}
        scored = [(each.score, each.baseline) for each in self.board]
        columns = {
            "rank": (whole, [*range(1, len(self) + 1)]),
            "table": (text, [each.name for each in self.board]),
            "on": (text, [each.on for each in self.board]),
            "gain": (real, [each.gain if each.score else None for each in self.board]),
            "score": (real, [score and score.mean for score, _ in scored]),
            "baseline": (real, [baseline and baseline.mean for _, baseline in scored]),
            "deviation": (real, [score and score.deviation for score, _ in scored]),
            "coverage": (real, [each.coverage for each in self.board]),
            "selected": (whole, [order.get(each.name) for each in self.board]),
            "features": (text, [", ".join(each.features) for each in self.board]),
            "warnings": (text, ["; ".join(each.warnings) for each in self.board]),
        }
        return pa.table({name: pa.array(cells, kind) for name, (kind, cells) in columns.items()})

    def __len__(self) -> int:
        return len(self.board)

    @property
    def _head(self) -> str:
        base = f"R² {self.base.mean:.4g} over {self.base.rows:,} rows"
        return f"{self._task.target}: {base} without any of these, folds by {self.fold}"

    @property
    def _tail(self) -> str:
        scores = [(each.name, each.score) for each in self.steps]
        chosen = [f"{name} ({score.mean:.4g})" for name, score in scores if score is not None]
        return f"selected, one after the other: {' → '.join(chosen) or 'none'}"

    def __repr__(self) -> str:
        table = text_of(self.rows()[:30], self._arrow.column_names, len(self))
        return f"{self._head}\n{table}\n{self._tail}"

    def _repr_html_(self) -> str:
        table = html_of(self.rows()[:100], self._arrow.column_names, len(self))
        return f"<p>{escape(self._head)}</p>{table}<p>{escape(self._tail)}</p>"
