"""A plan is a value: messages to reuse, messages to compute and why, and where the answer is absorbed.

`print(plan)` reads:

    root stores   reused 9 of 11 messages
    compute  sales→stores   σ(items.family = 'DAIRY') is not in the pivot    54 rows   0.2 ms
    reuse    dates→sales
    absorb   stores         keep stores.city                                 22 rows   0.1 ms
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from calitree.calibration.message import MessageKey
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.staleness import Available
from calitree.calibration.projection import Projection
from calitree.jointree.bag import Edge
from calitree.query.annotation import Aggregate, Annotation, Lift
from calitree.sql.parser import Expression


class PivotMessage(NamedTuple):
    """What the pivot's message along an edge depends on, and its columns."""

    key: MessageKey
    columns: tuple[Aggregate, ...]


@dataclass(frozen=True)
class Send:
    """One message to compute: the attributes it keeps, its filters and its columns."""

    key: MessageKey
    keep: tuple[str, ...]
    where: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    pivot: PivotMessage | None = field(default=None, compare=False, repr=False)
    """The pivot's message along the same edge, if this is not the pivot's."""
    damage: str = field(default="", compare=False)
    """What is wrong with the file in which it was saved."""

    @classmethod
    def of(cls, placement: Placement, edge: Edge, pivot: Placement | None = None) -> Send:
        """The message of an edge under a placement."""
        return cls(
            placement.keys[edge],
            placement.keep[edge],
            placement.where(*edge),
            placement.subtrees[edge].columns,
            None if pivot is None else PivotMessage(pivot.keys[edge], pivot.subtrees[edge].columns),
        )

    @property
    def why(self) -> str:
        """Why the pivot's message, or that which was saved, does not serve."""
        if self.damage:
            return f"its file is damaged: {self.damage}"
        if self.pivot is None:
            return ""
        here, theirs = self.key.annotations, self.pivot.key.annotations
        reasons = [f"{more} is not in the pivot" for more in sorted(map(str, here - theirs))]
        reasons += [f"the pivot's {less} is not wanted" for less in sorted(map(str, theirs - here))]
        if reasons:
            return "; ".join(reasons)
        new = [column for column in self.aggregates if column not in self.pivot.columns]
        lifts = frozenset[Lift]().union(*(column.lifts for column in new))
        names = sorted(map(str, lifts)) if lifts else [str(column) for column in new]
        return f"{', '.join(names)} is new" if names else "not kept"


@dataclass(frozen=True)
class Step:
    """One contraction: all messages that one bag sends at this time."""

    bag: str
    sends: tuple[Send, ...]

    def __str__(self) -> str:
        edges = dict.fromkeys(str(send.key) for send in self.sends)
        several = f" ({len(self.sends)} messages)" if len(self.sends) > len(edges) else ""
        return f"{', '.join(edges)}{several}"


@dataclass(frozen=True)
class Absorb:
    """The contraction at the root that gives the answer.

    At the optional side of a full join there is one more, of the rows that have no partner: `without` is the
    bag of the preserved side.
    """

    bag: str
    keep: tuple[str, ...]
    where: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    without: str = ""
    by_row: str = ""
    """The relation whose rows are told apart, since what is joined with them would repeat some."""


@dataclass(frozen=True)
class Measured:
    """What a contraction's result turned out to be. Messages of one step share its seconds."""

    rows: int
    seconds: float
    how: str = ""
    """In which way the engine computed it, if it has several."""


