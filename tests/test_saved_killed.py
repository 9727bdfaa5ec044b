"""A writer that is killed, at whatever moment, leaves the last tree that it committed whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import calitree as ct

KILLS = 50

WRITER = """
import json, os, signal, sys, time
import calitree as ct
import calitree.engines.local.later  # so that every child finds it imported

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


def check(directory: Path, told: list[int], before: int) -> int:
    """The directory opens, at least at the last version that was told, and answers rightly."""
    version = ct.saved.status(directory).version
    assert version >= max([before, *told])
    assert version <= max([before, *told]) + 1, "a version that nobody wrote"
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
            told = json.loads(writer.stdout.readline())
            version = check(tmp_path, told, version)
            leftovers += bool(ct.saved.tidy(tmp_path, keep=version))
        writer.stdin.close()
        assert writer.wait() == 0
    assert version >= KILLS
    assert leftovers > KILLS // 10, "kills should hit saves in their midst"
    assert check(tmp_path, [], version) == version
    ct.saved.tidy(tmp_path)
    assert check(tmp_path, [], version) == version
