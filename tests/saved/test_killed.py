"""A writer that is killed, at whatever moment, leaves the last tree that it committed whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import calitree as ct
from tests.support.scale import examples

KILLS = 50
UPDATE_KILLS = examples(25)

WRITER = """
import json, os, signal, sys, time
import calitree as ct
import calitree.engines.local.tables.lazy  # so that every child finds it imported

def calibrated(state):
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {"store": [1, 2, 2], "units": [state, 10, 100]})
    graph.add_relation("stores", {"store": [1, 2], "town": ["Quito", "Cuenca"]})
    graph.add_relation("towns", {"town": ["Quito", "Cuenca"], "people": [3, 2]})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "towns", on="town")
    return graph.calibrate({"units": "sum(units)", "n": "count(*)"})

def save_again_and_again(tell, version):
    os.write(tell, b"%d " % version)
    while True:  # states that share no file: a new tree every time
        saved = calibrated((version + 1) % 2).save(directory)
        assert saved == version + 1, (saved, version)
        version = saved
        os.write(tell, b"%d " % version)

calibrated(0)  # so that its loops are compiled
directory, version = sys.argv[1], 0
for line in sys.stdin:
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            save_again_and_again(tell, version)
        finally:
            os._exit(1)
    os.close(tell)
    heard = os.read(hear, 16)
    begun = time.monotonic()
    heard += os.read(hear, 16)  # it has saved once, and that took
    time.sleep(float(line) * (time.monotonic() - begun))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(hear, 1 << 16):
        heard += more
    os.close(hear)
    version = max(0, *ct.saved.status(directory).versions)
    print(json.dumps([int(each) for each in heard.split()]), flush=True)
"""


def check(directory: Path, reported: list[int], before: int) -> int:
    """The directory opens, at least at the last version that was told, and answers rightly."""
    version = ct.saved.status(directory).version
    assert version >= max([before, *reported])
    assert version <= max([before, *reported]) + 1, "a version that nobody wrote"
    wide = ct.open(directory, engine="local")
    assert wide.is_calibrated
    state = version % 2
    assert wide.query().rows() == [{"units": state + 110, "n": 3}]
    by_town = {
        row["towns.town"]: row["units"]
        for row in wide.query(group_by=["towns.town"], measures=["units"])
    }
    assert by_town == {"Quito": state, "Cuenca": 110}
    assert wide.query(where="people = 3", measures=["units"]).rows() == [{"units": state}]
    assert wide.query(where="units > 10", measures=["n"]).rows() == [{"n": 1}]
    return version


def test_a_killed_writer_leaves_the_last_tree_whole(tmp_path: Path) -> None:
    chance = random.Random(11)
    version, leftovers = 0, 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        for _ in range(KILLS):
            print(chance.uniform(0, 2), file=writer.stdin, flush=True)
            reported = json.loads(writer.stdout.readline())
            version = check(tmp_path, reported, version)
            leftovers += bool(ct.saved.vacuum(tmp_path, keep=version, grace=0))
        writer.stdin.close()
        assert writer.wait() == 0
    assert version >= KILLS
    assert leftovers, "kills should hit saves in their midst"
    assert check(tmp_path, [], version) == version
    ct.saved.vacuum(tmp_path, grace=0)
    assert check(tmp_path, [], version) == version


# -- updates --------------------------------------------------------------------------------------

UPDATER = """
import json, os, signal, sys, time
import calitree as ct
import calitree.engines.local.tables.lazy, calitree.saved.writer, calitree.dml

directory = sys.argv[1]

def calibrated():
    graph = ct.JoinGraph("local")
    sales = {"store": [1, 2, 2] * 20, "batch": [0] * 60, "units": [1, 10, 100] * 20}
    graph.add_relation("sales", sales)
    graph.add_relation("stores", {"store": [1, 2], "town": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"units": "sum(units)", "n": "count(*)"})

def rows(batch):
    return [{"store": 1 + i % 2, "batch": batch, "units": batch} for i in range(batch % 3 + 1)]

def update_again_and_again(tell):
    wide = ct.open(directory, engine="local")
    wide.maintenance = "eager" if os.getpid() % 2 else "lazy"
    os.write(tell, b"0 ")
    while True:
        batch = wide.state.streams.get("s", 0) + 1
        wide.update("sales", insert=rows(batch))
        if batch % 4 == 0:
            wide.update("stores", upsert=[{"store": 2, "town": f"town {batch}"}], key="store")
        if batch % 3 == 0:
            wide.query(group_by=["town"])
        wide.state.streams["s"] = batch
        wide.save()
        os.write(tell, b"%d " % batch)
        if batch % 2 == 0:
            ct.saved.vacuum(directory, keep=2, grace=0)

