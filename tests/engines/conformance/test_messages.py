"""A message is a table like any other: its annotations may be filtered and grouped by, its keys lifted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Input,
    Lifted,
    Output,
    Stored,
    Table,
)
from calitree.engines.api.protocol import Engine, Persistent
from calitree.engines.api.semiring import MAX, MIN, SUM_PRODUCT
from calitree.engines.registry import engine_of
from calitree.sql.analysis import Resolved
from calitree.sql.parser import parse
from calitree.types import Kind
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named

KINDS = {"r.k": Kind.STRING, "n": Kind.INTEGER}
KEYS = pa.table({"k": ["b", "b", "c", "a", None, None, None, "d", "d"]})


def expression(text: str) -> Any:
    return parse(text, lambda table, name: Resolved(name, (), KINDS[name]))


def counts(engine: Engine) -> Table:
    """How many rows have each key."""
    relation = Input(engine.load("r", KEYS), {"r.k": "k"})
    count = Column("rows", SUM_PRODUCT, ())
    (message,) = engine.contract(Contraction((relation,), (Output((0,), (), ("r.k",), (count,)),)))
    return message


def answers(engine: Engine, message: Table) -> list[dict[Any, list[Any]]]:
    """The keys of some counts, how many have each count, and the least and greatest of them."""
    given = Input(message, {"r.k": "r.k", "n": "rows"})
    rows, key = Stored(0, "rows"), Lifted(0, (expression('"r.k"'),))
    outputs = (
        Output((0,), (expression("n > 1"),), ("r.k",), (Column("s", SUM_PRODUCT, (rows,)),)),
        Output((0,), (), ("n",), (Column("keys", SUM_PRODUCT, ()), Column("least", MIN, (key,)))),
        Output((0,), (expression("n < 3"),), (), (Column("most", MAX, (rows,)),)),
    )
    tables = map(engine.arrow, engine.contract(Contraction((given,), outputs)))
    columns = ([column.to_pylist() for column in table.columns] for table in tables)
    return [{row[0]: list(row[1:]) for row in zip(*table, strict=True)} for table in columns]


EXPECTED: list[dict[Any, list[Any]]] = [
    {"b": [2], "d": [2], None: [3]},
    {1: [2, "a"], 2: [2, "b"], 3: [1, None]},
    {2: []},
]


@pytest.mark.parametrize("name", ["reference", *LOCAL])
def test_columns_of_messages(name: str) -> None:
    engine = engine_of(engine_named(name))
    assert answers(engine, counts(engine)) == EXPECTED


@pytest.mark.parametrize("name", ON_SPARK)
def test_columns_of_messages_on_spark(name: str, spark: Any, tmp_path: Path) -> None:
    engine = engine_of(spark_engine_named(name, spark, tmp_path))
    assert answers(engine, counts(engine)) == EXPECTED


def test_columns_of_saved_messages(tmp_path: Path) -> None:
    engine = engine_of("local")
    assert isinstance(engine, Persistent)
    saved = engine.write(counts(engine), str(tmp_path / "message.parquet"))
    assert answers(engine, engine.restore(saved)) == EXPECTED
