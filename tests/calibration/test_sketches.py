"""Approximate measures: how far they are from the exact ones, what they carry, and that they say so."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.calibration.folding import functions, parts
from calitree.calibration.folding.carried import Carried
from calitree.calibration.folding.sketches import distinct_values, representatives
from calitree.engines.local import LocalEngine
from calitree.query.carried.approximate import COUNT_DISTINCT, STANDARD_ERROR, VALUE_ERROR
from calitree.sql.kernels.sketches.buckets import bucket
from calitree.sql.kernels.sketches.cells import cell
from calitree.sql.rules.sketches import RANKS, REGISTER_BITS
from tests.calibration.test_folding import tree
from tests.support.engines import spark_engine_named
from tests.support.scale import examples

SEEDS = 100


def estimates(values: list[pa.Array]) -> np.ndarray[Any, Any]:
    """About how many values there are in each group, of the cells that a question would carry."""
    cells = [np.unique(np.asarray(cell(group))) for group in values]
    numbers = np.repeat(np.arange(len(cells)), [len(group) for group in cells])
    carried = pa.array(np.concatenate(cells))
    return np.asarray(
        distinct_values(Carried(numbers, len(cells), (carried,), pa.array(np.ones(len(carried)))))
    )


def samples(size: int) -> list[pa.Array]:
    """Sets of so many values: consecutive numbers, random ones, and doubles."""
    groups = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        start = pa.array(np.arange(size) + seed * size)
        some = pa.array(
            rng.choice(1 << 40, size, replace=False) if size < 10_000 else rng.random(size)
        )
        groups.append(start if seed % 2 else some)
    return groups


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 200_000])
def test_numbers_of_values_are_within_the_stated_error(size: int) -> None:
    errors = estimates(samples(size)) - size
    assert (np.abs(errors) <= max(1, 4 * STANDARD_ERROR * size)).all()
    deviation = math.sqrt(np.mean(errors**2)) / max(size, 1) / STANDARD_ERROR
    assert deviation < 1.2
    if size <= 1:
        assert not errors.any()
    if size == 10:
        assert np.count_nonzero(errors) <= 5
    if size == 200_000:
        assert deviation > 0.8
        assert abs(np.mean(errors)) / size < 4 * STANDARD_ERROR / math.sqrt(SEEDS)


def test_texts_are_as_good_as_numbers() -> None:
    groups = [pa.array([f"{group}-{i}" for i in range(3_000)]) for group in range(20)]
    assert (np.abs(estimates(groups) - 3_000) < 4 * STANDARD_ERROR * 3_000).all()


def test_most_likely_number_of_values() -> None:
    """The estimate is the root of the derivative of the likelihood."""
    cells = np.array([*(register * RANKS for register in range(300)), 5, 9])
    carried = Carried(np.zeros(302, np.int64), 1, (pa.array(cells),), pa.array(np.ones(302)))
    (estimate,) = np.asarray(distinct_values(carried))
    chance = {rank: 2.0 ** -(rank + 1 + REGISTER_BITS) for rank in range(RANKS)}

    def likelihood(n: float) -> float:
        taken = sum(math.log(-math.expm1(-n * chance[rank % RANKS])) for rank in cells.tolist())
        empty = 1 - sum(chance[rank % RANKS] for rank in cells.tolist())
        return taken - n * empty

    assert likelihood(estimate) > max(likelihood(estimate - 2), likelihood(estimate + 2))


NUMBERS = st.floats(allow_nan=False, allow_subnormal=False) | st.integers(-(10**6), 10**6).map(
    float
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.sampled_from([0, 0.01, 0.25, 0.5, 0.9, 1]))
def test_quantiles_are_within_the_stated_error(values: list[float], share: float) -> None:
    exact, close = quantiles(pa.array(values, pa.float64()), share, is_whole=False)
    assert close == exact or abs(close - exact) <= VALUE_ERROR * (1 + 1e-12) * abs(exact)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-999, 999), min_size=1, max_size=40))
def test_quantiles_of_integers_are_integers(values: list[int]) -> None:
    for share in (0.1, 0.5):
        exact, close = quantiles(pa.array(values, pa.int64()), share, is_whole=True)
        assert close == int(close)
        assert abs(close - exact) <= VALUE_ERROR * (1 + 1e-9) * abs(exact)
        if abs(exact) <= 256:
            assert close == exact


def quantiles(values: pa.Array, share: float, is_whole: bool) -> tuple[Any, Any]:
    """The exact quantile, and that of the buckets."""
    buckets = bucket(values.cast(pa.float64(), safe=False))
    numbers, rows = np.zeros(len(values), np.int64), pa.array(np.ones(len(values), np.int64))
    exact = functions.quantile_disc(Carried(numbers, 1, (values,), rows), share)
    close = functions.approx_quantile(Carried(numbers, 1, (buckets,), rows), share, is_whole)
    return exact[0].as_py(), close[0].as_py()


def test_numbers_that_are_no_sizes() -> None:
    given = pa.array([0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, None])
    close = representatives(bucket(given), is_whole=False).to_pylist()
    assert close[:4] == [0.0, 0.0, math.inf, -math.inf]
    assert math.isnan(close[4])
    assert close[5:] == [0.0, None]
    beyond = representatives(bucket(pa.array([2.0**64, None])), is_whole=True).to_pylist()
    assert abs(float(beyond[0]) / 2**64 - 1) <= VALUE_ERROR * (1 + 1e-9)
    assert beyond[1] is None


VALUES: dict[str, Any] = {
    "approx_count_distinct(price)": 4,
    "approx_count_distinct(cost)": 4,
    "approx_count_distinct(distinct city)": 2,
    "approx_count_distinct(price * weight)": 4,
    "approx_count_distinct(price) filter (where family = 'DAIRY')": 2,
    "approx_count_distinct(price) filter (where price > weight * 4)": 3,
    "approx_count_distinct(price) filter (where price > weight * 400)": 0,
    "approx_count_distinct(family) / count(*)": 2 / 6,
    "approx_quantile(price, 0.9)": 40,
    "approx_quantile(price, 0.5) filter (where city = 'Quito')": 10,
    "approx_quantile(price, 0.5) filter (where price > 100)": None,
    "coalesce(approx_quantile(price, 0.5) filter (where price > 100), -1)": -1,
}


@pytest.mark.parametrize("text", VALUES)
def test_value(text: str) -> None:
    (row,) = tree().query(measures={"m": text}).rows()
    assert row["m"] == VALUES[text]


def test_decimals_are_doubles() -> None:
    (row,) = tree().query(measures={"m": "approx_quantile(cost, 0.1)"}).rows()
    assert isinstance(row["m"], float)
    assert abs(row["m"] - -3.01) <= VALUE_ERROR * 3.01


def test_over_nothing() -> None:
    texts = {"d": "approx_count_distinct(price)", "q": "approx_quantile(price, 0.5)"}
    assert tree().query(where="price > 1000", measures=texts).rows() == [{"d": 0, "q": None}]
    assert tree().query(["city"], where="price > 1000", measures=texts).rows() == []


REFUSED = {
    "approx_count_distinct(1)": "1 has no column",
    "approx_count_distinct(price, 0.1)": "takes 1 argument, and has a standard error 1.4 %",
    "approx_count_distinct((price, cost))": "takes 1 argument",
    "approx_quantile(price)": "takes a number from 0 to 1",
    "approx_quantile(price, 2)": "takes a number from 0 to 1",
    "approx_quantile(price, [0.1])": "takes a number from 0 to 1",
    "approx_quantile(distinct price, 0.5)": "without DISTINCT",
    "approx_quantile(city, 0.5)": "needs a number, but city is a string; use quantile_disc",
    "approx_quantile(cast('2024-01-01' as date) + opened, 0.5)": "use quantile_disc, of fewer values",
    "sum(approx_count_distinct(price))": "stands inside another aggregate",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(ct.ExpressionError) as error:
        tree().query(measures={"m": text})
    assert REFUSED[text] in str(error.value)


def test_answers_and_plans_say_that_they_are_approximate() -> None:
    texts = {
        "n": "count(*)",
        "d": "approx_count_distinct(family)",
        "f": "round(approx_quantile(weight, 0.5) + approx_count_distinct(item), 1)",
        "w": "approx_count_distinct(item) filter (where price > weight)",
    }
    result = tree().query(["city"], measures=texts)
    count, value = "standard error 1.4 %", "within 0.4 % of the value"
    assert result.approximate == {"d": count, "f": f"{value}, {count}", "w": count}
    assert not result.exact
    printed = str(tree().plan(["city"], measures=texts))
    assert (
        f"carries cells of the hash of family for approx_count_distinct, approximate: {count}"
        in printed
    )
    assert f"carries buckets of weight for approx_quantile, approximate: {value}" in printed
    exact = tree().query(["city"], measures={"d": "count(distinct family)"})
    assert (exact.exact, exact.approximate) == (True, {})
    with pytest.raises(ct.QueryError, match="approx_count_distinct of groups"):
        _ = tree().query(["city"], measures={"d": texts["d"]}).groups


def test_a_dimensions_column_takes_no_pass_over_the_fact() -> None:
    wide = tree()
    wide.cube(["city", "family"], k=1)
    asked: dict[str, Any] = {
        "measures": {"d": "approx_count_distinct(city)"},
        "group_by": ["family"],
    }
    carrying = wide.plan(**asked).parts[1]
    assert all(key.source != "sales" for key in carrying.computed)
    counts = {row["family"]: row["d"] for row in wide.query(**asked).rows()}
    assert counts == {"BREAD": 2, "DAIRY": 1, None: 1}
    assert not wide.query(**asked).plan.computed


def large(engine: Any, rows: int = 60_000) -> ct.WideTable:
    rng = np.random.default_rng(3)
    sales = {
        "store": rng.integers(0, 6, rows),
        "customer": pa.array(rng.integers(0, 30_000, rows), mask=rng.random(rows) < 0.1),
        "price": rng.lognormal(3, 2, rows) - 5,
    }
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("sales", pa.table(sales))
    stores = {"store": [0, 1, 2, 3, 9], "city": ["a", None, "a", "b", "c"]}
    graph.add_relation("stores", pa.table(stores))
    graph.add_join("sales", "stores", on="store", how="left")
    return graph.calibrate(
        {"d": "approx_count_distinct(customer)", "q": "approx_quantile(price, 0.7)"}
    )


def test_what_is_carried_is_bounded() -> None:
    """Cells and buckets, of which there are fewer than values; the answers are those of verify."""
    wide = large(LocalEngine(threads=2, large=0))
    result = wide.query(["city"])
    cells, buckets = (part.measured[None].rows for part in result.plan.parts[1:])
    assert cells < 3 * 60_000 / 5
    assert buckets < 60_000 / 5
    assert wide.verify([{"group_by": ["city"]}, {}, {"where": "city = 'a' and price > 10"}])
    assert result.arrow().equals(large("local").query(["city"]).arrow())


def test_updates_and_what_ifs_count_what_is_there() -> None:
    """Cells have numbers of rows, so that rows can be taken out of a sketch."""
    wide = large("local", 5_000)
    wide.query(["city"])
    fewer = wide.what_if(delete={"sales": "customer % 3 = 0"})
    assert fewer.verify([{"group_by": ["city"]}])
    rest = fewer.query().rows()[0]["d"]
    wide.update("sales", delete="customer % 3 = 0")
    assert wide.query().rows()[0]["d"] == rest
    wide.update("sales", delete="customer > 300")
    (few,) = wide.query(measures={"d": "count(distinct customer)"}).rows()
    assert 20 < few["d"] < 60
    assert wide.query(measures=["d"]).rows() == [few]
    rows = {"store": [1, 1, 1], "customer": [70_000, 70_001, 70_000], "price": [1.0, 2.0, 3.0]}
    wide.update("sales", insert=rows)
    assert wide.query(measures=["d"]).rows() == [{"d": few["d"] + 2}]


def test_spark_has_the_same_answers(spark: Any, tmp_path: Path) -> None:
    wide = large(spark_engine_named("spark", spark, tmp_path), 800)
    theirs, here = (tree.query(["city"]).arrow() for tree in (wide, large("local", 800)))
    assert theirs.sort_by("city").equals(here.sort_by("city"))


def test_rows_hashed_by_spark_and_here_are_the_same(spark: Any, tmp_path: Path) -> None:
    """Rows that come to the hybrid engine are hashed in this process, those of files by Spark."""
    wide, here = large(spark_engine_named("hybrid, SQL", spark, tmp_path), 200), large("local", 200)
    before = wide.query(measures=["d"]).rows()
    assert before == here.query(measures=["d"]).rows()
    known = here.query(["customer"], where="customer is not null").arrow().column(0)
    again = {"store": [1] * len(known), "customer": known, "price": [50.0] * len(known)}
    wide.update("sales", insert=pa.table(again))
    assert wide.query(measures=["d"]).rows() == before


def test_saved_trees(tmp_path: Path) -> None:
    wide = large("local", 5_000)
    expected = wide.query(["city"]).arrow()
    wide.save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", engine="local")
    assert opened.query(["city"]).arrow().equals(expected)
    assert opened.verify([{"group_by": ["city"]}])


def test_grains() -> None:
    """A number of values is that at any grain; a quantile of stores is not that of their sales."""
    measure = ct.measure
    texts = {
        "d": measure("approx_count_distinct(city)", grain="stores"),
        "wide": "approx_quantile(opened - 2000, 0.4)",
        "q": measure("approx_quantile(opened - 2000, 0.4)", grain="stores"),
        "exact": measure("quantile_disc(opened - 2000, 0.4)", grain="stores"),
    }
    result = tree().query(measures=texts)
    (row,) = result.rows()
    assert row["d"] == 2
    assert (row["wide"], row["q"], row["exact"]) == (1, 2, 2)
    assert tree().verify([{"measures": texts}, {"measures": texts, "group_by": ["family"]}])
    (row,) = (
        tree().query(measures={"q": measure("approx_quantile(weight, 0.5)", grain="items")}).rows()
    )
    assert row["q"] == 2


def test_too_many_values_by_group_have_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_CARRIED_ROWS", 2)
    ways = {
        "median(price)": "filter, or ask for approx_quantile, which is close to it and takes fewer.",
        "count(distinct price) + count(distinct price) filter (where item = 7)": "approx_count_distinct",
        "mode(price)": "filter, or ask for fewer values.",
    }
    for text, way in ways.items():
        with pytest.raises(ct.QueryError, match=way):
            tree().query(measures={"m": text})


def test_verify_sees_what_is_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = large("local")
    asked = [{"group_by": ["city"], "measures": {"d": "approx_count_distinct(customer) / 2"}}]
    verification = wide.verify(asked)
    assert verification
    assert "agrees within the errors of d" in str(verification)
    assert "COUNT(DISTINCT" in verification.checks[0].sql
    right = functions.FUNCTIONS[COUNT_DISTINCT]
    for factor, agrees in ((1.2, False), (0.85, False), (1.001, True)):
        wrong = lambda carried, f=factor: pa.array(np.asarray(right(carried)) * f)  # noqa: E731
        monkeypatch.setitem(functions.FUNCTIONS, COUNT_DISTINCT, wrong)
        assert bool(wide.verify(asked)) is agrees
    assert "too far" not in str(verification)


def test_verify_of_many_approximate_values() -> None:
    text = " + ".join(f"approx_quantile(price, 0.{digit})" for digit in range(1, 6))
    with pytest.raises(ct.EngineError, match="5 approximate aggregates is not verified"):
        tree().verify([{"measures": {"m": text}}])
    corners = {"m": "approx_quantile(cost, 0.1) * approx_count_distinct(price)", "t": "count(*)"}
    assert tree().verify([{"measures": corners}, {"measures": corners, "where": "price > 1000"}])


def test_decimals_of_all_scales_are_hashed_by_value() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"x": [Decimal("1.50"), Decimal("1.5"), Decimal("2"), None]})
    wide = graph.calibrate(
        {"d": "approx_count_distinct(x)", "e": "approx_count_distinct(x * 1.00)"}
    )
    assert wide.query().rows() == [{"d": 2, "e": 2}]
