"""Texts of many values: filtered, compared and taken the extremes of, as DuckDB does on the join.

What counts as many is made little here, so that small tables go the ways of large ones: no column is
encoded to be filtered, texts stay in no order, and their chunks are evaluated by threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree import WideTable
from calitree.engines.local import LocalEngine
from calitree.engines.local.annotation import columns, labels
from calitree.engines.local.delta import matches
from calitree.engines.local.tables import filters
from calitree.engines.local.vm import parallel
from calitree.memory.budget import ENTRY_BYTES
from calitree.sql.kernels import comparison, text
from tests.support.engines import LOCAL, engine_named, spark_engine_named

LETTERS = ["a", "b", "B", " ", "%", "_", "'", "\\", "é", "ß", "\uffff", "😀", "\x7f", "aaaaaaaa"]
TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
ROWS = 60


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module, name, value in (
        (columns, "MAX_SMALL", 0),
        (filters, "MAX_SMALL", 0),
        (labels, "MAX_SORTED_TEXTS", 2),
        (filters, "MIN_KEPT_ROWS", 4),
        (filters, "MIN_ROWS_AT_ONCE", 5),
        (filters, "MAX_ROWS_AT_ONCE", 16),
        (parallel, "MIN_ROWS_PER_THREAD", 8),
        (text, "MIN_COMPILED_ROWS", 0),
        (comparison, "MIN_COMPILED_ROWS", 0),
    ):
        monkeypatch.setattr(module, name, value)
    yield


def texts(seed: int, count: int, nulls: float = 0.1) -> list[str | None]:
    """Texts that are empty, begin alike, or differ after the eighth byte; some are NULL."""
    random = np.random.default_rng(seed)
    return [
        None
        if random.random() < nulls
        else "".join(random.choice(LETTERS, int(random.integers(0, 7))))
        for _ in range(count)
    ]


def chunked(values: list[Any], dtype: pa.DataType, pieces: int) -> pa.ChunkedArray:
    """A column of several chunks, each a slice of something longer."""
    size = -(-len(values) // pieces)
    chunks = []
    for start in range(0, len(values), size):
        part = values[start : start + size]
        array = pa.array([*part[:1], *part, *part[:1]], dtype)
        chunks.append(array.slice(1, len(part)))
    return pa.chunked_array(chunks, dtype)


def tables(seed: int, dtype: pa.DataType = TYPES[0], rows: int = ROWS) -> dict[str, pa.Table]:
    random = np.random.default_rng(seed)
    facts = pa.table(
        {
            "k": random.integers(0, 12, rows),
            "g": random.integers(0, 3, rows),
            "t": chunked(texts(seed, rows), dtype, 3),
        }
    )
    names = pa.array(texts(seed + 1, 10), dtype)
    return {"facts": facts, "names": pa.table({"k": range(10), "name": names, "h": [0, 1] * 5})}


def graph(engine: Any, data: dict[str, pa.Table]) -> ct.JoinGraph:
    result = ct.JoinGraph(engine=engine)
    for name, table in data.items():
        result.add_relation(name, table)
    result.add_join("facts", "names", on="k")
    return result


def calibrated(engine: Any, data: dict[str, pa.Table]) -> WideTable:
    return graph(engine, data).calibrate({"n": "count(*)", "most": "max(t)"}, progress=False)


def duck(data: dict[str, pa.Table]) -> Callable[[str], list[tuple[Any, ...]]]:
    """Answers of DuckDB on the join, which it materialises."""
    connection = duckdb.connect()
    for name, table in data.items():
        connection.register(f"{name}_", plain(table))
        connection.execute(f"CREATE TABLE {name} AS FROM {name}_")
    connection.execute("CREATE TABLE wide AS SELECT * FROM facts JOIN names USING (k)")
    return lambda sql: sorted(connection.execute(sql).fetchall(), key=repr)


def plain(table: pa.Table) -> pa.Table:
    types = {
        field.name: pa.string() if not pa.types.is_integer(field.type) else field.type
        for field in table.schema
    }
    return table.cast(pa.schema(types))


def answers(result: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in result.rows()), key=repr)


EXTREMES = "min(t) AS a, max(t) AS b, min(name) AS c, max(upper(t)) AS d, count(*) AS n"
MEASURES = dict(part.strip().split(" AS ")[::-1] for part in EXTREMES.split(","))
GROUPS: list[list[str]] = [[], ["g"], ["k"], ["h"], ["g", "h"], ["name"], ["t"]]
CONDITIONS = [
    *("t = 'a'", "t <> ''", "t < 'b'", "t >= 'aaaaaaaaa'", "t BETWEEN 'B' AND 'é'", "t > '\uffff'"),
    *("t LIKE '%a%'", "t LIKE '%aa'", "t LIKE 'a%'", "t LIKE '%a%b%'", "t LIKE '_a%'", "t LIKE ''"),
    *("t LIKE '%\\%'", "t LIKE '%'", "t NOT LIKE '%😀%'", "t LIKE '%''%'", "t LIKE '%ß_é%'"),
    *("t IN ('a', '', 'aaaaaaaa')", "t NOT IN ('b', 'a')", "t IS NULL", "t IN ('a', NULL)"),
    *(
        "upper(t) = 'A'",
        "length(t) > 2",
        "t = 'a' OR g = 1",
        "t < name",
        "name LIKE '%a%' OR t = ''",
    ),
    *("coalesce(t, 'a') = 'a'", "t || name LIKE '%ab%'", "NOT (t > 'a')", "t = '' AND name > ''"),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("engine", [*LOCAL, "hybrid"])
def test_extremes(engine: str, dtype: pa.DataType) -> None:
    data = tables(3, dtype)
    wide, ask = calibrated(engine_named(engine), data), duck(data)
    for keys in GROUPS:
        keyed = "".join(f"{key}, " for key in keys)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        for where in (None, "t < 'b'", "name LIKE '%a%'"):
            filtered = f" WHERE {where}" if where else ""
            expected = ask(f"SELECT {keyed}{EXTREMES} FROM wide{filtered}{by}")
            asked = wide.query(group_by=keys, where=where, measures=MEASURES)
            assert answers(asked) == expected, (keys, where)


@pytest.mark.parametrize("engine", [*LOCAL, "hybrid"])
def test_conditions(engine: str) -> None:
    data = tables(5)
    wide, ask = calibrated(engine_named(engine), data), duck(data)
    for where in CONDITIONS:
        expected = ask(f"SELECT g, count(*), max(t) FROM wide WHERE {where} GROUP BY g")
        for _ in range(2):  # again what was kept is used
            asked = wide.query(group_by=["g"], where=where, measures=["n", "most"])
            assert answers(asked) == expected, where


@pytest.mark.parametrize("engine", [*LOCAL, "hybrid"])
@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()], ids=str)
def test_versions(engine: str, dtype: pa.DataType, tmp_path: Path) -> None:
    """Extremes and filters stay right over updates, in what-ifs, and in a tree that was saved."""
    data = tables(7, dtype)
    wide = calibrated(engine_named(engine), data)
    wide.query(where="t LIKE '%a%'")
    for step in range(6):
        new = tables(100 + step, dtype, rows=7)["facts"]
        gone = f"t > '{'é' if step % 2 else 'b'}' AND g = {step % 3}"
        assert_as_duck(
            wide.what_if(delete={"facts": "t LIKE '%a%'"}), _without(data, "t LIKE '%a%'")
        )
        wide.update("facts", insert=new, delete=gone)
        facts = _without(data, gone)["facts"]
        data = {**data, "facts": pa.concat_tables([plain(facts), plain(new)])}
        assert_as_duck(wide, data)
    wide.save(tmp_path / "tree")
    assert_as_duck(ct.open(tmp_path / "tree", engine=engine_named(engine)), data)


def _without(data: dict[str, pa.Table], gone: str) -> dict[str, pa.Table]:
    connection = duckdb.connect()
    connection.register("facts", plain(data["facts"]))
    left = connection.sql(f"SELECT * FROM facts WHERE ({gone}) IS NOT TRUE").to_arrow_table()
    return {**data, "facts": left}


def assert_as_duck(wide: WideTable, data: dict[str, pa.Table]) -> None:
    ask = duck(data)
    for keys in ([], ["g"], ["h", "k"]):
        keyed = "".join(f"{key}, " for key in keys)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        for where in ("t LIKE '%a%'", "t < 'b'", "true"):
            expected = ask(f"SELECT {keyed}{EXTREMES} FROM wide WHERE {where}{by}")
            asked = wide.query(group_by=keys, where=where, measures=MEASURES)
            assert answers(asked) == expected, (keys, where)


OTHER_TYPES: dict[pa.DataType, Callable[[int], Any]] = {
    pa.binary(): lambda n: n.to_bytes(9, "little"),
    pa.large_binary(): lambda n: bytes([n % 7]) * (n % 11),
    pa.binary(4): lambda n: n.to_bytes(4, "little"),
    pa.date32(): lambda n: n - 300,
    pa.timestamp("ns"): lambda n: n - 300,
    pa.timestamp("us", "UTC"): lambda n: n - 300,
    pa.time64("us"): lambda n: n,
    pa.time32("s"): lambda n: n,
    pa.duration("ms"): lambda n: n - 300,
}


@pytest.mark.parametrize("engine", LOCAL)
@pytest.mark.parametrize("dtype", OTHER_TYPES, ids=str)
def test_other_types(engine: str, dtype: pa.DataType) -> None:
    """The least and the greatest of bytes, dates and times come back as they were stored."""
    make = OTHER_TYPES[dtype]
    random = np.random.default_rng(11)
    values = [None if n % 9 == 0 else make(n) for n in random.integers(0, 600, 80).tolist()]
    column = chunked(values, dtype, 4)
    g = random.integers(0, 4, len(values))
    one = ct.JoinGraph(engine=engine_named(engine))
    one.add_relation("r", pa.table({"g": g, "v": column}))
    wide = one.calibrate({"low": "min(v)", "high": "max(v)"}, progress=False)
    stored = column.to_pylist()
    for row in wide.query(group_by=["g"]).rows():
        ours = [v for v, at in zip(stored, g, strict=True) if at == row["g"] and v is not None]
        assert row == {"g": row["g"], "low": min(ours), "high": max(ours)}
    wide.update("r", insert=pa.table({"g": [0], "v": pa.array([max(values, key=_known)], dtype)}))
    known = [value for value in stored if value is not None]
    assert wide.query().rows() == [{"low": min(known), "high": max(known)}]


def _known(value: Any) -> Any:
    return (value is not None, value if value is not None else 0)


def test_no_value_at_all() -> None:
    table = pa.table({"g": [1, 1, 2] * 20, "t": pa.nulls(60, pa.string())})
    one = ct.JoinGraph(engine="local")
    one.add_relation("r", table)
    wide = one.calibrate({"most": "max(t)"}, group_by=["g"], progress=False)
    assert wide.query(group_by=["g"]).rows() == [{"g": g, "most": None} for g in (1, 2)]
    assert wide.query(where="t LIKE '%a%'").rows() == [{"most": None}]


# -- what is not done --------------------------------------------------------------------------------


def test_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that is only filtered and compared has no codes, and is evaluated once."""
    engine = LocalEngine(large=0)
    wide = calibrated(engine, tables(13))
    before = engine.book.values
    calls = []
    evaluated = filters.evaluated
    monkeypatch.setattr(filters, "evaluated", lambda *a: calls.append(a) or evaluated(*a))
    for _ in range(3):
        wide.query(where="t LIKE '%ab%'", measures={"m": "max(t)"}).rows()
    assert engine.book.values == before
    assert len(calls) == 1


