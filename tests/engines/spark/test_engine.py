"""The Spark engine, rule by rule: answers computed by hand, or by DuckDB on the same tables."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
)
from calitree.engines.api.semiring import AVG, BOOL, MAX, MIN, SUM_PRODUCT, Semiring, gram
from calitree.engines.reference import ReferenceEngine
from calitree.engines.reference.rowwise import evaluate_row
from calitree.errors import EngineError, SchemaError
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse, parse_predicate
from calitree.types import Kind
from tests.support import expression_cases

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
        holder = next(given for given in self.inputs if name in given.attributes)
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
        outputs = []
        for name, given in columns.items():
            semiring, factors = given if isinstance(given, tuple) else (SUM_PRODUCT, given)
            outputs.append(Column(name, semiring, tuple(factors)))
        conditions = parse_predicate(where, self.resolve) if where else ()
        used = tuple(range(len(self.inputs))) if among is None else among
        return Output(used, conditions, keep, tuple(outputs))

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
    values = list(zip(*(column.to_pylist() for column in arrow.columns), strict=True))
    return sorted(values, key=lambda row: [(value is not None, value) for value in row])


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
    assert answer(engine, bag, bag.output("item", n=[])) == [
        (None, 1),
        ("a", 2),
        ("b", 1),
        ("c", 1),
    ]


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
    assert engine.query("SELECT count(*) AS n FROM t", {"t": some}).to_pylist() == [{"n": 1}]
    for message, expected in ((some, [(5,)]), (none, [])):
        both = Bag(of(sales), Input(message, {}))
        assert answer(engine, both, both.output(n=[])) == expected


def test_cross_join(spark: SparkSession, engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales, store="here"), of(stores, store="there"))
    with settings(spark, crossJoin_enabled="false"):
        assert answer(engine, bag, bag.output(n=[])) == [(20,)]


def test_no_product_where_a_message_connects(engine: SparkEngine) -> None:
    """a and b share nothing, but m has an attribute of each: join through it."""
    from calitree.engines.spark.sql.statement import write_output

    a = engine.load("a", {"x": [1, 2]})
    b = engine.load("b", {"y": [1, 2, 3]})
    pairs = Bag(of(engine.load("p", {"x": [1, 1], "y": [1, 2]})))
    (m,) = pairs.run(engine, pairs.output("x", "y", n=[]))
    bag = Bag(of(a), of(b), Input(m, {"x": "x", "y": "y"}))
    output = bag.output(n=[Stored(2, "n")])
    assert "CROSS" not in write_output(bag.inputs, output, utc=True).text
    assert answer(engine, bag, output) == [(2,)]


def test_a_table_joined_with_itself(engine: SparkEngine, stores: Any) -> None:
    inner = Bag(of(stores))
    (message,) = inner.run(engine, inner.output("store", "city", n=[]))
    for table in (stores, message):
        bag = Bag(of(table, city="here", n="m"), of(table, city="there", n="k"))
        assert answer(engine, bag, bag.output("store", n=[])) == [(1, 1), (2, 4)]


def test_nothing_to_join_is_one_row(engine: SparkEngine) -> None:
    assert answer(engine, Bag(), Bag().output(n=[], low=(MIN, []))) == [(1, 0)]


def test_columns_of_nothing_but_null(engine: SparkEngine) -> None:
    bag = Bag(of(engine.load("t", {"k": [1, 1], "x": [None, None]})))
    assert bag.inputs[0].table.kinds["x"] is Kind.NULL
    output = bag.output("x", n=[], s=[bag.lift(0, "x")], m=(MAX, [bag.lift(0, "x")]))
    assert answer(engine, bag, output) == [(None, 2, 0, None)]


def test_filters(engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales), of(stores))
    conditions = [
        "city = 'x'",
        "price > 10 and city = 'y'",
        "price > 20 or city = 'x'",
        "item || city = 'bx'",
        "item || city = 'bx' or price * 2 > length(city) + 50",
        "store = 2 and price * 2 > 50",
        "1 = 2",
        "null",
        "1 = 1",
    ]
    outputs = [bag.output(where=where, n=[]) for where in conditions]
    answers = [rows(engine, table) for table in bag.run(engine, *outputs)]
    assert answers[:2] == [[(3,)], [(2,)]]
    with duckdb.connect() as connection:
        connection.register("sales", SALES)
        connection.register("stores", STORES)
        for where, result in zip(conditions, answers, strict=True):
            sql = f"SELECT count(*) FROM sales JOIN stores USING (store) WHERE {where}"
            expected = [row for row in connection.sql(sql).fetchall() if row[0]]
            assert result == expected, where


def test_carried_attributes_fan_out(engine: SparkEngine, sales: Any, stores: Any) -> None:
    """A message may bring an attribute along: then a row meets several of its rows."""
    inner = Bag(of(stores))
    (message,) = inner.run(engine, inner.output("store", "city", n=[]))
    assert message.rows == 4
    bag = Bag(of(sales), Input(message, {"store": "store", "city": "city"}))
    output = bag.output("city", n=[Stored(1, "n")], s=[bag.lift(0, "price"), Stored(1, "n")])
    assert answer(engine, bag, output) == [("x", 3, 60), ("y", 2, 50)]


def test_several_outputs_of_one_call(engine: SparkEngine, sales: Any, stores: Any) -> None:
    bag = Bag(of(sales), of(stores))
    outputs = [
        bag.output("store", among=(0,), n=[]),
        bag.output("city", among=(1,), n=[]),
        bag.output(n=[]),
        bag.output("item", s=[bag.lift(0, "price")]),
        bag.output("city"),
        bag.output("store", "city", where="city = 'y'", n=[]),
    ]
    answers = [rows(engine, table) for table in bag.run(engine, *outputs)]
    assert answers == [
        [(None, 1), (1, 1), (2, 2), (9, 1)],
        [("x", 2), ("y", 1), ("z", 1)],
        [(5,)],
        [(None, 60), ("a", 10), ("b", 40)],
        [("x",), ("y",)],
        [(2, "y", 2)],
    ]


# -- semirings -----------------------------------------------------------------------------------


def test_min_and_max_of_any_kind(engine: SparkEngine) -> None:
    days = [date(2020, 1, 2), date(2019, 5, 5), None]
    table = engine.load(
        "t",
        {
            "g": [1, 1, 2],
            "s": ["b", "a", None],
            "d": days,
            "i": [3, None, None],
            "x": [1.5, 2.5, None],
            "m": [Decimal("1.25"), Decimal("-7.50"), None],
            "b": [True, False, None],
        },
    )
    bag = Bag(of(table))
    names = "sdixmb"
    output = bag.output(
        "g",
        **{f"min_{n}": (MIN, [bag.lift(0, n)]) for n in names},
        **{f"max_{n}": (MAX, [bag.lift(0, n)]) for n in names},
    )
    first, second = answer(engine, bag, output)
    assert first[1:7] == ("a", days[1], 3, 1.5, Decimal("-7.50"), False)
    assert first[7:] == ("b", days[0], 3, 2.5, Decimal("1.25"), True)
    assert second == (2, *[None] * 12)
    (message,) = bag.run(engine, output)
    kinds = [Kind.STRING, Kind.DATE, Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.BOOLEAN]
    assert list(message.kinds.values())[1:7] == kinds


def test_smallest_sum(engine: SparkEngine) -> None:
    """(min, +) over two relations, decimals of different scales; NULL annihilates."""
    a = engine.load("a", {"k": [1, 1, 2], "p": [Decimal("1.5"), Decimal("2.5"), None]})
    b = engine.load("b", {"k": [1, 1, 2], "q": [Decimal("0.25"), Decimal("0.75"), Decimal("9.00")]})
    inner = Bag(of(b))
    (message,) = inner.run(engine, inner.output("k", c=(MIN, [inner.lift(0, "q")])))
    bag = Bag(of(a), of(message))
    output = bag.output("k", c=(MIN, [bag.lift(0, "p"), Stored(1, "c")]))
    assert answer(engine, bag, output) == [(1, Decimal("1.75")), (2, None)]


def test_is_there_any(engine: SparkEngine, sales: Any, stores: Any) -> None:
    inner = Bag(of(stores))
    (message,) = inner.run(engine, inner.output("store", c=(BOOL, [inner.lift(0, "city = 'y'")])))
    bag = Bag(of(sales), of(message))
    output = bag.output("store", c=(BOOL, [bag.lift(0, "price > 25"), Stored(1, "c")]))
    assert answer(engine, bag, output) == [(1, False), (2, True)]
    assert answer(engine, bag, bag.output(c=(BOOL, []))) == [(True,)]


def test_no_factors_sum_to_as_many_ones(engine: SparkEngine, sales: Any) -> None:
    bag = Bag(of(sales))
    output = bag.output(n=[], low=(MIN, []), mean=(AVG, []), any=(BOOL, []))
    (table,) = bag.run(engine, output)
    assert list(table.kinds) == ["n", "low", "mean.n", "mean.s", "any"]
    assert rows(engine, table) == [(5, 0, 5, 0, True)]


def test_gram_matrix_over_two_relations(engine: SparkEngine) -> None:
    left = pa.table({"k": [1, 1, 2, None], "x": [2, 3, None, 5]})
    right = pa.table({"k": [1, 2, 2], "y": [0.5, 1.5, -2.0]})
    semiring = gram(("x", "y"))
    assert semiring.components == ("n", "s_x", "s_y", "q_x_x", "q_x_y", "q_y_y")
    inner = Bag(of(engine.load("right", right)))
    lifted = inner.lift(0, "1", "0", "y", "0", "0", "y * y")
    (message,) = inner.run(engine, inner.output("k", c=(semiring, [lifted])))
    bag = Bag(of(engine.load("left", left)), Input(message, {"k": "k"}))
    lifted = bag.lift(0, "1", "x", "0", "x * x", "0", "0")
    total = answer(engine, bag, bag.output(c=(semiring, [lifted, Stored(1, "c")])))
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        expected = connection.sql(
            "SELECT count(*), sum(x), sum(y), sum(x*x), sum(coalesce(x,0)*y), sum(y*y)"
            " FROM l JOIN r USING (k)"
        ).fetchall()
    assert total == expected


# -- exactness -----------------------------------------------------------------------------------


def test_decimals_stay_exact(engine: SparkEngine) -> None:
    prices = [Decimal("0.10"), Decimal("1234567890123.45"), None, Decimal("-7.77")]
    discounts = [Decimal("0.070"), Decimal("0.001"), Decimal("0.500"), Decimal("1.000")]
    line = engine.load(
        "line",
        pa.table(
            {
                "k": [1, 1, 2, 2],
                "p": pa.array(prices, pa.decimal128(15, 2)),
                "d": pa.array(discounts, pa.decimal128(10, 3)),
            }
        ),
    )
    inner = Bag(of(line))
    (message,) = inner.run(engine, inner.output("k", c=[inner.lift(0, "p * (1 - d)")]))
    expected = {1: prices[0] * (1 - discounts[0]) + prices[1] * (1 - discounts[1]), 2: Decimal(0)}
    assert rows(engine, message) == list(expected.items())
    assert message.kinds["c"] is Kind.DECIMAL
    assert message.exact
    weights = engine.load("w", {"k": [1, 1], "w": [Decimal("0.5"), Decimal("1000000")]})
    bag = Bag(of(weights), of(message))
    total = answer(engine, bag, bag.output(c=[bag.lift(0, "w"), Stored(1, "c")]))
    assert total == [(expected[1] * Decimal("1000000.5"),)]
    # The same, where Spark itself sees the message.
    seen = engine.query("SELECT * FROM m", {"m": message}).to_pylist()
    assert {row["k"]: row["c"] for row in seen} == expected


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_grow_instead_of_wrapping(spark: SparkSession, engine: SparkEngine, ansi: str) -> None:
    big = 2**62
    with settings(spark, ansi_enabled=ansi):
        table = engine.load("t", {"g": [1, 1, 2], "x": [big, big, -big]})
        bag = Bag(of(table))
        square = "x * x"
        outputs = [
            bag.output("g", c=[bag.lift(0, "x")]),
            bag.output("g", c=[bag.lift(0, square)]),
            bag.output("g", c=[bag.lift(0, "x * x * x")]),
            bag.output(c=[bag.lift(0, "x")], n=[]),
        ]
        wide, square_sum, cube, total = bag.run(engine, *outputs)
        assert rows(engine, wide) == [(1, 2**63), (2, -big)]
        assert wide.exact
        assert rows(engine, square_sum) == [(1, 2 * big**2), (2, big**2)]
        assert square_sum.exact
        assert rows(engine, cube) == [
            (1, pytest.approx(2.0 * big**3)),
            (2, pytest.approx(-(2.0**186))),
        ]
        assert not cube.exact
        assert cube.kinds["c"] is Kind.FLOAT
        assert rows(engine, total) == [(big, 3)]
        assert engine.arrow(total).schema.field("c").type == pa.int64()

        # Messages that are wide already, or no longer exact, go on.
        again = Bag(of(wide), Input(square_sum, {"g": "g"}), Input(cube, {"g": "g"}))
        factors = [Stored(0, "c"), Stored(1, "c")]
        (product,) = again.run(engine, again.output("g", among=(0, 1), c=factors))
        assert rows(engine, product) == [
            (1, pytest.approx(2.0**63 * 2.0**125)),
            (2, pytest.approx(-(2.0**62) * 2.0**124)),
        ]
        assert not product.exact
        both = again.output("g", n=[], c=[Stored(2, "c")])
        (mixed,) = again.run(engine, both)
        assert not mixed.exact
        assert rows(engine, mixed)[0][1] == 1


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_expressions_cannot_overflow(spark: SparkSession, engine: SparkEngine, ansi: str) -> None:
    low, high = -(2**63), 2**63 - 1
    with settings(spark, ansi_enabled=ansi):
        table = engine.load("t", {"id": [1, 2], "x": [low, high], "y": [-1, 1]})
        bag = Bag(of(table))
        texts = ["-x", "abs(x)", "x - y", "x + x", "x * y * 3", "coalesce(x * 4, y)", "x % y"]
        output = bag.output("id", **{f"c{i}": [bag.lift(0, text)] for i, text in enumerate(texts)})
        assert answer(engine, bag, output) == [
            (1, 2**63, 2**63, low + 1, 2 * low, -3 * low, 4 * low, 0),
            (2, -high, high, high - 1, 2 * high, 3 * high, 4 * high, 0),
        ]
        counted = {"x + x > 0": 1, "x * x > 5": 2, "-x = 9223372036854775808": 1, "abs(x) > 7": 2}
        outputs = [bag.output(where=where, n=[]) for where in counted]
        counts = [rows(engine, table) for table in bag.run(engine, *outputs)]
        assert counts == [[(n,)] for n in counted.values()]


def test_decimals_beyond_38_digits_are_not_exact(engine: SparkEngine) -> None:
    big = Decimal("1" * 26 + ".1234567891")
    table = engine.load("t", pa.table({"x": pa.array([big, -big], pa.decimal128(38, 10))}))
    bag = Bag(of(table))
    product, large, small = bag.run(
        engine,
        bag.output(c=[bag.lift(0, "x * x")]),
        bag.output(c=[bag.lift(0, "x")], where="x > 0"),
        bag.output("x"),
    )
    assert not product.exact
    assert engine.arrow(product).to_pylist()[0]["c"] == pytest.approx(2 * float(big) ** 2)
    assert large.exact
    assert engine.arrow(large).to_pylist()[0]["c"] == big
    assert small.rows == 2


def test_bounds_are_measured_once(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types alone settle what is narrow; else each column is looked at once, however often used."""
    import calitree.engines.spark.table as module

    looked: list[list[str]] = []
    sizes = module._sizes

    def spying(table: Any, names: Any) -> Any:
        looked.append(list(names))
        return sizes(table, names)

    monkeypatch.setattr(module, "_sizes", spying)
    frame = engine.session.createDataFrame([(1, 2, 3, 4)], "k bigint, x bigint, y bigint, z int")
    bag = Bag(of(engine.load("t", frame)))
    answer(engine, bag, bag.output("k", n=[]))
    assert looked == []
    answer(engine, bag, bag.output("k", s=[bag.lift(0, "x")]))
    answer(engine, bag, bag.output("k", s=[bag.lift(0, "x + x")]))
    assert looked == [["x"]]
    answer(engine, bag, bag.output("k", s=[bag.lift(0, "x * y")]))
    assert looked == [["x"], ["y"]]
    answer(engine, bag, bag.output("k", s=[bag.lift(0, "x * y + z")]))
    assert len(looked) == 2


