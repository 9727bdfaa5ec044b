"""SQL statements, each answered by the tree and by DuckDB on the tables and their join, in the same text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.apps.verify.check import same
from calitree.apps.verify.plain import DEFINITIONS
from calitree.grouping import canonical
from tests.support.scale import examples

HERE = Path(__file__).parent
LINES = [line.strip() for line in (HERE / "statements.sql").read_text().splitlines()]
CASES = [line.split(";;") for line in LINES if line and not line.startswith("--")]
ANSWERED = [text for text, *reason in CASES if not reason]
REFUSED = [(text, reason[0]) for text, *reason in CASES if reason]

JOIN = "sales LEFT JOIN stores ON sales.store = stores.id JOIN items ON sales.item = items.item"


@cache
def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(5)
    size = 60
    day = np.datetime64("2020-01-01") + rng.integers(0, 80, size).astype("timedelta64[D]")
    stores = rng.integers(1, 6, size)
    return {
        "sales": pa.table(
            {
                "store": pa.array(stores, mask=stores == 5),
                "item": rng.integers(1, 6, size),
                "day": day,
                "price": pa.array(rng.integers(1, 20, size), mask=rng.random(size) < 0.1),
                "qty": rng.integers(1, 5, size),
            }
        ),
        "stores": pa.table(
            {"id": [1, 2, 3, 6], "city": ["Quito", "Loja", None, "Cuenca"], "area": [5, 7, 9, 1]}
        ),
        "items": pa.table(
            {
                "item": [1, 2, 3, 4],
                "family": ["DAIRY", "BREAD", "DAIRY", "EGGS"],
                "weight": [1, 2, 3, 4],
            }
        ),
    }


def graph_of(engine: Any) -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    for name, table in tables().items():
        graph.add_relation(name, table)
    graph.add_join("sales", "stores", on={"store": "id"}, how="left")
    graph.add_join("sales", "items", on="item")
    return graph


@cache
def tree(engine: str) -> ct.WideTable:
    measures = {"n": "count(*)", "revenue": "sum(price)"}
    return graph_of(engine).calibrate(measures, progress=False)


@cache
def duck() -> Any:
    connection = duckdb.connect()
    for definition in DEFINITIONS:
        connection.execute(definition)
    for name, table in tables().items():
        connection.register(name, table)
    connection.execute(f"CREATE TABLE wide AS SELECT * EXCLUDE (item_1) FROM ({_star()})")
    return connection


def _star() -> str:
    return f"SELECT sales.*, stores.*, items.item AS item_1, family, weight FROM {JOIN}"


def rows_of(table: pa.Table, ordered: bool) -> list[tuple[Any, ...]]:
    rows = [tuple(map(canonical, row.values())) for row in table.to_pylist()]
    return rows if ordered else sorted(rows, key=repr)


def assert_same(text: str, ours: pa.Table, theirs: pa.Table) -> None:
    ordered = "order by" in text.lower().rsplit(")", 1)[-1]
    assert ours.num_columns == theirs.num_columns, text
    mine, others = rows_of(ours, ordered), rows_of(theirs, ordered)
    assert len(mine) == len(others), text
    for a, b in zip(mine, others, strict=True):
        assert all(same(x, y) for x, y in zip(a, b, strict=True)), (text, a, b)


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("text", ANSWERED)
def test_as_duckdb(text: str, engine: str) -> None:
    result = tree(engine).sql(text)
    assert_same(text, result.arrow(), duck().sql(text).to_arrow_table())
    assert result.fallback is None


WRONG = {
    "SELECT * FROM wide": "rows",
    "SELECT count(*), * FROM wide": "rows",
    "SELECT city FROM wide": "rows",
    "SELECT city, price FROM wide GROUP BY city": "groups",
    "SELECT city, count(*) FROM wide": "groups",
    "SELECT city, count(*) FROM wide GROUP BY 3": "groups",
    "SELECT count(*) FROM wide WHERE sum(price) > 1": "groups",
    "SELECT nope, count(*) FROM wide GROUP BY 1": "columns",
    "SELECT count(*) FROM wide WHERE nope = 1": "columns",
    "SELECT count(*) AS n, sum(price) AS n FROM wide": "columns",
    "SELECT x.city, count(*) FROM wide AS w GROUP BY 1": "tables",
    "SELECT count(*) FROM nope": "tables",
    "SELECT count(*) FROM wide, sales": "tables",
    "SELECT count(*) FROM sales AS a, sales AS b": "tables",
    "SELECT * FROM read_csv('x.csv')": "tables",
    "SELECT * FROM 'x.parquet'": "tables",
    "SELECT count(*) FROM sales, items": "joins",
    "SELECT count(*) FROM sales JOIN items ON sales.store = items.item": "joins",
    "SELECT count(*) FROM sales LEFT JOIN items ON sales.item = items.item": "joins",
    "SELECT count(*) FROM sales LEFT JOIN stores ON store = id AND price > 5": "joins",
    "SELECT count(*) FROM sales LEFT JOIN stores ON city = 'Quito'": "joins",
    "SELECT count(*) FROM wide WHERE EXISTS (SELECT 1 FROM items WHERE items.item = wide.item)": "tables",
    "SELECT count(*) FROM sales WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.item = sales.item)": "tables",
    "SELECT count(*) FROM sales FULL JOIN stores ON store = id": "joins",
    "SELECT count(*) FROM stores JOIN sales ON store = id SEMI JOIN items USING (item)": "joins",
    "SELECT MEASURE(nope) FROM wide": "measures",
    "SELECT count(*) FROM wide WHERE price > (SELECT price FROM sales GROUP BY price)": "queries",
    "SELECT count(*) FROM wide WHERE price > (SELECT price, qty FROM sales GROUP BY ALL)": "queries",
    "SELECT count(*) FROM wide WHERE city = $city": "parameters",
    "SELECT count(*) FROM wide; SELECT 1": "syntax",
    "SELECT count(* FROM wide": "syntax",
    "SELECT 'open FROM wide": "syntax",
    "SELECT (sum(price),) AS s FROM wide": "syntax",
    "": "syntax",
    "DELETE FROM wide": "statement",
    "DROP TABLE sales": "statement",
    "COPY wide TO 'x'": "statement",
    "SHOW nothing": "statement",
    "DESCRIBE nope": "tables",
    "SELECT s FROM (SELECT sum(price) AS s FROM wide) AS t WHERE nope = 1": "rest",
}


@pytest.mark.parametrize("text", WRONG)
def test_refused(text: str) -> None:
    with pytest.raises(ct.StatementError) as caught:
        tree("local").sql(text)
    assert caught.value.reason == WRONG[text], caught.value
    assert caught.value.line == 1


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_not_answered_yet(text: str, reason: str) -> None:
    duck().sql(text)
    with pytest.raises(ct.StatementError) as caught:
        tree("local").sql(text)
    assert caught.value.reason == reason, caught.value
    assert caught.value.line is not None


def test_an_error_says_where() -> None:
    with pytest.raises(ct.StatementError) as caught:
        tree("local").sql("SELECT city,\n  nope\nFROM wide GROUP BY ALL")
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert str(caught.value).endswith("(line 2, column 3)")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT city, sum(city) FROM wide GROUP BY city", 14),
        ("SELECT count(*) FROM wide WHERE price + city > 1", 33),
        ("SELECT nope(price), count(*) FROM wide GROUP BY 1", 8),
        ("SELECT count(*) FROM wide GROUP BY city HAVING median(city || 1) > 2", 48),
        ("WITH c AS (SELECT avg(city) AS a FROM wide) SELECT a FROM c", 19),
        ("SELECT max() FROM wide", 1),
        ("SELECT count(*), max(day) * min(day) AS d FROM wide", 22),
        ("EXPLAIN SELECT city, sum(city) FROM wide GROUP BY city", 22),
    ],
)
def test_errors_of_expressions_say_where(text: str, column: int) -> None:
    with pytest.raises(ct.StatementError) as caught:
        tree("local").sql(text)
    assert (caught.value.reason, caught.value.column) == ("expressions", column), caught.value


def test_measures_by_name() -> None:
    wide = tree("local")
    expected = wide.query(["city"], measures=["revenue", "n"]).rows()
    assert wide.sql("SELECT city, MEASURE(revenue) AS revenue, n FROM wide GROUP BY 1").rows() == (
        expected
    )
    (row,) = wide.sql("SELECT MEASURE(revenue) / MEASURE(n) AS r FROM wide").rows()
    assert row["r"] == wide.query().rows()[0]["revenue"] / 60 * 60 / len_of_join()


def len_of_join() -> int:
    return int(duck().sql("SELECT count(*) FROM wide").fetchall()[0][0])


def test_measures_at_a_grain_and_of_other_semirings() -> None:
    graph = ct.JoinGraph(engine="local")
    for name, table in tables().items():
        graph.add_relation(name, table)
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.add_join("sales", "items", on="item")
    wide = graph.calibrate(
        {
            "area": ct.measure("sum(area)", grain="stores"),
            "least": ct.aggregate(ct.semiring.MIN, {"sales": "price"}),
        }
    )
    asked = "SELECT city, MEASURE(area) AS area, MEASURE(least) AS least FROM wide GROUP BY city"
    assert wide.sql(asked).rows() == wide.query(["city"]).rows()
    ordered = wide.sql(f"{asked} ORDER BY area DESC").rows()
    assert ordered == sorted(wide.query(["city"]).rows(), key=lambda row: -row["area"])


def test_a_default_grain_is_that_of_declared_measures() -> None:
    graph = ct.JoinGraph(engine="local", grain="owner")
    graph.add_relation("students", {"course": ["SQL", "SQL"], "fee": [10, 20]})
    graph.add_relation("teachers", {"course": ["SQL", "SQL"], "salary": [5, 6]})
    graph.add_join("students", "teachers", on="course")
    wide = graph.calibrate({"fees": "sum(fee)"})
    row = {"joined": 60, "fees": 30}
    assert wide.sql("SELECT sum(fee) AS joined, MEASURE(fees) AS fees FROM wide").rows() == [row]
    text = "SELECT sum(fee) AS joined, fees FROM wide HAVING count(*) = 4"
    assert wide.sql(text).rows() == [row]


PARAMETERS: list[tuple[str, Any, dict[str, Any]]] = [
    ("SELECT count(*) AS n FROM wide WHERE city = $c", None, {"c": "Quito"}),
    ("SELECT count(*) AS n FROM wide WHERE city = :c AND price > :p", {"c": "Quito", "p": 5}, {}),
    ("SELECT count(*) AS n FROM wide WHERE city = ? AND price > ?", ["Quito", 5.5], {}),
    ("SELECT count(*) AS n FROM wide WHERE city = $2 AND price > $1", [5, "Quito"], {}),
    ("SELECT count(*) AS n FROM wide WHERE city = $c", None, {"c": "' OR true --"}),
    ("SELECT count(*) AS n FROM wide WHERE city = $c OR $c IS NULL", None, {"c": None}),
    (
        "SELECT count(*) AS n FROM wide WHERE day >= $d",
        None,
        {"d": np.datetime64("2020-02-01").item()},
    ),
    ("SELECT count(*) AS n FROM wide WHERE price IN ($a, $b)", None, {"a": 3, "b": -1}),
]


@pytest.mark.parametrize(("text", "given", "named"), PARAMETERS)
def test_parameters(text: str, given: Any, named: dict[str, Any]) -> None:
    ours = tree("local").sql(text, given, **named).rows()
    for_duckdb = text.replace(":c", "$c").replace(":p", "$p")
    answer = duck().execute(for_duckdb, given if given is not None else named).fetchall()
    assert [tuple(row.values()) for row in ours] == answer


def test_question_marks_are_in_the_order_of_the_text() -> None:
    text = """
        WITH c AS (SELECT city, sum(price) AS s FROM wide WHERE price > ? GROUP BY city)
        SELECT city, s FROM c WHERE s > ? AND s < (SELECT ? * sum(price) FROM wide) ORDER BY s LIMIT ?
    """
    for given in ([2, 9, 1, 3], [9, 2, 4, 1]):
        ours = tree("local").sql(text, given).rows()
        assert [tuple(row.values()) for row in ours] == duck().execute(text, given).fetchall()
    first = "SELECT TOP (?) city, count(*) AS n FROM wide WHERE price > ? GROUP BY city ORDER BY n, city"
    assert len(tree("local").sql(first, [1, -100], dialect="tsql").rows()) == 1


def test_lists_as_parameters() -> None:
    text = "SELECT count(*) AS n FROM wide WHERE city IN $cities"
    (row,) = tree("local").sql(text, cities=["Quito", "Loja"]).rows()
    assert row["n"] == duck().sql(text.replace("$cities", "('Quito', 'Loja')")).fetchall()[0][0]


@pytest.mark.parametrize(
    ("given", "named", "match"),
    [
        (None, {}, "has no value"),
        ({"c": 1}, {"c": 2}, "one way"),
        (None, {"c": 1, "d": 2}, "no parameter 'd'"),
        (None, {"c": object()}, "of the type object"),
        (["x"], {}, "'c' has no value"),
    ],
)
def test_wrong_parameters(given: Any, named: dict[str, Any], match: str) -> None:
    with pytest.raises(ct.StatementError, match=match):
        tree("local").sql("SELECT count(*) FROM wide WHERE city = $c", given, **named)


def test_other_dialects() -> None:
    wide = tree("local")
    spark = wide.sql(
        "SELECT `city`, sum(price) s FROM wide GROUP BY `city` ORDER BY `city`", dialect="spark"
    )
    assert spark.rows()[0]["city"] is None  # where NULLs come first
    with pytest.raises(ct.StatementError, match=r"no dialect 'sparc'.*Did you mean spark"):
        wide.sql("SELECT 1", dialect="sparc")


def test_a_statement_asked_again_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = tree("local")
    text = "SELECT family, sum(price * 2) AS s FROM wide WHERE price > $p GROUP BY family"
    first = wide.sql(text, p=3).rows()
    monkeypatch.setattr("calitree.apps.select.sql.parse_statement", None)
    assert wide.sql(text, p=3).rows() == first
    with pytest.raises(TypeError):
        wide.sql(text, p=4)


def test_what_the_tree_answers_alone_needs_no_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calitree.apps.select.sql.finished", None)
    result = tree("local").sql("SELECT sum(price) AS s, city FROM wide GROUP BY city")
    assert result.rest is None and result.columns == ["s", "city"]
    assert result.plan.computed == () and result.exact


def test_plans() -> None:
    wide = tree("local")
    text = "SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s"
    explained = [row["plan"] for row in wide.sql(f"EXPLAIN {text}")]
    assert explained == str(wide.plan(["city"], measures={"s": "sum(price)"})).splitlines()
    assert "ms" in wide.sql(f"explain analyze {text}").rows()[0]["plan"]
    both = wide.sql(
        f"{text.split(' ORDER')[0]} UNION ALL SELECT family, count(*) FROM wide GROUP BY 1"
    )
    assert len(both.plan.parts) == 2


def test_what_there_is() -> None:
    wide = tree("local")
    assert wide.sql("show tables").rows()[0] == {"name": "sales", "rows": 60}
    assert wide.sql("SHOW MEASURES;").rows()[1] == {"name": "revenue", "measure": "sum(price)"}
    assert wide.sql("DESCRIBE items").rows()[1] == {
        "table": "items",
        "column": "family",
        "type": "string",
    }
    assert len(wide.sql("describe wide")) == sum(t.num_columns for t in tables().values())


FALLBACKS = (
    "SELECT city, price FROM wide ORDER BY ALL",
    "SELECT w.city, w.price FROM wide AS w WHERE w.family = 'DAIRY' ORDER BY ALL",
    "SELECT city, weight FROM stores, items ORDER BY ALL",
    "SELECT price, (SELECT count(*) FROM sales AS t WHERE t.price < s.price) FROM sales AS s ORDER BY ALL",
    "WITH q AS (SELECT price FROM sales) SELECT price, count(*) OVER () FROM q ORDER BY ALL",
)


@pytest.mark.parametrize("text", FALLBACKS)
def test_fallback(text: str) -> None:
    wide = tree("local")
    with pytest.raises(ct.CalitreeError):
        wide.sql(text)
    result = wide.sql(text, fallback=True)
    assert result.fallback and result.results == []
    assert_same(text, result.arrow(), duck().sql(text).to_arrow_table())


@pytest.mark.parametrize("text", ["SELECT * FROM read_csv('x')", "SELECT * FROM 'x.csv'"])
def test_a_fallback_reads_nothing_else(text: str) -> None:
    with pytest.raises(ct.StatementError, match="There is no table"):
        tree("local").sql(text, fallback=True)


def test_updates_are_seen() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", {"price": [1, 2, 3]})
    wide = graph.calibrate()
    text = "SELECT sum(price) AS s FROM sales HAVING s > 0"
    assert wide.sql(text).rows() == [{"s": 6}]
    wide.update("sales", insert=[{"price": 4}])
    assert wide.sql(text).rows() == [{"s": 10}]
    assert wide.at(0).sql(text).rows() == [{"s": 6}]


ON_SPARK = (
    "SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s DESC, city LIMIT 3",
    "SELECT family, grouping(family) AS g, sum(price) FROM wide GROUP BY ROLLUP (family)",
    "SELECT count(*) FROM sales f, stores s, items i WHERE f.store = s.id AND f.item = i.item",
    "SELECT city, count(DISTINCT family) FROM wide WHERE price > (SELECT avg(price) FROM wide) GROUP BY 1",
)


EVERY = 40
"""Which of the statements that are answered run on Spark too; all of them if tests try hard."""


@pytest.mark.parametrize("kind", ["spark", "hybrid"])
def test_on_spark(kind: str, spark: Any) -> None:
    from calitree.engines.hybrid import HybridEngine
    from calitree.engines.spark import SparkEngine

    engine = SparkEngine(spark) if kind == "spark" else HybridEngine(spark)
    wide = graph_of(engine).calibrate({"n": "count(*)"}, progress=False)
    for text in (*ON_SPARK, *ANSWERED[:: EVERY if examples(1) == 1 else 1]):
        assert_same(text, wide.sql(text).arrow(), duck().sql(text).to_arrow_table())
