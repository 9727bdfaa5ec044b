"""The hybrid engine: what is small is computed in this process, what is large on Spark."""

from calitree.engines.hybrid.engine import HybridEngine

__all__ = ["HybridEngine"]
