"""Explanations: planted causes are found, and every influence told is that of the question asked again
without these rows.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree import QueryError, WideTable
from calitree.apps.explain.explanation import Explanation
from calitree.apps.verify.check import same
from calitree.apps.verify.plain import query_sql, wide_sql
from calitree.query.binder import Query, Question
from calitree.results.rollup import matching_rows
from examples import explanation as example
from examples.retail import BRANDS, CHANNELS, CITIES, FAMILIES, FORMATS, KINDS, retail
from tests.support.databases import Database, databases, join_size, predicates
from tests.support.engines import LOCAL, engine_named, spark_engine_named
from tests.support.scale import examples

VALUES = {
    "items.family": FAMILIES,
    "items.brand": BRANDS,
    "stores.city": tuple(CITIES),
    "stores.format": FORMATS,
    "sales.channel": CHANNELS[:3],
    "promotions.kind": tuple(KINDS)[:4],
}
RETAIL = {"revenue": "sum(sales.price * sales.units)", "basket": "avg(sales.units)"}

# -- planted causes ----------------------------------------------------------------------------


def planted(seed: int, columns: int) -> tuple[set[str], int, WideTable]:
    """A cause of so many columns in some month: its predicates, the month, and the tree."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(sorted(VALUES), columns, replace=False)
    cause = {str(column): str(rng.choice(VALUES[column])) for column in chosen}
    month = 1 + seed % 12
    shop = retail(20_000, seed, cause=cause, month=month, factor=3.0 if columns == 1 else 8.0)
    wide = shop.graph("local").calibrate(RETAIL, progress=False)
    return {f"{column} = '{value}'" for column, value in cause.items()}, month, wide


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_a_planted_cause_is_first(seed: int, columns: int) -> None:
    cause, month, wide = planted(seed, columns)
    for measure in RETAIL:
        odd = wide.why(measure, where=f"dates.month = {month}")
        changed = wide.explain_change(
            measure, a=f"dates.month = {month % 12 + 1}", b=f"dates.month = {month}"
        )
        for explanation in (odd, changed):
            assert set(explanation.best["explanation"].split(" AND ")) == cause, str(explanation)


def test_a_planted_cause_of_three_columns() -> None:
    cause = {"items.family": "MEATS", "stores.format": "hyper", "sales.channel": "shop"}
    shop = retail(40_000, 3, cause=cause, month=6, factor=10.0)
    wide = shop.graph("local").calibrate(RETAIL, progress=False)
    explanation = wide.why("basket", where="dates.month = 6", depth=3)
    assert set(explanation.best["attributes"]) == cause.keys()
    assert not explanation.verify()


def test_the_example() -> None:
    baskets, revenue = example.main()
    for explanation in (baskets, revenue):
        assert set(explanation.best["attributes"]) == {"items.family", "sales.channel"}


# -- by intervention: against the join really built ------------------------------------------------

MEASURES = (
    "sum({n})",
    "count(*)",
    "count({n})",
    "avg({n})",
    "stddev_samp({n})",
    "var_pop({n})",
    "min({n})",
    "max({n})",
    "sum({n}) / sum({n2})",
    "sum({n} * {n2})",
    "sum({n}) - 2 * sum({n2})",
    "sum({n}) filter (where {n2} > 1)",
)


class Rebuilt:
    """The join in DuckDB, from which rows can really be deleted."""

    def __init__(self, wide: WideTable, database: Database) -> None:
        self.wide = wide
        attributes = list(wide.schema.attributes)
        sql, tables = wide_sql(wide.schema, wide.schema.relations, attributes, "duckdb")
        self.connection = duckdb.connect()
        for alias, table in tables.items():
            name = next(n for n, r in wide.schema.relations.items() if r.table is table)
            self.connection.register(alias, database.tables[name])
        self.connection.execute(f"CREATE TABLE wide AS {sql}")

    def bound(self, where: str | None, measure: str) -> Query:
        return self.wide.snapshot.bind(Question((), where, {"m": measure})).query

    def ask(self, measure: str, where: str | None, without: str | None = None) -> Any:
        self.connection.execute("BEGIN")
        try:
            if without is not None:
                gone = self.bound(without, "count(*)").where
                text = " AND ".join(f"({predicate.node.sql('duckdb')})" for predicate in gone)
                self.connection.execute(f"DELETE FROM wide WHERE {text}")
            query = self.bound(where, measure)
            return self.connection.sql(query_sql(query, "duckdb")).fetchall()[0][0]
        finally:
            self.connection.execute("ROLLBACK")


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float | Decimal) and isinstance(b, float | Decimal):
        return math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-7)
    return same(a, b)


