"""The functions that a query, an update, saving, opening and a calibration on Spark call.

They are in the order of their first call.

    python tools/walks.py            files, jumps and returns of each trace
    python tools/walks.py query      its functions too

A *jump* is a step to another file, a *return* a jump to a file seen before. Only functions of calitree in
this process count; of engines only Spark's do, and only where Spark calibrates. In brackets are the counts
without properties and special methods, which read as attributes and operators, so that nobody needs to
look them up. `docs/architecture.md` lists stations of the same traces, and a test compares the two.
"""

from __future__ import annotations

import sys
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import calitree as ct
from calitree import interrupts
from calitree.calibration.branch import Branch

ROOT = Path(ct.__file__).parent

SPARK = ("engines/spark/", "engines/hybrid/")
"""Whose functions count where Spark calibrates."""


class Call(NamedTuple):
    """A function, by its file below `calitree/` and its name there."""

    file: str
    function: str

    @property
    def is_attribute(self) -> bool:
        """Whether it is a property or a special method."""
        *owners, name = self.function.split(".")
        if name.startswith("__"):
            return True
        here: Any = import_module("calitree." + self.file.removesuffix(".py").replace("/", "."))
        for owner in owners:
            here = getattr(here, owner, None)
        return not callable(vars(here).get(name, callable)) if isinstance(here, type) else False


class Trace(NamedTuple):
    """The functions in the order of their first call."""

    calls: tuple[Call, ...]

    @property
    def steps(self) -> Trace:
        """Without what reads as an attribute or an operator."""
        return Trace(tuple(call for call in self.calls if not call.is_attribute))

    @property
    def runs(self) -> Iterator[tuple[str, list[str]]]:
        """The files in the order in which they are come to, each with the functions met there."""
        here: tuple[str, list[str]] | None = None
        for call in self.calls:
            if here is None or here[0] != call.file:
                if here is not None:
                    yield here
                here = call.file, []
            here[1].append(call.function)
        if here is not None:
            yield here

    @property
    def files(self) -> int:
        return len({call.file for call in self.calls})

    @property
    def jumps(self) -> int:
        return len(list(self.runs)) - 1

    @property
    def returns(self) -> int:
        return self.jumps - (self.files - 1)


class Tracer:
    """Notes the functions of calitree that are called while it is entered.

    What an engine calls is its own affair, so nothing is noted inside of one, but for those `counted`.
    """

    def __init__(self, counted: tuple[str, ...] = ()) -> None:
        self.counted = counted
        self._calls: dict[Call, None] = {}
        self._inside = 0

    @property
    def trace(self) -> Trace:
        return Trace(tuple(self._calls))

    def __enter__(self) -> Tracer:
        interrupts._idle.clear()  # so that calls of the main thread are made by one that is traced
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        interrupts._idle.clear()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        path, thread = frame.f_code.co_filename, threading.current_thread()
        if event not in ("call", "return") or not path.startswith(f"{ROOT}/"):
            return
        if path == interrupts.__file__ or thread.name not in ("MainThread", "calitree-call"):
            return
        name = path.removeprefix(f"{ROOT}/")
        if name.startswith("engines/") and not name.startswith(("engines/api/", *self.counted)):
            self._inside += 1 if event == "call" else -1
        elif not self._inside and event == "call" and not frame.f_code.co_name.startswith("<"):
            self._calls.setdefault(Call(name, frame.f_code.co_qualname))


def graph(engine: Any, sales: Any = None) -> ct.JoinGraph:
    """Sales in stores, of items."""
    joined = ct.JoinGraph(engine)
    here = {"store": [1, 1, 2], "item": [1, 2, 2], "price": [10, 20, 5]}
    joined.add_relation("sales", here if sales is None else sales)
    joined.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    joined.add_relation("items", {"item": [1, 2], "family": ["DAIRY", "BREAD"]})
    joined.add_join("sales", "stores", on={"store": "id"})
    joined.add_join("sales", "items", on="item")
    return joined


MEASURES: dict[str, Any] = {"revenue": "sum(price)", "n": "count(*)"}


def query() -> Trace:
    """A question with a filter and a group-by that was not asked before, and its rows."""
    wide = graph("local").calibrate(MEASURES)
    wide.query()
    with Tracer() as tracer:
        wide.query(group_by=["city"], where="family = 'DAIRY'").rows()
    return tracer.trace


def update() -> Trace:
    """Rows that come and rows that go by a condition."""
    wide = graph("local").calibrate(MEASURES)
    rows = [{"store": 2, "item": 1, "price": 7}]
    with Tracer() as tracer:
        wide.update("sales", insert=rows, delete="price > 15")
    return tracer.trace


def save() -> Trace:
    """A tree that was updated, to a new directory."""
    wide = graph("local").calibrate(MEASURES)
    wide.update("sales", insert=[{"store": 2, "item": 1, "price": 7}])
    with TemporaryDirectory() as directory, Tracer() as tracer:
        wide.save(f"{directory}/tree")
    return tracer.trace


def opening() -> Trace:
    """That tree again."""
    wide = graph("local").calibrate(MEASURES)
    with TemporaryDirectory() as directory:
        wide.save(f"{directory}/tree")
        engine = ct.JoinGraph("local").engine
        with Tracer() as tracer:
            ct.open(f"{directory}/tree", engine=engine)
    return tracer.trace


def spark() -> Trace:
    """Sales in a file that Spark's tasks read, and the rest in this process."""
    import pyarrow as pa
    from pyarrow import parquet

    from calitree.engines.hybrid import HybridEngine

    with TemporaryDirectory() as directory:
        path = f"{directory}/sales.parquet"
        parquet.write_table(pa.table({"store": [1, 2], "item": [1, 2], "price": [10, 5]}), path)
        engine = HybridEngine(ct.spark_session(), in_process=0)
        given = graph(engine, path)
        wide = ct.WideTable(Branch.new(given.schema, engine, given.hypertree(), MEASURES))
        with Tracer(SPARK) as tracer:
            wide.refresh(progress=False)
    return tracer.trace


TRACES: dict[str, Callable[[], Trace]] = {
    "query": query,
    "update": update,
    "save": save,
    "open": opening,
    "spark": spark,
}


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("trace", nargs="*", choices=[[], *TRACES], help="show its functions")
    shown = parser.parse_args().trace
    print("trace   files    jumps    returns")
    for name in shown or TRACES:
        trace = TRACES[name]()
        counts = [
            (getattr(trace, n), getattr(trace.steps, n)) for n in ("files", "jumps", "returns")
        ]
        print(f"{name:<6}", *(f"{whole:>4} ({steps})".ljust(9) for whole, steps in counts))
        for file, functions in trace.runs if shown else ():
            print(f"    {file}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
