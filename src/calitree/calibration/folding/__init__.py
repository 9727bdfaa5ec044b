"""Folding carried values into one value a group: distinct counts, quantiles, modes, lists."""
