"""First questions from eight threads at once, while nothing is computed or indexed yet.

A thread gives way after a microsecond, so whatever is checked by one and set by another is soon wrong.
Every answer is compared with DuckDB's on the join really built.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

import calitree as ct

THREADS, QUESTIONS_A_THREAD = 8, 5
TREES = {"opened": 32, "updated": 31, "what-if": 31, "augmented": 31}
"""How many trees of a kind; 125 in all, which makes 5,000 questions."""

TABLES: dict[str, dict[str, Any]] = {
    "sales": {
        "store": [i % 7 for i in range(60)],
        "item": [i % 11 for i in range(60)],
        "day": [i % 5 for i in range(60)],
        "price": [i * 3 % 17 for i in range(60)],
    },
    "stores": {
        "store": range(7),
        "city": ["Quito", "Cuenca", "Loja", None, "Quito", "Ambato", "Loja"],
    },
    "items": {
        "item": range(11),
        "family": [f"family {i % 4}" for i in range(11)],
        "weight": [i % 3 for i in range(11)],
    },
    "days": {"day": range(5), "oil": [40.5, 41.5, None, 39.25, 38.0]},
    "visits": {
        "store": [i // 5 for i in range(35)],
        "day": [i % 5 for i in range(35)],
        "visitors": [i % 3 for i in range(35)],
    },
}
JOINS: dict[str, Any] = {
    "stores": "store",
    "items": "item",
    "days": "day",
    "visits": ["store", "day"],
}
CITIES = {"city": ["Quito", "Cuenca", "Loja"], "altitude": [2850, 2560, 2060]}
COMING = {"store": [0, 3, 6], "item": [1, 5, 5], "day": [4, 0, 2], "price": [100, 200, 300]}

MEASURES: dict[str, Any] = {"revenue": "sum(price)", "n": "count(*)", "most": "max(price)"}


class Asked(NamedTuple):
    """A question, and the same in SQL."""

    group_by: tuple[str, ...]
    where: str | None = None

    @property
    def sql(self) -> str:
        columns = ", ".join((*self.group_by, "sum(price), count(*), max(price)"))
        condition = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {columns} FROM wide{condition} GROUP BY ALL"


QUESTIONS = [
    Asked(group_by, where)
    for group_by in (
        *((), ("city",), ("family",), ("oil",), ("sales.store",), ("city", "family")),
        *(
            ("weight", "oil"),
            ("sales.item", "city"),
            ("visitors", "city", "weight"),
            ("visitors",),
            ("sales.day", "sales.store"),
        ),
    )
    for where in (None, "weight < 2", "city = 'Quito'", "oil > 39 AND family <> 'family 1'")
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated tree at rest."""
    graph = ct.JoinGraph("local")
    for name, table in TABLES.items():
        graph.add_relation(name, table)
    for dimension, columns in JOINS.items():
        graph.add_join("sales", dimension, on=columns)
    path = tmp_path_factory.mktemp("trees") / "tree"
    graph.calibrate(MEASURES).save(path)
    return path


def tree(kind: str, path: Path) -> ct.WideTable:
    """A tree of which nothing was asked yet."""
    wide = ct.open(path, engine="local")
    if kind == "updated":
        wide.update("sales", insert=COMING, delete="price = 3")
        wide.update("items", delete="item = 2")
    elif kind == "what-if":
        wide = wide.what_if(insert={"sales": COMING}, delete={"stores": "store = 1"})
    elif kind == "augmented":
        wide = wide.augment(CITIES, on="city", name="cities")
    return wide


def expected(kind: str) -> dict[Asked, list[tuple[Any, ...]]]:
    """All answers, by a database that knows of no tree."""
    connection = duckdb.connect()
    for name, table in {**TABLES, "cities": CITIES, "coming": COMING}.items():
        connection.register(
            "given", pa.table({column: list(data) for column, data in table.items()})
        )
        connection.execute(f"CREATE TABLE {name} AS FROM given")
    coming = "INSERT INTO sales FROM coming;"
    changes = {
        "updated": f"DELETE FROM sales WHERE price = 3; {coming} DELETE FROM items WHERE item = 2",
        "what-if": f"{coming} DELETE FROM stores WHERE store = 1",
    }
    connection.execute(changes.get(kind, ""))
    joins = "".join(
        f" JOIN {name} USING ({columns if isinstance(columns, str) else ', '.join(columns)})"
        for name, columns in {
            **JOINS,
            **({"cities": "city"} if kind == "augmented" else {}),
        }.items()
    )
    connection.execute(f"CREATE TABLE wide AS SELECT * FROM sales{joins}")
    sql = {asked: asked.sql.replace("sales.", "wide.") for asked in QUESTIONS}
    return {asked: ordered(connection.sql(sql[asked]).fetchall()) for asked in QUESTIONS}


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("kind", TREES)
def test_first_questions(kind: str, saved: Path) -> None:
    answers = expected(kind)
    chance = random.Random(kind)
    count = 0
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(TREES[kind]):
            wide, together = tree(kind, saved), Barrier(THREADS)
            same = chance.choices(QUESTIONS, k=2)
            share = [
                [*same, *chance.choices(QUESTIONS, k=QUESTIONS_A_THREAD - 2)]
                for _ in range(THREADS)
            ]

            def ask(
                questions: list[Asked], wide: ct.WideTable = wide, together: Barrier = together
            ) -> list[list[tuple[Any, ...]]]:
                together.wait()
                results = (wide.query(asked.group_by, asked.where) for asked in questions)
                return [
                    ordered([tuple(row.values()) for row in result.rows()]) for result in results
                ]

            for questions, rows in zip(share, pool.map(ask, share), strict=True):
                assert rows == [answers[asked] for asked in questions]
                count += len(rows)
    assert count == TREES[kind] * THREADS * QUESTIONS_A_THREAD
