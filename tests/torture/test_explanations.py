"""Explanations on hard data: influences are those of the rows really left out, added up without rounding,
and a gap that is hardly one is told to be so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree import QueryError, WideTable
from calitree.apps.explain.explanation import Explanation
from tests.support.engines import LOCAL, engine_named, spark_engine_named

ENGINES = [*LOCAL, pytest.param("reference", marks=pytest.mark.slow)]
ROWS = 240


@dataclass(frozen=True)
class Shop:
    """Sales in two cities: the values, and which rows stand for none."""

    x: np.ndarray
    city: np.ndarray
    kind: np.ndarray
    state: np.ndarray
    store: np.ndarray

    @classmethod
    def of(
        cls, values: np.ndarray | None = None, fill: float | None = None, where: str = "QuitoLoja"
    ) -> Shop:
        rng = np.random.default_rng(3)
        store = rng.integers(0, 6, ROWS)
        city = np.where(store < 2, "Quito", "Loja")
        kind = rng.choice(["web", "shop", "phone"], ROWS)
        x = rng.normal(size=ROWS) if values is None else values.copy()
        x += 5 * np.ptp(x) * ((city == "Quito") & (kind == "web"))
        state = rng.choice(["good", "fair", "bad"], ROWS, p=[0.5, 0.47, 0.03])
        state[0], city[0], store[0] = "bad", "Quito", 0
        if fill is not None:
            x = np.where((state == "bad") & np.char.count(where, city).astype(bool), fill, x)
        return cls(x, city, kind, state, store)

    def wide(self, engine: Any = "local") -> WideTable:
        graph = ct.JoinGraph(engine=engine_named(engine))
        sales = {n: getattr(self, n) for n in ("store", "kind", "state", "x")}
        graph.add_relation("sales", pa.table(sales))
        cities = ["Quito", "Quito", *["Loja"] * 4]
        graph.add_relation("stores", pa.table({"store": np.arange(6), "city": cities}))
        graph.add_join("sales", "stores", on="store")
        return graph.calibrate({"rows_of_all": "count(*)"})

    def measured(self, measure: str, kept: np.ndarray) -> float:
        """A measure over some rows, added up without rounding."""
        values = self.x[kept].tolist()
        if measure.startswith("avg"):
            return math.fsum(values) / len(values)
        return {"sum": math.fsum, "min": min, "max": max}[measure[:3]](values)

    def rows_of(self, explanation: str) -> np.ndarray:
        rows = np.ones(ROWS, bool)
        for part in explanation.split(" AND "):
            column, value = part.split(" = ")
            values = getattr(self, column.partition(".")[2])
            rows &= values.astype(str) == value.strip("'")
        return rows


def assert_rerun(shop: Shop, explained: Explanation, measure: str, among: np.ndarray) -> None:
    """Each influence is that of the question without these rows, of a sum over `among`."""
    assert len(explained)
    ours = (shop.city == "Quito") & among
    value = shop.measured(measure, ours)
    for row in explained:
        without = shop.measured(measure, ours & ~shop.rows_of(row["explanation"]))
        assert row["without"] == pytest.approx(without, rel=1e-9)
        assert row["influence"] == pytest.approx(value - without, rel=1e-9, abs=1e-9 * abs(value))
    assert not explained.verify()


QUITO: dict[str, Any] = {"where": "city = 'Quito'", "attributes": ["kind", "state"]}
EVERY = np.ones(ROWS, bool)


@pytest.mark.parametrize("measure", ["avg(x)", "sum(x)", "min(x)", "max(x)"])
@pytest.mark.parametrize("fill", [1e20, 1e150, -9999.0, 1e300])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_another_scale_are_removed(engine: str, fill: float, measure: str) -> None:
    """What is left has all its digits: nothing was subtracted."""
    sign = -1 if (measure == "min(x)") == (fill > 0) else 1
    shop = Shop.of(fill=fill)
    if measure in ("min(x)", "max(x)"):
        shop = Shop.of(fill=sign * fill, where="Quito")
    explained = shop.wide(engine).why(measure, min_support=1e-3, **QUITO)
    assert "sales.state = 'bad'" in {row["explanation"] for row in explained}
    assert_rerun(shop, explained, measure, EVERY)


@pytest.mark.parametrize("fill", [1e20, math.nan, math.inf, -9999.0])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_a_filter_or_an_update_leaves_out(engine: str, fill: float) -> None:
    shop = Shop.of(fill=fill)
    wide, kept = shop.wide(engine), shop.state != "bad"
    for measure in ("avg(x)", "sum(x)"):
        filtered = f"{measure} filter (where state <> 'bad')"
        assert_rerun(shop, wide.why(filtered, **QUITO), measure, kept)
        supposed = wide.what_if(delete={"sales": "state = 'bad'"})
        assert_rerun(shop, supposed.why(measure, **QUITO), measure, kept)
    wide.query(["kind"], measures={"mean": "avg(x)"})
    wide.update("sales", delete="state = 'bad'")
    explained = wide.why("avg(x)", **QUITO)
    assert_rerun(shop, explained, "avg(x)", kept)
    assert explained.best["explanation"] == "sales.kind = 'web'"
    assert not explained.is_small


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_versions_with_and_without_rows_of_another_scale(engine: str) -> None:
    shop = Shop.of(fill=1e20)
    wide = shop.wide(engine)
    wide.update("sales", delete="state = 'bad'")
    explained = wide.explain_change("sum(x)", a=0, b=1, attributes=["kind", "state"], depth=1)
    assert explained.best["explanation"] == "sales.state = 'bad'"
    assert explained.best["without"] == pytest.approx(0, abs=1e-9)
    left = math.fsum(shop.x[shop.state != "bad"])
    assert explained.best["before"] == pytest.approx(left, rel=1e-12)
    assert explained.best["after"] == pytest.approx(left, rel=1e-12)
    assert not explained.verify()
    assert not explained.is_small


@pytest.mark.parametrize(("mean", "spread"), [(1e9, 1.0), (1e6, 1e-6), (0.0, 1e-20), (0.0, 1e20)])
@pytest.mark.parametrize("engine", ENGINES)
def test_means_far_from_spreads(engine: str, mean: float, spread: float) -> None:
    shop = Shop.of(mean + spread * np.random.default_rng(4).normal(size=ROWS))
    explained = shop.wide(engine).why("avg(x)", **QUITO)
    assert explained.best["explanation"] == "sales.kind = 'web'"
    assert not explained.is_small
    value = shop.measured("avg(x)", shop.city == "Quito")
    for row in explained:
        kept = (shop.city == "Quito") & ~shop.rows_of(row["explanation"])
        assert row["without"] == pytest.approx(shop.measured("avg(x)", kept), rel=1e-14)
    gap = value - shop.measured("avg(x)", shop.city != "Quito")
    assert explained.gap == pytest.approx(gap, rel=1e-6, abs=1e-15 * abs(mean))


@pytest.mark.spark
def test_rows_of_another_scale_on_spark(spark: Any, tmp_path: Any) -> None:
    shop = Shop.of(fill=1e20)
    wide = shop.wide(spark_engine_named("hybrid, frames", spark, tmp_path))
    explained = wide.why("avg(x)", depth=1, min_support=1e-3, **QUITO)
    assert explained.best["explanation"] == "sales.state = 'bad'"
    assert_rerun(shop, explained, "avg(x)", EVERY)


# -- a gap that is hardly one ----------------------------------------------------------------------


def noise(rows: int = 4_000, shift: float = 0.0) -> WideTable:
    """Values without a cause: all differences are by chance, but for a shift of one city."""
    rng = np.random.default_rng(6)
    city = rng.choice(["Quito", "Loja"], rows)
    table = {
        "city": city,
        "kind": rng.integers(0, 40, rows),
        "x": rng.normal(10.0, 3.0, rows) + shift * (city == "Quito"),
    }
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", pa.table(table))
    return graph.calibrate({"mean": "avg(x)", "total": "sum(x)", "n": "count(*)"})


@pytest.mark.parametrize("measure", ["mean", "total", "n", "avg(x)", "sum(2 * x)", "count(x)"])
def test_a_gap_within_its_standard_error(measure: str) -> None:
    wide = noise()
    explained = [wide.why(measure, f"kind = {kind}", attributes=["city"]) for kind in range(6)]
    explained += [
        wide.explain_change(measure, f"kind = {kind}", f"kind = {kind + 1}", attributes=["city"])
        for kind in range(6)
    ]
    small = [one for one in explained if one.standard_error and abs(one.gap) < one.standard_error]
    assert len(small) > 3, "without a cause two thirds of the differences are within an error"
    for one in small:
        assert one.is_small
        assert "is hardly one: chance alone makes one of" in one.sentence
        assert "%" not in one.sentence.split("of the rows")[-1]
        assert one.sentence in str(one)
        assert "is hardly one" in one._repr_html_()


def test_the_standard_error() -> None:
    wide = noise()
    ours, theirs = (
        wide.query(
            where=f"city {op} 'Quito'", measures={"v": "var_samp(x)", "n": "count(*)"}
        ).rows()[0]
        for op in ("=", "<>")
    )
    explained = wide.why("mean", "city = 'Quito'")
    expected = math.sqrt(ours["v"] / ours["n"] + theirs["v"] / theirs["n"])
    assert explained.standard_error == pytest.approx(expected, rel=1e-3)
    fixed = wide.why("mean", "city = 'Quito'", expected=10.5)
    assert fixed.standard_error == pytest.approx(math.sqrt(ours["v"] / ours["n"]), rel=1e-3)
    assert not fixed.is_small
    for measure in ("max(x)", "sum(x) / count(*)", "avg(x) filter (where x > 3)", "stddev(x)"):
        assert wide.why(measure, "city = 'Quito'").standard_error is None


def test_a_gap_that_is_one() -> None:
    explained = noise(shift=1.0).why("mean", "city = 'Quito'")
    assert not explained.is_small
    assert "hardly" not in str(explained)


def test_a_gap_of_causes_against_each_other() -> None:
    """What used to be told as 1,900 % of the gap."""
    table = {
        "city": ["Quito"] * 4 + ["Loja"] * 4,
        "kind": ["web", "web", "shop", "phone"] * 2,
        "x": [20.0, 20.0, -18.0, 0.5, 5.0, 5.0, 5.0, 5.0],
    }
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", pa.table(table))
    wide = graph.calibrate({"share": "sum(x) / count(*)"})
    explained = wide.why("share", "city = 'Quito'", attributes=["kind"])
    assert explained.best["closed"] > 2
    assert explained.is_small
    assert explained.sentence == (
        "The gap of 0.625 from share where city = 'Quito' to the other rows (5) is hardly one: leaving out "
        "single values makes larger differences. Without sales.kind = 'web' (50 % of the rows), share where "
        "city = 'Quito' would be -8.75 instead of 5.625."
    )


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_no_gap(engine: str) -> None:
    table = pa.table(
        {"city": ["a", "a", "b", "b"], "x": [0.1 + 0.2, None, 0.3, None], "n": [1, 2, 2, 1]}
    )
    graph = ct.JoinGraph(engine=engine_named(engine))
    graph.add_relation("sales", table)
    wide = graph.calibrate()
    same = wide.why("sum(n)", "city = 'a'")
    assert (same.gap, same.is_small, len(same), same.questions) == (0, True, 0, 0)
    assert same.sentence == (
        "sum(n) is 3 where city = 'a', the same as the mean of the 1 others (3): there is nothing to explain."
    )
    with pytest.raises(QueryError, match="nothing to explain"):
        same.best  # noqa: B018
    assert same.rows() == []
    assert same.verify() == []
    nearly = wide.explain_change("avg(x)", a="city = 'b'", b="city = 'a'")
    assert nearly.is_small
    assert "the same as where city = 'b' but for rounding" in nearly.sentence
    assert "nothing to explain" in nearly._repr_html_()
    assert nearly.arrow().num_rows == 0


def test_rows_on_both_sides_are_no_chance() -> None:
    """A version, or a wider condition, differs by the rows that came; sampling has no part in it."""
    wide = noise(400)
    wide.update("sales", insert=[{"city": "Quito", "kind": 41, "x": 13.0}])
    versions = wide.explain_change("mean", a=0, b=1, attributes=["kind"], min_support=1e-3)
    assert versions.standard_error is None
    assert versions.best["explanation"] == "sales.kind = 41"
    assert not versions.is_small
    wider = wide.explain_change("mean", a="kind < 40", b="kind < 50", attributes=["kind"])
    assert wider.standard_error is None


# -- what cannot be compared -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_measures_that_are_no_number(engine: str, value: float | None) -> None:
    """Refused on the side that is explained; beside a number that is expected, of no effect."""
    table = {
        "city": ["a", "a", "a", "b", "b", "b"],
        "kind": ["u", "v", "v", "u", "v", "v"],
        "x": pa.array([9.0, 1.0, 1.0, value, value, value], pa.float64()),
    }
    graph = ct.JoinGraph(engine=engine_named(engine))
    graph.add_relation("sales", pa.table(table))
    wide = graph.calibrate()
    problem = "NULL" if value is None else "filter the rows that make it so"
    for ask in (
        lambda: wide.why("avg(x)", "city = 'b'"),
        lambda: wide.why("avg(x)", "city = 'a'"),
        lambda: wide.explain_change("avg(x)", a="city = 'a'", b="city = 'b'"),
    ):
        with pytest.raises(QueryError, match=problem):
            ask()
    explained = wide.why("avg(x)", "city = 'a'", expected=1.0, attributes=["kind"])
    assert explained.best["explanation"] == "sales.kind = 'u'"
    assert (explained.best["without"], explained.best["reference"]) == (1.0, 1.0)
    assert explained.best["closed"] == 1.0


def test_every_row_beside_what_is_expected() -> None:
    table = {"kind": ["u", "v", "v"], "x": [9.0, 1.0, 1.0]}
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", pa.table(table))
    explained = graph.calibrate().why("avg(x)", "x > 0", expected=1.0, attributes=["kind"])
    assert explained.best["explanation"] == "sales.kind = 'u'"


def test_a_gap_too_large_for_a_number() -> None:
    table = {"city": ["a", "b"], "kind": ["u", "v"], "x": [1.7e308, -1.7e308]}
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", pa.table(table))
    wide = graph.calibrate()
    with pytest.raises(QueryError, match="too large for a floating-point number"):
        wide.why("max(x)", "city = 'a'")
