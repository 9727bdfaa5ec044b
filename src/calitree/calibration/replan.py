"""What a plan relied on is gone: it is planned and computed again without that.

A message of a saved tree whose file is damaged is dropped, which is told, and computed from the relations.
Changes that an update on another thread has just let go of (`revisions.Updated`) are done without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from calitree.calibration.revisions import ForgottenRevision
from calitree.calibration.snapshot import Snapshot
from calitree.errors import DamagedError, DamagedWarning

Value = TypeVar("Value")


def replanned(snapshot: Snapshot, compute: Callable[[], Value]) -> Value:
    """What is computed: once more by another plan, as often as something that the plan relied on is gone."""
    dropped: set[str] = set()
    while True:
        try:
            return compute()
        except ForgottenRevision:
            snapshot.cache.forget_plans()
        except DamagedError as damage:
            if damage.path in dropped:
                raise
            dropped.add(damage.path)
            if snapshot.state.store.drop(damage):  # else another thread has just done so
                text = (
                    f"{damage.path} is damaged: {damage.reason}. This message is computed anew from the "
                    "relations; save the tree to have it whole again."
                )
                warnings.warn(text, DamagedWarning, stacklevel=2)
            before = snapshot.previous and snapshot.previous.snapshot()
            for known in filter(None, (snapshot, before)):
                known.cache.forget_plans()
                known.cache.adjustments.clear()
