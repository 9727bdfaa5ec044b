"""The search for explanations: what is asked, and which combinations of columns are looked at.

One question groups by several columns at once, and answers for each of them and each two of them. All
single values and all pairs are judged as long as that takes at most `PAIRS` questions a side; of more,
those between the blocks whose single values explain most. Three columns are looked at only where two of
them are those of one of the `BEAM` best pairs.

Support bounds the search: what has a value too rare has too few rows itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from calitree.apps.explain.candidates import (
    Block,
    blocks_of,
    candidate_columns,
    column_text,
    home_of,
)
from calitree.apps.explain.removals import Inquiry, Removals, removals
from calitree.progress import Listener
from calitree.results.rollup import Groups
from calitree.results.summands import Array

PAIRS = 60
BEAM = 4
LARGE = 100_000
"""Relations of more rows may have columns of as many values, so that it is better to look first."""
FEW = 20
"""Of so few rows all values may well be different."""
TOGETHER = 1 << 17
"""Combinations of values that are asked for with a pair at one time."""
MOST = 1 << 22
"""Combinations of values that are too many for a question."""
IMPROVEMENT = 1.1
"""A combination must be so much better than each part of it."""

Columns = tuple[str, ...]


@dataclass(eq=False)
class Search:
    """The tables asked for so far, and what they tell."""

    asked: Inquiry
    listener: Listener
    max_values: int
    tables: dict[Columns, tuple[Groups, Groups]] = field(default_factory=dict)
    judged: dict[frozenset[str], Removals] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    questions: int = 0
    """How many were asked, of both sides together."""

    def run(
        self, attributes: Sequence[str] | None, depth: int, limit: int
    ) -> list[tuple[Removals, int]]:
        """The best candidates, best first."""
        blocks = self._blocks(attributes)
        pairs = [a + b for a, b in combinations(blocks, 2)] if depth > 1 else []
        pairs = [pair for pair in pairs if pair.bound <= MOST]
        if len(pairs) > PAIRS:
            self._ask("values", [block.columns for block in blocks])
            pairs = sorted(pairs, key=self._promise, reverse=True)[:PAIRS]
        self._ask("pairs", [pair.columns for pair in pairs])
        self._ask("values", [b.columns for b in blocks if not self._columns.issuperset(b.columns)])
        for width in range(1, min(depth, 2) + 1):
            self._judge(width)
        if depth > 2:
            for pair in self._best(2)[:BEAM]:
                self._ask("triples", list(self._around(pair.columns)))
            self._judge(3)
        return self._ranked(limit)

    def _blocks(self, attributes: Sequence[str] | None) -> list[Block]:
        """The columns to look at, with few enough values unless they are named."""
        side, schema = self.asked.side, self.asked.side.wide.schema
        named = attributes is not None
        used = side.attributes | self.asked.other.attributes
        columns = candidate_columns(schema, attributes, used)
        homes = {column: home_of(schema, attribute) for column, attribute in columns.items()}
        for done, (column, home) in enumerate(homes.items()):
            rows = schema.rows(home)
            self.listener.begin(done, len(homes), "columns", column, rows)
            is_key = not named and rows > LARGE and self._is_key(column)
            self.sizes[column] = 0 if is_key else self._counted([columns[column]], home)
            if is_key or (self.sizes[column] > self.max_values and not named):
                del columns[column]
        for key in [] if named else list(columns):
            if any(self._names(columns, other, key) for other in columns if other != key):
                del columns[key]
        return blocks_of(schema, columns, self.sizes)

    def _is_key(self, column: str) -> bool:
        """Whether there are too many values where the question looks, or most are different."""
        self.questions += 1
        found = len(self.asked.side.ask([column]))
        return found > self.max_values or 2 * found > self.asked.side.rows > FEW

    def _names(self, columns: Mapping[str, str], name: str, key: str) -> bool:
        """Whether a column that joins nothing tells the same of every row as one that does."""
        attributes = self.asked.side.wide.schema.attributes
        ours, theirs = (attributes[columns[each]].relations for each in (name, key))
        if len(ours) > 1 or len(theirs) < 2 or ours[0] not in theirs:
            return False
        size = self.sizes[name]
        both = [columns[name], columns[key]]
        return size == self.sizes[key] and size == self._counted(both, ours[0])

    def _counted(self, attributes: Sequence[str], relation: str) -> int:
        """How many combinations of values a relation has, whatever it is joined with."""
        self.questions += 1
        wide, count = self.asked.side.wide, {"rows": "count(*)"}
        own = wide.schema.columns_of[relation]
        columns = [column_text(relation, own[attribute]) for attribute in attributes]
        return len(wide.query(columns, measures=count, relations=[relation]))

    def _ask(self, what: str, wanted: Sequence[Columns]) -> None:
        """Both sides, grouped by these columns."""
        schema = self.asked.side.wide.schema
        largest = max(schema.rows(name) for name in schema.relations)
        for done, columns in enumerate(wanted):
            self.listener.begin(done, len(wanted), what, ", ".join(columns), largest)
            self.tables[columns] = self.asked.side.ask(columns), self.asked.other.ask(columns)
            self.questions += 2

    def _judge(self, width: int) -> None:
        """All combinations of so many columns that some table has."""
        order = list(self.sizes)
        for columns, groups in sorted(self.tables.items(), key=lambda each: len(each[1][1])):
            for chosen in combinations(sorted(columns, key=order.index), width):
                if frozenset(chosen) not in self.judged:
                    self.judged[frozenset(chosen)] = removals(self.asked, groups, chosen)

    def _promise(self, block: Block) -> float:
        """How well single values of its columns explain."""
        self._judge(1)
        return float(sum(self._value(frozenset({column})) for column in block.columns))

    def _value(self, columns: frozenset[str]) -> float:
        """The score of the best candidate."""
        return float(self.judged[columns].score.max(initial=0.0))

    def _best(self, width: int) -> list[Removals]:
        """The combinations of so many columns, those with the best candidate first."""
        found = [columns for columns in self.judged if len(columns) == width]
        best = sorted(found, key=self._value, reverse=True)
        return [self.judged[columns] for columns in best if self._value(columns) > 0]

    def _around(self, pair: Columns) -> Iterable[Columns]:
        """These two and every other column, as many of them together as fit a question."""
        batch: Columns = pair
        for column in sorted(self.sizes.keys() & self._columns, key=lambda c: (self.sizes[c], c)):
            if column in pair or self._width((*pair, column)) > MOST:
                continue
            if batch != pair and self._width((*batch, column)) > TOGETHER:
                yield batch
                batch = pair
            batch = (*batch, column)
        if batch != pair:
            yield batch

    @property
    def _columns(self) -> set[str]:
        return {column for columns in self.tables for column in columns}

    def _width(self, columns: Columns) -> int:
        return math.prod(self.sizes[column] for column in columns)

    def _ranked(self, limit: int) -> list[tuple[Removals, int]]:
        """Those that are better than each part of them; of equals the shorter first."""
        sets = [each for each in self.judged.values() if len(each.score)]
        found = [(each, at) for each in sets for at in self._better(each).tolist()]
        if not found:
            return []
        scores = np.array([each.score[at] for each, at in found])
        widths = np.array([len(each.columns) for each, _ in found])
        order = np.lexsort((widths, -scores.round(9)))
        return [found[i] for i in order[:limit].tolist()]

    def _better(self, each: Removals) -> Array:
        keep = np.ones(len(each.score), bool)
        for width in range(1, len(each.columns)):
            for part in combinations(each.columns, width):
                parent = self.judged.get(frozenset(part))
                if parent is not None:
                    scores = parent.scores_of(each.columns, each.keys)
                    keep &= each.score >= IMPROVEMENT * scores
        return np.flatnonzero(keep)
