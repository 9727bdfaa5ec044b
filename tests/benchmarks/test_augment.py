"""The benchmark of augmentation at a tiny size: its tables are what they say, and all agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.augment import OURS, Fitted, Timed, compare
from benchmarks.data import star_files
from benchmarks.extras import KEYS, TABLES_PER_KEY, extra_tables
from benchmarks.frame import Race, at_least
from benchmarks.opponents import DuckDB

ROWS = 5_000


def results(tmp_path: Path, *given: str) -> dict[str, dict[str, Any]]:
    path = tmp_path / "result.json"
    common = ["--rows", str(ROWS), "--repeat", "1", "--data", str(tmp_path), "--json", str(path)]
    assert main(["augment", *given, *common]) == 0
    written = json.loads(path.read_text())
    assert written["complete"] is True and written["disagreements"] == []
    return {line["name"]: line for line in written["results"]}


def test_all_three_agree(tmp_path: Path) -> None:
    lines = results(tmp_path, "--sklearn", "4")
    assert len(lines) == 4 + 4
    agreed = [line for line in lines.values() if line["against"]]
    assert len(agreed) == 2 and all(line["agree"] for line in agreed)
    assert lines["calibration of the sums"]["messages_of_the_tables"] == len(KEYS) * TABLES_PER_KEY
    listed = [line for line in lines.values() if "r2" in line]
    assert [line["name"].partition(":")[0] for line in listed] == [
        "date0", "store0", "item0", "date1",
    ]  # fmt: skip
    for line in listed:
        assert 0 < line["r2"] < 1 and line["r2"] == pytest.approx(line["their_r2"], abs=1e-6)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_agrees(tmp_path: Path) -> None:
    lines = results(tmp_path, "--spark", "--ml", "1")
    agreed = [line["agree"] for line in lines.values() if line["against"]]
    assert agreed == [True, True]


def test_the_tables_follow_the_target_as_far_as_they_say(tmp_path: Path) -> None:
    duck = DuckDB(star_files(ROWS, 0, tmp_path))
    extras, again = extra_tables(duck, 0), extra_tables(duck, 0)
    assert [extra.key for extra in extras] == list(KEYS) * TABLES_PER_KEY
    assert len({extra.name for extra in extras}) == len(extras)
    assert all(a.table.equals(b.table) for a, b in zip(extras, again, strict=True))
    for extra in extras:
        mean = "avg(transactions.transactions) AS mean"
        known = duck.ask(
            f"SELECT sales.{extra.key} AS {extra.key}, {mean} FROM sales JOIN transactions USING "
            "(date, store) JOIN oil USING (date) JOIN holiday USING (date) GROUP BY 1 ORDER BY 1"
        )
        assert known[extra.key].equals(extra.table[extra.key])
        related = np.corrcoef(np.asarray(known["mean"]), np.asarray(extra.table["val"]))[0, 1]
        noise = 1 - extra.phi
        assert 0 < extra.phi <= 1
        assert related == pytest.approx(extra.phi / np.hypot(extra.phi, noise), abs=0.4)
        assert extra.phi < 1 or related == pytest.approx(1)


@pytest.mark.parametrize(("r2", "rows", "disagreements"), [(0.5, 7, 0), (0.6, 7, 1), (0.5, 8, 1)])
def test_another_r2_is_a_disagreement(r2: float, rows: int, disagreements: int) -> None:
    race = Race(1)
    ours = Timed({"a": Fitted(0.5, 7), "b": Fitted(0.1, 7)}, 2.0)
    compare(race, "x", ours, "they", Timed({"a": Fitted(r2, rows)}, 5.0), at_least(6))
    assert len(race.disagreements) == disagreements
    (result,) = race.results
    assert (result["ratio"], result["against_seconds"], result["agree"]) == (
        5.0,
        10.0,
        not disagreements,
    )
    assert result["bars"][0]["met"] is False
    assert all(disagreement["between"] == f"{OURS} and they" for disagreement in race.disagreements)
    assert result["tables_run"] == 1
