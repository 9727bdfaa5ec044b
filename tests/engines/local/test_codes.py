"""Codes, id spaces, groups and row indexes of the local engine: equal values, and only those, share
a number; NULL has none; and a number once given stays.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calitree.engines.local.encoding import numbering, spaces
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Dictionary
from calitree.engines.local.encoding.numbering import Piece, number, number_any, number_rows, pieces
from calitree.engines.local.encoding.spaces import RowIndex, place
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.engines.local.vm import parallel
from calitree.errors import EngineError
from tests.support.scale import examples

dictionary_module = sys.modules[Dictionary.__module__]
D, NAN, INF = Decimal, float("nan"), math.inf
DAYS = [datetime.date(1969, 12, 31), datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]
TIMES = [datetime.datetime(1969, 12, 31, 23, 59, 59), None, datetime.datetime(2200, 1, 1)]
CLOCK = [datetime.time(0, 0, 1), None, datetime.time(23, 59, 59), datetime.time(0, 0, 1)]
TEXTS = ["b", None, "", "ü", "b", "a\0b", "a"]
DOUBLES = [0.0, -0.0, NAN, -NAN, INF, None, -INF, 1.5, NAN, 1.5]
AMOUNTS = [D("1.25"), None, D("-3.00"), D("0.00"), D("1.25")]


def _ends(bits: int, signed: bool) -> list[Any]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [high, 0, None, low, 1, high, low, None, high - 1]


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    **{f"int{b}": (getattr(pa, f"int{b}")(), _ends(b, True)) for b in (8, 16, 32, 64)},
    **{f"uint{b}": (getattr(pa, f"uint{b}")(), _ends(b, False)) for b in (8, 16, 32, 64)},
    **{f"timestamp {u}": (pa.timestamp(u), TIMES * 2) for u in ("s", "ms", "us", "ns")},
    **{f"timestamp {u} tz": (pa.timestamp(u, "Asia/Tokyo"), TIMES * 2) for u in ("s", "us", "ns")},
    **{f"time {u}": (pa.time32(u), CLOCK) for u in ("s", "ms")},
    **{f"time {u}": (pa.time64(u), CLOCK) for u in ("us", "ns")},
    "date32": (pa.date32(), DAYS * 2),
    "date64": (pa.date64(), DAYS * 2),
    "decimal": (pa.decimal128(9, 2), AMOUNTS),
    "large decimal": (pa.decimal256(60, 2), [*AMOUNTS, D(10) ** 50, D(10) ** 50 + 1]),
    "half": (pa.float16(), DOUBLES),
    "float": (pa.float32(), DOUBLES),
    "double": (pa.float64(), DOUBLES),
    "string": (pa.string(), TEXTS),
    "large string": (pa.large_string(), TEXTS),
    "string view": (pa.string_view(), TEXTS),
    "binary": (pa.binary(), [b"b", None, b"", b"\xff", b"b", b"a\0b", b"a"]),
    "large binary": (pa.large_binary(), [b"b", None, b"", b"\xff", b"b"]),
    "fixed binary": (pa.binary(2), [b"ab", None, b"\0\0", b"ab"]),
    "bool": (pa.bool_(), [True, None, False, True]),
    "dictionary of text": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "dictionary of numbers": (pa.dictionary(pa.uint16(), pa.int64()), _ends(64, True)),
    "null": (pa.null(), [None, None]),
}


def same(value: Any) -> Any:
    """What SQL takes for one value: there is one NaN, and one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def sliced(array: pa.Array) -> pa.Array:
    """The same values behind an offset, after others."""
    return pa.concat_arrays([array[-1:], array, array[:1]]).slice(1, len(array))


LAYOUTS: dict[str, Callable[[pa.Array], pa.Array | pa.ChunkedArray]] = {
    "plain": lambda array: array,
    "sliced": sliced,
    "chunks": lambda array: pa.chunked_array([array[:1], array[1:1], array[1:]]),
    "sliced chunks": lambda array: pa.chunked_array([sliced(array[:2]), sliced(array)[2:]]),
    "one chunk": lambda array: pa.chunked_array([array]),
}


