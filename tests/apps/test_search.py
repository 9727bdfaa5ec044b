"""Tables that improve a model: scores against scikit-learn on the join really built, and what it took."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn import linear_model
from sklearn.metrics import r2_score
from sklearn.preprocessing import OneHotEncoder

import calitree as ct
from calitree import QueryError, SchemaError, WideTable
from calitree.apps.search.leaderboard import Score, Scored, Search
from calitree.ml import LinearRegression, Ridge
from examples import augmentation
from tests.support.engines import LOCAL, engine_named, spark_engine_named
from tests.support.scale import examples

Tables = dict[str, pa.Table]
JOIN = (
    "sales JOIN stores ON sales.store = stores.store JOIN dates ON sales.day = dates.day "
    "JOIN items ON sales.item = items.item"
)
TARGET = "sales.units"
FEATURES = ("dates.temp", "stores.city", "items.weight")
DAYS = 22
TEXT = ("stores.city", "owners.brand", "visits.kind")


def shop(rows: int = 300, seed: int = 0, nulls: float = 0.0) -> Tables:
    """Sales by day, store and item; some keys meet nothing, and one store is there twice."""
    rng = random.Random(seed)

    def some(value: Any) -> Any:
        return None if rng.random() < nulls else value

    sales = {
        "day": [some(rng.randrange(DAYS + 2)) for _ in range(rows)],
        "store": [some(rng.randrange(8)) for _ in range(rows)],
        "item": [some(rng.randrange(12)) for _ in range(rows)],
        "fold": [rng.randrange(4) for _ in range(rows)],
        "units": [some(rng.randint(-8, 40) / 4) for _ in range(rows)],
    }
    stores, days, items = [0, 1, 2, 3, 4, 5, 6, 6], list(range(DAYS)), list(range(12))
    cities = ["Quito", "Loja", "Manta", some("Quito"), "Loja", "Puyo", "Quito", "Manta"]
    temps, weights = [some(rng.randint(40, 90) / 4) for _ in days], [rng.random() for _ in items]
    return {
        "sales": pa.table({k: pa.array(v, _type(k)) for k, v in sales.items()}),
        "stores": pa.table({"store": stores, "city": pa.array(cities, pa.string())}),
        "dates": pa.table({"day": days, "temp": pa.array(temps, pa.float64())}),
        "items": pa.table({"item": items, "weight": weights}),
    }


def _type(column: str) -> pa.DataType:
    return pa.float64() if column == "units" else pa.int64()


def candidates(seed: int = 0) -> dict[str, tuple[pa.Table, Any]]:
    """Tables with missing, duplicate and NULL keys, NULLs among their values, text, and keys that no
    relation has together; with what they join on.
    """
    rng = random.Random(f"candidates {seed}")
    some = lambda value: None if rng.random() < 0.15 else value  # noqa: E731
    weather = {"day": list(range(DAYS)), "rain": [rng.randint(0, 20) / 4 for _ in range(DAYS)]}
    events = {
        "when": [*range(3, 15), 4, 4, 9, None, None, 77],
        "crowd": [some(rng.randint(0, 30)) for _ in range(18)],
        "indoors": [some(rng.random() < 0.5) for _ in range(18)],
    }
    owners = {
        "store": [0, 1, 2, 3, 4, 5, 6, 6, 9],
        "brand": ["x", "y", None, "x", "z", "y", "x", "w", "z"],
        "staff": [rng.randint(1, 9) for _ in range(9)],
    }
    pairs = [(city, day) for city in ("Quito", "Loja", "Manta", None) for day in range(0, 20, 2)]
    visits = {
        "city": [city for city, _ in pairs] + ["Quito"],
        "day": [day for _, day in pairs] + [4],
        "people": [some(rng.randint(0, 99)) for _ in pairs] + [5],
        "kind": [rng.choice(["tour", "trade"]) for _ in pairs] + ["tour"],
    }
    return {
        "weather": (pa.table(weather), "sales.day"),
        "events": (pa.table(events), {"dates.day": "when"}),
        "owners": (pa.table(owners), {"stores.store": "store"}),
        "visits": (pa.table(visits), {"stores.city": "city", "dates.day": "day"}),
    }


def graph_of(tables: Tables, engine: Any = "local") -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    for name, table in tables.items():
        graph.add_relation(name, table)
    for name, key in (("stores", "store"), ("dates", "day"), ("items", "item")):
        graph.add_join("sales", name, on=key)
    return graph


def calibrated(tables: Tables, engine: Any = "local") -> WideTable:
    return graph_of(tables, engine).calibrate()


# -- what scikit-learn says ------------------------------------------------------------------------


def joined(
    tables: Tables, added: Mapping[str, tuple[pa.Table, dict[str, str]]], columns: Sequence[str]
) -> pd.DataFrame:
    """The join with more tables, by DuckDB: these columns, under these names."""
    sql = JOIN
    for name, (_, on) in added.items():
        sql += f" JOIN {name} ON " + " AND ".join(f"{a} = {name}.{b}" for a, b in on.items())
    chosen = ", ".join(f'{column} AS "{column}"' for column in dict.fromkeys(columns))
    with duckdb.connect() as connection:
        for name, table in (*tables.items(), *((n, t) for n, (t, _) in added.items())):
            connection.register(name, table)
        return connection.sql(f"SELECT {chosen} FROM {sql}").df()


def cross_validated(
    rows: pd.DataFrame, features: Sequence[str], folds: pd.Series, make: Any
) -> Score | None:
    """Each fold by scikit-learn's model of the others; of these rows none has a NULL."""
    scores = []
    y = rows[TARGET].astype(float).to_numpy()
    for fold in sorted(set(folds)):
        train, held = (folds != fold).to_numpy(), (folds == fold).to_numpy()
        if not train.any():
            return None
        if held.sum() < 2:
            continue
        parts = [np.zeros((len(rows), 0))]
        for name in features:
            if name in TEXT:
                encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
                encoder.fit(rows.loc[train, [name]].astype(object))
                parts.append(encoder.transform(rows[[name]].astype(object)))
            else:
                parts.append(rows[[name]].astype(float).to_numpy())
        x = np.hstack(parts)
        if x.shape[1]:
            predicted = make().fit(x[train], y[train]).predict(x[held])
        else:
            predicted = np.full(held.sum(), y[train].mean())
        scores.append(r2_score(y[held], predicted))
    if not scores:
        return None
    return Score(float(np.mean(scores)), float(np.std(scores)), len(rows))


