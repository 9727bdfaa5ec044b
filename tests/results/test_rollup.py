"""The groups of an answer summed up to fewer, and over all but one: the same as asked again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree import QueryError, semiring
from calitree.apps.explain.candidates import predicate_text
from calitree.apps.verify.check import compare
from calitree.query.custom.aggregate import aggregate
from tests.support.databases import databases, join_size, questions
from tests.support.engines import LOCAL, engine_named, spark_engine_named
from tests.support.scale import examples

MEASURES = {"n": "count(*)", "mean": "avg(x)", "least": "min(x)", "most": "max(name)"}


def wide_of(engine: Any, table: dict[str, Any], measures: Any = MEASURES) -> ct.WideTable:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("r", pa.table(table))
    return graph.calibrate(measures)


def check(engine: Any, data: st.DataObject) -> None:
    database = data.draw(databases(max_relations=4, max_rows=20), label="database")
    assume(join_size(database) <= 2_000)
    asked = data.draw(questions(database, exclusions=False), label="question")
    group_by = asked["group_by"]
    wide = database.graph(engine).calibrate({"n": "count(*)"})
    result = wide.query(**asked)
    fewer = data.draw(st.lists(st.sampled_from(group_by), unique=True) if group_by else st.just([]))
    summed = result.groups.by(fewer)
    difference = compare(
        summed.arrow(), wide.query(**{**asked, "group_by": fewer}).arrow(), len(fewer)
    )
    assert not difference, difference
    others = result.groups.without()
    assert len(others) == len(result)
    table = others.arrow()
    for i, row in enumerate(result.rows()[:4]):
        group = " and ".join(predicate_text(name, row[name]) for name in group_by) or "true"
        where = f"({group}) is not true"
        if "where" in asked:
            where = f"({asked['where']}) and ({where})"
        again = wide.query([], where, asked["measures"]).arrow()
        difference = compare(table.slice(i, 1).select(list(asked["measures"])), again, 0)
        assert not difference, f"without {group}: {difference}"


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data)


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, frames"])
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    table = {"g": ["a", "b", None], "x": [1, 2, None], "name": ["u", "v", "w"]}
    wide = wide_of(spark_engine_named(engine, spark, tmp_path), table)
    local = wide_of("local", table)
    for one in (wide, local):
        by_group = {row["g"]: row for row in one.query(["g"]).groups.without().rows()}
        assert by_group["b"] == {"g": "b", "n": 2, "mean": 1.0, "least": 1, "most": "w"}
        assert by_group[None] == {"g": None, "n": 2, "mean": 1.5, "least": 1, "most": "v"}


def test_groups_of_rows_apart_are_added() -> None:
    table = {"g": ["a", "b", None, "b"], "x": [1, 2, None, 5], "name": ["u", "v", "w", "t"]}
    wide = wide_of("local", table)
    for group_by in (["g"], []):
        low, rest = (wide.query(group_by, w).groups for w in ("x < 3", "(x < 3) is not true"))
        whole = wide.query(group_by).arrow()
        assert not compare(low.plus(rest).arrow(), whole, len(group_by))
        assert not compare(rest.plus(low).arrow(), whole, len(group_by))


def test_one_group_leaves_nothing() -> None:
    wide = wide_of("local", {"g": [1, 1], "x": [3, 4], "name": ["u", "v"]})
    nothing = {"n": 0, "mean": None, "least": None, "most": None}
    assert wide.query(["g"]).groups.without().rows() == [{"g": 1, **nothing}]
    assert wide.query().groups.without().rows() == [nothing]
    assert wide.query(where="x > 9").groups.rows() == [nothing]
    assert wide.query(["g"], where="x > 9").groups.without().rows() == []
    assert wide.query(["g"], where="x > 9").groups.by([]).rows() == [nothing]


def test_numbers_stay_exact_beyond_64_bits() -> None:
    table = {"g": [1, 2, 3], "x": [2**62, 2**62 + 1, 2**62 + 3]}
    (row, *_) = wide_of("local", table, {"s": "sum(x)"}).query(["g"]).groups.without().rows()
    assert row == {"g": 1, "s": 2**63 + 4}


def test_decimals_stay_exact() -> None:
    money = [Decimal("9999999999999999.01"), Decimal("-0.02"), Decimal("9999999999999999.05")]
    table = {"g": [1, 2, 3], "x": pa.array(money, pa.decimal128(20, 2))}
    groups = wide_of("local", table, {"s": "sum(x)"}).query(["g"]).groups
    exact = [Decimal("9999999999999999.03"), Decimal("19999999999999998.06")]
    assert [row["s"] for row in groups.without()][:2] == exact
    assert groups.by([]).rows() == [{"s": Decimal("19999999999999998.04")}]


def test_a_large_group_takes_no_digits_with_it() -> None:
    table = {"g": [1, 2, 3], "x": [0.1, 1e300, 0.2]}
    groups = wide_of("local", table, {"s": "sum(x)"}).query(["g"]).groups
    assert groups.without().rows()[1] == {"g": 2, "s": 0.1 + 0.2}
    infinite = {"g": [1, 2], "x": [float("inf"), 0.5]}
    groups = wide_of("local", infinite, {"s": "sum(x)", "m": "max(x)"}).query(["g"]).groups
    assert groups.without().rows()[0] == {"g": 1, "s": 0.5, "m": 0.5}


def test_a_semiring_of_several_components() -> None:
    mean = aggregate(semiring.AVG, {"r": {"n": "1", "s": "x"}}, final="s / n")
    there = aggregate(semiring.BOOL, {"r": "x > 3"})
    wide = wide_of("local", {"g": ["a", "a", "b"], "x": [1, 2, 6]}, {"mean": mean, "any": there})
    assert wide.query(["g"]).groups.without().rows() == [
        {"g": "a", "mean": 6.0, "any": True},
        {"g": "b", "mean": 1.5, "any": False},
    ]


def test_a_column_that_is_not_grouped_by() -> None:
    groups = wide_of("local", {"g": ["a"], "x": [1], "name": ["u"]}).query(["g"]).groups
    with pytest.raises(QueryError, match=r"'h' is not grouped by\. There are: g"):
        groups.by(["h"])
    assert groups.columns == ["g", "n", "mean", "least", "most"]
    assert "mean" in repr(groups)


def test_more_combinations_than_64_bits_tell_apart() -> None:
    """17 columns of 16 values each: 2 ** 68 combinations, of which there are 17."""
    columns = {f"c{i}": [*range(16), 0] for i in range(17)}
    columns["c0"][-1] = 1  # differs from the first row in the first column alone
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", pa.table(columns))
    groups = graph.calibrate({"n": "count(*)"}).query(list(columns)).groups
    assert [row["n"] for row in groups.by(list(columns))] == [1] * 17
