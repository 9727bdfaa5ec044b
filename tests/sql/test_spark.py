"""What Spark computes from `to_spark` is what `calitree.sql.evaluator` computes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calitree import ExpressionError, JoinGraph
from calitree.engines.spark import SparkEngine
from calitree.sql.evaluator import evaluate
from calitree.sql.spark import to_spark
from tests.support.expression_cases import TEXTS, differences, expression, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # or an overflow would wrap
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",  # or products would lose decimals
    "spark.sql.session.timeZone": "UTC",
}
AT_ONCE = 40


@pytest.fixture(scope="module")
def view(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("expressions") / "data.parquet"
    pq.write_table(table(), path)
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    spark.read.parquet(str(path)).createOrReplaceTempView("expressions")
    yield "expressions"
    spark.catalog.dropTempView("expressions")
    for name, old in before.items():
        spark.conf.set(name, old)


def by_spark(spark: SparkSession, view: str, texts: list[str]) -> list[list[Any]]:
    columns = [f"{to_spark(expression(text).node)} AS c{i}" for i, text in enumerate(texts)]
    result = spark.sql(f"SELECT {', '.join(columns)} FROM {view}").toArrow()
    return [column.to_pylist() for column in result.columns]


def check(spark: SparkSession, view: str, texts: list[str]) -> None:
    data = table()
    columns = {name: data.column(name) for name in data.column_names}
    for text, values in zip(texts, by_spark(spark, view, texts), strict=True):
        expected = evaluate(expression(text).node, columns, data.num_rows).to_pylist()
        assert not differences(values, expected), text


@pytest.mark.spark
@pytest.mark.parametrize("start", range(0, len(TEXTS), AT_ONCE))
def test_every_form(spark: SparkSession, view: str, start: int) -> None:
    check(spark, view, TEXTS[start : start + AT_ONCE])


@pytest.mark.spark
def test_texts_that_spark_alone_would_take(spark: SparkSession, view: str) -> None:
    check(
        spark,
        view,
        [
            "try_cast('2020' as date)",
            "try_cast('2020-01' as timestamp)",
            "try_cast('1.5d' as double)",
            "try_cast('1f' as double)",
            "try_cast('tru' as boolean)",
            "try_cast('12L' as int)",
            "try_cast('9223372036854775808' as int)",
            "try_cast('2020-02-30' as date)",
            "cast(' 2020-02-29 ' as date)",
            "cast(' true ' as boolean)",
            "cast('\t12\n' as int)",
            "cast('+.5' as double)",
            "cast('-INF' as double)",
        ],
    )


@pytest.mark.spark
@pytest.mark.parametrize("text", ["cast(s as int)", "cast('2020' as date)", "cast(x as int)"])
def test_a_cast_that_fails(spark: SparkSession, view: str, text: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException):
        by_spark(spark, view, [text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + 1", "CAST(`t.i` AS BIGINT) + 1L"),
        ("m + 1", "`t.m` + 1"),
        ("x > 1", "CAST(`t.x` AS DOUBLE) > 1"),
        ("s like 'a\\b%'", r"`t.s` LIKE 'a\\\\b%'"),
        ("cast(i as double)", "CAST(`t.i` AS DOUBLE)"),
        ("d >= '2020-01-01'", "`t.d` >= CAST('2020-01-01' AS DATE)"),
        ("year(d) = 2020", "CAST(EXTRACT(YEAR FROM `t.d`) AS BIGINT) = 2020"),
        ("date_trunc('week', t)", "CAST(DATE_TRUNC('WEEK', `t.t`) AS TIMESTAMP_NTZ)"),
    ],
)
def test_plain_expressions_stay_plain(text: str, expected: str) -> None:
    assert to_spark(expression(text).node) == expected


@pytest.mark.spark
def test_the_mean_of_decimals_has_all_its_digits(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own has four digits more than they have, so a right answer would seem to differ."""
    monkeypatch.setattr("calitree.apps.verify.plain.MAX_BYTES_HERE", -1)
    thirds = pa.array([Decimal("1.00"), Decimal("1.00"), Decimal("0.00")], pa.decimal128(7, 2))
    graph = JoinGraph(engine=SparkEngine(spark))
    graph.add_relation("sales", pa.table({"store": [1, 1, 1], "price": thirds}))
    graph.add_relation("stores", {"store": [1], "city": ["Quito"]})
    graph.add_join("sales", "stores", on="store")
    mean, some = "avg(price)", "1 - avg(price) filter (where price < 2)"
    checked = graph.calibrate({"mean": mean, "some": some}).verify([{}, {"group_by": ["city"]}])
    assert checked.built_by == "Spark" and not checked.checks[0].verbatim
    assert checked.ok, str(checked)
    assert checked.checks[0].result.rows()[0]["mean"] == pytest.approx(2 / 3, rel=1e-12)


def test_nested_functions_are_bounded() -> None:
    """Spark's text for ROUND has its argument four times: of forty inside each other there is none."""
    shallow = expression("round(" * 5 + "x" + ", 1)" * 5)
    assert len(to_spark(shallow.node)) < 100_000
    with pytest.raises(ExpressionError, match="as Spark SQL"):
        to_spark(expression("round(" * 40 + "x" + ", 1)" * 40).node)


def test_divisions_inside_each_other_are_written_once() -> None:
    text = to_spark(expression("(x / " * 50 + "x" + ")" * 50).node)
    assert text.count("TRY_DIVIDE") == 50 and "NULLIF" not in text
