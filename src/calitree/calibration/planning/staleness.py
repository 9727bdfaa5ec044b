"""Stale messages: those computed at earlier revisions of the relations on their source's side.

A stale message is what it should be but for the rows that have come and gone since. It can be refreshed if
these are known, and if all that they are joined with on their way to the message is in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calitree.calibration.message import Message, MessageKey, Shelved
from calitree.calibration.planning.placement import Placement
from calitree.calibration.revisions import Changes
from calitree.calibration.state import TreeState
from calitree.calibration.store import Store
from calitree.jointree.bag import Edge
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Schema

COPYING = 0.01
"""What it costs to copy a row of a message, where joining one costs 1."""
SENDING = 10_000
"""What it costs to send a change of any size from one bag to the next, in the same units."""


@dataclass(frozen=True)
class Stale:
    """A message, and for each relation that has changed the revision that the message was computed at."""

    message: Message
    since: Mapping[str, int]
    work: float
    """About what it costs to refresh, in rows."""


@dataclass(frozen=True)
class Available:
    """The messages that there are for a placement.

    Those `stored` are up to date; those that are `stale` would have to be refreshed.
    """

    stored: Mapping[Edge, Message]
    stale: Mapping[Edge, Stale]
    messages: Mapping[Edge, Message]
    """All of them."""


def find_messages(state: TreeState, schema: Schema, placement: Placement) -> Available:
    """The messages in the store, and those that were right at earlier revisions."""
    store, changes = state.store, state.changes
    stored = stored_edges(placement, store)
    updated = store.has_revisions or any(placement.revisions.values())
    if changes is None or not updated or len(stored) == len(placement.edges):
        return Available(stored, {}, stored)
    estimates = _Estimates(schema, placement, changes)
    able: dict[Edge, Stale] = {}
    for edge in placement.edges - stored.keys():
        messages = store.at_any_revision(placement.keys[edge], placement.subtrees[edge].columns)
        options = (estimates.stale(message) for message in messages)
        known = [option for option in options if option is not None]
        if known:
            able[edge] = min(known, key=lambda option: option.work)
    stale = {edge: s for edge, s in able.items() if _can_refresh(placement, edge, stored, able)}
    return Available(stored, stale, {**stored, **{edge: s.message for edge, s in stale.items()}})


def stored_edges(placement: Placement, store: Store) -> dict[Edge, Message]:
    """The directed edges whose messages are in the store and up to date."""
    stored = {}
    for edge, key in placement.keys.items():
        if edge in placement.edges:
            message = store.find(key, placement.subtrees[edge].columns)
            if message is not None:
                stored[edge] = message
    return stored


def stale_relations(
    tree: Hypertree, key: MessageKey | Shelved, revisions: Mapping[str, int]
) -> dict[str, int]:
    """The relations of a message that have other revisions by now, with those that it was computed at."""
    bags = tree.subtree(*key.edge)
    absent = key.excluded | (tree.added - key.added)
    joined = (name for name in revisions if tree.home(name) in bags and name not in absent)
    then = {name: key.revisions.get(name, 0) for name in joined}
    return {name: revision for name, revision in then.items() if revision != revisions[name]}


@dataclass(frozen=True)
class _Estimates:
    """What it costs to refresh messages of a placement."""

    schema: Schema
    placement: Placement
    changes: Changes

    def stale(self, message: Message) -> Stale | None:
        """What has changed since a message was computed; None if that is not known."""
        since = stale_relations(self.placement.tree, message.key, self.placement.revisions)
        work = COPYING * message.table.rows
        for relation, then in since.items():
            if not self._is_linear(relation, message.key.edge):
                return None
            touched = self.changes.touched(then, self.schema.relations[relation])
            if touched is None:
                return None
            work += self._sending(relation, touched, message.key.source)
        return Stale(message, since, work)

    def _is_linear(self, relation: str, edge: Edge) -> bool:
        """Whether a message is a sum over the rows of a relation.

        Rows of an optional side also decide which rows have a partner, but for the message to these. So do
        rows of others for those that count once.
        """
        grain = self.placement.query.grain
        if relation not in grain and not grain.isdisjoint(self.placement.subtrees[edge].relations):
            return False
        join = self.schema.optional.get(relation)
        if join is None:
            return True
        tree = self.placement.tree
        return edge == (tree.home(relation), tree.home(next(iter(join.preserved))))

    def _sending(self, relation: str, touched: float, target: str) -> float:
        """The rows that those of a change are joined with at each bag on their way to `target`."""
        tree, work = self.placement.tree, SENDING + float(touched)
        bag = tree.home(relation)
        while bag != target:
            keys = self._rows(bag)
            bag = next(n for n in tree.neighbours(bag) if target in tree.subtree(n, bag))
            rows = self._rows(bag)
            touched = min(rows, touched * max(1.0, rows / max(1, keys)))
            work += SENDING + touched
        return work

    def _rows(self, bag: str) -> int:
        """The rows of the bag's largest relation."""
        return max(map(self.schema.rows, self.placement.tree.bag(bag).relations), default=1)


def _can_refresh(
    placement: Placement, edge: Edge, stored: Mapping[Edge, Message], stale: Mapping[Edge, Stale]
) -> bool:
    """Whether all that the changes are joined with is in the store, or can be refreshed itself."""
    source, target = edge
    changed = stale[edge].since
    for other in placement.tree.neighbours(source):
        arriving = (other, source)
        if other == target or arriving not in placement.edges or arriving in stored:
            continue
        available = stale
        if arriving not in stale:
            if len(changed) > 1 or not changed.keys() & placement.subtrees[arriving].relations:
                return False
            # The only change comes this way: it is sent on, whatever the message is.
            available = {**stale, arriving: stale[edge]}
        if not _can_refresh(placement, arriving, stored, available):
            return False
    return True
