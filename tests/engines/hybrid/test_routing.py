"""Where the hybrid engine computes: a choice by sizes alone."""

from __future__ import annotations

import pytest

from calitree.engines.hybrid.routing import Limits, Part, Place, Route, Way, route_of

LIMITS = Limits(in_process=1000, broadcast=100, collect=500)
FACT = Part(Place.FILES, True, "sales", 9_000_000, 50_000)
TABLE = Part(Place.SPARK, True, "sales", 9_000_000, 50_000)
SMALL = Part(Place.HERE, True, "stores", 10, 90)
MESSAGE = Part(Place.HERE, False, "a message here", 5, 60)
LARGE_MESSAGE = Part(Place.SPARK, False, "a message", 7_000, 900)


@pytest.mark.parametrize(
    ("parts", "outputs", "columns", "expected", "why"),
    [
        ([SMALL, MESSAGE], 1, 0, Way.HERE, ""),
        ([], 1, 0, Way.HERE, ""),
        ([FACT, MESSAGE], 3, 4, Way.SPLITS, "sales has 9,000,000 rows"),
        (
            [FACT, MESSAGE, MESSAGE],
            3,
            4,
            Way.SQL,
            "messages of 120 bytes are more than the 100 bytes that go with tasks",
        ),
        ([FACT, LARGE_MESSAGE], 1, 2, Way.SQL, "a message of 7,000 rows has stayed on Spark"),
        ([FACT, SMALL], 1, 2, Way.SQL, "sales, stores share a bag, and not all of them fit here"),
        (
            [TABLE, MESSAGE],
            5,
            6,
            Way.ROWS,
            "5 messages of 6 columns of sales in one pass cost less than 5 queries",
        ),
        (
            [TABLE, MESSAGE],
            1,
            2,
            Way.SQL,
            "1 message of 2 columns of sales: a query costs less than handing over the rows",
        ),
    ],
)
def test_routes(parts: list[Part], outputs: int, columns: int, expected: Way, why: str) -> None:
    found = route_of(parts, outputs, columns, LIMITS)
    assert (found.way, found.why) == (expected, why)
    assert (found.scanned is not None) == (expected in (Way.SPLITS, Way.ROWS))


def test_as_a_plan_says_it() -> None:
    assert str(Route(Way.HERE)) == "here"
    assert str(Route(Way.SQL, "it is large")) == "by Spark SQL: it is large"
