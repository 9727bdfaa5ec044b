"""Trees that change, against a model: plain rows for every version, asked in DuckDB.

Hypothesis chooses a graph, a pivot and how messages are maintained, then a sequence of updates, what-ifs,
commits, questions at any version, refreshes and savings. Whatever happens, an answer is that of
DuckDB on the join of the rows as they stand.
"""

from __future__ import annotations

import datetime
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import calitree as ct
from calitree.apps.verify.check import compare, same
from calitree.apps.verify.plain import attributes_of, query_sql, wide_sql
from calitree.calibration import revisions
from calitree.calibration.planning import staleness
from calitree.calibration.planning.plan import Plan
from calitree.calibration.state import MODES
from calitree.engines.api.signed import settled
from calitree.errors import ConflictError, UpdateError
from calitree.memory import history
from calitree.query.binder import Question
from calitree.wide_table import WideTable
from tests.support.databases import (
    PAYLOADS,
    Database,
    databases,
    join_size,
    key_value,
    payload_value,
    predicates,
    questions,
)
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.oracle import empty_bags
from tests.support.scale import examples

MAX_JOIN = 3_000
SEEDS = st.integers(0, 2**32 - 1)

Row = tuple[Any, ...]
State = dict[str, tuple[Row, ...]]
"""The rows of every relation at one version."""


@dataclass
class Known:
    """A tree, or a what-if, and what it should be at each of its versions."""

    wide: WideTable
    states: dict[int, State]
    origin: Known | None = None
    """Of a what-if: what it can be committed to; itself if that is in the past."""
    since: dict[str, int] = field(default_factory=dict)

    @property
    def now(self) -> State:
        return self.states[self.wide.version]

    @property
    def tokens(self) -> dict[str, int]:
        return tokens(self.wide)


def tokens(wide: WideTable) -> dict[str, int]:
    """The versions of the relations: what commits are in conflict about."""
    return {name: relation.revision for name, relation in wide.schema.relations.items()}


@dataclass(frozen=True)
class Step:
    """What an update is told, and the rows that are there afterwards."""

    arguments: dict[str, Any]
    rows: tuple[Row, ...]
    refused: bool = False


