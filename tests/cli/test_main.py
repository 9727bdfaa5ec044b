"""The commands, as people type them: what they print, where, and the status they end with."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner, Result

import calitree as ct
from calitree.cli.main import app
from calitree.cli.model import ModelFile
from tests.support import shop


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def out(*arguments: object) -> str:
    """What a command prints that ends well and complains of nothing."""
    done = run(*arguments)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def refusal(*arguments: object) -> str:
    """The one line that a command refuses with."""
    done = run(*arguments)
    assert done.exit_code == 2 and done.stdout == "", done.output
    assert done.stderr.startswith("calitree: ") and done.stderr.count("\n") == 1
    return done.stderr.removeprefix("calitree: ").rstrip("\n")


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "calitree.cli.main",
        *(str(argument) for argument in arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A saved tree of the shop, asked without Spark."""
    here = tmp_path_factory.mktemp("shop")
    done = run("calibrate", shop.write(here), "--out", here / "tree", "--engine", "local")
    assert done.exit_code == 0, done.output
    return str(here / "tree")


def ask(tree: str, *arguments: object) -> str:
    return out("query", tree, "--engine", "local", *arguments)


# -- calibrate, status, vacuum -------------------------------------------------------------------


def test_from_a_model_to_an_answer(tmp_path: Path) -> None:
    file, tree = shop.write(tmp_path), tmp_path / "tree"
    done = process("calibrate", file, "--out", tree, "--engine", "local", check=True)
    assert done.stdout == ""
    first, *steps, last = done.stderr.splitlines()
    assert first.startswith("root sales   reused 0 of 2 messages")
    assert [line.split()[:2] for line in steps if line.startswith("compute")] == [
        ["compute", "stores→sales"],
        ["compute", "sales→stores"],
    ]
    assert last == f"Saved to {tree}, version 1."
    done = process("query", tree, "--by", "city", "--engine", "local", check=True)
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == [
        "Cuenca  1  5",
        "NULL    1  40",
        "Quito   2  30",
        "city    n  revenue",
    ]


def test_quiet_is_quiet(tmp_path: Path) -> None:
    file = shop.write(tmp_path)
    assert out("calibrate", file, "--out", tmp_path / "tree", "--engine", "local", "-q") == ""
    assert ct.open(tmp_path / "tree", engine="local").is_calibrated


def test_by_urls(tmp_path: Path) -> None:
    model = shop.MODEL.replace("data/", f"file://{tmp_path}/data/")
    file = shop.write(tmp_path, model)
    tree = f"file://{tmp_path}/tree"
    out("calibrate", file, "--out", tree, "--engine", "local", "--quiet")
    assert ask(tree) == ask(str(tmp_path / "tree")) == "n  revenue\n4  75\n"
    assert out("status", tree).startswith(f"{tree}: version 1, saved ")


def test_status(tree: str) -> None:
    first, *lines = out("status", tree).splitlines()
    assert first.startswith(f"{tree}: version 1, saved 20")
    assert first.endswith(f"from the local engine by calitree {ct.__version__}")
    assert lines[0].startswith("2 messages, ")
    assert lines[1:] == [
        "measure  n = count(*)",
        "measure  revenue = sum(price)",
        "relation sales, 5 rows, copied",
        "relation stores, 3 rows, copied",
    ]


def test_versions(tmp_path: Path) -> None:
    file, tree = shop.write(tmp_path), str(tmp_path / "tree")
    for measures in (shop.MODEL, shop.MODEL.replace("sum(price)", "max(price)")):
        file.write_text(measures)
        out("calibrate", file, "--out", tree, "--engine", "local", "-q")
    assert ask(tree, "-m", "revenue") == "revenue\n40\n"
    assert ask(tree, "-m", "revenue", "--version", 1) == "revenue\n75\n"
    assert "version 1, one of 2" in out("status", tree, "--version", 1)
    deleted = out("vacuum", tree).splitlines()
    assert deleted == ["deleted manifests/000000000001.json"]
    deleted = out("vacuum", tree, "--grace", 0).splitlines()
    assert len(deleted) == 4, "two messages and two copies"
    assert out("vacuum", tree) == ""
    (Path(tree) / "messages" / "left.parquet").write_bytes(b"")
    assert out("vacuum", tree, "--keep", 2) == ""
    assert out("vacuum", tree, "--grace", 0) == "deleted messages/left.parquet\n"
    assert ask(tree, "-m", "revenue") == "revenue\n40\n"
    assert refusal("query", tree, "--version", 1) == f"{tree} has no version 1; there are: 2."


