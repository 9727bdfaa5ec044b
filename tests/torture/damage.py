"""Damage done to files of a saved tree: bits that flip, files that are cut, swapped, lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import calitree as ct
from calitree.storage.file_log import FileLog

MEASURES = {"n": "count(*)", "units": "sum(units)", "paid": "sum(price)", "least": "min(note)"}

QUESTIONS: list[dict[str, Any]] = [
    {},
    {"group_by": ["towns.town"]},
    {"group_by": ["week"], "where": "units > 5", "measures": ["n", "paid"]},
    {"group_by": ["towns.town"], "measures": {"heads": "sum(units * people)"}},
    {"group_by": ["note"], "where": "people >= 3", "measures": ["n", "units"]},
    {"group_by": ["week"], "where": "towns.town < 'M'", "measures": {"most": "max(price)"}},
]

WIDE = """
    CREATE TABLE wide AS
    SELECT s.*, t.town AS "towns.town", t.people, d.week
    FROM sales s JOIN stores o USING (store) JOIN towns t ON o.town = t.town JOIN days d USING (day)
"""

READ = {"incoming": {f"part-{i:03}.parquet": (1_000 + i, 10 * i) for i in range(150)}}
"""What a stream has read: so many files that they are in segments."""


class Tables(NamedTuple):
    """The relations before an update, and the rows that come."""

    sales: pa.Table
    stores: pa.Table
    towns: pa.Table
    days: pa.Table
    came: pa.Table


def tables(rows: int, seed: int = 0) -> Tables:
    """A small shop."""
    chance = random.Random(seed)
    towns = ["Quito", "Cuenca", "Loja", "Manta", "Ambato"]

    def sales(count: int) -> pa.Table:
        return pa.table(
            {
                "store": pa.array([chance.randint(1, 40) for _ in range(count)], pa.int32()),
                "day": pa.array([chance.randint(0, 364) for _ in range(count)], pa.int64()),
                "units": pa.array([chance.randint(0, 12) for _ in range(count)], pa.int64()),
                "price": pa.array(
                    [Decimal(chance.randint(0, 99_999)).scaleb(-2) for _ in range(count)],
                    pa.decimal128(9, 2),
                ),
                "note": pa.array(
                    [chance.choice([None, "gift", "late", "café", "x" * 30]) for _ in range(count)]
                ),
            }
        )

    stores = {"store": list(range(1, 41)), "town": [chance.choice(towns) for _ in range(40)]}
    days = {"day": list(range(365)), "week": [day // 7 for day in range(365)]}
    people = {"town": towns, "people": [3, 2, 1, 4, 5]}
    return Tables(sales(rows), *map(pa.table, (stores, people, days)), sales(rows // 10))


def saved(directory: Path, given: Tables, engine: Any = "local", referenced: bool = False) -> None:
    """Save a tree as four versions: as it is, after an update, after questions, after one more update."""
    graph = ct.JoinGraph(engine)
    if referenced:
        path = directory.parent / f"{directory.name}-sales.parquet"
        pq.write_table(given.sales, path)
        graph.add_relation("sales", str(path))
    else:
        graph.add_relation("sales", given.sales)
    for name in ("stores", "towns", "days"):
        graph.add_relation(name, getattr(given, name))
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "towns", on="town")
    graph.add_join("sales", "days", on="day")
    wide = graph.calibrate(MEASURES)
    copy_below = 0 if referenced else 1 << 20
    wide.save(directory, copy_below)
    wide.state.read_files["sales"] = FileLog().with_entries(READ)
    wide.update("sales", insert=given.came, delete="units = 7")
    wide.save(directory, copy_below)
    for question in QUESTIONS[1:3]:
        wide.query(**question)
    wide.save(directory, copy_below)
    wide.update("sales", delete="units = 9")
    wide.save(directory, copy_below)


def answers(given: Tables) -> list[list[tuple[Any, ...]]]:
    """What DuckDB answers to each question on the materialised join."""
    duck = duckdb.connect()
    for name, table in given._asdict().items():
        duck.register(f"{name}_given", table)
        duck.execute(f"CREATE TABLE {name} AS FROM {name}_given")
    duck.execute("DELETE FROM sales WHERE units = 7")
    duck.execute("INSERT INTO sales FROM came")
    duck.execute("DELETE FROM sales WHERE units = 9")
    duck.execute(WIDE)
    return [ordered(duck.execute(_sql(question)).fetchall()) for question in QUESTIONS]


def _sql(question: dict[str, Any]) -> str:
    asked = question.get("measures", list(MEASURES))
    asked = asked if isinstance(asked, dict) else {name: MEASURES[name] for name in asked}
    names = {"towns.town": '"towns.town"'}
    groups = [names.get(name, name) for name in question.get("group_by", ())]
    where = question.get("where", "true").replace("towns.town", '"towns.town"')
    grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {', '.join([*groups, *asked.values()])} FROM wide WHERE {where}{grouped}"


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order that does not depend on who has them."""
    return sorted(rows, key=repr)


