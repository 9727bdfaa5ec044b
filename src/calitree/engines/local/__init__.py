"""The paper's custom engine: contractions over codes in this process, by compiled loops."""

from calitree.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
