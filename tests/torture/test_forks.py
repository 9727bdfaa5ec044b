"""A process is copied while its threads work: the copy answers or says why it cannot, and never hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import calitree

SOURCE = Path(calitree.__file__).parent
ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from tests.torture import test_forks
getattr(test_forks, sys.argv[1])(*sys.argv[2:])
"""


def run(function: str, *arguments: str, timeout: float = 240) -> str:
    """What a function of this file prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, function, *arguments],
        env={**os.environ, "PYTHONPATH": f"{SOURCE.parent}{os.pathsep}{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def graph(engine: Any, rows: int = 3) -> calitree.JoinGraph:
    graph = calitree.JoinGraph(engine)
    stores = [1 + i % 2 for i in range(rows)]
    graph.add_relation("sales", {"store": stores, "price": list(range(rows))})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return graph


def in_child(work: Any, patience: int = 60) -> str:
    """What a forked process returns, or the text of our error; "hangs" if it never ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(patience)
            try:
                text = str(work())
            except calitree.CalitreeError as error:
                text = f"{type(error).__name__}: {error}"
            except BaseException as error:
                text = f"FOREIGN {error!r}"
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return "hangs" if os.WIFSIGNALED(status) else text


# -- opened by the parent, asked by children, as gunicorn and celery do ---------------------------


def opened_before() -> None:
    from calitree.engines.local import LocalEngine
    from calitree.engines.local.vm.parallel import MIN_ROWS_PER_THREAD

    rows = 3 * MIN_ROWS_PER_THREAD
    wide = graph(LocalEngine(threads=2, large=0), rows).calibrate({"s": "sum(price)"})
    wide.query(["city"], where="price > 1").rows()  # on two threads
    expected = wide.query(["city"], where="price > 7").rows()

    def ask() -> bool:
        answers = [wide.query(["city"], where="price > 7").rows() == expected]
        answers.append(len(wide.query(["price"], where="city LIKE '%u%to%'").rows()) == rows // 2)
        wide.update("sales", insert=[{"store": 1, "price": 1}])
        answers.append(wide.query(measures={"n": "count(*)"}).rows() == [{"n": rows + 1}])
        return all(answers)

    print([in_child(ask) for _ in range(3)], ask())


def test_children_ask_a_tree_that_their_parent_has_opened() -> None:
    assert run("opened_before") == "['True', 'True', 'True'] True\n"


# -- forked while threads work --------------------------------------------------------------------


def forked_at_any_time(times: str, directory: str) -> None:
    import threading
    from collections import Counter

    path = Path(directory) / "tree"
    graph("local", 500).calibrate({"s": "sum(price)"}, memory_limit=0).save(path)
    wide = calitree.open(path, "local")
    sys.setswitchinterval(1e-6)
    stop = threading.Event()

    def keep_asking(at: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            wide.query(["city"], where=f"price > {at * 1000 + number % 400}").rows()
            if number % 5 == 0:
                wide.update("sales", insert=[{"store": 1, "price": 0}])

    threads = [threading.Thread(target=keep_asking, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()

    def ask() -> object:
        new = calitree.open(path, "local")  # that always works
        assert new.query().rows() == [{"s": 499 * 250}]
        (row,) = wide.query(where="price < 77").rows()
        return row["s"]

    outcomes = Counter(in_child(ask).partition(":")[0] for _ in range(int(times)))
    stop.set()
    for thread in threads:
        thread.join()
    print(outcomes.pop(str(76 * 77 // 2), 0), outcomes.pop("CalitreeError", 0), dict(outcomes))


@pytest.mark.parametrize("times", [15, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_fork_at_any_time(tmp_path: Path, times: int) -> None:
    """The right answer, or the error of a tree that was about to change; nothing else."""
    right, refused, others = run(
        "forked_at_any_time", str(times), str(tmp_path), timeout=3000
    ).split(maxsplit=2)
    assert (int(right) + int(refused), others) == (times, "{}\n")
    assert int(right) > 0


def forked_while_a_lock_is_held() -> None:
    import threading

    wide = graph("local").calibrate({"s": "sum(price)"})
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with wide.branch.lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    print(in_child(lambda: wide.update("sales", delete="price = 0"), patience=20))
    print(in_child(lambda: wide.query().rows(), patience=20))
    release.set()
    thread.join()
    print(in_child(lambda: wide.update("sales", delete="price = 0"), patience=20))


def test_what_may_be_half_changed_is_refused() -> None:
    lines = run("forked_while_a_lock_is_held").splitlines()
    assert lines[0].startswith("CalitreeError: This process is a copy (fork) of one in which")
    assert lines[1:] == ["[{'s': 3}]", "1"]


def forked_while_compiling(directory: str) -> None:
    import threading

    import numpy as np

    os.environ["NUMBA_CACHE_DIR"] = directory
    from calitree.engines.local.annotation import wide

    begun = threading.Event()

    def compile_all() -> None:
        begun.set()
        numbers = wide.of_integers([1 << 100, 2])
        wide.multiplied(numbers, numbers)

    thread = threading.Thread(target=compile_all)
    thread.start()
    begun.wait()

    def also() -> int:
        sums = wide.WideSums(1)
        sums.add(np.zeros(2, np.int64), wide.of_integers([1 << 100, 2]))
        return 1

    print(in_child(also))
    thread.join()


def test_a_fork_waits_until_nothing_is_being_compiled(tmp_path: Path) -> None:
    assert run("forked_while_compiling", str(tmp_path)) == "1\n"


# -- Spark -----------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid"])
def test_a_session_of_spark_is_not_shared(spark: Any, engine: str) -> None:
    """Two processes on one connection would read each other's answers."""
    wide = graph(spark if engine == "hybrid" else engine).calibrate({"s": "sum(price)"})
    session = wide.engine.session if engine == "spark" else spark
    refusal = "EngineError: This process is a copy (fork) of one that uses Spark"
    assert in_child(calitree.spark_session).startswith(refusal)
    if engine == "spark":
        asked = in_child(lambda: wide.query(["city"]).rows())
        assert asked.startswith(refusal), asked
    else:
        assert in_child(lambda: wide.query().rows()) == "[{'s': 3}]", "nothing of it is on Spark"
    assert session.range(3).count() == 3
    assert wide.query().rows() == [{"s": 3}]