def expected(
    tables: Tables,
    added: Mapping[str, tuple[pa.Table, dict[str, str]]],
    features: Sequence[str],
    more: Sequence[str],
    fold: str,
    dealt: Mapping[Any, int] | None,
    make: Any,
) -> tuple[Score | None, Score | None]:
    """The score with the features of the tables added, and the baseline on the same rows."""
    rows = joined(tables, added, [TARGET, *features, *more, fold])
    rows = rows.dropna(subset=[TARGET, *features, *more])
    folds = rows[fold] if dealt is None else rows[fold].map(dict(dealt))
    score = cross_validated(rows, [*features, *more], folds, make)
    return score, cross_validated(rows, features, folds, make)


def least_squares() -> Any:
    return linear_model.LinearRegression(tol=1e-12)


def dealt_out(tables: Tables, cv: int, seed: int) -> dict[Any, int]:
    """The days that there are, in the order of chance."""
    days = sorted(set(joined(tables, {}, ["sales.day"])["sales.day"]))
    order = np.random.default_rng(seed).permutation(len(days)) % cv
    return dict(zip(days, order.tolist(), strict=True))


def same(ours: Score | None, theirs: Score | None) -> None:
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert ours.rows == theirs.rows
        assert ours.mean == pytest.approx(theirs.mean, rel=1e-6, abs=1e-6)
        assert ours.deviation == pytest.approx(theirs.deviation, rel=1e-5, abs=1e-6)


def as_mapping(on: Any) -> dict[str, str]:
    return on if isinstance(on, dict) else {on: on.rpartition(".")[2]}


def check(
    tables: Tables,
    lake: Mapping[str, tuple[pa.Table, Any]],
    engine: Any,
    features: Sequence[str] = FEATURES,
    fold: str | None = "sales.fold",
    model: Any = None,
    make: Any = least_squares,
) -> Search:
    """Every candidate's score and baseline against scikit-learn's."""
    wide = calibrated(tables, engine)
    search = wide.search(lake, TARGET, features, fold=fold, model=model, cv=3, seed=5)
    dealt = None if fold else dealt_out(tables, 3, 5)
    column = fold or "sales.day"
    base, _ = expected(tables, {}, features, (), column, dealt, make)
    same(search.base, base)
    assert {scored.name for scored in search.board} == lake.keys()
    for scored in search.board:
        table, on = lake[scored.name]
        one = {scored.name: (table, as_mapping(on))}
        score, baseline = expected(tables, one, features, scored.features, column, dealt, make)
        same(scored.score, score)
        same(scored.baseline, baseline)
        rows = joined(tables, {}, [TARGET, *features, *as_mapping(on)])
        assert scored.coverage == (
            None if score is None else partners(rows, features, table, on, scored)
        )
    gains = [scored.gain for scored in search.board]
    assert gains == sorted(gains, reverse=True)
    return search


