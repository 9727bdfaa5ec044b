"""Applications on graphs with outer joins: against DuckDB, scikit-learn, or the question asked again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression as Sklearn
from typer.testing import CliRunner

import calitree as ct
from calitree import WideTable
from calitree.apps.cube.cube import Cube
from calitree.apps.verify.check import compare
from calitree.cli.main import app
from calitree.errors import SchemaError
from calitree.ml import LinearRegression
from tests.properties.test_outer_joins import outer_databases
from tests.support.databases import join_size
from tests.support.oracle import oracle
from tests.support.scale import examples

MEASURES = {"n": "count(*)", "revenue": "sum(price)"}
DIMENSIONS = ["stores.city", "items.kind", "sales.day"]


def tables(rows: int = 200) -> dict[str, pa.Table]:
    """Sales of stores and items that are partly not known, and stores without a sale."""
    rng = random.Random(7)
    return {
        "sales": pa.table(
            {
                "store": [rng.choice([None, 1, 2, 3, 4, 98, 99]) for _ in range(rows)],
                "item": [rng.choice([None, 1, 2, 3, 77]) for _ in range(rows)],
                "day": [rng.randrange(5) for _ in range(rows)],
                "price": [rng.randrange(100) for _ in range(rows)],
            }
        ),
        "stores": pa.table(
            {
                "id": [1, 2, 3, 4, 5, None],
                "city": ["Quito", "Cuenca", "Quito", None, "Loja", "Manta"],
                "size": [90.0, 40.0, 70.0, 10.0, 5.0, 1.0],
            }
        ),
        "items": pa.table(
            {"item": [1, 2, 2, 9], "kind": ["a", "b", "c", "d"], "weight": [1.5, 2.5, 9.0, 1.0]}
        ),
    }


def graph_of(data: dict[str, pa.Table], how: str = "left", engine: Any = "local") -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    for name, table in data.items():
        graph.add_relation(name, table)
    graph.add_join("sales", "stores", on={"store": "id"}, how=how)
    graph.add_join("sales", "items", on="item", how="left")
    return graph


def calibrated(how: str = "left") -> WideTable:
    return graph_of(tables(), how).calibrate(MEASURES)


def expected(
    data: dict[str, pa.Table],
    by: Sequence[str],
    how: str = "left",
    extra: str = "",
    where: str = "true",
) -> pa.Table:
    connection = duckdb.connect()
    for name, table in data.items():
        connection.register(name, table)
    columns = "".join(f"{column}, " for column in by)
    text = (
        f"SELECT {columns}count(*) AS n, sum(price)::bigint AS revenue FROM sales {how} JOIN stores"
    )
    text += f" ON store = id LEFT JOIN items ON sales.item = items.item {extra} WHERE {where}"
    return connection.sql(text + (" GROUP BY ALL" if by else "")).to_arrow_table()


def assert_same(wide: WideTable, data: dict[str, pa.Table], how: str = "left") -> None:
    for size in range(3):
        for by in combinations(DIMENSIONS, size):
            answered = wide.query(list(by)).arrow()
            assert compare(answered, expected(data, by, how), size) == "", by


HOWS = ["left", "right", "full"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("k", [1, 2])
def test_a_cube(how: str, k: int) -> None:
    wide = calibrated(how)
    cube = wide.cube(DIMENSIONS, k=k)
    for by, cuboid in cube.cuboids():
        assert compare(cuboid.arrow(), expected(tables(), by, how), len(by)) == "", by
    filtered = cube.query(["stores.city"], where="items.kind is null").arrow()
    assert compare(filtered, expected(tables(), ["city"], how, where="kind is null"), 1) == ""


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_random_cubes(data: st.DataObject) -> None:
    database = data.draw(outer_databases(), label="database")
    assume(join_size(database) <= 5_000)
    try:
        wide = database.graph("local").calibrate()
    except SchemaError:
        assume(False)
    columns = data.draw(st.permutations(database.columns()), label="columns")
    dims = list({wide.schema.column(c).attribute: c for c in columns[:4]}.values())
    cube = wide.cube(dims, k=data.draw(st.integers(0, 2), label="k"))
    assert cube.bytes <= cube.estimated.bytes
    for by in data.draw(st.permutations([(), *combinations(dims, 1), *combinations(dims, 2)]))[:3]:
        answer = oracle(wide, database, {"group_by": list(by)})
        assert not compare(cube.query(list(by)).arrow(), answer, len(by)), by


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_estimate_is_no_less_than_what_it_takes(k: int) -> None:
    wide = calibrated("full")
    estimate = Cube.estimate(wide, DIMENSIONS, k)
    assert wide.cube(DIMENSIONS, k).bytes <= estimate.bytes


@pytest.mark.parametrize("how", HOWS)
def test_why(how: str) -> None:
    """The rows without a store are the odd ones: what is told of them is true of the join."""
    data = tables()
    odd = "SELECT * REPLACE (if(store = 98, 500, price) AS price) FROM rows"
    data["sales"] = over(data["sales"], odd)
    wide = graph_of(data, how).calibrate({"n": "count(*)", "price": "avg(price)"})
    explanation = wide.why("price", where="stores.city is null")
    if how != "right":
        assert explanation.best["explanation"] == "sales.store = 98"
    assert not explanation.verify()
    changed = wide.explain_change("price", a="stores.city = 'Quito'", b="stores.city is null")
    assert not changed.verify()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("maintenance", ["lazy", "eager", "recompute"])
def test_what_ifs_versions_and_differences(how: str, maintenance: Any) -> None:
    """Stores come, change and go, and with them which sales have one."""
    data = tables()
    wide = graph_of(data, how).calibrate(MEASURES, maintenance=maintenance)
    wide.query()
    new = pa.table({"id": [98], "city": ["Ambato"], "size": [3.0]})
    opened = wide.what_if(insert={"stores": new})
    with_new = {**data, "stores": pa.concat_tables([data["stores"], new])}
    assert_same(opened, with_new, how)
    closed = opened.what_if(delete={"stores": "id = 1 or id is null"})
    without = {**with_new, "stores": over(with_new["stores"], "FROM rows WHERE id > 1")}
    assert_same(closed, without, how)
    moved = wide.what_if(update={"stores": ({"id": "id + 97", "city": "'Puyo'"}, "id = 2")})
    text = "SELECT * REPLACE (if(id = 2, 99, id) AS id, if(id = 2, 'Puyo', city) AS city) FROM rows"
    assert_same(moved, {**data, "stores": over(data["stores"], text)}, how)
    assert_same(wide, data, how)
    assert opened.commit() == 1
    assert_same(wide, with_new, how)
    wide.update("stores", delete="id = 1 or id is null")
    assert_same(wide, without, how)
    assert_same(wide.at(0), data, how)
    changes = {row["stores.city"]: row for row in wide.diff(0, 2, ["stores.city"]).rows()}
    before, after = (
        {row["city"]: row["n"] for row in expected(version, ["city"], how).to_pylist()}
        for version in (data, without)
    )
    for city in before.keys() | after.keys():
        if before.get(city) != after.get(city):
            assert (changes[city]["n_before"] or 0) == before.get(city, 0), city
            assert (changes[city]["n_after"] or 0) == after.get(city, 0), city
    assert changes["Ambato"]["n_after"] > 0
    assert how == "right" or changes[None]["n_change"] != 0
    assert wide.verify().ok


def over(table: pa.Table, sql: str) -> pa.Table:
    """What a query over a table answers."""
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql(sql).to_arrow_table()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("on", ["stores.city", "sales.day", "stores.id", "sales.store"])
def test_augmented_on_either_side(how: str, on: str) -> None:
    """An inner join, which drops the rows where its column is NULL."""
    data, wide = tables(), calibrated(how)
    known = data[on.split(".")[0]].column(on.split(".")[1])
    values = [value for value in known.unique().to_pylist() if value is not None][1:]
    extra = pa.table({"value": [*values, values[0]], "x": list(range(len(values) + 1))})
    added = wide.augment(extra, on={on: "value"}, name="extra")
    answered = added.query(["extra.x", "items.kind"]).arrow()
    text = f"JOIN extra ON extra.value = {on}"
    answer = expected({**data, "extra": extra}, ["extra.x", "items.kind"], how, text)
    assert compare(answered, answer, 2) == ""
    assert_same(wide, data, how)
    assert added.verify().ok


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("features", [["stores.size"], ["items.weight", "stores.size"]])
def test_a_linear_model_of_the_rows_without_null(how: str, features: list[str]) -> None:
    wide = calibrated(how)
    model = LinearRegression().fit(wide, target="sales.price", features=features)
    names = [name.split(".")[1] for name in features]
    known = " AND ".join(f"{name} IS NOT NULL" for name in [*names, "price"])
    rows = joined_rows([*names, "price"], how, known)
    fitted = Sklearn().fit(rows[:, :-1], rows[:, -1])
    assert model.rows_ == len(rows)
    answered = [model.coefficients_[name] for name in features]
    assert answered == pytest.approx(fitted.coef_.tolist(), rel=1e-9)


def test_a_linear_model_with_levels_of_an_optional_relation() -> None:
    model = LinearRegression(drop="first").fit(
        calibrated(), target="sales.price", features=["stores.city", "sales.day"]
    )
    rows = joined_rows(["(city = 'Quito')::int", "day", "price"], "left", "city IS NOT NULL")
    fitted = Sklearn().fit(rows[:, :-1], rows[:, -1])
    assert model.rows_ == len(rows)
    assert list(model.coefficients_.values()) == pytest.approx(fitted.coef_.tolist(), rel=1e-9)


def joined_rows(columns: list[str], how: str, where: str) -> Any:
    connection = duckdb.connect()
    for name, table in tables().items():
        connection.register(name, table)
    text = f"SELECT {', '.join(columns)} FROM sales {how} JOIN stores ON store = id LEFT JOIN items"
    answered = connection.sql(f"{text} ON sales.item = items.item WHERE {where}").fetchall()
    return np.array(answered, float)


@pytest.mark.parametrize("how", HOWS)
def test_verify(how: str) -> None:
    checked = calibrated(how).verify()
    assert checked.ok, str(checked)
    assert all(check.verbatim for check in checked.checks)


# -- integrity -------------------------------------------------------------------------------------


def orphans(graph: ct.JoinGraph) -> dict[str, tuple[str, str]]:
    """Of each relation with orphans in its first join, the severity and what becomes of them."""
    return {
        finding.message.split(" rows of ")[1].split(" ")[0]: (
            finding.severity,
            "kept" if "keeps them" in finding.message else "lost",
        )
        for finding in graph.check().findings
        if finding.kind == "orphans" and "stores" in finding.where and "sales" in finding.where
    }


def test_orphans_that_are_kept_are_told_so() -> None:
    assert orphans(graph_of(tables(), "left")) == {
        "sales": ("remark", "kept"),
        "stores": ("remark", "lost"),
    }
    assert orphans(graph_of(tables(), "right")) == {
        "sales": ("warning", "lost"),
        "stores": ("remark", "kept"),
    }
    assert orphans(graph_of(tables(), "full")) == {
        "sales": ("remark", "kept"),
        "stores": ("remark", "kept"),
    }


def test_orphans_that_a_later_join_drops_are_lost() -> None:
    """`(sales LEFT JOIN stores) JOIN cities` is an inner join."""
    graph = graph_of(tables(), "left")
    graph.add_relation("cities", {"city": ["Quito", "Cuenca"], "people": [2, 1]})
    graph.add_join("stores", "cities", on="city")
    assert orphans(graph)["sales"] == ("warning", "lost")
    (edge, *_) = graph.check().edges
    assert edge.how == "inner" and "⟕" in edge.join


# -- commands and streams --------------------------------------------------------------------------

MODEL = """\
[relations]
sales = "sales.parquet"
stores = "stores.parquet"

