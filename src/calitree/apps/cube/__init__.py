"""Data cubes over the join."""
