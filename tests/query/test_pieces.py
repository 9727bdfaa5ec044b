"""Choices across relations as disjoint pieces of the rows: what a measure is compiled to."""

from __future__ import annotations

import pytest

import calitree as ct
from tests.query.test_aggregates import compiled, shown

SPLIT = {
    "sum(case when s = 'p' then y else 0 end)": {
        "sum a: CASE WHEN s = 'p' THEN 1 END, b: y",
        "sum a: CASE WHEN NOT ((s = 'p') IS TRUE) THEN 1 END",
        "sum a: CASE WHEN s = 'p' THEN 1 END",
    },
    "count(*) filter (where x > 1 or y > 1)": {
        "sum a: CASE WHEN x > 1 THEN 1 END",
        "sum a: CASE WHEN NOT ((x > 1) IS TRUE) THEN 1 END, b: CASE WHEN y > 1 THEN 1 END",
    },
    "count(*) filter (where not (x > 1 or y > 1))": {
        "sum a: CASE WHEN NOT (x > 1) THEN 1 END, b: CASE WHEN NOT (y > 1) THEN 1 END"
    },
    "max(coalesce(n, y))": {
        "max a: CASE WHEN NOT (n IS NULL) THEN n END",
        "max a: CASE WHEN NOT ((NOT (n IS NULL)) IS TRUE) THEN 0 END, b: y",
    },
}


@pytest.mark.parametrize("text", SPLIT)
def test_split(text: str) -> None:
    measure = compiled(text)
    assert not measure.folds
    assert set(map(shown, measure.aggregates)) == SPLIT[text]


CARRIED = {
    "sum(x) filter (where x > y)": ["SUM(x) where x > y"],
    "max(x * z)": ["x * z for max"],
    "avg(abs(x - y))": ["ABS(x - y) for sum", "ABS(x - y) for count"],
    "sum(case when x > y then 1 end)": ["CASE WHEN x > y THEN 1 END for sum"],
    "min(s) filter (where y > 1)": ["s for min"],
    "count(distinct s)": ["s for count of distinct values"],
}


@pytest.mark.parametrize("text", CARRIED)
def test_carried(text: str) -> None:
    measure = compiled(text)
    assert not measure.aggregates
    assert list(map(str, measure.folds)) == CARRIED[text]


def test_too_many_cases() -> None:
    branches = " ".join(f"when x = {i} then y" for i in range(70))
    with pytest.raises(ct.ExpressionError, match="more than 64 cases by relation"):
        compiled(f"sum(case {branches} else z end)")
