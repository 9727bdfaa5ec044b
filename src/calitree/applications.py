"""What a wide table can be used for beyond asking it: each method is a module of `apps/`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from calitree.apps.cube.cube import Cube
    from calitree.apps.explain.explanation import Explanation
    from calitree.apps.regression.linear import LinearRegression, Ridge
    from calitree.apps.search.leaderboard import Search
    from calitree.join_graph import On
    from calitree.progress import Progress
    from calitree.query.binder import MeasureLike
    from calitree.wide_table import WideTable


class Applications:
    """The applications as methods. `WideTable` has them."""

    @property
    def _wide(self) -> WideTable:
        return cast("WideTable", self)

    def cube(
        self,
        dims: Sequence[str],
        k: int = 1,
        *,
        where: str | None = None,
        budget: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Cube:
        """Calibrate every pivot that groups by up to `k` of these columns, or as many of them as fit
        a budget of bytes, the most useful first. They are kept, refreshed and saved with the tree.

        Cuboids of up to k + 1 columns then need no further message. Two columns that are joined are
        the same dimension. A cube with `where` is one of the rows for which that holds; as questions
        do, it says all it wants and inherits nothing from the tree's pivot. What it would take,
        `calitree.apps.cube.cube.Cube.estimate` tells.

        >>> from calitree import JoinGraph
        >>> g = JoinGraph(engine="reference")
        >>> g.add_relation("sales", {"store": [1, 1, 2, 2], "month": [1, 2, 1, 1]})
        >>> g.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
        >>> g.add_join("sales", "stores", on={"store": "id"})
        >>> cube = g.calibrate({"n": "count(*)"}).cube(["city", "month"], k=1)
        >>> cube.cuboid(["city", "month"], having="n > 1").rows()
        [{'city': 'Cuenca', 'month': 1, 'n': 2}]
        >>> len(cube.cuboid(["city", "month"]).plan.computed)
        0
        """
        from calitree.apps.cube.cube import Cube

        return Cube.built(self._wide, dims, k, where=where, budget=budget, progress=progress)

    def linear_regression(
        self,
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
        from calitree.apps.regression.linear import LinearRegression, Ridge

        options: dict[str, Any] = {
            "categorical": categorical,
            "drop": drop,
            "fit_intercept": fit_intercept,
            "standardise": standardise,
        }
        model = Ridge(alpha, **options) if alpha else LinearRegression(**options)
        return model.fit(self._wide, target=target, features=features, where=where)

    def search(
        self,
        candidates: Any,
        target: str,
        features: Sequence[str] = (),
        *,
        model: LinearRegression | Ridge | None = None,
        on: On | None = None,
        where: str | None = None,
        cv: int = 5,
        fold: str | None = None,
        select: int = 1,
        min_gain: float = 0.001,
        max_levels: int = 50,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> Search:
        """Which tables improve a linear model of `target`, and by how much: a leaderboard, the best
        first. No table is joined for it, and the large ones are read once, however many are tried.

        `candidates` are tables by name, a list of tables or paths, a pattern, or a folder whose files and
        folders are tables; instead of a table there may be a pair of it and what it joins `on` (see
        `augment`; without it, columns of the same names). Its features are its columns that are
        numbers, truth values, text of at most `max_levels` values, or named in the model's
        `categorical`. One that cannot be tried is at the end, with the reason.

        Scores are means of R² over folds that were held out. The values of the column `fold` are dealt
        out in `cv` folds (each is one if they are at most 20); without it, those of the widest key of
        the target's relation. The rows of a join without a partner, or with a NULL in a feature, are
        left out, so each score has its own baseline, on the same rows. The gain is the difference, times
        the part of the rows that is left. Warnings tell of those that drop out, of rows that are
        multiplied, and of features that tell the target too well (`leaks`).

        Up to `select` tables are chosen one after the other, each beside those before it, while one
        has a gain of `min_gain`. `selected`, `wide` and `model` are these, the wide table that has
        them, and the model fitted to it.

        >>> from calitree import JoinGraph
        >>> g = JoinGraph(engine="reference")
        >>> g.add_relation("sales", {"store": [1, 1, 2, 2, 3, 3], "half": [0, 1, 0, 1, 0, 1],
        ...     "units": [3, 4, 6, 7, 3, 2]})
        >>> g.add_relation("stores", {"store": [1, 2, 3], "city": ["Quito", "Loja", "Quito"]})
        >>> g.add_join("sales", "stores", on="store")
        >>> lake = {"size": {"store": [1, 2, 3], "area": [40, 70, 31]},
        ...     "rent": {"store": [1, 2, 3], "rent": [7, 7, 8]}}
        >>> found = g.calibrate().search(lake, target="units", fold="half")
        >>> [(each.name, round(each.score.mean, 2)) for each in found.board]
        [('size', 0.77), ('rent', 0.08)]
        >>> found.selected
        ['size']
        >>> list(found.model.coefficients_)
        ['size.area']
        """
        from calitree.apps.search.search import search

        return search(
            self._wide,
            candidates,
            target,
            features,
            model=model,
            on=on,
            where=where,
            cv=cv,
            fold=fold,
            select=select,
            min_gain=min_gain,
            max_levels=max_levels,
            seed=seed,
            progress=progress,
        )

    def why(
        self,
        measure: MeasureLike,
        where: str,
        *,
        expected: float | None = None,
        attributes: Sequence[str] | None = None,
        depth: int = 2,
        limit: int = 20,
        min_support: float = 0.005,
        max_values: int = 1_000,
        parsimony: float = 0.5,
        progress: Progress | bool | None = None,
    ) -> Explanation:
        """Which rows make a measure what it is where a condition holds, compared with the other rows
        or with what was `expected`.

        Each candidate (a value of a column of any relation, or values of up to `depth` columns, at
        most 3) is judged by intervention: what the measure would be without its rows. The result is a
        table of the `limit` best; `calitree.apps.explain.explain` tells what its columns mean. `attributes`
        are the columns to look at, without it all that have at most `max_values` values; candidates
        with less than `min_support` of the rows are not looked at. The larger `parsimony` is, the
        more a small candidate is preferred to one that closes more of the gap.

        >>> from calitree import JoinGraph
        >>> g = JoinGraph(engine="reference")
        >>> g.add_relation("sales", {"store": [1, 1, 1, 2, 2, 2], "price": [9, 9, 99, 9, 9, 9],
        ...     "channel": ["shop", "app", "web", "shop", "app", "web"]})
        >>> g.add_relation("stores", {"store": [1, 2], "city": ["Quito", "Loja"]})
        >>> g.add_join("sales", "stores", on="store")
        >>> wide = g.calibrate({"mean": "avg(price)"})
        >>> wide.why("mean", where="city = 'Quito'").sentence   # doctest: +NORMALIZE_WHITESPACE
        "Without sales.channel = 'web' (33 % of the rows), mean where city = 'Quito' would be 9
        instead of 39: 100 % of the gap to the other rows (9)."
        """
        from calitree.apps.explain.explain import Options, why

        chosen = Options(attributes, depth, limit, min_support, max_values, parsimony, progress)
        return why(self._wide, measure, where, expected, chosen)

    def explain_change(
        self,
        measure: MeasureLike,
        a: str | int,
        b: str | int,
        *,
        attributes: Sequence[str] | None = None,
        depth: int = 2,
        limit: int = 20,
        min_support: float = 0.005,
        max_values: int = 1_000,
        parsimony: float = 0.5,
        progress: Progress | bool | None = None,
    ) -> Explanation:
        """Which rows make the difference of a measure from `a` to `b`, two conditions or two versions:
        without them it would be smaller, or gone. Conditions may overlap; rows in both are on both
        sides. The options are those of `why`.

            print(wide.explain_change("revenue", a="month = 1", b="month = 2"))
            print(wide.explain_change("revenue", a=wide.version - 1, b=wide.version))
        """
        from calitree.apps.explain.explain import Options, explain_change

        chosen = Options(attributes, depth, limit, min_support, max_values, parsimony, progress)
        return explain_change(self._wide, measure, a, b, chosen)
