"""Data cubes over the join: `WideTable.cube`."""

from calitree.apps.cube.cube import Cube, Estimate

__all__ = ["Cube", "Estimate"]
