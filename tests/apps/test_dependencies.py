"""What applications use of the rooms below them, as CONTRIBUTING says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

APPS = Path(__file__).parents[2] / "src" / "calitree" / "apps"


def uses(*names: str) -> set[tuple[str, str]]:
    """The applications that read one of these attributes of anything, and which."""
    return {
        (path.relative_to(APPS).parts[0], node.attr)
        for path in APPS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in names
    }


def imports(package: str) -> Iterator[tuple[str, str]]:
    """The applications that import from a package, and what."""
    for path in APPS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(package):
                yield from ((path.relative_to(APPS).parts[0], name.name) for name in node.names)


def test_which_look_inside_a_wide_table() -> None:
    inside = uses("branch", "snapshot", "state", "add_pivots")
    assert {app for app, _ in inside} == {"cube", "search", "select"}
    assert {name for app, name in inside if app == "search"} == {"branch", "add_pivots"}
    assert {name for app, name in inside if app == "select"} == {"state"}  # for `statements`


def test_which_know_of_messages() -> None:
    plans = ("Plan", "plan_of_parts")
    assert {app for app, name in imports("calitree.calibration") if name not in plans} == {"cube"}


def test_which_call_an_engine() -> None:
    called = uses("contract", "materialise", "load")
    assert {app for app, _ in called} <= {"cube", "verify"}
    semirings = {
        "Semiring",
        "SUM_PRODUCT",
        "MIN",
        "MAX",
    }  # values, which no engine computes with here
    known = {app for app, name in imports("calitree.engines") if name not in semirings}
    assert known == {"cube", "verify"}