def check(engine: Any, data: st.DataObject) -> None:
    database = data.draw(databases(max_relations=4, max_rows=25), label="database")
    numbers = database.payloads("x", "y", "f", "m")
    assume(numbers and 1 < join_size(database) <= 2_000)
    text = data.draw(st.sampled_from(MEASURES), label="measure")
    chosen = st.sampled_from(numbers)
    measure = text.format(n=data.draw(chosen), n2=data.draw(chosen))
    where, other, more = (data.draw(predicates(database, list(database.tables))) for _ in range(3))
    if data.draw(st.booleans(), label="two conditions"):
        where = f"({where}) and ({more})"
    wide = database.graph(engine).calibrate({"rows_of_all": "count(*)"})
    everywhere = database.columns() if data.draw(st.booleans(), label="named") else None
    depth = data.draw(st.integers(1, 3), label="depth")
    options: dict[str, Any] = {"attributes": everywhere, "depth": depth, "min_support": 1e-6}
    built = Rebuilt(wide, database)

    def value(condition: str, without: str | None = None) -> Any:
        value_without = built.ask(measure, condition, without)
        additive = text.startswith(("sum({n})", "sum({n} *", "count")) and "/" not in text
        return 0 if value_without is None and additive else value_without

    try:
        odd = wide.why(measure, where, **options)
    except QueryError as error:
        assert any(w in str(error) for w in ("no row", "NULL", "every row", "same as")), error
    else:
        for row in odd.rows():
            without = value(where, row["explanation"])
            assert close(row["without"], without), row
            assert close(row["influence"], value(where) - without), row
            assert row["rows"] == built.ask("count(*)", f"({where}) and {row['explanation']}")
    try:
        changed = wide.explain_change(measure, a=other, b=where, **options)
    except QueryError as error:
        assert any(w in str(error) for w in ("no row", "NULL", "same as")), error
    else:
        for row in changed.rows():
            before, after = (value(side, row["explanation"]) for side in (other, where))
            change = value(where) - value(other)
            assert close(row["influence"], change - (after - before)), row


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_influence_by_reference(data: st.DataObject) -> None:
    check("reference", data)


