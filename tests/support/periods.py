"""Sales at ends of months, and their comparisons with other times by DuckDB, on the join really built."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import calitree as ct
from tests.support.oracle import duck

DAYS = [
    *(date(2012, 1, 28), date(2012, 1, 31), date(2012, 2, 28), date(2012, 2, 29)),
    *(date(2012, 3, 1), date(2012, 3, 28), date(2012, 3, 30), date(2012, 12, 31)),
    *(date(2013, 1, 1), date(2013, 1, 28), date(2013, 1, 29), date(2013, 1, 31)),
    *(date(2013, 2, 28), date(2013, 3, 28), date(2013, 3, 30), date(2013, 3, 31), None),
]
"""The days of a calendar: ends of months, a leap day, and one that is not known."""

MEASURES = {"n": "count(*)", "s": "sum(price)", "m": "avg(price)", "top": "max(price)"}
ADDED = ("n", "s")
"""The measures that are 0 where there is no row."""

Sales = list[tuple[int | None, int | None, int | None]]
"""Each with the number of its day, its store and its price."""


def wide_of(engine: Any, sales: Sales) -> ct.WideTable:
    """The join of sales with their days and stores."""
    graph = ct.JoinGraph(engine=engine)
    for name, table in tables(sales).items():
        graph.add_relation(name, table)
    graph.add_join("sales", "dates", on={"date": "id"})
    graph.add_join("sales", "stores", on={"store": "id"})
    return graph.calibrate(MEASURES)


def tables(sales: Sales) -> dict[str, pa.Table]:
    dates, stores, prices = zip(*sales, strict=True) if sales else ((), (), ())
    return {
        "sales": pa.table(
            {
                "date": pa.array(dates, pa.int64()),
                "store": pa.array(stores, pa.int64()),
                "price": pa.array(prices, pa.int64()),
            }
        ),
        "dates": pa.table({"id": range(len(DAYS)), "day": pa.array(DAYS, pa.date32())}),
        "stores": pa.table({"id": [0, 1, 2], "city": ["Quito", None, "Loja"]}),
    }


@st.composite
def sales_at_days(draw: st.DrawFn) -> Sales:
    """Some sales, or none, on most of the days."""
    rng = random.Random(draw(st.integers(0, 1 << 20)))
    days = [*range(len(DAYS)), None]
    stores, prices = [0, 1, 2, 9], [None, -3, 0, 1, 2, 5]
    size = draw(st.sampled_from([0, 1, 20, 60]))
    return [(rng.choice(days), rng.choice(stores), rng.choice(prices)) for _ in range(size)]


@dataclass(frozen=True)
class Asked:
    """A question whose texts have `{d}` where the day stands, and how it is compared."""

    group: str
    cities: bool
    time_filter: str
    other_filter: str
    period: str

    @property
    def group_by(self) -> list[str]:
        groups = [self.group.format(d="day")] if self.group else []
        return [*groups, *(["city"] if self.cities else [])]

    @property
    def where(self) -> str | None:
        conditions = [self.time_filter.format(d="day"), self.other_filter]
        return " and ".join(f"({text})" for text in conditions if text) or None

    @property
    def by_value(self) -> bool:
        """Whether groups are compared by their values, less the period."""
        return self.group == "{d}" or self.group.startswith("date_trunc")


PERIODS = {
    "{d}": ["1 month", "1 year", "-1 month", "1 month 2 days"],
    "date_trunc('month', {d})": ["1 month", "-2 years"],
    "date_trunc('day', {d})": ["1 month"],
    "year({d})": ["1 year", "2 months"],
    "month({d})": ["1 month"],
    "": ["1 year", "1 month", "31 days"],
}
TIME_FILTERS = [
    "year({d}) = 2013",
    "{d} between date '2013-02-01' and date '2013-03-31'",
    "{d} >= '2013-03-30'",
    "{d} < '2013-03-31' and {d} > '2012-02-28'",
    "{d} >= '2013-01-01' and {d} <= '2013-02-28'",
    "'2013-01-28' <> {d}",
    "{d} in ('2013-01-31', '2013-02-28', '2012-02-29') or month({d}) = 3",
]


OTHER_FILTERS = ["", "price > 0", "city is null or price < 4"]


def all_comparisons() -> list[Asked]:
    """Each group with each of its periods and each filter on the time."""
    return [
        Asked(group, at % 2 == 0, time_filter, OTHER_FILTERS[at % 3], period)
        for group, periods in PERIODS.items()
        for period in periods
        for at, time_filter in enumerate(_filters(group))
    ]


@st.composite
def comparisons(draw: st.DrawFn) -> Asked:
    group = draw(st.sampled_from(list(PERIODS)))
    return Asked(
        group,
        draw(st.booleans()),
        draw(st.sampled_from(_filters(group))),
        draw(st.sampled_from(OTHER_FILTERS)),
        draw(st.sampled_from(PERIODS[group])),
    )


def _filters(group: str) -> list[str]:
    return ["", *TIME_FILTERS] if group else TIME_FILTERS


def compared(sales: Sales, asked: Asked) -> pa.Table:
    """The comparison by DuckDB: two queries on the join, joined on the groups."""
    build(sales)
    return duck().sql(_text(asked)).to_arrow_table()


_built: list[Sales] = []


def build(sales: Sales) -> None:
    """Give DuckDB the join, as `sold`."""
    if _built and _built[0] is sales:
        return
    for name, table in tables(sales).items():
        duck().register(name, table)
    duck().execute(
        "CREATE OR REPLACE TEMP TABLE sold AS SELECT price, city, day FROM sales "
        "JOIN dates ON date = dates.id JOIN stores ON store = stores.id"
    )
    _built[:] = [sales]


def _text(asked: Asked) -> str:
    period = f"interval '{asked.period}'"
    moved = f"cast(day + {period} as date)"
    is_day = asked.by_value and "month" not in asked.group
    group = asked.group or "0"
    city = "city" if asked.cities else "0"
    other = f"({asked.other_filter or 'true'})"
    condition = asked.time_filter or "true"
    # A day is compared with all of another day, whatever the filter makes of that: it holds for the first.
    earlier_filter = "true" if is_day else condition.format(d=moved)
    earlier_group = group.format(d="day" if asked.by_value else moved)
    dtype = "date" if asked.group == "{d}" else "timestamp"
    then, reached = "n.g", "b.g"
    only_before = "true"
    if asked.by_value:
        then, reached = (
            f"cast(n.g - {period} as {dtype})",
            f"cast(b.g + {period} as {dtype})",
        )
        only_before = (
            f"({condition.format(d=reached)}) and cast({reached} - {period} as {dtype}) = b.g"
        )
        only_before = only_before if is_day else f"cast({reached} - {period} as {dtype}) = b.g"
    measures = ", ".join(f"{text} AS {name}" for name, text in MEASURES.items())
    known = "day is not null" if asked.group or asked.time_filter else "true"
    having = "" if asked.group_by else " HAVING true"
    by = "GROUP BY ALL" if asked.group_by else ""
    keys = f"{group.format(d='day')} AS g, {city} AS c," if asked.group_by else "0 AS g, 0 AS c,"
    earlier_keys = f"{earlier_group} AS g, {city} AS c," if asked.group_by else keys
    shown = ", ".join(
        f"n.{name} AS {name}, b.{name} AS {name}_before, {_change(name)} AS {name}_change, "
        f"{_ratio(name)} AS {name}_ratio"
        for name in MEASURES
    )
    groups = [*(["g"] if asked.group else []), *(["c"] if asked.cities else [])]
    return f"""
        WITH now AS (
            SELECT {keys} {measures} FROM sold
            WHERE ({condition.format(d="day")}) AND {other} {by}{having}
        ), before AS (
            SELECT {earlier_keys} {measures} FROM sold
            WHERE ({earlier_filter}) AND {other} AND {known} {by}{having}
        ), pairs AS (
            SELECT n.g, n.c, {shown} FROM now n LEFT JOIN before b
            ON b.g = {then} AND b.c IS NOT DISTINCT FROM n.c
            UNION ALL
            SELECT {reached} AS g, b.c, {shown.replace("n.", "x.")} FROM before b
            LEFT JOIN (SELECT * FROM now WHERE false) x ON true
            WHERE {only_before} AND NOT EXISTS (
                SELECT 1 FROM now n WHERE n.g = {reached} AND n.c IS NOT DISTINCT FROM b.c)
        )
        SELECT {"".join(f"{name}, " for name in groups)}
        {", ".join(name + end for name in MEASURES for end in ("", "_before", "_change", "_ratio"))}
        FROM pairs
    """


def _change(name: str) -> str:
    if name in ADDED:
        return f"coalesce(n.{name}, 0) - coalesce(b.{name}, 0)"
    return f"n.{name} - b.{name}"


def _ratio(name: str) -> str:
    now = f"coalesce(n.{name}, 0)" if name in ADDED else f"n.{name}"
    return f"cast({now} as double) / nullif(cast(b.{name} as double), 0)"
