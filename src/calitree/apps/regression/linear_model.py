"""What linear models over a join share: parameters, fitting, predicting and scoring.

A fit asks a few queries (`gram_query`) and solves for the coefficients (`least_squares`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, Self

import numpy as np

from calitree.apps.regression.factors import choice, complete_rows, factors_of, weighted_mean
from calitree.apps.regression.frames import predictions, r2_of, table_of
from calitree.apps.regression.gram import Array, Gram
from calitree.apps.regression.gram_query import GramQuery
from calitree.apps.regression.least_squares import solve
from calitree.apps.regression.solution import Solution
from calitree.errors import QueryError, did_you_mean
from calitree.progress import Progress
from calitree.results.result import Result
from calitree.wide_table import WideTable

MAX_SHOWN_COEFFICIENTS = 100
"""In a notebook."""


@dataclass(kw_only=True, eq=False, repr=False)
class LinearModel:
    """The parameters of a linear model over a join, and what it knows once it is fitted."""

    categorical: Collection[str] | None = None
    drop: str | None = None
    fit_intercept: bool = True
    standardise: bool = False

    coef_: Array = field(init=False)
    """The coefficients in the units of the columns, as `labels_` names them."""
    intercept_: float = field(init=False)
    labels_: list[str] = field(init=False)
    """What each coefficient belongs to: `items.weight`, `stores.city=Quito`."""
    feature_names_in_: Any = field(init=False)
    n_features_in_: int = field(init=False)
    target_: str = field(init=False)
    levels_: dict[str, list[Any]] = field(init=False)
    """For each categorical feature the levels that have a coefficient."""
    rows_: int = field(init=False)
    """How many rows of the join were fitted."""
    r2_: float = field(init=False)
    """The part of the target's variance over these rows that is explained."""
    gram_: Gram = field(init=False)
    """The sums that were fitted; `gram_.plans` show what was reused for them."""

    @property
    def _penalty(self) -> float:
        return 0.0

    # -- parameters, as scikit-learn has them ----------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the model, as scikit-learn's `clone` reads them.

        Args:
            deep: Of no effect: no parameter is a model itself.

        Returns:
            The parameters by name.

        >>> from calitree.ml import Ridge
        >>> Ridge(2.0).get_params()["alpha"]
        2.0
        """
        names = sorted(parameter.name for parameter in fields(self) if parameter.init)
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. A fitted model keeps its coefficients.

        Args:
            **params: New values by name.

        Returns:
            The model itself.

        Raises:
            QueryError: There is no such parameter.

        >>> from calitree.ml import Ridge
        >>> Ridge(2.0).set_params(standardise=True)
        Ridge(alpha=2.0, standardise=True)
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                hint = did_you_mean(name, known)
                raise QueryError(f"{type(self).__name__} has no parameter {name!r}.{hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = type(self)().get_params()
        given = [f"{k}={v!r}" for k, v in self.get_params().items() if v != usual[k]]
        return f"{type(self).__name__}({', '.join(given)})"

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
        """Fit the model to the rows of a join.

        Rows in which the target or a feature is NULL are left out. Text is taken as levels, a boolean
        as 0 or 1, and a date must be made a number first, or named in `categorical`.

        A fit asks several queries. While others update the tree, give it one version of it:
        `wide.at(wide.version)`.

        Args:
            wide: The join.
            target: The column to be predicted, a number.
            features: The columns to predict it from.
            where: An SQL condition that selects rows.
            progress: A function that is told of each step; True shows a bar, False none, None a bar
                in a terminal.

        Returns:
            The model itself, fitted.

        Raises:
            QueryError: A column cannot be used so, or there is no row to fit.

        >>> from calitree.ml import LinearRegression
        >>> model = LinearRegression().fit(wide, target="price", features=["city"])
        >>> model.rows_, model.labels_
        (3, ['city=Cuenca', 'city=Quito'])
        """
        if not features:
            raise QueryError("Name at least one feature.")
        chosen = () if self.categorical is None else self.categorical
        query = GramQuery(wide, target, features, categorical=chosen, where=where)
        return self._fitted(query.gram(progress=progress))

    def solved(self, gram: Gram) -> Solution:
        """Solve for the coefficients, without keeping them.

        Args:
            gram: The sums over the rows to be fitted, such as `gram_` of a fitted model.

        Returns:
            The best coefficients by this model's parameters.

        Raises:
            QueryError: A parameter is wrong, or there is no row to fit.

        >>> from calitree.ml import LinearRegression, Ridge
        >>> model = LinearRegression().fit(wide, target="price", features=["city"])
        >>> Ridge(0.5).solved(model.gram_).r2(model.gram_) < model.r2_
        True
        """
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
        """Predict the target for each row of a frame, or its mean for groups of a wide table.

        A level that was not fitted has no effect, as if all of its columns were 0.

        Args:
            rows: A wide table, or a frame: anything a relation can be made of, with columns named as
                the features, with or without their relation.
            group_by: Of a wide table, the columns to group by.
            where: Of a wide table, an SQL condition.

        Returns:
            Of a frame an array, which is NaN where a feature is NULL. Of a wide table the answer to
            one query, with the mean `prediction` of each group over rows where no feature is NULL.

        Raises:
            QueryError: The model is not fitted, or a column cannot be used so.
            SchemaError: The frame lacks a column.

        >>> from calitree.ml import LinearRegression
        >>> model = LinearRegression().fit(wide, target="price", features=["city"])
        >>> model.predict({"city": ["Quito", "Loja"]}).round(6)
        array([15., 10.])
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
        leveled = list(solution.effects)
        _, factors = factors_of(wide.schema, self.target_, gram.features, leveled)
        numbers, choices, constant = [], [], solution.origin + solution.base
        for factor in factors:
            if factor.has_levels:
                effects = {k: v for k, v in solution.effects[factor.name].items() if v}
                if effects:
                    choices.append(choice(wide.schema, factor, effects))
            else:
                slope, centre = solution.slopes[factor.name], gram.centres[factor.name]
                numbers.append((slope, factor.around(centre)))
                constant += slope * (centre - solution.centres[factor.name])
        measure = weighted_mean(constant, numbers, choices)
        return wide.query(group_by, complete_rows(factors, where), {"prediction": measure})

    def score(self, rows: Any, where: str | None = None) -> float:
        """R²: the part of the target's variance that the model explains.

        Args:
            rows: A wide table, or a frame that has the target too. Rows where the target or a feature
                is NULL are left out.
            where: Of a wide table, an SQL condition.

        Returns:
            At most 1; NaN over fewer than two rows.

        Raises:
            QueryError: The model is not fitted, or there is no row to score.
            SchemaError: The frame lacks a column.

        >>> from calitree.ml import LinearRegression
        >>> LinearRegression().fit(wide, target="price", features=["city"]).score(wide) > 0.5
        True
        """
        solution = self._fit
        if isinstance(rows, WideTable):
            leveled, features = list(solution.effects), self.gram_.features
            query = GramQuery(rows, self.target_, features, categorical=leveled, where=where)
            gram = query.gram()
            if not gram.rows:
                raise QueryError("There is no row to score.")
            return solution.r2(gram)
        if where is not None:
            raise QueryError("where is for a wide table; filter the frame itself.")
        return r2_of(solution, table_of(rows), self.target_)

    @property
    def coefficients_(self) -> dict[str, float]:
        """The coefficients by label, such as `items.weight` or `stores.city=Quito`."""
        return self._fit.coefficients(self.gram_.features)

    def _repr_html_(self) -> str:
        head = f"<p>{escape(repr(self))}</p>"
        if not hasattr(self, "_solution"):
            return head
        cells = {"intercept": self.intercept_, **self.coefficients_}
        shown = list(cells.items())[:MAX_SHOWN_COEFFICIENTS]
        body = "".join(f"<tr><td>{escape(k)}</td><td>{v:.6g}</td></tr>" for k, v in shown)
        facts = f"R² {self.r2_:.4f} over {self.rows_:,} rows"
        if len(shown) < len(cells):
            facts += f", the first {len(shown)} of {len(cells):,} shown"
        titles = f"<th>{escape(self.target_)}</th><th>coefficient</th>"
        return f"{head}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table><p>{facts}</p>"
