"""The vectorised evaluator, the row-by-row one and DuckDB give the same values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sqlglot
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlglot import exp

from calitree.apps.verify.plain import DEFINITIONS
from calitree.engines.reference.rowwise import evaluate_row
from calitree.errors import ExpressionError
from calitree.sql.analysis import Resolved
from calitree.sql.evaluator import compile, evaluate
from calitree.sql.parser import parse
from calitree.types import kind_of_arrow
from tests.support.expression_cases import (
    COLUMNS,
    INF,
    NAN,
    SCHEMA,
    TEXTS,
    differences,
    expression,
    table,
)

TABLE = table()
Column = list[Any]


@pytest.fixture(scope="module")
def duck() -> Any:
    connection = duckdb.connect()
    for definition in DEFINITIONS:
        connection.execute(definition)
    return connection


def columns_of(data: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: data.column(name) for name in data.column_names}


def vectorised(text: str, data: pa.Table) -> Column:
    result: Column = evaluate(expression(text).node, columns_of(data), data.num_rows).to_pylist()
    return result


def row_by_row(text: str, data: pa.Table) -> Column:
    node = expression(text).node
    return [evaluate_row(node, row) for row in data.to_pylist()]


def by_duckdb(duck: Any, text: str, data: pa.Table) -> Column | None:
    """None where DuckDB raises, because a number does not fit its type."""
    duck.register("data", data)
    sql = expression(text).node.sql(dialect="duckdb")
    try:
        result: Column = duck.sql(f"SELECT {sql} AS r FROM data").to_arrow_table()["r"].to_pylist()
    except duckdb.OutOfRangeException:
        return None
    return result


def agree(duck: Any, text: str, data: pa.Table) -> None:
    fast = vectorised(text, data)
    assert not differences(fast, row_by_row(text, data)), text
    expected = by_duckdb(duck, text, data)
    assert expected is None or not differences(fast, expected), text


@pytest.mark.parametrize("text", TEXTS)
def test_every_form_agrees(duck: Any, text: str) -> None:
    agree(duck, text, TABLE)


@pytest.mark.parametrize("text", TEXTS)
def test_no_rows(text: str) -> None:
    none = TABLE.slice(0, 0)
    assert vectorised(text, none) == []


def test_the_types_of_a_result_do_not_depend_on_the_rows() -> None:
    for text in TEXTS:
        node = expression(text).node
        all_rows = evaluate(node, columns_of(TABLE), TABLE.num_rows)
        no_rows = evaluate(node, columns_of(TABLE.slice(0, 0)), 0)
        if not pa.types.is_decimal(all_rows.type):  # of these, the precision may differ
            assert all_rows.type == no_rows.type, text


# --- random data and random trees

TIMESTAMPS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
BIG = st.integers(-(2**63), 2**63 - 1)
LETTERS = st.text(alphabet="abAB %_\\.é😀\n", max_size=6)

STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "i": BIG | st.integers(-5, 5),
    "j": BIG | st.integers(-5, 5),
    "k": st.integers(-(2**31), 2**31 - 1),
    "x": st.floats() | st.sampled_from([0.5, 1.5, 2.5, 1e16, -1e-5]),
    "y": st.floats(-1e6, 1e6) | st.just(NAN),
    "m": st.decimals(-99999999, 99999999, places=2),
    "q": st.decimals(-99999999, 99999999, places=4),
    "s": LETTERS,
    "u": LETTERS,
    "b": st.booleans(),
    "c": st.booleans(),
    "d": TIMESTAMPS.map(datetime.date),
    "e": TIMESTAMPS.map(datetime.date),
    "t": TIMESTAMPS,
    "v": TIMESTAMPS,
    "z": TIMESTAMPS.map(lambda timestamp: timestamp.replace(tzinfo=UTC)),
}
SMALL = STRATEGIES | {
    "i": st.integers(-20, 20),
    "j": st.integers(-3, 3),
    "k": st.integers(-5, 5),
    "x": st.floats(-100, 100) | st.sampled_from([NAN, INF, -INF, -0.0]),
    "m": st.decimals(-10, 10, places=2),
    "q": st.decimals(-10, 10, places=4),
}


def tables(strategies: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[pa.Table]:
    def of_size(rows: int) -> st.SearchStrategy[pa.Table]:
        columns = {
            field.name: st.lists(
                st.none() | strategies.get(field.name, st.sampled_from(COLUMNS[field.name])),
                min_size=rows,
                max_size=rows,
            )
            for field in SCHEMA
        }
        return st.fixed_dictionaries(columns).map(table)

    return st.integers(0, 6).flatmap(of_size)


STABLE = [text for text in TEXTS if "round" not in text and "cast(x / 3e4" not in text]


@given(data=tables(STRATEGIES), texts=st.lists(st.sampled_from(STABLE), min_size=8, max_size=8))
def test_random_data(duck: Any, data: pa.Table, texts: list[str]) -> None:
    for text in texts:
        try:
            expected = row_by_row(text, data)
        except ExpressionError:
            with pytest.raises(ExpressionError):
                vectorised(text, data)
            continue
        assert not differences(vectorised(text, data), expected), text
        from_duckdb = by_duckdb(duck, text, data)
        assert from_duckdb is None or not differences(expected, from_duckdb), text


NUMBERS = st.sampled_from(["i", "j", "k", "x", "y", "m", "q", "1", "0", "2.5", "1e0", "null"])
TRUTHS = st.sampled_from(["b", "c", "true", "null"])
TEXT_LEAVES = st.sampled_from(["s", "u", "'a'", "null"])
DAYS = st.sampled_from(["d", "e", "t", "v", "date '2020-02-29'"])


def grow(parts: dict[str, st.SearchStrategy[str]]) -> dict[str, st.SearchStrategy[str]]:
    """Trees one level higher than those of `parts`."""
    number, truth, string, day = (parts[name] for name in ("number", "truth", "text", "day"))

    def fill(templates: list[str], **holes: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        shapes = st.sampled_from(templates)
        values = st.fixed_dictionaries(holes)
        return st.builds(lambda shape, filled: shape.format(**filled), shapes, values)

    arithmetic = [
        "({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} / {b})", "({a} % {b})", "(-{a})",
        "abs({a})", "floor({a})", "ceil({a})", "greatest({a}, {b})", "least({a}, {b})",
        "coalesce({a}, {b})", "nullif({a}, {b})", "case when {t} then {a} else {b} end",
        "case when {t} then {a} end", "length({w})", "year({d})", "if({t}, {a}, {b})",
    ]  # fmt: skip
    conditions = [
        "({a} < {b})", "({a} = {b})", "({a} <> {b})", "({a} >= {b})", "({w} < {v})", "({d} <= {e})",
        "({a} is null)", "({t} and {u})", "({t} or {u})", "(not {t})", "({t} is true)",
        "({t} is not false)", "({a} in ({b}, 1, null))", "({a} is distinct from {b})",
        "({w} like '%a_')", "({w} ilike 'A%')", "({a} between {b} and 2)", "coalesce({t}, {u})",
    ]  # fmt: skip
    texts = [
        "({w} || {v})", "lower({w})", "substring({w}, 2, 2)", "trim({w})", "coalesce({w}, {v})",
        "nullif({w}, {v})", "greatest({w}, {v})", "case when {t} then {w} else {v} end",
    ]  # fmt: skip
    days = ["case when {t} then {d} else {e} end", "date_trunc('week', {d})", "least({d}, {e})"]
    holes = {"a": number, "b": number, "t": truth, "u": truth, "w": string, "v": string}
    holes |= {"d": day, "e": day}
    return {
        "number": number | fill(arithmetic, **holes),
        "truth": truth | fill(conditions, **holes),
        "text": string | fill(texts, **holes),
        "day": day | fill(days, **holes),
    }


LEAVES = {"number": NUMBERS, "truth": TRUTHS, "text": TEXT_LEAVES, "day": DAYS}
TREES = grow(grow(LEAVES))


@given(data=tables(SMALL), text=st.one_of(*TREES.values()))
def test_random_trees(duck: Any, data: pa.Table, text: str) -> None:
    try:
        expression(text)
    except ExpressionError:  # null is of any kind, so some trees do not type
        assume(False)
    expected = by_duckdb(duck, text, data)
    assume(expected is not None)
    assert not differences(vectorised(text, data), expected or []), text
    assert not differences(row_by_row(text, data), expected or []), text


# --- numbers that are large


def of(text: str, **columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An expression over columns given here, named as they are."""

    def resolve(relation: str | None, name: str) -> Resolved:
        return Resolved(name, ("t",), kind_of_arrow(columns[name].type))

    length = len(next(iter(columns.values())))
    return evaluate(parse(text, resolve).node, columns, length)


