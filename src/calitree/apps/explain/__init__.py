"""Which rows make a measure what it is."""

from calitree.apps.explain.explain import explain_change, why

__all__ = ["explain_change", "why"]
