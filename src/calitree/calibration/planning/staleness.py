"""Messages that were right at earlier versions of the relations behind them.

Such a message is what it should be but for the rows that have come and gone since. It can be refreshed
if these are known, and if all that they meet on their way to the message is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calitree.calibration.message import Message
from calitree.calibration.planning.placement import Placement
from calitree.calibration.state import TreeState
from calitree.calibration.store import Store
from calitree.calibration.versions import Changes
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Schema

COPYING = 0.01
"""What it costs to copy a row of a message, where joining one costs 1."""
SENDING = 10_000
"""What it costs to send a change of any size from one bag to the next, in the same units."""


@dataclass(frozen=True)
class Stale:
    """A message, and for each relation that has changed behind it the version it had then."""

    message: Message
    since: Mapping[str, int]
    work: float
    """About what it costs to refresh, in rows."""


@dataclass(frozen=True)
class AtHand:
    """The messages that a placement finds: those `stored`, and the `stale` ones, which would have to be
    refreshed.
    """

    stored: Mapping[Edge, Message]
    stale: Mapping[Edge, Stale]
    messages: Mapping[Edge, Message]
    """All of them."""


def find_messages(state: TreeState, schema: Schema, placement: Placement) -> AtHand:
    """The messages in the store, and those that were right at earlier versions."""
    store, changes = state.store, state.changes
    stored = stored_edges(placement, store)
    updated = store.has_versions or any(placement.versions.values())
    if changes is None or not updated or len(stored) == len(placement.keys):
        return AtHand(stored, {}, stored)
    stale = stale_edges(schema, placement, store, stored, changes)
    messages = {**stored, **{edge: each.message for edge, each in stale.items()}}
    return AtHand(stored, stale, messages)


def stored_edges(placement: Placement, store: Store) -> dict[Edge, Message]:
    """Every directed edge whose message is at hand."""
    found = {}
    for edge, key in placement.keys.items():
        message = store.find(key, placement.sides[edge].columns)
        if message is not None:
            found[edge] = message
    return found


def stale_edges(
    schema: Schema,
    placement: Placement,
    store: Store,
    stored: Mapping[Edge, Message],
    changes: Changes,
) -> dict[Edge, Stale]:
    """For each edge whose message is not in the store, one that can be refreshed, if there is."""
    found: dict[Edge, Stale] = {}
    for edge in placement.edges - stored.keys():
        key = placement.keys[edge]
        messages = store.at_any_version(key, placement.sides[edge].columns)
        able = [
            each for each in (_since(schema, placement, edge, m, changes) for m in messages) if each
        ]
        if able:
            found[edge] = min(able, key=lambda each: each.work)
    return {
        edge: each for edge, each in found.items() if _is_passable(placement, edge, stored, found)
    }


def _since(
    schema: Schema, placement: Placement, edge: Edge, message: Message, changes: Changes
) -> Stale | None:
    """What has changed since the message was right; None if that is not known."""
    since: dict[str, int] = {}
    work = COPYING * message.table.rows
    for relation in placement.sides[edge].relations:
        then = message.key.versions.get(relation, 0)
        if then != placement.versions[relation]:
            touched = changes.touched(then, schema.relations[relation])
            if touched is None:
                return None
            since[relation] = then
            work += _work(schema, placement, edge, relation, touched)
    return Stale(message, since, work)


def _work(schema: Schema, placement: Placement, edge: Edge, relation: str, touched: float) -> float:
    """The rows that those of a change meet at each bag on their way."""
    tree, work = placement.tree, SENDING + float(touched)
    here = tree.home(relation)
    while here != edge[0]:
        before, here = (
            here,
            next(n for n in tree.neighbours(here) if edge[0] in tree.subtree(n, here)),
        )
        rows = max((schema.rows(r) for r in tree.bag(here).relations), default=1)
        keys = max((schema.rows(r) for r in tree.bag(before).relations), default=1)
        touched = min(rows, touched * max(1.0, rows / max(1, keys)))
        work += SENDING + touched
    return work


def _is_passable(
    placement: Placement, edge: Edge, stored: Mapping[Edge, Message], stale: Mapping[Edge, Stale]
) -> bool:
    """Whether all that the changes meet on their way is at hand, or can be refreshed itself."""
    source, target = edge
    changed = stale[edge].since
    for other in placement.tree.neighbours(source):
        arriving = (other, source)
        if other == target or arriving not in placement.edges or arriving in stored:
            continue
        onward = stale
        if arriving not in stale:
            if len(changed) > 1 or not changed.keys() & placement.sides[arriving].relations:
                return False
            # The only change comes this way: it is sent on, whatever the message is.
            onward = {**stale, arriving: stale[edge]}
        if not _is_passable(placement, arriving, stored, onward):
            return False
    return True
