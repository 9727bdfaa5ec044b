"""Linear models over the join against scikit-learn on the join really built."""

from __future__ import annotations

import datetime
import math
import pickle
import random
import runpy
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import linear_model
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import calitree as ct
from calitree import QueryError, Result, SchemaError, WideTable
from calitree.apps.regression.gram import Gram, all_but_one
from calitree.apps.regression.gram_query import GramQuery
from calitree.apps.regression.least_squares import solve
from calitree.apps.regression.solution import Solution
from calitree.cli.demo import flights_graph, read_flights
from calitree.ml import LinearRegression, Ridge
from tests.support.engines import LOCAL, engine_named, spark_engine_named
from tests.support.scale import examples

Tables = dict[str, pa.Table]
JOIN = "SELECT * FROM sales JOIN stores USING (store) JOIN items USING (item)"
NUMBERS = ["units", "price", "paid", "promoted", "size", "weight"]
LEVELS = ["city", "family", "code"]


def shop(tables: Tables, engine: Any = "local") -> WideTable:
    graph = ct.JoinGraph(engine=engine)
    for name, table in tables.items():
        graph.add_relation(name, table)
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "items", on="item")
    return graph.calibrate()


def built(tables: Tables, where: str | None = None) -> pd.DataFrame:
    """The join, by DuckDB."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(f"{JOIN} WHERE {where or 'true'}").df()


def least_squares(**options: Any) -> Any:
    """Scikit-learn's model, which must not leave out features that are small compared with others."""
    return linear_model.LinearRegression(tol=1e-12, **options)


@dataclass(frozen=True)
class Expected:
    """What scikit-learn makes of the rows of the join without NULLs."""

    model: Any
    x: np.ndarray
    y: np.ndarray
    rows: pd.DataFrame

    @property
    def predictions(self) -> np.ndarray:
        return self.model.predict(self.x)

    @property
    def r2(self) -> float:
        return r2_score(self.y, self.predictions)


def expected(
    frame: pd.DataFrame, target: str, features: list[str], model: Any, **options: Any
) -> Expected:
    rows = frame[[target, *features]].dropna()
    assert len(rows)
    parts, scales = [], []
    for name in features:
        if name in LEVELS:
            encoder = OneHotEncoder(sparse_output=False, drop=options.get("drop"))
            parts.append(encoder.fit_transform(rows[[name]].astype(object)))
            scales += [1.0] * parts[-1].shape[1]
        else:
            values = rows[[name]].astype(float).to_numpy()
            scales += [StandardScaler().fit(values).scale_[0]]
            parts.append(values)
    x, y = np.hstack(parts), rows[target].astype(float).to_numpy()
    if options.get("standardise"):
        model.fit(x / scales, y)
        model.coef_ = model.coef_ / scales
    else:
        model.fit(x, y)
    return Expected(model, x, y, rows)


def assert_alike(
    model: LinearRegression | Ridge, theirs: Expected, tolerance: float = 1e-6
) -> None:
    scale = max(np.abs(theirs.model.coef_).max(), 1e-6 * np.abs(theirs.y).max())
    np.testing.assert_allclose(
        model.coef_, theirs.model.coef_, rtol=tolerance, atol=tolerance * scale
    )
    size = np.abs(theirs.y).max()
    predicted = model.predict(pa.Table.from_pandas(theirs.rows, preserve_index=False))
    np.testing.assert_allclose(predicted, theirs.predictions, rtol=tolerance, atol=tolerance * size)
    assert model.rows_ == len(theirs.y)
    if len(set(theirs.y)) > 1:
        assert model.r2_ == pytest.approx(theirs.r2, abs=tolerance)


# -- random shops ------------------------------------------------------------------------------


