"""The pass over a large table: how often it is read, which of its rows, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.engines.api.semiring import AVG
from calitree.engines.local import LocalEngine
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.scan import groups
from calitree.engines.local.scan.axes import Axes, ProbedMessages
from calitree.engines.local.scan.groups import Grouping
from calitree.engines.local.scan.scan import Scan
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.engines.local.vm import parallel
from calitree.engines.local.vm.program import Program
from calitree.wide_table import WideTable
from tests.support.sales import Question, database, graph, right, without

LARGE_ROWS = 2000


class Spy:
    """The passes over large tables: rows there and rows visited, sums by what and with which
    messages, and the threads.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.visited: list[int] = []
        self.sums: list[tuple[tuple[str, ...], int]] = []
        self.threads: list[int] = []
        run, aggregate = Program.run, Scan.aggregate

        def counted(program: Program, threads: int) -> bool:
            self.visited.append(program.length)
            done = run(program, threads)
            self.threads += [len(into.copies) for into in program._accumulators[:1]]
            return done

        def listed(scan: Scan, onto: tuple[str, ...], masks: Any) -> Any:
            self.sums.append((onto, len(masks)))
            return aggregate(scan, onto, masks)

        patch.setattr(Program, "run", counted)
        patch.setattr(Scan, "aggregate", listed)

    def of(
        self, wide: WideTable, **asked: Any
    ) -> tuple[list[int], list[tuple[tuple[str, ...], int]]]:
        """What one question costs."""
        self.visited, self.sums = [], []
        wide.query(**asked)
        return self.visited, self.sums


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(monkeypatch)


# -- the work --------------------------------------------------------------------------------------


def test_all_messages_of_the_fact_take_one_pass(spy: Spy) -> None:
    """Of four, those to neighbours inside (date, store) take one set of sums."""
    tables = without(database(), "offers")
    wide = graph(tables, LocalEngine(large=LARGE_ROWS)).calibrate(
        {"n": "count(*)", "s": "sum(price * oil)", "m": "max(units)"}, memory_limit=0
    )
    assert len(wide.tree.edges) == 4
    assert spy.visited == [6000]
    assert sorted(spy.sums) == [(("sales.date", "sales.store"), 1), (("sales.item",), 3)]
    of_dimensions = ({}, {"group_by": ["city"]}, {"group_by": ["family"], "where": "cost < 0.1"})
    for asked in of_dimensions:
        assert spy.of(wide, **asked) == ([], []), "what was calibrated answers"
    right(wide, *of_dimensions)


def test_a_selective_filter_goes_through_an_index_when_asked_again(spy: Spy) -> None:
    tables = without(database(), "offers")
    wide = graph(tables, LocalEngine(large=LARGE_ROWS)).calibrate(memory_limit=0)
    sold = np.bincount(tables["sales"]["item"].to_numpy())
    units, item = (tables["sales"][c].to_numpy() for c in ("units", "item"))
    asked = [{"group_by": ["units"], "where": f"items.item = {i}"} for i in (3, 4, 5)]
    visited = [spy.of(wide, **question)[0] for question in asked]
    assert visited == [[6000], [sold[4]], [sold[5]]]
    both = {"group_by": ["label"], "where": "items.item = 6 and units > 20"}
    assert spy.of(wide, **both)[0] == [np.count_nonzero((item == 6) & (units > 20))]
    for _ in range(3):
        visited = spy.of(wide, group_by=["units"], where="items.family < 5")[0]
        assert visited == [6000], "most rows pass"
    right(wide, *asked, both)


def test_only_rows_that_pass_are_visited(spy: Spy) -> None:
    tables = database()
    wide = graph(tables, LocalEngine(large=LARGE_ROWS)).calibrate(memory_limit=0)
    units = tables["sales"]["units"].to_numpy()
    for where, count in (("units = 7", np.count_nonzero(units == 7)), ("units > 99", 0)):
        asked = {"group_by": ["city", "label"], "where": where}
        assert spy.of(wide, **asked)[0] == [count]
        right(wide, asked, {"where": where, "measures": {"m": "min(label)", "s": "sum(price)"}})


