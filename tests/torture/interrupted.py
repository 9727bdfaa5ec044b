"""A process that is interrupted again and again in its long work, and asked a question after each time.

    python -m tests.torture.interrupted ENGINE ROWS TIMES SEED [WORK ...]

Each line that it prints is one interrupt, as JSON: the work, the seconds until Ctrl-C was answered (null if
the work had ended before), and what was wrong afterwards.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet

import calitree as ct
from calitree import interrupts
from calitree.engines.hybrid import HybridEngine
from calitree.engines.spark import SparkEngine
from tests.conftest import TINY

CITIES = 20
HANG_SECONDS = 120
MEASURES = {"n": "count(*)", "s": "sum(sales.price * items.weight)"}


class Data:
    """Sales of items in stores, and three relations in a cycle; what is asked of them, by NumPy."""

    def __init__(self, rows: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.rows = rng, rows
        # The reference engine compares each row with each.
        self.store_count, self.item_count, nodes = (20, 25, 40) if rows < 1000 else (500, 2000, 600)
        self.nodes = nodes
        self.store_city = rng.integers(0, CITIES, self.store_count)
        self.item_weight = rng.integers(1, 9, self.item_count)
        self.sales = self.new_sales(rows)
        self.edges = {
            name: pa.table({x: rng.integers(0, nodes, rows), y: rng.integers(0, nodes, rows)})
            for name, x, y in (("r", "a", "b"), ("s", "b", "c"), ("t", "a", "c"))
        }
        self.cities = [f"city {c}" for c in range(CITIES)]
        self.stores = pa.table(
            {
                "store": np.arange(self.store_count),
                "city": [self.cities[c] for c in self.store_city],
                "size": rng.integers(0, 9, self.store_count),
            }
        )
        self.items = pa.table(
            {
                "item": np.arange(self.item_count),
                "family": [f"f{i % 7}" for i in range(self.item_count)],
                "weight": self.item_weight,
            }
        )

    @property
    def rates(self) -> pa.Table:
        """Some for each item, from a day on."""
        items = np.repeat(np.arange(self.item_count), 5)
        rng = np.random.default_rng(2)
        days, rates = rng.integers(0, 365, len(items)), rng.integers(1, 9, len(items))
        return pa.table({"item": items, "day": days, "rate": rates})

    def new_sales(self, rows: int) -> pa.Table:
        note = self.rng.integers(0, max(1, rows), rows)
        return pa.table(
            {
                "store": self.rng.integers(0, self.store_count, rows),
                "item": self.rng.integers(0, self.item_count, rows),
                "price": self.rng.integers(1, 100, rows),
                "day": self.rng.integers(0, 365, rows),
                "note": pa.array([f"note {x}" for x in note.tolist()]),
            }
        )

    def by_city(self, *parts: pa.Table) -> dict[str, tuple[int, int]]:
        """How many sales each city has, and their prices times weights."""
        counts, sums = np.zeros(CITIES, np.int64), np.zeros(CITIES, np.int64)
        for part in parts:
            columns = (part.column(c).to_numpy() for c in ("store", "item", "price"))
            store, item, price = columns
            city = self.store_city[store]
            np.add.at(counts, city, 1)
            np.add.at(sums, city, price * self.item_weight[item])
        answer = zip(self.cities, counts.tolist(), sums.tolist(), strict=True)
        return {city: (n, s) for city, n, s in answer if n}

    def triangles(self) -> int:
        """How many triangles there are."""
        ab, bc, ac = (np.zeros((self.nodes, self.nodes)) for _ in range(3))
        for matrix, name in ((ab, "r"), (bc, "s"), (ac, "t")):
            np.add.at(matrix, tuple(c.to_numpy() for c in self.edges[name].columns), 1)
        return int(((ab @ bc) * ac).sum())


class Session:
    """One engine with its data, and the works in which it is interrupted."""

    def __init__(self, engine: str, rows: int, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.data = Data(rows, seed=1)
        self.sources: dict[str, Any] = {"sales": self.data.sales, **self.data.edges}
        self.spark = None
        if engine in ("spark", "hybrid"):
            self.spark = ct.spark_session("local[2]", config=TINY)
            # Of files, so that Spark reads them.
            for name, table in self.sources.items():
                parquet.write_table(table, folder / f"{name}.parquet", row_group_size=1 << 16)
                self.sources[name] = str(folder / f"{name}.parquet")
        self.inserted: list[pa.Table] = []
        self.answers: dict[str, object] = {}
        self.numbers = count()
        self.triangles = self.data.triangles()
        self.wide = self.calibrated()
        self.saved = str(folder / "saved")
        if engine != "reference":
            self.wide.save(self.saved)

    def new_engine(self) -> Any:
        if self.spark is None:
            return self.engine
        if self.engine == "spark":
            return SparkEngine(self.spark)
        # Everything is too large for this process.
        return HybridEngine(self.spark, in_process=1 << 16)

    def graph(self) -> ct.JoinGraph:
        graph = ct.JoinGraph(engine=self.new_engine())
        graph.add_relation("sales", self.sources["sales"])
        graph.add_relation("stores", self.data.stores)
        graph.add_relation("items", self.data.items)
        graph.add_join("sales", "stores", on="store")
        graph.add_join("sales", "items", on="item")
        return graph

    def calibrated(self) -> ct.WideTable:
        return self.graph().calibrate(MEASURES, progress=False)

    # -- works -----------------------------------------------------------------------------------

    def calibrate(self) -> None:
        self.check_rows(self.calibrated().query(["city"]), [])

    def cycle(self) -> None:
        graph = ct.JoinGraph(engine=self.new_engine())
        for name in "rst":
            graph.add_relation(name, self.sources[name])
        graph.add_join("r", "s", on="b")
        graph.add_join("s", "t", on="c")
        graph.add_join("r", "t", on="a")
        (row,) = graph.calibrate(progress=False).query().rows()
        assert row == {"n": self.triangles}, row

    def scan(self) -> None:
        """A question that was never asked before, with texts to look at in every row."""
        number = next(self.numbers)
        where = f"note like '%{number}%' or price + day > {number % 400}"
        self.wide.query(["family", "day"], where, {"m": "max(note)", "a": "avg(price)"}).rows()

    def update(self) -> None:
        rows, before = self.data.new_sales(min(1000, self.data.rows // 8)), self.wide.version
        self.inserted.append(rows)
        try:
            self.wide.update("sales", insert=rows)
        finally:
            if self.wide.version == before:
                self.inserted.pop()
        self.wide.refresh(progress=False)

    def save(self) -> None:
        """To a new directory: either all of it is there afterwards, or nothing is."""
        path = self.folder / f"tree {next(self.numbers)}"
        try:
            self.wide.save(path)
        except KeyboardInterrupt:
            if any((path / "manifests").glob("*")):
                self.check_rows(ct.open(path, engine="local").query(["city"]), self.inserted)
            else:
                files = [file for file in path.rglob("*") if file.is_file()]
                assert not files, f"files are left: {files}"
            raise
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def open(self) -> None:
        wide = ct.open(self.saved, engine=self.new_engine())
        wide.query(["family"], "day < 100").rows()

    def augment(self) -> None:
        days = pa.table({"day": np.arange(365), "holiday": np.arange(365) % 7 == 0})
        wide = self.wide.augment(days, on="day", name="days")
        wide.query(["holiday", "city"]).rows()

    def search(self) -> None:
        rng, stores = np.random.default_rng(0), np.arange(self.data.store_count)
        tables = {
            f"t{i}": pa.table({"store": stores, f"x{i}": rng.random(len(stores))}) for i in range(4)
        }
        self.calibrated().search(tables, target="price")

    def cube(self) -> None:
        self.calibrated().cube(dims=["city", "family", "day"], k=2)

    def regression(self) -> None:
        self.calibrated().linear_regression(target="price", features=["weight", "size", "day"])

    def as_of(self) -> None:
        """Each sale meets the latest rate of its item."""
        graph = ct.JoinGraph(engine=self.new_engine())
        graph.add_relation("sales", self.sources["sales"])
        graph.add_relation("rates", self.data.rates)
        graph.add_join("sales", "rates", on="item", asof="day", how="left")
        wide = graph.calibrate({"n": "count(rate)", "s": "sum(price * rate)"}, progress=False)
        self.check_same("as_of", wide.query().rows())

    def theta(self) -> None:
        """Bands of prices, by order; and pairs that have to be tried, as both sides are grouped by."""
        graph = ct.JoinGraph(engine=self.new_engine())
        graph.add_relation("stores", self.data.stores)
        graph.add_relation("items", self.data.items)
        graph.add_relation("sales", self.sources["sales"])
        graph.add_join("sales", "stores", on="store")
        graph.add_join("stores", "items", condition="size < weight")
        wide = graph.calibrate({"n": "count(*)", "s": "sum(price * weight)"}, progress=False)
        groups = wide.query(["city", "family"], "size + weight < 12").rows()
        self.check_same("theta", (wide.query().rows(), len(groups)))

    def fold(self) -> None:
        """Values that are carried to the root, and folded there."""
        measures = {"m": "median(price)", "d": "count(distinct note)", "t": "top_k(day, 3)"}
        measures |= {"q": "quantile_disc(price * weight, 0.9)"}
        where = f"day <> {1000 + next(self.numbers)}"
        self.wide.query(["city"], where, measures).rows()

    def verify(self) -> None:
        assert self.wide.verify([{"group_by": ["city"]}, {"where": "price > 50"}]).ok

    # -- checks ----------------------------------------------------------------------------------

    def check_rows(self, result: Any, inserted: list[pa.Table]) -> None:
        answer = {row["city"]: (row["n"], row["s"]) for row in result.rows()}
        expected = self.data.by_city(self.data.sales, *inserted)
        assert answer == expected, f"{answer} is not {expected}"

    def check_same(self, work: str, answer: object) -> None:
        """The same as the first time."""
        known = self.answers.setdefault(work, answer)
        assert answer == known, f"{answer} is not {known}"

    def check(self) -> None:
        """The next question is right, also on another thread; nothing is left running or on the disk."""
        self.check_rows(self.wide.query(["city"]), self.inserted)
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                self.check_rows(self.wide.query(["city"], "price > 0"), self.inserted)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(HANG_SECONDS)
        assert not thread.is_alive(), "a lock is held"
        if errors:
            raise errors[0]

    def check_nothing_left(self, before: Left) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while (left := Left.now() - before) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left, f"left: {left}"


class Left(frozenset[str]):
    """Calls that run, child processes, and temporary files."""

    @classmethod
    def now(cls) -> Left:
        calls = sum(thread.name == "calitree-call" for thread in threading.enumerate())
        things = {f"call {n}" for n in range(calls - len(interrupts._idle))}
        things |= {f"process {p.pid} {p.name()}" for p in psutil.Process().children()}
        things |= {f"file {path.name}" for path in Path(tempfile.gettempdir()).iterdir()}
        return cls(things)


WORKS = (
    *("calibrate", "cycle", "scan", "update", "save", "open", "augment"),
    *("search", "cube", "regression", "verify", "as_of", "theta", "fold"),
)
SKIPPED = {
    "reference": ("save", "open", "search", "regression"),  # which it cannot do
    "spark": ("open", "augment", "search", "cube"),  # which are more of the same, and slow
    "hybrid": ("open", "augment", "search", "cube"),
}


def interrupted(work: Callable[[], object], delay: float) -> float | None:
    """The seconds until Ctrl-C after `delay` is answered; None if the work had ended before."""
    sent: list[float] = []

    def send() -> None:
        time.sleep(delay)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    ended = False
    sender = threading.Thread(target=send, daemon=True)
    try:
        sender.start()
        work()
        ended = True
        for _ in range(20 * HANG_SECONDS):  # a signal just before a sleep does not wake from it
            time.sleep(0.05)
    except KeyboardInterrupt:
        answered = time.monotonic() - sent[0]
        sender.join()
        return None if ended else answered
    raise AssertionError("Ctrl-C was lost")


def main(engine: str, rows: int, times: int, seed: int, works: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name) / "tmp"
        temporary.mkdir()
        tempfile.tempdir = str(temporary)
        session = Session(engine, rows, Path(name))
        skipped = SKIPPED.get(engine, ())
        chosen = [work for work in works or WORKS if work not in skipped]
        lengths = {}
        for work in chosen:  # what is compiled or started is there from now on
            getattr(session, work)()
            began = time.monotonic()
            getattr(session, work)()
            lengths[work] = time.monotonic() - began
        session.check()
        before = Left.now()
        for number in range(times):
            work = chosen[number % len(chosen)]
            wrong, seconds = "", None
            try:
                seconds = interrupted(getattr(session, work), chance.uniform(0, lengths[work]))
                session.check()
            except BaseException as error:
                wrong = f"{type(error).__name__}: {error}"
            print(json.dumps({"work": work, "seconds": seconds, "wrong": wrong}), flush=True)
        session.check_nothing_left(before)
        print(json.dumps({"work": "all", "seconds": None, "wrong": ""}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