@settings(max_examples=examples(120), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_influence_locally(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


SALES = {
    "store": [1, 1, 1, 1, 2, 2, 2, 3],
    "channel": ["web", "web", "shop", None, "web", "shop", None, "shop"],
    "price": [90, 80, 10, 12, 11, 9, 10, 13],
    "paid": pa.array([Decimal(f"{i}.10") for i in range(8)]),
    "day": pa.array([datetime.date(2024, 5, 1 + i % 2) for i in range(8)]),
}
STORES = {"store": [1, 2, 3], "city": ["Quito", "Loja", "Loja"], "open": [True, True, None]}


def shop(engine: Any = "local", measures: Any = None, **more: Any) -> WideTable:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("sales", pa.table({**SALES, **more}))
    graph.add_relation("stores", pa.table(STORES))
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate(measures or {"mean": "avg(price)", "revenue": "sum(price)"})


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, frames"])
def test_spark_tells_the_same(spark: Any, tmp_path: Path, engine: str) -> None:
    wide, local = shop(spark_engine_named(engine, spark, tmp_path)), shop()
    options: dict[str, Any] = {"depth": 1}
    explanation = wide.why("mean", "city = 'Quito'", **options)
    assert scores(explanation) == scores(local.why("mean", "city = 'Quito'", **options))
    assert not explanation.verify()
    wide.update("sales", delete="price = 90")
    changed = wide.explain_change("revenue", a=0, b=1, **options)
    assert changed.best["influence"] == -90
    assert not changed.verify()


def scores(explanation: Explanation) -> list[tuple[str, float]]:
    return sorted((row["explanation"], round(row["score"], 9)) for row in explanation)


# -- what it says ----------------------------------------------------------------------------------


@pytest.fixture(params=["reference", *LOCAL])
def wide(request: pytest.FixtureRequest) -> Iterator[WideTable]:
    yield shop(engine_named(request.param))


def test_the_first_row_is_a_sentence(wide: WideTable) -> None:
    explanation = wide.why("mean", where="city = 'Quito'")
    assert explanation.best["explanation"] == "sales.channel = 'web'"
    assert explanation.best["influence"] == 48 - 11
    assert explanation.best["without"] == 11
    assert explanation.best["reference"] == pytest.approx(32 / 3)
    assert (explanation.best["rows"], explanation.best["support"]) == (2, 0.5)
    assert explanation.best["risk_ratio"] == pytest.approx((2 / 3) / (2 / 5))
    gap, left = 48 - 43 / 4, 11 - 32 / 3
    assert explanation.best["closed"] == pytest.approx((gap - left) / gap)
    assert explanation.best["score"] == pytest.approx((gap - left) / gap / math.sqrt(0.5))
    assert explanation.sentence == (
        "Without sales.channel = 'web' (50 % of the rows), mean where city = 'Quito' would be 11 "
        "instead of 48: 99 % of the gap to the other rows (10.75)."
    )
    assert str(explanation).startswith(explanation.sentence)
    assert explanation.sentence.replace("'", "&#x27;") in explanation._repr_html_()
    assert explanation.pandas().shape == (len(explanation), len(explanation.columns))
    assert explanation.arrow().column_names == explanation.columns


def test_the_explanation_is_a_condition(wide: WideTable) -> None:
    explanation = wide.why("mean", where="city = 'Quito'", attributes=wide_columns(wide), depth=3)
    assert len(explanation) > 3
    assert {"sales.day = '2024-05-01'"} <= {row["explanation"] for row in explanation}
    for row in explanation:
        where = f"city = 'Quito' and {row['explanation']}"
        assert wide.query([], where, {"n": "count(*)"}).rows() == [{"n": row["rows"]}]
    assert not explanation.verify()


def wide_columns(wide: WideTable) -> list[str]:
    return [f"{r}.{c}" for r, relation in wide.schema.relations.items() for c in relation.columns]


def test_null_is_a_value(wide: WideTable) -> None:
    explanation = wide.why(
        "avg(paid)", where="channel is null", attributes=["stores.open", "channel"]
    )
    assert not explanation.verify()
    explanation = wide.explain_change("revenue", a="city = 'Quito'", b="city = 'Loja'", depth=1)
    assert {"sales.channel IS NULL", "stores.open IS NULL"} & {
        r["explanation"] for r in explanation
    }
    assert not explanation.verify()
    low = wide.why("avg(price)", "city = 'Loja'", attributes=["open", "channel"], depth=1)
    assert "stores.open IS NULL" not in {row["explanation"] for row in low}
    high = wide.why("max(price)", "city = 'Loja'", attributes=["open"], expected=11)
    assert high.best["explanation"] == "stores.open IS NULL"
    assert high.best["without"] == 11


def test_exact_numbers_stay_exact(wide: WideTable) -> None:
    explanation = wide.why("sum(paid)", where="city = 'Loja'", attributes=["open"])
    influence = {row["explanation"]: row["influence"] for row in explanation}
    assert influence["stores.open IS NULL"] == Decimal("7.10")
    assert pa.types.is_decimal(explanation.arrow().schema.field("influence").type)
    explanation = wide.explain_change("revenue", a="city = 'Loja'", b="city = 'Quito'")
    assert explanation.best["influence"] == 170 - 11
    assert pa.types.is_int64(explanation.arrow().schema.field("influence").type)


def test_a_sum_is_compared_with_the_mean_of_the_other_groups(wide: WideTable) -> None:
    explanation = wide.why("revenue", where="sales.store = 1")
    assert "to the mean of the 2 others (21.5)" in explanation.sentence
    assert explanation.best["explanation"] == "sales.channel = 'web'"
    assert (explanation.best["without"], explanation.best["reference"]) == (22, (43 - 11) / 2)
    explanation = wide.why("revenue", where="sales.store < 2")
    assert "to as many of the other rows (43)" in explanation.sentence
    explanation = wide.why("revenue", where="sales.store = 1", attributes=["channel"], expected=86)
    assert "to the 86 expected" in explanation.sentence
    assert explanation.best["reference"] == pytest.approx(86 * (43 - 11) / 43)


def test_what_is_missing_is_an_explanation(wide: WideTable) -> None:
    where = "city = 'Loja' and price > 9"
    explanation = wide.why("revenue", where=where, attributes=["channel"], expected=100)
    assert not explanation.verify()
    low = wide.explain_change(
        "count(*)", a="city = 'Quito'", b="city = 'Loja' and channel = 'shop'"
    )
    assert low.best["before"] - low.best["after"] < 4


def test_versions(wide: WideTable) -> None:
    wide.update("sales", insert=[dict(zip(SALES, (3, "web", 500, Decimal(1), None), strict=True))])
    explanation = wide.explain_change("revenue", a=0, b=1)
    assert explanation.best["influence"] == 500
    assert "by 0 instead of 500 from version 0 to version 1: 100 %" in explanation.sentence
    assert not explanation.verify()


def test_two_sides_may_overlap(wide: WideTable) -> None:
    explanation = wide.explain_change("mean", a="price < 90", b="price > 0")
    assert not explanation.verify()


def test_no_explanation(wide: WideTable) -> None:
    explanation = wide.why("mean", where="city = 'Quito'", attributes=["city"])
    assert len(explanation) == 0
    assert str(explanation) == "Nothing was found that explains mean where city = 'Quito'."
    assert explanation.arrow().num_rows == 0
    assert "Nothing" in explanation._repr_html_()
    with pytest.raises(QueryError, match="Nothing was found"):
        explanation.best  # noqa: B018


def test_a_gap_that_is_hardly_one(wide: WideTable) -> None:
    same = wide.why("mean", where="city = 'Quito'", expected=48)
    assert same.is_small
    assert len(same) == 0
    assert same.sentence == (
        "mean is 48 where city = 'Quito', the same as the 48 expected: there is nothing to explain."
    )
    near = wide.why("mean", where="city = 'Quito'", expected=47, attributes=["channel"])
    assert near.is_small
    assert (near.gap, near.standard_error) == (1, pytest.approx(math.sqrt(1382 / 4)))
    assert near.best["closed"] == 37
    assert near.sentence == (
        "The gap of 1 from mean where city = 'Quito' to the 47 expected is hardly one: chance alone makes "
        "one of 18.588 (the standard error). Without sales.channel = 'web' (50 % of the rows), mean where "
        "city = 'Quito' would be 11 instead of 48."
    )


# -- what cannot be explained ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"where": "city = 'Cuenca'"}, "There is no row where city = 'Cuenca'"),
        ({"where": "price > 0"}, "holds for every row.*expected="),
        ({"where": "city = 'Quito'", "measure": "revenu"}, "no measure 'revenu'.*revenue"),
        ({"where": "city = 'Quito'", "measure": "max(channel)"}, "only numbers"),
        ({"where": "store = 3", "measure": "stddev(price)"}, "NULL where store = 3"),
        ({"where": "city = 'Quito'", "expected": "48"}, "expected= is a number"),
        ({"where": "city = 'Quito'", "expected": math.inf}, "expected= is a number"),
        ({"where": "city = 'Quito'", "depth": 4}, "depth is 1, 2 or 3"),
        ({"where": "city = 'Quito'", "min_support": 0}, "min_support is a part"),
        ({"where": "city = 'Quito'", "parsimony": 1}, "parsimony"),
        ({"where": "city = 'Quito'", "limit": 0}, "limit"),
        ({"where": "city = 'Quito'", "attributes": "city"}, r"write attributes=\['city'\]"),
        ({"where": None}, "where= is a condition"),
    ],
)
def test_what_cannot_be_explained(asked: dict[str, Any], text: str) -> None:
    wide, measure = shop(), asked.pop("measure", "mean")
    with pytest.raises(QueryError, match=f"(?s){text}"):
        wide.why(measure, **asked)


