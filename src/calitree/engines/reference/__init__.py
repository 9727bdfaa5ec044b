"""Slow, short and obviously right: what the other engines are compared with."""

from calitree.engines.reference.engine import ReferenceEngine

__all__ = ["ReferenceEngine"]