LARGE_INTEGERS = pa.array([2**62, -(2**63), 3, None, 2**63 - 1])


@pytest.mark.parametrize("sign", ["+", "-", "*"])
def test_an_overflow_continues_as_decimal(sign: str) -> None:
    other = pa.array([2**62, 1, -5, 7, -(2**63)])
    result = of(f"a {sign} b", a=LARGE_INTEGERS, b=other)
    assert pa.types.is_decimal128(result.type)
    exact = [
        None if a is None else eval(f"{a} {sign} {b}")
        for a, b in zip(LARGE_INTEGERS.to_pylist(), other.to_pylist(), strict=True)
    ]
    assert result.to_pylist() == exact
    assert of(f"a {sign} b = c", a=LARGE_INTEGERS, b=other, c=other).to_pylist() == [
        None if value is None else value == c
        for value, c in zip(exact, other.to_pylist(), strict=True)
    ]


def test_what_has_passed_64_bits_is_computed_with_on() -> None:
    a = pa.array([2**62 + 1, 3])
    assert of("(case when a > 5 then a * a else a end) * 2 - 1", a=a).to_pylist() == [
        2 * (2**62 + 1) ** 2 - 1,
        5,
    ]
    assert of("cast(a * 4 as bigint) % 7", a=a).to_pylist() == [(2**64 + 4) % 7, 12 % 7]
    assert of("a * a * a", a=a).type == pa.float64()
    unsigned = pa.array([2**63 + 5, 1], pa.uint64())
    assert of("u * u + u", u=unsigned).to_pylist() == [(2**63 + 5) * (2**63 + 6), 2]


