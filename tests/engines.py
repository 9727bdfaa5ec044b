"""Engines by name, as tests list them."""

from __future__ import annotations

from typing import Any

LOCAL = ["local", "local, scanning"]
"""The local engine as it is, and such that it treats every table as a large one."""


def engine_named(name: Any) -> Any:
    if name == "local, scanning":
        from calitree.engines.local import LocalEngine

        return LocalEngine(large=0)
    return name
