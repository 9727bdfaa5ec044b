"""Applications as methods of a wide table, which knows none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from calitree.errors import CalitreeError
from calitree.wide_table import WideTable

Application = TypeVar("Application", bound=Callable[..., Any])


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
    if getattr(WideTable, name, function) is not function:
        raise CalitreeError(f"A wide table has {name} already; call the application otherwise.")
    setattr(WideTable, name, function)
    return function
