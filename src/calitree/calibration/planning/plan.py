"""A plan is a value: which messages are reused, which are computed and why, and where the answer is
absorbed.

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
from calitree.jointree.hypertree import Edge
from calitree.query.annotation import Aggregate, Annotation, Lift
from calitree.sql.parser import Expression


class PivotMessage(NamedTuple):
    """What the pivot's message along an edge depends on, and what it carries."""

    key: MessageKey
    columns: tuple[Aggregate, ...]


@dataclass(frozen=True)
class Send:
    """One message to compute: what it keeps, filters and carries."""

    key: MessageKey
    keep: tuple[str, ...]
    where: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    pivot: PivotMessage | None = field(default=None, compare=False, repr=False)
    """The pivot's message along the same edge, if this is not the pivot's."""

    @classmethod
    def of(cls, placement: Placement, edge: Edge, pivot: Placement | None = None) -> Send:
        """The message of an edge under a placement."""
        theirs = (
            None if pivot is None else PivotMessage(pivot.keys[edge], pivot.sides[edge].columns)
        )
        where, columns = placement.where(*edge), placement.sides[edge].columns
        return cls(placement.keys[edge], placement.keep[edge], where, columns, theirs)

    @property
    def why(self) -> str:
        """Why the pivot's message does not serve."""
        if self.pivot is None:
            return ""
        here, theirs = self.key.annotations, self.pivot.key.annotations
        reasons = [f"{each} is not in the pivot" for each in sorted(map(str, here - theirs))]
        reasons += [f"the pivot's {each} is not wanted" for each in sorted(map(str, theirs - here))]
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
    """The contraction at the root that gives the answer."""

    bag: str
    keep: tuple[str, ...]
    where: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True)
class Measured:
    """What a contraction's result turned out to be. Messages of one step share its seconds."""

    rows: int
    seconds: float
    how: str = ""
    """In which way the engine computed it, if it has several."""


@dataclass(frozen=True)
class Plan:
    """How to answer a query, or (`absorb` is None) how to calibrate."""

    root: str
    steps: tuple[Step, ...]
    reused: tuple[MessageKey, ...]
    absorb: Absorb | None
    placed: tuple[tuple[Annotation, str], ...] = ()
    refreshed: tuple[MessageKey, ...] = ()
    """Messages at hand that must first be brought up to date."""
    adjusts: str = ""
    """The relation of which only what has changed is absorbed, to adjust the answer before it."""
    measured: Mapping[MessageKey | None, Measured] = field(default_factory=dict, compare=False)
    ways: Mapping[MessageKey | None, str] = field(default_factory=dict, compare=False)
    """In which way the engine would compute each, if it has several; None is the absorption."""

    @property
    def computed(self) -> tuple[MessageKey, ...]:
        """The messages to compute, in order."""
        return tuple(send.key for step in self.steps for send in step.sends)

    @property
    def refreshed_already(self) -> Plan:
        """This plan once its messages are up to date."""
        if not self.refreshed:
            return self
        return replace(self, reused=(*self.reused, *self.refreshed), refreshed=())

    def after(self, measured: Mapping[MessageKey | None, Measured]) -> Plan:
        """This plan, having been run."""
        return replace(self, measured=dict(measured))

    @property
    def seconds(self) -> float | None:
        """The time its contractions took, once run."""
        if not self.measured:
            return None
        firsts = [self.measured[step.sends[0].key] for step in self.steps]
        firsts += [self.measured[key] for key in self.refreshed if key in self.measured]
        last = [self.measured[None]] if None in self.measured else []
        return sum(each.seconds for each in firsts + last)

    def __str__(self) -> str:
        total = len(self.reused) + len(self.refreshed) + len(self.computed)
        head = f"root {self.root}   reused {len(self.reused)} of {total} messages"
        if self.seconds is not None:
            head += f"   {self.seconds * 1e3:.1f} ms"
        lines: list[tuple[str, str, str, str]] = []
        for step in self.steps:
            for send in step.sends:
                lines.append(("compute", str(send.key), send.why, self._outcome(send.key)))
        lines += [
            ("refresh", str(key), f"{', '.join(key.versions)} changed", self._outcome(key))
            for key in self.refreshed
        ]
        lines += [("reuse", str(key), "", "") for key in self.reused]
        if self.absorb is not None:
            keep = f"keep {', '.join(self.absorb.keep)}" if self.absorb.keep else "total"
            if self.absorb.where:
                keep += f" where {' and '.join(str(each) for each in self.absorb.where)}"
            verb = "absorb"
            if self.adjusts:
                verb, keep = "adjust", f"{keep}, by what has changed in {self.adjusts}"
            lines.append((verb, self.absorb.bag, keep, self._outcome(None)))
        widths = [max((len(line[i]) for line in lines), default=0) for i in range(3)]
        table = [
            f"{verb:<{widths[0]}}  {what:<{widths[1]}}   {note:<{widths[2]}}   {outcome}".rstrip()
            for verb, what, note, outcome in lines
        ]
        return "\n".join([head, *table])

    def _outcome(self, key: MessageKey | None) -> str:
        done = self.measured.get(key)
        if done is None:
            return self.ways.get(key, "")
        return f"{done.rows:,} rows   {done.seconds * 1e3:.1f} ms   {done.how}"
