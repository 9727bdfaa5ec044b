"""The beam search for explanations: what is asked, and which combinations of columns are looked at.

One question groups by several columns at once, and answers for each of them and each two of them. All
single values and all pairs are judged as long as that takes at most `MAX_PAIR_QUESTIONS` questions a side;
of more, those between the blocks whose single values explain most. Three columns are looked at only where
two of them are those of one of the `BEAM_WIDTH` best pairs.

Support bounds the search: a combination with a rare value has few rows itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from calitree.apps.explain.candidates import Block, blocks_of, candidate_columns, home_of
from calitree.apps.explain.removals import Comparison, Removals, removals
from calitree.progress import Listener
from calitree.results.rollup import Groups
from calitree.results.summands import Array
from calitree.sql.quoting import column_text

MAX_PAIR_QUESTIONS = 60
"""Questions that group by the columns of two blocks, on each side."""
BEAM_WIDTH = 4
"""Pairs that are extended by a third column."""
LARGE_RELATION_ROWS = 100_000
"""Whether a column of a larger relation is a key is looked up before its values are counted."""
MIN_KEY_ROWS = 20
"""Of so few rows all values may be different by chance."""
MAX_BATCH_COMBINATIONS = 1 << 17
"""Combinations of values of a pair and the other columns that are asked for with it."""
MAX_QUESTION_COMBINATIONS = 1 << 22
"""A question with more combinations of values is not asked."""
MIN_IMPROVEMENT = 1.1
"""A combination's score must be so many times that of each part of it."""

Columns = tuple[str, ...]


