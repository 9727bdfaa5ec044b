"""A branch: the successive versions of a tree, or of a what-if."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from calitree.calibration.as_of.matches import with_matches
from calitree.calibration.calibrate import calibrate, messages_of, refresh
from calitree.calibration.planning.plan import Plan
from calitree.calibration.revisions import Change, updated
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import Mode, TreeState
from calitree.calibration.store import Store
from calitree.engines.api.protocol import Engine, budget_of
from calitree.errors import ConflictError, QueryError, UpdateError
from calitree.interrupts import uninterrupted
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.as_of import conflicting
from calitree.jointree.schema import Relation, Schema
from calitree.memory.budget import default_limit
from calitree.process.locks import Rank, SharedLock
from calitree.progress import Progress
from calitree.query.binder import MeasureLike, Question
from calitree.query.grain import DefaultGrain

TOTAL = Question()

VERSIONS_KEPT = 100
"""Older versions of a branch are dropped, as they would keep their rows in memory for ever."""


class ForkPoint(NamedTuple):
    """The branch that a what-if was made from, and the snapshot that it began with."""

    branch: Branch
    snapshot: Snapshot


class Branch:
    """Snapshots, oldest first, and the one that is asked: `head`.

    Readers take the head and wait for nobody; writers hold `lock`. While it is held, those of the branch
    that a what-if was made from, of the state, of the store, of updated relations and of the engine may be
    taken.
    """

    def __init__(
        self, first: Snapshot, fork_point: ForkPoint | None = None, is_past: bool = False
    ) -> None:
        self.head, self.fork_point = first, fork_point
        self.state = first.state
        """What all versions share."""
        self.is_past = is_past
        """Whether its head is an earlier version, which cannot be changed."""
        self.is_main = fork_point is None and not is_past
        """Whether it is the tree's own, whose messages are pinned."""
        self.lock = SharedLock(Rank.BRANCH)
        self.calibration: Plan | None = None
        """How the messages were last brought up to date."""
        self._snapshots = {first.number: first}

    @classmethod
    def new(
        cls,
        schema: Schema,
        engine: Engine,
        tree: Hypertree,
        measures: Mapping[str, MeasureLike],
        pivot: Question = TOTAL,
        *,
        memory_limit: int | None = None,
        maintenance: Mode = "lazy",
        grain: DefaultGrain = None,
    ) -> Branch:
        """A tree that has no message yet: `refresh` computes all of them, a query those it needs."""
        if tree.relations != schema.attributes_of:
            raise QueryError(
                "The tree was made for another join graph; make it anew with g.hypertree()."
            )
        limit = default_limit() if memory_limit is None else memory_limit
        store = Store(limit, budget=budget_of(engine))
        state = TreeState(
            engine, tree, dict(measures), pivot, store, maintenance=maintenance, grain=grain
        )
        return cls(Snapshot(state, 0, schema).checked())

    def extended(self, schema: Schema, tree: Hypertree) -> Branch:
        """A new branch on a tree that has a bag more. It begins with all messages of this one."""
        return Branch(Snapshot(self.state.with_tree(tree), 0, schema).checked())

    @property
    def versions(self) -> range:
        """The numbers of the versions that are known."""
        numbers = tuple(self._snapshots)  # at once, as a writer may be adding one
        return range(numbers[0], numbers[-1] + 1)

    def at(self, version: int) -> Branch:
        """The branch as it was at a version."""
        snapshot = self._snapshots.get(version)
        if snapshot is None:
            versions = self.versions
            known = (
                f"There is only version {versions[0]}."
                if len(versions) == 1
                else f"There are {versions[0]} to {versions[-1]}."
            )
            raise UpdateError(f"There is no version {version!r} any more, or not yet. {known}")
        other = Branch(snapshot, self.fork_point, is_past=True)
        other.calibration, other._snapshots = self.calibration, self._snapshots
        return other

    def fork(self) -> Branch:
        """A branch for a what-if, which begins as this one is."""
        head = self.head  # read once: what the what-if begins with is what it is compared with
        return Branch(head, ForkPoint(self, head))

    def check_present(self) -> None:
        """Raise an error if this is an earlier version."""
        if self.is_past:
            raise UpdateError(
                f"This is version {self.head.number} as it was, and stays so. Update the tree it is "
                "of, or suppose a change with what_if."
            )

    # -- changing --------------------------------------------------------------------------------

    def update(self, changes: Mapping[str, Change]) -> int:
        """Make the next version by changes of some relations; its number."""
        with self.lock:
            engine, schema = self.state.engine, self.head.schema
            changed = {
                n: updated(engine, schema.relations[n], change)
                for n, change in changes.items()
                if change
            }
            return self.advance(with_matches(engine, schema, changed))

    def advance(self, changed: Mapping[str, Relation]) -> int:
        """Make the next version, in which these relations are replaced; its number."""
        with self.lock:
            if changed:
                self._append(changed)
                self._maintain()
            return self.head.number

    def _append(self, changed: Mapping[str, Relation]) -> None:
        head = self.head.successor(self.head.number + 1, changed)
        number = head.number
        # Both or none: nothing is called between them, so no Ctrl-C comes there.
        self._snapshots[number] = head
        self.head = head
        while len(self._snapshots) > VERSIONS_KEPT:
            del self._snapshots[next(iter(self._snapshots))]

    def _maintain(self) -> None:
        if self.state.maintenance == "eager" and self.is_main:
            self.refresh(progress=False)

    def commit(self) -> int:
        """Make a what-if the next version of the branch it was made from; that version's number."""
        with self.lock:
            if self.fork_point is None:
                raise UpdateError("Only a what-if can be committed; this is the tree itself.")
            target, then = self.fork_point
            with target.lock:
                target.check_present()
                ours = self.head.changed_from(then)
                theirs = target.head.changed_from(then)
                both = conflicting(self.head.schema, ours, theirs)
                if both:
                    raise ConflictError(
                        f"{', '.join(both)} changed since this was supposed (at version {then.number}; "
                        f"now it is {target.head.number}). Suppose it again on what is now."
                    )
                with uninterrupted():
                    if ours:
                        target._append(ours)
                    self.head = target.head
                    self.fork_point = ForkPoint(target, self.head)
                    self._snapshots = {self.head.number: self.head}
                if ours:
                    target._maintain()
                return self.head.number

    # -- keeping fresh ---------------------------------------------------------------------------

    def refresh(self, progress: Progress | bool | None) -> Plan:
        """Bring every message of the pivots up to date; the plan that did so."""
        self.calibration = refresh(self.head, progress, self.is_main)
        return self.calibration

    def add_pivots(
        self,
        pivots: Sequence[Question],
        progress: Progress | bool | None = None,
        room: float = inf,
    ) -> list[Question]:
        """Calibrate more pivots; their messages are kept and refreshed with the tree's own from now on.

        Of these, in their order, those are added whose new messages fit into `room` bytes.
        """
        if not self.is_main:
            raise QueryError(
                "Pivots belong to the tree itself, not to an earlier version or a what-if: add them "
                "there. Questions to the others find their messages."
            )
        with self.lock:
            snapshot, store = self.head, self.state.store
            placements = [snapshot.cube_pivot(question) for question in pivots]
            self.calibration, messages = calibrate(
                snapshot, [snapshot.pivot, *placements], progress
            )
            added = []
            with uninterrupted():
                for message in messages_of(snapshot.pivot, messages):
                    store.pin(message)
                pinned = set(store.pinned)
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
