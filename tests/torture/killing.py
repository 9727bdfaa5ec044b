"""Processes that save, vacuum and read one tree at the same time, and are killed at random times.

    python -m tests.torture.killing DIRECTORY ROUNDS SEED

After each round the tree is whole: no update that was acknowledged is lost, none is there twice, every version
has all its files, and so has one that was dropped less than the grace period ago. Readers are right, or have
to reload, and are right then.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import calitree as ct
import calitree.dml
import calitree.engines.local.tables.lazy
import calitree.saved.writer  # so that every child finds them imported
from calitree.saved.directory import Directory, data_files
from calitree.saved.manifest import dropped_files, dropped_name, dropped_numbers, numbers, read

GRACE = 3.0
"""Seconds; a save takes less."""

Report = Callable[[str], None]


def calibrated() -> ct.WideTable:
    graph = ct.JoinGraph("local")
    sales = {"store": [1, 2, 2] * 20, "batch": [0] * 60, "units": [1, 10, 100] * 20}
    graph.add_relation("sales", sales)
    graph.add_relation("stores", {"store": [1, 2], "town": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"units": "sum(units)", "n": "count(*)"})


def rows(batch: int) -> list[dict[str, int]]:
    return [{"store": 1 + i % 2, "batch": batch, "units": batch} for i in range(batch % 3 + 1)]


def last_batch(wide: ct.WideTable) -> int:
    """The last batch of a tree that has all of them up to it, each once."""
    there = {row["batch"]: (row["n"], row["units"]) for row in wide.query(group_by=["batch"])}
    assert there.pop(0) == (60, 2220), there
    last = max(there, default=0)
    expected = {b: (len(rows(b)), b * len(rows(b))) for b in range(1, last + 1)}
    assert there == expected, there
    (total,) = wide.query().rows()
    assert total["n"] == 60 + sum(n for n, _ in there.values())
    assert total["units"] == 2220 + sum(units for _, units in there.values())
    assert wide.state.streams.get("s", 0) == last
    return last


# -- who is killed --------------------------------------------------------------------------------


def save_again_and_again(directory: str, report: Report) -> None:
    wide = ct.open(directory, engine="local")
    while True:
        batch = wide.state.streams.get("s", 0) + 1
        wide.update("sales", insert=rows(batch))
        if batch % 3 == 0:
            wide.query(group_by=["town"])
        if batch % 5 == 0:
            wide.refresh()
        wide.state.streams["s"] = batch
        wide.save()
        report(f"saved {batch}")


def vacuum_again_and_again(directory: str, report: Report) -> None:
    while True:
        deleted = ct.saved.vacuum(directory, keep=2, grace=GRACE / 60)
        report(f"vacuumed {sum(not name.startswith('manifests') for name in deleted)}")


def read_again_and_again(directory: str, report: Report) -> None:
    while True:
        wide = ct.open(directory, engine="local")
        time.sleep(random.random() * 0.02)
        try:
            last_batch(wide)
        except ct.SavedError as error:
            assert "reload()" in str(error), error
            report("told 1")
            wide.reload()
            last_batch(wide)
        report("read 1")
        wide.reload()
        last_batch(wide)


# -- killing --------------------------------------------------------------------------------------


def forked(act: Callable[[str, Report], None], directory: str) -> tuple[int, int]:
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        os.close(hear)
        pipe = os.fdopen(tell, "w")
        try:
            random.seed(os.getpid())
            act(directory, lambda text: print(text, end=";", file=pipe, flush=True))
        except BaseException as error:
            print(f"failed {type(error).__name__}: {error}", end=";", file=pipe, flush=True)
        finally:
            os._exit(1)
    os.close(tell)
    return child, hear


def killed(child: int, hear: int) -> list[str]:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    heard = b""
    while more := os.read(hear, 1 << 16):
        heard += more
    os.close(hear)
    return heard.decode().split(";")[:-1]


def check(directory: str, acknowledged: int) -> int:
    """The tree after a round; its last batch."""
    files = Directory(directory)
    for number in numbers(files):
        missing = read(files, number).files - data_files(files)
        assert not missing, f"version {number} lacks {missing}"
    for number in dropped_numbers(files):
        if files.age(dropped_name(number)) < GRACE / 2:
            missing = dropped_files(files, number) - data_files(files)
            assert not missing, f"version {number}, dropped just now, lacks {missing}"
    last = last_batch(ct.open(directory, engine="local"))
    assert acknowledged <= last <= acknowledged + 1
    return last


def main(directory: str, rounds: int, seed: int) -> dict[str, Any]:
    """Kill four processes a round; how often what was done."""
    chance = random.Random(seed)
    wide = calibrated()
    wide.save(directory)
    wide.update("sales", insert=rows(1))  # so that its loops are compiled
    last_batch(ct.open(directory, engine="local"))
    acts = [
        save_again_and_again,
        vacuum_again_and_again,
        vacuum_again_and_again,
        read_again_and_again,
    ]
    last, outcomes = 0, Counter[str]()
    for _ in range(rounds):
        children = [forked(act, directory) for act in acts]
        time.sleep(chance.uniform(0, 0.4))
        chance.shuffle(children)
        reports = [report for child in children for report in killed(*child)]
        for what, number in (report.split(" ", 1) for report in reports):
            assert what != "failed", number
            outcomes[what] += 1 if what == "saved" else int(number)
        saved = [int(report.split()[1]) for report in reports if report.startswith("saved")]
        last = check(directory, max([last, *saved]))
        outcomes["kills"] += len(children)
    ct.saved.vacuum(directory, grace=0)
    files = Directory(directory)
    left = {
        str(file.relative_to(directory)) for file in Path(directory).rglob("*") if file.is_file()
    }
    (number,) = numbers(files)
    assert left == read(files).files | {f"manifests/{number:012d}.json"}, (
        "nothing is left of the killed"
    )
    assert check(directory, last) == last
    return {"batches": last, **outcomes}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