def test_what_fits_stays_exact() -> None:
    result = of(
        "a * b + 1", a=pa.array([3037000499, -3037000499]), b=pa.array([3037000499, 3037000499])
    )
    assert result.type == pa.int64()
    assert result.to_pylist() == [3037000499**2 + 1, -(3037000499**2) + 1]


def test_negating_the_smallest_number() -> None:
    assert of("-a", a=pa.array([-(2**63), 1])).to_pylist() == [2**63, -1]
    assert of("abs(a)", a=pa.array([-(2**63), 1])).to_pylist() == [2**63, 1]
    assert of("a % -1", a=pa.array([-(2**63), 1])).to_pylist() == [0, 0]


def test_a_branch_not_taken_cannot_make_the_others_inexact() -> None:
    result = of("case when a < 100 then a * a * a else a end", a=pa.array([7, 2**62 + 1]))
    assert result.type == pa.int64()
    assert result.to_pylist() == [343, 2**62 + 1]


def test_decimals_stay_exact_beyond_their_declared_digits() -> None:
    """Three factors of DECIMAL(15, 2) may need more than 38 digits; these do not."""
    price = pa.array([Decimal("901.00"), Decimal("-0.01"), None], pa.decimal128(15, 2))
    rate = pa.array([Decimal("0.05"), Decimal("0.10"), Decimal("0.01")], pa.decimal128(15, 2))
    result = of("p * (1 - r) * (1 + r) * p * p", p=price, r=rate)
    assert pa.types.is_decimal128(result.type)
    p, r = Decimal("901.00"), Decimal("0.05")
    assert result[0].as_py() == p * (1 - r) * (1 + r) * p * p


def test_decimals_of_more_than_38_digits_become_floats() -> None:
    huge = Decimal(10) ** 37
    result = of("a * a", a=pa.array([huge, Decimal(2)], pa.decimal128(38, 0)))
    assert result.type == pa.float64()
    assert result.to_pylist() == pytest.approx([1e74, 4.0])


def test_decimals_of_many_digits_compare_exactly() -> None:
    a = pa.array([Decimal("1." + "0" * 19 + "1")], pa.decimal128(38, 20))
    assert of("a > b", a=a, b=pa.array([1])).to_pylist() == [True]
    assert of("a = 1", a=a).to_pylist() == [False]
    assert of("coalesce(a, b)", a=a, b=pa.array([2**62])).to_pylist() == a.to_pylist()


def test_literals_beyond_64_bits() -> None:
    a = pa.array([2**63 - 1, -(2**63)])
    assert of("a < 9223372036854775808", a=a).to_pylist() == [True, True]
    assert of("a = -9223372036854775808", a=a).to_pylist() == [False, True]
    assert of("a < 1" + "0" * 40, a=a).to_pylist() == [True, True]


