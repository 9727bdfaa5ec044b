"""Relations added to a tree that has its messages: what is reused, and the answers against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import calitree as ct
from calitree.wide_table import WideTable
from tests.support.databases import Database, databases, join_size, questions
from tests.support.engines import LOCAL, ON_SPARK, engine_named
from tests.support.oracle import MAX_JOIN, assert_answers
from tests.support.runners import run_local, run_reference, run_spark, spark_engines


def without_last(database: Database) -> tuple[Database, str, dict[str, str]]:
    """A database without its last relation, and how this one joins."""
    name = list(database.tables)[-1]
    ours = [join for join in database.joins + database.closing if name in join[:2]]
    on: dict[str, str] = {}
    for left, right, pairs in ours:
        for a, b in pairs.items():
            theirs, column = (f"{left}.{a}", b) if right == name else (f"{right}.{b}", a)
            assume(theirs not in on and column not in on.values())
            on[theirs] = column
    rest = Database(
        {n: t for n, t in database.tables.items() if n != name},
        tuple(join for join in database.joins if join not in ours),
        tuple(join for join in database.closing if join not in ours),
    )
    return rest, name, on


def same_class_twice(wide: WideTable, on: dict[str, str]) -> bool:
    attributes = [wide.schema.column(column).attribute for column in on]
    return len(set(attributes)) < len(attributes)


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    whole = data.draw(databases(max_relations=6), label="database")
    assume(join_size(whole) <= MAX_JOIN)
    smaller, name, on = without_last(whole)
    steps = [(whole, name, on)]
    if len(smaller.tables) > 1 and data.draw(st.booleans(), label="two"):
        base, name, on = without_last(smaller)
        steps.insert(0, (smaller, name, on))
    else:
        base = smaller
    assume(join_size(base) <= MAX_JOIN)
    pivot = data.draw(questions(base, exclusions=False), label="pivot")
    graph = base.graph(engine)
    wide = graph.calibrate(**pivot)
    for database, name, on in steps:
        assume(not same_class_twice(wide, on))
        if data.draw(st.booleans(), label="keyed"):
            wide = wide.keyed(list(on))
        before = len(wide.state.store)
        wide = wide.augment(database.tables[name], on=on, name=name)
        assert len(wide.state.store) == before
        if data.draw(st.booleans(), label="refresh"):
            wide.refresh()
            assert wide.is_calibrated
        assert_answers(wide, database, pivot, data, deltas)


def test_reference() -> None:
    run_reference(check, 60, deltas=2)


def test_local() -> None:
    run_local(check, 300, deltas=3)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    run_spark(check, spark_engines(engine, spark, tmp_path), 4, deltas=1)


# -- by hand ---------------------------------------------------------------------------------------


def shop(engine: Any = "local") -> WideTable:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation(
        "sales",
        pa.table({"store": [1, 1, 2, 3], "day": [1, 2, 2, None], "price": [10, 20, 5, 7]}),
    )
    graph.add_relation("stores", pa.table({"id": [1, 2, 3], "city": ["Quito", "Cuenca", None]}))
    graph.add_relation("dates", pa.table({"day": [1, 2, 3], "month": [1, 1, 2]}))
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.add_join("sales", "dates", on="day")
    return graph.calibrate({"n": "count(*)", "revenue": "sum(price)"})


WEATHER = pa.table({"day": [1, 2, 2, None, 9], "rain": [0.5, 1.5, None, 2.0, 3.0]})


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_one_message_more(engine: str) -> None:
    """The paper's example: the Steiner tree is two bags, and one message is new."""
    wide = shop(engine_named(engine))
    rainy = wide.augment(WEATHER, on="day", name="weather")
    answer = rainy.query(["rain"])
    assert [str(key) for key in answer.plan.computed] == ["dates→weather"]
    assert {r["rain"]: r["n"] for r in answer} == {0.5: 1, 1.5: 2, None: 2}
    # What does not ask for it is asked as before.
    same = rainy.query(["city"], relations=["sales", "stores", "dates"])
    assert same.plan.computed == () and same.rows() == wide.query(["city"]).rows()
    assert "weather" not in wide.schema.relations
    rainy.refresh()
    assert rainy.is_calibrated and not rainy.query(["city"]).plan.computed
    assert rainy.verify().ok


def test_keys_of_several_bags() -> None:
    wide = shop()
    events = pa.table({"day": [2, 2, 1], "city": ["Quito", "Cuenca", None], "fair": [1, 0, 1]})
    on = {"dates.day": "day", "stores.city": "city"}
    direct = wide.augment(events, on=on, name="events")
    assert {row["fair"]: row["revenue"] for row in direct.query(["fair"])} == {1: 20, 0: 5}
    assert direct.verify().ok
    # Through an empty bag, the message that arrives there serves every table that joins on it.
    keyed = wide.keyed(["dates.day", "stores.city"])
    keyed.refresh()
    added = keyed.augment(events, on=on, name="events")
    (bag,) = [bag.name for bag in added.tree.bags if not bag.relations]
    assert [str(key) for key in added.query(["fair"]).plan.computed] == [f"{bag}→events"]
    assert added.verify().ok


