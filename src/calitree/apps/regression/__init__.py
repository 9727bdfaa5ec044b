"""Linear models over the join."""

from calitree.apps.regression.linear import LinearRegression, Ridge

__all__ = ["LinearRegression", "Ridge"]
