"""Whether the joins of a graph find what they should: keys counted on both sides of each."""

from calitree.integrity.check import check_graph
from calitree.integrity.report import EdgeCheck, EdgeSide, Finding, GraphCheck, KeyExample

__all__ = ["EdgeCheck", "EdgeSide", "Finding", "GraphCheck", "KeyExample", "check_graph"]