# -- expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "ansi"), [("UTC", "true"), ("America/New_York", "true"), ("UTC", "false")]
)
def test_every_expression(spark: SparkSession, engine: SparkEngine, zone: str, ansi: str) -> None:
    """Each as a lift, against one row at a time in Python, in sessions of other people's making."""
    given = expression_cases.table()
    data = given.append_column("id", pa.array(range(given.num_rows)))
    names = {expression_cases.expression(n).sql.strip('"'): n for n in given.column_names}
    wanted: dict[str, tuple[Expression, list[Any]]] = {}
    for text in expression_cases.TEXTS:
        expression = expression_cases.expression(text)
        values = [
            evaluate_row(expression.node, {a: row[column] for a, column in names.items()})
            for row in data.to_pylist()
        ]
        wanted[text] = expression, values
    if ansi == "false":  # without it Spark writes small decimals as 1E-8
        wanted.pop("cast(q * q as varchar)", None)
    with settings(spark, session_timeZone=zone, ansi_enabled=ansi):
        one = Input(engine.load("t", data), {**names, "id": "id"})
        texts = list(wanted)
        for start in range(0, len(texts), 64):
            columns = tuple(
                Column(text, MAX, (Lifted(0, (wanted[text][0],)),))
                for text in texts[start : start + 64]
            )
            (table,) = engine.contract(Contraction((one,), (Output((0,), (), ("id",), columns),)))
            evaluated = engine.arrow(table).sort_by("id")
            for column in columns:
                values = evaluated.column(column.name).to_pylist()
                assert not expression_cases.differences(values, wanted[column.name][1]), column.name