def test_a_decimal_equals_the_double_that_is_written_alike() -> None:
    cents = range(1, 200_000, 7)
    exact = pa.array([Decimal(cent).scaleb(-2) for cent in cents], pa.decimal128(15, 2))
    nearest = pa.array([float(f"{cent / 100:.2f}") for cent in cents])
    assert set(of("m = x", m=exact, x=nearest).to_pylist()) == {True}
    assert of("cast(m as double)", m=exact).equals(nearest)


def test_a_decimal_literal_is_a_decimal() -> None:
    assert of("a * 1.1", a=pa.array([3])).to_pylist() == [Decimal("3.3")]
    assert of("a * 1.1", a=pa.array([3.0])).to_pylist() == [3.0 * 1.1]


# --- types of columns


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b", "a"]),
        pa.array(["a", None, "b", "a"], pa.large_string()),
        pa.array(["a", None, "b", "a"], pa.string_view()),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([0, None, 1, 0], pa.int8()), pa.array(["a", "b"], pa.string_view())
        ),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", None, "b"])),
        pa.chunked_array([["a", None], [], ["b", "a"]]),
        pa.chunked_array([pa.array(["a", None]), pa.array(["b", "a"])]).dictionary_encode(),
        pa.chunked_array([pa.array(["a", None, "b", "a"])]),
    ],
    ids=lambda column: str(column.type).split("<")[0],
)  # fmt: skip
def test_every_encoding_of_text(column: pa.Array | pa.ChunkedArray) -> None:
    values = ["a", None, "b", "a"]
    assert of("a", a=column).to_pylist() == values
    assert of("a = 'a'", a=column).to_pylist() == [True, None, False, True]
    assert of("a in ('b', 'c')", a=column).to_pylist() == [False, None, True, False]
    assert of("upper(a) || 'x'", a=column).to_pylist() == ["Ax", None, "Bx", "Ax"]
    assert of("coalesce(a, b)", a=column, b=pa.array(["z"] * 4)).to_pylist() == ["a", "z", "b", "a"]
    assert of("a like '_'", a=column).to_pylist() == [True, None, True, True]


def test_run_ends_and_extension_types() -> None:
    runs = pc.run_end_encode(pa.array([1, 1, None]))
    assert evaluate(sqlglot.parse_one("a + 1"), {"a": runs}, 3).to_pylist() == [2, 2, None]
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    assert evaluate(exp.column("a"), {"a": flags}, 3).to_pylist() == [1, 0, None]


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("name", INTEGERS)
def test_every_width_of_integer(name: str) -> None:
    a = pa.array([100, None, 2], getattr(pa, name)())
    assert of("a * a * a", a=a).to_pylist() == [1_000_000, None, 8]
    assert of("a = 100", a=a).to_pylist() == [True, None, False]
    assert of("a - 101", a=a).to_pylist() == [-1, None, -99]


def test_unsigned_numbers_beyond_int64() -> None:
    a = pa.array([2**64 - 1, 1, None], pa.uint64())
    assert of("a > 9223372036854775807", a=a).to_pylist() == [True, False, None]
    assert of("a = 1", a=a).to_pylist() == [False, True, None]
    assert of("a + 1", a=a).to_pylist() == [2.0**64, 2.0, None]
    assert of("a / 2", a=a).to_pylist() == [2.0**63, 0.5, None]
    assert of("cast(a as varchar)", a=a).to_pylist() == ["18446744073709551615", "1", None]
    assert of("coalesce(a, 0)", a=a).to_pylist() == [2**64 - 1, 1, 0]
    assert of("a is null", a=a).to_pylist() == [False, False, True]


