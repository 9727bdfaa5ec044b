"""Random databases and questions: what the differential tests feed to every engine.

Hypothesis chooses the shape (tree of joins, joins that close cycles, key types, sizes, share of
NULLs) and a seed; the rows come from the seed, which is quick enough for thousands of cases. Join
sizes are bounded so that the oracle can build the join.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import calitree as ct

KEY_TYPES = ("int", "int32", "str", "date", "decimal")
PAYLOADS = {
    "x": pa.int64(),
    "y": pa.int32(),
    "f": pa.float64(),
    "s": pa.string(),
    "d": pa.date32(),
    "m": pa.decimal128(9, 2),
    "b": pa.bool_(),
}


On = tuple[str, str, dict[str, str]]


@dataclass(frozen=True)
class Database:
    """Relations as Arrow tables, and joins as (left, right, {left column: right column}).

    `joins` make a tree, each with an earlier relation; those that are `closing` make cycles of it. All are
    inner, unless `hows` has what each of `joins` is.
    """

    tables: dict[str, pa.Table]
    joins: tuple[On, ...]
    closing: tuple[On, ...] = ()
    hows: tuple[str, ...] = ()

    def graph(self, engine: Any) -> ct.JoinGraph:
        graph = ct.JoinGraph(engine=engine)
        for name, table in self.tables.items():
            graph.add_relation(name, table)
        hows = self.hows or ("inner",) * len(self.joins)
        for (left, right, on), how in zip(self.joins, hows, strict=True):
            graph.add_join(left, right, on=on, how=how)
        for left, right, on in self.closing:
            graph.add_join(left, right, on=on)
        return graph

    def payloads(self, *kinds: str) -> list[str]:
        """Qualified payload columns of these kinds (letters of PAYLOADS)."""
        return [f"{n}.{c}" for n, t in self.tables.items() for c in t.column_names if c in kinds]

    def columns(self) -> list[str]:
        return [f"{name}.{c}" for name, table in self.tables.items() for c in table.column_names]

    def __repr__(self) -> str:
        lines = [f"{n}: {t.to_pydict()}" for n, t in self.tables.items()]
        return "\n".join([*lines, *map(str, self.joins), *map(str, self.closing), str(self.hows)])


def key_value(kind: str, code: int) -> Any:
    if kind == "str":
        return f"k{code}"
    if kind == "date":
        return datetime.date(2020, 1, 1) + datetime.timedelta(days=code)
    if kind == "decimal":
        return Decimal(code) / 4
    return code


def key_type(kind: str) -> pa.DataType:
    return {
        "int": pa.int64(),
        "int32": pa.int32(),
        "str": pa.string(),
        "date": pa.date32(),
        "decimal": pa.decimal128(9, 2),
    }[kind]


def payload_value(kind: str, rng: random.Random) -> Any:
    if kind in "xy":
        return rng.randint(-3, 9)
    if kind == "f":
        return rng.randint(-8, 20) / 4
    if kind == "s":
        return rng.choice(["a", "b", "B", "ü", ""])
    if kind == "d":
        return datetime.date(2021, 1, 28) + datetime.timedelta(days=rng.randint(0, 6))
    if kind == "m":
        return Decimal(rng.randint(-300, 900)) / 100
    return rng.random() < 0.5


@st.composite
def databases(draw: st.DrawFn, max_relations: int = 7, max_rows: int = 50) -> Database:
    """A random tree of joins, and now and then cycles.

    Some relations share one key class, some have composite keys.
    """
    count = draw(st.integers(2, max_relations))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    nulls = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4]))
    names = [f"r{i}" for i in range(count)]
    keys: dict[str, list[tuple[str, str, int]]] = {n: [] for n in names}  # column, kind, domain
    joins: list[On] = []
    largest = draw(st.integers(0, max_rows if count <= 3 else max(4, max_rows // count)))
    for i in range(1, count):
        parent = names[draw(st.integers(0, i - 1))]
        on: dict[str, str] = {}
        reuse = keys[parent] and draw(st.integers(0, 3)) == 0
        if reuse:
            column, kind, domain = rng.choice(keys[parent])
            on[column] = f"k{i}"
            keys[names[i]].append((f"k{i}", _other_width(kind, rng), domain))
        else:
            for part in range(draw(st.sampled_from([1, 1, 1, 2]))):
                kind = draw(st.sampled_from(KEY_TYPES))
                domain = rng.randint(1, max(1, largest))
                column = f"k{i}" if part == 0 else f"k{i}_{part}"
                other = column if rng.random() < 0.5 else f"p_{column}"
                keys[parent].append((other, kind, domain))
                keys[names[i]].append((column, _other_width(kind, rng), domain))
                on[other] = column
        joins.append((parent, names[i], on))
    closing: list[On] = []
    for i in range(draw(st.sampled_from([0, 0, 0, 1, 2])) if count > 2 else 0):
        kind, domain = draw(st.sampled_from(KEY_TYPES)), rng.randint(1, max(1, min(4, largest)))
        pair = draw(st.permutations(names))[:2]
        for name in pair:
            keys[name].append((f"c{i}", _other_width(kind, rng), domain))
        closing.append((pair[0], pair[1], {f"c{i}": f"c{i}"}))
    tables = {}
    for name in names:
        rows = rng.randint(0, largest) if rng.random() < 0.9 else 0
        columns: dict[str, pa.Array] = {}
        for column, kind, domain in keys[name]:
            cells = [
                None if rng.random() < nulls else key_value(kind, rng.randrange(domain))
                for _ in range(rows)
            ]
            columns[column] = pa.array(cells, key_type(kind))
        for kind in rng.sample(sorted(PAYLOADS), rng.randint(1, 4)):
            cells = [
                None if rng.random() < nulls else payload_value(kind, rng) for _ in range(rows)
            ]
            columns[kind] = pa.array(cells, PAYLOADS[kind])
        tables[name] = pa.table(columns)
    return Database(tables, tuple(joins), tuple(closing))


def _other_width(kind: str, rng: random.Random) -> str:
    """Integer keys of different widths join too."""
    return rng.choice(["int", "int32"]) if kind in ("int", "int32") else kind


def join_size(database: Database) -> int:
    """COUNT over the join; of one with cycles, what it is at most.

    Relations are eliminated from the last to the first, as each one joins an earlier one.
    """
    weights = {n: [1] * t.num_rows for n, t in database.tables.items()}
    rows = {n: t.to_pylist() for n, t in database.tables.items()}
    for left, right, on in reversed(database.joins):
        message: dict[tuple[Any, ...], int] = {}
        for row, weight in zip(rows[right], weights[right], strict=True):
            key = tuple(row[c] for c in on.values())
            message[key] = message.get(key, 0) + weight
        weights[left] = [
            0 if None in (key := tuple(row[c] for c in on)) else weight * message.get(key, 0)
            for row, weight in zip(rows[left], weights[left], strict=True)
        ]
    return sum(weights[next(iter(database.tables))])


@st.composite
def predicates(draw: st.DrawFn, database: Database, among: list[str]) -> str:
    """One condition, on one column, two columns of a relation, or columns of two relations."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(0, 9))
    column = draw(st.sampled_from([c for c in database.columns() if c.split(".")[0] in among]))
    numbers = [c for c in database.payloads("x", "y", "f") if c.split(".")[0] in among]
    if shape == 0:
        return f"{column} is {rng.choice(['', 'not '])}null"
    if shape in (1, 2) and numbers:
        a, b = rng.choice(numbers), rng.choice(numbers)
        return rng.choice(
            [f"{a} < {b}", f"{a} + {b} > 3", f"{a} >= 2 or {b} = 1", f"{a} is distinct from {b}"]
        )
    if shape == 3 and numbers:
        return f"{rng.choice(numbers)} between 0 and 4"
    if shape == 4:
        simple = simple_predicate(database, column, rng)
        return f"not ({simple})"
    if shape == 5 and len(among) > 1:
        other = rng.choice([c for c in database.columns() if c.split(".")[0] in among])
        a, b = (simple_predicate(database, c, rng) for c in (column, other))
        return f"({a}) or ({b})"
    return simple_predicate(database, column, rng)


