"""Random questions at a grain, and the de-duplicated SQL that DuckDB answers them by.

Tables get a row id for the oracle only. It takes the distinct pairs of a group and a row of the grain, and
aggregates these.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.apps.verify.plain import DEFINITIONS, widened_view
from tests.support.databases import Database, connected, predicates, simple_predicate

TEXTS = (
    "count(*)",
    "count({c})",
    "sum({n})",
    "sum({n})",
    "avg({n})",
    "max({c})",
    "max(coalesce({n}, 1))",
    "bool_or({n} is null)",
    "median({n})",
    "count(distinct coalesce({n}, 1))",
    "sum({n} * {n2})",
    "sum({n} + {n2}) / count(*)",
    "stddev_pop({n})",
    "covar_samp({n}, {n2})",
    "sum({m})",
    "sum({n}) filter (where {p})",
)

KEYWORDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


class Asked(NamedTuple):
    """A question: groups, a filter, and measures with the relations of their grains (none: each joined row)."""

    group_by: list[str]
    where: str
    measures: list[tuple[str, tuple[str, ...]]]

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `WideTable.query`."""
        return {
            "group_by": self.group_by,
            "where": self.where or None,
            "measures": {
                f"m{i}": ct.measure(text, grain=list(grain)) if grain else text
                for i, (text, grain) in enumerate(self.measures)
            },
        }


@st.composite
def grain_questions(draw: st.DrawFn, database: Database) -> Asked:
    """Groups and filters anywhere, measures at the grain of one relation, of several, or of none."""
    names = list(database.tables)
    columns = database.columns()
    numbers = database.payloads("x", "y", "f")
    groups = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    if len(numbers) > 1 and draw(st.integers(0, 5)) == 0:
        a, b = draw(st.permutations(numbers))[:2]
        groups = [*groups, f"coalesce({a}, 0) + {b}"]
    conditions = draw(st.lists(predicates(database, names), max_size=2))[draw(st.integers(0, 1)) :]
    if len(numbers) > 1 and draw(st.integers(0, 2)) == 0:
        a, b = draw(st.permutations(numbers))[:2]
        conditions.append(f"coalesce({a}, 0) < {b} + 3")
    measures = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.integers(0, 7))
        if shape == 0:
            measures.append(("count(*)", ()))
        elif shape == 1:
            several = tuple(draw(connected(database))[:2])
            measures.append((draw(grain_measures(database, several)), several))
        else:
            one = (draw(st.sampled_from(names)),)
            measures.append((draw(grain_measures(database, one)), one))
    return Asked(groups, " and ".join(f"({c})" for c in conditions), measures)


@st.composite
def grain_measures(draw: st.DrawFn, database: Database, grain: tuple[str, ...]) -> str:
    """A measure over the columns of the relations of a grain."""
    text = draw(st.sampled_from(TEXTS))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    own = [c for c in database.columns() if c.split(".")[0] in grain]
    numbers = [c for c in database.payloads("x", "y", "f") if c in own]
    money = [c for c in database.payloads("m") if c in own]
    plain = [c for c in own if not c.endswith(".b")]
    if ("{n" in text and not numbers) or ("{m}" in text and not money) or not plain:
        return "count(*)"
    return text.format(
        c=rng.choice(plain),
        n=rng.choice(numbers or [""]),
        n2=rng.choice(numbers or [""]),
        m=rng.choice(money or [""]),
        p=simple_predicate(database, rng.choice(own), rng),
    )


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for definition in DEFINITIONS:
        connection.execute(definition)
    return connection


def joined_text(database: Database, conditions: tuple[str, ...]) -> str:
    """FROM … WHERE: the joins in the order of their declaration, then those that close cycles."""
    texts, parts = {n: n for n in database.tables}, {n: {n} for n in database.tables}
    hows = database.hows or ("inner",) * len(database.joins)
    for (left, right, on), how in zip(database.joins, hows, strict=True):
        second = texts[right] if texts[right] == right else f"({texts[right]})"
        tests = " AND ".join(f"{left}.{a} = {right}.{b}" for a, b in on.items())
        both = parts[left] | parts[right]
        texts |= dict.fromkeys(both, f"{texts[left]} {KEYWORDS[how]} {second} ON {tests}")
        parts |= dict.fromkeys(both, both)
    closing = [
        f"{left}.{a} = {right}.{b}" for left, right, on in database.closing for a, b in on.items()
    ]
    where = [*closing, *(f"({c})" for c in conditions)]
    return f"FROM {texts[next(iter(database.tables))]} WHERE {' AND '.join(where) or 'true'}"


