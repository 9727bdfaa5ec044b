"""The README's examples run, and print what it says they print; its links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import calitree as ct
from calitree.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)


def test_examples_print_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    namespace: dict[str, Any] = {}
    printed, compared = None, 0
    for language, options, body in blocks:
        if language == "python" and "notest" not in options:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "README.md", "exec"), namespace)
            printed = out.getvalue()
        elif language == "text":
            assert printed == body
            compared += 1
        elif language == "toml":
            write_tables(namespace["g"], tmp_path / "data")
            (tmp_path / "model.toml").write_text(body)
        elif language == "console" and body.startswith("$ "):
            assert typed(body) == body
            compared += 1
    assert compared >= 7


RUN = [page for page in PAGES if page.name != "README.md" and "```python\n" in page.read_text()]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_examples_of_other_pages(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    printed, compared = "", 0
    for language, body in re.findall(r"```(python|text)\n(.*?)```", page.read_text(), re.DOTALL):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, page.name, "exec"), namespace)
            printed = out.getvalue()
        else:
            assert printed == body
            compared += 1
    assert compared


def write_tables(graph: ct.JoinGraph, directory: Path) -> None:
    """The tables of a graph as Parquet files."""
    directory.mkdir()
    for name, relation in graph.schema.relations.items():
        parquet.write_table(graph.engine.arrow(relation.table), directory / f"{name}.parquet")


def typed(screen: str) -> str:
    """What a terminal shows when the commands on it are typed again."""
    shown = ""
    for command in re.findall(r"^\$ calitree (.*)$", screen, re.MULTILINE):
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, done.output
        shown += f"$ calitree {command}\n{done.stdout}"
    return shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