def test_narrow_floats_are_computed_in_double() -> None:
    a = pa.array([0.1, None], pa.float32())
    narrow = a[0].as_py()
    assert of("a * 3", a=a).to_pylist() == [narrow * 3, None]
    assert of("a = 0.1", a=a).to_pylist() == [False, None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
def test_every_unit_of_time(unit: str, zone: str | None) -> None:
    seconds = pa.array(
        [datetime(1969, 12, 31, 23, 30), datetime(2021, 1, 3, 4, 5), None], pa.timestamp("s")
    )
    t = seconds.cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
    assert of("hour(t)", t=t).to_pylist() == [23, 4, None]
    assert of("extract(week from t)", t=t).to_pylist() == [1, 53, None]
    assert of("t < '1970-01-01'", t=t).to_pylist() == [True, False, None]
    assert of("t < '9999-12-31'", t=t).to_pylist() == [True, True, None]
    assert of("cast(t as date)", t=t).to_pylist() == [date(1969, 12, 31), date(2021, 1, 3), None]
    week = of("date_trunc('week', t)", t=t).cast(pa.timestamp("us"))
    assert week.to_pylist() == [datetime(1969, 12, 29), datetime(2020, 12, 28), None]
    assert of("coalesce(t, timestamp '2000-01-01 00:00:00') = t", t=t).to_pylist() == [
        True,
        True,
        None,
    ]
    text = of("cast(t as varchar)", t=t).to_pylist()
    assert text[0] == "1969-12-31 23:30:00" + ("+00" if zone else "")


def test_nanoseconds_are_not_lost() -> None:
    t = pa.array([-1, 0, 1], pa.timestamp("ns"))
    assert of("t < '1970-01-01'", t=t).to_pylist() == [True, False, False]
    assert of("t > u", t=t, u=pa.array([0, 0, 0], pa.timestamp("s"))).to_pylist() == [
        False,
        False,
        True,
    ]
    assert of("cast(t as date)", t=t).to_pylist()[0] == date(1969, 12, 31)


def test_columns_without_a_type() -> None:
    n = pa.nulls(2)
    assert of("n + 1", n=n).to_pylist() == [None, None]
    assert of("n = 1", n=n).type == pa.bool_()
    assert of("n is null", n=n).to_pylist() == [True, True]
    assert of("n and true", n=n).type == pa.bool_()
    assert of("n or true", n=n).to_pylist() == [True, True]
    assert of("coalesce(n, a)", n=n, a=pa.array([1, None])).to_pylist() == [1, None]
    assert of("case when n then 1 else 2 end", n=n).to_pylist() == [2, 2]
    assert of("greatest(n, a)", n=n, a=pa.array([1, None])).to_pylist() == [1, None]
    assert of("n is distinct from a", n=n, a=pa.array([1, None])).to_pylist() == [True, False]
    assert of("a in (n, 2)", n=n, a=pa.array([1, 2])).to_pylist() == [None, True]
    assert of("lower(n) like 'a'", n=n).to_pylist() == [None, None]


def test_wide_decimals() -> None:
    a = pa.array([Decimal("1.5"), None], pa.decimal256(60, 1))
    assert of("a * 2", a=a).to_pylist() == [Decimal("3.0"), None]
    assert of("a > 1", a=a).to_pylist() == [True, None]


def test_constants_fill_the_column() -> None:
    assert evaluate(expression("1 + 2").node, {}, 3).to_pylist() == [3, 3, 3]
    assert evaluate(expression("null").node, {}, 2).to_pylist() == [None, None]
    assert evaluate(expression("7 % 4 = 3").node, {}, 1).to_pylist() == [True]


# --- ⊗ as semirings write it


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l * r", [6, None, None]),
        ("l + (r - 1) * 2", [6, None, None]),
        ("least(l, r)", [2, 5, 7]),
        ("greatest(l, r, 4)", [4, 5, 7]),
        ("case when l < r then l else r end", [2, None, 7]),
        ("case l when 2 then 'two' end", ["two", None, None]),
        ("l > 1 and r > 1", [True, None, None]),
        ("l > 1 or r > 1", [True, True, True]),
        ("l / r", [2 / 3, None, None]),
        ("-l", [-2, -5, None]),
    ],
)
def test_plain_sql(text: str, expected: Column) -> None:
    node = sqlglot.parse_one(text)
    columns = {"l": pa.array([2, 5, None]), "r": pa.array([3, None, 7])}
    assert evaluate(node, columns, 3).to_pylist() == expected
    rows = [{"l": 2, "r": 3}, {"l": 5, "r": None}, {"l": None, "r": 7}]
    assert [evaluate_row(node, row) for row in rows] == expected


def test_compiled_once_runs_often() -> None:
    run = compile(expression("i + 1").node)
    assert run({"t.i": pa.array([1])}, 1).to_pylist() == [2]
    assert run({"t.i": pa.array([2, None])}, 2).to_pylist() == [3, None]


# --- choices, and errors


def test_what_is_not_chosen_is_not_computed() -> None:
    s = pa.array(["12", "x", None])
    number = "case when s = 'x' then -1 when s is null then 0 else cast(s as int) end"
    assert of(number, s=s).to_pylist() == [12, -1, 0]
    assert of("coalesce(nullif(a, 0), cast(s as int))", a=pa.array([0, 1, 2]), s=s).to_pylist() == [
        12,
        1,
        2,
    ]
    a = pa.array([0, 2, None])
    assert of("case when a <> 0 then 1 / a end", a=a).to_pylist() == [None, 0.5, None]