@dataclass(eq=False)
class BeamSearch:
    """One search: the groups asked for so far, and the candidates judged."""

    comparison: Comparison
    listener: Listener
    max_values: int
    groups: dict[Columns, tuple[Groups, Groups]] = field(default_factory=dict)
    judged: dict[frozenset[str], Removals] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """How many values each column has."""
    questions: int = 0
    """How many were asked, of both sides together."""

    def run(
        self, attributes: Sequence[str] | None, depth: int, limit: int
    ) -> list[tuple[Removals, int]]:
        """The best candidates, best first."""
        blocks = self._blocks(attributes)
        pairs = [a + b for a, b in combinations(blocks, 2)] if depth > 1 else []
        pairs = [pair for pair in pairs if pair.bound <= MAX_QUESTION_COMBINATIONS]
        if len(pairs) > MAX_PAIR_QUESTIONS:
            self._ask("values", [block.columns for block in blocks])
            pairs = sorted(pairs, key=self._promise, reverse=True)[:MAX_PAIR_QUESTIONS]
        self._ask("pairs", [pair.columns for pair in pairs])
        known = self._columns
        self._ask("values", [b.columns for b in blocks if not known.issuperset(b.columns)])
        for width in range(1, min(depth, 2) + 1):
            self._judge(width)
        if depth > 2:
            for pair in self._best_pairs():
                self._ask("triples", list(self._triples(pair)))
            self._judge(3)
        return self._ranked(limit)

    def _blocks(self, attributes: Sequence[str] | None) -> list[Block]:
        """The columns to look at; unless they are named, only those with few values."""
        side, schema = self.comparison.side, self.comparison.side.wide.schema
        named = attributes is not None
        used = side.attributes | self.comparison.other.attributes
        columns = candidate_columns(schema, attributes, used)
        homes = {column: home_of(schema, attribute) for column, attribute in columns.items()}
        for done, (column, home) in enumerate(homes.items()):
            rows = schema.rows(home)
            self.listener.begin(done, len(homes), "columns", column, rows)
            is_key = not named and rows > LARGE_RELATION_ROWS and self._is_key(column)
            self.sizes[column] = 0 if is_key else self._cardinality([columns[column]], home)
            if is_key or (self.sizes[column] > self.max_values and not named):
                del columns[column]
        for key in [] if named else list(columns):
            if any(self._names(columns, other, key) for other in columns if other != key):
                del columns[key]
        return blocks_of(schema, columns, self.sizes)

    def _is_key(self, column: str) -> bool:
        """Whether it has too many values on our side, or most rows have one of their own."""
        self.questions += 1
        cardinality = len(self.comparison.side.ask([column]))
        rows = self.comparison.side.rows
        return cardinality > self.max_values or 2 * cardinality > rows > MIN_KEY_ROWS

    def _names(self, columns: Mapping[str, str], name: str, key: str) -> bool:
        """Whether a column that joins nothing has one value for each value of one that does."""
        attributes = self.comparison.side.wide.schema.attributes
        matches = [attribute for attribute in attributes.values() if attribute.match]
        named, own = attributes[columns[name]], attributes[columns[key]]
        joins = len(named.columns) > 1 or any(named.columns[0] in a.columns for a in matches)
        size, home = self.sizes[name], named.relations[0]
        if joins or size != self.sizes[key]:
            return False
        return any(
            len(joined.relations) > 1
            and home in joined.relations
            and size == self._cardinality([named.name, joined.name], home)
            for joined in (own, *(a for a in matches if set(a.columns) & set(own.columns)))
        )

    def _cardinality(self, attributes: Sequence[str], relation: str) -> int:
        """How many combinations of values a relation has, whatever it is joined with."""
        self.questions += 1
        wide, count = self.comparison.side.wide, {"rows": "count(*)"}
        own = wide.schema.columns_of[relation]
        columns = [column_text(relation, own[attribute]) for attribute in attributes]
        return len(wide.query(columns, measures=count, relations=[relation]))

    def _ask(self, what: str, questions: Sequence[Columns]) -> None:
        """Ask both sides, grouped by these columns."""
        side, other = self.comparison.side, self.comparison.other
        largest = max(map(side.wide.schema.rows, side.wide.schema.relations))
        for done, columns in enumerate(questions):
            self.listener.begin(done, len(questions), what, ", ".join(columns), largest)
            self.groups[columns] = side.ask(columns), other.ask(columns)
            self.questions += 2

    def _judge(self, width: int) -> None:
        """Judge all combinations of so many columns that were asked for together."""
        order = list(self.sizes)
        by_size = sorted(self.groups.items(), key=lambda item: len(item[1][1]))
        for columns, groups in by_size:
            for chosen in combinations(sorted(columns, key=order.index), width):
                if frozenset(chosen) not in self.judged:
                    self.judged[frozenset(chosen)] = removals(self.comparison, groups, chosen)

    def _promise(self, block: Block) -> float:
        """How well single values of its columns explain."""
        self._judge(1)
        return sum(self._best_score(frozenset({column})) for column in block.columns)

    def _best_score(self, columns: frozenset[str]) -> float:
        return float(self.judged[columns].score.max(initial=0.0))

    def _best_pairs(self) -> list[Columns]:
        """The pairs of columns with the best candidates, best first."""
        pairs = [columns for columns in self.judged if len(columns) == 2]
        best = sorted(pairs, key=self._best_score, reverse=True)[:BEAM_WIDTH]
        return [self.judged[pair].columns for pair in best if self._best_score(pair) > 0]

    def _triples(self, pair: Columns) -> Iterable[Columns]:
        """A pair and every other column, as many of them together as fit a question."""
        batch: Columns = pair
        for column in sorted(self.sizes.keys() & self._columns, key=lambda c: (self.sizes[c], c)):
            if column in pair or self._combinations((*pair, column)) > MAX_QUESTION_COMBINATIONS:
                continue
            if batch != pair and self._combinations((*batch, column)) > MAX_BATCH_COMBINATIONS:
                yield batch
                batch = pair
            batch = (*batch, column)
        if batch != pair:
            yield batch

    @property
    def _columns(self) -> set[str]:
        """All that was asked for."""
        return {column for columns in self.groups for column in columns}

    def _combinations(self, columns: Columns) -> int:
        return math.prod(self.sizes[column] for column in columns)

    def _ranked(self, limit: int) -> list[tuple[Removals, int]]:
        """Those that are better than each part of them; of equals the shorter first."""
        better = [(r, at) for r in self.judged.values() for at in self._better(r).tolist()]
        scores = np.array([candidates.score[at] for candidates, at in better])
        widths = np.array([len(candidates.columns) for candidates, _ in better])
        order = np.lexsort((widths, -scores.round(9)))
        return [better[i] for i in order[:limit].tolist()]

    def _better(self, candidates: Removals) -> Array:
        keep = np.ones(len(candidates.score), bool)
        for width in range(1, len(candidates.columns)):
            for part in combinations(candidates.columns, width):
                parent = self.judged.get(frozenset(part))
                if parent is not None and len(keep):
                    scores = parent.scores_of(candidates.columns, candidates.keys)
                    keep &= candidates.score >= MIN_IMPROVEMENT * scores
        return np.flatnonzero(keep)
