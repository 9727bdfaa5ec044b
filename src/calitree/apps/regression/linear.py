"""Linear models over the join, which is never built: `calitree.ml`, in scikit-learn's manner."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from calitree.application import application
from calitree.apps.regression.linear_model import LinearModel
from calitree.errors import QueryError
from calitree.wide_table import WideTable


class LinearRegression(LinearModel):
    """Least squares over the rows of a join, as scikit-learn's on the join really built.

    `fit(wide, target=, features=)` sets `coef_`, `intercept_`, `rows_`, `r2_`, `levels_` and `labels_`.
    Coefficients and R² are those of scikit-learn with `OneHotEncoder` for the features that have levels.
    Where columns depend on each other, the coefficients are those with the smallest norm.

    Rows where the target or a feature is NULL are left out. Values that are NaN or infinite are an error.

    Numbers are centred before they are squared, so a feature may be far from zero and of any scale from 1e-120
    to 1e150, and whatever `where` leaves out or an update has deleted is of no effect. With
    `fit_intercept=False` they cannot be centred, and a feature far from zero loses digits. Features of which a
    combination is 3 in a million of their length, or less, count as dependent; scikit-learn's own limit is
    `tol`, by default 1 in a million of the longest feature. Of one that is a part r of their length,
    coefficients have an error of some 1e-15 / r².

    Args:
        categorical: The features whose values are levels; text is in any case.
        drop: `"first"` if the first level of each feature has no coefficient, None if all have one.
        fit_intercept: Whether there is a constant.
        standardise: Whether the norm is measured for numbers scaled to a standard deviation of one.
            Coefficients are in the units of the columns in any case.

    >>> from calitree.ml import LinearRegression
    >>> model = LinearRegression(drop="first").fit(wide, target="price", features=["city"])
    >>> model
    LinearRegression(drop='first')
    >>> {label: round(value, 6) for label, value in model.coefficients_.items()}
    {'city=Quito': 10.0}
    """


@dataclass(eq=False, repr=False)
class Ridge(LinearModel):
    """Least squares with a penalty: `alpha` times the sum of the squared coefficients.

    The intercept has no penalty. `LinearRegression` describes the rest.

    Args:
        alpha: The weight of the penalty, not negative.
        categorical: The features whose values are levels; text is in any case.
        drop: `"first"` if the first level of each feature has no coefficient, None if all have one.
        fit_intercept: Whether there is a constant.
        standardise: Whether numbers are scaled to a standard deviation of one before the penalty.
            `coef_` is in the units of the columns all the same. Levels are not scaled.

    >>> from calitree.ml import Ridge
    >>> model = Ridge(alpha=1.0).fit(wide, target="price", features=["city"])
    >>> {label: round(value, 2) for label, value in model.coefficients_.items()}
    {'city=Cuenca': -2.86, 'city=Quito': 2.86}
    """

    alpha: float = field(default=1.0, kw_only=False)

    @property
    def _penalty(self) -> float:
        if not (isinstance(self.alpha, int | float) and 0 <= self.alpha < math.inf):
            raise QueryError(f"alpha is a number that is not negative; got {self.alpha!r}.")
        return float(self.alpha)


@application
def linear_regression(
    wide: WideTable,
    target: str,
    features: Sequence[str],
    *,
    alpha: float = 0.0,
    where: str | None = None,
    categorical: Collection[str] | None = None,
    drop: str | None = None,
    fit_intercept: bool = True,
    standardise: bool = False,
) -> LinearRegression | Ridge:
    """Fit a linear model over the rows of the join, which is never built.

    Rows where the target or a feature is NULL are left out, and text is taken as levels.

    Args:
        wide: The join.
        target: The column to be predicted, a number.
        features: The columns to predict it from.
        alpha: The weight of a penalty on coefficients; with one it is a ridge regression.
        where: An SQL condition that selects rows.
        categorical: The features whose values are levels; text is in any case.
        drop: `"first"` if the first level of each feature has no coefficient.
        fit_intercept: Whether there is a constant.
        standardise: Whether numbers are scaled to a standard deviation of one for the penalty.

    Returns:
        The fitted model: a `calitree.ml.Ridge` if there is a penalty, else a
        `calitree.ml.LinearRegression`.

    Raises:
        QueryError: A column or an option cannot be used so, or there is no row to fit.

    >>> model = wide.linear_regression("price", ["city"])
    >>> model.predict(wide, group_by=["city"]).having("prediction > 10").columns
    ['city', 'prediction']
    """
    options: dict[str, Any] = {
        "categorical": categorical,
        "drop": drop,
        "fit_intercept": fit_intercept,
        "standardise": standardise,
    }
    model = Ridge(alpha, **options) if alpha else LinearRegression(**options)
    return model.fit(wide, target=target, features=features, where=where)