def partners(
    rows: pd.DataFrame, features: Sequence[str], table: pa.Table, on: Any, scored: Scored
) -> Any:
    """The part of the complete rows whose keys are in a complete row of the table."""
    own = [name.partition(".")[2] for name in scored.features]
    known = table.to_pandas().dropna(subset=[*as_mapping(on).values(), *own])
    keys = set(known[list(as_mapping(on).values())].itertuples(index=False, name=None))
    complete = rows.dropna(subset=[TARGET, *features])
    ours = list(complete[list(as_mapping(on))].itertuples(index=False, name=None))
    return pytest.approx(sum(key in keys for key in ours) / len(ours), abs=1e-12)


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
@pytest.mark.parametrize("fold", ["sales.fold", None])
def test_scores_are_those_of_scikit_learn(engine: str, fold: str | None) -> None:
    rows = 120 if engine == "reference" else 300
    search = check(shop(rows, nulls=0.03), candidates(), engine_named(engine), fold=fold)
    assert all(scored.score is not None for scored in search.board)
    assert search.fold == (fold or "sales.day")


@pytest.mark.parametrize("features", [(), ("items.weight",), ("stores.city",)])
def test_fewer_features(features: tuple[str, ...]) -> None:
    check(shop(), candidates(), "local", features)


def test_ridge() -> None:
    check(shop(), candidates(), "local", model=Ridge(2.5), make=lambda: linear_model.Ridge(2.5))


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_random_shops(data: st.DataObject) -> None:
    tables = shop(
        data.draw(st.sampled_from([0, 40, 120]), label="rows"),
        data.draw(st.integers(0, 2**32), label="seed"),
        data.draw(st.sampled_from([0.0, 0.1]), label="nulls"),
    )
    fold = data.draw(st.sampled_from(["sales.fold", None]), label="fold")
    base = data.draw(st.sampled_from([(), ("dates.temp",), FEATURES]), label="features")
    lake = candidates(data.draw(st.integers(0, 2**32), label="lake"))
    assume(len(joined(tables, {}, [TARGET]).dropna()) >= 20)
    check(tables, lake, "local", base, fold)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_on_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    lake = {"visits": candidates()["visits"]}
    own = spark_engine_named(engine, spark, tmp_path)
    check(shop(60, nulls=0.03), lake, own, ("items.weight",))


# -- what is told of each --------------------------------------------------------------------------


def test_copies_and_partners() -> None:
    scores = {scored.name: scored for scored in check(shop(), candidates(), "local").board}
    weather, events = scores["weather"], scores["events"]
    assert (weather.coverage, weather.copies, weather.warnings) == (1.0, 1, ())
    assert weather.on == "day" and weather.features == ("weather.rain",)
    assert events.on == "when" and events.copies is not None and events.copies > 1
    copies = f"up to {events.copies} rows have the same when: it multiplies rows"
    assert events.coverage is not None and 0 < events.coverage < 1
    alone = f"{1 - events.coverage:.1%} of the rows have no partner in it and drop out"
    assert events.warnings == (copies, alone)
    assert scores["visits"].on == "city, day"
    for scored in scores.values():
        assert (
            scored.score is not None and scored.baseline is not None and scored.coverage is not None
        )
        gain = (scored.score.mean - scored.baseline.mean) * scored.coverage
        assert scored.gain == pytest.approx(gain)


def test_keys_in_another_order_are_the_same_keys() -> None:
    lake = candidates()
    table, _ = lake["visits"]
    lake["visits2"] = (table, {"dates.day": "day", "stores.city": "city"})
    scores = {scored.name: scored for scored in calibrated(shop()).search(lake, TARGET).board}
    assert scores["visits"].coverage == scores["visits2"].coverage
    assert scores["visits"].score == scores["visits2"].score


def test_null_keys_are_no_partners() -> None:
    """Neither ours nor theirs, though both have some."""
    tables = shop()
    cities = pa.array(["Quito", None, "Manta", "Quito", "Loja", "Puyo", "Quito", "Manta"])
    tables["stores"] = tables["stores"].set_column(1, "city", cities)
    table = pa.table({"city": ["Quito", None, None, "Manta"], "height": [1, 2, 3, 4]})
    (scored,) = calibrated(tables).search({"cities": (table, "city")}, TARGET).board
    counts = joined(tables, {}, ["stores.city"])["stores.city"]
    assert scored.copies == 1
    assert scored.coverage == pytest.approx(counts.isin(["Quito", "Manta"]).mean())