def read_again_and_again(tell):
    wide = ct.open(directory, engine="local")
    while True:
        try:
            found = wide.query().rows()[0]
            there = {row["batch"]: row["n"] for row in wide.query(group_by=["batch"])}
            assert there[0] == 60
            last = max(there)
            assert there == {0: 60, **{b: b % 3 + 1 for b in range(1, last + 1)}}, there
            assert found["n"] == sum(there.values())
            assert found["units"] == 2220 + sum(b * n for b, n in there.items())
            assert wide.state.streams.get("s", 0) == last
        except ct.SavedError:  # the version was vacuumed away
            wide = ct.open(directory, engine="local")
            continue
        except BaseException as error:
            os.write(tell, f"{type(error).__name__}: {error}".encode())
            raise
        os.write(tell, b"r")
        if last % 2:
            wide.reload()
        else:
            wide = ct.open(directory, engine="local")

def forked(call):
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        os.close(hear)
        try:
            call(tell)
        finally:
            os._exit(1)
    os.close(tell)
    return child, hear

def killed(child, hear):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    heard = b""
    while more := os.read(hear, 1 << 16):
        heard += more
    os.close(hear)
    return heard.decode()

wide = calibrated()
wide.save(directory)
wide.update("sales", insert=rows(1))  # so that its loops are compiled
wide.query(group_by=["town"])
reader = forked(read_again_and_again)
read = os.read(reader[1], 1).decode()  # so that there is one read at least
took = None
for line in sys.stdin:
    child, hear = forked(update_again_and_again)
    heard = os.read(hear, 2)
    begun = time.monotonic()
    if took is None:  # the first one tells how long a batch takes
        heard += os.read(hear, 16)
        took = time.monotonic() - begun
    time.sleep(float(line) * took)
    print(json.dumps(heard.decode() + killed(child, hear)), flush=True)
print(json.dumps(read + killed(*reader)), flush=True)
"""


def batches_there(directory: Path) -> int:
    """The last batch of a tree that has all of them up to it, each once."""
    wide = ct.open(directory, engine="local")
    there = {row["batch"]: (row["n"], row["units"]) for row in wide.query(group_by=["batch"])}
    assert there.pop(0) == (60, 2220)
    last = max(there, default=0)
    assert there == {b: (b % 3 + 1, b * (b % 3 + 1)) for b in range(1, last + 1)}
    (total,) = wide.query().rows()
    assert total == {
        "n": 60 + sum(n for n, _ in there.values()),
        "units": 2220 + sum(units for _, units in there.values()),
    }
    town = "Cuenca" if last < 4 else f"town {last - last % 4}"
    assert {row["town"] for row in wide.query(group_by=["town"])} == {"Quito", town}
    assert wide.state.streams.get("s", 0) == last
    return last


def test_a_killed_process_loses_no_update_and_repeats_none(tmp_path: Path) -> None:
    chance = random.Random(12)
    directory = tmp_path / "tree"
    last, leftovers = 0, 0
    with subprocess.Popen(
        [sys.executable, "-c", UPDATER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        kills, patience = 0, 1.0
        # On a busy machine it may take more of them to hit a save in its midst.
        while kills < UPDATE_KILLS or (not (last and leftovers) and kills < 10 * UPDATE_KILLS):
            kills, before = kills + 1, last
            print(chance.uniform(0, 4) * patience, file=writer.stdin, flush=True)
            reported = [int(number) for number in json.loads(writer.stdout.readline()).split()]
            acknowledged = max([last, *reported])
            last = batches_there(directory)
            assert acknowledged <= last <= acknowledged + 1
            newest = ct.saved.status(directory).version
            leftovers += bool(ct.saved.vacuum(directory, keep=newest, grace=0))
            patience = min(50.0, patience * 1.5) if last == before else max(1.0, patience * 0.8)
        writer.stdin.close()
        read = json.loads(writer.stdout.readline())
        assert writer.wait() == 0
    assert set(read) == {"r"}, read
    assert last, "some batches should get through"
    assert leftovers, "kills should hit saves in their midst"
    assert batches_there(directory) == last