def test_a_cast_that_fails_names_the_value_and_the_way_out() -> None:
    with pytest.raises(ExpressionError) as caught:
        of("cast(s as int) > 1", s=pa.array(["1", "abc"]))
    assert str(caught.value) == (
        "In CAST(s AS INT) > 1: 'abc' is not a valid integer; TRY_CAST would give NULL instead."
    )
    assert of("try_cast(s as int) > 0", s=pa.array(["1", "abc"])).to_pylist() == [True, None]
    with pytest.raises(ExpressionError, match="does not convert"):
        evaluate_row(expression("cast(s as int)").node, {"t.s": "abc"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cast(s as int)", "9223372036854775808"),
        ("cast(s as int)", "1e300"),
        ("cast(s as int)", ""),
        ("cast(s as int)", "nan"),
        ("cast(s as double)", "0x1A"),
        ("cast(s as double)", "1.5d"),
        ("cast(s as boolean)", "on"),
        ("cast(s as date)", "2020-02-30"),
        ("cast(s as date)", "2020"),
        ("cast(s as timestamp)", "2020-01-01 25:00:00"),
        ("cast(s as timestamp)", "2020-01-01 10:00:61"),
        ("cast(cast(s as double) as int)", "1e19"),
        ("cast(cast(s as double) as int)", "nan"),
    ],
)
def test_what_cannot_be_cast(text: str, value: str) -> None:
    node = expression(text).node
    with pytest.raises(ExpressionError):
        evaluate(node, {"t.s": pa.array([value])}, 1)
    with pytest.raises(ExpressionError):
        evaluate_row(node, {"t.s": value})
    gentle = text.replace("cast(s", "try_cast(s").replace("cast(try", "try_cast(try")
    node = expression(gentle).node
    assert evaluate(node, {"t.s": pa.array([value])}, 1).to_pylist() == [None]
    assert evaluate_row(node, {"t.s": value}) is None


def test_offsets_move_only_timestamps_with_time_zone(duck: Any) -> None:
    s = pa.array(["2020-01-05 10:00:00+02:00", "2020-01-05T10:00:00-0530", "2020-01-05 10:00:00Z"])
    with_zone = of("cast(s as timestamptz)", s=s).cast(pa.timestamp("us")).to_pylist()
    assert with_zone == [
        datetime(2020, 1, 5, 8),
        datetime(2020, 1, 5, 15, 30),
        datetime(2020, 1, 5, 10),
    ]
    assert of("cast(s as timestamp)", s=s).to_pylist() == [datetime(2020, 1, 5, 10)] * 3


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(ExpressionError, match=r"no column 't.i'. Did you mean t.ii\?"):
        evaluate(expression("i + 1").node, {"t.ii": pa.array([1])}, 1)


def test_a_node_nobody_knows() -> None:
    with pytest.raises(ExpressionError, match="cannot be evaluated"):
        compile(sqlglot.parse_one("regexp_like(a, 'x')"))
    with pytest.raises(ExpressionError, match="cannot be evaluated"):
        evaluate_row(sqlglot.parse_one("regexp_like(a, 'x')"), {"a": "x"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cast(d as int)", "cannot be cast to an integer"),
        ("cast(i as timestamp)", "an integer cannot be cast"),
        ("lpad(s, 2)", "LPAD takes 3 arguments, not 2"),
        ("left(s, 1.5)", "LEFT needs a whole number"),
        ("s ~ '('", "is no regular expression: missing"),
        ("s ~ '(?=a)'", "is no regular expression"),
        ("s like 'a!' escape '!'", "does not end with the escape character"),
        ("date_trunc('eon', d)", "DATE_TRUNC knows"),
        ("strftime(d, '%q')", "STRFTIME has no %q"),
        ("interval '1 month' = interval '30 days'", "months and years have no fixed length"),
        ("d + interval '1 fortnight'", "is no interval"),
        ("t + 1", "needs a number, but t is a timestamp"),
        ("lenght(s)", "there is no function lenght. Did you mean left?"),
        ("splitpart(s, ',', 1)", "Did you mean split_part?"),
        ("(i, j) in ((1, 2, 3))", "does not have 2 values"),
        ("cast(i as decimal(10, 2))", "casting to DECIMAL"),
    ],
)
def test_what_typing_refuses(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        expression(text)
