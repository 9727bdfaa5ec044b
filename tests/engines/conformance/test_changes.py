"""What updates ask of an engine: results added and subtracted, rows found, put together, left out.

The reference engine is compared with plain Python, and the local engine with the reference.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output, Stored
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import AVG, BOOL, MAX, MIN, SUM_PRODUCT, Semiring
from calitree.engines.local import LocalEngine
from calitree.engines.local.delta import matches
from calitree.engines.local.encoding import lookup
from calitree.engines.local.scan import reduction
from calitree.engines.local.tables.legs import Leg, middle
from calitree.engines.reference import ReferenceEngine
from calitree.errors import EngineError
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse
from calitree.storage.column_types import plain_table
from calitree.types import Kind
from tests.support.scale import examples

KINDS = {
    "k": (Kind.INTEGER, pa.int32(), st.integers(0, 5)),
    "t": (Kind.STRING, pa.string(), st.sampled_from(["", "a", "b", "é"])),
    "i": (Kind.INTEGER, pa.int64(), st.sampled_from([0, 1, -7, 2**62, -(2**62), 2**63 - 1])),
    "m": (Kind.DECIMAL, pa.decimal128(9, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 4)),
    "f": (Kind.FLOAT, pa.float64(), st.integers(-999, 999).map(lambda n: n / 4)),
    "s": (Kind.STRING, pa.string(), st.sampled_from(["x", "yy", "zzz", "ü"])),
    "d": (Kind.DATE, pa.date32(), st.dates(date(2024, 1, 1), date(2024, 1, 9))),
    "b": (Kind.BOOLEAN, pa.bool_(), st.booleans()),
}
SCHEMA = pa.schema([(name, dtype) for name, (_, dtype, _) in KINDS.items()])
NAMES = {name: name for name in KINDS}
Row = dict[str, Any]

rows = st.fixed_dictionaries({name: st.none() | values for name, (_, _, values) in KINDS.items()})
tables = st.lists(rows, max_size=12)


FROM_ROWS = pytest.mark.parametrize("large", [0, 20_000])
"""From how many rows on the local engine reduces a table before it is joined."""


@pytest.fixture(autouse=True, scope="module")
def few_are_many() -> Iterator[None]:
    """Ways that are there for many rows are taken here too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "MIN_KNOWN_KEYS", 2)
        patch.setattr(lookup, "MIN_KNOWN_PER_WANTED", 1)
        patch.setattr(lookup, "MIN_CALLS", 1)
        patch.setattr(matches, "MAX_COPIED_ROWS", 8)
        yield


def expression(text: str) -> Expression:
    return parse(text, lambda table, name: Resolved(name, (), KINDS[name][0]))


def lifted(*texts: str) -> tuple[Lifted, ...]:
    return (Lifted(0, tuple(map(expression, texts))),)


def arrow(given: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)


def summed(keep: tuple[str, ...]) -> Output:
    """What can be subtracted."""
    columns = (
        Column("n", SUM_PRODUCT, ()),
        *(Column(name, SUM_PRODUCT, lifted(name)) for name in "imf"),
        Column("avg", AVG, lifted("1", "m")),
    )
    return Output((0,), (), keep, columns)


def extremes(keep: tuple[str, ...]) -> Output:
    """What cannot."""
    columns = [
        Column(f"{semiring.name} {name}", semiring, lifted(name))
        for semiring in (MIN, MAX)
        for name in "imfsdb"
    ]
    return Output((0,), (), keep, (*columns, Column("any", BOOL, lifted("b"))))


def computed(engine: Any, given: Sequence[Row] | Any, output: Output) -> Any:
    table = engine.load("r", arrow(given)) if isinstance(given, list) else given
    (result,) = engine.contract(Contraction((Input(table, NAMES),), (output,)))
    return result


def by_key(engine: Engine, table: Any, keep: Sequence[str]) -> dict[Any, Row]:
    records = engine.arrow(table).to_pylist()
    keyed = {tuple(row[name] for name in keep): row for row in records}
    assert len(keyed) == len(records) == table.rows
    return keyed