def test_after_an_update_only_new_rows_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "MAX_COPIED_ROWS", 0)
    wide = calibrated("local", tables(17))
    wide.query(where="t LIKE '%a%'").rows()
    wide.update("facts", insert=tables(18, rows=2)["facts"], delete="g = 1 AND t < 'a'")
    wide.refresh()
    rows: list[int] = []
    evaluated = filters.evaluated
    monkeypatch.setattr(filters, "evaluated", lambda *a: rows.append(a[2]) or evaluated(*a))
    for version in (wide, wide.what_if(delete={"facts": "g = 2"})):
        version.query(where="t LIKE '%a%'", measures={"m": "min(t)"}).rows()
    assert all(count < ROWS // 2 for count in rows), rows


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_KEPT_MASKS", 3)
    data = pa.table({"t": [f"{i:03}" for i in range(200)]})
    one = ct.JoinGraph(engine="local")
    one.add_relation("r", data)
    wide = one.calibrate({"n": "count(*)"}, progress=False)
    for i in range(20):
        assert wide.query(where=f"t < '{i:03}'").rows() == [{"n": i}]
    (relation,) = wide.schema.relations.values()
    masks = filters._KEPT[relation.table.columns].masks
    assert len(masks) == 3 and masks.nbytes == 3 * (25 + ENTRY_BYTES)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([f"x{i % 1000}" for i in range(40_000)], True),
        ([f"x{i // 20}" for i in range(200_000)], True),
        ([f"x{i}" for i in range(40_000)], False),
        (["" if i % 2 else f"x{i}" for i in range(40_000)], False),
        ([None] * 40_000, True),
        ([f"x{i // 2}" for i in range(40_000)], False),
    ],
    ids=["thousand", "sorted", "different", "half empty", "NULL", "twice"],
)
def test_whether_values_repeat(values: list[str | None], expected: bool) -> None:
    assert columns.repeats(pa.array(values, pa.string())) is expected