def test_leaks() -> None:
    """A copy of the target, as a number and as text, and its means; and what is only related to it."""
    tables = shop()
    units = [float(i % 5) for i in range(300)]
    number = list(range(300))
    tables["sales"] = tables["sales"].append_column("id", pa.array(number))
    tables["sales"] = tables["sales"].set_column(4, "units", pa.array(units))
    rows = joined(tables, {}, ["sales.day", TARGET]).groupby("sales.day")[TARGET].mean()
    days, means = rows.index.to_numpy(), rows.to_numpy()
    noise = np.random.default_rng(0).normal(0, 1, 300)
    lake = {
        "copy": (pa.table({"id": number, "x": [3 * unit + 1 for unit in units]}), "sales.id"),
        "text": (pa.table({"id": number, "x": [f"is {unit}" for unit in units]}), "sales.id"),
        "near": (pa.table({"id": number, "x": units + noise}), "sales.id"),
        "means": (pa.table({"day": days, "x": means, "rain": days % 3}), "dates.day"),
        "blurred": (pa.table({"day": days, "x": means + noise[: len(days)]}), "dates.day"),
    }
    search = calibrated(tables).search(lake, TARGET, select=0)
    leaks = {scored.name: scored.leaks for scored in search.board}
    assert leaks == {
        "copy": ("copy.x",), "text": ("text.x",), "near": (), "means": ("means.x",), "blurred": (),
    }  # fmt: skip
    for scored in search.board:
        warnings = tuple(
            f"{x} tells the target too well to be true: does it leak?" for x in scored.leaks
        )
        assert scored.warnings == warnings
    assert search.selected == []


def test_columns_that_are_no_features() -> None:
    many = [f"word {i}" for i in range(DAYS)]
    days, since = list(range(DAYS)), [datetime.date(2024, 1, 1)] * DAYS
    lake = {
        "both": pa.table({"day": days, "note": many, "rain": days}),
        "none": pa.table({"day": days, "note": many, "since": since}),
        "keys": pa.table({"day": days}),
    }
    search = calibrated(shop()).search(lake, TARGET, max_levels=DAYS - 1)
    both, none, keys = sorted(search.board, key=lambda scored: list(lake).index(scored.name))
    assert both.features == ("both.rain",)
    assert both.warnings == ("both.note is text of 22 values, and no feature",)
    assert none.warnings == (
        "left out: it has no feature: none.note is text of 22 values, and no feature; none.since is "
        "a date, and no feature",
    )
    assert keys.warnings == ("left out: it has no feature: it has no column beside its keys",)
    assert none.score is None and none.gain == -math.inf
    # Unless they are named.
    dates = LinearRegression(categorical=["none.since"])
    again = calibrated(shop()).search(lake, TARGET, max_levels=DAYS, model=dates)
    assert {scored.name: scored.features for scored in again.board} == {
        "both": ("both.note", "both.rain"),
        "none": ("none.note", "none.since"),
        "keys": (),
    }


def test_what_cannot_be_scored_is_left_out() -> None:
    days = list(range(DAYS))
    lake = {
        "nan": pa.table({"day": days, "x": [float("nan"), *map(float, days[1:])]}),
        "elsewhere": pa.table({"day": [100, 101], "x": [1, 2]}),
        "nowhere": pa.table({"hour": days, "x": days}),
        "sales": pa.table({"day": days, "x": days}),
        "file": "there/is/none.parquet",
        "good": pa.table({"day": days, "x": days}),
        "empty": pa.table({"day": pa.array([], pa.int64()), "x": pa.array([], pa.int64())}),
    }
    search = calibrated(shop()).search(lake, TARGET)
    warnings = {scored.name: scored.warnings for scored in search.board}
    assert search.board[0].name == "good" and warnings["good"] == ()
    assert [scored.score is not None for scored in search.board] == [True] + 6 * [False]
    assert warnings["nan"][0].startswith(
        "left out: nan.x has values over these rows that are not a"
    )
    nobody = "left out: Nothing can be held out: all rows are NULL somewhere, or have no partner."
    assert warnings["elsewhere"] == warnings["empty"] == (nobody,)
    assert warnings["nowhere"][0].startswith("left out: nowhere has no column that is named as one")
    assert warnings["sales"][0].startswith("left out: There is a relation 'sales' already.")
    assert warnings["file"][0].startswith("left out: No file matches 'there/is/none.parquet'")


def test_nothing_is_left() -> None:
    (scored,) = calibrated(shop()).search([pa.table({"hour": [1], "x": [1]})], TARGET).board
    assert scored.score is None and scored.warnings[0].startswith("left out: table1 has no column")


# -- folds -----------------------------------------------------------------------------------------


def test_a_table_is_not_joined_with_the_folds() -> None:
    """The column of the folds is named as one that relations join on, but only to us."""
    table = pa.table({"value": [float(i) for i in range(DAYS)], "day": list(range(DAYS))})
    search = calibrated(shop()).search({"_folds": table}, TARGET)
    assert (search.best.on, search.best.features) == ("day", ("_folds.value",))
    assert search.best.coverage == 1.0


