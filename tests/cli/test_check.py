"""`calitree check`: what it prints, and the status that a pipeline sees."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from calitree.cli.main import app
from tests.support import shop


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments), "--engine", "local"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sale has no store; the CSV file knows one that has no sale."""
    file = shop.write(tmp_path)
    (tmp_path / "data" / "stores.csv").write_text("id,city\n1,Quito\n2,Cuenca\n3,\n4,Loja\n")
    return file


def test_a_flaw_is_status_1(model: Path) -> None:
    done = run(model)
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1].split() == [
        "sales.store",
        "5",
        "3",
        "1",
        "1",
        "20.0%",
        "0",
        "1",
        "1",
    ]
    assert "  warning  null-keys: 1 of 5 rows of sales (20.00%) have NULL in store" in done.stdout


@pytest.mark.parametrize(("severity", "status"), [("remark", 1), ("warning", 1), ("error", 0)])
def test_the_severity_that_fails_is_chosen(model: Path, severity: str, status: int) -> None:
    done = run(model, "--fail-on", severity)
    assert (done.exit_code, done.stderr) == (status, "")
    assert done.stdout


def test_remarks_are_well_unless_they_are_said_to_fail(model: Path) -> None:
    sales = model.parent / "data" / "sales"
    (sales / "1.parquet").unlink()  # where the NULL was
    assert run(model).exit_code == 0
    assert "remark   orphans: " in run(model).stdout
    assert run(model, "--fail-on", "remark").exit_code == 1


def test_json(model: Path) -> None:
    done = run(model, "--format", "json")
    assert done.exit_code == 1 and done.stdout.count("\n") == 1
    checked = json.loads(done.stdout)
    assert list(checked) == ["ok", "edges", "findings"] and checked["ok"] is False
    assert checked["edges"][0]["join"] == "sales ⋈ stores on sales.store = stores.id"
    assert checked["edges"][0]["left"]["null_rows"] == 1
    unused = next(f for f in checked["findings"] if f["kind"] == "orphans")
    assert unused["examples"] == [{"key": [4], "rows": 1}]


@pytest.mark.parametrize(
    ("column", "examples"),
    [
        ("day", []),
        ("paid", ["1.50", "2.25"]),
        ("at", []),
        ("code", ["ff00"]),
        ("ratio", ["NaN", 0.5]),
        ("note", ['say "é", twice']),
    ],
)
def test_keys_of_all_types_are_json(tmp_path: Path, column: str, examples: list[object]) -> None:
    sales = pa.table(shop.SALES)
    parquet.write_table(sales.slice(0, 3), tmp_path / "a.parquet")
    parquet.write_table(sales.slice(2, 3), tmp_path / "b.parquet")
    model = tmp_path / "model.toml"
    model.write_text(
        'relations = {a = "a.parquet", b = "b.parquet"}\n'
        f'[[joins]]\nleft = "a"\nright = "b"\non = "{column}"\n'
    )
    done = run(model, "-f", "json", "--fail-on", "error")
    assert done.exit_code == 0, done.output
    findings = json.loads(done.stdout)["findings"]
    said = [e["key"] for f in findings if "rows of a " in f["message"] for e in f["examples"]]
    assert sorted(said, key=str) == sorted(([key] for key in examples), key=str)


def test_quiet(model: Path) -> None:
    done = run(model, "--quiet")
    assert (done.exit_code, done.output) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--fail-on", "warn"], "There is no severity 'warn'. Did you mean warning?"),
        (["--format", "csv"], "There is no format 'csv'."),
        (
            ["--master", "local[2]"],
            "--master, --remote and --in-process are not for the local engine.",
        ),
    ],
)
def test_refusals(model: Path, arguments: list[str], reason: str) -> None:
    done = run(model, *arguments)
    assert done.exit_code == 2 and done.stdout == ""
    assert reason in done.stderr


def test_a_model_that_is_wrong_is_status_2(model: Path) -> None:
    model.write_text(model.read_text().replace('"id"', '"city"'))
    done = run(model)
    assert done.exit_code == 2 and "Cannot join sales.store (an integer)" in done.stderr


def test_help() -> None:
    text = CliRunner().invoke(app, ["check", "--help"]).stdout
    assert "--fail-on" in text and "warning  rows are lost" in text
