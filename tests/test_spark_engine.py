"""The Spark engine, rule by rule: answers computed by hand, or by DuckDB on the same tables."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from calitree.engines import Column, Contraction, Factor, Input, Lifted, Output, Stored
from calitree.engines.reference import ReferenceEngine
from calitree.engines.rowwise import evaluate_row
from calitree.errors import EngineError, SchemaError
from calitree.expressions import Expression, Resolved, parse, parse_predicate
from calitree.semiring import AVG, BOOL, MAX, MIN, SUM_PRODUCT, Semiring, gram
from calitree.types import Kind
from tests import expression_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from calitree.engines.spark import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    from calitree.engines.spark import SparkEngine

    return SparkEngine(spark)


@contextmanager
def settings(spark: SparkSession, **given: str) -> Iterator[None]:
    """Other settings for a while: `ansi_enabled` is spark.sql.ansi.enabled."""
    names = {f"spark.sql.{key.replace('_', '.')}": value for key, value in given.items()}
    before = {name: spark.conf.get(name) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, old or "")


class Bag:
    """Inputs of a contraction; a column `x` of the first is the attribute `x`, unless renamed."""

    def __init__(self, *inputs: Input) -> None:
        self.inputs = inputs

    def resolve(self, table: str | None, name: str) -> Resolved:
        name = name if table is None else f"{table}.{name}"
        holder = next(each for each in self.inputs if name in each.attributes)
        return Resolved(name, (), holder.table.kinds[holder.attributes[name]])

    def __call__(self, text: str) -> Expression:
        return parse(text, self.resolve)

    def lift(self, index: int, *texts: str) -> Lifted:
        return Lifted(index, tuple(map(self, texts)))

    def output(
        self,
        *keep: str,
        where: str | None = None,
        among: tuple[int, ...] | None = None,
        **columns: list[Factor] | tuple[Semiring, list[Factor]],
    ) -> Output:
        made = []
        for name, given in columns.items():
            semiring, factors = given if isinstance(given, tuple) else (SUM_PRODUCT, given)
            made.append(Column(name, semiring, tuple(factors)))
        conditions = parse_predicate(where, self.resolve) if where else ()
        used = tuple(range(len(self.inputs))) if among is None else among
        return Output(used, conditions, keep, tuple(made))

    def run(self, engine: Any, *outputs: Output) -> list[Any]:
        return list(engine.contract(Contraction(self.inputs, outputs)))


def of(table: Any, **renamed: str) -> Input:
    """An input whose columns are attributes of the same name; `renamed` says column=attribute."""
    return Input(table, {renamed.get(column, column): column for column in table.kinds})


def rows(engine: Any, table: Any) -> list[tuple[Any, ...]]:
    """The rows, sorted, NULL first."""
    arrow = engine.arrow(table)
    assert arrow.num_rows == table.rows
    assert arrow.column_names == list(table.kinds)
    found = list(zip(*(column.to_pylist() for column in arrow.columns), strict=True))
    return sorted(found, key=lambda row: [(value is not None, value) for value in row])


def answer(engine: Any, bag: Bag, output: Output) -> list[tuple[Any, ...]]:
    (table,) = bag.run(engine, output)
    return rows(engine, table)


SALES = pa.table(
    {
        "store": pa.array([1, 2, 2, None, 9], pa.int64()),
        "item": pa.array(["a", "b", None, "a", "c"]),
        "price": pa.array([10, 20, 30, 40, None], pa.int32()),
    }
)
STORES = pa.table({"store": [1, 2, 2, None], "city": ["x", "x", "y", "z"]})


@pytest.fixture(scope="module")
def sales(engine: SparkEngine) -> Any:
    return engine.load("sales", SALES)


@pytest.fixture(scope="module")
def stores(engine: SparkEngine) -> Any:
    return engine.load("stores", STORES)


# -- joins, filters, groups ----------------------------------------------------------------------


def test_null_keys_never_match(engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales), of(stores))
    assert answer(engine, bag, bag.output("store", n=[])) == [(1, 1), (2, 4)]


def test_null_is_a_group(engine: SparkEngine, sales: Any) -> None:
    bag = Bag(of(sales))
    assert answer(engine, bag, bag.output("item", n=[])) == [(None, 1), ("a", 2), ("b", 1), ("c", 1)]


def test_a_null_lift_counts_as_zero(engine: SparkEngine, sales: Any) -> None:
    bag = Bag(of(sales))
    output = bag.output("item", s=[bag.lift(0, "price")])
    assert answer(engine, bag, output) == [(None, 30), ("a", 50), ("b", 20), ("c", 0)]


def test_agrees_with_duckdb(engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales), of(stores))
    output = bag.output(
        "city", "item", where="price < 40", n=[], s=[bag.lift(0, "price * price + 1")]
    )
    with duckdb.connect() as connection:
        connection.register("sales", SALES)
        connection.register("stores", STORES)
        expected = connection.sql(
            "SELECT city, item, count(*), sum(price * price + 1) FROM sales JOIN stores"
            " USING (store) WHERE price < 40 GROUP BY ALL ORDER BY ALL NULLS FIRST"
        ).fetchall()
    assert answer(engine, bag, output) == expected


@pytest.mark.parametrize("keep", [(), ("city",)])
def test_empty_inputs_give_no_rows(engine: SparkEngine, sales: Any, keep: tuple[str, ...]) -> None:
    none = engine.load("none", STORES.slice(0, 0))
    bag = Bag(of(sales), of(none))
    output = bag.output(*keep, n=[], s=[bag.lift(0, "price")], m=(MIN, [bag.lift(0, "price")]))
    assert answer(engine, bag, output) == []


def test_no_row_joined_is_no_row(engine: SparkEngine, sales: Any) -> None:
    bag = Bag(of(sales))
    output = bag.output(where="price > 1000", n=[], s=[bag.lift(0, "price")])
    assert answer(engine, bag, output) == []
    # A sum of zero is another matter.
    output = bag.output(where="item = 'c'", n=[], s=[bag.lift(0, "price")])
    assert answer(engine, bag, output) == [(1, 0)]


def test_distinct(engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales), of(stores))
    assert answer(engine, bag, bag.output("city")) == [("x",), ("y",)]


def test_existence_has_rows_but_no_columns(engine: SparkEngine, sales: Any) -> None:
    bag = Bag(of(sales))
    some, none = bag.run(engine, bag.output(), bag.output(where="price > 1000"))
    assert (some.rows, none.rows) == (1, 0)
    assert dict(some.kinds) == {}
    assert engine.arrow(some).num_rows == 1
    assert engine.spark_frame(some).count() == 1
    for message, expected in ((some, [(5,)]), (none, [])):
        both = Bag(of(sales), Input(message, {}))
        assert answer(engine, both, both.output(n=[])) == expected


def test_cross_join(spark: SparkSession, engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales, store="here"), of(stores, store="there"))
    with settings(spark, crossJoin_enabled="false"):
        assert answer(engine, bag, bag.output(n=[])) == [(20,)]


def test_no_product_where_a_message_connects(engine: SparkEngine) -> None:
    """a and b share nothing, but m has an attribute of each: join through it."""
    from calitree.engines.spark_query import write_query

    a = engine.load("a", {"x": [1, 2]})
    b = engine.load("b", {"y": [1, 2, 3]})
    pairs = Bag(of(engine.load("p", {"x": [1, 1], "y": [1, 2]})))
    (m,) = pairs.run(engine, pairs.output("x", "y", n=[]))
    bag = Bag(of(a), of(b), Input(m, {"x": "x", "y": "y"}))
    output = bag.output(n=[Stored(2, "n")])
    assert "CROSS" not in write_query(bag.inputs, output, utc=True).text
    assert answer(engine, bag, output) == [(2,)]


def test_filters(engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales), of(stores))
    counted = {
        "city = 'x'": [(2,)],
        "price > 10 and city = 'y'": [(2,)],
        "price > 20 or city = 'x'": [(4 - 1,)],
        "item || city = 'bx'": [(1,)],
        "store = 2 and price * 2 > 50": [(2,)],
        "1 = 2": [],
        "null": [],
        "1 = 1": [(5,)],
    }
    counted["1 = 1"] = [(5,)] if False else [(5,)]
    outputs = [bag.output(where=where, n=[]) for where in counted]
    found = [rows(engine, table) for table in bag.run(engine, *outputs)]
    with duckdb.connect() as connection:
        connection.register("sales", SALES)
        connection.register("stores", STORES)
        for where, result in zip(counted, found, strict=True):
            sql = f"SELECT count(*) FROM sales JOIN stores USING (store) WHERE {where}"
            expected = [row for row in connection.sql(sql).fetchall() if row[0]]
            assert result == expected, where
