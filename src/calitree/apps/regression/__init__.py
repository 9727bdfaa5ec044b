"""Linear models over the join."""