@st.composite
def shops(draw: st.DrawFn) -> Tables:
    """Keys that meet nothing or several rows, rows that are there twice, NULLs.

    Numbers are whole quarters: of those that are equal the mean is the same, so that scikit-learn too can tell
    a column that does not vary.
    """
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    nulls = draw(st.sampled_from([0.0, 0.0, 0.2]))
    stores, items = draw(st.integers(1, 6)), draw(st.integers(1, 6))

    def column(rows: int, dtype: pa.DataType, value: Any, share: float = nulls) -> pa.Array:
        cells = [None if rng.random() < share else value() for _ in range(rows)]
        return pa.array(cells, dtype)

    def quarter() -> float:
        return rng.randint(-20, 40) / 4

    n = draw(st.integers(1, 40))
    keys = draw(st.sampled_from([0.0, 0.1]))
    sales = pa.table(
        {
            "store": column(n, pa.int64(), lambda: rng.randint(0, stores), keys),
            "item": column(n, pa.int32(), lambda: rng.randint(0, items), keys),
            "units": column(n, pa.int32(), lambda: rng.randint(-3, 9)),
            "price": column(n, pa.float64(), quarter),
            "paid": column(n, pa.decimal128(9, 2), lambda: Decimal(rng.randint(-30, 90)) / 4),
            "promoted": column(n, pa.bool_(), lambda: rng.random() < 0.5),
        }
    )
    if draw(st.booleans()):
        sales = pa.concat_tables([sales, sales.slice(0, n // 2)])
    s, i = stores + rng.randint(0, 2), items + rng.randint(0, 2)
    return {
        "sales": sales,
        "stores": pa.table(
            {
                "store": column(s, pa.int64(), lambda: rng.randint(1, stores), 0.0),
                "city": column(s, pa.string(), lambda: rng.choice(["Quito", "Loja", "ü", ""])),
                "size": column(s, pa.float64(), lambda: 1000 + quarter()),
            }
        ),
        "items": pa.table(
            {
                "item": column(i, pa.int64(), lambda: rng.randint(1, items), 0.0),
                "family": column(i, pa.string(), lambda: rng.choice(["DAIRY", "MEAT", "it's"])),
                "code": column(i, pa.int64(), lambda: rng.randint(1, 4)),
                "weight": column(i, pa.float64(), quarter),
            }
        ),
    }


def check(engine: Any, data: st.DataObject) -> None:
    tables = data.draw(shops(), label="shop")
    target = data.draw(st.sampled_from(NUMBERS), label="target")
    options = [name for name in NUMBERS + LEVELS if name != target]
    chosen = st.lists(st.sampled_from(options), min_size=1, max_size=5, unique=True)
    features = data.draw(chosen, label="features")
    where = data.draw(
        st.sampled_from([None, None, "weight > 1", "price < size / 500 or units > 2"])
    )
    parameters: dict[str, Any] = {
        "categorical": [name for name in features if name == "code"] or None,
        "drop": data.draw(st.sampled_from([None, "first"]), label="drop"),
        "fit_intercept": data.draw(st.sampled_from([True, True, False]), label="intercept"),
        "standardise": data.draw(st.booleans(), label="standardise"),
    }
    alpha = data.draw(st.sampled_from([None, 0.01, 2.0]), label="alpha")
    model = LinearRegression(**parameters) if alpha is None else Ridge(alpha, **parameters)
    wide, frame = shop(tables, engine), built(tables, where)
    if frame[[target, *features]].dropna().empty:
        with pytest.raises(QueryError, match="There is no row to fit"):
            model.fit(wide, target=target, features=features, where=where)
        return
    model.fit(wide, target=target, features=features, where=where)
    intercept = parameters["fit_intercept"]
    if alpha is None:
        other = least_squares(fit_intercept=intercept)
    else:
        other = linear_model.Ridge(alpha, fit_intercept=intercept, solver="svd")
    if not model.labels_:  # all levels there were are dropped, and scikit-learn fits no constant
        return
    theirs = expected(frame, target, features, other, **parameters)
    assert_alike(model, theirs)
    assert model.intercept_ == pytest.approx(other.intercept_, rel=1e-6, abs=1e-5)
    if model.rows_ > 1:
        assert model.score(wide, where=where) == pytest.approx(model.r2_, abs=1e-9)
    predicted = model.predict(wide, ["store"], where=where)
    assert isinstance(predicted, Result)
    by_row = model.predict(pa.Table.from_pandas(frame, preserve_index=False))
    means = frame.assign(at=by_row).groupby("store")["at"].mean().dropna()
    ours = {row["store"]: row["prediction"] for row in predicted.rows()}
    assert ours == pytest.approx(means.to_dict(), rel=1e-6, abs=1e-5)


def some(count: int) -> Any:
    return settings(
        max_examples=examples(count), suppress_health_check=list(HealthCheck), deadline=None
    )


@some(40)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data)


@some(200)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    @some(4)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data)

    run()


# -- numbers that are hard ---------------------------------------------------------------------


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def plain(rows: int = 400, seed: int = 0) -> Tables:
    """A shop without NULLs, with features of very different scales and places."""
    rng = np.random.default_rng(seed)
    store, item = rng.integers(0, 20, rows), rng.integers(0, 50, rows)
    size, weight = 1e9 + rng.normal(size=20), 1e-3 * rng.normal(size=50)
    units = rng.integers(1, 9, rows)
    price = 3 * (size[store] - 1e9) + 2e3 * weight[item] + units + rng.normal(size=rows)
    return {
        "sales": table(
            store=store,
            item=item,
            units=units,
            price=1e-3 * price,
            paid=-1e6 + 1e-2 * rng.normal(size=rows),
            promoted=rng.random(rows) < 0.3,
            fold=rng.integers(0, 5, rows),
        ),
        "stores": table(store=np.arange(20), city=[f"city {i % 7}" for i in range(20)], size=size),
        "items": table(
            item=np.arange(50),
            family=[f"family {i % 3}" for i in range(50)],
            code=np.arange(50) % 11,
            weight=weight,
        ),
    }


@pytest.fixture(params=["reference", *LOCAL])
def wide(request: pytest.FixtureRequest) -> WideTable:
    return shop(plain(), engine_named(request.param))


def fitted(wide: WideTable, features: list[str], **options: Any) -> LinearRegression:
    return LinearRegression(**options).fit(wide, target="price", features=features)


@pytest.mark.parametrize("alpha", [None, 1e-3, 10.0])
@pytest.mark.parametrize("standardise", [False, True])
def test_features_of_very_different_scales(
    wide: WideTable, alpha: float | None, standardise: bool
) -> None:
    """A mean of 10⁹ with a deviation of 1, deviations from 10⁻³ to 3, and a small target."""
    features = ["size", "weight", "units", "paid", "promoted"]
    options: dict[str, Any] = {"standardise": standardise}
    model = LinearRegression(**options) if alpha is None else Ridge(alpha, **options)
    model.fit(wide, target="price", features=features)
    if alpha is None:
        other = least_squares()
    else:
        other = linear_model.Ridge(alpha, solver="svd")
    assert_alike(model, expected(built(plain()), "price", features, other, **options))


@pytest.mark.parametrize("standardise", [False, True])
def test_features_that_depend_on_each_other(standardise: bool) -> None:
    """Of all that fit, the coefficients are the smallest: those that scikit-learn finds."""
    tables = plain()
    units = tables["sales"]["units"].to_numpy()
    for name, values in {"tens": 10 * units + 3, "again": units}.items():
        tables["sales"] = tables["sales"].append_column(name, pa.array(values))
    tables["stores"] = tables["stores"].append_column("two", pa.array([2] * 20))
    features = ["units", "tens", "two", "again", "weight", "city"]
    options: dict[str, Any] = {"standardise": standardise}
    model = fitted(shop(tables), features, **options)
    theirs = expected(built(tables), "price", features, least_squares(), **options)
    assert_alike(model, theirs)
    assert model.coefficients_["two"] == 0
    if not standardise:
        assert model.coefficients_["tens"] == pytest.approx(10 * model.coefficients_["units"])


def test_levels_within_levels() -> None:
    """Each store is in one city: the city says nothing that the store does not."""
    tables = plain()
    features = ["city", "units", "store", "family"]
    model = fitted(shop(tables), features, categorical=["store"])
    rows = built(tables).astype({"store": str})
    columns = [
        OneHotEncoder(sparse_output=False).fit_transform(rows[[f]])
        for f in features
        if f != "units"
    ]
    x = np.hstack([columns[0], rows[["units"]], *columns[1:]])
    other = least_squares().fit(x, rows["price"])
    order = [int(store) for store in sorted(map(str, range(20)))]  # theirs are sorted as text
    ours = model.coef_.copy()
    stores = dict(zip(model.levels_["store"], ours[8:28], strict=True))
    ours[8:28] = [stores[store] for store in order]
    np.testing.assert_allclose(ours, other.coef_, rtol=1e-6, atol=1e-12)
    assert model.r2_ == pytest.approx(other.score(x, rows["price"]), abs=1e-9)


def test_many_levels() -> None:
    """The levels of one column may be many more than a dense matrix could have."""
    rng = np.random.default_rng(1)
    rows, many = 60_000, 20_000
    user, group = np.arange(rows) % many, rng.integers(0, 3, rows)
    effect = rng.normal(size=many)
    x = rng.normal(size=rows)
    y = effect[user] + 2 * x + group
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("events", table(user=user, x=x, y=y, group=group))
    graph.add_relation("users", table(user=np.arange(many)))
    graph.add_join("events", "users", on="user")
    wide = graph.calibrate()
    features = ["x", "user", "group"]
    model = LinearRegression(categorical=["user", "group"])
    model.fit(wide, target="y", features=features)
    assert len(model.coef_) == 1 + many + 3
    assert model.r2_ == pytest.approx(1, abs=1e-9)
    assert model.coefficients_["x"] == pytest.approx(2, abs=1e-9)
    frame = table(x=x, user=user, group=group)
    np.testing.assert_allclose(model.predict(frame), y, atol=1e-7)
    # Two columns with that many levels are too much at once.
    graph.add_relation("others", table(user=np.arange(many), other=np.arange(many)))
    graph.add_join("events", "others", on="user")
    model = LinearRegression(categorical=["user", "other"])
    with pytest.raises(QueryError, match="stand for 20,001 columns, and at most 10,000"):
        model.fit(graph.calibrate(), target="y", features=["user", "other"])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_values_that_are_not_finite(engine: str, value: float) -> None:
    """An error, unless the rows that have them are not among those fitted."""
    tables = plain()
    sizes = tables["stores"]["size"].to_pylist()
    sizes[3] = value
    tables["stores"] = tables["stores"].set_column(2, "size", pa.array(sizes))
    wide = shop(tables, engine_named(engine))
    with pytest.raises(QueryError, match=r"size has values .* where=\"abs\(size\) < 1e100\""):
        fitted(wide, ["size"])
    frame = built(tables)
    theirs = expected(frame[frame["store"] != 3], "price", ["size"], least_squares())
    for where in ("abs(size) < 1e100", "store <> 3"):
        model = LinearRegression().fit(wide, target="price", features=["size"], where=where)
        assert_alike(model, theirs)
    with pytest.raises(QueryError, match="too large to be squared"):
        LinearRegression().fit(
            wide.what_if(update={"stores": ({"size": "1e200"}, "store = 3")}),
            target="price",
            features=["size"],
        )
    if math.isnan(value):
        with pytest.raises(QueryError, match="size has values"):
            fitted(wide, ["size"], categorical=["size"])


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_few_rows(engine: str) -> None:
    wide = shop(plain(1), engine_named(engine))
    model = fitted(wide, ["units", "city"])
    assert model.rows_ == 1
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(plain(1)["sales"]["price"][0].as_py())
    assert math.isnan(model.r2_)
    empty = shop(plain(), engine_named(engine)).what_if(delete={"sales": "true"})
    for features in (["units"], ["city"], ["units", "city", "family"]):
        with pytest.raises(QueryError, match="There is no row to fit"):
            fitted(empty, features)
    with pytest.raises(QueryError, match="There is no row to score"):
        model.score(empty)
    assert model.predict(empty, ["store"]).rows() == []


def test_a_target_that_does_not_vary() -> None:
    tables = plain()
    sales = tables["sales"].drop_columns("price").append_column("price", pa.array([0.1] * 400))
    model = fitted(shop({**tables, "sales": sales}), ["units", "city"])
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(0.1)
    assert model.r2_ == 1.0
    assert model.score(shop(tables)) < 0
    assert fitted(shop(tables), ["units"]).score(shop({**tables, "sales": sales})) == 0.0


# -- rows that are given -----------------------------------------------------------------------

ROWS = {"items.weight": [0.0, 1e-3, None], "city": ["city 1", "nowhere", "city 1"]}
FORMS = {
    "columns": ROWS,
    "bare names": {"weight": ROWS["items.weight"], "CITY": ROWS["city"]},
    "rows": [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)],
    "Arrow": pa.table(ROWS),
    "Arrow, encoded": pa.table({**ROWS, "city": pa.array(ROWS["city"]).dictionary_encode()}),
    "pandas": pd.DataFrame(ROWS),
    "pandas, categories": pd.DataFrame({**ROWS, "city": pd.Categorical(ROWS["city"])}),
    "polars": pl.DataFrame(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_every_form(form: str) -> None:
    """A level that was not fitted has no effect; where a number is missing there is no prediction."""
    model = fitted(shop(plain()), ["items.weight", "city"])
    first, second, third = model.predict(FORMS[form])
    by_label = model.coefficients_
    assert first == pytest.approx(model.intercept_ + by_label["city=city 1"])
    assert second == pytest.approx(model.intercept_ + 1e-3 * by_label["items.weight"])
    assert math.isnan(third)


def test_levels_of_every_kind() -> None:
    """Numbers, booleans, dates and decimals can be levels, in a frame and through the join."""
    days = [datetime.date(2024, 1, 1 + i % 3) for i in range(20)]
    extra = {
        "day": pa.array(days),
        "at": pa.array([datetime.datetime.combine(d, datetime.time(12)) for d in days]),
        "rate": pa.array([Decimal(i % 4) / 4 for i in range(20)], pa.decimal128(4, 2)),
        "share": pa.array([(i % 3) / 3 for i in range(20)]),
        "open": pa.array([i % 2 == 0 for i in range(20)]),
        "number": pa.array([i % 5 for i in range(20)], pa.int32()),
    }
    tables = plain()
    for name, values in extra.items():
        tables["stores"] = tables["stores"].append_column(name, values)
    wide = shop(tables)
    with duckdb.connect() as connection:
        connection.register("sales", tables["sales"])
        connection.register("stores", tables["stores"])
        rows = connection.sql("SELECT * FROM sales JOIN stores USING (store)").to_arrow_table()
    for name in extra:
        model = fitted(wide, [name], categorical=[name])
        predicted = {row[name]: row["prediction"] for row in model.predict(wide, [name]).rows()}
        means = rows.group_by(name).aggregate([("price", "mean")]).to_pydict()
        assert predicted == pytest.approx(dict(zip(means[name], means["price_mean"], strict=True)))
        by_level = dict(zip(rows[name].to_pylist(), model.predict(rows), strict=True))
        assert by_level == pytest.approx(predicted)


def test_many_levels_through_the_join(wide: WideTable) -> None:
    """More levels than are compared one after the other."""
    model = fitted(wide, ["store", "code"], categorical=["store", "code"])
    rows = pa.Table.from_pandas(built(plain()), preserve_index=False)
    means = pd.Series(model.predict(rows)).groupby(rows["family"].to_pandas()).mean()
    by_family = {row["family"]: row["prediction"] for row in model.predict(wide, ["family"]).rows()}
    assert by_family == pytest.approx(means.to_dict())
    (total,) = model.predict(wide).rows()
    assert total["prediction"] == pytest.approx(rows["price"].to_numpy().mean())


def test_score(wide: WideTable) -> None:
    """Of a frame it is that of the join, and of other rows it can be anything."""
    train, test = "fold > 0", "fold = 0"
    features = ["size", "units", "city"]
    model = LinearRegression().fit(wide, target="price", features=features, where=train)
    rows = built(plain(), test)
    theirs = r2_score(rows["price"], model.predict(rows))
    assert model.score(wide, where=test) == pytest.approx(theirs, abs=1e-9)
    assert model.score(rows) == pytest.approx(theirs, abs=1e-9)
    missing = pd.concat([rows, rows.head(1).assign(price=None), rows.head(1).assign(city=None)])
    assert model.score(missing) == pytest.approx(theirs, abs=1e-9)
    assert math.isnan(model.score(rows.head(1)))


def test_levels_that_were_not_fitted_have_no_effect(wide: WideTable) -> None:
    features = ["units", "city"]
    model = LinearRegression().fit(
        wide, target="price", features=features, where="city <> 'city 2'"
    )
    rows = built(plain())
    assert "city 2" not in model.levels_["city"]
    theirs = r2_score(rows["price"], model.predict(rows))
    assert model.score(wide) == pytest.approx(theirs, abs=1e-9)


# -- what it takes -----------------------------------------------------------------------------


def passed(gram: Gram) -> int:
    return sum(len(plan.computed) for plan in gram.plans)


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_another_target_passes_no_message(engine: str) -> None:
    wide = shop(plain(), engine_named(engine))
    columns = ["price", "size", "units", "weight"]
    first = LinearRegression().fit(wide, target="price", features=columns[1:])
    assert passed(first.gram_) > 0
    for target in columns:
        others = [name for name in columns if name != target]
        model = LinearRegression().fit(wide, target=target, features=others)
        assert passed(model.gram_) == 0
        assert_alike(model, expected(built(plain()), target, others, least_squares()))
    if engine == "reference":  # it does not tell which columns have no NULL, so that is a filter
        return
    fewer = GramQuery(wide, "price", ["weight", "size"]).gram(first.gram_.centres)
    assert passed(fewer) == 0
    assert len(fewer.plans) == 1, "one query for all numbers"
    leveled = GramQuery(wide, "price", ["size", "city", "family"]).gram(first.gram_.centres)
    assert len(leveled.plans) == 4, "and one for each column with levels, and each two of them"
    again = GramQuery(wide, "units", ["size", "city", "family"]).gram(first.gram_.centres)
    assert len(again.plans) == 4
    assert passed(GramQuery(wide, "price", ["family", "city"]).gram()) == 0


def test_a_fit_after_an_update(wide: WideTable) -> None:
    """Centres stay, so that messages need only take what has changed; a what-if is fitted as it would be."""
    features = ["size", "units", "city"]
    first = fitted(wide, features)
    supposed = wide.what_if(delete={"stores": "city = 'city 3'"})
    rows = built(plain())
    theirs = expected(rows[rows["city"] != "city 3"], "price", features, least_squares())
    assert_alike(fitted(supposed, features), theirs)
    wide.update("sales", delete="units = 4 and fold = 1")
    model = fitted(wide, features)
    assert model.gram_.centres == first.gram_.centres
    left = rows[(rows["units"] != 4) | (rows["fold"] != 1)]
    assert_alike(model, expected(left, "price", features, least_squares()))


@pytest.mark.parametrize("features", [["size", "units"], ["size", "units", "city", "family"]])
def test_folds(wide: WideTable, features: list[str]) -> None:
    """One call gives the sums of every fold; what is trained on is the sum of the others."""
    folds = GramQuery(wide, "price", features, by="fold").grams()
    assert sorted(folds) == [0, 1, 2, 3, 4]
    total = reduce(add, folds.values())
    whole = GramQuery(wide, "price", features).gram(total.centres)
    assert total.rows == whole.rows == 400
    np.testing.assert_allclose(total.means, whole.means, rtol=1e-9)
    np.testing.assert_allclose(total.spread, whole.spread, rtol=1e-9, atol=1e-9)
    rows = built(plain())
    trained = all_but_one(list(folds.values()))
    for (fold, gram), train in zip(folds.items(), trained, strict=True):
        theirs = expected(rows[rows["fold"] != fold], "price", features, least_squares())
        solution = solve(train)
        ours = np.array(list(solution.coefficients(features).values()))
        np.testing.assert_allclose(ours, theirs.model.coef_, rtol=1e-6, atol=1e-12)
        assert solution.r2(train) == pytest.approx(theirs.r2, abs=1e-6)
        test = rows[rows["fold"] == fold]
        model = LinearRegression().fit(
            wide, target="price", features=features, where=f"fold <> {fold}"
        )
        assert solution.r2(gram) == pytest.approx(model.score(test), abs=1e-9)


def test_some_of_the_columns(wide: WideTable) -> None:
    """Fewer features, or another target, need no further query."""
    whole = GramQuery(wide, "price", ["size", "units", "city", "family"]).gram()
    rows = built(plain())

    def same(solution: Solution, target: str, features: list[str]) -> None:
        theirs = expected(rows, target, features, least_squares())
        ours = np.array(list(solution.coefficients(features).values()))
        np.testing.assert_allclose(ours, theirs.model.coef_, rtol=1e-6, atol=1e-12)

    for features in (["family", "size"], ["units"], ["city", "units"]):
        same(solve(whole.select(features)), "price", features)
    same(solve(whole.select(["price", "city"], target="units")), "units", ["price", "city"])
    assert solve(whole.select([])).intercept == pytest.approx(rows["price"].mean())
    with pytest.raises(QueryError, match=r"no 'weigt'"):
        whole.select(["weigt"])
    with pytest.raises(QueryError, match=r"city has levels; a target is a number"):
        whole.select(["units"], target="city")
    with pytest.raises(QueryError, match=r"ask for both in one call"):
        whole + whole.select(["units"])


def test_keys_are_columns_too(wide: WideTable) -> None:
    """A column that relations join on is one, by whatever name."""
    for name in ("store", "stores.store", "sales.store"):
        model = fitted(wide, [name, "units"])
        theirs = least_squares()
        rows = built(plain())
        theirs.fit(rows[["store", "units"]], rows["price"])
        np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-6)
    twice = fitted(wide, ["stores.store", "sales.store", "units"])
    np.testing.assert_allclose(twice.coef_[:2], theirs.coef_[0] / 2, rtol=1e-6)


# -- as scikit-learn's -------------------------------------------------------------------------


def test_the_method_of_a_wide_table(wide: WideTable) -> None:
    model = wide.linear_regression("price", ["size", "city"], drop="first", where="units > 2")
    assert isinstance(model, LinearRegression)
    rows = built(plain(), "units > 2")
    other = least_squares()
    assert_alike(model, expected(rows, "price", ["size", "city"], other, drop="first"))
    ridge = wide.linear_regression("price", ["size"], alpha=0.5, standardise=True)
    assert isinstance(ridge, Ridge)
    assert ridge.alpha == 0.5


def test_clone_and_parameters() -> None:
    model = Ridge(0.5, categorical=["code"], drop="first")
    fitted_one = clone(model).fit(shop(plain()), target="price", features=["code", "units"])
    assert not hasattr(model, "coef_")
    assert fitted_one.get_params() == model.get_params()
    assert clone(fitted_one).get_params()["categorical"] == ["code"]
    assert not hasattr(clone(fitted_one), "coef_")
    assert model.set_params(alpha=2.0, standardise=True) is model
    assert repr(model) == "Ridge(alpha=2.0, categorical=['code'], drop='first', standardise=True)"
    assert repr(clone(LinearRegression())) == "LinearRegression()"


def test_what_a_fit_tells() -> None:
    model = fitted(shop(plain()), ["city", "items.weight"], drop="first")
    assert model.feature_names_in_.tolist() == ["city", "items.weight"]
    assert model.n_features_in_ == 2
    assert model.levels_ == {"city": [f"city {i}" for i in range(1, 7)]}
    assert model.labels_ == [*(f"city=city {i}" for i in range(1, 7)), "items.weight"]
    assert model.rows_ == 400
    html = model._repr_html_()
    assert "<td>city=city 1</td>" in html
    assert "over 400 rows" in html
    assert "table" not in LinearRegression()._repr_html_()
    again = pickle.loads(pickle.dumps(model))
    rows = built(plain())
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def test_progress_is_told() -> None:
    steps: list[tuple[int, int, str]] = []
    LinearRegression().fit(
        shop(plain()),
        target="price",
        features=["city", "family"],
        progress=lambda *step: steps.append(step),
    )
    assert [what for _, _, what in steps] == [
        "means",
        "products",
        "city",
        "family",
        "city × family",
        "",
    ]
    assert steps[-1][:2] == (5, 5)


DATES = plain()
DATES["stores"] = DATES["stores"].append_column("since", pa.array([datetime.date(2024, 1, 1)] * 20))
FIT = {"target": "price", "features": ["units"]}
ERRORS: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "an unknown feature": ({}, {"features": ["wieght"]}, SchemaError, "Did you mean weight"),
    "an unknown target": ({}, {"target": "prise"}, SchemaError, "Did you mean price"),
    "a date": ({}, {"features": ["since"]}, QueryError, r"since is a date, .* add a numeric column"),
    "a target that is text": ({}, {"target": "city"}, QueryError, "The target city is text"),
    "a target that is a date": ({}, {"target": "since"}, QueryError, "since is a date"),
    "no features": ({}, {"features": []}, QueryError, "at least one feature"),
    "one feature": ({}, {"features": "units"}, QueryError, "features is a list of columns"),
    "a feature twice": ({}, {"features": ["units", "units"]}, QueryError, "a feature twice"),
    "the target as a feature": (
        {}, {"features": ["sales.price"]}, QueryError, "sales.price is the target"
    ),
    "categorical, but no feature": (
        {"categorical": ["code"]}, {}, QueryError, "'code' is categorical, but not among the features"
    ),
    "a wrong condition": ({}, {"where": "units +"}, ct.ExpressionError, "Cannot parse"),
    "a wrong drop": ({"drop": "last"}, {}, QueryError, "drop is None or 'first'; got 'last'"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    options, arguments, error, text = ERRORS[case]
    with pytest.raises(error, match=text):
        LinearRegression(**options).fit(shop(DATES), **{**FIT, **arguments})


def test_errors_of_models() -> None:
    model = fitted(shop(plain()), ["units", "city"])
    rows = {"units": [1], "city": ["city 1"]}
    with pytest.raises(SchemaError, match=r"The frame has no column 'city'"):
        model.predict({"units": [1]})
    with pytest.raises(QueryError, match=r"units is a string in the frame, but a number"):
        model.predict({**rows, "units": ["1"]})
    with pytest.raises(QueryError, match=r"city is an integer in the frame, but its levels"):
        model.predict({**rows, "city": [1]})
    with pytest.raises(QueryError, match=r"group_by and where are for a wide table"):
        model.predict(rows, ["city"])
    with pytest.raises(QueryError, match=r"where is for a wide table"):
        model.score({**rows, "price": [1.0]}, where="units > 1")
    with pytest.raises(QueryError, match=r"This Ridge is not fitted; call fit"):
        Ridge().predict(rows)
    with pytest.raises(QueryError, match=r"no parameter 'alfa'. Did you mean alpha"):
        Ridge().set_params(alfa=1)
    for alpha in (-1, math.nan, "1"):
        with pytest.raises(QueryError, match=r"alpha is a number that is not negative"):
            Ridge(alpha).fit(shop(plain()), **FIT)  # type: ignore[arg-type]


# -- real data ---------------------------------------------------------------------------------


@pytest.mark.real_data
def test_flights() -> None:
    """A year of flights: NULLs, flights without a plane or weather, keys of several columns."""
    tables = read_flights()
    wide = flights_graph(tables, "local", how="inner").calibrate()
    numbers = [
        "flights.distance",
        "weather.wind_speed",
        "weather.precip",
        "planes.seats",
        "airports.alt",
    ]
    leveled = ["flights.carrier", "flights.origin", "planes.engine"]
    model = LinearRegression().fit(wide, target="flights.arr_delay", features=numbers + leveled)
    chosen = ", ".join(["flights.arr_delay", *numbers, *leveled])
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        rows = connection.sql(
            f"SELECT {chosen} FROM flights JOIN airlines USING (carrier) "
            "JOIN airports ON dest = faa JOIN weather USING (origin, year, month, day, hour) "
            "JOIN planes USING (tailnum)"
        ).df()
    rows = rows.dropna()
    levels = OneHotEncoder(sparse_output=False).fit_transform(rows.iloc[:, 6:])
    x, y = np.hstack([rows.iloc[:, 1:6], levels]), rows["arr_delay"]
    theirs = least_squares().fit(x, y)
    assert model.rows_ == len(rows) > 200_000
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-6, atol=1e-9)
    assert model.intercept_ == pytest.approx(theirs.intercept_, rel=1e-6)
    assert model.r2_ == pytest.approx(theirs.score(x, y), abs=1e-9)


@pytest.mark.real_data
def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "linear_model.py"
    runpy.run_path(str(example))["main"]()
    output = capsys.readouterr().out
    assert "over 271,525 rows" in output
    assert ", 0 messages passed" in output
