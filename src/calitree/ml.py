"""Models over the join, which is never built, with the interface of scikit-learn.

    from calitree.ml import Ridge

    model = Ridge(alpha=0.1).fit(wide, target="sales.price", features=["items.weight", "stores.city"])
    model.coef_, model.score(wide)

`scikit-learn` itself is not needed. `sklearn.base.clone` copies these models as it does its own.
"""

from calitree.apps.regression.linear import LinearRegression, Ridge

__all__ = ["LinearRegression", "Ridge"]
