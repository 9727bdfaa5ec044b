"""What came of a search for tables: a leaderboard, and the tables that were chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa

from calitree.apps.search.tables import Candidate
from calitree.apps.search.task import Model, Task
from calitree.cache import cached_property
from calitree.calibration.planning.plan import Plan
from calitree.results.tabular import Tabular, html_of, text_of
from calitree.wide_table import WideTable


@dataclass(frozen=True)
class Score:
    """R² on rows that were held out.

    Attributes:
        mean: The mean over the folds.
        deviation: Its standard deviation over the folds.
        rows: How many rows there are in all folds.

    >>> lake = {"sizes": {"store": [1, 2], "area": [40, 70]}}
    >>> wide.search(lake, target="price", fold="store").base.rows
    3
    """

    mean: float
    deviation: float
    rows: int


@dataclass(frozen=True)
class Scored:
    """One candidate table of a search.

    Attributes:
        name: The table's name.
        on: Its columns that it joins on.
        features: Its columns that the model has.
        score: The model with it; None where it could not be tried, and `warnings` say why.
        baseline: The model without it, on the same rows.
        coverage: The part of the rows that have a partner in it, one without NULLs.
        copies: How many rows of it have the same key, at most.
        leaks: Features that predict the target too well to be true.
        warnings: What is to be known of it.
        plans: How its queries were answered: what was reused, and what was computed.

    >>> lake = {"sizes": {"store": [1, 2], "area": [40, 70]}}
    >>> scored = wide.search(lake, target="price", fold="store").best
    >>> scored.on, scored.features, scored.coverage
    ('store', ('sizes.area',), 1.0)
    """

    name: str
    on: str = ""
    features: tuple[str, ...] = ()
    score: Score | None = None
    baseline: Score | None = None
    coverage: float | None = None
    copies: int | None = None
    leaks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()

    @property
    def gain(self) -> float:
        """What it adds to R² over all rows: those without a partner keep the model without it."""
        if self.score is None or self.baseline is None or self.coverage is None:
            return -math.inf
        return (self.score.mean - self.baseline.mean) * self.coverage


class Search(Tabular):
    """A leaderboard of candidate tables, by their gain.

    Made by `WideTable.search`.

    Attributes:
        board: The candidates, the best first.
        base: How the model does without any of them.
        fold: The column whose values were dealt out in folds.
        steps: The chosen tables, each as it was scored beside those before it.

    >>> lake = {"sizes": {"store": [1, 2], "area": [40, 70]}, "notes": {"store": [1, 2]}}
    >>> search = wide.search(lake, target="price", fold="store", select=0)
    >>> [(row["rank"], row["table"]) for row in search]
    [(1, 'sizes'), (2, 'notes')]
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
        self.base = base
        self.board = tuple(sorted(board, key=lambda scored: -scored.gain))
        self.steps = tuple(scored for _, scored in chosen)
        self._task, self._chosen = task, tuple(candidate for candidate, _ in chosen)

    @property
    def best(self) -> Scored:
        """The candidate that improves the model most."""
        return self.board[0]

    @property
    def selected(self) -> list[str]:
        """The names of the chosen tables, in the order in which they were chosen."""
        return [scored.name for scored in self.steps]

    @cached_property
    def wide(self) -> WideTable:
        """The wide table with the chosen tables."""
        wide = self._task.wide
        for candidate in self._chosen:
            wide = wide.augment(candidate.table)
        return wide

    @cached_property
    def model(self) -> Model:
        """The model with the features of the chosen tables, fitted to all rows of their join."""
        task = self._task
        features = [*task.features, *(name for c in self._chosen for name in c.features)]
        options = task.model.get_params()
        options["categorical"] = [x for x in options["categorical"] or () if x in features]
        model = type(task.model)(**options)
        return model.fit(self.wide, target=task.target, features=features, where=task.where)

    @cached_property
    def _arrow(self) -> pa.Table:
        number, integer, text = pa.float64(), pa.int64(), pa.string()
        types = {"rank": integer, "table": text, "on": text}
        types |= dict.fromkeys(("gain", "score", "baseline", "deviation", "coverage"), number)
        types |= {"selected": integer, "features": text, "warnings": text}
        rows = [self._row(rank, scored) for rank, scored in enumerate(self.board, 1)]
        return pa.Table.from_pylist(rows, pa.schema(types))

    def _row(self, rank: int, scored: Scored) -> dict[str, Any]:
        score, baseline, selected = scored.score, scored.baseline, self.selected
        return {
            "rank": rank,
            "table": scored.name,
            "on": scored.on,
            "gain": score and scored.gain,
            "score": score and score.mean,
            "baseline": baseline and baseline.mean,
            "deviation": score and score.deviation,
            "coverage": scored.coverage,
            "selected": selected.index(scored.name) + 1 if scored.name in selected else None,
            "features": ", ".join(scored.features),
            "warnings": "; ".join(scored.warnings),
        }

    def __len__(self) -> int:
        return len(self.board)

    @property
    def _title(self) -> str:
        base = f"R² {self.base.mean:.4g} over {self.base.rows:,} rows"
        return f"{self._task.target}: {base} without any of these, folds by {self.fold}"

    @property
    def _summary(self) -> str:
        scores = [(scored.name, scored.score) for scored in self.steps]
        chosen = [f"{name} ({score.mean:.4g})" for name, score in scores if score is not None]
        return f"selected, one after the other: {' → '.join(chosen) or 'none'}"

    def __repr__(self) -> str:
        table = text_of(self.rows()[:30], self.columns, len(self))
        return f"{self._title}\n{table}\n{self._summary}"

    def _repr_html_(self) -> str:
        table = html_of(self.rows()[:100], self.columns, len(self))
        return f"<p>{escape(self._title)}</p>{table}<p>{escape(self._summary)}</p>"
