"""Ctrl-C: how it is held off, and how long calls give way to it."""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree import interrupts
from calitree.calibration.store import Store
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.vm import parallel
from calitree.interrupts import check, current, run, uninterrupted

LONG_SECONDS = 30
"""A promise of a second is not timed here: this is a hang."""


@pytest.fixture(autouse=True)
def _python_handles_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c_after(seconds: float) -> threading.Thread:
    def wait() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


# -- calls on another thread -----------------------------------------------------------------------


def test_a_call_returns_raises_and_knows_its_context() -> None:
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    thread, value = run(lambda: (threading.current_thread().name, variable.get()))
    assert (thread, value) == ("calitree-call", 7)
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 / 0)
    assert run(threading.current_thread, rows=10) is threading.main_thread()
    names: list[str] = []
    other = threading.Thread(target=lambda: names.append(run(threading.current_thread).name))
    other.start()
    other.join()
    assert names == [other.name]  # nobody is interrupted there


def test_ctrl_c_does_not_wait_for_a_long_call() -> None:
    ended, seen = threading.Event(), []

    def long() -> None:
        seen.append(current())
        while not current().is_set:  # type: ignore[union-attr]
            time.sleep(0.01)
        ended.set()

    sender = ctrl_c_after(0.2)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(long)
    assert time.monotonic() - began < LONG_SECONDS
    sender.join()
    assert ended.wait(LONG_SECONDS)


def test_a_call_that_does_not_look_is_left_alone() -> None:
    go_on, returned = threading.Event(), threading.Event()

    def deaf() -> None:
        go_on.wait(LONG_SECONDS)
        returned.set()

    sender = ctrl_c_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        run(deaf)
    sender.join()
    assert not returned.is_set()
    assert run(lambda: 5) == 5  # by another thread
    go_on.set()
    assert returned.wait(LONG_SECONDS)


def test_callbacks_end_calls_that_cannot_look() -> None:
    called = threading.Event()

    def long() -> None:
        stop = current()
        assert stop is not None
        with stop.calling(called.set):
            assert called.wait(LONG_SECONDS)
        check()

    sender = ctrl_c_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        run(long)
    sender.join()
    assert called.is_set()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_stop_together(threads: int) -> None:
    running, begun = [0], []

    def work(item: int) -> int:
        begun.append(item)
        running[0] += 1
        try:
            for _ in range(20 * LONG_SECONDS):
                check()
                time.sleep(0.05)
        finally:
            running[0] -= 1
        return item

    sender = ctrl_c_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        parallel.map(work, range(50), threads)
    sender.join()
    deadline = time.monotonic() + LONG_SECONDS
    while running[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (running[0], len(begun) <= threads) == (0, True)
    assert parallel.map(lambda x: x * x, range(50), threads) == [x * x for x in range(50)]


def test_an_error_in_one_thread_is_raised_and_ends_the_others() -> None:
    def work(item: int) -> None:
        if item == 3:
            raise ValueError("three")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="three"):
        parallel.map(work, range(200), 3)


# -- changes as a whole ----------------------------------------------------------------------------


def test_ctrl_c_is_raised_after_a_change() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with uninterrupted():
        pass

    @uninterrupted()
    def change() -> int:
        return 3

    assert change() == 3
    handled: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        assert not handled
    assert handled == [signal.SIGINT]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def interrupted_lines(file: str, change: Callable[[], object]) -> Iterator[int]:
    """Make a change once for each of its lines in a file, with Ctrl-C before that line."""
    line = 0
    while True:
        line += 1
        left = [line]

        def trace(frame: FrameType, event: str, _: object, left: list[int] = left) -> Any:
            if not frame.f_code.co_filename.endswith(file):
                return trace if event == "call" else None
            if event == "line":
                left[0] -= 1
                if left[0] == 0:
                    signal.raise_signal(signal.SIGINT)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            change()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        yield line
        if left[0] > 0:
            return


def new_wide(rows: int = 50) -> ct.WideTable:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", {"store": [i % 5 for i in range(rows)], "price": [1] * rows})
    graph.add_relation("stores", {"store": list(range(5)), "city": list("aabbc")})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"s": "sum(price)"})


def check_store(store: Store) -> None:
    assert store.kept_bytes == sum(size for _, size in store._kept.values())
    known = {message for alike in store._messages.values() for message in alike}
    assert set(store._kept) <= known
    assert {key for keys in store._times.values() for key in keys} == set(store._messages)


def test_the_store_is_whole_after_ctrl_c_on_any_line() -> None:
    wide, asked = new_wide(), iter(range(10**6))

    def ask() -> None:
        wide.query(["city"], f"price > {next(asked) % 7 - 3}", {"n": "count(*)"})
        wide.update("stores", insert=[{"store": 9, "city": "z"}])
        wide.refresh(progress=False)

    for _ in interrupted_lines("calibration/store.py", ask):
        check_store(wide.state.store)
        assert wide.query().rows() == [{"s": 50}]


def test_versions_are_whole_after_ctrl_c_on_any_line() -> None:
    wide = new_wide()

    def commit() -> None:
        other = wide.what_if(insert={"sales": [{"store": 1, "price": 2}]})
        before = wide.version
        try:
            other.commit()
        finally:
            assert (other.branch.fork_point is not None) and (
                other.branch.fork_point.snapshot.number == wide.version or wide.version == before
            )

    for _ in interrupted_lines("calibration/branch.py", commit):
        assert wide.versions[-1] == wide.version
        assert wide.at(wide.version).query().rows() == wide.query().rows()
        assert wide.query().rows() == [{"s": 50 + 2 * wide.version}]


def test_ids_are_whole_after_ctrl_c_on_any_line() -> None:
    book, random = Codebook(2), np.random.default_rng(1)
    space = book.space(("a", "b"))
    for name in "ab":
        book.dictionary(name).encode(pa.array(range(250)))

    asked: list[np.ndarray] = []

    def number() -> None:
        # Few that are looked up among many are found in another way.
        rows = int(random.choice([1, 3, 50, 200]))
        asked.append(random.integers(1, 251, (2, rows)).astype(np.int32))
        space.ids(list(asked[-1]))

    for _ in range(4):
        for _ in interrupted_lines("encoding/spaces.py", number):
            ids = space.ids(list(asked[-1]))  # those that were being numbered, once more
            for name, codes in zip("ab", asked[-1], strict=True):
                assert space.codes(name)[ids].tolist() == codes.tolist()
            pairs = list(zip(*(space.codes(name).tolist() for name in "ab"), strict=True))
            assert len(set(pairs)) == len(pairs)  # none has two ids


FINALISING = """
import signal
import time
import calitree

class Thing:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def give_up():
    thing = Thing()
    del thing

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    give_up()
    for _ in range(1000):
        time.sleep(0.01)
    print("lost")
except KeyboardInterrupt:
    print("raised")
"""


def test_ctrl_c_in_a_finaliser_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", FINALISING], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("raised\n", "")


def test_idle_threads_are_used_again() -> None:
    run(lambda: None)
    deadline = time.monotonic() + LONG_SECONDS
    while not interrupts._idle and time.monotonic() < deadline:
        time.sleep(0.01)
    names = [thread.ident for thread in threading.enumerate() if thread.name == "calitree-call"]
    for _ in range(20):
        assert run(threading.get_ident) in names
        time.sleep(0.01)
