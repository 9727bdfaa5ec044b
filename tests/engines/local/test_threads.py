"""Threads that share an engine, and join graphs that share one."""

from __future__ import annotations

import datetime
import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, current_thread, main_thread
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.engines.local import LocalEngine
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.vm.parallel import MIN_ROWS_PER_THREAD
from calitree.engines.local.vm.program import Program
from tests.support.scale import examples

THREADS = 8
ROWS = 300


def saved_tree(path: Path) -> None:
    """Relations that join on two columns each, so that ids of pairs are needed."""
    graph = ct.JoinGraph("local")
    columns = {"day": [i % 13 for i in range(ROWS)], "store": [i % 7 for i in range(ROWS)]}
    columns |= {"item": [i % 11 for i in range(ROWS)], "units": [i % 5 for i in range(ROWS)]}
    graph.add_relation("sales", columns)
    pairs = [(day, store) for day in range(13) for store in range(7)]
    traffic = {"day": [d for d, _ in pairs], "store": [s for _, s in pairs]}
    graph.add_relation("traffic", traffic | {"visits": [d * s % 3 for d, s in pairs]})
    pairs = [(store, item) for store in range(7) for item in range(11)]
    prices = {"store": [s for s, _ in pairs], "item": [i for _, i in pairs]}
    graph.add_relation("prices", prices | {"price": [s + i for s, i in pairs]})
    graph.add_join("sales", "traffic", on=["day", "store"])
    graph.add_join("sales", "prices", on=["store", "item"])
    graph.calibrate({"n": "count(*)", "revenue": "sum(units * price)"}).save(path)


QUESTIONS: list[dict[str, Any]] = [
    {"group_by": ["visits"]},
    {"group_by": ["price"], "where": "visits > 0"},
    {"group_by": ["sales.day"], "where": "price > 3"},
    {"group_by": ["sales.item", "visits"]},
    {"where": "units > 1 AND visits < 2"},
    {"group_by": ["sales.store", "sales.day"]},
    {"group_by": ["units"], "where": "sales.day > sales.item"},
    {"where": "price = 4", "group_by": ["visits", "price"]},
]


def answers(wide: ct.WideTable, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in wide.query(**question).rows())


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("large", [20_000, 0], ids=["joining", "scanning"])
def test_first_questions_of_an_opened_tree(tmp_path: Path, large: int) -> None:
    saved_tree(tmp_path)
    expected = [answers(ct.open(tmp_path, engine="local"), question) for question in QUESTIONS]
    with ThreadPoolExecutor(THREADS) as pool:
        for turn in range(examples(25)):
            wide = ct.open(tmp_path, engine=LocalEngine(large=large))
            start = Barrier(THREADS)

            def ask(at: int, wide: ct.WideTable = wide, start: Barrier = start) -> Any:
                start.wait()
                return answers(wide, QUESTIONS[at])

            asked = [(at + turn) % len(QUESTIONS) for at in range(THREADS)]
            given = list(pool.map(ask, asked))
            assert given == [expected[at] for at in asked]


@pytest.mark.usefixtures("frequent_switches")
def test_there_is_one_space_for_the_same_attributes() -> None:
    names = ("a", "b", "c", "d", "e")
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(examples(200)):
            book, start = Codebook(1), Barrier(THREADS)

            def ask(_: int, book: Codebook = book, start: Barrier = start) -> tuple[Any, Any]:
                start.wait()
                return book.space(names), book.space(names[:3])

            spaces = list(pool.map(ask, range(THREADS)))
            assert {tuple(map(id, pair)) for pair in spaces} == {tuple(map(id, spaces[0]))}


