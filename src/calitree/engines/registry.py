"""Engines by name. Each is imported when it is first named, as each brings a large library along."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, cast

from calitree.engines.api.protocol import Engine
from calitree.errors import EngineError, did_you_mean

NAMES = ("local", "hybrid", "spark", "reference")


def engine_of(engine: Any) -> Engine:
    """An engine for a join graph: from its name, a SparkSession, or itself; None is the best here.

    Where the tables of a graph share something in an engine, every graph has its own (`for_graph`).
    """
    engine = _engine_of(engine)
    for_graph = getattr(engine, "for_graph", None)
    return cast(Engine, engine if for_graph is None else for_graph())


def _engine_of(engine: Any) -> Any:
    if engine is None:
        engine = "hybrid" if find_spec("pyspark") else "local"
    if isinstance(engine, str):
        if engine == "local":
            from calitree.engines.local import LocalEngine

            return LocalEngine()
        if engine == "hybrid":
            from calitree.engines.hybrid import HybridEngine

            return HybridEngine()
        if engine == "reference":
            from calitree.engines.reference import ReferenceEngine

            return ReferenceEngine()
        if engine == "spark":
            from calitree.engines.spark.engine import SparkEngine

            return SparkEngine()
        raise EngineError(f"There is no engine {engine!r}.{did_you_mean(engine, NAMES)}")
    if type(engine).__name__ == "SparkSession":
        from calitree.engines.hybrid import HybridEngine

        return HybridEngine(engine)
    if all(hasattr(engine, verb) for verb in ("load", "contract", "how", "arrow")):
        return engine
    raise EngineError(
        f"An engine is one of {', '.join(NAMES)}, a SparkSession or an object with load, contract, "
        f"how and arrow; got {type(engine).__name__}."
    )
