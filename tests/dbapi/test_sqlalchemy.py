"""SQLAlchemy on a saved tree, and pandas through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

import calitree as ct

registry.register("calitree", "calitree.dbapi.sqlalchemy", "CalitreeDialect")


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Loja"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.calibrate({"revenue": "sum(price)"}).save(tmp_path / "tree")
    return sa.create_engine(f"calitree:///{tmp_path / 'tree'}?engine=local")


def test_texts(engine: Any) -> None:
    with engine.connect() as connection:
        text = sa.text(
            "SELECT city, MEASURE(revenue) AS r FROM wide WHERE price > :p GROUP BY 1 ORDER BY 1"
        )
        rows = connection.execute(text, {"p": 5}).mappings().all()
    assert [dict(row) for row in rows] == [{"city": "Quito", "r": 30}]


def test_what_there_is(engine: Any) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["sales", "stores", "wide"]
    columns = inspector.get_columns("wide")
    assert [column["name"] for column in columns] == ["store", "price", "id", "city"]
    assert isinstance(inspector.get_columns("stores")[1]["type"], sa.String)
    (key,) = inspector.get_foreign_keys("sales")
    assert (key["referred_table"], key["referred_columns"]) == ("stores", ["id"])
    assert not inspector.has_table("nope")
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("nope")


def test_expressions(engine: Any) -> None:
    wide = sa.Table("wide", sa.MetaData(), autoload_with=engine)
    total = sa.func.sum(wide.c.price).label("total")
    asked = (
        sa.select(wide.c.city, total)
        .where(wide.c.price.in_([5, 10, 20]), wide.c.city.like("%o%"))
        .group_by(wide.c.city)
        .having(sa.func.count() > 0)
        .order_by(total.desc())
        .limit(1)
    )
    with engine.connect() as connection:
        assert connection.execute(asked).all() == [("Quito", 30)]


def test_tables_joined_by_reflection(engine: Any) -> None:
    metadata = sa.MetaData()
    sales = sa.Table("sales", metadata, autoload_with=engine)
    stores = sa.Table("stores", metadata, autoload_with=engine)
    joined = sales.join(stores, sales.c.store == stores.c.id)
    asked = sa.select(stores.c.city, sa.func.count().label("n")).select_from(joined)
    with engine.connect() as connection:
        rows = connection.execute(asked.group_by(stores.c.city).order_by(stores.c.city)).all()
    assert rows == [("Loja", 1), ("Quito", 2)]


def test_pandas(engine: Any) -> None:
    frame = pd.read_sql("SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s", engine)
    assert frame.to_dict("list") == {"city": ["Loja", "Quito"], "s": [5, 30]}


def test_errors_are_sqlalchemys(engine: Any) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="nope"):
        connection.execute(sa.text("SELECT nope FROM wide GROUP BY 1"))
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="DELETE"):
        connection.execute(sa.text("DELETE FROM wide"))
