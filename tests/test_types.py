"""Kinds of values, and what two of them share."""

from __future__ import annotations

from itertools import permutations

import pytest

from calitree.types import Kind, common_kind


@pytest.mark.parametrize(
    ("kinds", "common"),
    [
        ((), Kind.NULL),
        ((Kind.NULL,), Kind.NULL),
        ((Kind.STRING, Kind.NULL), Kind.STRING),
        ((Kind.INTEGER, Kind.INTEGER), Kind.INTEGER),
        ((Kind.INTEGER, Kind.DECIMAL), Kind.DECIMAL),
        ((Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT), Kind.FLOAT),
        ((Kind.DATE, Kind.TIMESTAMP), Kind.TIMESTAMP),
        ((Kind.DATE, Kind.TIMESTAMP_TZ, Kind.NULL), Kind.TIMESTAMP_TZ),
        ((Kind.STRING, Kind.INTEGER), None),
        ((Kind.STRING, Kind.NULL, Kind.INTEGER), None),
        ((Kind.BOOLEAN, Kind.INTEGER), None),
        ((Kind.DATE, Kind.INTEGER), None),
    ],
)
def test_common_kind(kinds: tuple[Kind, ...], common: Kind | None) -> None:
    for order in permutations(kinds):
        assert common_kind(*order) is common
