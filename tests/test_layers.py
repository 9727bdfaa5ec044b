"""A file imports only from its own layer and those above: the table in CONTRIBUTING.md, enforced."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "calitree").rglob("*.py"))


def layers() -> list[list[str]]:
    """The names in each row of the table, first layer first."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| layer | files |") :].split("\n\n")[0]
    return [re.findall(r"`([\w/]+)`", row) for row in table.splitlines()[2:]]


def layer_of(module: str) -> int:
    """`engines` is the protocol; `engines/` are those that satisfy it. `a/` holds all of a."""
    parts = module.split(".")
    name = parts[0] if len(parts) == 1 else f"{parts[0]}/"
    return next(i for i, names in enumerate(layers()) if name in names)


def imported(path: Path) -> set[str]:
    """Modules of ours that importing this file imports; those in functions are imported later."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calitree."):
            found.add(str(node.module).removeprefix("calitree."))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_imports_go_up(path: Path) -> None:
    parts = list(path.relative_to(ROOT / "src" / "calitree").with_suffix("").parts)
    module = ".".join(part for part in parts if part != "__init__")
    if not module:
        return
    for other in imported(path):
        assert layer_of(other) <= layer_of(module), f"{module} imports {other}"