def test_literals_are_only_values(engine: SparkEngine) -> None:
    """Spark replaces ${…} by settings, even in quotes, and takes backslashes for escapes."""
    texts = ["${spark.app.name}", "it's", "a\\nb", '"', "`", "a\nb", "%", "--", "😀"]
    bag = Bag(of(engine.load("t", {"s": texts})))
    for text in texts:
        literal = text.replace("'", "''")
        assert answer(engine, bag, bag.output("s", where=f"s = '{literal}'")) == [(text,)]


# -- tables --------------------------------------------------------------------------------------


def test_odd_names(engine: SparkEngine) -> None:
    odd = ["a.b", "c d", "e`f", "select", "", "ünï", "1"]
    table = engine.load("odd", {name: [i] for i, name in enumerate(odd)})
    assert list(table.kinds) == odd
    input_ = Input(table, {f"odd.{name}": name for name in odd})
    keep = tuple(f"odd.{name}" for name in odd)
    (message,) = engine.contract(Contraction((input_,), (Output((0,), (), keep, ()),)))
    assert engine.arrow(message).to_pylist() == [{f"odd.{n}": i for i, n in enumerate(odd)}]
    assert engine.query("SELECT * FROM m", {"m": message}).column_names == list(keep)
    assert engine.query("SELECT `a.b`, `e``f` FROM t", {"t": table}).to_pylist() == [
        {"a.b": 0, "e`f": 2}
    ]