def test_folds_of_a_column_with_many_values() -> None:
    """They are dealt out; of a few, each is a fold."""
    wide = calibrated(shop())
    lake = {"weather": candidates()["weather"]}
    by_day = wide.search(lake, TARGET, fold="dates.day", cv=3, seed=5)
    assert by_day.best.score == wide.search(lake, TARGET, cv=3, seed=5).best.score
    assert by_day.best.score != wide.search(lake, TARGET, cv=3, seed=6).best.score
    search = wide.search(lake, TARGET, fold="stores.store", where="stores.city <> 'Puyo'")
    rows = joined(shop(), {}, [TARGET, "stores.store", "stores.city"])
    rows = rows[rows["stores.city"] != "Puyo"]
    same(search.base, cross_validated(rows, (), rows["stores.store"], least_squares))


def test_folds_are_those_where_the_condition_holds() -> None:
    search = calibrated(shop()).search(candidates(), TARGET, where="sales.day < 4", cv=4)
    days = np.random.default_rng(0).permutation(4)
    rows = joined(shop(), {}, [TARGET, "sales.day"])
    rows = rows[rows["sales.day"] < 4]
    folds = rows["sales.day"].map(lambda day: days[day])
    same(search.base, cross_validated(rows, (), folds, least_squares))


# -- choosing --------------------------------------------------------------------------------------


def planted(rows: int = 600) -> tuple[Tables, dict[str, pa.Table]]:
    """Sales that three tables tell much, less and little of, and two tell nothing."""
    rng = np.random.default_rng(3)
    tables = shop(rows)
    day, store, item = (rng.normal(0, 1, n) for n in (DAYS + 2, 8, 12))
    keys = {name: np.asarray(tables["sales"][name]) for name in ("day", "store", "item")}
    units = 3 * day[keys["day"]] + 2 * store[keys["store"]] + item[keys["item"]]
    units += rng.normal(0, 0.5, rows)
    tables["sales"] = tables["sales"].set_column(4, "units", pa.array(units))
    lake = {
        "noise": pa.table({"item": range(12), "x": rng.normal(0, 1, 12)}),
        "little": pa.table({"item": range(12), "x": item}),
        "less": pa.table({"store": range(8), "x": store}),
        "much": pa.table({"day": range(DAYS + 2), "x": day}),
        "blurred": pa.table({"day": range(DAYS + 2), "x": day + rng.normal(0, 0.3, DAYS + 2)}),
    }
    return tables, lake


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_the_best_is_taken_round_after_round(engine: str) -> None:
    tables, lake = planted(150 if engine == "reference" else 600)
    wide = calibrated(tables, engine_named(engine))
    search = wide.search(lake, TARGET, fold="sales.fold", select=5, min_gain=0.01)
    assert search.selected == ["much", "less", "little"]
    assert [scored.name for scored in search.board[:2]] == ["much", "blurred"]
    added: dict[str, tuple[pa.Table, dict[str, str]]] = {}
    before: list[str] = []
    for step in search.steps:
        key = lake[step.name].column_names[0]
        added[step.name] = (lake[step.name], {f"sales.{key}": key})
        more = [f"{step.name}.x"]
        score, baseline = expected(tables, added, before, more, "sales.fold", None, least_squares)
        same(step.score, score)
        same(step.baseline, baseline)
        before += more
    assert wide.search(lake, TARGET, fold="sales.fold", select=2).selected == ["much", "less"]
    assert wide.search(lake, TARGET, fold="sales.fold", min_gain=0.99).selected == []


def test_one_after_the_other_with_text_and_copies() -> None:
    """Tables that multiply rows, drop some and have text, beside features that have levels too."""
    tables, lake = shop(nulls=0.03), candidates()
    search = calibrated(tables).search(
        lake, TARGET, FEATURES, fold="sales.fold", select=4, min_gain=-math.inf
    )
    assert sorted(search.selected) == sorted(lake)
    added, before = {}, list(FEATURES)
    for step in search.steps:
        table, on = lake[step.name]
        added[step.name] = (table, as_mapping(on))
        args = (before, step.features, "sales.fold", None, least_squares)
        score, baseline = expected(tables, added, *args)
        same(step.score, score)
        same(step.baseline, baseline)
        before += step.features


