"""Relations left out: what SQL gives for the joins that are declared between those that stay.

The SQL is written here, from the declaration: `FROM a, c WHERE a.k = c.k`. It shares nothing with the trees,
attributes and schemas that answer.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.calibration.branch import Branch
from calitree.query.annotation import Detach
from tests.support.engines import engine_named, spark_engine_named
from tests.support.scale import examples

Pair = tuple[str, str, str, str]
"""A relation and its column, and those that they are declared to be equal to."""


@cache
def duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@dataclass
class Declared:
    """Tables, and joins as they are declared."""

    tables: dict[str, pa.Table]
    joins: list[list[Pair]]

    def graph(self, engine: Any) -> ct.JoinGraph:
        graph = ct.JoinGraph(engine=engine)
        for name, table in self.tables.items():
            graph.add_relation(name, table)
        for pairs in self.joins:
            left, _, right, _ = pairs[0]
            graph.add_join(left, right, on={a: b for _, a, _, b in pairs})
        return graph

    def conditions(self, relations: Collection[str]) -> list[str]:
        """The declared equalities between these relations."""
        return [
            f"{left}.{a} = {right}.{b}"
            for pairs in self.joins
            for left, a, right, b in pairs
            if left in relations and right in relations
        ]

    def is_connected(self, relations: Collection[str]) -> bool:
        """Whether the joins between these relations connect them."""
        seen = {next(iter(relations))}
        for _ in relations:
            for pairs in self.joins:
                ends = {pairs[0][0], pairs[0][2]}
                if ends <= set(relations) and ends & seen:
                    seen |= ends
        return seen == set(relations)

    def sql(
        self, relations: Collection[str], group_by: list[str], where: str, measures: dict[str, str]
    ) -> str:
        conditions = self.conditions(relations) + ([f"({where})"] if where else [])
        columns = [f'{column} AS "{column}"' for column in group_by]
        columns += [f"{text} AS {name}" for name, text in measures.items()]
        text = f"SELECT {', '.join(columns)} FROM {', '.join(relations)}"
        text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return text + (f" GROUP BY {', '.join(group_by)}" if group_by else "")

    def expected(self, **question: Any) -> pa.Table:
        connection = duck()
        for name in question["relations"]:
            connection.register(name, self.tables[name])
        return connection.sql(self.sql(**question)).to_arrow_table()


def equal_columns(joins: list[list[Pair]], start: tuple[str, str]) -> set[tuple[str, str]]:
    """All columns that a column is equal to, through any others."""
    ends = [{(a, x), (b, y)} for pairs in joins for a, x, b, y in pairs]
    equal = {start}
    for _ in ends:
        equal |= {column for pair in ends if pair & equal for column in pair}
    return equal


def can_be_equal(joins: list[list[Pair]], pair: Pair) -> bool:
    """Whether two columns can be joined, such that none has two columns of one relation to be equal to."""
    left, a, right, b = pair
    equal = equal_columns(joins, (left, a)) | equal_columns(joins, (right, b))
    return left != right and len({name for name, _ in equal}) == len(equal)


def random_declaration(seed: int, count: int, nulls: float) -> Declared:
    """Chains, stars, composite keys and cycles, of which many columns have the same name."""
    rng = random.Random(seed)
    names = [f"r{i}" for i in range(count)]
    keys = {name: rng.sample(["t", "k", "u"], rng.choice([1, 2, 2, 3])) for name in names}
    joins: list[list[Pair]] = []

    def declare(left: str, right: str) -> bool:
        same = [c for c in keys[left] if c in keys[right] and rng.random() < 0.8]
        some = [(rng.choice(keys[left]), rng.choice(keys[right]))]
        pairs: list[Pair] = []
        for a, b in [(c, c) for c in same[: rng.choice([1, 1, 2])]] or some:
            pair = (left, a, right, b)
            if can_be_equal([*joins, pairs] if pairs else joins, pair):
                pairs.append(pair)
        if pairs:
            joins.append(pairs)
        return bool(pairs)

    for i in range(1, count):
        others = rng.sample(names[:i], i)
        if not any(declare(*rng.sample([names[i], other], 2)) for other in others):
            keys[names[i]].append("own")
            keys[others[0]].append(f"of_{names[i]}")
            joins.append([(others[0], f"of_{names[i]}", names[i], "own")])
    for _ in range(rng.choice([0, 1, 2, 3, 4])):
        declare(*rng.sample(names, 2))
    is_text = rng.random() < 0.2
    tables = {}
    for name in names:
        rows = rng.choice([0, 3, 5, 7, 7]) if rng.random() < 0.9 else 1
        columns = {c: random_keys(rng, rows, nulls, is_text) for c in keys[name]}
        columns["x"] = pa.array([rng.randint(-4, 9) for _ in range(rows)], pa.int64())
        tables[name] = pa.table(columns)
    return Declared(tables, joins)


def random_keys(rng: random.Random, rows: int, nulls: float, is_text: bool) -> pa.Array:
    codes = [None if rng.random() < nulls else rng.randrange(3) for _ in range(rows)]
    if is_text:
        return pa.array([None if code is None else f"v{code}" for code in codes], pa.string())
    return pa.array(codes, rng.choice([pa.int64(), pa.int64(), pa.int32()]))


def random_question(declared: Declared, rng: random.Random) -> dict[str, Any]:
    """A question to some relations, all of whose columns are written with their relation."""
    names = list(declared.tables)
    for _ in range(3):  # one that is answered is worth more than one that is refused
        left_out = rng.sample(names, rng.choice([0, 1, 1, 1, 2]))
        relations = [name for name in names if name not in left_out]
        if declared.is_connected(relations):
            break
    columns = [f"{r}.{c}" for r in relations for c in declared.tables[r].column_names if c != "x"]
    one, other = (rng.choice(columns) for _ in range(2))
    a, b = (rng.choice(relations) for _ in range(2))
    number = (
        "1"
        if declared.tables[one.split(".")[0]].schema.field(one.split(".")[1]).type != (pa.string())
        else "'v1'"
    )
    conditions = ["", "", f"{one} = {number}", f"{one} <> {other}", f"{one} is null or {a}.x > 2"]
    measures = ["count(*)", f"sum({a}.x * {b}.x)", f"max({other})", f"count({one})", f"avg({b}.x)"]
    return {
        "relations": relations,
        "group_by": rng.sample(columns, min(len(columns), rng.choice([0, 1, 1, 2]))),
        "where": rng.choice(conditions),
        "measures": {"n": "count(*)", **{f"m{i}": rng.choice(measures) for i in range(2)}},
    }


def check(wide: ct.WideTable, declared: Declared, question: dict[str, Any]) -> bool:
    """The answer is DuckDB's, or the relations are refused as no joins connect them.

    Returns whether columns that were equal are not any more.
    """
    asked = {**question, "where": question["where"] or None}
    relations = question["relations"]
    if not declared.is_connected(relations):
        with pytest.raises(ct.QueryError, match="No declared joins connect") as refused:
            wide.query(**asked)
        advice = str(refused.value).split("Add ")[1].split(", or declare")[0].split(", ")
        assert declared.is_connected([*relations, *advice])
        assert not set(advice) & set(relations)
        return False
    result = wide.query(**asked)
    difference = compare(result.arrow(), declared.expected(**question), len(question["group_by"]))
    text = declared.sql(**question)
    assert not difference, f"{text}: {difference}\n{declared.joins}\n{result.plan}\n{wide.tree}"
    return wide.snapshot.schema_of(result.query) is not wide.schema


def updates(declared: Declared, wide: ct.WideTable, rng: random.Random) -> Iterator[Declared]:
    """The same with rows that came and went in one relation, twice."""
    for _ in range(2):
        name = rng.choice(list(declared.tables))
        table = declared.tables[name]
        rows = [rng.randrange(len(table)) for _ in range(2)] if len(table) else []
        some = table.take(pa.array(rows, pa.int64()))
        bound = rng.randint(-2, 4)
        wide.update(name, insert=some, delete=f"x > {bound}")
        kept = [i for i, x in enumerate(table.column("x").to_pylist()) if x <= bound]
        changed = pa.concat_tables([table.take(pa.array(kept, pa.int64())), some])
        declared = Declared({**declared.tables, name: changed}, declared.joins)
        yield declared


@pytest.mark.parametrize("engine", ["reference", "local", "local, scanning"])
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(3, 5), nulls=st.sampled_from([0.0, 0.2]))
def test_random_relations_left_out(engine: str, seed: int, count: int, nulls: float) -> None:
    declared, rng = random_declaration(seed, count, nulls), random.Random(seed)
    graph = declared.graph(engine_named(engine))
    view = [f"r1.{c}" for c in declared.tables["r1"].column_names[:2]]
    empty = {"view": view} if rng.random() < 0.2 else {}
    tree = graph.hypertree(redundant=rng.random() < 0.2, empty=empty)
    pivot = random_question(declared, rng)
    columns = [f"{r}.{c}" for r, t in declared.tables.items() for c in t.column_names if c != "x"]
    wide = graph.calibrate(
        {"n": "count(*)"},
        group_by=rng.sample(columns, rng.choice([0, 0, 1])),
        where=pivot["where"] or None,
        tree=tree,
    )
    questions = [random_question(declared, rng) for _ in range(5)]
    apart = [check(wide, declared, question) for question in questions]
    event(f"columns fell apart: {any(apart)}")
    for changed in updates(declared, wide, rng):
        for question in questions[:4]:
            check(wide, changed, question)


def stored(wide: ct.WideTable) -> Iterator[tuple[object, object]]:
    """Each column of each message: what it depends on, and its rows."""
    for message, _ in wide.state.store.messages:
        rows = wide.engine.arrow(message.table).to_pylist()
        for aggregate, name in message.columns.items():
            values = [
                (tuple(sorted((a, str(v)) for a, v in row.items() if a[:1] != "c")), row[name])
                for row in rows
            ]
            yield (message.key, aggregate), sorted(values)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(3, 5))
def test_equal_keys_have_equal_messages_whatever_is_left_out(seed: int, count: int) -> None:
    declared, rng = random_declaration(seed, count, nulls=0.1), random.Random(seed)
    graph = declared.graph("reference")
    known: dict[object, object] = {}
    for _ in range(8):
        question = random_question(declared, rng)
        if declared.is_connected(question["relations"]):
            state = Branch.new(graph.schema, graph.engine, graph.hypertree(), {"n": "count(*)"})
            wide = ct.WideTable(state)
            wide.query(**{**question, "where": question["where"] or None})
            for key, values in stored(wide):
                assert known.setdefault(key, values) == values, key


# -- by hand ---------------------------------------------------------------------------------------


def weather() -> Declared:
    """Sales and weather have the day in common through days only, but the store by themselves."""
    return Declared(
        {
            "sales": pa.table(
                {
                    "day": [1, 1, 2, None, 2, 3],
                    "store": [1, 2, 1, 1, None, 2],
                    "x": [10, 20, 30, 40, 50, 60],
                }
            ),
            "days": pa.table({"day": [1, 2, 3, None], "x": [1, 1, 2, 2]}),
            "weather": pa.table(
                {"day": [1, 2, 2, None, 3], "store": [1, 1, 2, 1, 2], "x": [5, 6, 7, 8, 9]}
            ),
            "stores": pa.table({"store": [1, 2, 2, None], "x": [100, 200, 300, 400]}),
        },
        [
            [("sales", "day", "days", "day")],
            [("weather", "day", "days", "day")],
            [("sales", "store", "weather", "store")],
            [("weather", "store", "stores", "store")],
        ],
    )


WITHOUT_DAYS: list[dict[str, Any]] = [
    {
        "relations": ["sales", "weather", "stores"],
        "group_by": group_by,
        "where": where,
        "measures": {"n": "count(*)", "s": "sum(sales.x * stores.x)", "m": "max(weather.day)"},
    }
    for group_by in ([], ["sales.day"], ["sales.day", "weather.day"], ["weather.day", "stores.x"])
    for where in ("", "sales.day < weather.day", "weather.day is null")
]


def by_hand(engine: Any) -> tuple[Declared, ct.WideTable]:
    declared = weather()
    return declared, declared.graph(engine).calibrate({"n": "count(*)", "s": "sum(sales.x)"})


@pytest.mark.parametrize("engine", ["reference", "local", "local, scanning"])
def test_what_was_equal_only_through_a_relation_left_out(engine: str) -> None:
    declared, wide = by_hand(engine_named(engine))
    for question in WITHOUT_DAYS:
        check(wide, declared, question)
    both = {**WITHOUT_DAYS[0], "relations": list(declared.tables)}
    check(wide, declared, both)  # and with days the columns are equal
    assert wide.verify([{"relations": ["sales", "weather"], "group_by": ["weather.day"]}, {}])


@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_what_was_equal_only_through_a_relation_left_out_on_spark(
    engine: str, spark: Any, tmp_path: Path
) -> None:
    declared, wide = by_hand(spark_engine_named(engine, spark, tmp_path))
    for question in (WITHOUT_DAYS[4], WITHOUT_DAYS[7]):
        check(wide, declared, question)
    wide.update("weather", delete="x = 7")
    kept = declared.tables["weather"].take([0, 1, 3, 4])
    declared = Declared({**declared.tables, "weather": kept}, declared.joins)
    check(wide, declared, WITHOUT_DAYS[7])


def test_a_bare_name_is_of_a_relation_that_stays() -> None:
    _, wide = by_hand("reference")
    with pytest.raises(
        ct.SchemaError, match=r"'day' is ambiguous: it may be sales.day or weather.day"
    ):
        wide.query(["day"], relations=["sales", "weather"])
    with pytest.raises(ct.QueryError, match=r"days.day is not available: days is left out"):
        wide.query(["days.day"], relations=["sales", "weather"])
    question = {"relations": ["weather", "stores"], "measures": {"n": "count(*)"}}
    assert wide.query(["day"], **question).columns == ["day", "n"]


def test_messages_from_where_nothing_changes_are_reused() -> None:
    _, wide = by_hand("reference")
    plan = wide.plan(["sales.day"], relations=["sales", "weather", "stores"])
    assert "stores→weather" in map(str, plan.reused)
    plan = wide.plan(["weather.day", "sales.x"], relations=["sales", "weather"])
    assert (Detach("weather.day", ("weather",)), "weather") in plan.placed


def test_a_chain_is_cut_where_a_relation_is_left_out() -> None:
    names = {"a": "p", "b": "q", "c": "r", "d": "s"}
    declared = Declared(
        {name: pa.table({column: [1, 1, 2], "x": [1, 2, 3]}) for name, column in names.items()},
        [[("a", "p", "b", "q")], [("b", "q", "c", "r")], [("c", "r", "d", "s")]],
    )
    wide = declared.graph("reference").calibrate({"n": "count(*)"})
    with pytest.raises(ct.QueryError) as refused:
        wide.query(relations=["a", "c", "d"])
    assert str(refused.value) == (
        "No declared joins connect these relations without the ones left out: a; c, d. "
        "Add b, or declare a join between them with add_join."
    )
    question = {"group_by": [], "where": "", "measures": {"n": "count(*)"}}
    check(wide, declared, {**question, "relations": ["c", "d"]})
    joined = Declared(declared.tables, [*declared.joins, [("a", "p", "c", "r")]])
    wide = joined.graph("reference").calibrate({"n": "count(*)"})
    check(wide, joined, {**question, "relations": ["a", "c", "d"]})


def test_in_what_ifs_cubes_old_versions_and_saved_trees(tmp_path: Path) -> None:
    declared, wide = by_hand("local")
    question = WITHOUT_DAYS[7]
    check(wide, declared, question)
    less = declared.tables["sales"].take([1, 2, 3, 4, 5])
    supposed = Declared({**declared.tables, "sales": less}, declared.joins)
    what_if = wide.what_if(delete={"sales": "x = 10"})
    check(what_if, supposed, question)
    check(wide, declared, question)
    what_if.commit()
    check(wide, supposed, question)
    check(wide.at(0), declared, question)
    wide.save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", engine="local")
    for asked in WITHOUT_DAYS:
        check(opened, supposed, asked)
    cube = wide.cube(["sales.day", "stores.x"], k=2)
    arguments = {**WITHOUT_DAYS[3], "where": None}
    assert not compare(cube.query(**arguments).arrow(), supposed.expected(**WITHOUT_DAYS[3]), 1)


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_a_relation_added_later_joins_those_whose_columns_were_named(engine: str) -> None:
    declared, wide = by_hand(engine)
    event_days = pa.table({"day": [1, 2, 2, None], "x": [7, 8, 9, 1]})
    added = wide.augment(event_days, on={"days.day": "day"}, name="events")
    with pytest.raises(ct.QueryError, match=r"left out: sales; events\. Add days, or declare"):
        added.query(relations=["sales", "events"], measures={"n": "count(*)"})
    everything = Declared(
        {**declared.tables, "events": event_days},
        [*declared.joins, [("days", "day", "events", "day")]],
    )
    measures = {"n": "count(*)", "s": "sum(weather.x)"}
    for relations in (["days", "events", "weather"], ["sales", "weather", "days", "events"]):
        question = {"relations": relations, "group_by": ["weather.day"], "where": ""}
        check(added, everything, {**question, "measures": measures})
    named = wide.augment(event_days, on="day", name="events")  # by all that have a day
    everything.joins.extend(
        [[("sales", "day", "events", "day")], [("weather", "day", "events", "day")]]
    )
    for relations in (["sales", "events"], ["sales", "weather", "events"], ["sales", "weather"]):
        question = {"relations": relations, "group_by": ["sales.day"], "where": ""}
        check(named, everything, {**question, "measures": {"n": "count(*)"}})
