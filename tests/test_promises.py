"""What docs/security.md and docs/limits.md promise has a test: each that they name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [page for name in ("security", "limits") if (page := ROOT / f"docs/{name}.md").exists()]
NAMED = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")


def functions(file: Path) -> set[str]:
    return {n.name for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_has_a_test(page: Path) -> None:
    named = NAMED.findall(page.read_text())
    assert len(named) >= 5
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or name not in functions(ROOT / file)
    ]
    assert missing == []
