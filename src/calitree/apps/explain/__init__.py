"""Which rows make a measure what it is: `WideTable.why` and `WideTable.explain_change`."""

from calitree.apps.explain.explain import explain_change, why

__all__ = ["explain_change", "why"]
