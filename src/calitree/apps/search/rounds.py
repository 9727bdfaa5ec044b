"""One round of a forward selection: what each candidate adds to the tables that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from calitree.apps.regression.factors import ROWS, complete_rows, factor_of, total
from calitree.apps.regression.gram import Gram
from calitree.apps.regression.gram_query import GramQuery
from calitree.apps.search.folds import Folded, cross_validated
from calitree.apps.search.leaderboard import Score, Scored
from calitree.apps.search.tables import Candidate
from calitree.apps.search.task import Task
from calitree.errors import CalitreeError
from calitree.sql.quoting import column_text
from calitree.wide_table import WideTable

MAX_CORRELATION = 0.99
"""A feature with a stronger correlation with the target, or its mean by key, probably was made of it."""
MIN_LEAK_KEYS = 20
"""With fewer keys a column may follow the target's means by chance."""


@dataclass(frozen=True, eq=False)
class Round:
    """The tables so far, calibrated up to where candidates join."""

    task: Task
    folds: Folded
    features: tuple[str, ...]
    centres: Mapping[str, float]
    base: Score

    @classmethod
    def begun(
        cls,
        task: Task,
        folds: Folded,
        features: tuple[str, ...],
        keys: Sequence[frozenset[str]],
        centres: Mapping[str, float] | None = None,
    ) -> Round:
        """Calibrate the sums of the model; `keys` are the sets of attributes that candidates join on."""
        wide = folds.wide
        known = _query(task, wide, features).centres(centres)
        empty = {bag.attributes for bag in wide.tree.bags if not bag.relations}
        for attributes in keys:
            if attributes not in empty:
                wide = wide.keyed([_column(wide, attribute) for attribute in sorted(attributes)])
        query = _query(task, wide, features, by=folds.column)
        if keys:
            wide.branch.add_pivots(query.questions(known), progress=False)
        base = cross_validated(task.model, query.grams(known))
        return cls(task, replace(folds, wide=wide), features, known, base)

    def extended(self, chosen: Candidate, keys: Sequence[frozenset[str]]) -> Round:
        """The round after a table was chosen. Centres stay, and with them messages."""
        folds = replace(self.folds, wide=self.folds.wide.augment(chosen.table))
        features = (*self.features, *chosen.features)
        return self.begun(self.task, folds, features, keys, self.centres)

    def score(self, candidate: Candidate) -> Scored:
        """The model with the features of one more table."""
        model, wide = self.task.model, self.folds.wide.augment(candidate.table)
        features = (*self.features, *candidate.features)
        scored = Scored(candidate.name, candidate.on, candidate.features)
        try:
            grams = _query(self.task, wide, features, by=self.folds.column).grams(self.centres)
            score = cross_validated(model, grams)
            without = {fold: gram.select(self.features) for fold, gram in grams.items()}
            baseline = cross_validated(model, without)
        except CalitreeError as error:
            return replace(scored, warnings=(f"left out: {error}",))
        copies, coverage = self._joined(wide, candidate, score.rows)
        whole = reduce(add, grams.values())
        leaks = tuple(_leaks(whole, candidate.features, *self._by_key(wide, candidate)))
        return replace(
            scored,
            score=score,
            baseline=baseline,
            coverage=coverage,
            copies=copies,
            leaks=leaks,
            warnings=(*_warnings(candidate, copies, coverage, leaks), *candidate.unfit),
            plans=next(iter(grams.values())).plans,
        )

    def _joined(self, wide: WideTable, candidate: Candidate, rows: int) -> tuple[int, float]:
        """How many rows of it have the same key at most, and the part of our rows with a partner.

        Rows of it with a NULL in a feature are not in the model, and are no partners.
        """
        name, keys = candidate.name, candidate.table.keys.values()
        columns = [f"{name}.{column}" for column in keys]
        factors = [factor_of(wide.schema, f, candidate.features) for f in candidate.features]
        present = " AND ".join(f"{column_text(name, column)} IS NOT NULL" for column in keys)
        known = complete_rows(factors, present)
        own = wide.query(columns, known, {"rows": "count(*)"}, [name]).arrow()
        copies = max(own["rows"].to_pylist(), default=0)
        if copies > 1:  # then each of our rows is to be counted once
            names = {_column(wide, key): f"key{i}" for i, key in enumerate(candidate.table.keys)}
            distinct = own.select(columns).rename_columns(list(names.values()))
            once = self._sums(self.folds.wide.augment(distinct, on=names), (), self.features)
            rows = sum(once["rows"].to_pylist())
        return copies, rows / self.base.rows

    def _by_key(self, wide: WideTable, candidate: Candidate) -> tuple[float, int]:
        """The variance of the target's mean between keys, as a sum of squares, and how many keys there are.

        No column of the candidate can explain more than that.
        """
        columns = [_column(wide, key) for key in candidate.table.keys]
        table = self._sums(wide, columns, (*self.features, *candidate.features))
        table = table.group_by(columns).aggregate([("rows", "sum"), ("sum", "sum")])
        rows, sums = np.asarray(table["rows_sum"], float), np.asarray(table["sum_sum"])
        between = sums / rows - sums.sum() / rows.sum()
        return float((rows * between**2).sum()), len(rows)

    def _sums(self, wide: WideTable, columns: Sequence[str], features: Sequence[str]) -> pa.Table:
        """The rows, and the sum of the target around its centre, where no feature is NULL.

        By fold, as all is that was calibrated.
        """
        query = _query(self.task, wide, features)
        target = query.target.around(self.centres[self.task.target])
        measures = {"rows": ROWS, "sum": total(target)}
        return wide.query([*columns, self.folds.column], query.where, measures).arrow()


def _query(
    task: Task, wide: WideTable, features: Sequence[str], by: str | None = None
) -> GramQuery:
    chosen = [name for name in task.model.categorical or () if name in features]
    return GramQuery(wide, task.target, features, categorical=chosen, where=task.where, by=by)


def _column(wide: WideTable, attribute: str) -> str:
    """A column that has an attribute's values."""
    return ".".join(wide.schema.attributes[attribute].columns[0])


def _warnings(
    candidate: Candidate, copies: int, coverage: float, leaks: Iterable[str]
) -> Iterator[str]:
    if copies > 1:
        yield f"up to {copies} rows have the same {candidate.on}: it multiplies rows"
    if coverage < 1:
        yield f"{1 - coverage:.1%} of the rows have no partner in it and drop out"
    for name in leaks:
        yield f"{name} tells the target too well to be true: does it leak?"


def _leaks(gram: Gram, features: Iterable[str], by_key: float, keys: int) -> Iterator[str]:
    """Features that by themselves explain nearly all of the target.

    Or nearly all that any column with these keys could: only a mean of the target does.
    """
    at, target = gram.positions, gram.positions[gram.target]
    variance = gram.spread[target, target]
    for name in features:
        limit = variance
        if name in at:
            own = gram.spread[at[name], at[name]]
            explained = gram.spread[at[name], target] ** 2 / own if own > 0 else 0.0
            limit = by_key if keys >= MIN_LEAK_KEYS else variance
        else:
            sums, counts = gram.sums_by[name][:, target], gram.counts[name]
            used = counts > 0
            explained = sum(sums[used] ** 2 / counts[used])
        if explained > MAX_CORRELATION**2 * limit > 0:
            yield name