def asked(wide: ct.WideTable, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What a tree answers."""
    return ordered([tuple(row.values()) for row in wide.query(**question).rows()])


# -- damage ---------------------------------------------------------------------------------------

Damage = Callable[[random.Random, bytes, bytes], bytes | None]
"""What becomes of a file, of its content and that of another file of its kind; None if it is gone."""


def flip(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """One bit is another."""
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def flip_near_the_end(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """One bit of what is a footer in Parquet."""
    changed = bytearray(content)
    changed[-chance.randint(1, min(len(changed), 400))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def scribble(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """Some bytes are others."""
    at = chance.randrange(len(content))
    noise = chance.randbytes(chance.randint(1, 64))[: len(content) - at]
    return content[:at] + noise + content[at + len(noise) :]


def blank(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """A part is zeros, as after a crash."""
    at = chance.randrange(len(content))
    length = min(len(content) - at, chance.choice([1, 64, 512, 4_096]))
    return content[:at] + bytes(length) + content[at + length :]


def cut(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """The end is missing."""
    return content[: chance.randrange(len(content))]


def empty(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """Nothing is left."""
    return b""


def append(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """There is more at the end."""
    return content + chance.choice([b"\0", chance.randbytes(20), content])


def swap(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """It is another file of the tree, or what was there in another version."""
    return other


def delete(chance: random.Random, content: bytes, other: bytes) -> None:
    """It is gone."""


KINDS: tuple[Damage, ...] = (
    *[flip] * 8,
    *[flip_near_the_end] * 3,
    *[swap] * 3,
    scribble,
    blank,
    cut,
    empty,
    append,
    delete,
)


class Case(NamedTuple):
    """A file, and what it becomes."""

    file: Path
    damage: str
    content: bytes | None


def cases(directory: Path, count: int, seed: int) -> Iterator[Case]:
    """Random damage to files that the newest version needs, each kind of file as often as others."""
    chance = random.Random(seed)
    newest = max((directory / "manifests").iterdir())
    text = newest.read_text()
    files = [f for f in directory.rglob("*") if f.is_file() and f.name[0] not in "._"]
    content = {file: file.read_bytes() for file in files}
    needed = [newest, *(f for f in files if f"{f.relative_to(directory).parts[1]}" in text)]
    groups: dict[str, list[Path]] = {}
    for file in sorted(needed):
        groups.setdefault(kind_of(directory, file), []).append(file)
    for _ in range(count):
        group = chance.choice(sorted(groups))
        file, damage = chance.choice(groups[group]), chance.choice(KINDS)
        alike = [f for f in files if f.suffix == file.suffix and content[f] != content[file]]
        other = content[chance.choice(sorted(alike))] if alike else b""
        changed = damage(chance, content[file], other)
        if group == "manifest" and changed is None:
            continue  # the newest version is then the one before, as whoever deletes it wants
        if changed != content[file]:
            yield Case(file, damage.__name__, changed)


def kind_of(directory: Path, file: Path) -> str:
    """What a file has of a tree: "manifest", "message", "log", or the relation it is of."""
    folder, name = file.relative_to(directory).parts[:2]
    if folder != "relations":
        return folder.rstrip("s")
    return "log" if name.startswith("read-files") else name.rpartition("-")[0]


@contextmanager
def damaged(case: Case) -> Iterator[None]:
    """The file is damaged for a while."""
    whole = case.file.read_bytes()
    try:
        if case.content is None:
            case.file.unlink()
        else:
            case.file.write_bytes(case.content)
        yield
    finally:
        case.file.write_bytes(whole)
