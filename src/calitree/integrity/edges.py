"""One join: what its two sides have in common, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from calitree.cache import cached_property
from calitree.engines.api.contraction import Table
from calitree.integrity.comparison import (
    KeyComparison,
    Totals,
    compare,
    matched_keys,
    repeated_keys,
)
from calitree.integrity.key_counts import EXAMPLES, MORE_THAN_ONE, KeyCounts
from calitree.integrity.report import EdgeCheck, EdgeSide, Finding, KeyExample, Severity
from calitree.integrity.spelling import respelled
from calitree.jointree.joins.join import Join
from calitree.jointree.schema import Relation, Schema
from calitree.types import Kind

MIN_RESPELLED_SHARE = 0.1
"""The part of the orphans from which on other spellings are a warning."""

KEEPS = {"left": (True, False), "right": (False, True), "full": (True, True)}
"""Whether a join keeps the rows of its left and of its right side that have no partner."""


class MeetingKeys:
    """A join, and the rows of its two relations by key."""

    def __init__(
        self, schema: Schema, join: Join, how: str, counts: tuple[KeyCounts, KeyCounts]
    ) -> None:
        self.schema, self.join, self.counts = schema, join, counts
        self.how = how
        """What the join is in effect."""

    @cached_property
    def compared(self) -> KeyComparison:
        """The keys of both sides."""
        return compare(*self.counts)

    @cached_property
    def edge(self) -> EdgeCheck:
        """The counts."""
        left, right = self._side(0), self._side(1)
        matched, joined = self.compared.matched[0].keys, self.compared.joined_rows
        join = str(self.join)
        return EdgeCheck(join, self.how, left, right, matched_keys=matched, joined_rows=joined)

    def _side(self, at: int) -> EdgeSide:
        name, compared = (self.join.left, self.join.right)[at], self.compared
        rows, known, matched = self.schema.rows(name), compared.known[at], compared.matched
        return EdgeSide(
            relation=name,
            columns=tuple(pair[at] for pair in self.join.pairs),
            rows=rows,
            keys=known.keys,
            most_rows=known.most,
            repeated_keys=self._repeated[at].keys,
            null_rows=rows - known.rows,
            orphan_rows=rows - matched[at].rows,
            orphan_keys=known.keys - matched[at].keys,
            mean_partners=compared.joined_rows / max(1, matched[at].rows),
            most_partners=matched[1 - at].most,
        )

    @cached_property
    def _repeated(self) -> tuple[Totals, ...]:
        known = zip(self.counts, self.compared.known, strict=True)
        return tuple(repeated_keys(side) if all_.most > 1 else Totals() for side, all_ in known)

    @cached_property
    def _matched(self) -> Table:
        return matched_keys(*self.counts)

    def _orphans(self, at: int) -> KeyCounts:
        return self.counts[at].without(self._matched)

    @cached_property
    def referenced(self) -> int:
        """Which side the other refers to, as far as keys tell: the one whose key is unique, or nearly.

        If both are it is the right one, as in a join of sales with stores.
        """
        sides = (self.edge.left, self.edge.right)
        unique = [side.is_unique for side in sides]
        if unique[0] != unique[1]:
            return unique.index(True)
        left, right = (known.rows / max(1, known.keys) for known in self.compared.known)
        return int(right <= left)

    def findings(self) -> Iterator[Finding]:
        """What is wrong, or worth knowing."""
        yield from self._type_findings()
        sides = (self.edge.left, self.edge.right)
        if not self.edge.matched_keys and all(side.rows for side in sides):
            yield self._without_match()
        else:
            for at, side in enumerate(sides):
                if side.orphan_keys:
                    yield self._orphans_of(at, side)
        for at, side in enumerate(sides):
            if side.null_rows:
                yield self._nulls_of(at, side)
        if not any(side.is_unique for side in sides):
            yield self._repeated_in(self.referenced, sides[self.referenced])
        if all(side.orphan_keys for side in sides):
            yield from self._spelling_findings()

    def _without_match(self) -> Finding:
        left, right = (self._examples(counts) for counts in self.counts)
        other = f"; there are {', '.join(map(str, right))}" if right else ""
        return Finding(
            "error",
            "no-match",
            self.edge.join,
            f"no row of {self.join.left} has a partner in {self.join.right}{other}.",
            rows=self.edge.left.rows,
            share=1.0,
            keys=self.edge.left.keys,
            examples=left,
        )

    def _orphans_of(self, at: int, side: EdgeSide) -> Finding:
        other = (self.join.right, self.join.left)[at]
        kept = self._is_kept(at)
        severity: Severity = "remark" if kept or at == self.referenced else "warning"
        fate = "keeps them beside NULL" if kept else "loses them"
        nulls = f"; rows with NULL: {side.null_rows:,}" if side.null_rows else ""
        return Finding(
            severity,
            "orphans",
            self.edge.join,
            f"{side.orphan_rows:,} of {side.rows:,} rows of {side.relation} ({side.orphan_share:.2%}) have no "
            f"partner in {other}, and the join {fate}; keys that are not there: {side.orphan_keys:,} of "
            f"{side.keys:,}{nulls}.",
            rows=side.orphan_rows,
            share=side.orphan_share,
            keys=side.orphan_keys,
            examples=self._examples(self._orphans(at)),
        )

    def _nulls_of(self, at: int, side: EdgeSide) -> Finding:
        share = side.null_rows / side.rows
        return Finding(
            "remark" if self._is_kept(at) else "warning",
            "null-keys",
            self.edge.join,
            f"{side.null_rows:,} of {side.rows:,} rows of {side.relation} ({share:.2%}) have NULL in "
            f"{', '.join(side.columns)}, which equals nothing.",
            rows=side.null_rows,
            share=share,
        )

    def _repeated_in(self, at: int, side: EdgeSide) -> Finding:
        other, repeated = (self.edge.right, self.edge.left)[at], self._repeated[at]
        return Finding(
            "warning",
            "repeated-keys",
            self.edge.join,
            f"{repeated.keys:,} of {side.keys:,} keys of {side.relation} repeat, one of them "
            f"{side.most_rows:,} times, and so do keys of {other.relation}: a row of {other.relation} counts "
            f"{other.mean_partners:.3g} times on average, and at most {other.most_partners:,} times.",
            rows=repeated.rows,
            share=repeated.rows / side.rows,
            keys=repeated.keys,
            examples=self._examples(self.counts[at], MORE_THAN_ONE),
        )

    def _spelling_findings(self) -> Iterator[Finding]:
        few = int(self.edge.right.orphan_keys < self.edge.left.orphan_keys)
        side = (self.edge.left, self.edge.right)[few]
        other = (self.edge.right, self.edge.left)[few]
        seen = respelled(self._orphans(few), self._orphans(1 - few))
        if seen is None:
            return
        share = len(seen.matches) / seen.compared
        mine, theirs = seen.matches[0]
        yield Finding(
            "warning" if share >= MIN_RESPELLED_SHARE else "remark",
            "spelling",
            self.edge.join,
            f"of {seen.compared:,} keys of {side.relation} that {other.relation} does not have, "
            f"{len(seen.matches):,} are there with other blanks around them or in another case, such as "
            f"{KeyExample(*mine)} and {KeyExample(*theirs)}. Write both alike in their sources.",
            rows=sum(rows for (_, rows), _ in seen.matches),
            keys=len(seen.matches),
            examples=tuple(KeyExample(*mine) for mine, _ in seen.matches[:EXAMPLES]),
        )

    def _type_findings(self) -> Iterator[Finding]:
        left, right = (self.schema.relations[n] for n in (self.join.left, self.join.right))
        for a, b in self.join.pairs:
            ours, theirs = _given_kind(left, a), _given_kind(right, b)
            flaw = flaw_of_types(ours, theirs)
            if flaw is not None:
                severity, reason = flaw
                meeting = (
                    f"{left.name}.{a} is {ours.phrase} and {right.name}.{b} is {theirs.phrase}"
                )
                yield Finding(severity, "types", self.edge.join, f"{meeting}: {reason}.")

    def _is_kept(self, at: int) -> bool:
        return KEEPS.get(self.how, (False, False))[at]

    def _examples(self, counts: KeyCounts, condition: str = "") -> tuple[KeyExample, ...]:
        return tuple(KeyExample(*key) for key in counts.most_frequent(EXAMPLES, condition))


def _given_kind(relation: Relation, column: str) -> Kind:
    """The kind of a column of a join; of a date that is joined as its midnight, that of the date."""
    kind, definition = relation.columns[column], relation.derived.get(column)
    if kind is not Kind.TIMESTAMP or definition is None:
        return kind
    source = definition.node.this
    is_date = isinstance(source, exp.Column) and relation.columns[source.name] is Kind.DATE
    return Kind.DATE if is_date else kind


def flaw_of_types(a: Kind, b: Kind) -> tuple[Severity, str] | None:
    """Why columns of these kinds meet badly; None if they do not.

    >>> flaw_of_types(Kind.DECIMAL, Kind.FLOAT)
    ('warning', 'a decimal such as 0.1 equals no double')
    >>> flaw_of_types(Kind.INTEGER, Kind.DECIMAL)
    """
    kinds = {a, b}
    if Kind.NULL in kinds:
        return "warning", "a column without a value joins nothing"
    if kinds == {Kind.DECIMAL, Kind.FLOAT}:
        return "warning", "a decimal such as 0.1 equals no double"
    if kinds == {Kind.INTEGER, Kind.FLOAT}:
        return "remark", "doubles do not tell integers from 2^53 on apart"
    if kinds == {Kind.FLOAT}:
        return "remark", "doubles that were computed differ in their last digits"
    if len(kinds) == 1 or kinds == {Kind.INTEGER, Kind.DECIMAL}:
        return None
    if Kind.DATE in kinds and all(kind.is_temporal for kind in kinds):
        return "warning", "a date equals a timestamp at midnight only"
    return "warning", "values of different types hardly ever are equal"
