"""Applications as methods of a wide table, which imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import getattr_static
from typing import Any, TypeVar

from calitree.errors import CalitreeError
from calitree.wide_table import WideTable

Application = TypeVar("Application", bound=Callable[..., Any])


class Deferred:
    """A method of wide tables that imports its package when it is first looked up.

    The package replaces it by the application of this name. Two threads may both import: Python imports
    a package once, and lets the second wait.
    """

    def __init__(self, package: str, name: str) -> None:
        self.package, self.name = package, name

    def __get__(self, instance: WideTable | None, owner: type[WideTable]) -> Any:
        import_module(self.package)
        return getattr(owner if instance is None else instance, self.name)


def defer(package: str, names: Iterable[str]) -> None:
    """Import a package only when one of its applications is first looked up."""
    for name in names:
        setattr(WideTable, name, Deferred(package, name))


def application(function: Application) -> Application:
    """Make a function of a wide table a method of all wide tables, as those of `calitree.apps` are.

    Args:
        function: Its first argument is the wide table; its name is that of the method.

    Returns:
        The function itself, so that it can be used as a decorator.

    Raises:
        CalitreeError: A wide table has a method of this name that was defined elsewhere.

    >>> from calitree import application
    >>> @application
    ... def total(wide):
    ...     return wide.query().rows()[0]
    >>> wide.total()
    {'revenue': 35}
    """
    name = function.__name__
    known = getattr_static(WideTable, name, None)
    # The same definition may come again, such as that of a notebook's cell.
    if not (known is None or isinstance(known, Deferred) or _origin(known) == _origin(function)):
        raise CalitreeError(f"A wide table has {name} already; call the application otherwise.")
    setattr(WideTable, name, function)
    return function


def _origin(function: object) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)
