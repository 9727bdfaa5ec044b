"""Data cubes over the join."""

from calitree.apps.cube.cube import Cube, Estimate

__all__ = ["Cube", "Estimate"]
