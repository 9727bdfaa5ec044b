"""The counts of `JoinGraph.check` against anti-joins and group-bys in DuckDB, on random tables."""

from __future__ import annotations

import datetime
import math
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree import EdgeSide
from calitree.integrity import key_counts
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named

TYPES = {
    "int": pa.int64(),
    "int32": pa.int32(),
    "float": pa.float64(),
    "decimal": pa.decimal128(9, 2),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "bool": pa.bool_(),
    "binary": pa.binary(),
}
PAIRS = [
    *((kind, kind) for kind in TYPES),
    ("int", "int32"),
    ("int32", "float"),
    ("float", "int"),
    ("decimal", "int"),
    ("float", "decimal"),
]


def value(kind: str, number: int) -> Any:
    if kind == "text":
        return ["a", "A", " a", "b", "é", "É", ""][number % 7]
    if kind == "float":
        return math.nan if number == 6 else float(number)
    if kind == "date":
        return datetime.date(2024, 1, 1) + datetime.timedelta(days=number)
    if kind == "timestamp":
        return datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number)
    if kind == "bool":
        return number % 2 == 0
    return bytes([number]) if kind == "binary" else number


Pairs = list[tuple[str, str]]
Case = tuple[pa.Table, pa.Table, int]
"""Two tables, and how many columns they join on."""


def tables(
    pairs: Pairs, sizes: tuple[int, int], numbers: int, nulls: float, rng: random.Random
) -> Case:
    """Tables of these sizes, with keys of these types that have so many values, and NULL."""

    def column(kind: str, rows: int) -> pa.Array:
        values = [
            None if rng.random() < nulls else value(kind, rng.randrange(numbers))
            for _ in range(rows)
        ]
        return pa.array(values, TYPES[kind])

    left, right = (
        pa.table({f"k{i}": column(pair[at], sizes[at]) for i, pair in enumerate(pairs)})
        for at in (0, 1)
    )
    return left, right, len(pairs)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pairs = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3))
    sizes = draw(st.tuples(st.integers(0, 25), st.integers(0, 25)))
    numbers, nulls = draw(st.integers(1, 7)), draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    return tables(pairs, sizes, numbers, nulls, random.Random(draw(st.integers(0, 2**32))))


def graph(engine: Any, left: pa.Table, right: pa.Table, columns: int) -> ct.JoinGraph:
    join_graph = ct.JoinGraph(engine)
    join_graph.add_relation("l", left)
    join_graph.add_relation("r", right)
    join_graph.add_join("l", "r", on=[f"k{i}" for i in range(columns)])
    return join_graph


class Oracle:
    """The same counts by plain SQL."""

    def __init__(self, left: pa.Table, right: pa.Table, columns: int) -> None:
        self.connection = duckdb.connect()
        self.connection.register("l", left)
        self.connection.register("r", right)
        names = [f"k{i}" for i in range(columns)]
        self.key = ", ".join(names)
        self.known = " AND ".join(f"{name} IS NOT NULL" for name in names)
        self.equal = " AND ".join(f"a.{name} = b.{name}" for name in names)

    def number(self, sql: str) -> int:
        ((number,),) = self.connection.execute(sql).fetchall()
        return int(number or 0)

    def orphans(self, ours: str, theirs: str) -> str:
        partner = f"SELECT 1 FROM {theirs} b WHERE {self.equal}"
        return f"SELECT * FROM {ours} a WHERE NOT EXISTS ({partner})"

    def side(self, ours: str, theirs: str) -> dict[str, float]:
        by_key = f"SELECT COUNT(*) AS n FROM {ours} WHERE {self.known} GROUP BY {self.key}"
        orphans = self.orphans(ours, theirs)
        keys = f"SELECT DISTINCT {self.key} FROM ({orphans}) WHERE {self.known}"
        partners = (
            f"SELECT COUNT(*) AS n FROM (SELECT row_number() OVER () AS i, * FROM {ours}) a "
            f"JOIN {theirs} b ON {self.equal} GROUP BY i"
        )
        matched = self.number(f"SELECT COUNT(*) FROM ({partners})")
        return {
            "rows": self.number(f"SELECT COUNT(*) FROM {ours}"),
            "keys": self.number(f"SELECT COUNT(*) FROM ({by_key})"),
            "most_rows": self.number(f"SELECT MAX(n) FROM ({by_key})"),
            "repeated_keys": self.number(f"SELECT COUNT(*) FROM ({by_key}) WHERE n > 1"),
            "null_rows": self.number(f"SELECT COUNT(*) FROM {ours} WHERE NOT ({self.known})"),
            "orphan_rows": self.number(f"SELECT COUNT(*) FROM ({orphans})"),
            "orphan_keys": self.number(f"SELECT COUNT(*) FROM ({keys})"),
            "mean_partners": self.joined / matched if matched else 0.0,
            "most_partners": self.number(f"SELECT MAX(n) FROM ({partners})"),
        }

    @property
    def joined(self) -> int:
        return self.number(f"SELECT COUNT(*) FROM l a JOIN r b ON {self.equal}")

    def frequencies(self, ours: str, theirs: str) -> list[int]:
        """How many rows the orphan keys have that have the most."""
        sql = (
            f"SELECT COUNT(*) FROM ({self.orphans(ours, theirs)}) WHERE {self.known} "
            f"GROUP BY {self.key} ORDER BY 1 DESC LIMIT 5"
        )
        return [row[0] for row in self.connection.execute(sql).fetchall()]


