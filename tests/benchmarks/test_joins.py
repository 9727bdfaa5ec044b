"""The benchmark of joins runs, whatever of it this version can do."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.__main__ import main
from benchmarks.joins import QUESTIONS, pair_cases, star_sql


def test_a_small_run_agrees(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    sizes = ["--rows", "2000", "--pairs", "300", "--partners", "5", "--repeat", "1"]
    assert main(["joins", *sizes, "--data", str(tmp_path), "--json", str(path)]) == 0
    written = json.loads(path.read_text())
    assert written["complete"] is True and written["disagreements"] == []
    results = written["results"]
    raced = [result["name"] for result in results if result["against"]]
    assert {f"inner: {question.name}" for question in QUESTIONS} < set(raced)
    refused = [result for result in results if result["name"].endswith(": not supported")]
    assert all(result["reason"] for result in refused)
    names = {name for result in results for name in [result["name"]]}
    for case in ("star, left", "star, full", *(c.name for c in pair_cases(10, 2, 0))):
        start = case.removeprefix("star, ")
        assert any(name.startswith((f"{case}:", f"{start}:")) for name in names)


def test_the_joins_are_in_the_order_of_their_declaration() -> None:
    assert star_sql(QUESTIONS[0], "left") == (
        "SELECT count(*) AS n, sum(sales.unit_sales) AS units FROM sales "
        "left JOIN oil ON sales.date = oil.date left JOIN holiday ON sales.date = holiday.date "
        "left JOIN transactions ON sales.date = transactions.date AND sales.store = transactions.store "
        "left JOIN stores ON sales.store = stores.store left JOIN items ON sales.item = items.item  "
    )