class Versions(RuleBasedStateMachine):
    """`engine` makes one for each sequence."""

    engine: Callable[[], Any]
    duckdb: duckdb.DuckDBPyConnection
    directory: Path
    can_save = False

    def __init__(self) -> None:
        super().__init__()
        self.known: list[Known] = []
        self.pending: list[tuple[Known, Future[Plan]]] = []
        self.constants = revisions.MERGE_RATIO, history.CHANGES_REMEMBERED, staleness.SENDING

    def teardown(self) -> None:
        for _, done in self.pending:
            done.result()
        revisions.MERGE_RATIO, history.CHANGES_REMEMBERED, staleness.SENDING = self.constants

    # -- the tree --------------------------------------------------------------------------------

    @initialize(data=st.data())
    def calibrate(self, data: st.DataObject) -> None:
        database = data.draw(
            databases(max_relations=5, max_rows=24).filter(lambda d: 0 < join_size(d) <= MAX_JOIN),
            label="database",
        )
        # With 0 parts of a relation are never put together, else almost always: tables are small.
        revisions.MERGE_RATIO = data.draw(st.sampled_from([0, 1, 4]), label="put together")
        history.CHANGES_REMEMBERED = data.draw(st.sampled_from([2, 2_048]), label="remembered")
        # With 0 messages are refreshed as if tables were large, else mostly computed.
        staleness.SENDING = data.draw(st.sampled_from([0, 0, 10_000]), label="sending")
        self.mode = data.draw(st.sampled_from(MODES[:1] * 2 + MODES), label="maintenance")
        self.database = database
        self.pivot = data.draw(questions(database, exclusions=False), label="pivot")
        self.asked = [{key: self.pivot.get(key) for key in ("group_by", "where")}]
        graph = database.graph(type(self).engine())
        wide = graph.calibrate(
            **self.pivot,
            tree=graph.hypertree(
                empty=data.draw(empty_bags(database), label="empty bags"),
                redundant=data.draw(st.booleans(), label="redundant"),
            ),
            memory_limit=data.draw(st.sampled_from([0, 2_000, 1 << 30]), label="memory"),
            maintenance=self.mode,
        )
        self.types = {name: table.schema for name, table in database.tables.items()}
        self.partners: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for left, right, on in database.joins + database.closing:
            for a, b in on.items():
                self.partners.setdefault((left, a), []).append((right, b))
                self.partners.setdefault((right, b), []).append((left, a))
        state = {n: tuple(map(as_row, t.to_pylist())) for n, t in database.tables.items()}
        self.known = [Known(wide, {0: state})]

    def some(self, data: st.DataObject) -> Known:
        """The tree itself as often as all what-ifs together."""
        options = self.known[:1] * max(1, len(self.known) - 1) + self.known[1:]
        return options[data.draw(st.integers(0, len(options) - 1), label="which")]

    def at(self, state: State) -> Database:
        tables = {name: self.table(name, rows) for name, rows in state.items()}
        return Database(tables, self.database.joins, self.database.closing)

    def table(self, name: str, rows: tuple[Row, ...]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) or [()] * len(self.types[name])
        arrays = [pa.array(c, t) for c, t in zip(columns, self.types[name].types, strict=True)]
        return pa.table(arrays, schema=self.types[name])

    def fits(self, state: State) -> bool:
        return join_size(self.at(state)) <= MAX_JOIN

    # -- changes ---------------------------------------------------------------------------------

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        """Some relations change often, others never."""
        known = self.some(data)
        names = sorted(known.now)
        chosen = data.draw(st.sampled_from(names[:1] * len(names) + names[1:3]), label="relation")
        self.update_one(known, chosen, data)

    @rule(data=st.data())
    def update_several(self, data: st.DataObject) -> None:
        """Several relations change between two questions."""
        known = self.some(data)
        names = data.draw(st.permutations(sorted(known.now)), label="relations")
        for name in names[: data.draw(st.sampled_from([1, 2, 2, 3]), label="so many")]:
            self.update_one(known, name, data)
        if data.draw(st.booleans(), label="refresh"):
            known.wide.refresh(progress=False)
        self.check(known.wide, known.now, self.question(data, known.now))

    def update_one(self, known: Known, name: str, data: st.DataObject) -> None:
        rng = random.Random(data.draw(SEEDS, label="seed"))
        verb = data.draw(
            st.sampled_from(
                ["insert", "insert", "delete", "delete", "both", "upsert", "all", "absent"]
            ),
            label="verb",
        )
        step = self.step(known.now, name, verb, rng, data)
        state = {**known.now, name: step.rows}
        if not self.fits(state):
            return
        before, was = known.wide.version, known.tokens
        if step.refused:
            with pytest.raises(UpdateError):
                known.wide.update(name, **step.arguments)
            assert (known.wide.version, known.tokens) == (before, was)
            return
        number = known.wide.update(name, **step.arguments)
        changed = known.tokens[name] != was[name]
        assert number == known.wide.version == before + changed
        assert changed or Counter(step.rows) == Counter(known.states[before][name])
        known.states[number] = state
        if self.mode == "eager" and known is self.known[0]:
            assert known.wide.is_calibrated

    def step(
        self, state: State, name: str, verb: str, rng: random.Random, data: st.DataObject
    ) -> Step:
        rows = state[name]
        if verb == "absent":
            return self.absent(state, name, rng)
        if verb == "upsert":
            return self.upsert(state, name, rng)
        arguments: dict[str, Any] = {}
        if verb in ("delete", "both", "all"):
            gone, what = self.delete(state, name, rng, data)
            rows = tuple((Counter(rows) - gone).elements())
            arguments["delete"] = what
        if verb == "all":
            step = self.upsert({**state, name: rows}, name, rng)
            arguments |= step.arguments
            if step.refused:
                return Step(arguments, state[name], refused=True)
            rows = step.rows
        if verb in ("insert", "both", "all"):
            came = tuple(self.row(state, name, rng) for _ in range(rng.choice([0, 1, 1, 2, 5])))
            if came and rng.random() < 0.3:
                came += came[:1]
            rows += came
            arguments["insert"] = self.given(name, came, rng)
        return Step(arguments, rows)

    def delete(
        self, state: State, name: str, rng: random.Random, data: st.DataObject
    ) -> tuple[Counter[Row], Any]:
        rows, how = state[name], rng.random()
        if how < 0.5:
            condition = data.draw(predicates(self.at(state), [name]), label="condition")
            return Counter(rows[i] for i in self.where(state, name, condition)), condition
        chosen = rng.sample(rows, min(len(rows), rng.choice([0, 1, 2, 4])))
        if how < 0.8:
            return Counter(chosen), self.given(name, tuple(chosen), rng)
        names = self.types[name].names
        by = sorted(rng.sample(range(len(names)), rng.randint(1, min(2, len(names)))))
        values = {tuple(row[i] for i in by) for row in chosen} | {(None,) * len(by)}
        if len(by) == len(names):
            values &= {tuple(row[i] for i in by) for row in chosen}
            return Counter(values), self.columns(name, by, values)
        gone = Counter(row for row in rows if tuple(row[i] for i in by) in values)
        return gone, self.columns(name, by, values)

    def absent(self, state: State, name: str, rng: random.Random) -> Step:
        """A row that is not there, or one more of it than there are."""
        rows = state[name]
        if rows and rng.random() < 0.5:
            lacking = rng.choice(rows)
            gone = (lacking,) * (rows.count(lacking) + 1)
        else:
            gone = (self.row(state, name, rng), *rows[:1])
            if not Counter(gone) - Counter(rows):
                return Step({"delete": self.given(name, (), rng)}, rows)
        return Step({"delete": self.given(name, gone, rng)}, rows, refused=True)

    def upsert(self, state: State, name: str, rng: random.Random) -> Step:
        rows, names = state[name], self.types[name].names
        arguments: dict[str, Any] = {}
        if rng.random() < 0.4:
            unique = [by for by in self.joined(name) if is_unique(rows, by)]
            if len(unique) != 1:
                one = (self.row(state, name, rng),)
                return Step({"upsert": self.given(name, one, rng)}, rows, refused=True)
            by = unique[0]
        else:
            by = tuple(rng.sample(range(len(names)), rng.randint(1, min(2, len(names)))))
            arguments["key"] = [names[i] for i in by]
        came: tuple[Row, ...] = ()
        for _ in range(rng.choice([1, 1, 2, 4])):
            row = self.row(state, name, rng)
            if rows and rng.random() < 0.6:
                there = rng.choice(rows)
                row = tuple(there[i] if i in by else v for i, v in enumerate(row))
            came += (row,)
        keys = [tuple(row[i] for i in by) for row in came]
        arguments["upsert"] = self.given(name, came, rng)
        if len(set(keys)) < len(keys):
            return Step(arguments, rows, refused=True)
        rest = tuple(row for row in rows if tuple(row[i] for i in by) not in keys)
        return Step(arguments, rest + came)

    def joined(self, name: str) -> list[tuple[int, ...]]:
        """The columns of each join of a relation, each once."""
        place = self.types[name].get_field_index
        keys = []
        for left, right, on in self.database.joins + self.database.closing:
            if left == name:
                keys.append(tuple(map(place, on)))
            if right == name:
                keys.append(tuple(map(place, on.values())))
        return list(dict.fromkeys(keys))

    def row(self, state: State, name: str, rng: random.Random) -> Row:
        """A new row: of values that its columns have or are joined to, of others, and of NULLs."""
        nulls = rng.choice([0.0, 0.1, 0.3])
        values: list[Any] = []
        for i, attribute in enumerate(self.types[name]):
            there = [row[i] for row in state[name]]
            for other, column in self.partners.get((name, attribute.name), ()):
                there += [row[self.types[other].get_field_index(column)] for row in state[other]]
            if rng.random() < nulls:
                values.append(None)
            elif there and rng.random() < 0.7:
                values.append(rng.choice(there))
            else:
                values.append(new_value(attribute, rng))
        return tuple(values)

    def given(self, name: str, rows: tuple[Row, ...], rng: random.Random) -> Any:
        """Rows in one of the forms that users have them in."""
        table = self.table(name, rows)
        order = rng.sample(table.column_names, len(table.column_names))
        forms = [table, table.select(order), table.select(order).to_pylist(), table.to_pydict()]
        return rng.choice(forms if rows else forms[:2])

    def columns(self, name: str, by: list[int], values: set[Row]) -> pa.Table:
        fields = [self.types[name].field(i) for i in by]
        arrays = [pa.array([v[i] for v in values], f.type) for i, f in enumerate(fields)]
        return pa.table(arrays, schema=pa.schema(fields))

    def where(self, state: State, name: str, condition: str) -> list[int]:
        """The places of the rows that meet a condition."""
        passes = self.evaluated(state, name, f"({condition})")
        return [i for i, true in enumerate(passes) if true]

    def evaluated(self, state: State, name: str, expression: str) -> list[Any]:
        rows = self.table(name, state[name])
        rows = rows.append_column("place", pa.array(range(len(rows)), pa.int64()))
        self.duckdb.register(name, rows)
        values = self.duckdb.sql(f"SELECT {expression} FROM {name} ORDER BY place").fetchall()
        self.duckdb.unregister(name)
        return [value for (value,) in values]

    # -- supposing -------------------------------------------------------------------------------

    @precondition(lambda self: len(self.known) < 5)
    @rule(data=st.data())
    def what_if(self, data: st.DataObject) -> None:
        origin = self.some(data)
        number, is_past = origin.wide.version, data.draw(st.sampled_from([False, False, True]))
        base = origin.wide
        if is_past:
            number = data.draw(st.sampled_from(sorted(origin.states)), label="version")
            base = origin.wide.at(number)
        rng = random.Random(data.draw(SEEDS, label="seed"))
        state = dict(origin.states[number])
        supposed: dict[str, dict[str, Any]] = {"delete": {}, "update": {}, "insert": {}}
        for verb in supposed:
            for name in sorted(state):
                if rng.random() < 0.25:
                    change = self.supposing(state, name, verb, rng, data)
                    if change is not None and self.fits({**state, name: change[1]}):
                        supposed[verb][name], state[name] = change
        was = tokens(base)
        wide = base.what_if(**supposed)
        states = {number: origin.states[number], wide.version: state}
        self.known.append(Known(wide, states, None if is_past else origin, was))
        assert not is_past or base.version == number
        for name, version in tokens(wide).items():
            if version == was[name]:
                assert Counter(state[name]) == Counter(origin.states[number][name])

    def supposing(
        self, state: State, name: str, verb: str, rng: random.Random, data: st.DataObject
    ) -> tuple[Any, tuple[Row, ...]] | None:
        """What a what-if says of one relation, and its rows then."""
        rows = state[name]
        if verb == "delete":
            gone, what = self.delete(state, name, rng, data)
            return what, tuple((Counter(rows) - gone).elements())
        if verb == "insert":
            came = (self.row(state, name, rng),)
            return self.given(name, came, rng), rows + came
        if rng.random() < 0.3:
            step = self.upsert(state, name, rng)
            ok = not step.refused and "key" not in step.arguments
            return (step.arguments["upsert"], step.rows) if ok else None
        column = rng.choice(self.types[name].names)
        formula = rng.choice(FORMULAS.get(column, ["null"])).format(c=column)
        values = self.evaluated(state, name, formula)
        touched, what = list(range(len(rows))), cast(Any, {column: formula})
        if rng.random() < 0.6:
            condition = data.draw(predicates(self.at(state), [name]), label="condition")
            touched, what = self.where(state, name, condition), (what, condition)
        i = self.types[name].get_field_index(column)
        changed = list(rows)
        for at in touched:
            changed[at] = (*rows[at][:i], values[at], *rows[at][i + 1 :])
        return what, tuple(changed)

    @precondition(lambda self: len(self.known) > 1)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        known = self.known[data.draw(st.integers(1, len(self.known) - 1), label="which")]
        target = known.origin
        if target is None:
            with pytest.raises(UpdateError, match="as it was, and stays so"):
                known.wide.commit()
            self.known.remove(known)
            return
        ours, theirs = (
            {name for name, token in side.tokens.items() if token != known.since[name]}
            for side in (known, target)
        )
        before = target.wide.version
        if ours & theirs:
            with pytest.raises(ConflictError, match=", ".join(sorted(ours & theirs))):
                known.wide.commit()
            assert target.wide.version == before
            return
        state = {**target.now, **{name: known.now[name] for name in ours}}
        number = known.wide.commit()
        assert number == target.wide.version == known.wide.version == before + bool(ours)
        target.states[number] = state
        known.states, known.since = {number: state}, known.tokens

    # -- asking ----------------------------------------------------------------------------------

    def question(self, data: st.DataObject, state: State) -> dict[str, Any]:
        """The pivot, a question as before, or a new one."""
        kind = data.draw(st.sampled_from(["new", "pivot", "pivot", "again"]), label="question")
        if kind == "new":
            self.asked.append(data.draw(questions(self.at(state)), label="question"))
            return self.asked[-1]
        last = 0 if kind == "pivot" else len(self.asked) - 1
        return self.asked[data.draw(st.integers(0, last), label="which")]

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        known = self.some(data)
        self.check(known.wide, known.now, self.question(data, known.now))

    @rule(data=st.data())
    def ask_an_earlier_version(self, data: st.DataObject) -> None:
        known = self.some(data)
        number = data.draw(st.sampled_from(sorted(known.states)), label="version")
        state = known.states[number]
        self.check(known.wide.at(number), state, self.question(data, state))

    def check(self, wide: WideTable, state: State, question: Mapping[str, Any]) -> None:
        expected = self.expected(wide, state, question)
        result = wide.query(**question)
        difference = compare(result.arrow(), expected, len(question["group_by"]))
        assert not difference, f"{question}: {difference}\n{result.plan}"
        if self.mode == "recompute":
            assert result.plan.refreshed == ()

    def expected(self, wide: WideTable, state: State, question: Mapping[str, Any]) -> pa.Table:
        """The answer of DuckDB, which builds the join."""
        query = wide.snapshot.bind(Question(**question)).query
        columns = sorted(attributes_of(query))
        sql, tables = wide_sql(wide.schema, query.relations, columns, "duckdb")
        names = {id(relation.table): name for name, relation in wide.schema.relations.items()}
        for alias, table in tables.items():
            name = names[id(table)]
            self.duckdb.register(alias, self.table(name, state[name]))
        self.duckdb.execute(f"CREATE OR REPLACE TABLE wide AS {sql}")
        return self.duckdb.sql(query_sql(query, "duckdb")).to_arrow_table()

    @rule(data=st.data())
    def diff(self, data: st.DataObject) -> None:
        known = self.some(data)
        pair = st.sampled_from(sorted(known.states))
        numbers = data.draw(pair, label="before"), data.draw(pair, label="after")
        question = self.question(data, known.states[numbers[0]])
        keys = len(question["group_by"])
        sides = []
        for number in numbers:
            table = self.expected(known.wide.at(number), known.states[number], question)
            rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
            sides.append({row[:keys]: row[keys:] for row in rows})
        differing = {}
        table = known.wide.diff(*numbers, **question).arrow()
        names = [n.removesuffix("_before") for n in table.column_names if n.endswith("_before")]
        for row in table.to_pylist():
            key = tuple(list(row.values())[:keys])
            differing[key] = [
                tuple(row[f"{n}_{side}"] for n in names) for side in ("before", "after")
            ]
        for key in sides[0].keys() | sides[1].keys():
            nothing = (None,) * len(names)
            before, after = (side.get(key, nothing) for side in sides)
            if key in differing:
                assert alike(differing[key][0], before) and alike(differing[key][1], after), key
            else:
                assert key in sides[0] and key in sides[1] and alike(before, after), key
        assert differing.keys() <= sides[0].keys() | sides[1].keys()

    # -- keeping fresh ---------------------------------------------------------------------------

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        known = self.some(data)
        if data.draw(st.booleans(), label="background"):
            done = known.wide.refresh(background=True)
            self.pending.append((known, cast("Future[Plan]", done)))
            return
        known.wide.refresh(progress=False)
        if known is self.known[0]:
            assert known.wide.is_calibrated

    @precondition(lambda self: self.pending)
    @rule()
    def wait(self) -> None:
        for _, done in self.pending:
            done.result()
        self.pending = []

    @precondition(lambda self: self.can_save)
    @rule(data=st.data())
    def save(self, data: st.DataObject) -> None:
        """To where it was saved before, or elsewhere. Then it may go on as the one that is opened."""
        known = self.some(data)
        last = known.wide.saved.last
        if last is None or data.draw(st.booleans(), label="elsewhere"):
            known.wide.save(tempfile.mkdtemp(dir=self.directory))
        else:
            assert known.wide.save() == last.number + 1
        if data.draw(st.booleans(), label="open"):
            last = known.wide.saved.last
            assert last is not None
            opened = ct.open(last.directory, engine=type(self).engine())
            self.known = [Known(opened, {opened.version: known.now})]
            self.mode = opened.maintenance

    @invariant()
    def the_rows_are_there(self) -> None:
        for known in self.known:
            relations = known.wide.schema.relations
            for name, rows in known.now.items():
                assert relations[name].table.rows == len(rows)

    @rule(data=st.data())
    def look_at_the_rows(self, data: st.DataObject) -> None:
        known = self.some(data)
        name = data.draw(st.sampled_from(sorted(known.now)), label="relation")
        engine, table = known.wide.engine, known.wide.schema.relations[name].table
        rows = engine.arrow(settled(engine, table)).select(self.types[name].names)
        assert Counter(map(as_row, rows.to_pylist())) == Counter(known.now[name])


