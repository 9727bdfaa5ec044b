"""Data cubes over the join: `WideTable.cube`."""

from calitree.apps.cube.cube import Cube
from calitree.apps.cube.estimate import Estimate

__all__ = ["Cube", "Estimate"]
