"""Applications are methods of every wide table, those of calitree as well as a user's own."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static
from typing import Any

import pytest

import calitree as ct
from calitree.application import Deferred


@pytest.fixture
def wide() -> Iterator[ct.WideTable]:
    graph = ct.JoinGraph("reference")
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    before = dict(vars(ct.WideTable))
    yield graph.calibrate({"revenue": "sum(price)"})
    for name in vars(ct.WideTable).keys() - before.keys():
        delattr(ct.WideTable, name)


def test_one_of_a_user(wide: ct.WideTable) -> None:
    @ct.application
    def doubled(wide: ct.WideTable, times: int = 2) -> Any:
        """Twice the revenue."""
        return times * wide.query().rows()[0]["revenue"]

    assert wide.doubled() == 70 and wide.doubled(times=3) == 105  # type: ignore[attr-defined]
    assert wide.at(0).doubled() == 70  # type: ignore[attr-defined]
    assert ct.WideTable.doubled.__doc__ == "Twice the revenue."  # type: ignore[attr-defined]


def test_it_can_be_written_again(wide: ct.WideTable) -> None:
    for answer in (1, 2):

        @ct.application
        def first(wide: ct.WideTable, answer: int = answer) -> int:
            return answer

        assert wide.first() == answer  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["query", "schema", "verify"])
def test_it_does_not_replace_what_is_there(wide: ct.WideTable, name: str) -> None:
    assert wide.verify
    function = eval("lambda wide: None")
    function.__name__ = function.__qualname__ = name
    with pytest.raises(ct.CalitreeError, match=f"A wide table has {name} already"):
        ct.application(function)
    assert getattr_static(ct.WideTable, name) is not function


def test_those_of_calitree_are_imported_when_one_is_wanted(wide: ct.WideTable) -> None:
    assert wide.cube and wide.why
    assert not [name for name, value in vars(ct.WideTable).items() if isinstance(value, Deferred)]