def check(dictionary: Dictionary, batches: Sequence[pa.Array | pa.ChunkedArray]) -> list[Any]:
    """Encode one after the other; equal values have one code in all of them."""
    code_of: dict[Any, int] = {None: 0}
    encoded = []
    for batch in batches:
        known = dictionary.decode(np.arange(dictionary.size, dtype=np.int32)).to_pylist()
        codes = dictionary.encode(batch)
        assert codes.dtype == np.int32 and len(codes) == len(batch)
        values = [same(value) for value in batch.to_pylist()]
        for value, code in zip(values, codes.tolist(), strict=True):
            assert code_of.setdefault(value, code) == code, (value, code)
        assert [same(v) for v in dictionary.decode(codes).to_pylist()] == values
        now = dictionary.decode(np.arange(dictionary.size, dtype=np.int32)).to_pylist()
        assert [same(v) for v in now[: len(known)]] == [same(v) for v in known], "old codes stay"
        encoded.append(codes)
    assert sorted(code_of.values()) == list(range(dictionary.size)), "codes are dense and distinct"
    assert [same(v) for v in dictionary.domain.to_pylist()] == [
        value for value, _ in sorted(code_of.items(), key=lambda item: item[1])
    ]
    return encoded


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", VALUES)
def test_every_type(kind: str, layout: str, threads: int) -> None:
    dtype, values = VALUES[kind]
    array = pa.array(values, dtype)
    first, whole = array[: len(values) // 2], LAYOUTS[layout](array)
    check(Dictionary(threads), [first, whole, pa.nulls(2, dtype), array[:0]])
    dictionary = Dictionary(threads)
    check(dictionary, [array[:0], pa.nulls(2, dtype), whole, LAYOUTS[layout](first)])
    for nothing in (array[:0], pa.nulls(2, dtype)):
        other = Dictionary(threads)
        assert other.decode(other.encode(nothing)).type == dictionary.domain.type, (
            "even if all is NULL"
        )


MEETING: dict[str, list[pa.Array]] = {
    "widths": [pa.array([3, 1, None], t) for t in (pa.int8(), pa.uint32(), pa.int64(), pa.int16())],
    "unsigned": [
        pa.array([2**63, 1], pa.uint64()),
        pa.array([1, -1]),
        pa.array([2**64 - 1], pa.uint64()),
    ],
    "whole and decimal": [
        pa.array([3, 1, -(2**63)]),
        pa.array([D("3.00"), D("1.50"), None]),
        pa.array([1, 2]),
    ],
    "decimals": [
        pa.array([D("1.5"), D("2")], pa.decimal128(5, 1)),
        pa.array([D("1.500"), D("2.001")], pa.decimal128(12, 3)),
        pa.array([D("1.50")], pa.decimal256(50, 2)),
    ],
    "whole and double": [pa.array([3, 2**53]), pa.array([3.0, 2.5, None]), pa.array([2.5, NAN])],
    "decimal and double": [pa.array([D("1.50"), None]), pa.array([1.5, -0.0]), pa.array([D("0.0")])],
    "singles": [pa.array([0.5, 3.0], pa.float32()), pa.array([0.5]), pa.array([3], pa.int8())],
    "text": [
        pa.array(["a", "b"], t) for t in (pa.string(), pa.large_string(), pa.string_view())
    ] + [pa.array(["b", None, "c"]).dictionary_encode()],
    "bytes": [pa.array([b"aa", b"bb"], t) for t in (pa.binary(2), pa.binary(), pa.large_binary())],
    "days": [pa.array(DAYS, pa.date64()), pa.array(DAYS[::-1], pa.date32())],
    "instants": [pa.array(TIMES, pa.timestamp(u)) for u in ("s", "ns", "us", "ms")],
    "zones": [pa.array(TIMES, pa.timestamp("us", z)) for z in ("UTC", "Asia/Tokyo", "UTC")],
    "nothing first": [pa.nulls(2), pa.array([7, None]), pa.nulls(1), pa.array([0, 7])],
    "only NULL first": [pa.nulls(2, pa.float64()), pa.array([7]), pa.array([7.0, 0.5])],
}  # fmt: skip


@pytest.mark.parametrize("kind", MEETING)
def test_types_that_meet(kind: str) -> None:
    for batches in (MEETING[kind], MEETING[kind][::-1]):
        check(Dictionary(), batches)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([2**53 + 1]), pa.array([1.0])),
        (pa.array([D(10) ** 60], pa.decimal256(76, 0)), pa.array([D("1E-30")], pa.decimal128(38, 30))),
        (
            pa.array([datetime.datetime(9999, 1, 1)], pa.timestamp("us")),
            pa.array([0], pa.timestamp("ns")),
        ),
    ],
    ids=["double", "decimal", "instant"],
)  # fmt: skip
def test_keys_that_no_type_can_hold(first: pa.Array, second: pa.Array) -> None:
    dictionary = Dictionary()
    dictionary.encode(first)
    with pytest.raises(EngineError, match=r"cannot be compared: .* Cast one of the columns"):
        dictionary.encode(second)