def test_messages_that_have_several_rows_a_key_are_joined_with_the_sums(spy: Spy) -> None:
    """An item has two offers: probed in as their number, or as the one that is asked for."""
    wide = graph(database(), LocalEngine(large=LARGE_ROWS)).calibrate(memory_limit=0)
    probed = (("sales.label",), 5)
    assert spy.of(wide, group_by=["label"])[1] == [probed]
    left = (("sales.item", "sales.label"), 4)
    assert spy.of(wide, group_by=["label", "offer"])[1] == [left]
    both = (("offers.offer", "sales.label"), 5)
    one = {"group_by": ["label", "offer"], "where": "offer = 'b'"}
    assert spy.of(wide, **one)[1] == [both]
    right(wide, {"group_by": ["label"]}, {"group_by": ["label", "offer"]}, one)


def test_ids_that_come_during_a_scan_change_nothing() -> None:
    """Another thread may give ids to keys that the scanned table does not have."""
    book = Codebook(threads=1)

    def leg(**columns: list[int]) -> Leg:
        names = {name: name for name in columns}
        return Leg(EncodedRelation(book, ArrowColumns(pa.table(columns))), names)

    def grow(start: int) -> None:
        leg(a=[start], b=[start + 1]).ids(book.space(("a", "b")))

    fact = leg(a=[1, 1, 2], b=[1, 2, 2])
    first, second = leg(a=[1, 2], b=[1, 2], c=[5, 6]), leg(a=[1, 1], b=[1, 2], d=[7, 8])
    around = {1: (first, ("a", "b")), 2: (second, ("a", "b")), 3: (leg(a=[1], e=[9]), ("a",))}
    messages = ProbedMessages(Axes(book, fact, around), {1: (), 2: (), 3: ()})
    sizes = set()
    for at in around:
        grow(10 * at)
        sizes.add(len(messages.places(at)))
    assert sizes == {4}, "all are as long as when the scan began"
    (axis,) = messages.axes.axes
    present = messages.present(axis)
    assert present is not None
    assert present[axis.ids].tolist() == [True, False, False]
    onto = ("a", "b", "c", "d")
    grouping = Grouping(messages, onto, Program(rows=3))
    grow(40)
    assert len(grouping.codes(np.arange(grouping.size))) == len(onto)


def test_groups_that_have_no_room_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered: list[int] = []

    def spied(columns: Sequence[Any], sizes: Sequence[int], length: int) -> Any:
        numbered.append(length)
        return number_rows(columns, sizes, length)

    number_rows = groups.number_rows
    monkeypatch.setattr(groups, "number_rows", spied)
    wide = graph(without(database(nulls=True), "offers"), LocalEngine(large=LARGE_ROWS)).calibrate()
    numbered.clear()
    for names, expected in ((["label"], []), (["label", "sales.item", "units"], [6000])):
        wide.query(group_by=names)
        assert numbered == expected
    numbered.clear()
    right(wide, {"group_by": ["label", "sales.item", "units"]}, {"group_by": ["day", "at", "paid"]})


# -- the answers -----------------------------------------------------------------------------------

MEASURES = {
    "n": "count(*)", "known": "count(price)", "s": "sum(price)", "a": "avg(units)",
    "p": "sum(price * oil * guests)", "u": "sum(units * guests)", "m": "sum(paid)",
    "d": "sum(paid * cost)", "l": "min(label)", "h": "max(label)", "e": "min(day)", "t": "max(at)",
    "f": "bool_or(flag)", "x": "max(paid)", "y": "min(price)", "v": "var_samp(units)",
    "c": "min(units + guests)", "w": "max(since)", "q": "count(*) filter (where units > 20 and family = 1)",
    "z": "avg(paid)", "r": "min(guests - rank)", "o": "sum(price / units)",
}  # fmt: skip
QUESTIONS: list[Question] = [
    {},
    {"group_by": ["city", "family"]},
    {"group_by": ["label", "city"]},
    {"group_by": ["sales.date", "sales.store", "flag"]},
    {"group_by": ["offer", "units"]},
    {"group_by": ["units", "label", "day"], "where": "family = 2"},
    {"group_by": ["city"], "where": "oil > cost and units + guests > 10"},
    {"group_by": ["family"], "where": "label < 'l2' and (city = 'c1' or family = 3)"},
    {
        "group_by": ["at"],
        "where": "sales.store = 1 and sales.date in (3, 4) and day > '1980-01-01'",
    },
    {"group_by": ["sales.date", "sales.item"], "relations": ["sales"]},
    {"where": "price is null and flag is not true"},
    {"where": "units > 1000"},
]


