"""Sums that the local engine takes on a pass: exact ones, semirings of users, groups of NULL."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import AVG, MAX, SUM_PRODUCT, gram
from calitree.engines.local import LocalEngine
from calitree.engines.registry import engine_of
from calitree.sql.analysis import Resolved
from calitree.sql.parser import parse
from calitree.types import Kind
from tests.support.sales import database, graph, without

# -- numbers that do not fit -----------------------------------------------------------------------


def asked(fact: Mapping[str, Any], dimension: Mapping[str, Any], **measures: str) -> ct.Result:
    """By g, of two tables that join on k."""
    join_graph = ct.JoinGraph(LocalEngine(large=0))
    join_graph.add_relation("f", pa.table({**fact, "k": range(len(fact["g"]))}))
    join_graph.add_relation("d", pa.table({**dimension, "k": range(len(fact["g"]))}))
    join_graph.add_join("f", "d", on="k")
    return join_graph.calibrate(measures).query(group_by=["g"])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**62, 2**62, -(2**62), -1], pa.int64()),
        ([2**63 - 2, 1], pa.int64()),
        ([-(2**63) + 1, -1], pa.int64()),
        ([2**63 - 1, 1], pa.decimal128(38, 0)),
        ([2**62] * 3, pa.decimal128(38, 0)),
        ([-(2**63) + 1, -2], pa.decimal128(38, 0)),
    ],
)
def test_sums_of_integers_are_decimals_beyond_64_bits(
    values: list[int], dtype: pa.DataType
) -> None:
    ones = [1] * len(values)
    result = asked({"g": ones, "x": values}, {"y": ones}, s="sum(x)", p="sum(x * y)", n="count(*)")
    (row,) = result.rows()
    assert (row["s"], row["p"], row["n"]) == (sum(values), sum(values), len(values))
    assert result.arrow().schema.field("s").type == dtype
    assert result.exact


def test_only_the_product_that_does_not_fit_becomes_a_decimal() -> None:
    measures = {"p": "sum(x * y)", "s": "sum(x)", "y": "sum(y)", "n": "count(*)"}
    fact = {"g": [1, 1], "x": [2**60 + 1, 3]}
    result = asked(fact, {"y": [2**30, 2**61 + 1]}, **measures)
    (row,) = result.rows()
    assert row["p"] == (2**60 + 1) * 2**30 + 3 * (2**61 + 1)
    assert (row["s"], row["y"], row["n"]) == (2**60 + 4, 2**30 + 2**61 + 1, 2)
    types = [result.arrow().schema.field(name).type for name in measures]
    assert types == [pa.decimal128(38, 0), pa.int64(), pa.int64(), pa.int64()]
    assert result.exact


@pytest.mark.parametrize(("size", "exact"), [(10**19 - 1, True), (10**19, False)])
def test_only_a_sum_of_more_than_38_digits_becomes_a_double(size: int, exact: bool) -> None:
    unsigned = pa.array([size, 0, 1], pa.uint64())
    fact, dimension = {"g": [1, 2, 3], "x": unsigned}, {"y": unsigned}
    result = asked(fact, dimension, p="sum(x * y)", s="sum(x)")
    rows = {row["g"]: row for row in result.rows()}
    assert rows[1]["p"] == (size * size if exact else float(size * size))
    assert (rows[2]["p"], rows[3]["p"], rows[1]["s"]) == (0, 1, size)
    assert pa.types.is_decimal(result.arrow().schema.field("p").type) is exact
    assert result.exact is exact


@pytest.mark.parametrize("large", [0, 1000])
def test_nan_is_the_greatest_number(large: int) -> None:
    nan, inf = float("nan"), float("inf")
    given = {1: [nan, 1.0], 2: [nan, nan], 3: [inf, nan], 4: [-inf, inf], 5: [None, nan], 6: [None]}
    rows = [{"g": g, "x": x} for g, values in given.items() for x in values]
    join_graph = ct.JoinGraph(LocalEngine(large=large))
    join_graph.add_relation("f", rows)
    measures = {"low": "min(x)", "high": "max(x)", "s": "sum(x)", "n": "count(x)"}
    wide = join_graph.calibrate(measures)
    assert wide.verify([{"group_by": ["g"]}, {}])
    low = {row["g"]: row["low"] for row in wide.query(group_by=["g"]).rows()}
    assert (low[1], low[3], low[4], low[6]) == (1.0, inf, -inf, None)


def test_decimals_keep_their_scale() -> None:
    wide = graph(database(2500), LocalEngine(large=0)).calibrate()
    measures = {"s": "sum(paid)", "p": "sum(paid * cost)", "m": "max(cost)"}
    table = wide.query(group_by=["label"], measures=measures).arrow()
    assert [table.schema.field(name).type.scale for name in measures] == [2, 5, 3]


def test_a_product_of_more_digits_than_a_decimal_has_is_a_double() -> None:
    tiny = pa.array([Decimal("1E-37")], pa.decimal128(38, 37))
    measures = {"p": "sum(m * o)", "q": "sum(m * o * z)"}
    result = asked({"g": [1], "m": tiny}, {"o": tiny, "z": [2.0]}, **measures)
    (row,) = result.rows()
    assert (row["p"], row["q"]) == (pytest.approx(1e-74), pytest.approx(2e-74))
    assert not result.exact


def test_unsigned_keys_come_back_as_integers() -> None:
    join_graph = ct.JoinGraph(LocalEngine())
    join_graph.add_relation("f", pa.table({"k": pa.array([2**64 - 1], pa.uint64())}))
    (row,) = join_graph.calibrate().query(group_by=["k"]).rows()
    assert type(row["k"]) is int


@pytest.mark.parametrize("first", ["a", "b"])
def test_unsigned_keys_that_join_signed_ones(first: str) -> None:
    """Without the relation that has no sign, the keys of the other may be negative."""
    tables = {
        "a": pa.table({"k": pa.array([1, 2**40], pa.uint64())}),
        "b": pa.table({"k": pa.array([-1, 1], pa.int64())}),
    }
    join_graph = ct.JoinGraph(LocalEngine())
    for name in sorted(tables, key=lambda name: name != first):
        join_graph.add_relation(name, tables[name])
    join_graph.add_join(*sorted(tables, key=lambda name: name != first), on="k")
    wide = join_graph.calibrate()
    for relations, keys in ((["a", "b"], [1]), (["a"], [1, 2**40]), (["b"], [-1, 1])):
        table = wide.query(group_by=["k"], relations=relations).arrow()
        assert sorted(table.column("k").to_pylist()) == keys
        assert pa.types.is_integer(table.column("k").type)


# -- semirings of one's own ------------------------------------------------------------------------

ROUTE = ct.Semiring(
    "route", ("ways", "cost", "width"), ("sum", "min", "max"),
    ("l_ways * r_ways", "l_cost + r_cost", "case when l_width < r_width then l_width else r_width end"),
    (0, None, 0), (1, 0, 1000),
)  # fmt: skip
BEST = ct.Semiring("best", ("v",), ("max",), ("l_v * r_v",), (0,), (1,))
HALF = ct.Semiring("half", ("v",), ("sum",), ("2 * l_v * r_v",), (0,), (0.5,))
SIGNS = ct.Semiring(
    "signs", ("v", "n"), ("sum", "sum"), ("l_v * r_v - (-l_v) - l_v", "l_n * r_n"), (0, 0), (1, 1)
)
BY_UNITS = {"n": "1", "s": "units"}
OF_UNITS = {
    "n": "1",
    "s_x": "units",
    "s_y": "0",
    "q_x_x": "units * units",
    "q_x_y": "0",
    "q_y_y": "0",
}
OF_GUESTS = {"n": "1", "s_x": "0", "s_y": "guests", "q_x_x": "0", "q_x_y": "0", "q_y_y": "guests"}
Given = tuple[ct.Semiring, dict[str, Any], str | None]
OWN: dict[str, Given] = {
    "polynomial": (AVG, {"sales": BY_UNITS, "visits": {"n": "1", "s": "guests"}}, "s / n"),
    "of doubles": (AVG, {"sales": BY_UNITS, "oil": {"n": "1", "s": "oil"}}, "s"),
    "of decimals": (AVG, {"sales": {"n": "1", "s": "paid"}, "items": {"n": "1", "s": "cost"}}, "s"),
    "moments": (gram(("x", "y")), {"sales": OF_UNITS, "visits": OF_GUESTS}, "q_x_y - s_x * s_y / n"),
    "case": (
        ROUTE,
        {"sales": {"ways": "1", "cost": "units", "width": "abs(units)"},
         "items": {"ways": "2", "cost": "family", "width": "family"}},
        "ways + cost * 100 + width",
    ),
    "largest product": (BEST, {"sales": "abs(units)", "visits": "guests"}, None),
    "one that is no integer": (HALF, {"visits": "guests"}, None),
    "signs": (
        SIGNS,
        {"sales": {"v": "units", "n": "1"}, "visits": {"v": "guests", "n": "1"}},
        "v + n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("nulls", [False, True])
def test_semirings_of_ones_own(name: str, nulls: bool) -> None:
    tables = without(database(100, nulls), "offers")
    semiring, lifts, final = OWN[name]
    trees = [
        graph(tables, engine).calibrate({"m": ct.aggregate(semiring, lifts, final)})
        for engine in (LocalEngine(large=0), "reference")
    ]
    for asked in (
        {},
        {"group_by": ["label"]},
        {"group_by": ["city", "units"], "where": "family < 4"},
    ):
        ours, theirs = (wide.query(**asked).arrow() for wide in trees)
        assert not compare(ours, theirs, len(asked.get("group_by", ()))), asked


ABOVE = 2**63 + 9
OWN_AND_LARGE = {
    "polynomial": (AVG, {"f": {"n": "1", "s": "x"}, "d": {"n": "1", "s": "y"}}, "s"),
    "polynomial, of products": (AVG, {"f": {"n": "1", "s": "i"}, "d": {"n": "j", "s": "j"}}, "s"),
    "moments": (
        gram(("x",)),
        {"f": {"n": "1", "s_x": "x", "q_x_x": "x * 3"}, "d": {"n": "1", "s_x": "9", "q_x_x": "y"}},
        "q_x_x + s_x",
    ),
    "route": (
        ROUTE,
        {"f": {"ways": "x", "cost": "x", "width": "x"}, "d": {"ways": "2", "cost": "y", "width": "y"}},
        "ways + cost + width",
    ),
    "largest product": (BEST, {"f": "x", "d": "y"}, None),
    "largest sum": (MAX, {"f": "i", "d": "j"}, None),
}  # fmt: skip


@pytest.mark.parametrize("large", [0, 1000])
@pytest.mark.parametrize("name", OWN_AND_LARGE)
def test_semirings_of_ones_own_beyond_64_bits(name: str, large: int) -> None:
    unsigned = pa.array([ABOVE, 3, ABOVE + 2, 7, None], pa.uint64())
    far = [2**62, 2**62 + 7, 2**62 - 1, 2**61, 2**62]
    fact = {"k": [1, 1, 2, 2, 3], "g": [1, 2, 1, 1, 2], "x": unsigned, "i": far}
    dimension = {"k": [1, 2, 2, 3, 4], "y": pa.array([5, ABOVE, 1, 2, 4], pa.uint64()), "j": far}
    semiring, lifts, final = OWN_AND_LARGE[name]
    answers = []
    for engine in (LocalEngine(large=large), "reference"):
        join_graph = ct.JoinGraph(engine)
        join_graph.add_relation("f", pa.table(fact))
        join_graph.add_relation("d", pa.table(dimension))
        join_graph.add_join("f", "d", on="k")
        wide = join_graph.calibrate({"m": ct.aggregate(semiring, lifts, final)})
        result = wide.query(group_by=["g"])
        assert result.exact
        answers.append({row["g"]: row["m"] for row in result.rows()})
    assert answers[0] == answers[1]
    assert max(answers[0].values()) > 2**63


# -- contractions written by hand ------------------------------------------------------------------


def contracted(engine: Engine, rows: int) -> list[pa.Table]:
    """Outputs over f(a, b, c) and messages by (a, b) and by c, of which some outputs take none."""
    rng = np.random.default_rng(2)
    some = {n: [None if v == 3 else int(v) for v in rng.integers(0, 4, rows)] for n in "abc"}
    fact = engine.load("f", pa.table({**some, "x": rng.integers(0, 9, rows)}))
    pairs = engine.load("p", pa.table({"a": [0, 1, 1, None], "b": [0, 0, 2, 1], "y": [1, 2, 3, 4]}))
    ones = engine.load("o", pa.table({"c": [0, 1], "z": [5, 6]}))

    def lifted(at: int, name: str) -> Lifted:
        return Lifted(at, (parse(name, lambda table, column: Resolved(column, (), Kind.INTEGER)),))

    def message(table: Any, keep: tuple[str, ...], name: str) -> Input:
        given = Input(table, {n: n for n in (*keep, name)})
        columns = (Column("v", SUM_PRODUCT, (lifted(0, name),)),)
        (computed,) = engine.contract(Contraction((given,), (Output((0,), (), keep, columns),)))
        return Input(computed, {n: n for n in keep})

    inputs = (
        Input(fact, {n: n for n in "abcx"}),
        message(pairs, ("a", "b"), "y"),
        message(ones, ("c",), "z"),
    )
    own = (Column("s", SUM_PRODUCT, (lifted(0, "x"),)), Column("m", MAX, (lifted(0, "x"),)))
    outputs = [
        Output(taken, (), keep, columns)
        for taken in ((0,), (0, 1), (0, 2), (0, 1, 2))
        for keep in (("a", "b"), ("a",), ("b", "c"), ("a", "b", "c"), ())
        for columns in (own, ())
    ]
    return [engine.arrow(output) for output in engine.contract(Contraction(inputs, tuple(outputs)))]


@pytest.mark.parametrize("rows", [0, 1, 400])
def test_null_is_a_group_of_its_own_in_every_attribute(rows: int) -> None:
    """Also where the ids of (a, b), which do not tell what beside a NULL stands, are at hand."""
    tables = contracted(LocalEngine(large=0), rows), contracted(engine_of("reference"), rows)
    for at, (ours, theirs) in enumerate(zip(*tables, strict=True)):
        keys = [n for n in theirs.column_names if n in "abc"]
        order = [*keys, *(n for n in theirs.column_names if n not in keys)]
        assert not compare(ours.select(order), theirs.select(order), len(keys)), at
