"""Whatever happens to a file of a saved tree, answers are right or there is an error of ours."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import calitree as ct
from calitree.engines.spark import SparkEngine
from tests.torture.damage import (
    QUESTIONS,
    READ,
    Case,
    answers,
    asked,
    cases,
    damaged,
    kind_of,
    saved,
    tables,
)

GIVEN = tables(2_000)


@pytest.fixture(scope="module")
def right() -> list[Any]:
    return answers(GIVEN)


def outcome(
    directory: Path, engine: Any, right: list[Any], case: Case | None = None, late: bool = False
) -> Counter[str]:
    """Open a tree, ask all questions, and count what came of them.

    A file is damaged meanwhile: before all, or `late`, after the first question.
    """
    seen: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as notices, ExitStack() as damage:
        warnings.simplefilter("always")
        if case is not None and not late:
            damage.enter_context(damaged(case))
        try:
            wide = ct.open(directory, engine=engine)
        except ct.SavedError:
            return Counter(["refused"])
        for question, known in zip(QUESTIONS, right, strict=True):
            try:
                assert asked(wide, question) == known, question
                seen["right"] += 1
            except ct.CalitreeError as error:
                assert isinstance(error, ct.SavedError | ct.MissingRelationError), error
                seen["error"] += 1
            if late and case is not None and question is QUESTIONS[0]:
                damage.enter_context(damaged(case))
        try:
            log = wide.state.read_files["sales"]
            assert {name: log.files(name) for name in log.directories} == READ
        except ct.SavedError:
            seen["log"] += 1
    assert all(issubclass(warning.category, ct.DamagedWarning) for warning in notices), notices
    seen["told"] = len(notices)
    return seen


def torture(directory: Path, count: int, seed: int, right: list[Any]) -> Counter[str]:
    """Damage files again and again, and ask."""
    seen: Counter[str] = Counter()
    assert outcome(directory, "local", right) == {"right": len(QUESTIONS), "told": 0}
    for number, case in enumerate(cases(directory, count, seed)):
        kind, late = kind_of(directory, case.file), number % 3 == 1
        engine = "hybrid" if number % 5 == 4 else "local"
        try:
            result = outcome(directory, engine, right, case, late)
            with damaged(case):
                assert not ct.saved.fsck(directory).ok
            if kind == "message":
                assert result["right"] == len(QUESTIONS), "what was damaged is computed anew"
            elif kind == "log":
                assert result == {"right": len(QUESTIONS), "told": 0, "log": 1}
            elif kind == "manifest":
                known = {"right": len(QUESTIONS), "told": 0} if late else {"refused": 1}
                assert result == known
        except Exception as error:
            text = f"{case.damage} of {case.file}, {engine}, late: {late}: {error!r}"
            raise AssertionError(text) from error
        seen[f"{kind} {case.damage}"] += 1
        for what in ("refused", "error", "told", "log"):
            seen[what] += bool(result[what])
    assert ct.saved.fsck(directory, all_versions=True).ok
    return seen


@pytest.mark.parametrize(
    "count", [75, pytest.param(1_250, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]
)
@pytest.mark.parametrize("block", [1 << 18, 1 << 12], ids=["one block", "blocks"])
def test_damaged_files(
    block: int, count: int, tmp_path: Path, right: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calitree.storage.digest.BLOCK_BYTES", block)
    saved(tmp_path / "tree", GIVEN)
    seen = torture(tmp_path / "tree", count, block, right)
    print(seen)
    assert seen["error"] and seen["told"] and seen["refused"] and seen["log"]


@pytest.mark.spark
def test_directories_that_spark_writes(
    spark: Any, tmp_path: Path, right: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large messages are directories of files; Spark compares them with their digests as this process does."""
    monkeypatch.setattr("calitree.engines.spark.saved.MAX_COLLECTED_BYTES", -1)
    tree = tmp_path / "tree"
    saved(tree, GIVEN, SparkEngine(spark))
    assert any(path.is_dir() for path in (tree / "messages").iterdir())
    torture(tree, 40, 1, right)
    assert outcome(tree, SparkEngine(spark), right) == {"right": len(QUESTIONS), "told": 0}
    parts = sorted((tree / "messages").glob("*/*.parquet"))
    whole = {part: part.read_bytes() for part in parts}
    for part, other in zip(parts, parts[1:] + parts[:1], strict=True):
        part.write_bytes(whole[other])
    for file in (tree / "messages").glob("*/.*.crc"):  # by which Hadoop would notice
        file.unlink()
    result = outcome(tree, SparkEngine(spark), right)
    assert result["right"] == len(QUESTIONS) and result["told"]
    for part in parts[::2]:
        part.unlink()
    result = outcome(tree, SparkEngine(spark), right)
    assert result["right"] == len(QUESTIONS) and result["told"]
