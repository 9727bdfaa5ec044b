"""Variance, covariance and correlation of data that cancels, against exact fractions.

The truth is computed row by row over the join, by rational arithmetic, and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from tests.support.engines import LOCAL, engine_named, spark_engine_named

RELATIVE_ERROR = 1e-9
CITIES = {0: "Quito", 1: "Quito", 2: "Cuenca", 3: None}
WEIGHTS = {0: 1e9, 1: 1e9 + 1, 2: 1e-9, 3: -7.25}
COPIES = {0: 3, 1: 1, 2: 7, 3: 2}
MEASURES = {
    "v": "var_pop(x)",
    "s": "stddev_samp(x)",
    "c": "covar_samp(x, y)",
    "r": "corr(x, y)",
    "w": "var_samp(x + weight)",
    "b": "covar_pop(x, weight)",
}
Row = dict[str, Any]


def rows_of(x: Iterable[float | None], seed: int = 0) -> list[Row]:
    """Rows with these values: a group, a key, and a y that depends a little on x."""
    rng = np.random.default_rng(seed)
    rows = []
    for at, value in enumerate(x):
        noise = float(rng.normal())
        y = noise if value is None or not math.isfinite(value) else noise + math.tanh(value)
        row = {"id": at, "k": int(rng.integers(4)), "g": at % 3, "x": value, "y": y}
        rows.append({**row, "keep": bool(value is not None and abs(value) < 1e15)})
    return rows


def normal(mean: float, deviation: float, count: int = 60) -> list[float]:
    return [float(v) for v in np.random.default_rng(7).normal(mean, deviation, count)]


HARD: dict[str, list[Row]] = {
    "fill values": rows_of(1e20 if at % 20 == 3 else v for at, v in enumerate(normal(3, 5))),
    "an outlier first": rows_of([1e12, *normal(0, 1e-3)]),
    "fill values beside a tiny spread": rows_of(
        -9999.0 if at % 2 else v for at, v in enumerate(normal(0, 1e-4))
    ),
    "groups far apart": rows_of(
        v + (1e9, 1.0, -1e-9)[at % 3] for at, v in enumerate(normal(0, 1e-3))
    ),
    "far from zero": rows_of(normal(1e12, 1e-3)),
    "large": rows_of(normal(1e20, 1e17)),
    "small": rows_of(normal(1e-20, 1e-23)),
    "scales by group": rows_of(v * (1e20, 1.0, 1e-20)[at % 3] for at, v in enumerate(normal(1, 1))),
    "all equal": rows_of([0.1] * 40),
    "NULLs": rows_of(v if at % 3 else None for at, v in enumerate(normal(1e6, 1))),
    "one row": rows_of([5.0]),
}


def graph_of(engine: Any, rows: list[Row]) -> ct.JoinGraph:
    types = {"id": pa.int64(), "k": pa.int64(), "g": pa.int64(), "x": pa.float64()}
    schema = pa.schema([*types.items(), ("y", pa.float64()), ("keep", pa.bool_())])
    copies = [key for key, count in COPIES.items() for _ in range(count)]
    stores = {"k": list(CITIES), "city": list(CITIES.values()), "weight": list(WEIGHTS.values())}
    g = ct.JoinGraph(engine=engine)
    g.add_relation("sales", pa.Table.from_pylist(rows, schema))
    g.add_relation("stores", pa.table(stores))
    g.add_relation("copies", pa.table({"k": copies}))
    g.add_join("sales", "stores", on="k")
    g.add_join("sales", "copies", on="k")
    return g


# -- the truth -----------------------------------------------------------------------------------------


def deviations_of(rows: list[tuple[int, list[Fraction]]]) -> tuple[int, list[list[Fraction]]]:
    """The number of rows, each with its multiplicity, and the sums of products of deviations."""
    count = sum(n for n, _ in rows)
    width = range(len(rows[0][1]) if rows else 0)
    means = [sum((n * values[i] for n, values in rows), Fraction(0)) / count for i in width]
    return count, [
        [
            sum((n * (v[i] - means[i]) * (v[j] - means[j]) for n, v in rows), Fraction(0))
            for j in width
        ]
        for i in width
    ]


def root(value: Fraction) -> float:
    """The square root, also where the value itself is too small or large for a double."""
    shift = (value.denominator.bit_length() - value.numerator.bit_length()) // 2 * 2
    return math.ldexp(math.sqrt(value * Fraction(2) ** shift), -shift // 2)


def truth(rows: list[Row]) -> dict[str, tuple[float | None, float]]:
    """Each measure, and what its error is compared with where it is nearly zero itself."""
    present = [r for r in rows if r["x"] is not None]
    values = [
        (
            COPIES[r["k"]],
            [Fraction(r["x"]), Fraction(r["y"]), Fraction(WEIGHTS[r["k"]])],
        )
        for r in present
    ]
    n, d = deviations_of(values)
    if n == 0:
        return dict.fromkeys(MEASURES, (None, 0.0))
    sums = d[0][0] + 2 * d[0][2] + d[2][2]
    # What is less than a unit in the last place of x + weight, SQL would not see.
    unit = max(abs(float(v[0] + v[2])) for _, v in values) * 2.0**-52
    sizes = [root(d[i][i]) for i in range(3)]
    sample = n - 1
    correlation = float("nan") if not (sizes[0] and sizes[1]) else None
    if correlation is None:
        correlation = float(d[0][1] / (Fraction(sizes[0]) * Fraction(sizes[1])))
    return {
        "v": (float(d[0][0] / n), 0.0),
        "s": (root(d[0][0] / sample) if sample else None, 0.0),
        "c": (float(d[0][1] / sample) if sample else None, sizes[0] * sizes[1] / n),
        "r": (correlation, 1.0),
        "w": (float(sums / sample) if sample else None, 1e13 * unit**2),
        "b": (float(d[0][2] / n), sizes[0] * sizes[2] / n),
    }


def assert_right(answer: Row, rows: list[Row], among: str) -> None:
    for name, (expected, size) in truth(rows).items():
        value = answer[name]
        if expected is None or math.isnan(expected):
            assert (value is None) == (expected is None), (among, name, value, expected)
            assert value is None or math.isnan(value), (among, name, value, expected)
        else:
            # Of a covariance that is small beside the deviations, so many digits as doubles have.
            margin = max(RELATIVE_ERROR * abs(expected), 1e-13 * size)
            assert abs(value - expected) <= margin, (among, name, value, expected)


def assert_all_right(wide: ct.WideTable, rows: list[Row]) -> None:
    """Totals, groups of the same and of another relation, and filters."""
    kept = [r for r in rows if r["keep"]]
    (total,) = wide.query().rows()
    assert_right(total, rows, "total")
    (filtered,) = wide.query(where="keep").rows()
    assert_right(filtered, kept, "where")
    inside = {name: f"{text} FILTER (WHERE keep)" for name, text in MEASURES.items()}
    (filtered,) = wide.query(measures=inside).rows()
    assert_right(filtered, kept, "filter")
    for answer in wide.query(["g"], where="keep").rows():
        assert_right(answer, [r for r in kept if r["g"] == answer["g"]], "by g")
    for answer in wide.query(["city"]).rows():
        there = [r for r in rows if CITIES[r["k"]] == answer["city"]]
        assert_right(answer, there, "by city")


@pytest.mark.parametrize("name", ["reference", *LOCAL])
@pytest.mark.parametrize("data", HARD)
def test_spread(name: str, data: str) -> None:
    rows = HARD[data]
    assert_all_right(graph_of(engine_named(name), rows).calibrate(MEASURES), rows)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark", "hybrid, files", "hybrid, SQL"])
def test_spread_on_spark(name: str, spark: Any, tmp_path: Path) -> None:
    """All the hard data at once, each in groups of its own."""
    engine = spark_engine_named(name, spark, tmp_path)
    rows = [
        {**row, "g": 3 * at + row["g"]}
        for at, data in enumerate(HARD.values())
        for row in data
        if row["x"] is None or abs(row["x"]) < 1e15
    ]
    wide = graph_of(engine, rows).calibrate(MEASURES)
    for answer in wide.query(["g"]).rows():
        assert_right(answer, [r for r in rows if r["g"] == answer["g"]], "by g")
    for answer in wide.query(["g"], where="keep and id < 40").rows():
        chosen = [r for r in rows if r["g"] == answer["g"] and r["keep"] and r["id"] < 40]
        assert_right(answer, chosen, "where")


# -- updates -------------------------------------------------------------------------------------------


def churn(wide: ct.WideTable, rows: list[Row], steps: int, checks: int) -> list[Row]:
    """Rows come and go, some of them enormous; the rows that are left."""
    rng = np.random.default_rng(11)
    scales = (1e-4, 1.0, 1e9, 1e20)
    size, fresh = len(rows), len(rows)
    for step in range(steps):
        if len(rows) < size or rng.random() < 0.4:
            x = [float(rng.normal(3, 5) * scales[int(rng.integers(4))]) for _ in range(3)]
            new = [{**row, "id": fresh + at} for at, row in enumerate(rows_of(x, seed=step))]
            fresh += len(new)
            rows = rows + new
            wide.update("sales", insert=[dict(row) for row in new])
        else:
            gone = {rows[int(at)]["id"] for at in rng.choice(len(rows), 3, replace=False)}
            gone |= {r["id"] for r in rows if abs(r["x"] or 0.0) > 1e15}
            rows = [r for r in rows if r["id"] not in gone]
            wide.update("sales", delete=f"id in ({', '.join(map(str, sorted(gone)))})")
        if step % max(1, steps // checks) == 0:
            (total,) = wide.query().rows()
            assert_right(total, rows, f"after update {step}")
    return rows


@pytest.mark.parametrize(("name", "steps"), [("reference", 12), ("local", 1000)])
def test_spread_after_updates(name: str, steps: int) -> None:
    rows = HARD["fill values"]
    wide = graph_of(engine_named(name), rows).calibrate(MEASURES)
    assert_all_right(wide, churn(wide, rows, steps, checks=50))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark", "hybrid, files"])
def test_spread_after_updates_on_spark(name: str, spark: Any, tmp_path: Path) -> None:
    rows = HARD["fill values"]
    wide = graph_of(spark_engine_named(name, spark, tmp_path), rows).calibrate(MEASURES)
    rows = churn(wide, rows, steps=4, checks=2)
    (total,) = wide.query(where="keep").rows()
    assert_right(total, [r for r in rows if r["keep"]], "where")


def test_a_what_if_without_the_fill_values() -> None:
    rows = HARD["fill values"]
    wide = graph_of("local", rows).calibrate(MEASURES)
    (answer,) = wide.what_if(delete={"sales": "not keep"}).query().rows()
    assert_right(answer, [r for r in rows if r["keep"]], "what if")
    (answer,) = wide.query().rows()
    assert_right(answer, rows, "still there")


@pytest.mark.parametrize("data", ["fill values", "groups far apart", "NULLs"])
def test_a_saved_tree(data: str, tmp_path: Path) -> None:
    rows = HARD[data]
    wide = graph_of("local", rows).calibrate(MEASURES)
    wide.save(str(tmp_path / "tree"))
    again = ct.open(str(tmp_path / "tree"), engine="local")
    assert_all_right(again, rows)
    again.update("sales", delete="not keep")
    (answer,) = again.query().rows()
    assert_right(answer, [r for r in rows if r["keep"]], "deleted")


@pytest.mark.parametrize("name", ["reference", *LOCAL])
def test_a_million_copies(name: str) -> None:
    """Each row is joined with 10⁶ combinations of two other relations."""
    keys, copies = list(range(20)), [k for k in range(20) for _ in range(1000)]
    if name == "reference":
        copies = [k for k in range(20) for _ in range(4)]
    x = [1e9 + 0.001 * k for k in keys]
    g = ct.JoinGraph(engine=engine_named(name))
    g.add_relation("a", pa.table({"k": keys, "x": x}))
    g.add_relation("b", pa.table({"k": copies}))
    g.add_relation("c", pa.table({"k": copies}))
    g.add_join("a", "b", on="k")
    g.add_join("a", "c", on="k")
    wide = g.calibrate({"v": "var_pop(x)", "n": "count(*)"})
    (answer,) = wide.query().rows()
    _, ((square,),) = deviations_of([(1, [Fraction(value)]) for value in x])
    assert answer["v"] == pytest.approx(float(square / len(x)), rel=RELATIVE_ERROR)
    assert answer["n"] == len(keys) * (len(copies) // len(keys)) ** 2


@pytest.mark.parametrize("name", ["reference", *LOCAL])
def test_products_across_relations(name: str) -> None:
    rows = HARD["NULLs"]
    wide = graph_of(engine_named(name), rows).calibrate(
        {"v": "var_pop(x * weight)", "m": "var_pop(2 * x * weight - 3 * y + 1)"}
    )
    (answer,) = wide.query().rows()
    values = [
        (COPIES[r["k"]], [Fraction(r["x"]) * Fraction(WEIGHTS[r["k"]]), Fraction(r["y"])])
        for r in rows
        if r["x"] is not None
    ]
    n, d = deviations_of(values)
    mixed = 4 * d[0][0] - 12 * d[0][1] + 9 * d[1][1]
    assert answer["v"] == pytest.approx(float(d[0][0] / n), rel=RELATIVE_ERROR)
    assert answer["m"] == pytest.approx(float(mixed / n), rel=RELATIVE_ERROR)


NOT_FINITE = ["var_pop(x)", "stddev_samp(x)", "covar_pop(x, y)", "corr(x, y)", "avg(x)", "sum(x)"]


@pytest.mark.parametrize("name", ["reference", *LOCAL])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_comes_and_goes(name: str, value: float) -> None:
    """As DuckDB has it; and nothing stays of it when its row is deleted."""
    import duckdb

    rows = HARD["an outlier first"]
    measures = {f"m{at}": text for at, text in enumerate(NOT_FINITE)}
    wide = graph_of(engine_named(name), rows).calibrate(measures)
    (before,) = wide.query().rows()
    strange = {**rows[0], "id": 1000, "x": value}
    wide.update("sales", insert=[strange])
    (answer,) = wide.query().rows()
    joined = pa.Table.from_pylist([r for r in [*rows, strange] for _ in range(COPIES[r["k"]])])
    listed = ", ".join(NOT_FINITE)
    (expected,) = duckdb.sql(f"SELECT {listed} FROM joined").fetchall()
    assert joined.num_rows
    assert list(answer.values()) == pytest.approx(list(expected), nan_ok=True)
    wide.update("sales", delete="id = 1000")
    (after,) = wide.query().rows()
    assert after == pytest.approx(before, rel=RELATIVE_ERROR)


LONG = [2**62 + 7 * at**2 for at in range(40)] + [2**63 - 1, -(2**63)]


def assert_long(engine: Any, values: list[int]) -> None:
    g = ct.JoinGraph(engine=engine)
    g.add_relation("a", pa.table({"x": values, "g": [0] * len(values)}))
    (answer,) = g.calibrate({"v": "var_pop(x)"}).query().rows()
    n, ((square,),) = deviations_of([(1, [Fraction(value)]) for value in values])
    assert answer["v"] == pytest.approx(float(square / n), rel=RELATIVE_ERROR)


@pytest.mark.parametrize("name", ["reference", *LOCAL])
@pytest.mark.parametrize("values", [LONG[:40], LONG], ids=["near each other", "from end to end"])
def test_integers_longer_than_doubles(name: str, values: list[int]) -> None:
    assert_long(engine_named(name), values)


@pytest.mark.spark
def test_integers_longer_than_doubles_on_spark(spark: Any, tmp_path: Path) -> None:
    assert_long(spark_engine_named("spark", spark, tmp_path), LONG[:40])
    assert_long(spark_engine_named("hybrid, files", spark, tmp_path), LONG)
