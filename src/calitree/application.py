"""Applications as methods of a wide table, which knows none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import getattr_static
from typing import Any, TypeVar

from calitree.errors import CalitreeError
from calitree.wide_table import WideTable

Application = TypeVar("Application", bound=Callable[..., Any])


class Deferred:
    """Stands for applications of a package until one of them is wanted, and the package imported."""

    def __init__(self, package: str, name: str) -> None:
        self.package, self.name = package, name

    def __get__(self, instance: WideTable | None, owner: type[WideTable]) -> Any:
        import_module(self.package)
        return getattr(owner if instance is None else instance, self.name)


def defer(package: str, names: Iterable[str]) -> None:
    """Let a package be imported when one of its applications is first wanted."""
    for name in names:
        setattr(WideTable, name, Deferred(package, name))


def application(function: Application) -> Application:
    """Make a function of a wide table a method of all of them: so applications are reached, those of
    `calitree.apps` as well as your own.

    >>> from calitree import JoinGraph, application
    >>> @application
    ... def total(wide):
    ...     return wide.query().rows()[0]
    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    >>> g.calibrate({"revenue": "sum(price)"}).total()
    {'revenue': 35}
    """
    name = function.__name__
    known = getattr_static(WideTable, name, Deferred)
    again = _place(known) == _place(function)  # a cell of a notebook that is run once more, say
    if not (again or known is Deferred or isinstance(known, Deferred)):
        raise CalitreeError(f"A wide table has {name} already; call the application otherwise.")
    setattr(WideTable, name, function)
    return function


def _place(function: object) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)