@dataclass(frozen=True)
class Plan:
    """How a query is answered, or a tree calibrated.

    Attributes:
        root: The bag where the answer is absorbed.
        steps: The contractions that send messages, in order.
        reused: The messages that are reused as they are.
        absorb: The contraction at the root; None if a tree is calibrated.
        unmatched: The contractions of rows that a full join keeps without a partner, which are added.
        placed: Each annotation, and the bag where it takes effect.
        refreshed: Stored messages that must first be brought up to date.
        adjusts: The relation of which only what has changed is absorbed, to adjust the answer of the
            version before; empty if the answer is computed as a whole.
        measured: Of a plan that has been run, the rows and seconds of each message; None is the
            absorption.
        ways: How the engine would compute each message, if it has several ways.
        warnings: Measures that count rows as often as the join repeats them, of a plan that is not run.
        parts: The plans that this one consists of, if measures of different grains are asked for; `root`
            and `absorb` are those of the first.
        carries: The values that it carries to the root beside the groups, and what is folded of them.

    Example:
        >>> print(wide.plan(group_by=["city"]))
        root stores   reused 1 of 1 messages
        reuse   sales→stores
        absorb  stores         keep stores.city
    """

    root: str
    steps: tuple[Step, ...]
    reused: tuple[MessageKey, ...]
    absorb: Absorb | None
    placed: tuple[tuple[Annotation, str], ...] = ()
    refreshed: tuple[MessageKey, ...] = ()
    adjusts: str = ""
    unmatched: tuple[Absorb, ...] = ()
    measured: Mapping[MessageKey | None, Measured] = field(default_factory=dict, compare=False)
    ways: Mapping[MessageKey | None, str] = field(default_factory=dict, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    parts: tuple[Plan, ...] = ()
    carries: str = ""

    @property
    def computed(self) -> tuple[MessageKey, ...]:
        """The messages to compute, in order."""
        return tuple(send.key for step in self.steps for send in step.sends)

    @property
    def refreshed_already(self) -> Plan:
        """The plan once its messages are up to date."""
        if not self.refreshed:
            return self
        return replace(self, reused=(*self.reused, *self.refreshed), refreshed=())

    def with_damage(self, damaged: Mapping[MessageKey, str]) -> Plan:
        """The plan, which tells of messages to compute that their files are damaged.

        Args:
            damaged: What is wrong with the file of each of some messages.

        Returns:
            A plan that says so in its lines.

        Example:
            >>> wide.plan().with_damage({}).computed
            ()
        """
        if not damaged:
            return self
        steps = (
            Step(s.bag, tuple(replace(m, damage=damaged.get(m.key, "")) for m in s.sends))
            for s in self.steps
        )
        return replace(self, steps=tuple(steps))

    def after(self, measured: Mapping[MessageKey | None, Measured]) -> Plan:
        """The plan, having been run.

        Args:
            measured: The rows and seconds of each message; None is the absorption.

        Returns:
            A plan that prints them.

        Example:
            >>> wide.plan().after(wide.query().plan.measured).seconds is None
            False
        """
        return replace(self, measured=dict(measured))

    @property
    def seconds(self) -> float | None:
        """The time its contractions took, once run."""
        if not self.measured:
            return None
        contractions: list[MessageKey | None] = [step.sends[0].key for step in self.steps]
        contractions += [key for key in (*self.refreshed, None) if key in self.measured]
        return sum(self.measured[key].seconds for key in contractions)

    @property
    def grain(self) -> frozenset[str]:
        """The relations whose rows count once in what is absorbed; none if each joined row counts."""
        return frozenset() if self.absorb is None else self.absorb.aggregates[0].grain

    def __str__(self) -> str:
        lines = [str(part) for part in self.parts] if self.parts else self._lines()
        warnings = [f"warning  {text}" for text in self.warnings]
        return "\n".join([self._head(), *lines, *warnings])

    def _head(self) -> str:
        total = len(self.reused) + len(self.refreshed) + len(self.computed)
        at = f" at grain {', '.join(sorted(self.grain))}" if self.grain else ""
        root = f"{len(self.parts)} parts" if self.parts else f"root {self.root}{at}"
        carries = f"   carries {self.carries}" if self.carries else ""
        head = f"{root}   reused {len(self.reused)} of {total} messages{carries}"
        return head if self.seconds is None else f"{head}   {self.seconds * 1e3:.1f} ms"

    def _lines(self) -> list[str]:
        lines: list[tuple[str, str, str, str]] = []
        for step in self.steps:
            for send in step.sends:
                lines.append(("compute", str(send.key), send.why, self._outcome(send.key)))
        lines += [
            ("refresh", str(key), f"{', '.join(key.revisions)} changed", self._outcome(key))
            for key in self.refreshed
        ]
        lines += [("reuse", str(key), "", "") for key in self.reused]
        if self.absorb is not None:
            keep = f"keep {', '.join(self.absorb.keep)}" if self.absorb.keep else "total"
            if self.absorb.where:
                keep += f" where {' and '.join(map(str, self.absorb.where))}"
            if self.absorb.by_row:
                keep += f", each row of {self.absorb.by_row} once"
            verb = "absorb"
            if self.adjusts:
                verb, keep = "adjust", f"{keep}, by what has changed in {self.adjusts}"
            lines.append((verb, self.absorb.bag, keep, self._outcome(None)))
            lines += [
                (verb, added.bag, f"what has no partner in {added.without}", "")
                for added in self.unmatched
            ]
        widths = [max((len(line[i]) for line in lines), default=0) for i in range(3)]
        return [
            f"{verb:<{widths[0]}}  {what:<{widths[1]}}   {note:<{widths[2]}}   {outcome}".rstrip()
            for verb, what, note, outcome in lines
        ]

    def _outcome(self, key: MessageKey | None) -> str:
        done = self.measured.get(key)
        if done is None:
            return self.ways.get(key, "")
        return f"{done.rows:,} rows   {done.seconds * 1e3:.1f} ms   {done.how}"


@dataclass(frozen=True)
class Planned:
    """The cheapest plan for a question, the placement it uses, and the messages there are for it.

    Some of these may be stale; those that the plan uses must be refreshed before it is run.
    """

    projection: Projection
    plan: Plan
    placement: Placement
    available: Available
