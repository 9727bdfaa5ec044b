"""Linear models on hard data, against exact rational arithmetic over the rows of the join really built.

Where columns depend on each other, against scikit-learn's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn import linear_model

import calitree as ct
from calitree import QueryError, WideTable
from calitree.apps.regression.gram import all_but_one
from calitree.apps.regression.gram_query import GramQuery
from calitree.apps.regression.least_squares import solve
from calitree.ml import LinearRegression, Ridge
from tests.support.engines import LOCAL, engine_named, spark_engine_named

Columns = Sequence[np.ndarray]
TOLERANCE = 1e-12
ENGINES = [*LOCAL, pytest.param("reference", marks=pytest.mark.slow)]


@dataclass(frozen=True)
class Exact:
    """The least squares of some columns, without any rounding."""

    coefficients: list[float]
    intercept: float
    r2: float


def exact(columns: Columns, target: np.ndarray, copies: np.ndarray | None = None) -> Exact:
    weights = [1] * len(target) if copies is None else copies.tolist()
    total, last = sum(weights), len(columns)
    values = [[Fraction(float(value)) for value in own] for own in (*columns, target)]
    means = [sum(v * w for v, w in zip(own, weights, strict=True)) / total for own in values]
    rest = [[value - mean for value in own] for own, mean in zip(values, means, strict=True)]
    spread = [
        [sum(a * b * w for a, b, w in zip(one, other, weights, strict=True)) for other in rest]
        for one in rest
    ]
    matrix = [list(row) for row in spread[:last]]
    for i, pivot in enumerate(matrix):
        matrix[i] = [value / pivot[i] for value in pivot]
        for j, row in enumerate(matrix):
            if j != i:
                matrix[j] = [a - row[i] * b for a, b in zip(row, matrix[i], strict=True)]
    slopes = [row[last] for row in matrix]
    explained = sum(b * spread[i][last] for i, b in enumerate(slopes))
    intercept = means[last] - sum(b * mean for b, mean in zip(slopes, means, strict=False))
    r2 = float(explained / spread[last][last])
    return Exact([float(slope) for slope in slopes], float(intercept), r2)


@dataclass(frozen=True)
class Rows:
    """Sales with numbers, those of their stores and items, and a target made of all three."""

    seed: int = 1
    rows: int = 200
    x: np.ndarray = field(init=False)
    size: np.ndarray = field(init=False)
    weight: np.ndarray = field(init=False)
    y: np.ndarray = field(init=False)
    store: np.ndarray = field(init=False)
    item: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        columns = {
            "store": rng.integers(0, 8, self.rows),
            "item": rng.integers(0, 20, self.rows),
            "x": rng.normal(size=self.rows),
            "size": rng.normal(size=8),
            "weight": rng.normal(size=20),
        }
        of_size, of_weight = columns["size"][columns["store"]], columns["weight"][columns["item"]]
        columns["y"] = 2 * columns["x"] + of_size - 3 * of_weight + 0.3 * rng.normal(size=self.rows)
        for name, values in columns.items():
            object.__setattr__(self, name, values)

    def having(self, **columns: np.ndarray) -> Rows:
        """With other numbers in the place of some."""
        changed = replace(self)
        for name, values in columns.items():
            object.__setattr__(changed, name, values)
        return changed

    def wide(self, engine: Any = "local", **more: np.ndarray) -> WideTable:
        sales = {name: getattr(self, name) for name in ("store", "item", "x", "y")}
        graph = ct.JoinGraph(engine=engine_named(engine))
        graph.add_relation("sales", pa.table({**sales, **more}))
        graph.add_relation("stores", pa.table({"store": np.arange(8), "size": self.size}))
        graph.add_relation("items", pa.table({"item": np.arange(20), "weight": self.weight}))
        graph.add_join("sales", "stores", on="store")
        graph.add_join("sales", "items", on="item")
        return graph.calibrate()

    def features(self, kept: Any = slice(None)) -> Columns:
        return [self.x[kept], self.size[self.store][kept], self.weight[self.item][kept]]

    def exact(self, kept: Any = slice(None)) -> Exact:
        return exact(self.features(kept), self.y[kept])


FEATURES = ["x", "size", "weight"]


def fitted(wide: WideTable, where: str | None = None, **options: Any) -> LinearRegression:
    features = options.pop("features", FEATURES)
    return LinearRegression(**options).fit(wide, target="y", features=features, where=where)


def assert_exact(model: Any, truth: Exact, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(model.coef_, truth.coefficients, rtol=tolerance)
    size = abs(truth.intercept) + max(map(abs, truth.coefficients))
    assert model.intercept_ == pytest.approx(truth.intercept, abs=1e-9 * size)
    assert model.r2_ == pytest.approx(truth.r2, abs=tolerance)


# -- values that are left out ----------------------------------------------------------------------

FILLS = [1e20, 1e150, 1e300, math.nan, math.inf, -math.inf, -9999.0]


def filled(fill: float, x: np.ndarray | None = None) -> tuple[Rows, np.ndarray]:
    """Some rows with a value that stands for none, half of them if it is a number of daily life."""
    rows = Rows()
    x = rows.x if x is None else x
    kept = np.random.default_rng(2).random(rows.rows) > (0.5 if fill == -9999 else 0.02)
    return rows.having(x=np.where(kept, x, fill)), kept


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("engine", ENGINES)
def test_fill_values_that_a_condition_leaves_out(engine: str, fill: float) -> None:
    rows, kept = filled(fill)
    wide = rows.wide(engine, kept=kept)
    for where in ("abs(x) < 1000", "kept"):
        assert_exact(fitted(wide, where), rows.exact(kept))


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("engine", ENGINES)
def test_fill_values_that_an_update_deletes(engine: str, fill: float) -> None:
    rows, kept = filled(fill)
    wide = rows.wide(engine, kept=kept)
    if math.isfinite(fill) and abs(fill) < 1e150:
        fitted(wide)
    fitted(wide, "kept")
    supposed = wide.what_if(delete={"sales": "not kept"})
    assert_exact(fitted(supposed), rows.exact(kept))
    wide.update("sales", delete="not kept")
    assert_exact(fitted(wide), rows.exact(kept))


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_fill_values_beside_a_tiny_spread(engine: str) -> None:
    rows, kept = filled(-9999.0, 5 + 1e-4 * Rows().x)
    wide = rows.wide(engine)
    assert_exact(fitted(wide, "x > 0"), rows.exact(kept))
    wide.update("sales", delete="x < 0")
    assert_exact(fitted(wide), rows.exact(kept))


@pytest.mark.spark
def test_fill_values_on_spark(spark: Any, tmp_path: Any) -> None:
    rows, kept = filled(1e20, 1e6 + 1e-6 * Rows().x)
    wide = rows.wide(spark_engine_named("hybrid, frames", spark, tmp_path), kept=kept)
    assert_exact(fitted(wide, "kept"), rows.exact(kept))
    wide.update("sales", delete="x > 1e19")
    assert_exact(fitted(wide), rows.exact(kept))


# -- means and scales ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("mean", "spread"),
    [
        (1e9, 1.0),
        (1e6, 1e-6),
        (1e9, 1e-6),
        (1e15, 10.0),
        (1 / 3, 1e-14),
        (-1e20, 1e6),
        (2e-9, 1e-20),
    ],
)
def test_means_far_from_spreads(engine: str, mean: float, spread: float) -> None:
    rows = Rows()
    far = {name: mean + spread * getattr(rows, name) for name in ("x", "size", "weight", "y")}
    for names in (["x"], ["weight"], ["y"], list(far)):
        moved = rows.having(**{name: far[name] for name in names})
        assert_exact(fitted(moved.wide(engine)), moved.exact())


def test_two_values_that_differ_in_the_last_place() -> None:
    rows = Rows()
    x = np.where(np.arange(rows.rows) == 7, math.nextafter(1e9, math.inf), 1e9)
    moved = rows.having(x=x)
    assert_exact(fitted(moved.wide()), moved.exact())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scale", [1e-100, 1e-20, 1e-5, 1e5, 1e20, 1e100])
def test_scales(engine: str, scale: float) -> None:
    rows = Rows()
    rows = rows.having(x=scale * rows.x, size=rows.size / scale, y=math.sqrt(scale) * rows.y)
    assert_exact(fitted(rows.wide(engine)), rows.exact())


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_levels_beside_numbers_of_any_scale(engine: str) -> None:
    """Rounding in what levels have in common with the constant is not taken for small numbers."""
    rows = Rows()
    for scale in (1e-20, 1e20):
        scaled = rows.having(x=scale * rows.x)
        cities = np.array(["a", "b", "c"])[rows.store % 3]
        wide = scaled.wide(engine, city=cities)
        indicators = [(cities == city).astype(float) for city in "bc"]
        model = fitted(wide, features=["x", "city"])
        truth = exact([scaled.x, *indicators], rows.y)
        shifts = np.array([0.0, *truth.coefficients[1:]])
        expected = [truth.coefficients[0], *(shifts - shifts.mean())]
        np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)
        assert model.r2_ == pytest.approx(truth.r2, abs=TOLERANCE)
        dropped = fitted(wide, features=["x", "city"], drop="first")
        assert_exact(dropped, truth)


def test_numbers_whose_squares_are_lost() -> None:
    rows = Rows()
    for scale, problem in ((1e160, "too large"), (1e-160, "too small")):
        with pytest.raises(QueryError, match=f"x has values .*{problem} to be squared"):
            fitted(rows.having(x=scale * rows.x).wide())


# -- what depends on what --------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("apart", "tolerance"), [(1e-1, 1e-11), (1e-2, 1e-9), (1e-4, 1e-5)])
def test_features_that_nearly_depend(engine: str, apart: float, tolerance: float) -> None:
    """So many digits are left of a combination as its square, relative to those of the features, has."""
    rows = Rows()
    near = rows.having(x=3 * rows.weight[rows.item] + apart * rows.x)
    assert_exact(fitted(near.wide(engine)), near.exact(), tolerance)


@pytest.mark.parametrize("mean", [0.0, 1e9])
def test_features_that_depend_far_from_zero(mean: float) -> None:
    rows = Rows()
    same = rows.having(x=mean + 2 * rows.weight[rows.item], weight=mean + rows.weight)
    model = fitted(same.wide())
    theirs = linear_model.LinearRegression().fit(np.column_stack(same.features()), same.y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, 1 / 3, 1e20, -1e-30, 2.0**60])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_does_not_vary(engine: str, value: float) -> None:
    rows = Rows()
    constant = rows.having(x=np.full(rows.rows, value))
    model = fitted(constant.wide(engine))
    truth = exact(rows.features()[1:], rows.y)
    assert model.coef_[0] == 0
    np.testing.assert_allclose(model.coef_[1:], truth.coefficients, rtol=TOLERANCE)
    aimless = fitted(rows.having(y=np.full(rows.rows, value)).wide(engine))
    assert not aimless.coef_.any()
    assert aimless.intercept_ == value
    assert aimless.r2_ == 1.0


@pytest.mark.parametrize("engine", ENGINES)
def test_levels_whose_means_are_far_apart(engine: str) -> None:
    rows = Rows()
    kinds = np.array(["a", "b", "c"])[rows.store % 3]
    indicators = [(kinds == kind).astype(float) for kind in "bc"]
    for target, feature in ((1e6, 0.0), (0.0, 1e3)):
        apart = rows.having(y=rows.y + target * indicators[1], x=rows.x + feature * indicators[0])
        model = fitted(apart.wide(engine, kind=kinds), features=["x", "kind"], drop="first")
        assert_exact(model, exact([apart.x, *indicators], apart.y), 1e-8)


# -- few rows and many -----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", LOCAL)
def test_a_million_copies(engine: str) -> None:
    rows = Rows(rows=60)
    moved = rows.having(x=1e6 + 1e-3 * rows.x)
    graph = ct.JoinGraph(engine=engine_named(engine))
    copies = {"store": np.repeat(np.arange(8), 1 + 1000 * np.arange(8))}
    graph.add_relation(
        "sales", pa.table({n: getattr(moved, n) for n in ("store", "item", "x", "y")})
    )
    graph.add_relation("stores", pa.table(copies))
    graph.add_relation("items", pa.table({"item": np.repeat(np.arange(20), 143)}))
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "items", on="item")
    model = fitted(graph.calibrate(), features=["x"])
    weights = 143 * (1 + 1000 * moved.store)
    assert model.rows_ == weights.sum()
    assert_exact(model, exact([moved.x], moved.y, weights), 1e-11)


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_few_rows(engine: str, rows: int) -> None:
    few = Rows(rows=rows)
    few = few.having(x=1e9 + few.x)
    model = fitted(few.wide(engine), features=["x"])
    assert_exact(model, exact([few.x], few.y))


# -- folds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_folds_whose_means_are_far_apart(engine: str) -> None:
    """Each has the digits that it would have alone; one has a target that does not vary."""
    rows = Rows()
    fold = np.arange(rows.rows) % 3
    steps = np.array([0.0, 1e9, 1 / 3])[fold]
    apart = rows.having(x=rows.x + steps, y=np.where(fold == 2, 1e9 / 7, rows.y + steps))
    query = GramQuery(apart.wide(engine, fold=fold), "y", ["x", "size"], by="fold")
    grams = query.grams()
    columns = apart.features()[:2]
    for key in (0, 1):
        kept = fold == key
        truth = exact([column[kept] for column in columns], apart.y[kept])
        solution = solve(grams[key])
        ours = list(solution.coefficients(["x", "size"]).values())
        np.testing.assert_allclose(ours, truth.coefficients, rtol=TOLERANCE)
        assert solution.r2(grams[key]) == pytest.approx(truth.r2, abs=TOLERANCE)
    assert not any(solve(grams[2]).slopes.values())
    for key, rest in zip(grams, all_but_one(list(grams.values())), strict=True):
        kept = fold != key
        truth = exact([column[kept] for column in columns], apart.y[kept])
        ours = list(solve(rest).coefficients(["x", "size"]).values())
        np.testing.assert_allclose(ours[0], truth.coefficients[0], rtol=1e-9)


@pytest.mark.parametrize("engine", LOCAL)
def test_centres_that_were_given_may_be_far(engine: str) -> None:
    """As in a search, where a table that joins with some rows only leaves those with another mean."""
    rows, kept = filled(-9999.0, 5 + 1e-4 * Rows().x)
    wide = rows.wide(engine)
    centres = GramQuery(wide, "y", FEATURES).centres()
    assert abs(centres["x"]) > 1000
    gram = GramQuery(wide, "y", FEATURES, where="x > 0").gram(centres)
    truth = rows.exact(kept)
    ours = list(solve(gram).coefficients(FEATURES).values())
    np.testing.assert_allclose(ours, truth.coefficients, rtol=TOLERANCE)


def test_a_search_over_far_means() -> None:
    """The gain of a table is the same wherever the numbers are."""
    rows = Rows()
    lake = {"colours": pa.table({"item": np.arange(20), "shade": rows.weight})}
    base = rows.wide().search(lake, "sales.y", ["size"], fold="store")
    moved = rows.having(y=1e9 + 1e-3 * rows.y, size=1e9 + 1e-3 * rows.size)
    far = moved.wide().search(lake, "sales.y", ["size"], fold="store")
    assert far.best.score is not None
    assert base.best.score is not None
    assert far.best.score.mean == pytest.approx(base.best.score.mean, abs=1e-3)


# -- what is reused --------------------------------------------------------------------------------


def test_a_fit_far_from_zero_reuses_its_messages() -> None:
    rows = Rows()
    moved = rows.having(x=1e9 + rows.x, y=1e6 + 1e-6 * rows.y)
    wide = moved.wide()
    first = fitted(wide)
    assert len(first.gram_.plans) == 3, "two rounds for the means, one for the products"
    again = fitted(wide)
    assert sum(len(plan.computed) for plan in again.gram_.plans) == 0
    assert again.gram_.centres == first.gram_.centres
    wide.update("sales", delete="x < 1e9 - 2")
    assert fitted(wide).gram_.centres == first.gram_.centres


def test_a_penalty_far_from_zero() -> None:
    rows = Rows()
    moved = rows.having(x=1e9 + rows.x)
    near = Ridge(3.0).fit(rows.wide(), target="y", features=FEATURES)
    far = Ridge(3.0).fit(moved.wide(), target="y", features=FEATURES)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-6)