def test_names_that_differ_in_case_only(spark: SparkSession, engine: SparkEngine) -> None:
    with pytest.raises(SchemaError, match=r"t has the column 'A' also as 'a'.*Rename"):
        engine.load("t", {"a": [1], "A": [2]})
    with pytest.raises(SchemaError, match=r"'a' twice"):
        engine.load("t", spark.sql("SELECT 1 AS a, 2 AS a"))


def test_types_that_spark_lacks(engine: SparkEngine) -> None:
    table = engine.load(
        "t",
        pa.table(
            {
                "u8": pa.array([255, None], pa.uint8()),
                "u32": pa.array([2**32 - 1, None], pa.uint32()),
                "u64": pa.array([2**64 - 1, None], pa.uint64()),
                "half": pa.array([1.5, None], pa.float16()),
                "words": pa.array(["x", None], pa.string_view()),
                "coded": pa.array(["x", None]).dictionary_encode(),
                "local": pa.array([datetime(2020, 3, 8, 2, 30), None], pa.timestamp("ns")),
                "there": pa.array(
                    [datetime(2020, 3, 8), None], pa.timestamp("ms", "Europe/Zurich")
                ),
            }
        ),
    )
    kinds = [Kind.INTEGER] * 3 + [Kind.FLOAT] + [Kind.STRING] * 2
    assert list(table.kinds.values()) == [*kinds, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ]
    bag = Bag(of(table))
    groups = answer(engine, bag, bag.output("u8", "local", s=[bag.lift(0, "u64")]))
    assert groups == [(None, None, 0), (255, datetime(2020, 3, 8, 2, 30), 2**64 - 1)]
    with pytest.raises(SchemaError, match=r"t\.x: Spark has no timestamp\[ns\]"):
        engine.load("t", pa.table({"x": pa.array([1], pa.timestamp("ns"))}))