OWN = {name: MEASURES[name] for name in ("n", "known", "s", "l", "t", "f", "x", "y", "v", "z", "o")}
ASKED = [
    {**question, "measures": OWN if "relations" in question else MEASURES} for question in QUESTIONS
]


@pytest.mark.parametrize("nulls", [False, True])
def test_all_kinds_of_measures_and_groups(nulls: bool) -> None:
    right(graph(database(2500, nulls), LocalEngine(large=0)).calibrate(), *ASKED)


def test_two_threads_find_the_same(spy: Spy) -> None:
    """In a table that is large enough for two to be used, by all that numbers, reads and sums."""
    tables = database(2 * parallel.MIN_ROWS_PER_THREAD + 1, nulls=True)
    answers = []
    for threads in (1, 2):
        wide = graph(tables, LocalEngine(threads)).calibrate(MEASURES, memory_limit=0)
        assert set(spy.threads) == {threads}
        answers.append([wide.query(**asked).arrow() for asked in ASKED])
        spy.threads.clear()
    for asked, alone, shared in zip(ASKED, *answers, strict=True):
        assert not compare(shared, alone, len(asked.get("group_by", ())), 1e-7), asked
    right(
        wide, *({**asked, "measures": {"n": "count(*)", "m": "sum(paid)"}} for asked in ASKED[:5])
    )


@pytest.mark.parametrize("empty", ["sales", "stores", "visits", "offers"])
def test_empty_tables(empty: str) -> None:
    tables = database(50)
    tables[empty] = tables[empty].slice(0, 0)
    right(graph(tables, LocalEngine(large=0)).calibrate(MEASURES), *ASKED)


def test_what_meets_nothing_does_not_count_even_if_it_is_not_a_number() -> None:
    nan, inf = float("nan"), float("inf")
    tables = {
        "sales": pa.table({"item": [1, 9, 1, 2], "date": [1, 1, 1, 5], "g": [1, 1, 2, 2],
                           "price": [1.0, inf, 2.0, nan]}),
        "items": pa.table({"item": [1, 2, 3], "cost": [2.0, nan, inf]}),
        "oil": pa.table({"date": [1, 6], "oil": [3.0, nan]}),
    }  # fmt: skip
    mean = ct.aggregate(AVG, {"sales": {"n": "1", "s": "price"}}, final="s / n")
    measures = {"s": "sum(price)", "c": "sum(cost)", "p": "sum(price * cost * oil)", "a": mean}
    rows = graph(tables, LocalEngine(large=0)).calibrate(measures).query(group_by=["g"]).rows()
    assert sorted(rows, key=lambda row: row["g"]) == [
        {"g": 1, "s": 1.0, "c": 2.0, "p": 6.0, "a": 1.0},
        {"g": 2, "s": 2.0, "c": 2.0, "p": 12.0, "a": 2.0},
    ]


def test_what_is_left_of_several_outputs_is_reduced_apart() -> None:
    """Sums of their own stand for the table in each of them, though under the same number."""
    wide = ct.JoinGraph(LocalEngine(large=0))
    wide.add_relation("r0", {"a": [0, 1], "b": [2, 2], "c": [1, 0]})
    wide.add_relation("r1", {"a": [0, 1, 1], "d": ["x", "x", "y"]})
    wide.add_relation("r2", {"a": [1, 1]})
    wide.add_relation("r3", {"b": [2, 1]})
    wide.add_relation("r4", {"c": [0], "f": [1.5]})
    for name, key in (("r1", "a"), ("r2", "a"), ("r3", "b"), ("r4", "c")):
        wide.add_join("r0", name, on=key)
    rows = wide.calibrate({"s": "sum(r4.f)"}, group_by=["r1.d"]).query(group_by=["r1.d"]).rows()
    assert sorted(rows, key=str) == [{"r1.d": "x", "s": 3.0}, {"r1.d": "y", "s": 3.0}]