def test_where_nothing_can_be_saved_nothing_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calibrate(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(ct.JoinGraph, "calibrate", calibrate)
    file = shop.write(tmp_path)
    message = refusal("calibrate", file, "--out", file / "tree", "--engine", "local")
    assert message.startswith(f"Cannot use {file}/tree as the directory of a saved tree: ")


# -- query ---------------------------------------------------------------------------------------


def test_filters_measures_and_relations(tree: str) -> None:
    assert ask(tree, "-w", "city = 'Quito'", "-m", "revenue") == "revenue\n30\n"
    assert ask(tree, "--relation", "sales") == "n  revenue\n5  84\n"
    assert ask(tree, "-m", "top = max(price)", "-m", "n") == "top  n\n40   4\n"
    assert ask(tree, "-m", "max(price)") == "max(price)\n40\n"
    filtered = "count(*) filter (where city = 'Quito')"
    assert ask(tree, "-m", filtered, "-m", "n") == f"{filtered}  n\n2{' ' * 39}4\n"
    assert ask(tree, "-m", "q=" + filtered) == "q\n2\n"


def test_statements(tree: str) -> None:
    text = "SELECT city, MEASURE(revenue) AS r FROM wide GROUP BY city ORDER BY r DESC LIMIT 1"
    local = ("--engine", "local")
    assert out("query", tree, text, *local) == "city  r\nNULL  40\n"
    assert out("query", tree, text, "--format", "csv", *local) == '"city","r"\n,40\n'
    assert "reuse" in out("query", tree, text, "--plan", *local)
    piped = CliRunner().invoke(app, ["query", tree, "-", *local], input=text)
    assert piped.stdout == out("query", tree, text, *local)
    assert refusal("query", tree, text, "--by", "city", *local) == (
        "A statement says all that it asks; leave the options for questions out."
    )
    assert refusal("query", tree, "SELECT nope FROM wide GROUP BY 1", *local).endswith(
        "(line 1, column 8)"
    )


def test_groups_by_expressions(tree: str) -> None:
    lines = ask(tree, "--by", "month=month(sales.day)", "-b", "price > 15", "-m", "n").splitlines()
    assert lines[0].split("  ") == ["month", "price > 15", "n"]
    assert len(lines) > 2


def test_what_stands_beside_measures(tree: str) -> None:
    compared = ask(tree, "-b", "day", "-w", "price > 5", "-m", "n", "--compare", "1 month")
    assert sorted(line.split() for line in compared.splitlines()[1:]) == [
        ["2024-01-31", "2", "NULL", "2", "NULL"],
        ["NULL", "1", "NULL", "1", "NULL"],
    ]
    moved = ask(tree, "-w", "day > '2024-02-15'", "-m", "n", "--compare", "1 month", "-f", "csv")
    assert moved == '"n","n_before","n_change","n_ratio"\n0,3,-3,0\n'
    running = ask(tree, "-b", "price", "-m", "revenue", "--cumulative")
    assert [line.split()[-1] for line in running.splitlines()] == [
        *("revenue_cumulative", "5", "15", "35", "75")
    ]
    shares = ask(tree, "-b", "store", "-m", "n", "--share", "-f", "json").splitlines()
    assert {row["store"]: row["n_share"] for row in map(json.loads, shares)} == {
        1: 0.5,
        2: 0.25,
        3: 0.25,
    }


def test_several_groups_and_an_empty_answer(tree: str) -> None:
    lines = ask(tree, "--by", "city", "-b", "sales.day", "-m", "n").splitlines()
    assert lines[0].split() == ["city", "sales.day", "n"]
    assert sorted(line.split() for line in lines[1:]) == [
        ["Cuenca", "2024-01-31", "1"],
        ["NULL", "NULL", "1"],
        ["Quito", "2024-01-31", "2"],
    ]
    nobody = ("--by", "city", "-w", "city = 'Loja'", "-m", "n")
    assert ask(tree, *nobody) == "city  n\n0 rows\n"
    assert ask(tree, *nobody, "-f", "csv") == '"city","n"\n'
    assert ask(tree, *nobody, "-f", "json") == ""
    assert ask(tree, "-w", "city = 'Loja'") == "n  revenue\n0  NULL\n", "a total is always there"


def test_all_rows_are_printed(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("k\n" + "".join(f"{k}\n" for k in range(1000)))
    (tmp_path / "model.toml").write_text('[relations]\na = "data.csv"\n')
    out("calibrate", tmp_path / "model.toml", "--out", tmp_path / "t", "--engine", "local", "-q")
    assert len(ask(str(tmp_path / "t"), "--by", "k").splitlines()) == 1001


EVERYTHING = ("day", "at", "ratio", "code", "note")


def test_json_is_json(tree: str) -> None:
    def not_json(word: str) -> None:
        raise AssertionError(word)

    arguments = [word for column in EVERYTHING for word in ("--by", column)]
    text = ask(tree, *arguments, "-m", "paid=sum(paid)", "-f", "json")
    rows = [json.loads(line, parse_constant=not_json) for line in text.splitlines()]
    by_paid = {row["paid"]: row for row in rows}
    at = "2024-01-31T12:30:00+00:00"
    for paid, *values in (
        ("1.50", "2024-01-31", at, 0.5, "ff00", ""),
        ("2.25", "2024-01-31", at, "NaN", "61", 'say "é", twice'),
        ("0.10", "2024-01-31", at, "Infinity", "61", ""),
        ("7.00", None, at, "-Infinity", None, None),
    ):
        assert by_paid[paid] == {**dict(zip(EVERYTHING, values, strict=True)), "paid": paid}
    assert "é" in text


def test_csv_tells_null_from_an_empty_text(tree: str) -> None:
    text = ask(tree, "-b", "note", "-b", "code", "-m", "n", "-f", "csv")
    read = csv.read_csv(
        pa.BufferReader(text.encode()),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    rows = {(row["note"], row["code"]) for row in read.to_pylist()}
    assert rows == {("", "ff00"), ('say "é", twice', "61"), ("", "61"), (None, None)}


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_file_holds_what_would_be_printed(tree: str, form: str, tmp_path: Path) -> None:
    arguments = ("--by", "note", "-f", form)
    assert ask(tree, *arguments, "-o", tmp_path / "answer") == ""
    assert (tmp_path / "answer").read_text(encoding="utf-8") == ask(tree, *arguments)


def test_parquet_keeps_the_types(tree: str, tmp_path: Path) -> None:
    arguments = [word for column in EVERYTHING for word in ("--by", column)]
    ask(tree, *arguments, "-f", "parquet", "-o", tmp_path / "answer.parquet")
    live = ct.open(tree, engine="local").query(group_by=EVERYTHING)
    assert str(parquet.read_table(tmp_path / "answer.parquet")) == str(live.arrow())


def test_what_is_not_exact_is_said(tree: str) -> None:
    done = run("query", tree, "--engine", "local", "-m", "x=sum(large)")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "x\n18446744073709551616\n", "")
    done = run("query", tree, "--engine", "local", "-m", "x=sum(large) * sum(large)")
    assert done.exit_code == 0 and done.stdout == "x\n3.40282e+38\n"
    assert done.stderr == "calitree: sums did not fit 38 digits, and went on as floating point\n"


def test_a_plan_is_shown_and_not_run(tree: str) -> None:
    assert ask(tree, "--by", "city", "--plan").splitlines() == [
        "root stores   reused 1 of 1 messages",
        "reuse   sales→stores",
        "absorb  stores         keep stores.city",
    ]


def test_who_stops_reading_is_no_error(tree: str) -> None:
    command = [sys.executable, "-m", "calitree.cli.main", "query", tree, "--engine", "local"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""


# -- wrong uses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "cty"], "No relation has a column 'cty'. Did you mean city?"),
        (["-f", "xml"], "There is no format 'xml'. There are: csv, json, parquet, table."),
        (["-f", "jsn"], "There is no format 'jsn'. Did you mean json?"),
        (["-f", "parquet"], "Parquet goes into a file: say --output FILE."),
        (
            ["-m", "revenu"],
            "There is no measure 'revenu'. Did you mean revenue? A new one is given as "
            "name=EXPRESSION.",
        ),
        (
            ["-m", "x=max(price)", "-m", "revenu"],
            "There is no measure 'revenu'. Did you mean revenue? A new one is given as "
            "name=EXPRESSION.",
        ),
        (["-m", "n", "-m", "n"], "There are two measures 'n'; give one another name."),
        (["--share", "--cumulative"], "Give one of --compare, --cumulative and --share."),
        (
            ["--compare", "a while"],
            "'a while' is no period; write '1 year', '3 months', '52 weeks' or '1 day'.",
        ),
        (["--relation", "stors"], "There is no relation 'stors'. Did you mean stores?"),
        (["--version", "7"], "{tree} has no version 7; there are: 1."),
        (["-o", "/nowhere/at/all"], "Cannot write /nowhere/at/all: No such file or directory."),
        (
            ["-f", "parquet", "-o", "/nowhere/at/all"],
            "Cannot write /nowhere/at/all: No such file or directory.",
        ),
        (["--engine", "locl"], "There is no engine 'locl'. Did you mean local?"),
        (
            ["--master", "local[2]"],
            "--master, --remote and --in-process are not for the local engine.",
        ),
    ],
)
def test_wrong_questions(tree: str, arguments: list[str], message: str) -> None:
    assert refusal("query", tree, "--engine", "local", *arguments) == message.replace(
        "{tree}", tree
    )


@pytest.mark.parametrize("command", ["query", "status", "fsck", "vacuum"])
def test_there_is_no_tree(command: str, tmp_path: Path) -> None:
    assert refusal(command, tmp_path / "x") == f"There is no directory {tmp_path}/x."
    message = f"{tmp_path} is no saved tree: it has no manifest. See WideTable.save."
    assert refusal(command, tmp_path) == message


def test_wrong_models(tmp_path: Path) -> None:
    def message(model: str, *arguments: object) -> str:
        file.write_text(model)
        return refusal(
            "calibrate", file, "--out", tmp_path / "tree", *(arguments or ("--engine", "local"))
        )

    file = shop.write(tmp_path)
    assert message("[relations\n").startswith(f"{file} is not TOML: Expected ']'")
    assert message(shop.MODEL.replace("right =", "rigt =")) == (
        f"{file}: join 1 has 'rigt', which means nothing. Did you mean right?"
    )
    assert message(shop.MODEL.replace("on =", "#")) == f"{file}: join 1 does not say 'on'."
    assert message(shop.MODEL.replace('right = "stores"', 'right = "store"')) == (
        "There is no relation 'store'. Did you mean stores?"
    )
    assert message(shop.MODEL.replace('"id"', '"ids"')) == (
        "stores has no column 'ids'. Did you mean id?"
    )
    assert message(shop.MODEL.replace("sum(price)", "sum(pric)")) == (
        "No relation has a column 'pric'. Did you mean price?"
    )
    both = ("--master", "local[2]", "--remote", "sc://host")
    assert message(shop.MODEL, *both) == (
        "--master and --remote both say where Spark is; give one of them."
    )
    file.unlink()
    assert refusal("calibrate", file, "--out", tmp_path / "tree") == (
        f"Cannot read {file}: No such file or directory."
    )


def test_a_relation_that_is_gone(tmp_path: Path) -> None:
    model, tree = ModelFile.read(shop.write(tmp_path)), str(tmp_path / "tree")
    model.calibrate(model.graph("local")).save(tree, copy_below=0)
    shutil.rmtree(tmp_path / "data" / "sales")
    assert ask(tree, "-m", "revenue") == "revenue\n75\n"
    assert "; missing: " in out("status", tree)
    message = refusal("query", tree, "--engine", "local", "-w", "price > 5")
    assert message == (
        f"This needs the rows of sales, and {tmp_path}/data/sales/0.parquet is not there. What does "
        "not need them is still answered, by the messages that were saved."
    )


@pytest.mark.parametrize(
    ("arguments", "thing"),
    [
        (["frobnicate"], "frobnicate"),
        (["query"], "tree"),
        (["calibrate", "model.toml"], "--out"),
        (["query", "tree", "--nonsense"], "--nonsense"),
        (["calibrate", "m", "--out", "t", "--in-process", "-1"], "--in-process"),
    ],
)
def test_wrong_words(arguments: list[str], thing: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2 and done.stdout == ""
    usage, *_, error = done.stderr.splitlines()
    assert usage.startswith("Usage: ") and error.startswith("Error: ") and thing in error


def test_status_and_error_of_a_process(tmp_path: Path) -> None:
    done = process("status", tmp_path / "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"calitree: There is no directory {tmp_path}/x.\n"


def test_interrupting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.toml")
    command = [
        sys.executable,
        "-m",
        "calitree.cli.main",
        "calibrate",
        "model.toml",
        "--out",
        "tree",
    ]
    # A shell that started the tests in the background has let them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with (tmp_path / "model.toml").open("w"):  # waits until somebody reads
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, "calitree: interrupted\n")
    assert not (tmp_path / "tree").exists()


def test_fsck(tmp_path: Path) -> None:
    file, tree = shop.write(tmp_path), tmp_path / "tree"
    out("calibrate", file, "--out", tree, "--engine", "local", "-q")
    first, *lines = out("fsck", tree).splitlines()
    assert first == f"{tree}: 5 files of version 1, 0 damaged"
    assert [line.split()[0] for line in lines] == ["ok"] * 5
    assert lines[0].split() == ["ok", "manifests/000000000001.json", "version", "1"]
    for message in (tree / "messages").iterdir():
        message.write_bytes(message.read_bytes()[:-1])
    done = run("fsck", str(tree), "--all")
    assert (done.exit_code, done.stderr) == (1, "")
    assert "2 damaged\ndamaged  messages/" in done.stdout
    done = process("query", tree, "--engine", "local")
    assert (done.returncode, done.stdout) == (0, "n  revenue\n4  75\n")
    assert f"calitree: {tree}/messages/" in done.stderr
    assert all(line.startswith("calitree: ") for line in done.stderr.splitlines())


# -- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["calibrate", "query", "status", "fsck", "vacuum", "demo", "warm-up", "--version"]),
        (["calibrate"], ["[relations]", "[[joins]]", "[measures]", "--out", "--in-process"]),
        (["query"], ["--by", "--where", "name=EXPRESSION", "csv", "--output", "--plan"]),
        (["status"], ["which relations are missing"]),
        (["fsck"], ["--all", "Exit status 1 if a file is damaged"]),
        (["vacuum"], ["--keep", "--grace", "nobody should be saving"]),
    ],
)
def test_help(arguments: list[str], parts: list[str]) -> None:
    text = out(*arguments, "--help")
    assert text.startswith("Usage: ")
    for part in parts:
        assert part in text
    assert "..." not in text.replace("[ARGS]...", ""), "nothing is cut off"


