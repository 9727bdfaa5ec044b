"""Reducing a large table before it is joined: one pass over its rows for all outputs.

⊗ distributes over ⊕, so the rows may be summed *before* they meet some of the messages. For an
output around a large table, the messages that have one row a key are multiplied in on the way
(*pressed* in), and rows are summed by the attributes that the output still needs. What is left is a
small contraction, in which the sums stand for the table.

Messages whose separators lie in one larger separator are multiplied with each other first, over its
ids; then each row only meets their product. Outputs that need the same sums share them: all
messages to neighbours inside one separator take one sum by that separator.

The worked example: Sales(date, store, item) sends to Oil(date), Stores(store),
Transactions(date, store) and Items(item). By (date, store) it sums what Items sends: from these
sums three small contractions make the messages to Oil, Stores and Transactions. By item it sums
the product of those three, which is the message to Items itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calitree.engines.api.contraction import Column, Factor, Output, Stored
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.scan.scan import Scan
from calitree.engines.local.scan.summed import Summed
from calitree.engines.local.tables.legs import Leg, centre, shared
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.sql.parser import Expression

FEWER = 2
"""How many times as many rows as sums there must be for a detour over the sums."""


@dataclass(frozen=True, eq=False)
class Job:
    """One output to be computed from its legs; `leg_of` tells in which leg an input is."""

    legs: Mapping[int, Leg]
    leg_of: Mapping[int, int]
    output: Output


@dataclass(frozen=True)
class Shape:
    """How an output is reduced: what is pressed in, what rows are summed by, and what is left."""

    job: Job
    middle: int
    onto: tuple[str, ...]
    pressed: frozenset[int]
    where: tuple[Expression, ...]
    """Predicates that only the rows themselves can tell."""

    @property
    def left(self) -> dict[int, Leg]:
        legs = self.job.legs
        return {i: leg for i, leg in legs.items() if i not in self.pressed and i != self.middle}

    @property
    def is_idle(self) -> bool:
        """Whether it would only sum sums by what they are summed by already."""
        table = self.job.legs[self.middle]
        same = isinstance(table.table, EncodedMessage) and set(self.onto) == table.names.keys()
        return same and not self.pressed and not self.where

    def masks(self, at: int) -> tuple[Expression, ...]:
        """The predicates that a leg applies to its own rows."""
        return tuple(p for p in self.job.output.where if self.job.legs[at].holds(p))

    def goes_with(self, other: Shape) -> bool:
        """Whether one pass can compute both."""
        ours, theirs = self.job.legs, other.job.legs
        same = all(ours[at] is theirs[at] for at in ours.keys() & theirs.keys())
        return same and self.middle == other.middle and self.where == other.where

    @property
    def sums(self) -> tuple[object, ...]:
        """Shapes with the same read the same rows, multiply and sum alike."""
        pressed = tuple((at, self.masks(at)) for at in sorted(self.pressed))
        return self.onto, pressed, self.where


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
    return [again.get(i, each) for i, each in enumerate(first)]


def _reduced(
    book: Codebook, jobs: Sequence[Job], large: int, threads: int
) -> list[Job | EncodedMessage]:
    result: list[Job | EncodedMessage] = list(jobs)
    for together in _passes(_shapes(jobs, large)):
        result = _reduce(book, together, result, threads)
    return result


def _passes(shapes: Mapping[int, Shape]) -> list[dict[int, Shape]]:
    """Which shapes are computed in one pass: over the same rows, among the same legs."""
    passes: list[dict[int, Shape]] = []
    for i, shape in shapes.items():
        for each in passes:
            if all(shape.goes_with(other) for other in each.values()):
                each[i] = shape
                break
        else:
            passes.append({i: shape})
    return passes


def _reduce(
    book: Codebook, shapes: Mapping[int, Shape], result: list[Job | EncodedMessage], threads: int
) -> list[Job | EncodedMessage]:
    """All shapes of one pass."""
    first = next(iter(shapes.values()))
    around = {
        at: (leg, shared({first.middle: s.job.legs[first.middle], at: leg}, at))
        for s in shapes.values()
        for at, leg in s.job.legs.items()
        if at != first.middle
    }
    scan = Scan(book, first.job.legs[first.middle], around, first.where)
    wanted: dict[tuple[object, ...], Summed] = {}
    columns: dict[int, list[Column]] = {}
    for i, shape in shapes.items():
        masks = {at: shape.masks(at) for at in shape.pressed}
        summed = wanted.get(shape.sums) or scan.summed(shape.onto, masks)
        wanted[shape.sums] = summed
        columns[i] = [_split(shape, column, summed) for column in shape.job.output.columns]
    scan.run(threads)
    for i, shape in shapes.items():
        output = replace(shape.job.output, columns=tuple(columns[i]))
        result[i] = _rest(shape, output, wanted[shape.sums])
    return result


def _split(shape: Shape, column: Column, summed: Summed) -> Column:
    """A column's product, as far as rows can tell it, summed; times what is left of it."""
    leg_of = shape.job.leg_of
    own: list[Factor] = []
    pressed: list[tuple[int, Factor]] = []
    rest: list[Factor] = []
    for factor in column.factors:
        at = leg_of[factor.input]
        if at == shape.middle:
            own.append(factor)
        elif at in shape.pressed:
            pressed.append((at, factor))
        else:
            rest.append(factor)
    if rest and not own and not pressed and column.semiring.idempotent:
        return replace(column, factors=tuple(rest))
    name = summed.add(column.semiring, own, pressed)
    return replace(column, factors=(Stored(shape.middle, name), *rest))


