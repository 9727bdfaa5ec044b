"""Reducing a large table before it is joined: one pass over its rows for all outputs.

⊗ distributes over ⊕, so rows may be summed *before* they are joined with some of the messages. For an
output around a large table, the messages that have one row for each key are looked up and multiplied
in on the pass (they are *probed*), and rows are summed by the attributes that the output still needs.
What is left is a small contraction, in which the sums stand for the table.

Messages whose separators lie in one larger separator are multiplied with each other first, over its
ids; then each row only looks up their product. Outputs that need the same sums share them: all
messages to neighbours inside one separator take one sum by that separator.

The worked example: Sales(date, store, item) sends to Oil(date), Stores(store),
Transactions(date, store) and Items(item). By (date, store) it sums what Items sends: from these
sums three small contractions make the messages to Oil, Stores and Transactions. By item it sums
the product of those three, which is the message to Items itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from calitree.engines.api.contraction import Column, Factor, Output, Stored, Weight
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.scan.aggregation import Aggregation, SumColumn, counted
from calitree.engines.local.scan.scan import Scan
from calitree.engines.local.tables.legs import Leg, centre, shared
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.sql.parser import Expression

DETOUR_RATIO = 2
"""How many times as many rows as sums there must be for a detour over the sums."""


@dataclass(frozen=True, eq=False)
class Job:
    """One output to be computed from its legs; `leg_of` tells in which leg an input is."""

    legs: Mapping[int, Leg]
    leg_of: Mapping[int, int]
    output: Output

    @property
    def needed(self) -> set[str]:
        """The attributes that are kept, or that predicates over several legs need."""
        needed = set(self.output.keep)
        for predicate in self.output.where:
            if not any(leg.holds(predicate) for leg in self.legs.values()):
                needed |= predicate.attributes
        return needed

    def masks(self, at: int) -> tuple[Expression, ...]:
        """The predicates that a leg applies to its own rows."""
        return tuple(p for p in self.output.where if self.legs[at].holds(p))

    def separators(self, middle: int) -> dict[int, tuple[str, ...]]:
        """The attributes that each other leg shares with the leg in the middle."""
        return {
            at: shared({middle: self.legs[middle], at: leg}, at)
            for at, leg in self.legs.items()
            if at != middle
        }

    def is_function(self, at: int, separator: tuple[str, ...]) -> bool:
        """Whether a message has at most one row for each row that looks it up."""
        leg = self.legs[at]
        if not separator:
            return False
        return leg.places(leg.table.book.space(separator), self.masks(at)) is not None


@dataclass(frozen=True)
class Reduction:
    """How a job is reduced: which messages are probed, and what rows are summed by."""

    job: Job
    middle: int
    onto: tuple[str, ...]
    probed: frozenset[int]
    where: tuple[Expression, ...]
    """Predicates on rows of the table that no message applies too."""

    @property
    def left(self) -> dict[int, Leg]:
        """The legs that are joined with the sums afterwards."""
        legs = self.job.legs
        return {i: leg for i, leg in legs.items() if i not in self.probed and i != self.middle}

    @property
    def is_idle(self) -> bool:
        """Whether it would only sum sums by what they are summed by already."""
        table = self.job.legs[self.middle]
        same = isinstance(table.table, EncodedMessage) and set(self.onto) == table.names.keys()
        return same and not self.probed and not self.where

    @property
    def due(self) -> tuple[Expression, ...]:
        """Predicates that are left for afterwards."""
        legs = self.job.legs
        return tuple(
            p
            for p in self.job.output.where
            if p not in self.where and not any(legs[at].holds(p) for at in self.probed)
        )

    @property
    def is_all(self) -> bool:
        """Whether nothing is left to be done afterwards."""
        return not self.left and not self.due and set(self.onto) == set(self.job.output.keep)

    def shares_pass(self, other: Reduction) -> bool:
        """Whether one pass can compute both."""
        ours, theirs = self.job.legs, other.job.legs
        same = all(ours[at] is theirs[at] for at in ours.keys() & theirs.keys())
        return same and self.middle == other.middle and self.where == other.where

    @property
    def sums(self) -> tuple[object, ...]:
        """Equal for reductions that read the same rows, multiply and sum alike."""
        probed = tuple((at, self.job.masks(at)) for at in sorted(self.probed))
        return self.onto, probed, self.where

    def reduced(self, column: Column, aggregation: Aggregation) -> Column:
        """A column's product, as far as the pass can compute it, summed; times what is left of it."""
        own: list[Factor] = []
        probed: list[tuple[int, Factor]] = []
        rest: list[Factor] = []
        for factor in column.factors:
            at = self.job.leg_of[factor.input]
            if at == self.middle:
                own.append(factor)
            elif at in self.probed:
                probed.append((at, factor))
            else:
                rest.append(factor)
        if rest and not own and not probed and column.semiring.idempotent:
            return replace(column, factors=tuple(rest))
        if column.semiring.values and all(
            isinstance(f, Weight) for f in (*own, *(f for _, f in probed))
        ):
            name = aggregation.add(counted(own, probed))
            return replace(column, factors=(Weight(self.middle, name), *rest))
        name = aggregation.add(SumColumn(column.semiring, tuple(own), tuple(probed)))
        return replace(column, factors=(Stored(self.middle, name), *rest))

    def rest(self, output: Output, aggregation: Aggregation) -> Job | EncodedMessage:
        """The contraction that is left, or its result if nothing is."""
        if self.is_all:
            return aggregation.message.renamed(output.keep, output.columns)
        legs = {self.middle: aggregation.leg, **self.left}
        leg_of = {i: i for i in legs} | {
            i: at for i, at in self.job.leg_of.items() if at in legs and at != self.middle
        }
        return Job(legs, leg_of, replace(output, where=self.due))


