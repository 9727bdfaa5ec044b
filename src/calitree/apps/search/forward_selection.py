"""Which tables improve a model, by forward selection; no table is joined with the rows of the others.

What the model needs of the tables that are there, its sums for each fold, is calibrated once, up to an
empty bag for each set of columns that candidates join on. A candidate then costs one message of as many
rows as it has keys.

**Scores** are means of R² over folds that were held out. An inner join drops the rows without a partner, and
rows with a NULL in a feature are left out, so each score has its own baseline: that of the model without
the candidate *on the same rows*. The gain of a candidate is the difference, times the part of the rows
that are left. Tables are chosen one after the other, each for its gain beside those before it.

**Candidates** are tables by name, a list of tables or paths, a pattern, or a folder whose files and folders
are tables; instead of a table there may be a pair of it and what it joins on. Their features are their
columns that are numbers, booleans, text of at most `max_levels` values, or named in the model's
`categorical`. One that cannot be tried is at the end of the leaderboard, with the reason. Warnings name
rows that drop out, rows that are multiplied, and features that predict the target too well (`leaks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calitree.application import application
from calitree.apps.regression.linear import LinearRegression
from calitree.apps.search.folds import Folded, folded
from calitree.apps.search.leaderboard import Scored, Search
from calitree.apps.search.rounds import Round
from calitree.apps.search.tables import Candidate, keys_of, load_candidates, named
from calitree.apps.search.task import Model, Task
from calitree.errors import QueryError
from calitree.jointree.joins.checks import On
from calitree.progress import Listener, Progress, progress_bar
from calitree.wide_table import WideTable


@application
def search(
    wide: WideTable,
    candidates: Any,
    target: str,
    features: Sequence[str] = (),
    *,
    model: Model | None = None,
    on: On | None = None,
    where: str | None = None,
    cv: int = 5,
    fold: str | None = None,
    select: int = 1,
    min_gain: float = 0.001,
    max_levels: int = 50,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Search:
    """Which tables improve a linear model, and by how much: a leaderboard, the best first.

    No table is joined for it, and the large ones are read once, however many are tried.

    Args:
        wide: The join.
        candidates: Tables by name, a list of tables or paths, a pattern or a folder.
        target: The column to be predicted, a number.
        features: The columns that the model has already.
        model: A `calitree.ml.LinearRegression`, which is the default, or a `Ridge`.
        on: What candidates join on, as for `augment`; by default columns of the same names.
        where: An SQL condition that selects rows.
        cv: How many folds there are; each value is one if there are at most 20.
        fold: The column whose values are dealt out; by default the widest key of the target.
        select: How many tables to choose at most, one after the other.
        min_gain: The gain that a chosen table must have.
        max_levels: How many values a text column may have to be a feature.
        seed: Of the random folds.
        progress: A function that is told of each step, or whether to show a bar.

    Returns:
        The leaderboard; the chosen tables, the join with them, and the model fitted to it.

    Raises:
        QueryError: An option is out of range, or there is nothing to hold out.

    >>> lake = {"sizes": {"store": [1, 2], "area": [40, 70]}}
    >>> wide.search(lake, target="price", fold="store").best.name
    'sizes'
    """
    model = LinearRegression() if model is None else model
    task = Task.of(wide, model, target, features, where)
    if isinstance(select, bool) or not isinstance(select, int) or select < 0:
        raise QueryError(f"select is how many tables to choose at most; got {select!r}.")
    tables = named(candidates)
    able, unable = load_candidates(task, tables, on=on, max_levels=max_levels)
    folds = folded(task, fold=fold, cv=cv, seed=seed, taken=tables)
    with progress_bar(progress) as listener:
        return ForwardSelection(task, folds, select, min_gain, listener).run(able, unable)


@dataclass(eq=False)
class ForwardSelection:
    """Round after round, the best of the candidates that are left is chosen."""

    task: Task
    folds: Folded
    select: int
    min_gain: float
    listener: Listener
    done: int = 0
    """Steps that have begun."""

    def run(self, able: list[Candidate], unable: dict[str, str]) -> Search:
        """Try candidates; `unable` are those that cannot be tried, with the reasons."""
        rounds = min(len(able), self.select) or 1
        steps = sum(len(able) + 1 - i for i in range(rounds))
        self._begin(steps, "the features that are there")
        current = Round.begun(self.task, self.folds, self.task.features, keys_of(able))
        base, rest = current.base, able
        board = [Scored(name, warnings=(f"left out: {why}",)) for name, why in unable.items()]
        chosen: list[tuple[Candidate, Scored]] = []
        while rest:
            scores = []
            for candidate in rest:
                self._begin(steps, candidate.name)
                scores.append(current.score(candidate))
            if not chosen:
                board = [*scores, *board]
            best, scored = max(zip(rest, scores, strict=True), key=lambda pair: pair[1].gain)
            if self.select == 0 or scored.score is None or scored.gain < self.min_gain:
                break
            chosen.append((best, scored))
            rest = [candidate for candidate in rest if candidate is not best]
            if len(chosen) == self.select or not rest:
                break
            self._begin(steps, f"with {best.name}")
            current = current.extended(best, keys_of(rest))
        self.listener.end(steps)
        return Search(self.task, self.folds.by, base, board, chosen)

    def _begin(self, steps: int, what: str) -> None:
        self.listener.begin(self.done, steps, "search", what, 0)
        self.done += 1