def test_what_is_named_wrongly() -> None:
    wide = shop()
    with pytest.raises(ct.SchemaError, match="Did you mean channel"):
        wide.why("mean", "city = 'Quito'", attributes=["chanel"])
    with pytest.raises(QueryError, match="conditions, or numbers of versions"):
        wide.explain_change("mean", a=None, b=1)  # type: ignore[arg-type]
    binary = shop(code=pa.array([b"a"] * 8))
    with pytest.raises(QueryError, match=r"sales\.code is binary"):
        binary.why("mean", "city = 'Quito'", attributes=["code"])


# -- what it takes ---------------------------------------------------------------------------------


def asked_of(monkeypatch: pytest.MonkeyPatch, wide: WideTable, **options: Any) -> int:
    """How many questions the tree was asked."""
    asked: list[Any] = []
    query = WideTable.query

    def counted(self: WideTable, *given: Any, **more: Any) -> Any:
        asked.append(given)
        return query(self, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(WideTable, "query", counted)
        wide.why("mean", "city = 'Quito'", **options)
    return len(asked)


def test_questions_grow_with_columns_not_with_values(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)

    def tree(values: int, columns: int) -> WideTable:
        rows = 5_000
        table = {
            "store": rng.integers(1, 4, rows),
            "price": rng.integers(1, 99, rows),
            **{f"c{i}": rng.integers(0, values, rows) for i in range(columns)},
        }
        graph = ct.JoinGraph(engine="local")
        graph.add_relation("sales", pa.table(table))
        graph.add_relation("stores", pa.table(STORES))
        graph.add_join("sales", "stores", on="store")
        return graph.calibrate({"mean": "avg(price)"})

    few, many = (asked_of(monkeypatch, tree(values, 2), depth=1) for values in (5, 20))
    assert few == many
    for columns in (2, 4, 8):
        for values in (3, 300):
            assert asked_of(monkeypatch, tree(values, columns), depth=1) <= 10 + 4 * columns


def test_a_key_of_many_values_is_left_out() -> None:
    wide = shop()
    columns = {c for row in wide.why("mean", "city = 'Quito'", depth=1) for c in row["attributes"]}
    assert "stores.city" not in columns
    assert "sales.price" not in columns
    few = wide.why("mean", "city = 'Quito'", depth=1, max_values=2)
    assert {c for row in few for c in row["attributes"]} <= {"sales.day", "stores.open"}


def test_a_name_is_told_rather_than_its_key() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", {"k": [1, 1, 2, 2], "x": [9, 5, 1, 5], "m": [1, 2, 1, 2]})
    graph.add_relation("kinds", {"k": [1, 2], "name": ["a", "b"]})
    graph.add_join("sales", "kinds", on="k")
    explanation = graph.calibrate({"mean": "avg(x)"}).why("mean", "m = 1", expected=0)
    assert {c for row in explanation for c in row["attributes"]} == {"kinds.name"}


def test_progress_is_told() -> None:
    steps: list[tuple[int, int, str]] = []
    shop().why("mean", "city = 'Quito'", progress=lambda *step: steps.append(step))
    assert steps[0][2] == "sales.store" and steps[-1][0] == steps[-1][1]


def test_rows_among_more_combinations_than_64_bits_tell_apart() -> None:
    """17 columns of 16 values each; the row looked for differs from the first in the first column."""
    among = [pa.array(range(16)) for _ in range(17)]
    wanted = [pa.array([1]), *(pa.array([0]) for _ in range(16))]
    assert matching_rows(wanted, among).tolist() == [-1]
    assert matching_rows([pa.array([3]) for _ in range(17)], among).tolist() == [3]