def test_sources(spark: SparkSession, engine: SparkEngine, tmp_path: Any) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow.parquet as pq

    table = pa.table({"k": [1, 2, 3], "s": ["a", "b", None]})
    (tmp_path / "many").mkdir()
    pq.write_table(table.slice(0, 1), tmp_path / "many" / "a[1].parquet")
    pq.write_table(table.slice(1), tmp_path / "many" / "b c.parquet")
    pq.write_table(table, tmp_path / "one.parquet")
    for part in (1, 2):
        (tmp_path / "parts" / f"year={part}").mkdir(parents=True)
        pq.write_table(table, tmp_path / "parts" / f"year={part}" / "x.parquet")
    spark.createDataFrame(table).createOrReplaceTempView("my_view")
    sources = [
        table,
        str(tmp_path / "one.parquet"),
        tmp_path / "many",
        str(tmp_path / "many" / "*.parquet"),
        [tmp_path / "many" / "a[1].parquet", str(tmp_path / "many" / "b c.parquet")],
        (tmp_path / "one.parquet").as_uri(),
        "my_view",
        spark.table("my_view"),
        table.to_pandas().assign(s=pd.Series(["a", "b", None], dtype="str")),
        pl.from_arrow(table),
        table.to_pydict(),
    ]
    for source in sources:
        loaded = engine.load("t", source)
        assert dict(loaded.kinds) == {"k": Kind.INTEGER, "s": Kind.STRING}
        assert rows(engine, loaded) == [(1, "a"), (2, "b"), (3, None)]
        assert loaded.exact
        assert loaded.nbytes > 0
    partitioned = engine.load("t", tmp_path / "parts")
    assert list(partitioned.kinds) == ["k", "s", "year"]
    assert partitioned.rows == 6
    with pytest.raises(SchemaError, match="neither a file nor a Spark table called 'nowhere'"):
        engine.load("t", "nowhere")