def _rest(shape: Shape, output: Output, summed: Summed) -> Job | EncodedMessage:
    """The contraction that is left, or its result if nothing is."""
    due = tuple(p for p in output.where if not _is_applied(shape, p))
    if not shape.left and not due and set(shape.onto) == set(output.keep):
        return summed.message.renamed(output.keep, output.columns)
    legs = {shape.middle: summed.leg, **shape.left}
    leg_of = {i: i for i in legs} | {
        i: at for i, at in shape.job.leg_of.items() if at in legs and at != shape.middle
    }
    return Job(legs, leg_of, replace(output, where=due))


def _is_applied(shape: Shape, predicate: Expression) -> bool:
    """Whether the pass has applied a predicate already."""
    legs = shape.job.legs
    return predicate in shape.where or any(legs[at].holds(predicate) for at in shape.pressed)


def _shapes(jobs: Sequence[Job], large: int) -> dict[int, Shape]:
    """For each job worth it, how to reduce it."""
    found: dict[int, Shape] = {}
    axes: list[tuple[str, ...]] = []
    for i, job in enumerate(jobs):
        if all(leg.rows < large for leg in job.legs.values()):
            continue
        middle = centre(job.legs)
        assert middle is not None
        if job.legs[middle].rows >= large and not _only_counts(job):
            shape = _direct(job, middle)
            if not shape.is_idle:
                within = _enclosing(job, middle)
                axes += [] if within is None else [within]
                found[i] = shape
    for i, shape in found.items():
        # Worth a detour over the sums by a whole separator if another output takes it too.
        within = _enclosing(shape.job, shape.middle)
        if within is not None and axes.count(within) > 1:
            found[i] = _within(shape.job, shape.middle, within) or shape
    return found


def _only_counts(job: Job) -> bool:
    """Whether all that is asked is how many rows there are."""
    output = job.output
    plain = not output.keep and not output.where and len(job.legs) == 1
    return plain and not any(c.factors or not c.semiring.is_sum_product for c in output.columns)


def _separator(job: Job, middle: int, at: int) -> tuple[str, ...]:
    return shared({middle: job.legs[middle], at: job.legs[at]}, at)


def _needed(job: Job) -> set[str]:
    """The attributes that are kept, or that predicates over several legs need."""
    needed = set(job.output.keep)
    for predicate in job.output.where:
        if not any(leg.holds(predicate) for leg in job.legs.values()):
            needed |= predicate.attributes
    return needed


def _enclosing(job: Job, middle: int) -> tuple[str, ...] | None:
    """The largest separator from which all that is needed can be told."""
    separators = {_separator(job, middle, at) for at in job.legs if at != middle}
    separators.add(tuple(sorted(_needed(job) & job.legs[middle].names.keys())))
    for space in sorted(separators, key=lambda each: (-len(each), each)):
        under = [
            at for at in job.legs if at != middle and set(_separator(job, middle, at)) <= set(space)
        ]
        told = set(space).union(*(job.legs[at].names for at in under))
        if space and _needed(job) <= told:
            return space
    return None


def _within(job: Job, middle: int, space: tuple[str, ...]) -> Shape | None:
    """Sum by a separator; the messages inside of it are left for afterwards. That is of use only if
    there are then far fewer rows.
    """
    leg = job.legs[middle]
    leg.ids(leg.table.book.space(space))
    if leg.table.book.space(space).size * FEWER > leg.rows:
        return None
    outside = [
        at for at in job.legs if at != middle and not set(_separator(job, middle, at)) <= set(space)
    ]
    if not all(_is_function(job, middle, at) for at in outside):
        return None
    held = [
        p for p in job.output.where if job.legs[middle].holds(p) and not p.attributes <= set(space)
    ]
    return Shape(job, middle, space, frozenset(outside), _by_rows(job, middle, held))


def _direct(job: Job, middle: int) -> Shape:
    """Press in every message that has one row a key, and sum by what is needed then."""
    pressed = frozenset(at for at in job.legs if at != middle and _is_function(job, middle, at))
    onto = _needed(job) & job.legs[middle].names.keys()
    for at, leg in job.legs.items():
        if at in pressed:
            onto |= _needed(job) & leg.names.keys()
        elif at != middle:
            onto |= set(_separator(job, middle, at))
    held = [p for p in job.output.where if job.legs[middle].holds(p)]
    return Shape(job, middle, tuple(sorted(onto)), pressed, _by_rows(job, middle, held))


def _by_rows(job: Job, middle: int, held: Sequence[Expression]) -> tuple[Expression, ...]:
    """Without those that some message applies too: what it does not have, rows cannot meet."""
    others = [leg for at, leg in job.legs.items() if at != middle]
    return tuple(p for p in held if not any(leg.holds(p) for leg in others))


def _is_function(job: Job, middle: int, at: int) -> bool:
    """Whether a message has at most one row for each row that it meets."""
    leg, separator = job.legs[at], _separator(job, middle, at)
    if not separator:
        return False
    masks = tuple(p for p in job.output.where if leg.holds(p))
    return leg.places(leg.table.book.space(separator), masks) is not None