def assert_same(result: dict[Any, Row], expected: dict[Any, Row]) -> None:
    assert result.keys() == expected.keys()
    for key, row in expected.items():
        for name, value in row.items():
            ours = result[key][name]
            if isinstance(ours, float) and value is not None:
                # What is a double for having passed 64 bits may have been larger by far.
                least = 2e10 if name == "i" else 0
                near = pytest.approx(float(value), rel=1e-9, abs=least, nan_ok=True)
                assert ours == near, (key, name)
            else:
                assert ours == value, (key, name)


def without(given: list[Row], positions: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """The rows that stay, and those that go."""
    gone = {at % len(given) for at in positions} if given else set()
    stay = [row for at, row in enumerate(given) if at not in gone]
    return stay, [given[at] for at in sorted(gone)]


KEEPS: list[tuple[str, ...]] = [(), ("k",), ("t", "k"), ("d", "b", "t")]


# -- add -------------------------------------------------------------------------------------------


@FROM_ROWS
@pytest.mark.parametrize("keep", KEEPS)
@settings(max_examples=examples(40), deadline=None)
@given(
    base=tables,
    updates=st.lists(st.tuples(tables, st.lists(st.integers(0, 99), max_size=6)), max_size=5),
)
def test_a_message_that_is_updated_is_the_message_of_the_rows_that_are_left(
    large: int, keep: tuple[str, ...], base: list[Row], updates: list[tuple[list[Row], list[int]]]
) -> None:
    local, reference = LocalEngine(large=large), ReferenceEngine()
    output, now, seen = summed(keep), list(base), list(base)
    message: Any = computed(local, base, output)
    same: Any = computed(reference, base, output)
    for inserted, positions in updates:
        stay, gone = without(now, positions)
        now = stay + inserted
        expected = by_key(reference, computed(reference, now, output), keep)
        plus, minus = computed(reference, inserted, output), computed(reference, gone, output)
        same = reference.add(output, [same, plus], [minus], "n")
        plus, minus = computed(local, inserted, output), computed(local, gone, output)
        message = local.add(output, [message, plus], [minus], "n")
        if same is None:
            same = computed(reference, now, output)
        if message is None:
            message = computed(local, now, output)
        assert_same(by_key(reference, same, keep), expected)
        assert_same(by_key(local, message, keep), expected)
        seen += inserted
        assert message.exact
        for value in message.annotations.values():
            assert not value.positive or (value.signs > 0).all()
            known = value.bound_if_known
            value.tighten()
            assert known is None or not value.is_integer or value.bound <= known
        assert message.annotations["n"].positive
        assert_joins_alike(local, message, reference, same, keep)


def assert_joins_alike(
    local: LocalEngine, message: Any, reference: ReferenceEngine, same: Any, keep: tuple[str, ...]
) -> None:
    """A contraction of what `add` returned, with a relation that has the same attributes."""
    partner = [dict.fromkeys(KINDS) | {"k": k, "t": t, "f": 0.5} for k in range(4) for t in "ab"]
    for kept in ((), keep, ("k",)):
        columns = tuple(
            Column(name, SUM_PRODUCT, (Stored(0, name), Lifted(1, (expression("f"),))))
            for name in "nmf"
        )
        output = Output((0, 1), (), kept, columns)
        names = {name: name for name in {*keep, "k", "t", "f"} - {"d", "b"}}
        results = []
        for engine, table in ((local, message), (reference, same)):
            inputs = (
                Input(table, {a: a for a in keep}),
                Input(engine.load("p", arrow(partner)), names),
            )
            (result,) = engine.contract(Contraction(inputs, (output,)))
            results.append(by_key(engine, result, kept))
        assert_same(*results)


@FROM_ROWS
@pytest.mark.parametrize("keep", KEEPS)
@settings(max_examples=examples(40), deadline=None)
@given(parts=st.lists(tables, min_size=1, max_size=4))
def test_extremes_are_added(large: int, keep: tuple[str, ...], parts: list[list[Row]]) -> None:
    output = extremes(keep)
    every = [row for part in parts for row in part]
    reference = ReferenceEngine()
    expected = by_key(reference, computed(reference, every, output), keep)
    for engine in (reference, LocalEngine(large=large)):
        total = engine.add(output, [computed(engine, part, output) for part in parts], [], None)
        assert total is not None
        assert_same(by_key(engine, total, keep), expected)


@pytest.mark.parametrize("keep", KEEPS)
@settings(max_examples=examples(20), deadline=None)
@given(parts=st.lists(tables, min_size=1, max_size=3))
def test_results_without_columns_are_sets(keep: tuple[str, ...], parts: list[list[Row]]) -> None:
    output = Output((0,), (), keep, ())
    expected = {tuple(row[name] for name in keep) for part in parts for row in part}
    for engine in (ReferenceEngine(), LocalEngine()):
        total = engine.add(output, [computed(engine, part, output) for part in parts], [], None)
        assert total is not None
        assert total.rows == len(expected)
        if keep:
            assert by_key(engine, total, keep).keys() == expected


def row(**values: Any) -> Row:
    return dict.fromkeys(KINDS) | values


@pytest.mark.parametrize("engine", [ReferenceEngine(), LocalEngine()], ids=lambda e: e.name)
@pytest.mark.parametrize("keep", [(), ("k",)])
@pytest.mark.parametrize(
    ("before", "gone", "is_lost"),
    [
        ([1e17, 1.0], [1e17], True),
        ([1e17, 1e17], [1e17], False),
        ([5.0, 0.0], [5.0], True),
        ([100.0, 2.0], [100.0], False),
        ([100.0, 0.5], [100.0], True),
        ([math.inf, 1.0], [math.inf], True),
        ([math.nan, 1.0], [math.nan], True),
        ([math.nan, 1.0], [1.0], True),
        ([1e17], [1e17], False),
        ([math.nan], [math.nan], False),
        ([3.0, None], [3.0], True),
        ([0.0, None], [0.0], False),
    ],
)
def test_digits_are_not_lost(
    engine: Any, keep: tuple[str, ...], before: list[Any], gone: list[Any], is_lost: bool
) -> None:
    output = summed(keep)
    plus = computed(
        engine, [row(k=1, f=x) for x in before] + [row(k=2, f=-1e17)] * bool(keep), output
    )
    minus = computed(engine, [row(k=1, f=x) for x in gone], output)
    total = engine.add(output, [plus], [minus], "n")
    assert (total is None) is is_lost
    if total is not None:
        keys = {tuple(r[k] for k in keep) for r in engine.arrow(total).to_pylist()}
        assert ((1,)[: len(keep)] in keys) is (len(gone) < len(before))


@pytest.mark.parametrize("engine", [ReferenceEngine(), LocalEngine()], ids=lambda e: e.name)
def test_the_largest_sum_is_remembered_when_another_group_is_removed(engine: Any) -> None:
    output = summed(("k",))
    message = computed(
        engine, [row(k=1, f=f) for f in (1e9, 25e6, 5e6)] + [row(k=2, f=1.0)], output
    )
    for gone, is_lost in (
        (row(k=1, f=1e9), False),
        (row(k=2, f=1.0), False),
        (row(k=1, f=25e6), True),
    ):
        message = engine.add(output, [message], [computed(engine, [gone], output)], "n")
        assert (message is None) is is_lost


@pytest.mark.parametrize("keep", [(), ("k",), ("k", "t")])
@pytest.mark.parametrize(
    ("base", "plus", "minus", "fits"),
    [
        ([2**62], [2**62], [], False),
        ([2**62], [2**62 - 1], [], True),
        ([2**62, 1], [2**62], [2**62], True),
        ([-(2**62)], [-(2**62)], [], True),
        ([2**63 - 1, -5], [5], [], True),
        ([2**63 - 1], [1], [], False),
        ([5, 7], [-(2**63)], [5], True),
        ([5], [1], [-(2**63), 4], False),
    ],
)
def test_integers_beyond_64_bits_are_decimals(
    keep: tuple[str, ...], base: list[int], plus: list[int], minus: list[int], fits: bool
) -> None:
    engine, output = LocalEngine(), summed(keep)
    results = [
        computed(engine, [row(k=1, t="a", i=x) for x in part], output)
        for part in (base, plus, minus)
    ]
    # One that is not met must not change.
    other = computed(
        engine, [row(k=2, t="b", i=0), row(k=1, t="a", i=0), row(k=1, t="a", i=0)], output
    )
    result = engine.add(output, [other, *results[:2]], results[2:], "n")
    assert result is not None
    assert result.exact
    value = by_key(engine, result, keep)[(1, "a")[: len(keep)]]["i"]
    assert type(value) is (int if fits else Decimal)
    assert value == sum(base) + sum(plus) - sum(minus)


def test_decimals_of_different_scales_are_added() -> None:
    engine = LocalEngine()
    results = []
    for scale, values in ((0, [3, 4]), (2, ["1.25", "2.50"]), (1, ["0.5", "9.9"])):
        data = {"k": [1, 2], "m": pa.array([Decimal(v) for v in values], pa.decimal128(20, scale))}
        table = engine.load("r", pa.table(data))
        output = Output((0,), (), ("k",), (Column("m", SUM_PRODUCT, lifted("m")),))
        given = Input(table, {"k": "k", "m": "m"})
        results += engine.contract(Contraction((given,), (output,)))
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        result = engine.add(output, [results[at] for at in order], [], None)
        assert result is not None
        assert result.exact
        sums = {key: row["m"] for (key,), row in by_key(engine, result, "k").items()}
        assert sums == {1: Decimal("4.75"), 2: Decimal("16.40")}


def test_custom_sums_of_several_components_are_subtracted() -> None:
    pairs = Semiring(
        "p", ("a", "b"), ("sum", "sum"), ("l_a * r_a", "l_a + r_b"), (0, 0), (1, 0), True
    )
    columns = (Column("n", SUM_PRODUCT, ()), Column("p", pairs, lifted("i", "f")))
    for engine in (ReferenceEngine(), LocalEngine()):
        for keep in ((), ("k",)):
            output = Output((0,), (), keep, columns)
            every = computed(engine, [row(k=1, i=3, f=2.0), row(k=1, i=4, f=1.5)], output)
            gone = computed(engine, [row(k=1, i=3, f=2.0)], output)
            total = engine.add(output, [every], [gone], "n")
            assert total is not None
            (only,) = engine.arrow(total).to_pylist()
            assert (only["n"], only["p.a"], only["p.b"]) == (1, 4, 1.5)


def test_what_is_known_of_keys_is_handed_on() -> None:
    engine, output = LocalEngine(), summed(("k", "t"))
    message = computed(engine, [row(k=k, t=t, i=1) for k in range(6) for t in "ab"], output)
    small = computed(engine, [row(k=1, t="a", i=5)], output)
    first = engine.add(output, [message, small], [], "n")
    assert first is not None
    for name in ("k", "t"):
        assert first.codes(name, {name: name}) is message.codes(name, {name: name})
    space, names = engine.book.space(("k", "t")), {"k": "k", "t": "t"}
    assert first.ids(space, names) is message.ids(space, names)
    new = computed(engine, [row(k=7, t="c", i=5), row(k=8, t="c", i=5)], output)
    second = engine.add(output, [first, new], [small], "n")
    third = engine.add(
        output, [second, small], [computed(engine, [row(k=1, t="a", i=1)] * 2, output)], "n"
    )
    assert (second.rows, third.rows) == (14, 13)
    for part in (message, first, second, third):
        fresh = engine.book.space(("k", "t")).ids([part.codes(a, names) for a in ("k", "t")])
        assert part.ids(space, names).tolist() == fresh.tolist()
        places = part.places(space, names, None)
        assert places is not None
        assert places[fresh].tolist() == list(range(1, part.rows + 1))
        assert np.count_nonzero(places) == part.rows


# -- few rows and large tables ---------------------------------------------------------------------


@pytest.mark.parametrize("is_message", [False, True])
@pytest.mark.parametrize("where", [(), ("k < 40",), ("f > 0",), ("f > 0", "t = 'a'")])
@pytest.mark.parametrize("on", [("k",), ("k", "t")])
def test_few_rows_visit_few(is_message: bool, where: tuple[str, ...], on: tuple[str, ...]) -> None:
    """What a contraction of a few rows gives, and that it needs no pass over the many."""
    rng = np.random.default_rng(1)
    keys = [None, *range(60)]
    many = [
        row(k=keys[rng.integers(61)], t="abcd"[rng.integers(4)], f=float(rng.integers(-3, 9)), i=1)
        for _ in range(200)
    ]
    few = [row(k=k, t="a", m=Decimal(k or 1)) for k in (7, 50, None, 99, 7)]
    answers = []
    for engine in (ReferenceEngine(), LocalEngine(large=50)):
        table: Any = engine.load("r", arrow(many))
        names = NAMES
        if is_message:
            table = computed(engine, many, summed(("k", "t", "f")))
            names = {name: name for name in ("k", "t", "f")}
        small = computed(engine, few, summed(on))
        factors = (Stored(1, "m"),)
        lift = (Stored(0, "i") if is_message else Lifted(0, (expression("i"),)),)
        columns = (Column("m", SUM_PRODUCT, factors), Column("i", SUM_PRODUCT, (*lift, *factors)))
        passing = tuple(map(expression, where))
        outputs = tuple(Output((0, 1), passing, keep, columns) for keep in ((), ("k",), ("t", "f")))
        inputs = (Input(table, names), Input(small, {name: name for name in on}))
        for _ in range(3):  # look-ups are made for the second
            tables = engine.contract(Contraction(inputs, outputs))
            answers.append(
                [by_key(engine, t, o.keep) for t, o in zip(tables, outputs, strict=True)]
            )
        if isinstance(engine, LocalEngine):
            assert [tuple(a for a, _ in key) for key in table.indexed_keys] == [on]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(reduction, "Scan", None)
                engine.contract(Contraction(inputs, outputs))
    for answer in answers[3:]:
        for ours, theirs in zip(answer, answers[0], strict=True):
            assert_same(ours, theirs)


def test_a_small_table_is_the_middle_if_all_others_have_one_row() -> None:
    engine = LocalEngine()
    names = {"k": "k"}
    large, larger = (
        Leg(computed(engine, [row(k=k) for k in range(n)], summed(("k",))), names) for n in (90, 99)
    )
    small = Leg(computed(engine, [row(k=k) for k in (5, 6)], summed(("k",))), names)
    assert middle({0: large, 1: small, 2: larger}) == 1
    assert middle({0: large, 2: larger}) == 2
    several = Leg(engine.load("r", arrow([row(k=k // 2) for k in range(90)])), names)
    assert middle({0: several, 1: small}) == 0


# -- apart -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("size", [0, 1, 2, 3])
@settings(max_examples=examples(25), deadline=None)
@given(base=tables, keys=tables)
def test_rows_that_agree_are_left_out(
    keep: tuple[str, ...], size: int, base: list[Row], keys: list[Row]
) -> None:
    of = keep[:size]
    output = summed(keep)
    reference = ReferenceEngine()
    gone = {tuple(row[name] for name in of) for row in keys}
    whole = by_key(reference, computed(reference, base, output), keep)
    expected = {k: r for k, r in whole.items() if tuple(r[name] for name in of) not in gone}
    for engine in (reference, LocalEngine()):
        message = computed(engine, base, output)
        rest = engine.apart(message, computed(engine, keys, Output((0,), (), of, ())))
        assert_same(by_key(engine, rest, keep), expected)
        assert_same(by_key(engine, message, keep), whole)


# -- rows ------------------------------------------------------------------------------------------

odd = rows.flatmap(
    lambda row: st.sampled_from([math.nan, -math.nan, 0.0, -0.0, math.inf, row["f"]]).map(
        lambda f: row | {"f": f}
    )
)
"""Rows with numbers that are equal to others in ways of their own."""


def plain(given: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Rows that Python compares as they should be."""

    def one(value: Any) -> Any:
        return "nan" if isinstance(value, float) and math.isnan(value) else value

    return [tuple(one(row[name]) for name in KINDS if name in row) for row in given]


def loaded(engine: Any, given: list[Row], chunk: int = 3) -> Any:
    whole = arrow(given)
    parts = [whole.slice(at, chunk) for at in range(0, len(given), chunk)] or [whole]
    return engine.load("r", pa.concat_tables(parts))


def contents(engine: Any, table: Any) -> list[tuple[Any, ...]]:
    records = engine.arrow(table)
    assert records.schema.equals(SCHEMA)
    assert table.rows == records.num_rows
    return plain(records.to_pylist())


def used(engine: Any, table: Any) -> None:
    """Let it have codes, ids, look-ups and lifts."""
    for keep in (("k",), ("t", "k")):
        computed(engine, table, summed(keep))
    if isinstance(engine, LocalEngine):
        table.places(engine.book.space(("t",)), NAMES, None)
        table.index(engine.book.space(("k", "t")), NAMES)


def assert_serves(engine: Any, table: Any, given: list[Row]) -> None:
    """What is computed from rows of another table is what is computed from a table of its own."""
    reference = ReferenceEngine()
    given = [row | {"f": None} for row in given]
    for output in (summed(("k",)), extremes(("t", "d")), summed(())):
        columns = tuple(c for c in output.columns if not c.name.endswith("f"))
        less = Output((0,), (expression("k < 4"),), output.keep, columns)
        groups = by_key(engine, computed(engine, table, less), less.keep)
        assert_same(groups, by_key(reference, computed(reference, given, less), less.keep))


@pytest.mark.parametrize("is_used", [False, True])
@settings(max_examples=examples(40), deadline=None)
@given(
    base=st.lists(odd, max_size=15),
    more=st.lists(odd, max_size=5),
    positions=st.lists(st.integers(0, 99), max_size=8),
    cut=st.integers(0, 8),
)
def test_rows_are_settled_one_for_one(
    is_used: bool, base: list[Row], more: list[Row], positions: list[int], cut: int
) -> None:
    stay, gone = without(base + more, positions)
    for engine in (ReferenceEngine(), LocalEngine()):
        plus = [loaded(engine, base), loaded(engine, more)]
        if is_used:
            used(engine, plus[0])
        minus = [loaded(engine, gone[:cut]), loaded(engine, gone[cut:])]
        settled = engine.settle(plus, minus)
        assert Counter(contents(engine, settled)) == Counter(plain(stay))
        assert_serves(engine, settled, stay)
        again = engine.settle([settled, minus[0]], [])
        assert Counter(contents(engine, again)) == Counter(plain(stay + gone[:cut]))
        assert_serves(engine, again, stay + gone[:cut])


@settings(max_examples=examples(40), deadline=None)
@given(base=st.lists(odd, min_size=1, max_size=15), more=st.lists(odd, max_size=5))
def test_rows_selected_from_a_table_are_settled_with_it(base: list[Row], more: list[Row]) -> None:
    for engine in (ReferenceEngine(), LocalEngine()):
        table = loaded(engine, base)
        gone = engine.matching(table, arrow(base[:2]))
        equal = set(plain(base[:2]))
        stay = [row for row in base if plain([row])[0] not in equal]
        settled = engine.settle([table, loaded(engine, more)], [gone])
        assert Counter(contents(engine, settled)) == Counter(plain(stay + more))
        # Taken twice, they must be there twice.
        doubled = engine.settle([table, loaded(engine, base)], [gone, gone])
        assert Counter(contents(engine, doubled)) == Counter(plain(stay + stay))


@pytest.mark.parametrize("engine", [ReferenceEngine(), LocalEngine()], ids=lambda e: e.name)
def test_a_row_that_is_not_there_cannot_go(engine: Any) -> None:
    table = loaded(engine, [row(k=1), row(k=2)])
    assert engine.settle([table], [loaded(engine, [])]) is table or engine.name == "reference"
    with pytest.raises(EngineError, match=r"not there.*2"):
        engine.settle([table], [loaded(engine, [row(k=2), row(k=2)])])


@pytest.mark.parametrize("is_used", [False, True])
@settings(max_examples=examples(60), deadline=None)
@given(
    base=st.lists(odd, max_size=20),
    others=st.lists(odd, max_size=4),
    labels=st.sets(st.sampled_from(list(KINDS)), min_size=1),
)
def test_rows_are_matched_by_their_values(
    is_used: bool, base: list[Row], others: list[Row], labels: set[str]
) -> None:
    wanted = [{name: row[name] for name in sorted(labels)} for row in base[::3] + others]
    dtypes = pa.schema([SCHEMA.field(name) for name in sorted(labels)])
    equal = set(plain(wanted))
    expected = [r for r in base if plain([{n: r[n] for n in sorted(labels)}])[0] in equal]
    for engine in (ReferenceEngine(), LocalEngine()):
        table = loaded(engine, base)
        if is_used:
            used(engine, table)
        values = engine.book.values if isinstance(engine, LocalEngine) else 0
        for _ in range(3):  # an index is made for the second
            matched = engine.matching(table, pa.Table.from_pylist(wanted, dtypes))
            assert contents(engine, matched) == plain(expected)
        assert not isinstance(engine, LocalEngine) or engine.book.values == values
        assert_serves(engine, matched, expected)


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize(
    "where",
    ["k = 2", "k > 1 and t <> 'b'", "i is null", "f > 0", "m < 3 or b", "s in ('x', 'ü')", "1 = 1"],
)
@settings(max_examples=examples(15), deadline=None)
@given(base=tables)
def test_rows_are_selected(is_used: bool, where: str, base: list[Row]) -> None:
    selections = {}
    for engine in (ReferenceEngine(), LocalEngine()):
        table = loaded(engine, base)
        if is_used:
            used(engine, table)
        selected = engine.select(Input(table, NAMES), expression(where))
        selections[engine.name] = contents(engine, selected)
        assert selected.null_free >= table.null_free
        if isinstance(engine, LocalEngine):
            (kept,) = (engine.select(Input(t, NAMES), expression("k < 4")) for t in [selected])
            assert contents(engine, kept) == [
                row for row in selections["reference"] if row[0] is not None and row[0] < 4
            ]
            assert_serves(
                engine, selected, [dict(zip(KINDS, r, strict=True)) for r in selections["local"]]
            )
    assert selections["local"] == selections["reference"]


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.dictionary(pa.int8(), pa.string()), ["b", None, "a", "b"]),
        (pa.large_string(), ["b", None, "a", "é"]),
        (pa.binary(), [b"b", None, b"", b"b"]),
        (pa.uint64(), [2**64 - 1, None, 0, 5]),
        (pa.float32(), [0.5, None, math.nan, -0.0]),
        (pa.time64("ns"), [10**9 + 1, None, 10**9, 5]),
        (pa.timestamp("ms", "UTC"), [1, None, 10**12, 1]),
        (pa.duration("s"), [1, None, 2, 1]),
        (pa.decimal256(50, 3), [Decimal("1.125"), None, Decimal(0), Decimal(10) ** 30]),
        (pa.int8(), [1, None, -3, 1]),
    ],
    ids=str,
)
def test_rows_of_every_type_are_matched(is_used: bool, dtype: Any, values: list[Any]) -> None:
    engine = LocalEngine()
    column = pa.array(values, dtype)
    given = pa.table({"k": pa.chunked_array([column[:2], column[2:]]), "i": [1, 2, 3, 4]})
    table = engine.load("r", given)
    given = plain_table(given)
    if is_used:
        table.codes("k", {"k": "k"})
    for at in range(4):
        for one in (given.slice(at, 1), given.slice(at, 1).select(["k"])):
            for _ in range(3):
                matched = engine.arrow(engine.matching(table, one))
                expected = [r for r in range(4) if are_equal(values[r], values[at])]
                assert matched["i"].to_pylist() == [
                    r + 1 for r in expected if r == at or "i" not in one.column_names
                ]
    left = engine.settle([table, engine.load("r", given)], [engine.load("r", given.slice(1, 2))])
    assert sorted(engine.arrow(left)["i"].to_pylist()) == [1, 1, 2, 3, 4, 4]
    assert engine.schema(left).equals(given.schema)


def are_equal(a: Any, b: Any) -> bool:
    return a is b or a == b


def test_a_dictionary_whose_type_has_changed_still_knows_its_values() -> None:
    engine = LocalEngine()
    book = engine.book.dictionary("k")
    codes = book.encode(pa.array(range(8)))
    for _ in range(4):
        assert book.encode(pa.array([5])).tolist() == [codes[5]]
    book.encode(pa.array([0.5, 2.0]))
    for _ in range(4):
        assert book.encode(pa.array([5.0])).tolist() == [codes[5]]
        assert book.encode(pa.array([5])).tolist() == [codes[5]]
        assert book.find(pa.array([5, 7, 99, None])).tolist() == [codes[5], codes[7], -1, 0]
    assert book.size == 10


def test_columns_of_lists_are_left_out() -> None:
    engine = LocalEngine()
    data = {"k": [1, 2, 2, None], "l": [[1], [2, None], None, []], "z": pa.nulls(4)}
    table = engine.load("r", pa.table(data))
    assert list(table.unsupported) == ["l"]
    used = pa.table(data).drop_columns(["l"])
    for at, times in enumerate((1, 2, 2, 1)):
        one = used.slice(at, 1)
        assert engine.arrow(engine.matching(table, one)).to_pylist() == one.to_pylist() * times
    left = engine.settle([table], [engine.load("r", pa.table(data).slice(1, 2))])
    assert left.rows == 2


@pytest.mark.parametrize("engine", [ReferenceEngine(), LocalEngine()], ids=lambda e: e.name)
def test_the_schema_is_that_of_the_source(engine: Any) -> None:
    table = loaded(engine, [row(k=1)])
    assert engine.schema(table).equals(SCHEMA)
    assert engine.schema(engine.select(Input(table, NAMES), expression("k = 1"))).equals(SCHEMA)


@pytest.mark.parametrize("chunks", [1, 3])
def test_rows_are_matched_by_several_keys_again_and_again(chunks: int) -> None:
    """First by one key, then by an index of both; whatever the pieces the rows come in."""
    rng = random.Random(0)
    pairs = sorted({(rng.randrange(60), rng.randrange(20)) for _ in range(900)})
    days = [date(2024, 1, 1) + timedelta(days) for days, _ in pairs]
    table = pa.table(
        {
            "day": pa.array(days, pa.date32()),
            "store": pa.array([store for _, store in pairs], pa.int32()),
            "n": list(range(len(pairs))),
        }
    )
    engine = LocalEngine()
    relation = engine.load("visits", table)
    names = {"day": "day", "store": "store"}
    for attribute in names:  # so that their codes are there
        contraction = Contraction((Input(relation, names),), (Output((0,), (), (attribute,), ()),))
        engine.contract(contraction)
    for start in range(0, 60, 10):
        unknown = pa.table({"day": [date(1999, 1, 1)], "store": pa.array([5], pa.int32())})
        chosen = [table.slice(start + i, 1).select(["day", "store"]) for i in range(chunks)]
        matched = engine.matching(relation, pa.concat_tables([*chosen, unknown]))
        assert engine.arrow(matched).column("n").to_pylist() == list(range(start, start + chunks))
