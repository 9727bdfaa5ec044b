"""Where the hybrid engine computes: a choice by sizes alone."""

from __future__ import annotations

import pytest

from calitree.engines.hybrid.routing import InputStats, Limits, Location, Route, Strategy, route_of

LIMITS = Limits(in_process=1000, broadcast=100, collect=500)
FACT = InputStats(Location.FILES, True, "sales", 9_000_000, 50_000)
TABLE = InputStats(Location.SPARK, True, "sales", 9_000_000, 50_000)
SMALL = InputStats(Location.LOCAL, True, "stores", 10, 90)
MESSAGE = InputStats(Location.LOCAL, False, "a message here", 5, 60)
LARGE_MESSAGE = InputStats(Location.SPARK, False, "a message", 7_000, 900)


@pytest.mark.parametrize(
    ("inputs", "outputs", "columns", "expected", "why"),
    [
        ([SMALL, MESSAGE], 1, 0, Strategy.LOCAL, ""),
        ([], 1, 0, Strategy.LOCAL, ""),
        ([FACT, MESSAGE], 3, 4, Strategy.TASKS_ON_FILES, "sales has 9,000,000 rows"),
        (
            [FACT, MESSAGE, MESSAGE],
            3,
            4,
            Strategy.SQL,
            "messages of 120 bytes are more than the 100 bytes that go with tasks",
        ),
        ([FACT, LARGE_MESSAGE], 1, 2, Strategy.SQL, "a message of 7,000 rows has stayed on Spark"),
        (
            [FACT, SMALL],
            1,
            2,
            Strategy.SQL,
            "sales, stores share a bag, and not all of them fit here",
        ),
        (
            [TABLE, MESSAGE],
            5,
            6,
            Strategy.TASKS_ON_ROWS,
            "5 messages of 6 columns of sales in one pass cost less than 5 queries",
        ),
        (
            [TABLE, MESSAGE],
            1,
            2,
            Strategy.SQL,
            "1 message of 2 columns of sales: a query costs less than handing over the rows",
        ),
    ],
)
def test_routes(
    inputs: list[InputStats], outputs: int, columns: int, expected: Strategy, why: str
) -> None:
    route = route_of(inputs, outputs, columns, LIMITS)
    assert (route.strategy, route.why) == (expected, why)
    assert (route.scanned is not None) == (
        expected in (Strategy.TASKS_ON_FILES, Strategy.TASKS_ON_ROWS)
    )


def test_as_a_plan_says_it() -> None:
    assert str(Route(Strategy.LOCAL)) == "here"
    assert str(Route(Strategy.SQL, "it is large")) == "by Spark SQL: it is large"
