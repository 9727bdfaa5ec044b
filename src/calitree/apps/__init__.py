"""Applications of calibrated trees, each a method of `WideTable` once this package is imported.

All of them ask questions through `WideTable.query` or `ask`. Two calibrate more pivots, through
`Branch.add_pivots`: `search` for the sums of a model, `cube` for its group-bys. `cube` also reads the sizes of
messages, through the snapshot and the store, and `verify` builds the join, through the engine protocol.
`select` keeps what statements ask, in the state of the tree. None imports an engine.
"""

from calitree.apps import cube, explain, regression, search, select, verify

__all__ = ["cube", "explain", "regression", "search", "select", "verify"]
