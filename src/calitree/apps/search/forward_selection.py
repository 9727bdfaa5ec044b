"""Which tables improve a model: each is joined in turn, and none is ever joined with the others' rows.

What the model needs of the tables that are there (its moments, one fold by another) is calibrated once,
up to an empty bag for each set of columns that candidates join on. A candidate then costs one message
of as many rows as it has keys, and no more than that of its own.

The score of a candidate is R² on rows that were held out. Beside it stands that of the model without the
candidate *on the same rows*: rows without a partner drop out of an inner join, and a model is not better
for having been asked about fewer rows. Candidates are ranked by the difference, in the part of the rows
that they cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from calitree.application import application
from calitree.sql.quoting import column_text
from calitree.apps.regression.factors import ROWS, complete_rows, factor_of, total
from calitree.apps.regression.gram import Gram
from calitree.apps.regression.linear import LinearRegression, Ridge
from calitree.apps.regression.moments import centres_of, factors_of, grams_of, questions_of
from calitree.apps.search.folds import Folded, folded
from calitree.apps.search.leaderboard import Model, Score, Scored, Search, Task
from calitree.apps.search.tables import Candidate, candidate, keys_of, named
from calitree.errors import CalitreeError, QueryError, did_you_mean
from calitree.jointree.joins import On
from calitree.progress import Listener, Progress, progress_bar
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa

SUSPICIOUS = 0.99
"""A feature this strongly correlated with the target, or its mean by key, probably was made of it."""
MANY = 20
"""So many keys that chance does not make a column follow the means."""


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
    """Which tables improve a linear model of `target`, and by how much: a leaderboard, the best
    first. No table is joined for it, and the large ones are read once, however many are tried.

    `candidates` are tables by name, a list of tables or paths, a pattern, or a folder whose files and
    folders are tables; instead of a table there may be a pair of it and what it joins `on` (see
    `augment`; without it, columns of the same names). Its features are its columns that are
    numbers, truth values, text of at most `max_levels` values, or named in the model's
    `categorical`. One that cannot be tried is at the end, with the reason.

    Scores are means of R² over folds that were held out. The values of the column `fold` are dealt
    out in `cv` folds (each is one if they are at most 20); without it, those of the widest key of
    the target's relation. The rows of a join without a partner, or with a NULL in a feature, are
    left out, so each score has its own baseline, on the same rows. The gain is the difference, times
    the part of the rows that is left. Warnings tell of those that drop out, of rows that are
    multiplied, and of features that tell the target too well (`leaks`).

    Up to `select` tables are chosen one after the other, each beside those before it, while one
    has a gain of `min_gain`. `selected`, `wide` and `model` are these, the wide table that has
    them, and the model fitted to it.

    >>> from calitree import JoinGraph
    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"store": [1, 1, 2, 2, 3, 3], "half": [0, 1, 0, 1, 0, 1],
    ...     "units": [3, 4, 6, 7, 3, 2]})
    >>> g.add_relation("stores", {"store": [1, 2, 3], "city": ["Quito", "Loja", "Quito"]})
    >>> g.add_join("sales", "stores", on="store")
    >>> lake = {"size": {"store": [1, 2, 3], "area": [40, 70, 31]},
    ...     "rent": {"store": [1, 2, 3], "rent": [7, 7, 8]}}
    >>> found = g.calibrate().search(lake, target="units", fold="half")
    >>> [(each.name, round(each.score.mean, 2)) for each in found.board]
    [('size', 0.77), ('rent', 0.08)]
    >>> found.selected
    ['size']
    >>> list(found.model.coefficients_)
    ['size.area']
    """
    model = LinearRegression() if model is None else model
    if not isinstance(model, LinearRegression | Ridge):
        raise QueryError(
            f"model is a calitree.ml.LinearRegression or Ridge; got {type(model).__name__}."
        )
    if isinstance(features, str):
        raise QueryError(f"features is a list of columns; got {features!r}.")
    if isinstance(select, bool) or not isinstance(select, int) or select < 0:
        raise QueryError(f"select is how many tables to choose at most; got {select!r}.")
    task, given = Task(wide, model, target, tuple(features), where), named(candidates)
    chosen = model.categorical or ()
    able, unable = [], []
    for name, table in given.items():
        found = candidate(wide, name, table, on, chosen, max_levels)
        if isinstance(found, Candidate):
            able.append(found)
        else:
            unable.append(Scored(name, warnings=(f"left out: {found}",)))
    _check_categorical(chosen, [*features, *(name for each in able for name in each.features)])
    dealt = folded(wide, target, fold, cv, seed, where, given)
    with progress_bar(progress) as listener:
        return _searched(task, dealt, able, unable, select, min_gain, listener)


def _check_categorical(given: Iterable[str], features: Sequence[str]) -> None:
    for name in given:
        if name not in features:
            hint = did_you_mean(name, features)
            raise QueryError(f"{name!r} is categorical, but no feature of any table.{hint}")


def _searched(
    task: Task,
    dealt: Folded,
    able: list[Candidate],
    unable: list[Scored],
    select: int,
    min_gain: float,
    listener: Listener,
) -> Search:
    """Round after round, the best of the candidates that are left is taken."""
    steps = _Steps(listener, sum(len(able) + 1 - i for i in range(min(len(able), select) or 1)))
    steps.begin("the features that are there")
    now = _Round.begun(task, dealt.wide, dealt.column, task.features, keys_of(able))
    base, board, rest = now.base, unable, able
    chosen: list[tuple[Candidate, Scored]] = []
    while rest:
        scores = []
        for each in rest:
            steps.begin(each.name)
            scores.append(now.score(each))
        if not chosen:
            board = [*scores, *unable]
        best, scored = max(zip(rest, scores, strict=True), key=lambda each: each[1].gain)
        if select == 0 or scored.score is None or scored.gain < min_gain:
            break
        chosen.append((best, scored))
        rest = [each for each in rest if each is not best]
        if len(chosen) == select or not rest:
            break
        steps.begin(f"with {best.name}")
        now = now.then(best, keys_of(rest))
    steps.end()
    return Search(task, dealt.by, base, board, chosen)


class _Steps:
    """Tells how far a search has come."""

    def __init__(self, listener: Listener, total: int) -> None:
        self.listener, self.total, self.done = listener, total, 0

    def begin(self, what: str) -> None:
        self.listener.begin(self.done, self.total, "search", what, 0)
        self.done += 1

    def end(self) -> None:
        self.listener.end(self.total)


@dataclass(frozen=True, eq=False)
class _Round:
    """The tables so far, calibrated up to where candidates join."""

    task: Task
    wide: WideTable
    fold: str
    features: tuple[str, ...]
    centres: Mapping[str, float]
    base: Score

    @classmethod
    def begun(
        cls,
        task: Task,
        wide: WideTable,
        fold: str,
        features: tuple[str, ...],
        keys: Sequence[frozenset[str]],
        centres: Mapping[str, float] | None = None,
    ) -> _Round:
        options = _options(task, features)
        centres = centres_of(wide, task.target, features, centres=centres, **options)
        there = {bag.attributes for bag in wide.tree.bags if not bag.relations}
        for each in keys:
            if each not in there:
                wide = wide.keyed([_column(wide, attribute) for attribute in sorted(each)])
        asked: dict[str, Any] = {"by": fold, "centres": centres, **options}
        if keys:
            questions = questions_of(wide, task.target, features, **asked)
            wide.branch.add_pivots(questions, progress=False)
        base = _cross_validated(task.model, grams_of(wide, task.target, features, **asked))
        return cls(task, wide, fold, features, centres, base)

    def then(self, chosen: Candidate, keys: Sequence[frozenset[str]]) -> _Round:
        """The round after a table was chosen. Centres stay, and with them messages."""
        wide, features = self.wide.augment(chosen.table), (*self.features, *chosen.features)
        return self.begun(self.task, wide, self.fold, features, keys, self.centres)

    def score(self, one: Candidate) -> Scored:
        """The model with the features of one more table."""
        task, wide = self.task, self.wide.augment(one.table)
        features = (*self.features, *one.features)
        asked = {"by": self.fold, "centres": self.centres, **_options(task, features)}
        try:
            grams = grams_of(wide, task.target, features, **asked)
            score = _cross_validated(task.model, grams)
            without = {fold: gram.select(self.features) for fold, gram in grams.items()}
            baseline = _cross_validated(task.model, without)
        except CalitreeError as error:
            return Scored(one.name, one.on, one.features, warnings=(f"left out: {error}",))
        copies, coverage = self._joined(wide, one, score.rows)
        leaks = tuple(_leaks(_sum(grams.values()), one.features, *self._by_key(wide, one)))
        warnings = (*_warnings(one, copies, coverage, leaks), *one.unfit)
        plans = next(iter(grams.values())).plans
        own = (one.name, one.on, one.features)
        return Scored(*own, score, baseline, coverage, copies, leaks, warnings, plans)

    def _joined(self, wide: WideTable, one: Candidate, rows: int) -> tuple[int, float]:
        """How many rows have the same key at most, and the part of our rows that have a partner. Rows
        of it with a NULL in a feature are not in the model, and are no partners.
        """
        keys = one.table.keys.values()
        columns = [f"{one.name}.{column}" for column in keys]
        factors = [factor_of(wide.schema, each, one.features) for each in one.features]
        present = " AND ".join(f"{column_text(one.name, each)} IS NOT NULL" for each in keys)
        known = complete_rows(factors, present)
        own = wide.query(columns, known, {"rows": "count(*)"}, [one.name]).arrow()
        copies = max(own["rows"].to_pylist(), default=0)
        if copies > 1:  # then each of our rows is to be counted once
            names = {_column(wide, key): f"key{i}" for i, key in enumerate(one.table.keys)}
            met = own.select(columns).rename_columns(list(names.values()))
            found = self._sums(self.wide.augment(met, on=names), (), self.features)
            rows = sum(found["rows"].to_pylist())
        return copies, rows / self.base.rows

    def _by_key(self, wide: WideTable, one: Candidate) -> tuple[float, int]:
        """How much the target's mean varies from key to key, as a sum of squares, and how many keys
        there are. No column of the candidate can tell more than that.
        """
        import numpy as np

        columns = [_column(wide, key) for key in one.table.keys]
        found = self._sums(wide, columns, (*self.features, *one.features))
        found = found.group_by(columns).aggregate([("rows", "sum"), ("sum", "sum")])
        rows, sums = np.asarray(found["rows_sum"], float), np.asarray(found["sum_sum"])
        return float((sums**2 / rows).sum() - sums.sum() ** 2 / rows.sum()), len(rows)

    def _sums(self, wide: WideTable, columns: Sequence[str], features: Sequence[str]) -> pa.Table:
        """The rows, and the sum of the target around its centre, where no feature is NULL; by fold, as
        all is that was calibrated.
        """
        task = self.task
        chosen = _options(task, features)["categorical"]
        aim, found = factors_of(wide, task.target, features, chosen)
        measures = {"rows": ROWS, "sum": total(aim.around(self.centres[task.target]))}
        where = complete_rows([aim, *found], task.where)
        return wide.query([*columns, self.fold], where, measures).arrow()


def _options(task: Task, features: Sequence[str]) -> dict[str, Any]:
    """What every call for moments is given."""
    chosen = [each for each in task.model.categorical or () if each in features]
    return {"categorical": chosen, "where": task.where}


def _column(wide: WideTable, attribute: str) -> str:
    """A column that has an attribute's values."""
    return ".".join(wide.schema.attributes[attribute].columns[0])


