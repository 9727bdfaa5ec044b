"""The benchmarks' frame and data. How fast anything is, no test says."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import registry
from benchmarks.__main__ import main
from benchmarks.compare import Answer, Answers, difference, table_difference
from benchmarks.data import BLOCK, DAYS, JOINS, RELATIONS, STORES, Star, star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, at_least
from benchmarks.questions import Question

ROWS = 5_000


@pytest.fixture(scope="module")
def star() -> dict[str, pa.Table]:
    return Star(ROWS, seed=7).tables()


# -- the data --------------------------------------------------------------------------------------


def test_the_seed_decides_the_data(star: dict[str, pa.Table]) -> None:
    again, other = Star(ROWS, seed=7).tables(), Star(ROWS, seed=8).tables()
    for name in RELATIONS:
        assert star[name].equals(again[name])
        assert not star[name].equals(other[name])


def test_the_small_tables_do_not_depend_on_the_rows(star: dict[str, pa.Table]) -> None:
    more = Star(2 * ROWS, seed=7).tables()
    assert more["sales"].num_rows == 2 * ROWS
    assert all(star[name].equals(more[name]) for name in RELATIONS if name != "sales")


def test_eight_percent_of_the_pairs_are_missing(star: dict[str, pa.Table]) -> None:
    pairs = star["transactions"].select(["date", "store"])
    assert pairs.num_rows == DAYS * STORES - round(0.08 * DAYS * STORES)
    assert pairs.group_by(["date", "store"]).aggregate([]).num_rows == pairs.num_rows


def test_every_date_is_a_holiday_once_and_some_twice(star: dict[str, pa.Table]) -> None:
    dates = pc.value_counts(star["holiday"].column("date").combine_chunks())
    counts = np.asarray(dates.field("counts"))
    assert len(counts) == DAYS
    assert np.bincount(counts).tolist() == [0, DAYS - DAYS // 10, DAYS // 10]


def test_oil_has_nulls_and_lacks_dates(star: dict[str, pa.Table]) -> None:
    oil = star["oil"]
    assert DAYS * 0.97 < len(oil.column("date").unique()) == oil.num_rows < DAYS
    assert 0 < oil.column("price").null_count < oil.num_rows / 10


def test_the_dimensions_have_the_values_they_should(star: dict[str, pa.Table]) -> None:
    sizes = {
        "stores": {"store": 54, "city": 22, "state": 16},
        "items": {"item": 4100, "family": 33, "perishable": 2},
    }
    for name, columns in sizes.items():
        for column, size in columns.items():
            assert len(star[name].column(column).unique()) == size
    pairs = star["stores"].group_by(["city", "state"]).aggregate([])
    assert pairs.num_rows == 22, "a city is in one state"


def test_sales_have_known_keys_and_are_skewed(star: dict[str, pa.Table]) -> None:
    sales = star["sales"]
    assert sales.column("onpromotion").null_count > 0
    for name in ("stores", "items"):
        (key,) = JOINS[name]
        assert pc.all(pc.is_in(sales.column(key), star[name].column(key))).as_py()
        counts = np.sort(np.asarray(pc.value_counts(sales.column(key)).field("counts")))
        assert counts[-1] > 2.5 * np.median(counts)


def test_files_hold_the_same_and_are_written_once(tmp_path: Path) -> None:
    rows = BLOCK + 10
    files = star_files(rows, 3, tmp_path)
    tables = Star(rows, 3).tables()
    assert all(pq.read_table(files[name]).equals(tables[name]) for name in RELATIONS)
    assert pq.ParquetFile(files["sales"]).num_row_groups == 2
    written = files["sales"].stat().st_mtime_ns
    assert star_files(rows, 3, tmp_path) == files
    assert files["sales"].stat().st_mtime_ns == written
    assert not list(tmp_path.glob(".*")), "nothing half written is left"


# -- comparing answers -----------------------------------------------------------------------------


def answer(*columns: Any, keys: int = 1) -> Answer:
    return Answer(pa.table(list(columns), names=[f"x{i}" for i in range(len(columns))]), keys)


def test_order_and_type_do_not_matter_but_values_do() -> None:
    a = answer(["a", None, "b"], [1, 2, 3], [0.1, 0.2, None])
    decimals = pa.array([3, 2, 1], pa.decimal128(38, 0))
    close = answer(["b", None, "a"], decimals, [None, 0.2, 0.1 * (1 + 1e-12)])
    assert table_difference(a, close) == ""
    off = answer(["b", None, "a"], decimals, [None, 0.2, 0.1 * (1 + 1e-8)])
    assert "x2 of ['a'] is 0.1, not" in table_difference(a, off)
    count = answer(["b", None, "a"], [3, 2, 10**15 + 1], [None, 0.2, 0.1])
    same = answer(["b", None, "a"], [3, 2, 10**15], [None, 0.2, 0.1])
    assert "x1 of ['a']" in table_difference(count, same), "integers have no tolerance"


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (answer(["a"], [1]), "2 rows, not 1"),
        (answer(["a", "c"], [1, 2]), "x0 of ['b'] is 'b', not 'c'"),
        (answer(["a", "b"], [1, None]), "x1 of ['b'] is 2, not None"),
        (answer(["a", "b"]), "2 columns (1 keys), not 1 (1 keys)"),
    ],
)
def test_every_kind_of_difference_is_seen(other: Answer, text: str) -> None:
    assert table_difference(answer(["a", "b"], [1, 2]), other) == text


def test_a_float_that_is_null_is_not_nan() -> None:
    assert table_difference(answer(["a"], [float("nan")]), answer(["a"], [float("nan")])) == ""
    nothing = answer(["a"], pa.array([None], pa.float64()))
    assert table_difference(answer(["a"], [float("nan")]), nothing) != ""


def test_having_nothing_in_common_is_a_difference() -> None:
    assert "nothing to compare" in difference({"a": answer([1])}, {"b": answer([1])})


# -- the frame -------------------------------------------------------------------------------------


def numbered(value: int) -> Answers:
    return {"total": Answer(pa.table({"n": [value]}))}


def planted(ours: int, theirs: int) -> Benchmark:
    """A benchmark whose two contestants answer these."""

    def run(options: Namespace, race: Race) -> None:
        contestants = (
            Contestant("a", lambda: ours, numbered),
            Contestant("b", lambda: theirs, numbered),
        )
        race.run(Heat(contestants, (Comparison("planted", "a", "b", (at_least(1e9),)),)))

    return Benchmark("planted", "two that answer what they are told", lambda parser: None, run)


@pytest.mark.parametrize(("theirs", "status"), [(1, 0), (2, 1)])
def test_a_disagreement_is_reported(
    theirs: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(registry.BENCHMARKS, "planted", planted(1, theirs))
    path = tmp_path / "out" / "result.json"
    assert main(["planted", "--repeat", "2", "--json", str(path)]) == status
    written = json.loads(path.read_text())
    assert written["results"][0]["agree"] is (status == 0)
    assert written["results"][0]["bars"] == [{"field": "ratio", "at_least": 1e9, "met": False}]
    assert ("n is 1, not 2" in capsys.readouterr().out) is (status == 1)
    assert [disagreement["difference"] for disagreement in written["disagreements"]] == (
        ["total: n is 1, not 2"] if status else []
    )


def test_an_answer_that_changes_when_asked_again_is_reported() -> None:
    race = Race(repeat=1)
    values = chain([1], repeat(2))
    contestants = (
        Contestant("a", lambda: next(values), numbered),
        Contestant("b", lambda: 1, numbered),
    )
    race.run(Heat(contestants, (Comparison("stale", "a", "b"),)))
    assert [disagreement["name"] for disagreement in race.disagreements] == ["stale"]


def test_contestants_take_turns_and_setup_is_not_repeated_within_one() -> None:
    calls: list[str] = []

    def contestant(name: str) -> Contestant:
        return Contestant(
            name,
            lambda: calls.append(name),
            lambda _: numbered(1),
            lambda: calls.append(f"+{name}"),
        )

    heat = Heat((contestant("a"), contestant("b")), (Comparison("turns", "a", "b"),))
    (result,) = Race(repeat=2).run(heat)
    warm_up, rounds = ["+a", "a", "+b", "b"], ["+a", "a", "+b", "b", "+b", "b", "+a", "a"]
    assert calls == warm_up + rounds
    assert result["runs"] == result["against_runs"] == 2


def test_what_is_quick_is_run_many_times_a_turn() -> None:
    contestants = (Contestant("a", lambda: 1, numbered), Contestant("b", lambda: 1, numbered))
    (result,) = Race(repeat=2).run(Heat(contestants, (Comparison("quick", "a", "b"),)))
    assert result["runs"] > 1000
    assert result["ratio"] == result["against_seconds"] / result["seconds"]


def test_a_comparison_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="'c' not once"):
        Heat((Contestant("a", int, numbered),), (Comparison("x", "a", "c"),))


def test_a_record_has_its_bar() -> None:
    line = Race(1).record("size", (Bar("times", at_most=2.5),), times=3.0)
    assert line["bars"] == [{"field": "times", "at_most": 2.5, "met": False}]


# -- the command -----------------------------------------------------------------------------------


def test_the_list_has_a_line_for_every_benchmark(capsys: Any) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in registry.BENCHMARKS:
        assert any(line.strip().startswith(f"{name} ") for line in lines)


def test_a_wrong_name_offers_the_nearest(capsys: Any) -> None:
    assert main(["sart"]) == 2
    assert capsys.readouterr().err == "There is no benchmark 'sart'. Did you mean star?\n"


@pytest.mark.parametrize("name", registry.BENCHMARKS)
def test_every_benchmark_prints_its_options(name: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    output, own = capsys.readouterr().out, ArgumentParser()
    registry.BENCHMARKS[name].options(own)
    for option in ("repeat", *vars(own.parse_args([]))):
        assert f"--{option.replace('_', '-')}" in output


def test_a_wrong_number_is_refused(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["star", "--rows", "0"])
    assert ended.value.code == 2
    assert "0 is less than 1" in capsys.readouterr().err


# -- the benchmarks themselves ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("star", 13),
        ("latency", 24),
        ("growth", 18),
        ("triangle", 12),
        ("text", 24),
        ("deletes", 3),
        pytest.param("spark_star", 17, marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_a_small_run_agrees_and_writes_its_file(name: str, lines: int, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    given = ["--rows", str(ROWS), "--repeat", "1", "--data", str(tmp_path), "--json", str(path)]
    assert main([name, *given]) == 0
    written = json.loads(path.read_text())
    assert written["benchmark"] == name
    assert written["complete"] is True
    assert written["disagreements"] == []
    assert written["options"]["rows"] == ROWS
    assert {"cpu", "cores", "memory", "os", "python"} == written["machine"].keys()
    assert written["versions"]["calitree"]
    assert "java" in written["versions"]
    assert len(written["results"]) == lines
    for result in written["results"]:
        assert {"name", "seconds", "against", "against_seconds", "ratio"} <= result.keys()
        if result["against"]:
            assert result["agree"] is True
            assert result["ratio"] == pytest.approx(result["against_seconds"] / result["seconds"])


def test_a_question_leaves_relations_out_of_its_join() -> None:
    question = Question("x", ("stores.city",), "stores.store > 1", relations=("sales", "stores"))
    assert question.sql == (
        "SELECT stores.city, count(*) AS n, sum(sales.unit_sales) AS units FROM sales "
        "JOIN stores USING (store) WHERE stores.store > 1 GROUP BY stores.city"
    )


def test_every_benchmark_has_a_parser_of_its_own() -> None:
    for benchmark in registry.BENCHMARKS.values():
        parser = ArgumentParser()
        benchmark.options(parser)
        assert parser.parse_args([])