def test_the_selected_tables_and_their_model() -> None:
    tables, lake = planted()
    wide = calibrated(tables)
    search = wide.search(lake, TARGET, ["dates.temp"], select=2)
    assert set(search.wide.schema.relations) == {*tables, "much", "less"}
    assert set(wide.schema.relations) == set(tables)
    features = ["dates.temp", "much.x", "less.x"]
    assert list(search.model.feature_names_in_) == features
    added = {n: (lake[n], {f"sales.{k}": k}) for n, k in (("much", "day"), ("less", "store"))}
    rows = joined(tables, added, [TARGET, *features])
    theirs = least_squares().fit(rows[features].to_numpy(), rows[TARGET].to_numpy())
    np.testing.assert_allclose(search.model.coef_, theirs.coef_, rtol=1e-6)
    assert search.model.rows_ == len(rows)
    assert search.wide.verify().ok


def test_a_model_of_its_own_kind() -> None:
    lake = {"codes": pa.table({"day": list(range(20)), "code": [i % 3 for i in range(20)]})}
    model = Ridge(0.5, categorical=["stores.store", "codes.code"], drop="first")
    search = calibrated(shop()).search(
        lake, TARGET, ["stores.store"], model=model, min_gain=-math.inf
    )
    assert isinstance(search.model, Ridge) and search.model.alpha == 0.5
    assert search.model.levels_ == {"stores.store": [1, 2, 3, 4, 5, 6], "codes.code": [1, 2]}
    assert not hasattr(model, "coef_")
    none = calibrated(shop()).search(lake, TARGET, ["stores.store"], model=model, min_gain=1)
    assert none.model.levels_.keys() == {"stores.store"}


# -- what it takes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_no_candidate_reads_what_was_calibrated(engine: str) -> None:
    """All that a candidate computes comes from its own bag, or from the empty one beside it."""
    tables, lake = shop(100, nulls=0.03), candidates()
    wide = calibrated(tables, engine_named(engine))
    for name, bags in plans(wide.search(lake, TARGET, FEATURES)):
        assert {bag for bag in bags if not bag.startswith("[")} <= {name}


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_the_next_round_is_calibrated_too(engine: str) -> None:
    tables, lake = planted(100)
    wide = calibrated(tables, engine_named(engine))
    search = wide.search(lake, TARGET, FEATURES, select=3, min_gain=-math.inf)
    assert len(search.steps) == 3
    for step in search.steps:
        own = {step.name, *search.selected[: search.selected.index(step.name)]}
        for plan in step.plans:
            bags = {plan.root, *(key.source for key in plan.computed)}
            assert {bag for bag in bags if not bag.startswith("[")} <= own


def plans(search: Search) -> list[tuple[str, set[str]]]:
    """For each candidate and plan, the bags that are read."""
    assert all(scored.plans for scored in search.board)
    return [
        (scored.name, {plan.root, *(key.source for key in plan.computed)})
        for scored in search.board
        for plan in scored.plans
    ]


def test_the_table_that_is_searched_for_stays_as_it_was() -> None:
    wide = calibrated(shop())
    before, bags = len(wide.state.store.pinned), wide.tree.bags
    for lake in (candidates(), [pa.table({"hour": [1], "x": [1]})]):
        wide.search(lake, TARGET, FEATURES, fold="sales.fold")
    assert wide.tree.bags == bags and wide.state.cube_pivots == ()
    assert len(wide.state.store.pinned) == before


def test_what_if_and_earlier_versions_are_searched_too() -> None:
    tables, lake = shop(), {"weather": candidates()["weather"]}
    wide = calibrated(tables)
    wide.update("sales", delete="store = 1")
    supposed = wide.what_if(delete={"sales": "store = 2"})
    for table, where in (
        (wide.at(0), "true"),
        (wide, "store <> 1"),
        (supposed, "store not in (1, 2)"),
    ):
        with duckdb.connect() as connection:
            sales = tables["sales"]  # noqa: F841 - DuckDB finds it by name
            left = connection.sql(f"SELECT * FROM sales WHERE {where}").to_arrow_table()
        smaller = {**tables, "sales": left}
        score, _ = expected(
            smaller, {"weather": (lake["weather"][0], {"sales.day": "day"})}, (), ["weather.rain"],
            "sales.fold", None, least_squares,
        )  # fmt: skip
        same(table.search(lake, TARGET, fold="sales.fold").best.score, score)


def test_progress_is_told() -> None:
    steps: list[tuple[int, int, str]] = []
    tables, lake = planted()
    some = {name: lake[name] for name in ("noise", "less", "much")}
    calibrated(tables).search(some, TARGET, select=2, progress=lambda *step: steps.append(step))
    assert [what for _, _, what in steps] == [
        *("the features that are there", "noise", "less", "much"),
        *("with much", "noise", "less", ""),
    ]
    assert [done for done, _, _ in steps] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert {total for _, total, _ in steps} == {7}