# -- numbering, spaces, groups: all ways to compute them give the same partition --------------------

NEAR, FAR = st.integers(-3, 9), st.integers(-(2**62), 2**62)


@pytest.fixture(params=["as it decides", "tables", "hashes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How integers are numbered; and threads that take two rows each."""
    answer = {"tables": True, "hashes": False}.get(request.param)
    if answer is not None:
        for module in (dictionary_module, spaces, numbering):
            monkeypatch.setattr(module, "is_small", lambda span, length: answer)
    monkeypatch.setattr(parallel, "MIN_ROWS_PER_THREAD", 2)
    return str(request.param)


@pytest.mark.parametrize("dtype", [pa.int64(), pa.int32(), pa.timestamp("ns"), pa.date32()])
def test_numbering_of_integers(way: str, dtype: pa.DataType) -> None:
    wide = st.integers(-9999, 9999) if dtype.bit_width == 32 else FAR
    column = st.lists(st.none() | (NEAR if way == "tables" else NEAR | wide))

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(column, max_size=3), st.sampled_from(sorted(LAYOUTS)))
    def run(batches: list[list[int | None]], layout: str) -> None:
        raw = pa.int32() if dtype.bit_width == 32 else pa.int64()
        arrays = [LAYOUTS[layout](pa.array(batch, raw).cast(dtype)) for batch in batches]
        alone, shared = (check(Dictionary(threads), arrays) for threads in (1, 2))
        assert [codes.tolist() for codes in alone] == [codes.tolist() for codes in shared]

    run()


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(NEAR, unique=True), st.lists(NEAR), st.data())
def test_tables_and_hashes_agree(known: list[int], keys: list[int], data: st.DataObject) -> None:
    valid = np.array(data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys))))
    there = valid.astype(np.uint8)
    before, given_keys = np.array(known, np.int64), np.array(keys, np.int64)
    table, hashed = np.full(len(keys), -1, np.int32), np.full(len(keys), -1, np.int32)
    fresh = number([Piece(given_keys, table, there)], before, -3, 13, 1).tolist()
    others = number_any([Piece(given_keys, hashed, there)], before).tolist()
    assert fresh == sorted(others)
    for numbers, added in ((table, fresh), (hashed, others)):
        every = [*known, *added]
        assert len(set(every)) == len(every)
        assert [every[n - 1] if n else None for n in numbers.tolist()] == [
            key if ok else None for key, ok in zip(keys, valid, strict=True)
        ]


def test_a_hash_table_grows_as_often_as_it_must() -> None:
    """More new keys than its first arrays hold, extreme ones, and keys that are all multiples."""
    rng = np.random.default_rng(3)
    keys = np.concatenate([rng.integers(-(2**63), 2**63 - 1, 20_000), np.arange(9_000) << 40])
    keys = np.concatenate([keys, [2**63 - 1, -(2**63), 0], keys[::-1]])
    known = np.unique(keys)[::3].copy()
    out = np.empty(len(keys), np.int32)
    fresh = number_any(pieces(keys, out, 1), known)
    assert np.array_equal(np.concatenate([known, fresh])[out - 1], keys)
    assert len(known) + len(fresh) == len(np.unique(keys))


CODES = st.integers(0, 4)