# -- long lists --------------------------------------------------------------------------------------


LISTED = [*(f"it's {i}" for i in range(150)), "", "a", "aaaaaaaa", "é", "', '", "\ue001", "a"]


@pytest.mark.parametrize("engine", [*LOCAL, "hybrid", "reference"])
@pytest.mark.parametrize(
    "form", ["{t} IN ({l})", "{t} NOT IN ({l})", "upper({t}) in ( {l} ) OR g = 2"]
)
def test_long_lists(engine: str, form: str) -> None:
    data = tables(23, rows=20)
    listed = ", ".join(map(_quoted, LISTED))
    where = form.format(t="t", l=listed)
    wide, ask = calibrated(engine_named(engine), data), duck(data)
    expected = ask(f"SELECT g, count(*) FROM wide WHERE {where} GROUP BY g")
    assert answers(wide.query(group_by=["g"], where=where, measures=["n"])) == expected


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@pytest.mark.spark
def test_texts_in_tasks_of_spark(spark: Any, tmp_path: Path) -> None:
    data = tables(29, rows=12)
    listed = ", ".join(_quoted(f"\\{i}'") for i in range(150)) + ", 'a', '', '\\'"
    for name in ("hybrid, files", "hybrid, SQL"):
        wide, ask = calibrated(spark_engine_named(name, spark, tmp_path), data), duck(data)
        for where in ("t LIKE '%a%'", f"t IN ({listed})", "t < 'b'"):
            expected = ask(f"SELECT g, max(t), count(*) FROM wide WHERE {where} GROUP BY g")
            asked = wide.query(group_by=["g"], where=where, measures=["most", "n"])
            assert answers(asked) == expected, (name, where)