def simple_predicate(database: Database, column: str, rng: random.Random) -> str:
    relation, name = column.split(".")
    values = [v for v in database.tables[relation].column(name).to_pylist() if v is not None]
    value = rng.choice(values) if values and rng.random() < 0.9 else None
    if value is None:
        return f"{column} is not null"
    if isinstance(value, bool):
        return rng.choice([column, f"{column} is not true", f"{column} = {value}"])
    text = f"'{value}'" if isinstance(value, str | datetime.date) else str(value)
    if isinstance(value, str) and rng.random() < 0.3:
        return f"{column} like '{value[:1]}%'"
    return f"{column} {rng.choice(['=', '=', '<>', '>', '<='])} {text}"


MEASURES = (
    "count(*)",
    "count({c})",
    "sum({n})",
    "sum({n})",
    "avg({n})",
    "min({c})",
    "max({c})",
    "sum({n} * {n2})",
    "sum({n} * {n2} * {n3})",
    "sum({n} + {n2})",
    "sum({n} - 2 * {n2}) / count(*)",
    "sum({n} * (1 - {n2}))",
    "sum({n} / {n2})",
    "var_samp({n})",
    "stddev_pop({n})",
    "covar_pop({n}, {n2})",
    "min({n} + {n2})",
    "max({n} - {n2})",
    "count(*) filter (where {p})",
    "sum({n}) filter (where {p})",
    "sum(case when {p1} then {n} else 0 end)",
    "bool_or({p1})",
    "sum({m})",
    "avg({m}) + min({m})",
    "sum({m} * {n})",
)


