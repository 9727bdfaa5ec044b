"""PEP 249: what its text asks of a module, a connection and a cursor."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import calitree as ct
from calitree import dbapi
from calitree.types import Kind


@pytest.fixture
def connection() -> dbapi.Connection:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation(
        "sales",
        {
            "store": [1, 1, 2],
            "price": [10, 20, None],
            "paid": pa.array([Decimal("1.50"), None, Decimal("2.25")]),
            "day": [datetime.date(2024, 1, day) for day in (1, 2, 3)],
        },
    )
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "O'Hara"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return dbapi.connect(graph.calibrate({"n": "count(*)"}))


def test_the_module() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "named")
    assert issubclass(dbapi.ProgrammingError, dbapi.DatabaseError)
    assert issubclass(dbapi.Error, ct.CalitreeError)
    assert dbapi.Date(2020, 1, 2) == datetime.date(2020, 1, 2)
    assert dbapi.TimestampFromTicks(0) == datetime.datetime(1970, 1, 1)
    assert dbapi.DateFromTicks(86_400) == datetime.date(1970, 1, 2)
    assert dbapi.TimeFromTicks(3_600) == datetime.time(1)
    assert dbapi.NUMBER == Kind.INTEGER and dbapi.NUMBER != Kind.STRING
    assert dbapi.STRING == Kind.STRING and dbapi.STRING != dbapi.NUMBER


def test_rows(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount) == (None, -1)
    cursor.execute("SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY city")
    assert cursor.rowcount == 2
    assert cursor.fetchone() == ("O'Hara", None)
    assert cursor.fetchmany(5) == [("Quito", 30)]
    assert cursor.fetchone() is None and cursor.fetchall() == []
    assert cursor.fetch_arrow_table().num_rows == 2


def test_a_cursor_is_an_iterator(connection: dbapi.Connection) -> None:
    cursor = connection.cursor().execute("SELECT store, n FROM wide GROUP BY store ORDER BY 1")
    assert list(cursor) == [(1, 2), (2, 1)]
    cursor.arraysize = 2
    assert cursor.execute("SELECT store FROM wide GROUP BY 1 ORDER BY 1").fetchmany() == [
        (1,),
        (2,),
    ]


def test_descriptions(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT city, max(day) AS d, sum(paid) AS p, count(*) AS n FROM wide GROUP BY 1")
    assert cursor.description is not None
    names, kinds, _, _, digits, scales, _ = zip(*cursor.description, strict=True)
    assert names == ("city", "d", "p", "n")
    types = [dbapi.STRING, dbapi.DATETIME, dbapi.NUMBER, dbapi.NUMBER]
    assert list(kinds) == types
    assert scales[2] == 2 and digits[2] >= 3 and scales[3] is None


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("SELECT sum(price) FROM wide WHERE city = :city", {"city": "O'Hara"}),
        ("SELECT sum(price) FROM wide WHERE city = ?", ["O'Hara"]),
        ("SELECT sum(price) FROM wide WHERE city = ?", ("O'Hara",)),
    ],
)
def test_parameters(connection: dbapi.Connection, text: str, given: object) -> None:
    assert connection.cursor().execute(text, given).fetchall() == [(None,)]  # type: ignore[arg-type]


def test_errors_are_those_of_the_pep(connection: dbapi.Connection, tmp_path: Path) -> None:
    cursor = connection.cursor()
    with pytest.raises(dbapi.ProgrammingError, match="nope") as caught:
        cursor.execute("SELECT nope FROM wide GROUP BY 1")
    assert isinstance(caught.value.__cause__, ct.StatementError)
    with pytest.raises(dbapi.InterfaceError, match="call execute first"):
        cursor.fetchone()
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT sum(city) FROM wide")
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(tmp_path / "nothing", engine="local")
    with pytest.raises(dbapi.NotSupportedError):
        cursor.executemany("INSERT", [])


def test_what_is_closed_is_closed(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM wide")
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.fetchall()
    other = connection.cursor()
    connection.commit()
    connection.rollback()
    with connection:
        pass
    for call in (connection.cursor, connection.commit, lambda: other.execute("SELECT 1")):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            call()


def test_saved_trees(connection: dbapi.Connection, tmp_path: Path) -> None:
    wide = connection.wide
    wide.save(tmp_path / "tree")
    opened = dbapi.connect(tmp_path / "tree", engine="local")
    count = "SELECT count(*) FROM wide"
    assert opened.cursor().execute(count).fetchall() == [(3,)]
    wide.update("sales", delete="price = 10")
    wide.save()
    opened.reload()
    assert opened.cursor().execute(count).fetchall() == [(2,)]


def test_threads_share_a_connection(connection: dbapi.Connection) -> None:
    answers: list[object] = []

    def ask(at: int) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT city, sum(price) + :x FROM wide GROUP BY city ORDER BY 1", {"x": at})
        answers.append((at, cursor.fetchall()))

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=repr) == [  # type: ignore[comparison-overlap]
        (at, [("O'Hara", None), ("Quito", 30 + at)]) for at in range(8)
    ]


def test_pandas(connection: dbapi.Connection) -> None:
    cursor = connection.cursor().execute("SELECT city, n FROM wide GROUP BY city ORDER BY city")
    assert cursor.fetch_arrow_table().to_pandas()["n"].tolist() == [1, 2]