# -- how tables are given --------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    days = list(range(20))
    folder = tmp_path / "lake"
    folder.mkdir()
    pq.write_table(pa.table({"day": days, "rain": days}), folder / "weather 2024.parquet")
    csv.write_csv(pa.table({"day": days, "crowd": days}), folder / "events.csv")
    csv.write_csv(pa.table({"day": days, "crowd": days}), folder / "Events.tsv.csv")
    (folder / "README.txt").write_text("tables")
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.csv").touch()
    (folder / "parts").mkdir()
    for i in range(2):
        part = pa.table({"day": days[10 * i : 10 * i + 10], "wind": days[:10]})
        pq.write_table(part, folder / "parts" / f"{i}.parquet")
    return folder


def names(candidates: Any, **options: Any) -> list[str]:
    """The tables that were scored."""
    search = calibrated(shop()).search(candidates, TARGET, **options)
    assert all(scored.score is not None for scored in search.board), search
    return sorted(scored.name for scored in search.board)


def test_a_folder(lake: Path) -> None:
    expected_names = ["Events_tsv", "events", "parts", "weather_2024"]
    assert names(lake) == names(str(lake)) == names(f"{lake}/") == expected_names
    assert names(lake / "events.csv") == ["events"]
    assert names(f"{lake}/*.parquet") == ["weather_2024"]
    assert names(f"{lake}/*s.csv") == ["events"]


def test_a_list(lake: Path) -> None:
    table = pa.table({"when": list(range(20)), "rain": list(range(20))})
    given = [str(lake / "events.csv"), lake / "events.csv", (table, {"sales.day": "when"})]
    assert names(given) == ["events", "events_2", "table3"]
    assert names([(lake / "events.csv", "dates.day"), lake / "parts"]) == ["events", "parts"]
    assert names([table, table.to_pandas()], on={"day": "when"}) == ["table1", "table2"]


def test_a_dictionary(lake: Path) -> None:
    rain = {"day": list(range(20)), "rain": list(range(20))}
    rows = [{"d": i, "x": i} for i in range(20)]
    given = {"a": lake / "events.csv", "b": rain, "c": (rows, {"dates.day": "d"})}
    assert names(given) == ["a", "b", "c"]


# -- wrong ways ------------------------------------------------------------------------------------

ONE = {"weather": candidates()["weather"]}
ERRORS: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "a number": (
        5,
        {},
        QueryError,
        "candidates are tables by name, a list of tables or paths, or a folder; got int",
    ),
    "nothing": ({}, {}, QueryError, "There is no candidate table to look at."),
    "no place": ("nowhere", {}, QueryError, "There is no file or folder nowhere."),
    "no file": ("no/x.csv", {}, SchemaError, "No file matches 'no/x.csv'"),
    "one fold": (ONE, {"cv": 1}, QueryError, "cv is a number of folds, at least 2; got 1."),
    "half a fold": (ONE, {"cv": 2.5}, QueryError, "cv is a number of folds, at least 2; got 2.5."),
    "fewer than none": (
        ONE,
        {"select": -1},
        QueryError,
        "select is how many tables to choose at most; got -1.",
    ),
    "all": (
        ONE,
        {"select": "all"},
        QueryError,
        "select is how many tables to choose at most; got 'all'.",
    ),
    "one feature": (
        ONE,
        {"features": "dates.temp"},
        QueryError,
        "features is a list of columns; got 'dates.temp'.",
    ),
    "an unknown feature": (
        ONE,
        {"features": ["dates.tmp"]},
        SchemaError,
        "dates has no column 'tmp'. Did you mean temp?",
    ),
    "an unknown target": (
        ONE,
        {"target": "sales.unit"},
        SchemaError,
        "sales has no column 'unit'. Did you mean units?",
    ),
    "a target that is text": (
        ONE,
        {"target": "stores.city"},
        QueryError,
        "The target stores.city is text",
    ),
    "the target as a feature": (
        ONE,
        {"features": [TARGET]},
        QueryError,
        "sales.units is the target; it cannot be a feature too.",
    ),
    "an unknown fold": (
        ONE,
        {"fold": "sales.flod"},
        SchemaError,
        "sales has no column 'flod'. Did you mean fold?",
    ),
    "a fold of one value": (
        ONE,
        {"fold": "sales.fold", "where": "sales.fold = 1"},
        QueryError,
        "sales.fold has one value here, so nothing can be held out by it. Name another column: f",
    ),
    "no row": (
        ONE,
        {"where": "sales.fold > 9"},
        QueryError,
        "sales.day has no value here, so nothing can be held out by it.",
    ),
    "folds with NULLs": (
        ONE,
        {"fold": "sales.note"},
        QueryError,
        "sales.note has NULLs, and rows without a value are in no fold.",
    ),
    "a wrong condition": (ONE, {"where": "sales.units >"}, ct.ExpressionError, "Cannot parse"),
    "another model": (
        ONE,
        {"model": linear_model.Ridge()},
        QueryError,
        "model is a calitree.ml.LinearRegression or Ridge; got Ridge.",
    ),
    "an unknown level": (
        ONE,
        {"model": Ridge(categorical=["weather.rian"])},
        QueryError,
        "'weather.rian' is categorical, but no feature of any table. Did you mean weather.rain?",
    ),
    "a wrong alpha": (
        ONE,
        {"model": Ridge(-1)},
        QueryError,
        "alpha is a number that is not negative; got -1.",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    lake, options, error, text = ERRORS[case]
    tables = shop()
    notes = [None if i == 0 else f"note {i}" for i in range(300)]
    tables["sales"] = tables["sales"].append_column("note", pa.array(notes))
    with pytest.raises(error) as raised:
        calibrated(tables).search(lake, **{"target": TARGET, **options})
    assert str(raised.value).startswith(text)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"has no Parquet or CSV file\.$"):
        calibrated(shop()).search(tmp_path, TARGET)


