"""What updates need of Spark: every verb against plain Python, and contractions of what they give."""

from __future__ import annotations

import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
)
from calitree.engines.api.semiring import AVG, BOOL, MAX, MIN, SUM_PRODUCT, Semiring
from calitree.engines.hybrid import HybridEngine
from calitree.engines.local.tables.tables import EncodedRelation
from calitree.engines.reference import ReferenceEngine
from calitree.engines.spark import SparkEngine
from calitree.engines.spark.fields import decoded
from calitree.engines.spark.table import SparkTable, measure
from calitree.errors import EngineError
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse
from calitree.types import Kind, kind_of_arrow
from tests.support.cluster import connect_server, finish, start
from tests.support.engines import OnFrames, spark_engine_named, spark_frame
from tests.support.scale import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ["spark", "hybrid, files", "hybrid, large", "hybrid, here"]
"""Spark's; the hybrid engine with relations on Spark and results here, all on Spark, and all here."""

SCHEMA = pa.schema(
    {
        "k": pa.int32(),
        "s": pa.string(),
        "f": pa.float64(),
        "d": pa.decimal128(10, 2),
        "b": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "utc": pa.timestamp("us", "UTC"),
        "big": pa.int64(),
    }
)
ROWS = st.tuples(
    st.sampled_from([None, 1, 2, -(2**31)]),
    st.sampled_from([None, "", "a", "${a}'\\"]),
    st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf]),
    st.sampled_from([None, Decimal("1.10"), Decimal("-99999999.99")]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, date(2024, 2, 29)]),
    st.sampled_from([None, datetime(2024, 10, 27, 2, 30)]),
    st.sampled_from([None, datetime(2024, 10, 27, 0, 30, 0, 1, UTC)]),
    st.sampled_from([None, 7, 2**62, -(2**63)]),
)
TABLES = st.lists(ROWS, max_size=6)
Row = tuple[Any, ...]