FORMULAS = {
    "x": ["{c} + 1", "coalesce({c}, 0) * 2", "null", "7"],
    "y": ["{c} - 1", "case when {c} > 2 then 0 else {c} end"],
    "f": ["{c} / 2", "{c} + 0.25"],
    "s": ["'new'", "null"],
    "b": ["not {c}"],
}
"""What a what-if sets columns to, by their kind."""


def as_row(row: Mapping[str, Any]) -> Row:
    return tuple(row.values())


def is_unique(rows: tuple[Row, ...], by: tuple[int, ...]) -> bool:
    return len({tuple(row[i] for i in by) for row in rows}) == len(rows)


def alike(left: Row, right: Row) -> bool:
    return all(map(same, left, right))


def new_value(column: pa.Field, rng: random.Random) -> Any:
    """A value of this column, which it may not have had before."""
    if column.name in PAYLOADS:
        if column.name == "s" and rng.random() < 0.3:
            return f"new {rng.randint(0, 9)}"
        if column.name in "xy" and rng.random() < 0.1:
            return rng.choice([-1, 1]) * rng.randint(100, 1000)
        if column.name == "d" and rng.random() < 0.3:
            return datetime.date(1969, 12, 31) + datetime.timedelta(rng.randint(0, 20_000))
        if column.name == "m" and rng.random() < 0.2:
            return Decimal(rng.randint(-99_999_999, 99_999_999)) / 100
        return payload_value(column.name, rng)
    kinds = {pa.string(): "str", pa.date32(): "date", pa.decimal128(9, 2): "decimal"}
    code = rng.randrange(6) if rng.random() < 0.8 else rng.choice([-1, 24, 77, 5_000])
    return key_value(kinds.get(column.type, "int"), code)


def run(
    engine: Callable[[], Any], quick: int, thorough: int, steps: int = 12, can_save: bool = True
) -> None:
    """Try `quick` sequences of `steps`, or `thorough` many in `make test-all`."""
    count = quick if examples(1) == 1 else thorough
    with tempfile.TemporaryDirectory() as directory, duckdb.connect() as connection:
        given = {"engine": staticmethod(engine), "can_save": can_save}
        shared = {"duckdb": connection, "directory": Path(directory)}
        run_state_machine_as_test(
            type("OneEngine", (Versions,), {**given, **shared}),
            settings=settings(
                max_examples=count,
                stateful_step_count=steps,
                suppress_health_check=list(HealthCheck),
                deadline=None,
            ),
        )


def test_reference() -> None:
    run(lambda: "reference", quick=20, thorough=300, can_save=False)


@pytest.mark.parametrize("engine", LOCAL)
def test_local(engine: str) -> None:
    run(lambda: engine_named(engine), quick=40, thorough=1_400)


@pytest.mark.spark
@pytest.mark.parametrize(
    "engine",
    [*ON_SPARK[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in ON_SPARK[2:])],
)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    run(lambda: spark_engine_named(engine, spark, tmp_path), quick=2, thorough=20, steps=6)