def test_messages_of_a_group_by_serve_extended_bags() -> None:
    """What an extended bag sends is what it sends to a query that groups by the key."""
    wide = shop()
    wide.query(["city", "month"])  # keeps stores→sales by city
    events = pa.table({"day": [2], "city": ["Quito"], "fair": [1]})
    added = wide.augment(events, on={"sales.day": "day", "stores.city": "city"}, name="events")
    hosts = {bag.name: bag.extra for bag in added.tree.bags if bag.extra}
    if hosts.keys() == {"sales"}:
        edges = [str(key) for key in added.query(["fair"]).plan.computed]
        assert "stores→sales" not in edges
    assert added.verify().ok


def test_names_go_on_to_mean_what_they_did() -> None:
    wide = shop()
    prices = pa.table({"id": [1, 2], "price": [100, 200]})
    added = wide.augment(prices, on={"stores.id": "id"}, name="rents")
    assert added.query().rows() == [{"n": 3, "revenue": 35}]
    assert added.query(measures={"rent": "sum(rents.price)"}).rows() == [{"rent": 400}]
    assert added.schema.column("price").attribute == "sales.price"


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_updates(engine: str) -> None:
    wide = shop(engine)
    wide.update("sales", insert=[{"store": 2, "day": 1, "price": 3}])
    rainy = wide.augment(WEATHER, on="day", name="weather")
    rainy.refresh()
    assert rainy.query().rows() == [{"n": 6, "revenue": 10 + 2 * 25 + 3 - 0}]
    rainy.update("weather", insert=[{"day": 1, "rain": 9.0}], delete="rain is null")
    assert rainy.query().rows() == [{"n": 6 - 2 + 2, "revenue": 2 * 13 + 25}]
    rainy.update("stores", delete="id = 2")
    assert rainy.verify().ok
    assert rainy.what_if(delete={"weather": "rain = 9"}).query().rows() == [{"n": 2, "revenue": 30}]
    assert rainy.at(0).query().rows() == [{"n": 6, "revenue": 63}]
    assert wide.query().rows() == [{"n": 4, "revenue": 38}]


def test_saved_and_opened(tmp_path: Path) -> None:
    wide = shop()
    events = pa.table({"day": [2, 2], "city": ["Quito", "Cuenca"], "fair": [1, 0]})
    added = wide.augment(WEATHER, on="day", name="weather")
    added = added.augment(events, on={"dates.day": "day", "stores.city": "city"}, name="events")
    added.refresh()
    added.save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    for question in ({}, {"group_by": ["rain"]}, {"group_by": ["city", "fair"]}):
        assert opened.query(**question).rows() == added.query(**question).rows()
    plan = opened.query(["month"], relations=["sales", "stores", "dates"]).plan
    assert plan.computed == ()
    opened.update("events", delete="fair = 1")
    opened.save()
    added.reload()
    assert added.query(["fair"]).rows() == opened.query(["fair"]).rows()
    assert opened.verify().ok and added.verify().ok


def test_two_tables_of_one_name() -> None:
    """Each is added to the same tree, and none knows of the other."""
    wide = shop()
    one = wide.augment(pa.table({"day": [1], "x": [5]}), on="day", name="extra")
    two = wide.augment(pa.table({"day": ["x"], "id": [2], "x": ["b"]}), on="id", name="extra")
    assert one.query(["x"]).rows() == [{"x": 5, "n": 1, "revenue": 10}]
    assert two.query(["x"]).rows() == [{"x": "b", "n": 1, "revenue": 5}]


def test_from_a_file(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(WEATHER, tmp_path / "weather.parquet")
    rainy = shop().augment(tmp_path / "weather.parquet", on="day")
    assert "weather" in rainy.schema.relations
    assert "added" in shop().augment(WEATHER, on="day").schema.relations


@pytest.mark.parametrize(
    ("on", "name", "message"),
    [
        ("dya", "weather", "weather has no column 'dya'. Did you mean day?"),
        ({"dates.dya": "day"}, "weather", "dates has no column 'dya'. Did you mean day?"),
        ([], "weather", "The join with weather names no column."),
        (5, "weather", "on is a column, a list of columns or {ours: theirs}; got 5."),
        ("day", "sales", "There is a relation 'sales' already. To use one table twice, add it under "
         "two names."),
        ("day", "a.b", "A relation's name has no dot in it: 'a.b'; columns are relation.column."),
        ({"city": "day"}, "weather", "Cannot join stores.city (a string) with weather.day (an integer). "
         "Cast one of them in the source first."),
        ({"sales.day": "day", "dates.day": "rain"}, "weather", "dates.day = weather.rain is one too "
         "many: a column joins with one other."),
    ],
)  # fmt: skip
def test_wrong_ways(on: Any, name: str, message: str) -> None:
    with pytest.raises(ct.CalitreeError) as error:
        shop().augment(WEATHER, on=on, name=name)
    assert str(error.value) == message


def test_the_columns_it_has_in_common() -> None:
    rainy = shop().augment(WEATHER, name="weather")
    assert rainy.query(["rain"]).plan.root == "weather"
    with pytest.raises(
        ct.SchemaError, match="weather has no column that is named as one which rel"
    ):
        shop().augment(WEATHER.rename_columns(["x", "rain"]), name="weather")


def test_keys_are_a_list() -> None:
    with pytest.raises(ct.SchemaError, match="Keys are a list of columns; got 'day'"):
        shop().keyed("day")