@pytest.fixture(params=ENGINES, scope="module")
def engine(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    if request.param == "hybrid, large":
        return OnFrames(spark, in_process=-1, collect=-1)
    if request.param == "hybrid, here":
        return HybridEngine(spark)
    return spark_engine_named(request.param, spark, tmp_path_factory.mktemp("changes"))


def table(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def plain(value: Any) -> Any:
    """Equal where SQL's groups are: there is one NaN and one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def read(engine: Any, result: Any) -> list[Row]:
    """The rows of a table, wherever it is."""
    if isinstance(result, pa.Table):
        arrow = result
    else:
        on_spark = isinstance(result, SparkTable)
        arrow = decoded(result.collected(), result.fields) if on_spark else engine.arrow(result)
        assert arrow.num_rows == result.rows
        assert arrow.column_names == list(result.kinds)
    columns = [map(plain, column.to_pylist()) for column in arrow.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * arrow.num_rows


def bag(engine: Any, result: Any) -> Counter[Row]:
    return Counter(read(engine, result))


def rows_of(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(tuple(map(plain, row)) for row in rows)


def of(relation: Any) -> Input:
    return Input(relation, {name: name for name in relation.kinds})


def expression(text: str, schema: pa.Schema = SCHEMA) -> Expression:
    def resolve(_: str | None, name: str) -> Resolved:
        return Resolved(name, (), kind_of_arrow(schema.field(name).type))

    return parse(text, resolve)


def column(name: str, lift: str | None, semiring: Semiring = SUM_PRODUCT) -> Column:
    lifts = () if lift is None else tuple(expression(part) for part in lift.split("|"))
    factors: tuple[Factor, ...] = (Lifted(0, lifts),) if lifts else ()
    return Column(name, semiring, factors)


N = column("n", None)
SUMS = (N, column("sum", "big"), column("paid", "d * k"), column("avg", "1|k", AVG))
ENDS = (
    column("first", "s", MIN),
    column("last", "day", MAX),
    column("most", "big", MAX),
    column("any", "b", BOOL),
)


def contract(engine: Any, relation: Any, output: Output) -> Any:
    (result,) = engine.contract(Contraction((of(relation),), (output,)))
    return result


def by(*keep: str, columns: tuple[Column, ...] = SUMS) -> Output:
    return Output((0,), (), keep, columns)


def same(engine: Any, result: Any, expected: list[Row], keys: int) -> None:
    """The rows of a result, which has each key once. Doubles may differ by their order of summing."""
    rows = {row[:keys]: row[keys:] for row in read(engine, result)}
    assert len(rows) == result.rows
    other = {row[:keys]: row[keys:] for row in expected}
    assert rows.keys() == other.keys()
    for key, values in rows.items():
        for value, wanted in zip(values, other[key], strict=True):
            if isinstance(value, float) and wanted != "NaN":
                assert value == pytest.approx(float(wanted), rel=1e-9)
            else:
                assert value == wanted


def computed(rows: Sequence[Row], output: Output, schema: pa.Schema = SCHEMA) -> list[Row]:
    """A result by the reference engine."""
    reference = ReferenceEngine()
    return read(reference, contract(reference, reference.load("t", table(rows, schema)), output))


def less(rows: Sequence[Row], gone: Sequence[Row]) -> list[Row]:
    left = list(rows)
    for row in gone:
        left.remove(row)
    return left


@st.composite
def updates(draw: st.DrawFn) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows that are there, that come, and that go."""
    old, new = draw(TABLES), draw(TABLES)
    every = [*old, *new]
    gone = draw(st.lists(st.sampled_from(range(len(every))), unique=True)) if every else []
    return old, new, [every[at] for at in gone]


# -- relations -----------------------------------------------------------------------------------


def test_schema_tells_types_to_load_rows_in(engine: Any) -> None:
    given = pa.schema([*SCHEMA, ("u", pa.int16()), ("x", pa.float32()), ("y", pa.binary())])
    relation = engine.load("t", given.empty_table())
    schema = engine.schema(relation)
    assert schema.names == given.names
    again = engine.load("t", schema.empty_table())
    assert again.kinds == relation.kinds
    assert engine.schema(again) == schema
    assert schema.field("at").type == pa.timestamp("us")
    assert schema.field("utc").type == pa.timestamp("us", "UTC")
    assert schema.field("d").type == pa.decimal128(10, 2)


def test_schema_of_integers_without_a_sign(spark: Any) -> None:
    engine = SparkEngine(spark)
    relation = engine.load("t", pa.table({"u": pa.array([2**64 - 1], pa.uint64())}))
    assert engine.schema(relation).field("u").type == pa.uint64()
    assert engine.load("t", engine.schema(relation).empty_table()).kinds == {"u": Kind.INTEGER}


@settings(max_examples=examples(3))
@given(updates())
def test_settle(engine: Any, update: tuple[list[Row], list[Row], list[Row]]) -> None:
    old, new, gone = update
    loaded = [engine.load("t", table(some)) for some in (old, new, gone)]
    settled = engine.settle(loaded[:2], loaded[2:])
    left = less([*old, *new], gone)
    assert bag(engine, settled) == rows_of(left)
    assert settled.rows == len(left)
    same(engine, contract(engine, settled, by("k", "s")), computed(left, by("k", "s")), 2)


def test_settle_of_one_table_is_that_table(engine: Any) -> None:
    relation = engine.load("t", table([]))
    assert read(engine, engine.settle([relation], [])) == []
    if engine.name == "spark":
        assert engine.settle([relation], []) is relation


DAY, AT = date(2024, 2, 29), datetime(2024, 10, 27, 2, 30)
NOW = datetime(2024, 10, 27, 0, 30, 0, 1, UTC)
ROW: Row = (1, "a", math.nan, None, True, None, None, None, 7)
OTHER: Row = (None, None, 1.5, Decimal("2.50"), None, None, None, None, None)


def test_large_relations_are_settled_when_they_are_used(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calitree.engines.spark.changes.BROADCAST_ROWS", 0)
    engine = SparkEngine(spark)
    old, new, gone = ([ROW] * 3 + [OTHER], [OTHER], [ROW, OTHER])
    loaded = [engine.load("t", table(some)) for some in (old, new, gone)]
    measure(engine.runtime, {some: {"big"} for some in loaded})
    settled = engine.settle(loaded[:2], loaded[2:])
    assert (settled.known_rows, settled.measured) == (3, {"big"})
    assert bag(engine, settled) == rows_of(less([*old, *new], gone))


def test_rows_that_are_not_there_cannot_go(spark: Any) -> None:
    engine = SparkEngine(spark)
    base, gone = engine.load("t", table([ROW])), engine.load("t", table([ROW, ROW]))
    with pytest.raises(EngineError, match="1 of the rows to be deleted are not there"):
        engine.settle([base], [gone])


def test_types_that_differ_are_widened(spark: Any) -> None:
    engine = SparkEngine(spark)
    base = engine.load(
        "t", pa.table({"x": pa.array([1, 2], pa.int32()), "d": [Decimal("0.1")] * 2})
    )
    more = engine.load("t", pa.table({"x": [2**40], "d": [Decimal("0.123")]}))
    settled = engine.settle([base, more], [])
    assert sorted(read(engine, settled)) == [
        (1, Decimal("0.100")),
        (2, Decimal("0.100")),
        (2**40, Decimal("0.123")),
    ]
    schema = engine.schema(settled)
    total = Output(
        (0,), (), (), (Column("s", SUM_PRODUCT, (Lifted(0, (expression("x * d", schema),)),)),)
    )
    assert read(engine, contract(engine, settled, total)) == [
        (3 * Decimal("0.100") + 2**40 * Decimal("0.123"),)
    ]


CONDITIONS = [
    "k = 1 or s is null",
    "f > 1",
    "d * k < big",
    "utc >= cast('2024-10-27 00:30:00' as timestamptz) and at < cast('2025-01-01' as timestamp)",
    "s = '${a}''\\\\' or b",
    "null",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_select(engine: Any, condition: str) -> None:
    rows: list[Row] = [
        ROW,
        ROW,
        OTHER,
        (2, "${a}'\\", math.inf, Decimal("-1.25"), False, DAY, AT, NOW, -(2**63)),
        (-3, "", -0.0, Decimal("99999999.99"), None, DAY, AT, NOW, 2**62),
        (1, None, 2.0, Decimal(0), False, DAY, AT, NOW, 1),
    ]
    reference, where = ReferenceEngine(), expression(condition)
    expected = reference.select(of(reference.load("t", table(rows))), where)
    selected = engine.select(of(engine.load("t", table(rows))), where)
    assert bag(engine, selected) == bag(reference, expected)
    assert selected.rows == expected.rows
    if condition == CONDITIONS[0]:
        total = read(reference, contract(reference, expected, by("s")))
        same(engine, contract(engine, selected, by("s")), total, 1)


@settings(max_examples=examples(3))
@given(st.data())
def test_matching(engine: Any, data: st.DataObject) -> None:
    rows = data.draw(st.lists(ROWS, max_size=8))
    names = data.draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
    places = [SCHEMA.names.index(name) for name in names]
    wanted = data.draw(st.lists(st.sampled_from(rows) | ROWS if rows else ROWS, max_size=3))
    relation = engine.load("t", table(rows))
    keys = (
        table(wanted)
        .select(names)
        .cast(pa.schema([engine.schema(relation).field(n) for n in names]))
    )
    matches = engine.matching(relation, keys)
    there = {tuple(plain(row[at]) for at in places) for row in wanted}
    assert bag(engine, matches) == rows_of(
        [row for row in rows if tuple(plain(row[at]) for at in places) in there]
    )
    left = engine.settle([relation], [matches])
    assert left.rows == len(rows) - matches.rows


def test_what_was_selected_stays_what_it_was(spark: Any, tmp_path: Path) -> None:
    """Whatever becomes of the files."""
    for engine in (SparkEngine(spark), HybridEngine(spark, in_process=-1, collect=-1)):
        path = tmp_path / type(engine).__name__
        path.mkdir()
        pq.write_table(table([ROW, OTHER]), path / "a.parquet")
        relation: Any = engine.load("t", str(path))
        selected = engine.select(of(relation), expression("k = 1"))
        matched = engine.matching(relation, pa.table({"k": pa.array([None], pa.int32())}))
        fixed = engine.fix(spark.read.parquet(str(path)))
        shutil.rmtree(path)
        assert bag(engine, selected) == rows_of([ROW])
        assert bag(engine, matched) == rows_of([OTHER])
        assert bag(engine, fixed) == rows_of([ROW, OTHER])


def test_void_columns(spark: Any) -> None:
    engine = SparkEngine(spark)
    given = pa.table({"x": pa.nulls(3), "k": [1, 1, 2]})
    relation, gone = engine.load("t", given), engine.load("t", given.slice(0, 1))
    assert sorted(read(engine, engine.settle([relation], [gone]))) == [(None, 1), (None, 2)]
    assert read(engine, engine.matching(relation, given.slice(2))) == [(None, 2)]


def test_fix(spark: Any) -> None:
    """A frame that is different each time it is read."""
    frame = spark.sql("SELECT id, rand() AS x, timestamp'2024-01-01 00:00:00Z' AS t FROM range(5)")
    snapshot = SparkEngine(spark).fix(frame)
    assert isinstance(snapshot, SparkTable)
    assert snapshot.known_rows == 5
    assert read(None, snapshot) == read(None, snapshot)
    here = HybridEngine(spark).fix(frame)
    assert isinstance(here, pa.Table)
    assert here.schema.field("t").type == pa.timestamp("us", "UTC")
    assert isinstance(HybridEngine(spark, collect=-1).fix(frame), SparkTable)


# -- results -------------------------------------------------------------------------------------


@settings(max_examples=examples(3))
@given(updates(), st.sampled_from([(), ("k",), ("f", "s"), ("day", "utc", "d")]))
def test_add(engine: Any, update: tuple[list[Row], list[Row], list[Row]], keep: Row) -> None:
    old, new, gone = update
    output = by(*keep)
    a, b, c = (contract(engine, engine.load("t", table(some)), output) for some in update)
    total = engine.add(output, [a, b], [c], "n")
    expected = computed(less([*old, *new], gone), output)
    same(engine, total, expected, len(keep))
    assert set(total.kinds) == {*keep, "n", "sum", "paid", "avg.n", "avg.s"}
    again = engine.add(output, [total, c], [], "n")
    same(engine, again, computed([*old, *new], output), len(keep))


@settings(max_examples=examples(2))
@given(TABLES, TABLES, st.sampled_from([(), ("b",), ("s", "f")]))
def test_add_without_minus(engine: Any, old: list[Row], new: list[Row], keep: Row) -> None:
    for output in (by(*keep, columns=ENDS), by(*keep, columns=())):
        parts = [contract(engine, engine.load("t", table(some)), output) for some in (old, new)]
        total = engine.add(output, parts, [], None)
        same(engine, total, computed([*old, *new], output), len(keep))


def test_sums_beyond_64_bits(engine: Any) -> None:
    """They are exact; and once they fit again they are what they were."""
    row: Row = (1, "a", None, None, None, None, None, None, 2**62)
    output = by("k", columns=(N, SUMS[1]))
    parts = [contract(engine, engine.load("t", table([row])), output) for _ in range(3)]
    total = engine.add(output, parts, [], None)
    (values,) = read(engine, total)
    assert values == (1, 3, 3 * 2**62)
    assert total.exact
    back = engine.add(output, [total], parts[1:], "n")
    assert read(engine, back) == [(1, 1, 2**62)]
    if isinstance(total, SparkTable):
        assert engine.name != "spark" or engine.arrow(back).schema.field("sum").type == pa.int64()


def test_contractions_of_a_sum(engine: Any) -> None:
    """It is an input like any other message."""
    output = by("k", "s")
    old, gone = [ROW, ROW, OTHER, (2, "a", *ROW[2:])], [ROW, OTHER]
    a, c = (contract(engine, engine.load("t", table(some)), output) for some in (old, gone))
    message = engine.add(output, [a], [c], "n")
    stores = engine.load(
        "stores", pa.table({"k": pa.array([1, 2, None], pa.int32()), "city": ["x", "y", "z"]})
    )
    inputs = of(stores), Input(message, {"k": "k", "s": "s"})
    wanted = Output(
        (0, 1),
        (),
        ("city",),
        tuple(Column(name, SUM_PRODUCT, (Stored(1, name),)) for name in ("n", "sum")),
    )
    (joined,) = engine.contract(Contraction(inputs, (wanted,)))
    assert sorted(read(engine, joined)) == [("x", 1, 7), ("y", 1, 7)]


FLOATS = (N, column("f", "f"))


def floats(*values: float | None) -> pa.Table:
    return table([(1, "a", value, *OTHER[3:]) for value in values])


@pytest.mark.parametrize(
    ("old", "gone", "kept"),
    [
        ([1e16, 1.0], [1e16], None),
        ([math.inf, 1.0], [math.inf], None),
        ([math.nan, 1.0], [2.0], None),
        ([5.0, 5.0], [5.0], 5.0),
        ([0.0, 0.0], [0.0], 0.0),
        ([0.25, None], [None], 0.25),
        ([1e16], [1e16], "gone"),
        ([math.nan], [math.nan], "gone"),
    ],
)
def test_digits_are_not_lost(engine: Any, old: list[Any], gone: list[Any], kept: Any) -> None:
    output = by("k", columns=FLOATS)
    a, c = (contract(engine, engine.load("t", floats(*numbers)), output) for numbers in (old, gone))
    total = engine.add(output, [a], [c], "n")
    if kept is None:
        assert total is None
    elif kept == "gone":
        assert read(engine, total) == []
    else:
        assert [row[-1] for row in read(engine, total)] == [kept]


def test_digits_of_a_total_are_not_lost(engine: Any) -> None:
    output = by(columns=FLOATS)
    a, b, c = (
        contract(engine, engine.load("t", floats(*numbers)), output)
        for numbers in ([1e16, 1.0], [1e16], [1.0])
    )
    assert engine.add(output, [a], [b], "n") is None
    assert read(engine, engine.add(output, [a], [c], "n")) == [(1, 1e16)]


def test_what_is_not_finite_elsewhere_is_no_loss(engine: Any) -> None:
    output = by("s", columns=FLOATS)
    old = [(1, "a", math.nan, *OTHER[3:]), (1, "b", 3.0, *OTHER[3:]), (1, "b", 4.0, *OTHER[3:])]
    a, c = (contract(engine, engine.load("t", table(some)), output) for some in (old, old[2:]))
    assert sorted(read(engine, engine.add(output, [a], [c], "n"))) == [
        ("a", 1, "NaN"),
        ("b", 1, 3.0),
    ]


def test_results_of_other_types_are_added(spark: Any) -> None:
    """Scales, doubles among whole numbers, and keys of another width."""
    engine, output = SparkEngine(spark), None
    parts = []
    for dtype, values in [
        (pa.decimal128(10, 2), [Decimal("1.25")]),
        (pa.decimal128(12, 4), [Decimal("0.0001")]),
        (pa.decimal128(38, 0), [Decimal(10**37)]),
        (pa.float64(), [0.5]),
    ]:
        given = pa.table(
            {"k": pa.array([1], pa.int32() if parts else pa.int64()), "x": pa.array(values, dtype)}
        )
        output = Output(
            (0,),
            (),
            ("k",),
            (N, Column("x", SUM_PRODUCT, (Lifted(0, (expression("x", given.schema),)),))),
        )
        parts.append(contract(engine, engine.load("t", given), output))
    assert output is not None
    exact = engine.add(output, parts[:2], [], None)
    assert read(engine, exact) == [(1, 2, Decimal("1.2501"))]
    assert exact.exact
    assert exact.kinds["k"] is Kind.INTEGER
    assert read(engine, engine.add(output, [exact], parts[1:2], "n")) == [(1, 1, Decimal("1.25"))]
    large = engine.add(output, parts[1:3], [], None)
    assert read(engine, large) == [(1, 2, pytest.approx(1e37))]
    assert not large.exact
    mixed = engine.add(output, [parts[0], parts[3]], [], None)
    assert read(engine, mixed) == [(1, 2, 1.75)]


@settings(max_examples=examples(3))
@given(TABLES, TABLES, st.sampled_from([("k", "f"), ("f",), ("k",), ()]))
def test_apart(engine: Any, rows: list[Row], gone: list[Row], keep: Row) -> None:
    output = by("k", "f")
    message = contract(engine, engine.load("t", table(rows)), output)
    keys = contract(engine, engine.load("t", table(gone)), by(*keep, columns=()))
    rest = engine.apart(message, keys)
    without = set(read(engine, keys))
    places = [("k", "f").index(name) for name in keep]
    expected = [
        row for row in computed(rows, output) if tuple(row[at] for at in places) not in without
    ]
    same(engine, rest, expected, 2)
    total = contract(engine, engine.load("t", table(rows)), by())
    left = engine.apart(total, contract(engine, engine.load("t", table(gone)), by(columns=())))
    assert left.rows == (0 if gone else total.rows)


# -- where it happens ----------------------------------------------------------------------------


def test_results_go_to_the_large_one(spark: Any) -> None:
    """One that has stayed on Spark, and one of this process."""
    engine = OnFrames(spark, in_process=-1, collect=40)
    output = by("k", columns=(N,))
    old = [(k, *ROW[1:]) for k in range(10)]
    large = contract(engine, engine.load("t", table(old)), output)
    small = contract(engine, engine.load("t", table([ROW, ROW])), output)
    assert isinstance(large, SparkTable)
    assert not isinstance(small, SparkTable)
    total: Any = engine.add(output, [large, small], [small], "n")
    assert isinstance(total, SparkTable)
    assert sorted(read(engine, total)) == [(k, 1) for k in range(10)]
    most = contract(engine, engine.load("t", table(old[2:])), by("k", columns=()))
    rest = engine.apart(total, most)
    assert not isinstance(rest, SparkTable)
    assert sorted(read(engine, rest)) == [(0, 1), (1, 1)]


@pytest.fixture
def sorted_file(tmp_path: Path) -> str:
    path = tmp_path / "t.parquet"
    rows = pa.table({"k": range(10_000), "x": pa.array([1.5, None] * 5_000)})
    pq.write_table(rows, path, row_group_size=1000)
    return str(path)


def test_a_few_row_groups_are_read_here(sorted_file: str) -> None:
    """No Spark is started for them."""
    engine = HybridEngine(in_process=30_000)
    relation = engine.load("t", sorted_file)
    assert engine.is_on_spark([relation])
    schema = engine.schema(relation)
    rows = engine.select(of(relation), expression("k between 10 and 12", schema))
    assert sorted(read(engine, rows)) == [(10, 1.5), (11, None), (12, 1.5)]
    rows = engine.matching(relation, pa.table({"x": pa.array([None], pa.float64()), "k": [4321]}))
    assert read(engine, rows) == [(4321, None)]
    assert engine.spark.runtime.started is None


def test_large_files_are_read_by_spark(spark: Any, sorted_file: str) -> None:
    engine = HybridEngine(spark, in_process=30_000)
    relation = engine.load("t", sorted_file)
    assert isinstance(relation, EncodedRelation)
    schema = engine.schema(relation)
    rows = engine.select(of(relation), expression("k % 5000 = 7", schema))
    assert isinstance(rows, EncodedRelation)
    assert rows.columns.schema == schema
    assert sorted(read(engine, rows)) == [(7, None), (5007, None)]
    no = pa.table({"x": pa.array([None], pa.float64())})
    assert engine.matching(relation, no).rows == 5_000
    settled = engine.settle([relation], [rows])
    assert isinstance(settled, SparkTable)
    assert settled.rows == 9_998
    assert not relation.nbytes


# -- behind Connect ------------------------------------------------------------------------------


def over_connect(remote: str) -> list[str]:
    """What is wrong; runs in a process of its own, as sessions do not mix."""
    import calitree as ct

    session = ct.spark_session(remote=remote)
    assert type(session).__module__.startswith("pyspark.sql.connect")
    wrong = []
    for engine in (
        SparkEngine(session),
        OnFrames(session, in_process=-1),
        OnFrames(session, in_process=-1, collect=-1),
    ):
        wrong += [f"{engine.name}: {difference}" for difference in _differences(engine, session)]
    return wrong


def _differences(engine: Any, session: Any) -> Iterator[str]:
    old, new, gone = ([ROW, ROW, OTHER], [OTHER, (2, *ROW[1:])], [ROW, OTHER])
    left = less([*old, *new], gone)
    a, b, c = (engine.load("t", table(some)) for some in (old, new, gone))
    if set(engine.schema(a).names) != set(SCHEMA.names):
        yield "schema"
    settled = engine.settle([a, b], [c])
    if bag(engine, settled) != rows_of(left):
        yield "settle"
    if engine.name == "spark":  # the rows are not counted, so nothing is computed yet
        late = engine.settle([engine.load("t", spark_frame(session, table(old)))], [c])
        if late.known_rows is not None or bag(engine, late) != rows_of(less(old, gone)):
            yield "settle of a frame"
    if bag(engine, engine.select(of(a), expression("k = 1"))) != rows_of([ROW, ROW]):
        yield "select"
    if bag(engine, engine.matching(a, pa.table({"f": [math.nan]}))) != rows_of([ROW, ROW]):
        yield "matching"
    for keep in ((), ("k", "f")):
        output = by(*keep)
        parts = [contract(engine, some, output) for some in (a, b, c)]
        total = engine.add(output, parts[:2], parts[2:], "n")
        if Counter(read(engine, total)) != Counter(computed(left, output)):
            yield f"add by {keep}"
        keys = contract(engine, c, by(*keep[:1], columns=()))
        expected = 0 if not keep else 1
        if engine.apart(total, keys).rows != expected:
            yield f"apart by {keep}"
    lossy = by("k", columns=FLOATS)
    parts = [
        contract(engine, engine.load("t", floats(*some)), lossy) for some in ([1e16, 1.0], [1e16])
    ]
    if engine.add(lossy, parts[:1], parts[1:], "n") is not None:
        yield "digits"
    if bag(engine, engine.fix(spark_frame(session, table(old)))) != rows_of(old):
        yield "fix"


@pytest.mark.xdist_group("cluster")
def test_over_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path, PYSPARK_PYTHON=sys.executable) as url:
        assert finish(start(over_connect, url)) == []
