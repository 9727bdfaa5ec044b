"""Whatever a user may meet can be imported from `calitree`."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import pytest

import calitree as ct
import calitree.ml
from calitree import dbapi

INSIDE = {"Branch", "Engine", "Kind", "Query", "Saves", "Schema", "Snapshot", "TreeState", "Width"}
"""What the façade stands before: for those who look behind it."""


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(ct.__path__, "calitree."):
        if not module.name.startswith(("calitree.cli", "calitree.engines")):
            yield module.name


@pytest.fixture(scope="module")
def classes() -> dict[str, type]:
    """All classes of calitree but those of engines and commands, by name."""
    classes = {}
    for module in modules():
        for name, value in vars(importlib.import_module(module)).items():
            if inspect.isclass(value) and value.__module__.startswith("calitree."):
                classes[name] = value
    return classes


def test_all_that_is_listed_is_there() -> None:
    for name in ct.__all__:
        assert getattr(ct, name) is not None


def test_every_error_is_exported(classes: dict[str, type]) -> None:
    errors = [cls for cls in classes.values() if issubclass(cls, ct.CalitreeError)]
    assert len(errors) >= 11
    for error in errors:
        own = issubclass(
            error, dbapi.Error
        )  # PEP 249 says how these are called, and where they are
        assert getattr(dbapi if own else ct, error.__name__) is error
        assert error.__module__ == ("calitree.dbapi.exceptions" if own else "calitree.errors")


def returned(owner: type) -> Iterator[tuple[str, str]]:
    """The names of classes that public methods and properties of a class return."""
    for name, member in inspect.getmembers(owner):
        function = member.fget if isinstance(member, property) else member
        function = getattr(function, "func", function)
        annotation = getattr(function, "__annotations__", {}).get("return", "")
        if not name.startswith("_"):
            classes = re.findall(r"(?<![\w.])[A-Z]\w+", str(annotation))
            yield from ((name, cls) for cls in classes)


def test_every_class_that_is_returned_is_exported(classes: dict[str, type]) -> None:
    public = {*ct.__all__, *calitree.ml.__all__, *INSIDE}
    owners = [getattr(ct, name) for name in ct.__all__ if inspect.isclass(getattr(ct, name))]
    missing = {
        f"{owner.__name__}.{method} -> {name}"
        for owner in owners
        for method, name in returned(owner)
        if name in classes and name not in public
    }
    assert missing == set()


def test_the_example_of_the_package() -> None:
    result = doctest.testmod(ct)
    assert result.attempted >= 5
    assert not result.failed
