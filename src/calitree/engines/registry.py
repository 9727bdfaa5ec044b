"""Engines by name. Each is imported when it is first named, as each imports a large library."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from calitree.engines.api.protocol import Engine, PerGraph, missing_methods
from calitree.errors import EngineError, did_you_mean

CLASSES = {
    "local": "LocalEngine",
    "hybrid": "HybridEngine",
    "spark": "SparkEngine",
    "reference": "ReferenceEngine",
}
"""The class of each engine, which is in the package of `calitree.engines` by the engine's name."""


def engine_of(engine: Any) -> Engine:
    """An engine for a new join graph, from its name, a SparkSession, or itself.

    None is the best that can run here.
    """
    engine = _engine_of(engine)
    return engine.for_graph() if isinstance(engine, PerGraph) else engine


def _engine_of(engine: Any) -> Engine:
    if engine is None:
        engine = "hybrid" if find_spec("pyspark") else "local"
    if isinstance(engine, str):
        if engine not in CLASSES:
            raise EngineError(f"There is no engine {engine!r}.{did_you_mean(engine, CLASSES)}")
        return _class_of(engine)()
    if type(engine).__name__ == "SparkSession":
        return _class_of("hybrid")(engine)
    missing = ["name"] * (not hasattr(engine, "name")) + missing_methods(engine, Engine)
    if missing:
        raise EngineError(
            f"An engine is one of {', '.join(CLASSES)}, a SparkSession or an object with a name, load, "
            f"contract, how and arrow; got {type(engine).__name__}, which lacks {', '.join(missing)}."
        )
    return cast(Engine, engine)


def _class_of(name: str) -> Callable[..., Engine]:
    engine: type[Engine] = getattr(import_module(f"calitree.engines.{name}"), CLASSES[name])
    return engine