def test_a_target_whose_relation_joins_with_nothing() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", {"day": [1, 1, 2, 2, 3, 3], "units": [1, 2, 3, 5, 8, 9]})
    lake = {"rain": (pa.table({"day": [1, 2, 3], "x": [1, 2, 4]}), "day")}
    with pytest.raises(QueryError, match=r"^sales, which has units, joins with nothing, so there"):
        graph.calibrate().search(lake, "units")
    assert graph.calibrate().search(lake, "units", fold="day").best.coverage == 1.0


def test_one_fold_is_left() -> None:
    tables = shop()
    folds = joined(tables, {}, ["sales.day", "sales.fold"])
    day = int(folds["sales.day"].iloc[0])
    (only,) = (int(folds["sales.fold"].iloc[0]),)
    sales = tables["sales"].to_pandas()
    sales = sales[(sales["day"] != day) | (sales["fold"] == only)]
    tables["sales"] = pa.Table.from_pandas(sales, preserve_index=False)
    lake = {"day": pa.table({"day": [day], "x": [1]}), **ONE}
    scores = {e.name: e for e in calibrated(tables).search(lake, TARGET, fold="sales.fold").board}
    assert scores["day"].warnings == (
        "left out: Nothing can be held out: all rows are in one fold.",
    )


# -- how it looks ----------------------------------------------------------------------------------


def test_forms() -> None:
    tables, lake = planted()
    search = calibrated(tables).search({**lake, "bad": pa.table({"x": [1]})}, TARGET, select=2)
    frame = search.pandas()
    assert len(search) == len(frame) == 6
    assert frame.columns.tolist() == [
        *("rank", "table", "on", "gain", "score", "baseline", "deviation", "coverage"),
        *("selected", "features", "warnings"),
    ]
    assert frame["table"].tolist() == [scored.name for scored in search.board]
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    assert frame["selected"].dropna().tolist() == [1, 2]
    assert frame["score"].iloc[0] == search.best.score.mean
    assert frame["gain"].isna().tolist() == [False] * 5 + [True]
    assert search.arrow().schema.field("score").type == pa.float64()
    text = repr(search)
    rows = search.base.rows
    assert text.startswith(f"sales.units: R² {search.base.mean:.4g} over {rows:,} rows without any")
    assert "folds by sales.day\nrank  table" in text
    assert "\nselected, one after the other: much (0." in text
    html = search._repr_html_()
    assert "<th>coverage</th>" in html and "<td>much</td>" in html
    assert "selected, one after the other: much (0." in html
    none = calibrated(tables).search(lake, TARGET, select=0)
    assert repr(none).endswith("selected, one after the other: none")


def test_the_example() -> None:
    search, model = augmentation.main()
    suspects = [scored.name for scored in search.board if scored.leaks]
    assert suspects == ["reported"] == [search.best.name]
    assert model.selected == ["calendar", "stations"]
    assert model.model.r2_ > search.base.mean + 0.1


def test_names_with_spaces() -> None:
    graph = ct.JoinGraph(engine="local")
    stores = list(range(8)) * 5
    prices = [float(i % 7 + (store % 2) * 9) for i, store in enumerate(stores)]
    graph.add_relation(
        "my sales", {"store id": stores, "unit price": prices, "day of": [i % 9 for i in range(40)]}
    )
    graph.add_relation(
        "the stores", {"store id": list(range(8)), "city name": ["O'Hara", "a b"] * 4}
    )
    graph.add_join("my sales", "the stores", on="store id")
    lake = {"big table": {"store id": [*range(8), 0], "is odd": [i % 2 for i in range(9)]}}
    search = graph.calibrate().search(lake, "unit price", ["day of", "city name"])
    assert search.best.score is not None and search.best.copies == 2
    assert search.best.features == ("big table.is odd",)
