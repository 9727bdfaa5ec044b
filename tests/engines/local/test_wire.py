"""Messages that travel: what comes back is what was sent, and parts sum up to the whole."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output
from calitree.engines.api.semiring import MAX, MIN, SUM_PRODUCT
from calitree.engines.local import LocalEngine
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.engines.local.tables.wire import from_wire, merging, to_wire
from calitree.sql.nodes import column, marked
from calitree.sql.parser import expression_of
from calitree.types import Kind
from tests.support.scale import examples

KINDS = {
    "i": (Kind.INTEGER, pa.int64(), st.integers(-(2**62), 2**62)),
    "f": (Kind.FLOAT, pa.float64(), st.floats(-1e9, 1e9)),
    "m": (Kind.DECIMAL, pa.decimal128(9, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 4)),
    "s": (Kind.STRING, pa.string(), st.sampled_from(["", "a", "b", "é"])),
    "b": (Kind.BOOLEAN, pa.bool_(), st.booleans()),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 30))
    keys = draw(st.lists(st.none() | st.integers(0, 4), min_size=rows, max_size=rows))
    columns: dict[str, Any] = {"k": pa.array(keys, pa.int64())}
    for name, (_, dtype, values) in KINDS.items():
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(drawn, dtype)
    return pa.table(columns)


def outputs() -> tuple[Output, ...]:
    """By key and in total: sums of numbers, extremes of everything, and a count."""
    columns = [Column("n", SUM_PRODUCT, ())]
    for name, (kind, _, _) in KINDS.items():
        lifted = Lifted(0, (expression_of(marked(column(name), kind)),))
        semirings = [MIN, MAX, SUM_PRODUCT] if kind.is_number else [MIN, MAX]
        columns += [Column(f"{ring.name} {name}", ring, (lifted,)) for ring in semirings]
    return tuple(Output((0,), (), keep, tuple(columns)) for keep in (("k",), ()))


def computed(engine: LocalEngine, table: pa.Table) -> list[EncodedMessage]:
    relation = engine.load("r", table)
    names = {name: name for name in table.column_names}
    return engine.contract(Contraction((Input(relation, names),), outputs()))


def contents(engine: LocalEngine, message: EncodedMessage) -> Any:
    def key(row: dict[str, Any]) -> Any:
        return str(row.get("k"))

    return sorted(engine.arrow(message).to_pylist(), key=key), message.exact


@settings(max_examples=examples(100), deadline=None)
@given(table=tables())
def test_what_comes_back_is_what_was_sent(table: pa.Table) -> None:
    engine, other = LocalEngine(), LocalEngine()
    for message in computed(engine, table):
        back = from_wire(other.book, [to_wire(message)])
        assert contents(other, back) == contents(engine, message)
        assert [v.positive for v in back.annotations.values()] == [
            v.positive for v in message.annotations.values()
        ]


@pytest.mark.parametrize("large", [0, 10**9])
def test_parts_sum_up_to_the_whole(large: int) -> None:
    @settings(max_examples=examples(100), deadline=None)
    @given(table=tables(), cuts=st.lists(st.integers(0, 30), max_size=4))
    def run(table: pa.Table, cuts: list[int]) -> None:
        whole, home = LocalEngine(large=large), LocalEngine(large=large)
        bounds = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]
        pieces = [table.slice(a, b - a) for a, b in pairwise(bounds)]
        parts = [computed(LocalEngine(large=large), piece) for piece in pieces]
        for i, (output, expected) in enumerate(zip(outputs(), computed(whole, table), strict=True)):
            together = from_wire(home.book, [to_wire(part[i]) for part in parts])
            (message,) = home.contract(merging(together, output))
            rows, exact = contents(home, message)
            wanted, _ = contents(whole, expected)
            assert rows == approximately(wanted)
            assert exact and all(isinstance(row["sum i"], int | Decimal) for row in rows)

    run()


def approximately(rows: list[dict[str, Any]]) -> Any:
    return [
        {
            k: pytest.approx(v, rel=1e-12, abs=1e-6) if isinstance(v, float) else v
            for k, v in r.items()
        }
        for r in rows
    ]


def test_a_message_without_columns() -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("r", {"k": [1, 2]})
    engine: Any = graph.engine
    (message,) = engine.contract(
        Contraction(
            (Input(graph.schema.relations["r"].table, {"k": "k"}),), (Output((0,), (), (), ()),)
        )
    )
    assert from_wire(engine.book, [to_wire(message)]).rows == message.rows == 1
