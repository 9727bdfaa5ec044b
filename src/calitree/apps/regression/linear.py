"""Linear models over the join, which is never built: what `calitree.ml` has, in scikit-learn's manner.

A fit asks a few queries for moments (`moments`) and solves for the coefficients (`least_squares`).
Numbers are centred before they are squared, so columns of any scale keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Self

from calitree.application import application
from calitree.apps.regression.factors import choice, complete_rows, weighted_mean
from calitree.apps.regression.frames import predictions, r2_of, table_of
from calitree.apps.regression.gram import Gram
from calitree.apps.regression.least_squares import Solution, solve
from calitree.apps.regression.moments import factors_of, gram_of
from calitree.errors import QueryError, did_you_mean
from calitree.progress import Progress
from calitree.results.result import Result
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    from calitree.apps.regression.gram import Array


class _LinearModel:
    """What both models share: their parameters, and what can be asked of them once fitted."""

    coef_: Array
    """The coefficients in the units of the columns, as `labels_` names them."""
    intercept_: float
    labels_: list[str]
    """What each coefficient belongs to: `items.weight`, `stores.city=Quito`."""
    feature_names_in_: Any
    n_features_in_: int
    target_: str
    levels_: dict[str, list[Any]]
    """For each categorical feature the levels that have a coefficient."""
    rows_: int
    """How many rows of the join were fitted."""
    r2_: float
    """The part of the target's variance over these rows that is explained."""
    gram_: Gram
    """The moments that were fitted; `gram_.plans` tell what was reused for them."""

    _parameters: tuple[str, ...] = ("categorical", "drop", "fit_intercept", "standardise")

    def __init__(
        self,
        *,
        categorical: Collection[str] | None = None,
        drop: str | None = None,
        fit_intercept: bool = True,
        standardise: bool = False,
    ) -> None:
        self.categorical = categorical
        self.drop = drop
        self.fit_intercept = fit_intercept
        self.standardise = standardise

    @property
    def _penalty(self) -> float:
        return 0.0

    # -- parameters, as scikit-learn has them ----------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._parameters}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters."""
        for name, value in params.items():
            if name not in self._parameters:
                hint = did_you_mean(name, self._parameters)
                raise QueryError(f"{type(self).__name__} has no parameter {name!r}.{hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = type(self)().get_params()
        given = {name: each for name, each in self.get_params().items() if each != usual[name]}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    # -- fitting ---------------------------------------------------------------------------------

    def fit(
        self,
        wide: WideTable,
        *,
        target: str,
        features: Sequence[str],
        where: str | None = None,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Fit to the rows of the join for which a condition holds, if one is given.

        Rows in which the target or a feature is NULL are left out. Text is taken as levels, a boolean
        as 0 or 1, and a date must be made a number first, or named in `categorical`.
        """
        if not features:
            raise QueryError("Name at least one feature.")
        chosen = () if self.categorical is None else self.categorical
        gram = gram_of(wide, target, features, categorical=chosen, where=where, progress=progress)
        return self._fitted(gram)

    def solved(self, gram: Gram) -> Solution:
        """The model that fits these moments best."""
        if self.drop not in (None, "first"):
            raise QueryError(f"drop is None or 'first'; got {self.drop!r}.")
        return solve(
            gram,
            alpha=self._penalty,
            intercept=self.fit_intercept,
            standardise=self.standardise,
            drop_first=self.drop == "first",
        )

    def _fitted(self, gram: Gram) -> Self:
        import numpy as np

        solution = self.solved(gram)
        coefficients = solution.coefficients(gram.features)
        self.coef_ = np.array(list(coefficients.values()))
        self.labels_ = list(coefficients)
        self.intercept_ = solution.intercept
        self.feature_names_in_ = np.array(gram.features, dtype=object)
        self.n_features_in_ = len(gram.features)
        self.target_ = gram.target
        self.levels_ = {name: list(effects) for name, effects in solution.effects.items()}
        self.rows_ = int(gram.rows)
        self.r2_ = solution.r2(gram)
        self.gram_ = gram
        self._solution = solution
        return self

    @property
    def _fit(self) -> Solution:
        if not hasattr(self, "_solution"):
            raise QueryError(
                f"This {type(self).__name__} is not fitted; call fit(wide, target=..., features=[...])."
            )
        return self._solution

    # -- using it --------------------------------------------------------------------------------

    def predict(
        self, rows: Any, group_by: Sequence[str] = (), where: str | None = None
    ) -> Array | Result:
        """What the model says of each row of a frame, as an array; or of a wide table, the mean
        prediction of each group, as the answer to one query.

        A frame is anything a relation can be made of. Its columns have the names of the features, with
        or without their relation. Where a feature is NULL the prediction is NaN; a level that was not
        fitted has no effect, as if all of its columns were 0. Over a wide table rows where a feature is
        NULL are left out.
        """
        solution = self._fit
        if isinstance(rows, WideTable):
            return self._predicted(rows, group_by, where)
        if group_by or where is not None:
            raise QueryError(
                "group_by and where are for a wide table; a frame is predicted row by row."
            )
        return predictions(solution, table_of(rows))

    def _predicted(self, wide: WideTable, group_by: Sequence[str], where: str | None) -> Result:
        solution, gram = self._fit, self.gram_
        _, found = factors_of(wide, self.target_, gram.features, list(solution.effects))
        numbers, choices, constant = [], [], solution.base
        for factor in found:
            if factor.has_levels:
                effects = {k: v for k, v in solution.effects[factor.name].items() if v}
                if effects:
                    choices.append(choice(wide.schema, factor, effects))
            else:
                slope, centre = solution.slopes[factor.name], gram.centres[factor.name]
                numbers.append((slope, factor.around(centre)))
                constant += slope * (centre - solution.means[factor.name])
        measure = weighted_mean(constant, numbers, choices)
        return wide.query(group_by, complete_rows(found, where), {"prediction": measure})

    def score(self, rows: Any, where: str | None = None) -> float:
        """R² over the rows of a wide table, or of a frame that has the target too. Rows where the target
        or a feature is NULL are left out.
        """
        solution = self._fit
        if isinstance(rows, WideTable):
            chosen = list(solution.effects)
            features = self.gram_.features
            gram = gram_of(rows, self.target_, features, categorical=chosen, where=where)
            if not gram.rows:
                raise QueryError("There is no row to score.")
            return solution.r2(gram)
        if where is not None:
            raise QueryError("where is for a wide table; filter the frame itself.")
        table = table_of(rows)
        return r2_of(solution, table, self.target_)

    @property
    def coefficients_(self) -> dict[str, float]:
        """The coefficients by label."""
        return self._fit.coefficients(self.gram_.features)

    def _repr_html_(self) -> str:
        from html import escape

        head = f"<p>{escape(repr(self))}</p>"
        if not hasattr(self, "_solution"):
            return head
        cells = {"intercept": self.intercept_, **self.coefficients_}
        shown = list(cells.items())[:100]
        body = "".join(f"<tr><td>{escape(k)}</td><td>{v:.6g}</td></tr>" for k, v in shown)
        more = (
            f", the first {len(shown)} of {len(cells):,} shown" if len(shown) < len(cells) else ""
        )
        facts = f"R² {self.r2_:.4f} over {self.rows_:,} rows{more}"
        titles = f"<th>{escape(self.target_)}</th><th>coefficient</th>"
        return f"{head}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table><p>{facts}</p>"


class LinearRegression(_LinearModel):
    """Least squares over the rows of a join, as scikit-learn's on the join really built.

    `fit(wide, target=, features=)` sets `coef_`, `intercept_`, `rows_`, `r2_`, `levels_` and `labels_`.
    Coefficients and R² are those of scikit-learn with `OneHotEncoder` for the features that are text, or
    that are named in `categorical`: each level has a coefficient (but the first, with `drop="first"`),
    and where columns depend on each other, the coefficients are the smallest. `standardise` measures
    that for numbers scaled to a standard deviation of one; coefficients are in the units of the columns
    in any case.

    Rows where the target or a feature is NULL are left out. Values that are NaN or infinite are an error.

    Numbers are centred before they are squared, so a feature may be far from zero and of any scale. With
    `fit_intercept=False` they cannot be, and such a feature loses digits. Features of which a combination
    is 3 in a million of their length, or less, count as dependent; scikit-learn's own limit is `tol`, 1 in
    a million of the longest feature unless told otherwise.

    >>> from calitree import JoinGraph
    >>> from calitree.ml import LinearRegression
    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"store": [1, 1, 2, 2], "units": [1, 2, 3, 4], "paid": [3, 5, 8, 10]})
    >>> g.add_relation("stores", {"store": [1, 2], "city": ["Quito", "Cuenca"]})
    >>> g.add_join("sales", "stores", on="store")
    >>> model = LinearRegression(drop="first")
    >>> model.fit(g.calibrate(), target="paid", features=["units", "city"])
    LinearRegression(drop='first')
    >>> {label: round(value, 6) for label, value in model.coefficients_.items()}
    {'units': 2.0, 'city=Quito': -1.0}
    >>> model.predict({"units": [10], "city": ["Quito"]}).round(6)
    array([21.])
    """


class Ridge(_LinearModel):
    """Least squares with a penalty: `alpha` times the sum of the squared coefficients. The intercept has
    none. See `LinearRegression` for the rest.

    With `standardise` numbers are scaled to a standard deviation of one before the penalty, and
    `coef_` is in the units of the columns all the same. Levels are not scaled.
    """

    _parameters = ("alpha", *_LinearModel._parameters)

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        categorical: Collection[str] | None = None,
        drop: str | None = None,
        fit_intercept: bool = True,
        standardise: bool = False,
    ) -> None:
        super().__init__(
            categorical=categorical,
            drop=drop,
            fit_intercept=fit_intercept,
            standardise=standardise,
        )
        self.alpha = alpha

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
    """Fit a linear model over the rows of the join, which is never built. With `alpha` it is a
    ridge regression. Rows where the target or a feature is NULL are left out, and text is taken as
    levels. See `calitree.ml.LinearRegression` for what it tells, and for the options.

        model = wide.linear_regression("sales.price", ["items.weight", "stores.city"])
        model.coefficients_, model.r2_
        model.predict(wide, group_by=["stores.city"])
    """
    options: dict[str, Any] = {
        "categorical": categorical,
        "drop": drop,
        "fit_intercept": fit_intercept,
        "standardise": standardise,
    }
    model = Ridge(alpha, **options) if alpha else LinearRegression(**options)
    return model.fit(wide, target=target, features=features, where=where)
