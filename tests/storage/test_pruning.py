"""Row groups that no row of a filter can be in are not read; all rows that pass are."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calitree.errors import ExpressionError
from calitree.sql.analysis import Resolved
from calitree.sql.evaluator import evaluate
from calitree.sql.parser import Expression, parse_predicate
from calitree.storage.column_types import plain_table
from calitree.storage.frames import files_of
from calitree.storage.parquet import Filter, ParquetColumns, Selection, Split, read_split
from calitree.types import kind_of_arrow
from tests.support.scale import examples

NAN = float("nan")
DAY, INSTANT = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)


def columns(source: Any) -> ParquetColumns:
    files = files_of(source)
    assert files is not None
    return ParquetColumns("t", files, 2)


def parsed(text: str, schema: pa.Schema) -> tuple[Expression, ...]:
    def resolve(table: str | None, name: str) -> Resolved:
        return Resolved(f"t.{name}", ("t",), kind_of_arrow(schema.field(name).type))

    return parse_predicate(text, resolve)


def names(schema: pa.Schema) -> dict[str, str]:
    return {f"t.{label}": label for label in schema.names}


def select(files: ParquetColumns, *filters: str) -> Selection:
    wheres = [parsed(text, files.schema) for text in filters]
    return files.select([Filter(where) for where in wheres], names(files.schema))


def kept(files: ParquetColumns, *filters: str) -> list[int]:
    """Which row groups are read, counted over all files."""
    selection = select(files, *filters)
    return [selection.among.index(split) for split in selection.chosen]


def read(splits: list[Split], schema: pa.Schema) -> pa.Table:
    types = {field.name: field.type for field in schema}
    return pa.concat_tables([read_split(split, types) for split in splits])


def passing(table: pa.Table, where: tuple[Expression, ...]) -> str:
    """The rows that pass, as text, so that NaN is itself."""
    data = {f"t.{label}": table.column(label) for label in table.column_names}
    for condition in where:
        mask = evaluate(condition.node, data, table.num_rows)
        table = table.filter(pc.fill_null(mask, False))
        data = {f"t.{label}": table.column(label) for label in table.column_names}
    return str(table.to_pylist())


# -- what must be left out -------------------------------------------------------------------------

PLAIN = pa.table(
    {
        "i": pa.array(range(8), pa.int32()),
        "u": pa.array([2**64 - 8 + i for i in range(8)], pa.uint64()),
        "f": [float(i) for i in range(8)],
        "m": pa.array([Decimal(i) / 4 for i in range(8)], pa.decimal128(9, 2)),
        "s": list("abcdefgh"),
        "c": pa.array(list("aabbccdd")).dictionary_encode(),
        "b": [False] * 4 + [True] * 4,
        "d": [DAY + datetime.timedelta(100 * i) for i in range(8)],
        "t": pa.array(
            [INSTANT + datetime.timedelta(100 * i) for i in range(8)], pa.timestamp("ns")
        ),
        "z": pa.array(
            [INSTANT + datetime.timedelta(100 * i) for i in range(8)],
            pa.timestamp("ms", "Europe/Berlin"),
        ),
        "n": [None] * 4 + [1] * 2 + [None, 1],
    }
)
"""In row groups of two rows: 0 and 1, 2 and 3, 4 and 5, 6 and 7."""

PRUNED = {
    "i = 3": [1],
    "3 = i": [1],
    "i <> 3": [0, 1, 2, 3],
    "i < 2": [0],
    "i <= 2": [0, 1],
    "5 < i": [3],
    "i >= 5.5": [3],
    "i > 1e0": [1, 2, 3],
    "i between 2 and 3": [1],
    "i not between 1 and 6": [0, 3],
    "i in (0, 7)": [0, 3],
    "i in (0, null)": [0],
    "i not in (0, null)": [],
    f"i in ({', '.join(map(str, range(3, 99)))})": [1, 2, 3],
    f"i in (null, {', '.join(map(str, range(6, 99)))})": [3],
    f"i not in ({', '.join(map(str, range(99)))})": [0, 1, 2, 3],
    "not (i < 6)": [3],
    "i = 1 or s = 'h'": [0, 3],
    "i < 4 and s > 'c'": [1],
    "not (i < 4 or i > 5)": [2],
    "(i < 2) is true": [0],
    "(i < 2) is not true": [1, 2, 3],
    "(n = 1) is null": [0, 1, 3],
    "(n = 1 and i >= 0) is null": [0, 1, 3],
    "(i >= 2 and n = 1) is null": [1, 3],
    "(i < 2 or n = 1) is null": [1, 3],
    "i = null": [],
    "i is null": [],
    "i + 1 = 3": [0, 1, 2, 3],
    "i = u": [0, 1, 2, 3],
    "i = cast('x' as int)": [0, 1, 2, 3],
    "u > 18446744073709551613": [3],
    "u < 9": [],
    "f < 2": [0],
    "f = 3": [1],
    "f in (3, 6)": [1, 3],
    "f > 5": [0, 1, 2, 3],
    "f >= 5 and f <= 5": [2],
    "f <> 3": [0, 1, 2, 3],
    "f = cast('nan' as double)": [0, 1, 2, 3],
    "m > 1.3": [3],
    "m = 0.75": [1],
    "s >= 'g'": [3],
    "s like 'a%'": [0, 1, 2, 3],
    "c = 'b'": [1],
    "b": [2, 3],
    "not b": [0, 1],
    "b = true": [2, 3],
    "b is false": [0, 1],
    "d < '2020-06-01'": [0],
    "d > timestamp '2021-11-01 12:00:00'": [3],
    "year(d) = 2020": [0, 1],
    "t >= '2021-01-01'": [2, 3],
    "date_trunc('year', t) = '2020-01-01'": [0, 1],
    "z < '2020-01-01 00:00:00'": [],
    "z <= '2020-01-01 00:00:00'": [0],
    "n is null": [0, 1, 3],
    "n is not null": [2, 3],
    "n = 1": [2, 3],
    "n <> 1": [],
    "not (n = 1)": [],
}


@pytest.mark.parametrize("text", PRUNED)
def test_what_is_read(text: str, tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    assert kept(files, text) == PRUNED[text]
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2, store_decimal_as_integer=True)
    assert kept(columns(tmp_path), text) == PRUNED[text]


def test_the_number_of_row_groups_is_shown(tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2)
    selection = select(columns(tmp_path), "i < 3")
    assert str(selection) == "2 of 4 row groups"
    assert (selection.rows, selection.skipped_rows) == (4, 4)
    assert [split.groups for split in selection.splits(2)] == [(0,), (1,)]
    assert [split.groups for split in selection.splits(100)] == [(0, 1)]


def test_a_group_is_read_if_any_filter_needs_it(tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    assert kept(files, "i = 0", "s = 'h'") == [0, 3]
    assert [split.groups for split in select(files, "i = 0", "s = 'h'").splits(9)] == [(0, 3)]
    everything = files.select(
        [Filter(parsed("i = 0", files.schema)), Filter(())], names(files.schema)
    )
    assert str(everything) == "4 of 4 row groups"
    assert str(files.select([], names(files.schema))) == "0 of 4 row groups"


def test_attributes_of_other_relations_do_not_count(tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    where = parsed("i < 2 and u is null and b", files.schema)
    assert str(files.select([Filter(where)], {"t.i": "i"})) == "1 of 4 row groups"
    assert str(files.select([Filter(where)], {})) == "4 of 4 row groups"


def test_where_nothing_can_pass_there_are_still_columns(tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    selection = select(files, "i > 100")
    assert (str(selection), selection.rows) == ("0 of 4 row groups", 0)
    assert read(selection.splits(9), files.schema).equals(plain_table(PLAIN)[:0])
    pq.ParquetWriter(tmp_path / "a.parquet", PLAIN.schema).close()
    files = columns(tmp_path)
    assert str(select(files, "i > 100")) == "0 of 0 row groups"
    assert read(files.splits(9), files.schema).equals(plain_table(PLAIN)[:0])


# -- what footers may leave out --------------------------------------------------------------------


def test_without_statistics_everything_is_read(tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2, write_statistics=["i"])
    files = columns(tmp_path)
    assert kept(files, "s = 'a'") == [0, 1, 2, 3]
    assert kept(files, "s is null") == [0, 1, 2, 3]
    assert kept(files, "i = 1 and s = 'a'") == [0]


def test_nan_is_in_no_statistics(tmp_path: Path) -> None:
    """It is greater than all numbers, and equal to itself."""
    table = pa.table({"f": pa.array([1.0, NAN, 3.0, 4.0, NAN, NAN, None, None], pa.float32())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    assert pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0).statistics.max == 1.0
    assert kept(files, "f > 9") == [0, 1, 2]
    assert kept(files, "f < 2") == [0, 2]
    assert kept(files, "f = cast('nan' as double)") == [0, 1, 2]
    assert kept(files, "f = 2") == [2]


def test_text_that_was_cut_is_still_a_bound(tmp_path: Path) -> None:
    """Polars writes the first 64 bytes, the last of them one more in a maximum."""
    long = [("a" + "ö" * 60 + f"{i}") for i in range(4)] + ["€" * 40 + f"{i}" for i in range(4)]
    pl.DataFrame({"s": long}).write_parquet(tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    cut = pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0).statistics
    assert len(cut.min_raw) <= 64
    for i, text in enumerate(long):
        assert i // 2 in kept(files, f"s = '{text}'")
        assert i // 2 in kept(files, f"s >= '{text}'")
        assert i // 2 in kept(files, f"s <= '{text}'")
    assert kept(files, "s < 'a'") == []
    assert 0 not in kept(files, "s > 'b'")


def test_moments_that_python_has_no_word_for(tmp_path: Path) -> None:
    table = pa.table(
        {
            "d": pa.array([4_000_000, 5_000_000], pa.int32()).cast(pa.date32()),
            "t": pa.array([2**61, 2**62]).cast(pa.timestamp("us")),
            "first": pa.array([-(2**63) + 1, 0]).cast(pa.timestamp("ns")),
            "ns": pa.array([0, 1_577_836_800_000_000_001]).cast(pa.timestamp("ns")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    files = columns(tmp_path)
    assert kept(files, "d > '9999-12-31'") == [0, 1]
    assert kept(files, "d < '9999-12-31'") == []
    assert kept(files, "t < '2020-01-01'") == []
    assert kept(files, "first < '1700-01-01'") == [0]
    assert kept(files, "ns > '2020-01-01'") == [1]
    assert kept(files, "ns = '2020-01-01'") == [1], "which it would be in microseconds"
    assert kept(files, "ns < '9999-12-31'") == [0, 1]
    assert kept(files, "ns in ('9999-12-31', '2020-01-01')") == [1]


def test_columns_that_have_columns(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1}, {"b": 2}], "a.b": [7, 8]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    files = columns(tmp_path)
    where = parsed('"a.b" = 7', files.schema)
    assert [
        split.groups for split in files.select([Filter(where)], names(files.schema)).chosen
    ] == [(0,)]
    assert files.schema.names == ["a.b"]
    assert files.null_free == {"a.b"}


def test_directories_tell_values(tmp_path: Path) -> None:
    null = "__HIVE_DEFAULT_PARTITION__"
    for i, (year, city) in enumerate([(2020, "K%C3%B6ln"), (2021, null), (2022, "x")]):
        path = tmp_path / f"year={year}" / f"city={city}" / "0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"k": [2 * i, 2 * i + 1]}), path, row_group_size=1)
    files = columns(tmp_path)
    assert kept(files, "year = 2021") == [2, 3]
    assert kept(files, "year > 2020 and k < 3") == [2]
    assert kept(files, "city = 'Köln'") == [0, 1]
    assert kept(files, "city is null") == [2, 3]
    assert kept(files, "city <> 'x'") == [0, 1]


def test_files_that_have_a_column_of_no_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": pa.nulls(2)}), tmp_path / "b.parquet")
    files = columns(tmp_path)
    assert 0 not in kept(files, "k > 2")
    assert kept(files, "k is null")[-1] == 1


def test_statistics_are_looked_at_once_and_only_for_a_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import calitree.storage.parquet

    seen: list[str] = []
    looked = calitree.storage.parquet.bounds_of

    def spied(label: str, *rest: Any) -> Any:
        seen.append(label)
        return looked(label, *rest)

    monkeypatch.setattr(calitree.storage.parquet, "bounds_of", spied)
    pq.write_table(PLAIN, tmp_path / "a.parquet", row_group_size=2)
    files = columns(tmp_path)
    files.splits(3)
    assert seen == []
    select(files, "i = 1", "i = 2 and s = 'x'")
    select(files, "i = 3")
    assert seen == ["i", "s"]


# -- all rows that pass are read -------------------------------------------------------------------


def quoted(value: object) -> str:
    return f"'{value}'"


def instant(second: int) -> datetime.datetime:
    return INSTANT + datetime.timedelta(seconds=second, microseconds=second % 7)


LITTLE = st.integers(-4, 4)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.0, NAN, math.inf, -math.inf, 1e300])
TEXTS = st.sampled_from(["", "a", "ab", "b", "ö", "z" * 70, "z" * 70 + "y"])
WHOLE = st.one_of(LITTLE.map(str), LITTLE.map(lambda i: f"{i}.5"), LITTLE.map(lambda i: f"{i}e0"))
DAYS = LITTLE.map(lambda i: DAY + datetime.timedelta(i * 90))
INSTANTS = LITTLE.map(lambda i: instant(i * 40_000))

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], st.SearchStrategy[str]]] = {
    "i": (pa.int16(), LITTLE, WHOLE),
    "j": (pa.int64(), st.sampled_from([-(2**63), -1, 2**53, 2**53 + 1, 2**63 - 1]),
          st.sampled_from(["9007199254740993", "9007199254740992e0", "-1", "1e19"])),
    "u": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1]),
          st.sampled_from(["0", "18446744073709551615", "9223372036854775808", "-1", "1e0"])),
    "f": (pa.float64(), FLOATS, st.one_of(FLOATS.map(lambda x: f"cast('{x}' as double)"), WHOLE)),
    "g": (pa.float32(), FLOATS, WHOLE),
    "h": (pa.float16(), FLOATS, WHOLE),
    "m": (pa.decimal128(9, 2), LITTLE.map(lambda i: Decimal(i) / 4), WHOLE),
    "s": (pa.string(), TEXTS, TEXTS.map(quoted)),
    "c": (pa.dictionary(pa.int32(), pa.string()), TEXTS, TEXTS.map(quoted)),
    "b": (pa.bool_(), st.booleans(), st.sampled_from(["true", "false"])),
    "d": (pa.date32(), DAYS, DAYS.map(quoted)),
    "e": (pa.date64(), DAYS, DAYS.map(quoted)),
    "t": (pa.timestamp("us"), INSTANTS, INSTANTS.map(quoted)),
    "ns": (pa.timestamp("ns"), INSTANTS, st.one_of(INSTANTS.map(quoted), st.just("'9999-12-31'"))),
    "z": (pa.timestamp("ms", "Asia/Tokyo"), INSTANTS, INSTANTS.map(quoted)),
    "x": (pa.null(), st.none(), st.just("1")),
    "year": (pa.int64(), LITTLE, WHOLE),
    "city": (pa.string(), TEXTS, TEXTS.map(quoted)),
}  # fmt: skip
"""The type of each column, its values, and what it is compared with."""


@st.composite
def compared(draw: st.DrawFn) -> str:
    label = draw(st.sampled_from(list(KINDS)))
    literal = (
        st.one_of(KINDS[label][2], st.just("null")) if draw(st.booleans()) else KINDS[label][2]
    )
    value = label
    if label in ("d", "e", "t", "ns", "z") and draw(st.integers(0, 3)) == 0:
        value, literal = f"year({label})", st.sampled_from(["2019", "2020", "2021"])
    forms: list[Callable[[], str]] = [
        lambda: (
            f"{value} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(literal)}"
        ),
        lambda: (
            f"{draw(literal)} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {value}"
        ),
        lambda: f"{value} in ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})",
        lambda: f"{value} between {draw(literal)} and {draw(literal)}",
        lambda: f"{label} is {draw(st.sampled_from(['null', 'not null']))}",
        lambda: "b" if draw(st.booleans()) else "t < d",
    ]
    return f"({draw(st.sampled_from(forms))()})"


CONDITIONS = st.recursive(
    compared(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({' '.join(p)})"),
        inner.map(lambda text: f"(not {text})"),
        st.tuples(inner, st.sampled_from(["true", "false", "null", "not null"])).map(
            lambda pair: f"({pair[0]} is {pair[1]})"
        ),
    ),
    max_leaves=4,
)

STORED = [label for label in KINDS if label not in ("year", "city")]


@st.composite
def files(draw: st.DrawFn) -> list[tuple[dict[str, list[Any]], str, str, dict[str, Any]]]:
    """Some files: their columns, the directory values, how they are written."""
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        rows = draw(st.integers(0, 6))
        nulls = draw(st.booleans())
        data = {}
        for label in STORED:
            values = KINDS[label][1]
            data[label] = draw(
                st.lists(
                    st.one_of(st.none(), values) if nulls else values, min_size=rows, max_size=rows
                )
            )
        options = {
            "row_group_size": draw(st.integers(1, 3)),
            "write_statistics": draw(st.sampled_from([True, True, True, False, STORED[::2]])),
            "store_decimal_as_integer": draw(st.booleans()),
            "use_deprecated_int96_timestamps": draw(st.sampled_from([False, False, True])),
            "version": draw(st.sampled_from(["1.0", "2.6"])),
        }
        parts.append((data, draw(LITTLE.map(str)), draw(st.sampled_from(["a", "b", "z"])), options))
    return parts


@settings(max_examples=examples(50))
@given(files=files(), texts=st.lists(CONDITIONS, min_size=1, max_size=6))
def test_no_row_that_passes_is_left_out(
    files: list[Any], texts: list[str], tmp_path_factory: Any
) -> None:
    directory = tmp_path_factory.mktemp("files")
    same = files[0][3]
    for i, (data, year, city, options) in enumerate(files):
        path = directory / f"year={year}" / f"city={city}" / f"{i}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema({label: KINDS[label][0] for label in STORED})
        written = {
            **options,
            "version": same["version"],
            "use_deprecated_int96_timestamps": same["use_deprecated_int96_timestamps"],
        }
        pq.write_table(pa.table(data, schema=schema), path, **written)
    files = columns(directory)
    whole = files.table()
    wheres = []
    for text in texts:
        where = parsed(text, files.schema)
        try:
            expected = passing(whole, where)
        except ExpressionError:
            continue
        wheres.append(where)
        selection = files.select([Filter(where)], names(files.schema))
        assert selection.rows + selection.skipped_rows == files.rows
        assert passing(read(selection.splits(4), files.schema), where) == expected, text
    assume(wheres)
    joint = read(
        files.select([Filter(w) for w in wheres], names(files.schema)).splits(4), files.schema
    )
    for where in wheres:
        assert passing(joint, where) == passing(whole, where)


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([5], [0]),
        ([5, 35], [0, 3]),
        ([-1, 99], []),
        ([], []),
        (list(range(15, 18)), [1]),
        (list(range(12, 29)) * 2, [1, 2]),  # too many to look at one by one
    ],
)
def test_row_groups_that_meet_none_of_some_values(
    tmp_path: Path, values: list[int], groups: list[int]
) -> None:
    """Four groups of ten numbers each; a group of NULLs meets nobody."""
    path = tmp_path / "t.parquet"
    column = pa.array([*range(40), *[None] * 10], pa.int32())
    pq.write_table(pa.table({"i": column, "f": column.cast(pa.float64())}), path, row_group_size=10)
    files = ParquetColumns("t", [str(path)], 1)
    keys = [("t.i", pa.array(values, pa.int64()))]
    selection = files.select([Filter((), keys)], {"t.i": "i"})
    assert [split.groups for split in selection.chosen] == [(group,) for group in groups]
    text = [("t.i", pa.array(["a"]))]
    assert len(files.select([Filter((), text)], {"t.i": "i"}).chosen) == 5, "not to be compared"
    floats = [("t.f", pa.array([5.0]))]
    assert len(files.select([Filter((), floats)], {"t.f": "f"}).chosen) == 5, "NaN may be anywhere"


@pytest.mark.parametrize(
    ("column", "values", "groups"),
    [
        (pa.array([True, False, None]), pa.array([True]), [0]),
        (pa.array(["a", "b", None]), pa.array(["b"]), [1]),
        (pa.array(["a", "b", None]).dictionary_encode(), pa.array(["b"]), [1]),
        (pa.array([1, 2, None], pa.timestamp("us", "UTC")), pa.array([2], pa.timestamp("us", "UTC")), [1]),
        (pa.array([1, 2, None], pa.uint64()), pa.array([Decimal(2)], pa.decimal128(20, 0)), [1]),
        (pa.array([Decimal("1.10"), Decimal("2.20"), None], pa.decimal128(9, 2)),
         pa.array([Decimal("2.2")], pa.decimal256(76, 2)), [1]),
        # What has no place among the column's own values is not looked for.
        (pa.array([1, 2, None], pa.timestamp("ms")), pa.array([2001], pa.timestamp("us")), []),
        (pa.array([1, 2, None], pa.int32()), pa.array([2.5]), [0, 1, 2]),
        (pa.array([1, 2, None], pa.uint8()), pa.array([-1, 2]), [0, 1, 2]),
        (pa.array([b"a", b"b", None]), pa.array([b"b"]), [0, 1, 2]),
        (pa.nulls(3), pa.array([1]), [0, 1, 2]),
    ],
)  # fmt: skip
def test_values_of_other_types(
    tmp_path: Path, column: pa.Array, values: pa.Array, groups: list[int]
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": column}), path, row_group_size=1)
    files = ParquetColumns("t", [str(path)], 1)
    selection = files.select([Filter((), [("t.k", values)])], {"t.k": "k"})
    assert [split.groups for split in selection.chosen] == [(group,) for group in groups]