def grain_oracle(
    database: Database, asked: Asked, conditions: tuple[str, ...] = ()
) -> list[pa.Table]:
    """For each measure, its groups and values."""
    connection = duck()
    for name, table in database.tables.items():
        given = table.append_column("rid", pa.array(range(table.num_rows), pa.int64()))
        connection.register(f"{name} here", given)
        connection.execute(widened_view(name, f'"{name} here"', given.schema))
    where = (*conditions, *([asked.where] if asked.where else []))
    source = joined_text(database, where)
    groups = [f"({text}) AS g{i}" for i, text in enumerate(asked.group_by)]
    keys = [f"g{i}" for i in range(len(groups))]
    answers = []
    for text, grain in asked.measures:
        if not grain:
            inner = f"SELECT {', '.join([*groups, '1 AS one'])} {source}"
            value = text
        else:
            own = [c for n in grain for c in [*database.tables[n].column_names, "rid"]]
            owners = [n for n in grain for _ in [*database.tables[n].column_names, "rid"]]
            chosen = [f"{n}.{c} AS {n}_{c}" for n, c in zip(owners, own, strict=True)]
            inner = f"SELECT DISTINCT {', '.join([*groups, *chosen])} {source}"
            value = text
            for n in grain:
                value = value.replace(f"{n}.", f"{n}_")
            present = " AND ".join(f"{n}_rid IS NOT NULL" for n in grain)
            inner = f"SELECT * FROM ({inner})"
            value = _present(value, present)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        sql = f"SELECT {', '.join([*keys, f'({value}) AS value'])} FROM ({inner}){by}"
        answers.append(connection.sql(sql).to_arrow_table())
    return answers


def _present(text: str, condition: str) -> str:
    """Each aggregate of a measure over the rows where the relation of its grain is not NULL."""
    if " filter (where " in text:
        return text.replace(" filter (where ", f" filter (where {condition} and ")
    return " / ".join(f"{call} FILTER (WHERE {condition})" for call in text.split(" / "))


def assert_grain(
    wide: ct.WideTable,
    database: Database,
    asked: Asked,
    conditions: tuple[str, ...] = (),
    refusals: tuple[str, ...] = (),
) -> bool:
    """Whether it is answered, which is as DuckDB does; else it is refused for one of these reasons."""
    try:
        result = wide.query(**asked.arguments)
    except ct.QueryError as error:
        assert any(text in str(error) for text in refusals), error
        return False
    ours = result.arrow()
    keys = len(asked.group_by)
    for i, expected in enumerate(grain_oracle(database, asked, conditions)):
        own = ours.select([*range(keys), keys + i])
        difference = compare(own, expected, keys)
        assert not difference, f"{asked}: {asked.measures[i]}: {difference}\n{result.plan}"
    return True


def changed(
    database: Database, name: str, rng: random.Random
) -> tuple[Database, dict[str, pa.Table]]:
    """The database after some rows of a relation have gone and come, and these."""
    table = database.tables[name]
    rows = list(range(table.num_rows))
    rng.shuffle(rows)
    gone = sorted(rows[: rng.randint(0, min(3, len(rows)))])
    came = [rng.randrange(table.num_rows) for _ in range(rng.randint(0, 3))] if rows else []
    kept = [row for row in range(table.num_rows) if row not in gone]
    insert, delete, rest = (table.take(pa.array(at, pa.int64())) for at in (came, gone, kept))
    after = replace(database, tables={**database.tables, name: pa.concat_tables([rest, insert])})
    return after, {"insert": insert, "delete": delete}