@pytest.mark.usefixtures("frequent_switches")
def test_values_that_several_threads_encode_have_one_code() -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(examples(50)):
            book, start = Codebook(1), Barrier(THREADS)
            columns = [pa.array([f"{i * at % 97}" for i in range(60)]) for at in range(1, 9)]

            def encode(column: pa.Array, book: Codebook = book, start: Barrier = start) -> Any:
                start.wait()
                return book.space(("a", "b")).ids(
                    [book.dictionary(name).encode(column) for name in ("a", "b")]
                )

            for column, ids in zip(columns, pool.map(encode, columns), strict=True):
                for name in ("a", "b"):
                    codes = book.space(("a", "b")).codes(name)[ids]
                    assert book.dictionary(name).decode(codes).equals(column)
            assert book.space(("a", "b")).size == book.dictionary("a").size == 98


# -- join graphs that share an engine --------------------------------------------------------------

KEYS: dict[str, list[Any]] = {
    "text": ["1", "2", "2"],
    "integer": [1, 2, 2],
    "double": [1.0, 2.5, 2.5],
    "large integer": [1, 2**53 + 1, 2**53 + 1],
    "date": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(2024, 1, 2)],
}


def grouped(engine: Any, keys: list[Any]) -> Any:
    graph = ct.JoinGraph(engine)
    graph.add_relation("r", {"k": keys})
    graph.add_relation("s", {"k": sorted(set(keys)), "v": [10, 20]})
    graph.add_join("r", "s", on="k")
    return graph.calibrate({"v": "sum(v)"})


@pytest.mark.parametrize("second", KEYS)
@pytest.mark.parametrize("first", KEYS)
def test_graphs_that_share_an_engine_keep_their_types(first: str, second: str) -> None:
    engine = LocalEngine()
    trees = [(grouped(engine, KEYS[kind]), KEYS[kind]) for kind in (first, second)]
    for wide, keys in trees + trees[::-1]:
        rows = [tuple(row.values()) for row in wide.query(group_by=["r.k"]).rows()]
        assert [(key, type(key), v) for key, v in rows] == [
            (keys[0], type(keys[0]), 10), (keys[1], type(keys[1]), 40)
        ]  # fmt: skip


@pytest.mark.parametrize("engine", ["local", LocalEngine()])
def test_an_opened_tree_shares_an_engine_with_a_graph(tmp_path: Path, engine: Any) -> None:
    grouped("local", KEYS["date"]).save(tmp_path)
    for shared in (grouped(engine, KEYS["text"]).state.engine, engine):
        rows = ct.open(tmp_path, engine=shared).query(group_by=["r.k"]).rows()
        assert [next(iter(row.values())) for row in rows] == KEYS["date"][:2]


def test_an_engine_that_is_shared_keeps_its_settings() -> None:
    engine = LocalEngine(threads=3, large=7)
    first, second = ct.JoinGraph(engine).engine, ct.JoinGraph(engine).engine
    assert first is engine and second is not engine
    assert isinstance(second, LocalEngine)
    assert (second.threads, second.large, second.book.threads) == (3, 7, 3)


def test_a_thread_that_is_left_alone_keeps_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code knows arrays by their addresses alone, and an interrupted caller does not wait long."""
    began, may_end, ended = Event(), Event(), Event()

    def run(code: Any, registers: Any, rows: Any, first: int, last: int) -> None:
        if current_thread() is main_thread():
            began.wait()
            raise KeyboardInterrupt
        began.set()
        may_end.wait()
        ended.set()

    monkeypatch.setattr("calitree.engines.local.vm.machine.run", run)
    monkeypatch.setattr("calitree.engines.local.vm.parallel.PATIENCE_SECONDS", 0)
    rows = 4 * MIN_ROWS_PER_THREAD
    values = np.ones(rows)
    read = ref(values)
    program = Program(rows)
    program.sum(program.load(values, 1), None, 1)
    with pytest.raises(KeyboardInterrupt):
        program.run(threads=2)
    del program, values
    gc.collect()
    assert read() is not None
    may_end.set()
    assert ended.wait(60)
    while read() is not None:  # the thread lets go of it next
        gc.collect()