def _sum(grams: Iterable[Gram]) -> Gram:
    return reduce(add, grams)


def _cross_validated(model: Model, grams: Mapping[Any, Gram]) -> Score:
    """Each fold by a model that was fitted to the others. One of a single row has no R²."""
    import numpy as np

    held = [gram for gram in grams.values() if gram.rows >= 2]
    if len(grams) < 2 or not held:
        left = "in one fold" if grams else "NULL somewhere, or have no partner"
        raise QueryError(f"Nothing can be held out: all rows are {left}.")
    whole = _sum(grams.values())
    scores = [model.solved(whole - each).r2(each) for each in held]
    return Score(float(np.mean(scores)), float(np.std(scores)), int(whole.rows))


def _warnings(one: Candidate, copies: int, coverage: float, leaks: Iterable[str]) -> Iterator[str]:
    if copies > 1:
        yield f"up to {copies} rows have the same {one.on}: it multiplies rows"
    if coverage < 1:
        yield f"{1 - coverage:.1%} of the rows have no partner in it and drop out"
    for name in leaks:
        yield f"{name} tells the target too well to be true: does it leak?"


def _leaks(gram: Gram, features: Iterable[str], by_key: float, keys: int) -> Iterator[str]:
    """Features that by themselves tell nearly all of the target; or, as only a mean of the target does,
    nearly all that any column with these keys could.
    """
    at, target = gram.positions, gram.positions[gram.target]
    whole = gram.spread[target, target]
    for name in features:
        limit = whole
        if name in at:
            own = gram.spread[at[name], at[name]]
            told = gram.spread[at[name], target] ** 2 / own if own > 0 else 0.0
            limit = by_key if keys >= MANY else whole
        else:
            sums, counts = gram.sums_by[name][:, target], gram.counts[name]
            here = counts > 0
            told = sum(sums[here] ** 2 / counts[here]) - gram.sums[target] ** 2 / gram.rows
        if told > SUSPICIOUS**2 * limit > 0:
            yield name
