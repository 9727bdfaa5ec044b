"""What docs/security.md and docs/limits.md promise has a test: each that they name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs/security.md", ROOT / "docs/limits.md"]
NAMED = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")


def names_in(file: Path) -> set[str]:
    """The functions of a file, and what it assigns names to: a state machine's test case."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assigned = [t for node in nodes if isinstance(node, ast.Assign) for t in node.targets]
    return functions | {target.id for target in assigned if isinstance(target, ast.Name)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_has_a_test(page: Path) -> None:
    named = NAMED.findall(page.read_text())
    assert len(named) >= 5
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or name not in names_in(ROOT / file)
    ]
    assert missing == []
