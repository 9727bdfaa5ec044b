"""Limits that keep the source readable, and the words it is written in.

`docs/glossary.md` lists the terms; here they are compared with the names in the code.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import calitree
import calitree.ml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "calitree"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))

MAX_LINES, MAX_BRANCHES, MAX_POSITIONAL, MAX_PUBLIC_METHODS, MAX_TERMS = 60, 15, 5, 20, 40

COMPILED_LOOPS: dict[str, str] = {}
"""Compiled functions that may be longer, and the table that documents each."""

FACADE = "WideTable"

RETIRED = {
    *("moment", "lately", "words", "behind", "further", "reach", "carry", "picked", "later"),
    *("walk", "told", "pressed", "met", "each", "found", "made"),
}
"""Words that say nothing to a reader who knows databases; no name has one as a part."""

BARE = {"FEW", "LARGE", "MOST", "MANY", "ENOUGH", "LIMIT"}
"""Constants that do not say of what."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def short(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


class Function(NamedTuple):
    path: Path
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def place(self) -> str:
        return f"{short(self.path)}:{self.node.name}"

    @property
    def lines(self) -> int:
        return (self.node.end_lineno or 0) - self.node.lineno + 1

    @property
    def branches(self) -> int:
        """Statements that branch or loop, conditional expressions, comprehensions, `and` and `or`."""
        one = (
            ast.If,
            ast.For,
            ast.While,
            ast.ExceptHandler,
            ast.match_case,
            ast.IfExp,
            ast.comprehension,
        )
        nodes = list(ast.walk(self.node))
        operators = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
        return sum(isinstance(node, one) for node in nodes) + operators


def functions() -> Iterator[Function]:
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(path, node)


def test_functions_fit_a_screen() -> None:
    long = {
        function.place: (function.lines, function.branches)
        for function in functions()
        if function.lines > MAX_LINES or function.branches > MAX_BRANCHES
    }
    assert {place: size for place, size in long.items() if place not in COMPILED_LOOPS} == {}
    assert long.keys() == COMPILED_LOOPS.keys()
    assert len(COMPILED_LOOPS) <= 5


@pytest.mark.parametrize(("place", "table"), COMPILED_LOOPS.items())
def test_long_loops_are_driven_by_a_table(place: str, table: str) -> None:
    file, _ = place.split(":")
    names = {target.id for node in parsed(PACKAGE / file).body for target in assigned(node)}
    assert table in names


def assigned(node: ast.stmt) -> Iterator[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    yield from (target for target in targets if isinstance(target, ast.Name))


def test_classes_have_few_methods() -> None:
    counts = {
        f"{short(path)}:{node.name}": sum(
            isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
            for method in node.body
        )
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef) and node.name != FACADE
    }
    assert {place: n for place, n in counts.items() if n > MAX_PUBLIC_METHODS} == {}


def test_calls_name_their_arguments() -> None:
    calls = [
        f"{short(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL
    ]
    assert calls == []


def test_a_class_name_has_one_meaning() -> None:
    names = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    )
    assert {name: count for name, count in names.items() if count > 1} == {}


# -- words -----------------------------------------------------------------------------------------


def names_bound(path: Path) -> Iterator[str]:
    """Every name that a file gives to something."""
    yield path.stem
    for node in ast.walk(parsed(path)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr
            case ast.alias(asname=str(name)):
                yield name


def parts(name: str) -> set[str]:
    """`_told_by` has told and by, `LaterMessage` later and message."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=short)
def test_retired_words_are_gone(path: Path) -> None:
    names = {name for name in names_bound(path) if not name.startswith("test_")}
    assert {name for name in names if parts(name) & RETIRED or name.strip("_") in BARE} == set()


@pytest.mark.parametrize("path", PAGES, ids=short)
def test_retired_words_are_gone_from_pages(path: Path) -> None:
    code = re.findall(r"`([A-Za-z_][\w.]*)`", path.read_text())
    assert {name for name in code if parts(name) & RETIRED} == set()


class Term(NamedTuple):
    """A line of the glossary."""

    term: str
    name: str
    file: str


def terms() -> list[Term]:
    page = (ROOT / "docs" / "glossary.md").read_text()
    row = re.compile(r"^\| ([^|]+) \| [^|]+ \| `([\w.]+)` in `([\w/]+(?:\.py)?)` \|$", re.M)
    return [Term(*line) for line in row.findall(page)]


def test_the_glossary_is_short() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    headings = sum(line.startswith("| term ") for line in rows)
    assert len(terms()) == len(rows) - headings, "a line that is not read"
    assert 20 <= len(terms()) <= MAX_TERMS


@pytest.mark.parametrize("term", terms(), ids=lambda term: term.term)
def test_terms_are_names(term: Term) -> None:
    """What the glossary names is defined in the file that it names."""
    assert term.name.split(".")[-1] in set(names_bound(PACKAGE / term.file))


# -- docstrings of what is exported -----------------------------------------------------------------


class Public(NamedTuple):
    """An exported class or function, or a public method of one."""

    name: str
    value: Any

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.value.__doc__ or "")


def exported() -> Iterator[Public]:
    for module in (calitree, calitree.ml):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                yield Public(name, value)
                yield from methods(name, value)
            elif inspect.isfunction(value):
                yield Public(name, value)


def methods(name: str, owner: type) -> Iterator[Public]:
    for attribute, value in vars(owner).items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function) and not attribute.startswith("_"):
            yield Public(f"{name}.{attribute}", function)
        elif isinstance(value, property) and not attribute.startswith("_"):
            yield Public(f"{name}.{attribute}", value)


EXPORTED = list(exported())


@pytest.mark.parametrize("public", EXPORTED, ids=lambda public: public.name)
def test_docstrings_are_whole(public: Public) -> None:
    """A summary and an example; functions also tell their parameters and what they return."""
    assert public.doc.split("\n")[0].rstrip().endswith("."), "no summary"
    if not isinstance(public.value, property):
        assert ">>>" in public.doc, "no example"
    if inspect.isfunction(public.value):
        signature = inspect.signature(public.value)
        arguments = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        if arguments:
            section = public.doc.partition("Args:\n")[2]
            missing = [
                p.name for p in arguments if not re.search(rf"^ +\*{{0,2}}{p.name}:", section, re.M)
            ]
            assert not missing
        if signature.return_annotation not in (None, "None", "NoReturn"):
            assert "Returns:\n" in public.doc or "Yields:\n" in public.doc
