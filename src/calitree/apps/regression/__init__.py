"""Linear models over the join: `calitree.ml` and `WideTable.linear_regression`."""

from calitree.apps.regression.linear import LinearRegression, Ridge

__all__ = ["LinearRegression", "Ridge"]
