"""Outer joins on a year of flights: none is lost, whatever is joined and grouped by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.cli.demo import flights_graph, read_flights
from calitree.engines.hybrid import HybridEngine
from calitree.engines.hybrid.routing import Location
from calitree.engines.spark import SparkEngine
from tests.support.engines import LOCAL, engine_named

FLIGHTS = 336_776
WITHOUT = {"planes.tailnum": 52_606, "airports.faa": 7_602, "weather.origin": 1_556}
"""Flights whose plane, airport and hour of weather is not known, by a key of each."""

GROUPS = [
    [],
    ["airlines.name"],
    ["planes.manufacturer"],
    ["planes.tailnum"],
    ["airports.tzone", "weather.origin"],
    ["flights.carrier", "planes.engine", "airports.faa"],
    ["weather.wind_dir", "flights.month"],
]


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return read_flights()


@pytest.fixture(scope="module")
def database(tables: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    return connection


@pytest.fixture(scope="module")
def wide(tables: dict[str, pa.Table]) -> ct.WideTable:
    return flights_graph(tables, "local").calibrate({"n": "count(*)", "miles": "sum(distance)"})


def assert_no_flight_is_lost(wide: ct.WideTable, groups: list[list[str]]) -> None:
    for group_by in groups:
        answered = wide.query(group_by).rows()
        assert sum(row["n"] for row in answered) == FLIGHTS, group_by


def assert_null_groups(wide: ct.WideTable) -> None:
    for key, flights in WITHOUT.items():
        (without,) = wide.query(where=f"{key} is null").rows()
        assert without["n"] == flights, key
        by_key = wide.query([key]).rows()
        assert [row["n"] for row in by_key if None in row.values()] == [flights], key
        (known,) = wide.query(where=f"{key} is not null").rows()
        assert known["n"] == FLIGHTS - flights, key


def test_no_flight_is_lost(wide: ct.WideTable) -> None:
    assert_no_flight_is_lost(wide, GROUPS)


def test_flights_without_a_partner_are_the_group_of_null(wide: ct.WideTable) -> None:
    assert_null_groups(wide)


def test_the_same_as_duckdb(wide: ct.WideTable, database: duckdb.DuckDBPyConnection) -> None:
    """By an attribute of each relation, with filters that keep and drop what has no partner."""
    joined = "flights f LEFT JOIN planes p USING (tailnum) LEFT JOIN airports a ON f.dest = a.faa"
    joined += " LEFT JOIN weather w ON (f.origin, f.year, f.month, f.day, f.hour) = "
    joined += "(w.origin, w.year, w.month, w.day, w.hour)"
    for ours, theirs, by in (
        (None, "true", "manufacturer"),
        ("airports.alt > 1000", "a.alt > 1000", "manufacturer"),
        ("airports.alt is null or weather.visib < 1", "a.alt is null or w.visib < 1", "engine"),
        ("not coalesce(planes.seats > 50, false)", "not coalesce(p.seats > 50, false)", "engine"),
    ):
        expected = database.sql(
            f"SELECT p.{by}, count(*) AS n, sum(distance) AS miles FROM {joined} WHERE {theirs} GROUP BY 1"
        ).to_arrow_table()
        answered = wide.query([f"planes.{by}"], where=ours).arrow()
        assert compare(answered, expected, 1) == "", (ours, by)


def test_planes_that_do_not_fly_are_kept_by_a_full_join(
    tables: dict[str, pa.Table], database: duckdb.DuckDBPyConnection
) -> None:
    """In January there are planes without a flight too."""
    graph = ct.JoinGraph(engine="local")
    january = tables["flights"].filter(pc.equal(tables["flights"]["month"], 1))
    graph.add_relation("flights", january)
    graph.add_relation("planes", tables["planes"])
    graph.add_relation("airlines", tables["airlines"])
    graph.add_join("flights", "planes", on="tailnum", how="full")
    graph.add_join("flights", "airlines", on="carrier", how="left")
    wide = graph.calibrate({"n": "count(*)", "miles": "sum(distance)", "seats": "sum(seats)"})
    joined = "(SELECT * FROM flights WHERE month = 1) f FULL JOIN planes p ON f.tailnum = p.tailnum"
    joined += " LEFT JOIN airlines a ON a.carrier = f.carrier"
    for ours, theirs in (("airlines.name", "a.name"), ("planes.engine", "p.engine")):
        expected = database.sql(
            f"SELECT {theirs}, count(*) AS n, sum(distance) AS miles, sum(seats)::bigint AS seats "
            f"FROM {joined} GROUP BY 1"
        ).to_arrow_table()
        assert compare(wide.query([ours]).arrow(), expected, 1) == "", ours


def test_a_filter_of_one_side_is_no_join(wide: ct.WideTable) -> None:
    """Flights with a plane of another maker have a partner: they do not become flights without one."""
    (boeing,) = wide.query(where="planes.manufacturer = 'BOEING'").rows()
    rest = wide.query(where="planes.manufacturer is distinct from 'BOEING'").rows()[0]
    assert boeing["n"] + rest["n"] == FLIGHTS
    assert (
        wide.query(where="planes.manufacturer is null").rows()[0]["n"] == WITHOUT["planes.tailnum"]
    )


def test_relations_left_out(wide: ct.WideTable) -> None:
    for left_out in ("planes", "airports", "weather", "airlines"):
        staying = [name for name in wide.schema.relations if name != left_out]
        assert wide.query(relations=staying).rows()[0]["n"] == FLIGHTS


@pytest.mark.parametrize("kind", ["hybrid", "spark"])
def test_on_spark(spark: Any, tables: dict[str, pa.Table], tmp_path: Path, kind: str) -> None:
    """The flights are read by Spark's tasks, or everything is Spark's."""
    paths = {name: str(tmp_path / f"{name}.parquet") for name in tables}
    for name, path in paths.items():
        pq.write_table(tables[name], path)
    hybrid = HybridEngine(spark, in_process=1 << 20)
    wide = flights_graph(paths, hybrid if kind == "hybrid" else SparkEngine(spark)).calibrate()
    if kind == "hybrid":
        assert (
            hybrid.transfers.stats(wide.schema.relations["flights"].table).location
            is Location.FILES
        )
    assert_no_flight_is_lost(wide, GROUPS[:4] if kind == "spark" else GROUPS)
    if kind == "hybrid":
        assert_null_groups(wide)
    else:
        by_plane = {row["planes.engine"]: row["n"] for row in wide.query(["planes.engine"]).rows()}
        assert by_plane[None] == WITHOUT["planes.tailnum"]
        (unseen,) = wide.query(where="weather.origin is null and airports.faa is null").rows()
        assert unseen["n"] == 56


def composite(rows: int) -> dict[str, pa.Table]:
    """A fact with NULLs in both parts of a key, and relations that have only some of the keys, or NULL."""
    rng = np.random.default_rng(5)

    def column(size: int, values: int, kind: Any = int) -> pa.Array:
        drawn = rng.integers(0, values, size)
        return pa.array([None if value == 3 else kind(value) for value in drawn.tolist()])

    return {
        "facts": pa.table({"a": column(300, 60), "b": column(300, 40, str), "x": column(300, 9)}),
        "pairs": pa.table(
            {"a": column(rows, 90), "b": column(rows, 70, str), "y": column(rows, 9)}
        ),
        "ones": pa.table({"a": column(30, 80), "z": column(30, 5)}),
        "twos": pa.table({"a": column(20, 80), "w": column(20, 5)}),
    }


def composite_graph(sources: Mapping[str, Any], engine: Any, how: str) -> ct.JoinGraph:
    """Several outer joins on one column of the facts, alone and as a part of a key."""
    graph = ct.JoinGraph(engine=engine)
    for name, source in sources.items():
        graph.add_relation(name, source)
    graph.add_join("facts", "pairs", on=["a", "b"], how=how)
    graph.add_join("facts", "ones", on="a", how="left")
    graph.add_join("facts", "twos", on="a", how="left")
    return graph


def assert_composite(wide: ct.WideTable, sources: dict[str, pa.Table], how: str) -> None:
    connection = duckdb.connect()
    for name, table in sources.items():
        connection.register(name, table)
    joined = f"facts {how} JOIN pairs ON facts.a = pairs.a AND facts.b = pairs.b"
    joined += " LEFT JOIN ones ON facts.a = ones.a LEFT JOIN twos ON facts.a = twos.a"
    for by in ([], ["pairs.y"], ["ones.z", "twos.w"], ["facts.a", "pairs.a", "ones.a"]):
        for where in ("true", "pairs.y is null", "coalesce(ones.z, 9) > 2 and facts.x < 7"):
            columns = "".join(f"{column}, " for column in by)
            text = f"SELECT {columns}count(*) AS n, sum(x * y)::bigint AS xy FROM {joined} WHERE {where}"
            expected = connection.sql(text + (" GROUP BY ALL" if by else "")).to_arrow_table()
            answered = wide.query(by, where=where).arrow()
            assert compare(answered, expected, len(by)) == "", (by, where)


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("engine", LOCAL)
def test_composite_keys_with_nulls_on_both_sides(engine: str, how: str) -> None:
    sources = composite(2_000)
    graph = composite_graph(sources, engine_named(engine), how)
    assert_composite(graph.calibrate({"n": "count(*)", "xy": "sum(x * y)"}), sources, how)


@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_an_optional_relation_that_tasks_read(spark: Any, tmp_path: Path, how: str) -> None:
    """It is a file too large for this process, whose rows are many for each of the facts."""
    sources = composite(40_000)
    pq.write_table(sources["pairs"], tmp_path / "pairs.parquet", row_group_size=5_000)
    engine = HybridEngine(spark, in_process=1 << 15)
    given = {**sources, "pairs": str(tmp_path / "pairs.parquet")}
    wide = composite_graph(given, engine, how).calibrate({"n": "count(*)", "xy": "sum(x * y)"})
    pairs = engine.transfers.stats(wide.schema.relations["pairs"].table)
    assert pairs.location is Location.FILES
    assert_composite(wide, sources, how)


@pytest.mark.parametrize("engine", LOCAL)
def test_a_condition_beside_an_outer_join(engine: str) -> None:
    """Rows that are joined by a condition keep their key where an optional relation has no partner."""
    graph = ct.JoinGraph(engine_named(engine))
    graph.add_relation("sales", {"store": ["a"], "price": [1]})
    graph.add_relation("refunds", {"store": pa.array([], pa.string())})
    graph.add_relation("stores", {"id": ["a", "a"], "city": ["Quito", "Quito"]})
    graph.add_relation("offers", {"at": ["a", "a"], "least": [0, 1]})
    graph.add_join("sales", "refunds", on="store", how="left")
    graph.add_join("sales", "stores", on={"store": "id"}, how="left")
    graph.add_join("sales", "offers", on={"store": "at"})
    answer = graph.calibrate().query(["city"], where="price = 1 or least > 0")
    assert answer.rows() == [{"city": "Quito", "n": 4}]