def compare(engine: Any, left: pa.Table, right: pa.Table, columns: int) -> None:
    checked, oracle = graph(engine, left, right, columns).check(), Oracle(left, right, columns)
    (edge,) = checked.edges
    for side, names in ((edge.left, ("l", "r")), (edge.right, ("r", "l"))):
        expected = oracle.side(*names)
        assert {name: getattr(side, name) for name in expected} == pytest.approx(expected)
        assert compare_examples(checked, side, oracle, names)
    assert edge.joined_rows == oracle.joined
    assert (not edge.joined_rows) == (not edge.matched_keys)


def compare_examples(
    checked: ct.GraphCheck, side: EdgeSide, oracle: Oracle, names: tuple[str, str]
) -> bool:
    """Whether the examples of orphans have as many rows as those with the most."""
    said = [
        f for f in checked.findings if f.kind == "orphans" and f"rows of {names[0]} " in f.message
    ]
    if not said:
        return not side.orphan_keys or any(f.kind == "no-match" for f in checked.findings)
    return [example.rows for example in said[0].examples] == oracle.frequencies(*names)


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
@given(cases())
@settings(max_examples=60)
def test_counts(engine: str, case: Case) -> None:
    compare(engine_named(engine), *case)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["reference", *LOCAL])
@given(cases())
@settings(max_examples=2_000)
def test_counts_many_times(engine: str, case: Case) -> None:
    compare(engine_named(engine), *case)


ON_SPARK_TOO: list[Pairs] = [
    [("int", "int32"), ("text", "text")],
    [("float", "float"), ("date", "date")],
]


@pytest.mark.parametrize("engine", ON_SPARK)
def test_counts_on_spark(engine: str, spark: Any, tmp_path: Path) -> None:
    chosen = spark_engine_named(engine, spark, tmp_path)
    rng = random.Random(17)
    for pairs in ON_SPARK_TOO:
        compare(chosen, *tables(pairs, (20, 9), 7, 0.1, rng))


# -- keys that are too many to collect -------------------------------------------------------------


def check_of_many(engine: Any, table: pa.Table) -> ct.GraphCheck:
    return graph(engine, table, pa.table({"k0": [0], "k1": ["x"]}), 2).check()


TIED = pa.table({"k0": [3, 3, 2, 2, 5, 5, 5, 0], "k1": ["b", "b", "c", "a", "d", "d", "d", "x"]})
"""One key with three rows, one with two, two with one."""


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (9, ["(5, 'd') (3)", "(3, 'b') (2)", "(2, 'a') (1)", "(2, 'c') (1)"]),
        (3, ["(5, 'd') (3)", "(3, 'b') (2)"]),
        (1, ["(5, 'd') (3)"]),
    ],
)
def test_the_most_frequent_of_many(
    engine: str, limit: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_counts, "MAX_COLLECTED_KEYS", limit)
    (orphans,) = check_of_many(engine_named(engine), TIED).at_least("warning")
    assert list(map(str, orphans.examples)) == expected
    assert (orphans.rows, orphans.keys) == (7, 4)


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
@pytest.mark.parametrize("kind", ["int", "text", "date", "decimal", "float", "timestamp"])
def test_the_least_of_many_that_are_equally_frequent(
    engine: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_counts, "MAX_COLLECTED_KEYS", 1)
    keys = pa.array([value(kind, number) for number in (0, 1, 3, 4, 5)], TYPES[kind])
    left = pa.table({"k0": keys.take([4, 2, 3, 1, 0]), "k1": [1, 2, 3, 4, 5]})
    right = pa.table({"k0": keys.slice(0, 1), "k1": [5]})
    checked = graph(engine_named(engine), left, right, 2).check()
    (orphans,) = (finding for finding in checked.findings if finding.kind == "orphans")
    least = min(v for v in keys.to_pylist()[1:])
    assert [(e.key[0], e.rows) for e in orphans.examples] == [(least, 1)]


@pytest.mark.parametrize("engine", ["spark", "hybrid, SQL"])
def test_few_of_many_keys_on_spark(
    engine: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_counts, "MAX_COLLECTED_KEYS", 1)
    chosen = spark_engine_named(engine, spark, tmp_path)
    (orphans,) = check_of_many(chosen, TIED.slice(2, 2)).findings
    assert list(map(str, orphans.examples)) == ["(2, 'a') (1)"]