[[joins]]
left = "sales"
right = "stores"
on = {store = "id"}
how = "left"

[measures]
n = "count(*)"
"""


def test_a_model_file(tmp_path: Path) -> None:
    for name, table in tables().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "model.toml").write_text(MODEL)
    run = CliRunner().invoke
    tree, model = str(tmp_path / "tree"), str(tmp_path / "model.toml")
    checked = run(app, ["check", model, "--engine", "local"])
    assert "kept" in checked.output and "the join keeps them beside NULL" in checked.output
    done = run(app, ["calibrate", model, "--out", tree, "--engine", "local"])
    assert done.exit_code == 0, done.output
    asked = run(app, ["query", tree, "--by", "stores.city", "--format", "csv", "--engine", "local"])
    assert asked.exit_code == 0, asked.output
    counts = [int(line.rsplit(",", 1)[1]) for line in asked.output.strip().splitlines()[1:]]
    assert sum(counts) == 200 and len(counts) == 3


@pytest.mark.parametrize("into", ["sales", "stores"])
@pytest.mark.parametrize("how", HOWS)
def test_a_stream(tmp_path: Path, how: str, into: str) -> None:
    data = tables()
    wide = graph_of(data, how).calibrate(MEASURES)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    coming = {
        "sales": pa.table(
            {"store": [5, None, 1], "item": [9, 1, 77], "day": [1, 9, 9], "price": [7, 8, 9]}
        ),
        "stores": pa.table(
            {"id": [98, 99, None], "city": ["Ambato", None, "Tena"], "size": [1.0, 2.0, 3.0]}
        ),
    }[into]
    pq.write_table(coming, inbox / "0.parquet")
    with wide.stream(into, str(inbox), every=0.01) as stream:
        stream.drain()
    data[into] = pa.concat_tables([data[into], coming])
    assert_same(wide, data, how)
