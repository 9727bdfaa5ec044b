"""Products and powers of sums over several relations, against DuckDB on the joined rows."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.errors import ExpressionError

TABLES = {
    "a": pa.table({"k": [1, 1, 2, 3], "x": [1, 2, None, 4], "y": [0.5, 1.5, 2.5, -3.0]}),
    "b": pa.table({"k": [1, 2, 3, 3], "z": [3, 1, -2, 5]}),
    "d": pa.table({"k": [1, 2, 3], "w": [2, 7, -1]}),
}
COLUMNS = ["a.x", "a.y", "b.z", "d.w", "2", "1"]


@pytest.fixture(scope="module")
def wide() -> ct.WideTable:
    """Three relations that are joined."""
    graph = ct.JoinGraph("local")
    for name, table in TABLES.items():
        graph.add_relation(name, table)
    graph.add_join("a", "b", on="k")
    graph.add_join("a", "d", on="k")
    return graph.calibrate(progress=False)


def _expected(measure: str) -> float | None:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        query = f"SELECT ({measure})::DOUBLE FROM a JOIN b USING (k) JOIN d USING (k)"
        row = connection.execute(query).fetchone()
    assert row is not None
    value: float | None = row[0]
    return value


@st.composite
def _texts(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(COLUMNS))
    left, right = draw(_texts(depth - 1)), draw(_texts(depth - 1))
    if draw(st.integers(0, 5)) == 0:
        return f"({left}) ^ {draw(st.integers(1, 3))}"
    return f"({left} {draw(st.sampled_from('+-*'))} {right})"


@settings(max_examples=150)
@given(_texts(), st.sampled_from(["sum", "avg"]))
def test_a_polynomial_is_what_sql_says(wide: ct.WideTable, text: str, function: str) -> None:
    measure = f"{function}({text})"
    (row,) = wide.query(measures={"it": measure}).rows()
    expected = _expected(measure)
    assert row["it"] == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-6))


@pytest.mark.parametrize("power", [2, 5, 9])
@pytest.mark.parametrize("text", ["(a.x + b.z + d.w)", "(a.y - b.z * 2)"])
def test_powers_are_products(wide: ct.WideTable, text: str, power: int) -> None:
    product = "*".join([text] * power)
    asked = wide.query(measures={"p": f"sum({product})", "q": f"sum({text} ^ {power})"}).rows()
    expected = pytest.approx(_expected(f"sum({product})"))
    assert asked == [{"p": expected, "q": expected}]


def test_like_terms_are_one(wide: ct.WideTable) -> None:
    plan = wide.query(measures={"it": "sum((a.x + b.z) * (a.x + b.z) * (a.x + b.z))"}).plan
    assert len({a for step in plan.steps for send in step.sends for a in send.aggregates}) <= 5


def test_what_is_too_large(wide: ct.WideTable) -> None:
    with pytest.raises(ExpressionError, match="more than 256 products"):
        wide.query(measures={"it": "sum((a.x + a.y * b.z + d.w + b.z + d.w * a.x) ^ 12)"})


@pytest.mark.parametrize("text", ["(a.x + b.z) ^ 65", "(a.x + b.z) ^ 0.5", "(a.x + b.z) ^ d.w"])
def test_what_cannot_be_multiplied_out(wide: ct.WideTable, text: str) -> None:
    """It is carried, as it is; only its sum is."""
    assert wide.plan(measures={"it": f"sum({text})"}).parts[1].carries.endswith(" for sum")
    with pytest.raises(ExpressionError, match="cannot be split"):
        wide.query(measures={"it": f"var_pop({text})"})
