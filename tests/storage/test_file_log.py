"""A log of files knows what a dictionary of them would, and writes each a few times."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calitree.storage import file_log
from calitree.storage.file_log import FileLog, Segment, Stamp

NAMES = st.sampled_from("abcdefghij")
STEPS = st.lists(
    st.dictionaries(
        st.sampled_from(["monday", "tuesday"]),
        st.dictionaries(NAMES, st.none() | st.tuples(st.integers(0, 3), st.just(1))),
    ),
    max_size=40,
)


def size(segment: Segment) -> int:
    return sum(map(len, segment.entries.values()))


@given(STEPS)
def test_it_is_a_dictionary(steps: list[dict[str, dict[str, Stamp | None]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_log, "MAX_RECENT", 3)
        log, model = FileLog(), dict[tuple[str, str], Stamp]()
        for step in steps:
            before, log = log, log.with_entries(step)
            for directory, files in step.items():
                for name, stamp in files.items():
                    model.pop((directory, name), None)
                    if stamp is not None:
                        model[directory, name] = stamp
            known = {(d, name): s for d in log.directories for name, s in log.files(d).items()}
            assert known == model
            assert {key: log.get(*key) for key in model} == model
            assert sum(map(len, log.recent.values())) <= 3
            sizes = [size(segment) for segment in log.segments]
            assert all(older >= 2 * newer for older, newer in pairwise(sizes))
            if before.segments == log.segments == ():
                assert all(stamp for files in log.recent.values() for stamp in files.values())


def test_a_file_is_written_a_few_times() -> None:
    log, written, count = FileLog(), 0, 20_000
    for i in range(count):
        before, log = log, log.with_entries({"here": {f"{i}.parquet": (i, i)}})
        written += sum(map(size, set(log.segments) - set(before.segments)))
        assert len(log.segments) <= 9, "log2(20,000 / 64) is 8.3"
    assert written <= 9 * count


def test_a_log_is_as_large_as_the_directory() -> None:
    """Of files that come and go, what is remembered is a few times what is there."""
    log, there = FileLog(), 200
    for i in range(5_000):
        log = log.with_entries({"here": {f"{i}": (i, i), f"{i - there}": None}})
        assert sum(map(size, log.segments)) <= 8 * there
    assert len(log.files("here")) == there
    log = log.with_entries({"here": dict.fromkeys(log.files("here"))})
    assert log == FileLog()
