"""A line of versions: the tree's own, or that of a what-if."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import inf
from threading import RLock
from typing import NamedTuple

from calitree.calibration.calibrate import calibrate, messages_of, refresh
from calitree.calibration.planning.plan import Plan
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import Mode, TreeState
from calitree.calibration.store import Store
from calitree.calibration.versions import Change, updated
from calitree.engines.api.protocol import Engine
from calitree.errors import ConflictError, QueryError, UpdateError
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Relation, Schema
from calitree.progress import Progress
from calitree.query.binder import MeasureLike, Question

MEMORY_LIMIT = 1 << 30
"""Bytes of the messages that delta queries may keep beside the pivot's own."""
TOTAL = Question()

KEPT = 100
"""So many versions can be told; older ones would keep their rows in memory for ever."""


class Origin(NamedTuple):
    """What a what-if supposes something else of."""

    branch: Branch
    snapshot: Snapshot


class Branch:
    """Snapshots, oldest first, and the one that is asked: `head`. Who reads takes a snapshot, and waits
    for nobody; who writes holds `lock`.
    """

    def __init__(
        self, first: Snapshot, origin: Origin | None = None, is_past: bool = False
    ) -> None:
        self.head, self.origin = first, origin
        self.state = first.state
        """What all versions share."""
        self.is_past = is_past
        """Whether its head is an earlier version, which stays."""
        self.is_main = origin is None and not is_past
        """Whether it is the tree's own, whose messages stay."""
        self.lock = RLock()
        self.calibration: Plan | None = None
        """How the messages were last brought up to date."""
        self._snapshots = OrderedDict([(first.number, first)])

    @classmethod
    def new(
        cls,
        schema: Schema,
        engine: Engine,
        tree: Hypertree,
        measures: Mapping[str, MeasureLike],
        pivot: Question = TOTAL,
        *,
        memory_limit: int = MEMORY_LIMIT,
        maintenance: Mode = "lazy",
    ) -> Branch:
        """A tree that has no message yet: `refresh` passes them all, a query those it needs."""
        if tree.relations != {r: frozenset(c) for r, c in schema.columns_of.items()}:
            raise QueryError(
                "The tree was made for another join graph; make it anew with g.hypertree()."
            )
        state = TreeState(engine, tree, dict(measures), pivot, Store(memory_limit), maintenance)
        return cls(Snapshot(state, 0, schema).checked())

    def extended(self, schema: Schema, tree: Hypertree) -> Branch:
        """One of its own on a tree that has a bag more. It begins with all messages of this one."""
        return Branch(Snapshot(self.state.with_tree(tree), 0, schema).checked())

    @property
    def versions(self) -> range:
        """The numbers of the versions that are known."""
        return range(next(iter(self._snapshots)), next(reversed(self._snapshots)) + 1)

    def at(self, version: int) -> Branch:
        """The branch as it was at a version."""
        found = self._snapshots.get(version)
        if found is None:
            first, last = self.versions[0], self.versions[-1]
            known = (
                f"There is only version {last}."
                if first == last
                else f"There are {first} to {last}."
            )
            raise UpdateError(f"There is no version {version!r} any more, or not yet. {known}")
        other = Branch(found, self.origin, is_past=True)
        other.calibration, other._snapshots = self.calibration, self._snapshots
        return other

    def fork(self) -> Branch:
        """One for a what-if, which begins as this one is."""
        return Branch(self.head, Origin(self, self.head))

    def check_present(self) -> None:
        """An error if this is an earlier version."""
        if self.is_past:
            raise UpdateError(
                f"This is version {self.head.number} as it was, and stays so. Update the tree it is "
                "of, or suppose a change with what_if."
            )

    # -- changing --------------------------------------------------------------------------------

    def update(self, changes: Mapping[str, Change]) -> int:
        """The next version, by changes of some relations; its number."""
        with self.lock:
            engine, relations = self.state.engine, self.head.schema.relations
            some = {name: change for name, change in changes.items() if change}
            return self.advance({n: updated(engine, relations[n], some[n]) for n in some})

    def advance(self, changed: Mapping[str, Relation]) -> int:
        """The next version, with these relations in place of what they were; its number."""
        with self.lock:
            if changed:
                self.head = self.head.successor(self.head.number + 1, changed)
                self._snapshots[self.head.number] = self.head
                while len(self._snapshots) > KEPT:
                    self._snapshots.popitem(last=False)
                if self.state.maintenance == "eager" and self.is_main:
                    self.refresh(progress=False)
            return self.head.number

    def commit(self) -> int:
        """Make a what-if true: the number of the new version of what it was made of."""
        if self.origin is None:
            raise UpdateError("Only a what-if can be committed; this is the tree itself.")
        target, then = self.origin
        with target.lock:
            target.check_present()
            ours = self.head.changed_from(then)
            theirs = target.head.changed_from(then)
            both = sorted(ours.keys() & theirs.keys())
            if both:
                raise ConflictError(
                    f"{', '.join(both)} changed since this was supposed (at version {then.number}; "
                    f"now it is {target.head.number}). Suppose it again on what is now."
                )
            number = target.advance(ours)
            self.origin, self.head = Origin(target, target.head), target.head
            self._snapshots = OrderedDict([(number, self.head)])
            return number

    # -- keeping fresh ---------------------------------------------------------------------------

    def refresh(self, progress: Progress | bool | None) -> Plan:
        """Bring every message of the pivots up to date, and tell how."""
        self.calibration = refresh(self.head, progress, self.is_main)
        return self.calibration

    def add_pivots(
        self,
        pivots: Sequence[Question],
        progress: Progress | bool | None = None,
        room: float = inf,
    ) -> list[Question]:
        """Calibrate further pivots, to be kept and refreshed with the tree's own from now on: all, or
        those of them, in this order, whose new messages have `room`.
        """
        if not self.is_main:
            raise QueryError(
                "Pivots belong to the tree itself, not to an earlier version or a what-if: add them "
                "there. Questions to the others find their messages."
            )
        with self.lock:
            snapshot, store = self.head, self.state.store
            placements = [snapshot.cube_pivot(each) for each in pivots]
            self.calibration, messages = calibrate(
                snapshot, [snapshot.pivot, *placements], progress
            )
            for message in messages_of(snapshot.pivot, messages):
                store.pin(message)
            pinned = set(store.pinned)
            added = []
            for question, placement in zip(pivots, placements, strict=True):
                new = messages_of(placement, messages) - pinned
                size = sum(message.table.nbytes for message in new)
                if size <= room:
                    room -= size
                    pinned |= new
                    for message in new:
                        store.pin(message)
                    added.append(question)
            self.state.add_pivots(tuple(added))
            return added