def reduce_jobs(
    book: Codebook, jobs: Sequence[Job], large: int, threads: int
) -> list[Job | EncodedMessage]:
    """The same outputs over smaller tables; those that are complete already as messages.

    Sums by a separator may still be many, so what is left of a job may be reduced once more.
    """
    first = _reduced(book, jobs, large, threads)
    left = {i: job for i, job in enumerate(first) if isinstance(job, Job) and job is not jobs[i]}
    second = _reduced(book, list(left.values()), large, threads)
    again = dict(zip(left, second, strict=True))
    return [again.get(i, result) for i, result in enumerate(first)]


def _reduced(
    book: Codebook, jobs: Sequence[Job], large: int, threads: int
) -> list[Job | EncodedMessage]:
    result: list[Job | EncodedMessage] = list(jobs)
    for together in _passes(_reductions(jobs, large)):
        for i, rest in _run(book, together, threads).items():
            result[i] = rest
    return result


def _passes(reductions: Mapping[int, Reduction]) -> list[dict[int, Reduction]]:
    """Which reductions are computed in one pass: over the same rows, among the same legs."""
    passes: list[dict[int, Reduction]] = []
    for i, reduction in reductions.items():
        for together in passes:
            if all(reduction.shares_pass(other) for other in together.values()):
                together[i] = reduction
                break
        else:
            passes.append({i: reduction})
    return passes


def _run(
    book: Codebook, reductions: Mapping[int, Reduction], threads: int
) -> dict[int, Job | EncodedMessage]:
    """What is left of each job after the pass that they share."""
    first = next(iter(reductions.values()))
    around = {
        at: (reduction.job.legs[at], separator)
        for reduction in reductions.values()
        for at, separator in reduction.job.separators(first.middle).items()
    }
    scan = Scan(book, first.job.legs[first.middle], around, first.where)
    aggregations: dict[tuple[object, ...], Aggregation] = {}
    outputs: dict[int, Output] = {}
    for i, reduction in reductions.items():
        if reduction.sums not in aggregations:
            masks = {at: reduction.job.masks(at) for at in reduction.probed}
            aggregations[reduction.sums] = scan.aggregate(reduction.onto, masks)
        aggregation, output = aggregations[reduction.sums], reduction.job.output
        columns = tuple(reduction.reduced(column, aggregation) for column in output.columns)
        outputs[i] = replace(output, columns=columns)
    scan.run(threads)
    return {i: r.rest(outputs[i], aggregations[r.sums]) for i, r in reductions.items()}


