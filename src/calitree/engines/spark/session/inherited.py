"""Spark in a process that was made by a fork: its session is that of the parent, which talks to it.

Both would write to one connection and read each other's answers, so the child gets an error instead.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from calitree.errors import EngineError

_inherited: list[Any] = []
"""What leads to the parent's Spark: the gateway to its JVM, the session of its Connect client."""


def _note_inherited() -> None:
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    client = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    links = getattr(context, "_gateway", None), getattr(client, "_default_session", None)
    _inherited.extend(link for link in links if link is not None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_inherited)


def check_gateway(gateway: Any) -> None:
    """Raise an error if this leads to the Spark of another process."""
    if any(gateway is known for known in _inherited):
        raise inherited_error()


def inherited_error() -> EngineError:
    """The error for a session of another process."""
    return EngineError(
        "This process is a copy (fork) of one that uses Spark, and cannot share its session. Start it by "
        "spawn, as multiprocessing.get_context('spawn') does, or fork before Spark starts; save the tree, "
        "and open it here."
    )
