"""What a calibrated tree is for. Each application asks questions as any user would, and knows nothing of
engines. To import them is to make them methods of `WideTable`.
"""

from calitree.apps import cube, explain, regression, search, verify

__all__ = ["cube", "explain", "regression", "search", "verify"]
