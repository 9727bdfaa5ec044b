"""`calitree functions`: all that texts may use, from the tables that define it."""

from __future__ import annotations

import json
import re

from typer.testing import CliRunner, Result

from calitree.cli.main import app
from calitree.query.measure import FUNCTIONS as AGGREGATES
from calitree.sql.functions import NAMES
from calitree.sql.rules.sketches import BUCKET, CELL

ONLY_CANONICAL = {"SUBTRACT", CELL, BUCKET}
"""What texts do not name: canonical forms have them, or sketches."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["functions", *arguments])


def test_every_function_and_aggregate_is_listed_once() -> None:
    rows = json.loads(run("--format", "json").stdout)
    usages = [row["usage"] for row in rows]
    assert len(set(usages)) == len(usages)
    lines = " ".join(f"{row['usage']} {row['about']}" for row in rows).upper()
    assert {name for name in NAMES if not re.search(rf"\b{name}\b", lines)} == ONLY_CANONICAL
    assert {aggregate.usage for aggregate in AGGREGATES} <= set(usages)
    assert all(row["about"] for row in rows)


def test_a_search_shows_some() -> None:
    done = run("prefix")
    assert done.stdout.splitlines() == [
        "text",
        "  starts_with(text, part)",
        "      Whether it starts so; also prefix (boolean)",
    ]


def test_nothing_found_is_an_error() -> None:
    done = run("nosuch")
    assert done.exit_code != 0 and "No function is about 'nosuch'" in done.output


def test_an_unknown_format_is_an_error() -> None:
    done = run("--format", "jsn")
    assert done.exit_code != 0 and "Did you mean json?" in done.output
