"""Answers checked against the join really built."""

from calitree.apps.verify.check import Check, Verification

__all__ = ["Check", "Verification"]