def test_the_model_in_the_help_is_a_model(tmp_path: Path) -> None:
    text = out("calibrate", "--help")
    model = text[text.index("[relations]") : text.index("Arguments:")]
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "a.csv").write_text("store_nbr,price\n1,5\n")
    (tmp_path / "stores.csv").write_text("store_nbr\n1\n")
    file = tmp_path / "model.toml"
    file.write_text(model.replace("*.parquet", "*.csv").replace("stores.parquet", "stores.csv"))
    out("calibrate", file, "--out", tmp_path / "tree", "--engine", "local", "-q")
    assert ask(str(tmp_path / "tree")) == "n  revenue\n1  5\n"


# -- Spark ---------------------------------------------------------------------------------------


@pytest.mark.xdist_group("cluster")
def test_on_spark_and_then_without(tmp_path: Path) -> None:
    file, tree = shop.write(tmp_path), tmp_path / "tree"
    on_spark = ("--master", "local[2]", "--in-process", "0")
    done = process("calibrate", file, "--out", tree, *on_spark)
    assert done.returncode == 0, done.stderr
    assert "in Spark's tasks, which read the files: sales has 5 rows" in done.stderr
    assert done.stderr.endswith(f"Saved to {tree}, version 1.\n")
    assert "from the hybrid engine" in out("status", tree)
    assert sorted(ask(str(tree), "--by", "city", "-f", "csv").splitlines()) == [
        '"Cuenca",1,5',
        '"Quito",2,30',
        '"city","n","revenue"',
        ",1,40",
    ]


def test_a_trace_is_shown_to_who_wants_it(tree: str) -> None:
    asked = ("query", tree, "--engine", "local", "--where", "cast(city as int) > 1")
    assert refusal(*asked).startswith("In CAST(city AS INT) > 1: ")
    done = run("--trace", *asked)
    assert done.exit_code == 2
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.splitlines()[-1] == f"calitree: {refusal(*asked)}"