@st.composite
def measures(draw: st.DrawFn, database: Database, among: list[str]) -> str:
    """A measure in SQL text over columns of these relations."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    text = draw(st.sampled_from(MEASURES))
    inside = [c for c in database.columns() if c.split(".")[0] in among]
    numbers = [c for c in database.payloads("x", "y", "f") if c.split(".")[0] in among]
    money = [c for c in database.payloads("m") if c.split(".")[0] in among]
    if ("{n" in text and not numbers) or ("{m}" in text and not money):
        return "count(*)"
    column = rng.choice([c for c in inside if not c.endswith(".b")] or ["*"])
    if column == "*" and "{c}" in text:
        return "count(*)"
    filled = {
        "c": column,
        "n": rng.choice(numbers) if numbers else "",
        "n2": rng.choice(numbers) if numbers else "",
        "n3": rng.choice(numbers) if numbers else "",
        "m": rng.choice(money) if money else "",
        "p": simple_predicate(database, rng.choice(inside), rng),
    }
    own = [c for c in inside if c.split(".")[0] == filled["n"].split(".")[0]] or inside
    filled["p1"] = simple_predicate(database, rng.choice(own), rng)
    return text.format(**filled)


@st.composite
def questions(draw: st.DrawFn, database: Database, exclusions: bool = True) -> dict[str, Any]:
    """Arguments for `WideTable.query`, with measures in text."""
    among = list(database.tables)
    asked: dict[str, Any] = {}
    if exclusions and draw(st.integers(0, 3)) == 0:
        among = draw(connected(database))
        asked["relations"] = among
    columns = [c for c in database.columns() if c.split(".")[0] in among]
    asked["group_by"] = draw(st.lists(st.sampled_from(columns), max_size=3, unique=True))
    conditions = draw(st.lists(predicates(database, among), max_size=2))
    if conditions:
        asked["where"] = " and ".join(f"({c})" for c in conditions)
    texts = draw(st.lists(measures(database, among), min_size=1, max_size=3))
    asked["measures"] = {f"m{i}": text for i, text in enumerate(texts)}
    return asked


@st.composite
def connected(draw: st.DrawFn, database: Database) -> list[str]:
    """A connected part of the join graph."""
    near: dict[str, set[str]] = {n: set() for n in database.tables}
    for left, right, _ in database.joins + database.closing:
        near[left].add(right)
        near[right].add(left)
    chosen = [draw(st.sampled_from(sorted(database.tables)))]
    for _ in range(draw(st.integers(0, len(database.tables) - 1))):
        options = sorted(set().union(*(near[n] for n in chosen)) - set(chosen))
        if options:
            chosen.append(draw(st.sampled_from(options)))
    return chosen