def test_spaces(way: str) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(st.integers(1, 4), st.lists(st.lists(st.tuples(*[CODES] * 4)), max_size=3))
    def run(width: int, batches: list[list[tuple[int, ...]]]) -> None:
        names = tuple("abcd"[:width])
        by_book = []
        for book in (Codebook(1), Codebook(2)):
            space, id_of, numbers = book.space(names), {}, []
            for rows in batches:
                columns = [
                    book.dictionary(name).encode(pa.array([row[i] or None for row in rows]))
                    for i, name in enumerate(names)
                ]
                ids = space.ids(columns)
                numbers.append(ids.tolist())
                for row, at in zip(zip(*columns, strict=True), ids.tolist(), strict=True):
                    assert bool(at) == all(row), "0 where something is NULL"
                    assert id_of.setdefault(row, at) == at or not at
                    if at:
                        assert row == tuple(space.codes(name)[at] for name in names)
            given_ids = [at for at in id_of.values() if at]
            assert sorted(set(given_ids)) == list(range(1, space.size))
            assert len(given_ids) == len(set(given_ids))
            by_book.append(numbers)
        assert by_book[0] == by_book[1], "threads change nothing"
        assert all(space.codes(name)[0] == 0 for name in names)

    run()


def test_a_space_of_wide_dictionaries() -> None:
    """Two attributes of 70,000 values each: 5·10⁹ combinations, of which 140,000 are there."""
    book, rows = Codebook(2), np.arange(140_000)
    a = book.dictionary("a").encode(pa.array(rows % 70_000))
    b = book.dictionary("b").encode(pa.array(rows[::-1] // 2 * 1_000_003, mask=rows % 1000 == 0))
    space = book.space(("a", "b"))
    ids = space.ids([a, b])
    assert np.array_equal(ids == 0, rows % 1000 == 0)
    assert space.size == np.count_nonzero(ids) + 1 == len(np.unique(ids))
    there = np.flatnonzero(ids)
    assert np.array_equal(space.codes("a")[ids[there]], a[there])
    assert np.array_equal(space.codes("b")[ids[there]], b[there])
    assert np.array_equal(space.ids([a[::-1].copy(), b[::-1].copy()]), ids[::-1])


def test_groups_take_null_for_a_value(way: str) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(st.tuples(*[CODES] * 3)), st.sampled_from([5, 2**21, 2**30]))
    def run(drawn: list[tuple[int, ...]], size: int) -> None:
        size = 5 if way == "tables" else size  # a table over all that may be there
        rows = [tuple(code * (size // 5) for code in row) for row in drawn]
        columns = [np.array([row[i] for row in rows], np.int32) for i in range(3)]
        groups, codes = number_rows(columns, [size] * 3, len(rows))
        distinct = list(zip(*(column.tolist() for column in codes), strict=True))
        assert [distinct[at] for at in groups.tolist()] == rows
        assert len(distinct) == len(set(rows))

    run()


def test_no_attribute_is_one_group() -> None:
    groups, codes = number_rows([], [], 3)
    assert (groups.tolist(), codes) == ([0, 0, 0], [])


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 9), unique=True))
def test_the_rows_of_an_id(ids: list[int], wanted: list[int]) -> None:
    """An id may be newer than the index: then no row has it."""
    index = RowIndex(np.array(ids, np.int32), 6)
    expected = [row for id_ in wanted for row, at in enumerate(ids) if at == id_]
    assert index.rows(np.array(wanted, np.int64)).tolist() == expected
    assert index.count(np.array(wanted, np.int64)) == len(expected)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 5)))
def test_the_place_of_an_id(ids: list[int]) -> None:
    places = np.zeros(6, np.uint32)
    valid = [at for at in ids if at]
    assert place(np.array(ids, np.int32), places) == (len(set(valid)) == len(valid))
    if len(set(valid)) == len(valid):
        assert places.tolist() == [
            0,
            *(ids.index(at) + 1 if at in ids else 0 for at in range(1, 6)),
        ]


@pytest.mark.parametrize("nulls", [False, True])
def test_ids_tell_their_codes_unless_one_is_null(nulls: bool) -> None:
    """So codes that were only made for ids are given up; with NULLs each attribute keeps its own."""
    a, b = [1, 2, None if nulls else 1, 2], ["x", None if nulls else "y", "y", "y"]
    table = EncodedRelation(Codebook(1), ArrowColumns(pa.table({"a": a, "b": b})))
    names = {"a": "a", "b": "b"}
    ids = table.ids(table.book.space(("a", "b")), names)
    assert [bool(at) for at in ids] == [
        x is not None and y is not None for x, y in zip(a, b, strict=True)
    ]
    assert len(table._codes) == (2 if nulls else 0)
    assert table.book.dictionary("a").decode(table.codes("a", names)).to_pylist() == a
    assert table.book.dictionary("b").decode(table.codes("b", names)).to_pylist() == b
