"""Many readers and a writer: whatever is read is some version that was committed, as it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest

import calitree as ct
from calitree.calibration.state import Mode
from calitree.wide_table import WideTable
from tests.support.scale import examples

SECONDS = examples(3)
"""For each of the tests below."""

READERS = 8
ROWS = 400
TOWNS = 5


def calibrated(mode: Mode) -> WideTable:
    graph = ct.JoinGraph("local")
    sales = {"store": [i % 10 for i in range(ROWS)], "batch": [0] * ROWS, "units": [1] * ROWS}
    graph.add_relation("sales", sales)
    graph.add_relation("stores", {"store": range(10), "town": [i % TOWNS for i in range(10)]})
    graph.add_relation("towns", {"town": range(TOWNS), "people": range(TOWNS)})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "towns", on="town")
    return graph.calibrate(
        {"n": "count(*)", "units": "sum(units)", "last": "max(batch)"}, maintenance=mode
    )


def advance(wide: WideTable, batch: int) -> None:
    """Batch i has one row of i units for every store, and those of batch i - 3 go. Every fourth time
    two stores change their towns as well.
    """
    rows = [{"store": i, "batch": batch, "units": batch} for i in range(10)]
    wide.update("sales", insert=rows, delete=f"batch = {batch - 3}" if batch > 3 else None)
    if batch % 4 == 0:
        wide.update(
            "stores", upsert=[{"store": 0, "town": 1}, {"store": 1, "town": 0}], key="store"
        )


def check(wide: WideTable, at: int) -> int:
    """One moment, asked in several ways; the batch that it is of."""
    kinds = at % 4
    (total,) = wide.query().rows()
    batch = total["last"]
    live = [b for b in range(max(1, batch - 2), batch + 1) if b]
    n, units = ROWS + 10 * len(live), ROWS + 10 * sum(live)
    assert total == {"n": n, "units": units, "last": batch}
    if kinds == 0:
        by_batch = {row["batch"]: row["n"] for row in wide.query(group_by=["batch"])}
        assert by_batch == {0: ROWS, **dict.fromkeys(live, 10)}
    elif kinds == 1:
        by_town = [row["units"] for row in wide.query(group_by=["towns.town"])]
        assert sum(by_town) == units and len(by_town) == TOWNS
    elif kinds == 2:
        some = wide.query(where="people > 0", measures=["n"]).rows()[0]["n"]
        none = wide.query(where="people = 0", measures=["n"]).rows()[0]["n"]
        assert some + none == n
    else:
        far = wide.query(where=f"batch > {batch - 1}", measures=["n", "units"]).rows()
        assert far == [{"n": 10, "units": 10 * batch}] or batch == 0
    return int(batch)


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_readers_of_a_tree_that_is_updated(mode: Mode) -> None:
    wide = calibrated(mode)
    stop, lock = Event(), Lock()
    committed = {0}
    seen: set[int] = set()
    reads = [0] * READERS

    def read(reader: int) -> None:
        try:
            while not stop.is_set():
                with lock:
                    least = max(committed)
                batch = check(wide.at(wide.version), reader + reads[reader])
                assert batch >= least, "a version that was committed before"
                seen.add(batch)
                reads[reader] += 1
        finally:
            stop.set()

    def write() -> int:
        batch, until = 0, time.monotonic() + SECONDS
        try:
            # On a busy machine it may take longer until all have had their turn.
            while not stop.is_set() and (
                time.monotonic() < until or batch < 6 or not min(reads) or len(seen) < 2
            ):
                batch += 1
                advance(wide, batch)
                with lock:
                    committed.add(batch)
                if batch % 10 == 0 and mode == "lazy":
                    wide.refresh(background=True)
        finally:
            stop.set()
        return batch

    with ThreadPoolExecutor(READERS + 1) as pool:
        readers = [pool.submit(read, number) for number in range(READERS)]
        batches = pool.submit(write)
        for reader in readers:
            reader.result()
    assert batches.result() > 5 and min(reads) > 0
    assert seen <= committed | {batches.result()}
    assert len(seen) > 1
    assert check(wide, 0) == batches.result()


READER = """
import json, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[2])))
import calitree as ct
from tests.calibration.test_concurrency import check

directory, reads, seen = Path(sys.argv[1]), 0, set()
wide = ct.open(directory, engine="local")
check(wide, 0)
print("ready", flush=True)
while not (directory / "stop").exists() or not reads:
    try:
        seen.add(check(wide, reads))
        reads += 1
        wide.reload() if reads % 3 else None
    except ct.EngineError as error:
        assert "not there" in str(error) or "Open the tree again" in str(error), error
        wide = ct.open(directory, engine="local")  # it was vacuumed away
print(json.dumps([reads, sorted(seen)]))
"""


def started(program: str, *arguments: Any) -> subprocess.Popen[str]:
    done = [sys.executable, "-c", program, *map(str, arguments), str(Path(__file__).parents[2])]
    return subprocess.Popen(done, stdout=subprocess.PIPE, text=True)


def test_processes_that_read_a_saved_tree(tmp_path: Path) -> None:
    wide = calibrated("lazy")
    wide.save(tmp_path)
    readers = [started(READER, tmp_path) for _ in range(2)]
    for reader in readers:
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
    batch, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until or batch < 5:
        batch += 1
        advance(wide, batch)
        wide.save()
        if batch % 5 == 0:
            ct.saved.vacuum(tmp_path, keep=2)
    (tmp_path / "stop").write_text("")
    outputs = [reader.communicate()[0] for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0]
    for reads, seen in map(json.loads, outputs):
        assert reads > 0 and set(seen) <= set(range(batch + 1))
    assert check(ct.open(tmp_path, engine="local"), 1) == batch


WRITER = """
import sys
import calitree as ct

wide = ct.open(sys.argv[1], engine="local")
relation, count = sys.argv[2], int(sys.argv[3])
for i in range(count):
    row = {"store": 100 + i, "batch": 0, "units": 0} if relation == "sales" else {
        "store": 200 + i, "town": 0}
    wide.update(relation, insert=[row])
    wide.save()
    if i % 5 == 4:
        ct.saved.vacuum(sys.argv[1], keep=2)
"""


def test_two_writers_of_two_relations(tmp_path: Path) -> None:
    """Each save of one finds what the other has saved, and nothing is lost."""
    calibrated("lazy").save(tmp_path)
    count = examples(15)
    writers = [started(WRITER, tmp_path, relation, count) for relation in ("sales", "stores")]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    status = ct.saved.status(tmp_path)
    assert {relation.name: relation.rows for relation in status.relations} == {
        "sales": ROWS + count,
        "stores": 10 + count,
        "towns": TOWNS,
    }
    assert status.version >= 2 * count + 1
    wide = ct.open(tmp_path, engine="local")
    assert wide.query(relations=["stores"], measures={"n": "count(*)"}).rows() == [
        {"n": 10 + count}
    ]
    assert wide.query(relations=["sales"], measures={"n": "count(*)"}).rows() == [
        {"n": ROWS + count}
    ]