def test_csv(engine: SparkEngine, tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text(
        'n,s,d,at,zoned\n1,"say ""hi""",2020-01-01,2020-03-08 02:30:00,2020-01-01 00:00:00Z\n'
        ",,2020-01-02,2020-03-08 03:30:00,2020-01-01 12:00:00Z\n"
    )
    with settings(engine.session, session_timeZone="America/New_York"):
        table = engine.load("t", tmp_path / "t.csv")
        kinds = [Kind.INTEGER, Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ]
        assert list(table.kinds.values()) == kinds
        arrow = engine.arrow(table)
    assert arrow.schema.field("zoned").type == pa.timestamp("us", "UTC")
    first, second = arrow.to_pylist()
    assert (first["n"], first["s"]) == (1, 'say "hi"')
    assert (second["n"], second["s"]) == (None, None)
    assert first["at"] == datetime(2020, 3, 8, 2, 30)
    assert second["zoned"] == datetime(2020, 1, 1, 12, tzinfo=UTC)


def test_rows_are_counted_when_asked(spark: SparkSession, engine: SparkEngine) -> None:
    table = engine.load("t", spark.range(7))
    assert table.known_rows is None
    assert table.rows == 7
    assert table.known_rows == 7


def test_plain_sql(spark: SparkSession, engine: SparkEngine, sales: Any, stores: Any) -> None:
    tables = {"sales": sales, "Stores": stores}
    spark.range(3).createOrReplaceTempView("sales")  # somebody else's
    sql = "SELECT count(*) AS n FROM sales JOIN stores USING (store)"
    assert engine.query(sql, tables).to_pylist() == [{"n": 5}]
    named = " with x AS (SELECT city FROM stores) SELECT count(*) AS n FROM x"
    assert engine.query(named, tables).to_pylist() == [{"n": 4}]
    wide = engine.materialise("SELECT sales.*, city FROM sales JOIN stores USING (store)", tables)
    assert list(wide.kinds) == ["store", "item", "price", "city"]
    assert wide.rows == 5
    bag = Bag(of(wide))
    assert answer(engine, bag, bag.output("city", n=[])) == [("x", 3), ("y", 2)]
    assert spark.table("sales").count() == 3
    spark.catalog.dropTempView("sales")


def test_views_are_dropped_with_their_tables(spark: SparkSession, engine: SparkEngine) -> None:
    def ours() -> set[str]:
        listed = spark.sql("SHOW TABLES LIKE 'calitree_*'").collect()
        return {row["tableName"] for row in listed}

    before = ours()
    table = engine.load("t", {"k": [1, 2]})
    bag = Bag(of(table))
    (message,) = bag.run(engine, bag.output("k", n=[]))
    joined = Bag(of(table), of(message))
    answer(engine, joined, joined.output(n=[]))
    assert len(ours() - before) == 2
    del table, bag, message, joined
    gc.collect()
    other = Bag(of(engine.load("u", {"k": [1]})))
    answer(engine, other, other.output(n=[]))
    assert len(ours() - before) == 1


def test_agrees_with_the_reference(engine: SparkEngine) -> None:
    """The same contraction of three inputs, one of them a message, on both engines."""
    left = {"a": [1, 1, 2, None, 3], "b": [1, 2, 2, 2, None], "x": [5, None, -3, 8, 2]}
    right = {"b": [1, 2, 2, None], "c": ["u", "v", None, "u"], "y": [1.5, 2.0, None, 4.0]}
    answers = []
    for own in (ReferenceEngine(), engine):
        inner = Bag(of(own.load("right", right)))
        (message,) = inner.run(
            own,
            inner.output("b", "c", n=[], y=[inner.lift(0, "y")], m=(MIN, [inner.lift(0, "y")])),
        )
        bag = Bag(of(own.load("left", left)), Input(message, {"b": "b", "c": "c"}))
        output = bag.output(
            "a",
            "c",
            where="x > -5 and (c is null or x <> 8)",
            n=[Stored(1, "n")],
            s=[bag.lift(0, "x"), Stored(1, "y")],
            m=(MIN, [bag.lift(0, "x"), Stored(1, "m")]),
        )
        answers.append(answer(own, bag, output))
    assert answers[0] == answers[1]
    assert len(answers[1]) > 2


# -- when things go wrong ------------------------------------------------------------------------


def test_errors_say_what_was_computed(engine: SparkEngine, sales: Any) -> None:
    bag = Bag(of(sales))
    output = bag.output("store", s=[bag.lift(0, "cast(item as bigint)")])
    with pytest.raises(EngineError, match=r"could not compute s by store of sales: .*CAST_INVALID"):
        bag.run(engine, output)
    with pytest.raises(EngineError, match=r"could not run 'SELECT nope': \[UNRESOLVED"):
        engine.query("SELECT nope", {})
    with pytest.raises(EngineError, match=r"no column 'pricee'\. Did you mean price"):
        engine.contract(
            Contraction((Input(sales, {"p": "pricee"}),), (Output((0,), (), ("p",), ()),))
        )
    foreign = ReferenceEngine().load("t", {"k": [1]})
    with pytest.raises(EngineError, match="no table of this Spark engine"):
        engine.contract(Contraction((of(foreign),), (Output((0,), (), (), ()),)))


def test_ctrl_c_stops_the_jobs(spark: SparkSession, engine: SparkEngine) -> None:
    endless = engine.load("endless", spark.range(10**12))
    endless.known_rows = 10**12
    bag = Bag(of(endless))
    outputs = [bag.output(where=f"id % 7 = {i}", n=[]) for i in range(3)]
    tracker = spark.sparkContext.statusTracker()
    # PySpark's own handler would cancel the jobs; here it is ours that has to.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while not tracker.getActiveJobsIds():
            threading.Event().wait(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    try:
        waiting.start()
        with pytest.raises(KeyboardInterrupt):
            bag.run(engine, *outputs)
        waiting.join()
    finally:
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 20
    while tracker.getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    assert list(tracker.getActiveJobsIds()) == []
    once_more = Bag(of(engine.load("t", {"k": [1]})))
    assert answer(engine, once_more, once_more.output(n=[])) == [(1,)]


def test_ctrl_c_leaves_the_jobs_of_others(spark: SparkSession, engine: SparkEngine) -> None:
    """Also where PySpark's own handler is set, which would cancel the jobs of everybody."""
    endless = engine.load("endless", spark.range(10**12))
    endless.known_rows = 10**12
    bag = Bag(of(endless))
    tracker = spark.sparkContext.statusTracker()
    cancelled: list[int] = []

    def handler(number: int, frame: Any) -> None:
        cancelled.append(number)
        raise KeyboardInterrupt

    handler.__module__ = "pyspark.core.context"

    def theirs() -> None:
        spark.sparkContext.addJobTag("theirs")
        with suppress(Exception):  # they are cancelled in the end
            spark.range(0, 10**12, 1, 1).selectExpr("sum(hash(id))").collect()

    def active() -> set[int]:
        return set(tracker.getActiveJobsIds())

    def interrupt() -> None:
        while len(active()) < 2:
            threading.Event().wait(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    other, waiting = threading.Thread(target=theirs), threading.Thread(target=interrupt)
    try:
        other.start()
        while not active():
            time.sleep(0.05)
        job = active()
        waiting.start()
        with pytest.raises(KeyboardInterrupt):
            bag.run(engine, bag.output(n=[]))
        waiting.join()
        assert signal.getsignal(signal.SIGINT) is handler
        deadline = time.monotonic() + 20
        while active() != job and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        assert (active(), cancelled) == (job, [])
    finally:
        signal.signal(signal.SIGINT, before)
        spark.sparkContext.cancelJobsWithTag("theirs")
    other.join()


CONNECT = """
    import sys
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output, Stored
    from calitree.engines.spark.engine import SparkEngine
    from calitree.sql.parser import parse
    from calitree.sql.analysis import Resolved
    from calitree.engines.api.semiring import MAX, SUM_PRODUCT
    from calitree.types import Kind

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    session = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
    assert type(session).__module__.startswith("pyspark.sql.connect")
    engine = SparkEngine(session)

    def load(name, **columns):
        table = engine.load(name, pa.table(columns))
        return Input(table, {column: column for column in columns})

    def lift(index, text, kind=Kind.INTEGER):
        return Lifted(index, (parse(text, lambda table, name: Resolved(name, (), kind)),))

    stores = load("stores", store=[1, 2, 2, None], city=["x", "x", "y", "z"])
    count = Column("n", SUM_PRODUCT, ())
    message, total = engine.contract(
        Contraction((stores,), (Output((0,), (), ("store",), (count,)), Output((0,), (), (), (count,))))
    )
    assert message.rows == 3, message.rows
    assert engine.arrow(total).to_pylist() == [{"n": 4}]

    frame = session.createDataFrame([(1, 10), (2, 2**62), (2, 2**62), (None, 7)], "s bigint, p bigint")
    sales = Input(engine.load("sales", frame), {"store": "s", "price": "p"})
    columns = (
        Column("s", SUM_PRODUCT, (lift(0, "price"), Stored(1, "n"))),
        Column("m", MAX, (lift(0, "price"),)),
    )
    here = Input(message, {"store": "store"})
    (result,) = engine.contract(
        Contraction((sales, here), (Output((0, 1), (), ("store",), columns),))
    )
    rows = sorted(engine.arrow(result).to_pylist(), key=lambda row: row["store"])
    assert rows == [
        {"store": 1, "s": 10, "m": 10},
        {"store": 2, "s": 2**64, "m": 2**62},
    ], rows
    assert result.exact
    tables = {"sales": sales.table, "m": message}
    joined = engine.query("SELECT count(*) AS n FROM sales JOIN m ON s = store", tables)
    assert joined.to_pylist() == [{"n": 3}]
    assert engine.materialise("SELECT s FROM sales", tables).rows == 4
    assert engine.query("SELECT * FROM r", {"r": result}).column_names == ["store", "s", "m"]
    print("all well")
    session.stop()
"""


@pytest.mark.slow
def test_spark_connect() -> None:
    """A session of the other make; in a process of its own, as the two do not mix."""
    from calitree.engines.spark.session.jvm import ensure_java

    program = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CONNECT)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable},
    )
    assert "all well" in program.stdout, program.stderr[-3000:]