def reduction_of(job: Job, large: int) -> Reduction | None:
    """How a single job is reduced, if it is worth it."""
    return _reductions([job], large).get(0)


def _reductions(jobs: Sequence[Job], large: int) -> dict[int, Reduction]:
    """For each job worth it, how to reduce it."""
    reductions: dict[int, Reduction] = {}
    enclosing: dict[int, tuple[str, ...] | None] = {}
    for i, job in enumerate(jobs):
        if all(leg.rows < large for leg in job.legs.values()):
            continue
        middle = centre(job.legs)
        assert middle is not None
        if job.legs[middle].rows >= large and not _only_counts(job):
            reduction = _direct(job, middle)
            if not reduction.is_idle:
                reductions[i], enclosing[i] = reduction, _enclosing(job, middle)
    separators = list(enclosing.values())
    for i, separator in enclosing.items():
        # Worth a detour over the sums by a whole separator if another output takes it too.
        if separator is not None and separators.count(separator) > 1:
            detour = _by_separator(jobs[i], reductions[i].middle, separator)
            reductions[i] = detour or reductions[i]
    return reductions


def _only_counts(job: Job) -> bool:
    """Whether all that is asked is how many rows there are."""
    output = job.output
    plain = not output.keep and not output.where and len(job.legs) == 1
    return plain and not any(c.factors or not c.semiring.is_sum_product for c in output.columns)


def _enclosing(job: Job, middle: int) -> tuple[str, ...] | None:
    """The largest separator that, with the messages inside of it, has all that is needed."""
    separators, needed = job.separators(middle), job.needed
    own = tuple(sorted(needed & job.legs[middle].names.keys()))
    for attributes in sorted({*separators.values(), own}, key=lambda names: (-len(names), names)):
        inside = [at for at, names in separators.items() if set(names) <= set(attributes)]
        available = set(attributes).union(*(job.legs[at].names for at in inside))
        if attributes and needed <= available:
            return attributes
    return None


def _by_separator(job: Job, middle: int, separator: tuple[str, ...]) -> Reduction | None:
    """Sum by a separator; the messages inside of it are left for afterwards.

    That is of use only if there are then far fewer rows.
    """
    leg = job.legs[middle]
    space = leg.table.book.space(separator)
    leg.ids(space)  # which may be new to the space
    if space.size * DETOUR_RATIO > leg.rows:
        return None
    outside = {
        at: names
        for at, names in job.separators(middle).items()
        if not set(names) <= set(separator)
    }
    if not all(job.is_function(at, names) for at, names in outside.items()):
        return None
    held = (p for p in job.masks(middle) if not p.attributes <= set(separator))
    return Reduction(job, middle, separator, frozenset(outside), _by_rows(job, middle, held))


def _direct(job: Job, middle: int) -> Reduction:
    """Probe every message that has one row for each key, and sum by what is needed then."""
    needed, separators = job.needed, job.separators(middle)
    probed = frozenset(at for at, names in separators.items() if job.is_function(at, names))
    onto = needed & job.legs[middle].names.keys()
    for at, separator in separators.items():
        onto |= needed & job.legs[at].names.keys() if at in probed else set(separator)
    where = _by_rows(job, middle, job.masks(middle))
    return Reduction(job, middle, tuple(sorted(onto)), probed, where)


def _by_rows(job: Job, middle: int, held: Iterable[Expression]) -> tuple[Expression, ...]:
    """Without those that some message applies too: rows do not join with what it does not have."""
    others = [leg for at, leg in job.legs.items() if at != middle and leg.match is None]
    return tuple(p for p in held if not any(leg.holds(p) for leg in others))
