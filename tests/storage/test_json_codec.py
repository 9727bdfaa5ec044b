"""JSON by type hints: what fits is decoded, and of anything else it is said where and why not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from calitree.storage.json_codec import Count, MalformedError, decode, encode, parse
from calitree.types import Kind


@dataclass(frozen=True)
class Inner:
    kind: Kind
    size: Count = 0


@dataclass(frozen=True)
class Outer:
    name: str
    number: int = field(metadata={"json": "version"})
    inner: tuple[Inner, ...] = ()
    pair: tuple[str, int] = ("", 0)
    names: frozenset[str] = frozenset()
    by_name: Mapping[str, Inner | None] = field(default_factory=dict)
    mode: Literal["lazy", "eager"] = "lazy"
    value: int | float | str | None = None
    ratio: float = 0.0


WHOLE = Outer(
    "é",
    2**200,
    (Inner(Kind.DATE, 3),),
    ("a", -1),
    frozenset({"x", "y"}),
    {"k": None, "l": Inner(Kind.NULL)},
    "eager",
    1.5,
)


def test_there_and_back() -> None:
    text = json.dumps(encode(WHOLE))
    assert json.loads(text)["version"] == 2**200
    assert decode(Outer, parse(text.encode())) == WHOLE
    assert decode(Outer, {"name": "x", "version": 1}) == Outer("x", 1)
    assert decode(Outer, {"name": "x", "version": 1, "ratio": 2}).ratio == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 1}, "name is a whole number, not a text"),
        ({"name": None}, "name is null, not a text"),
        ({"name": "\ud800"}, "name has half of a character"),
        ({"version": True}, "version is true or false, not a whole number"),
        ({"version": 1.0}, "version is a number, not a whole number"),
        ({"version": 2**256}, "version is too large a number"),
        ({"inner": {}}, "inner is an object, not an array"),
        ({"inner": [{"kind": "date"}, {"kind": "dat"}]}, r"inner\[1\]\.kind is 'dat', not one of"),
        ({"inner": [{"kind": []}]}, r"inner\[0\]\.kind is an array, not one of"),
        ({"inner": [{"kind": "date", "size": -1}]}, r"inner\[0\]\.size is no count"),
        ({"inner": [{"kind": "date", "size": 2**63}]}, r"inner\[0\]\.size is no count"),
        ({"inner": [{}]}, r"inner\[0\] lacks 'kind'"),
        ({"pair": ["a"]}, "pair has 1 entries, not 2"),
        ({"pair": ["a", "b"]}, r"pair\[1\] is a text, not a whole number"),
        ({"by_name": {"k": {"kind": "date", "size": "x"}}}, r"by_name\.k\.size is a text"),
        ({"mode": "other"}, "mode is 'other', not one of lazy, eager"),
        ({"value": []}, "value is an array"),
        ({"ratio": 1e999}, "ratio is no finite number"),
        ({"ratio": 10**400}, "ratio is a whole number, not a number"),
        ({"extra": 1}, "has an unknown entry 'extra'"),
        ({"number": 1}, "has an unknown entry 'number'"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(MalformedError, match=message):
        decode(Outer, {"name": "x", "version": 1} | change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a": 1, "a": 1}', "an object has a name twice"),
        (b"NaN", "NaN is no number"),
        (b"[-Infinity]", "-Infinity is no number"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5_000, "limit"),
        (b"\xff", "decode"),
    ],
)
def test_texts_that_are_refused(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)
