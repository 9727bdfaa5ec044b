"""JSON of unknown origin as typed values, and back.

Type hints say what is expected: a dataclass is an object with exactly its fields (those that have a default
may be missing), `tuple[X, ...]` and `frozenset[X]` are arrays, an `Enum` is one of its values. `Annotated[X,
check]` has a function that returns the value, or raises a `ValueError` that says what is wrong with it.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     tags: frozenset[str] = frozenset()
    >>> decode(Point, {"x": 1, "tags": ["a"]})
    Point(x=1, tags=frozenset({'a'}))
    >>> decode(Point, {"x": "1"})
    Traceback (most recent call last):
        ...
    calitree.storage.json_codec.MalformedError: x is a text, not a whole number
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from math import isfinite
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from calitree.errors import CalitreeError

T = TypeVar("T")
Json = dict[str, Any]
Read = Callable[[Any], Any]

MAX_BYTES = 128 << 20
"""Of a file of JSON."""
MAX_INTEGER = 1 << 256
"""No whole number is this far from zero."""

_NAMES = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


class MalformedError(ValueError):
    """What is wrong, and where: the names and numbers that lead there."""

    def __init__(self, problem: str, *where: object) -> None:
        super().__init__(problem)
        self.problem, self.where = problem, where

    def inside(self, name: object) -> MalformedError:
        """The same, seen from one level above."""
        return MalformedError(self.problem, name, *self.where)

    def __str__(self) -> str:
        path = "".join(f"[{n}]" if isinstance(n, int) else f".{n}" for n in self.where)
        place = path[:200].removeprefix(".")
        return f"{place} {self.problem}" if place else self.problem


# -- text -----------------------------------------------------------------------------------------


def parse(content: bytes) -> Any:
    """The value that a file of JSON has; no object has a name twice, and no number is NaN or infinite."""
    if len(content) > MAX_BYTES:
        raise MalformedError(f"it has {len(content):,} bytes, and at most {MAX_BYTES:,} are read")
    try:
        return json.loads(content, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise MalformedError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> Json:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise MalformedError("an object has a name twice")
    return body


def _no_constant(name: str) -> Any:
    raise MalformedError(f"{name} is no number")


# -- from JSON ------------------------------------------------------------------------------------


def decode(hint: type[T], value: Any) -> T:
    """The value that JSON stands for where a hint says what is expected."""
    decoded: T = reader(cast(Hashable, hint))(value)
    return decoded


@cache
def reader(hint: Any) -> Read:
    """A function that decodes values of a hint; there are as many as hints in the code."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin is Annotated:
        return partial(_checked, reader(arguments[0]), arguments[1:])
    if origin in (Union, types.UnionType):
        return partial(_union, tuple(map(reader, arguments)))
    if origin is Literal:
        return partial(_option, {option: option for option in arguments})
    if origin is tuple and arguments[-1:] != (...,):
        return partial(_fixed, tuple(map(reader, arguments)))
    if origin in (tuple, frozenset):
        return partial(_array, origin, reader(arguments[0]))
    if origin in (dict, Mapping):
        return partial(_mapping, reader(arguments[0]), reader(arguments[1]))
    if is_dataclass(hint):
        return _Record(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return partial(_option, {option.value: option for option in hint})
    return partial(_scalar, hint)


def _expected(value: Any, kind: type) -> MalformedError:
    return MalformedError(f"is {_NAMES.get(type(value), type(value).__name__)}, not {_NAMES[kind]}")


def _is_exactly(value: Any, kind: type) -> bool:
    return type(value) is kind  # true is no whole number


def _scalar(kind: type, value: Any) -> Any:
    given: Any = value
    if kind is float and type(value) is int and abs(value) < MAX_INTEGER:
        given = float(value)
    if not _is_exactly(given, kind):
        raise _expected(value, kind)
    if kind is str and not given.isascii():
        try:
            given.encode()
        except UnicodeEncodeError:
            raise MalformedError("has half of a character") from None
    if kind is int and abs(given) >= MAX_INTEGER:
        raise MalformedError("is too large a number")
    if kind is float and not isfinite(given):
        raise MalformedError("is no finite number")
    return given


def _checked(read: Read, checks: tuple[Any, ...], value: Any) -> Any:
    value = read(value)
    for check in checks:
        try:
            value = check(value)
        except ValueError as error:
            raise MalformedError(str(error)) from None
    return value


def _union(reads: tuple[Read, ...], value: Any) -> Any:
    problems = []
    for read in reads:
        try:
            return read(value)
        except MalformedError as error:
            problems.append(error)
    raise max(problems, key=lambda error: len(error.where))  # the one that came the furthest


def _option(options: Mapping[Any, Any], value: Any) -> Any:
    if not isinstance(value, str) or value not in options:
        shown = repr(value)[:40] if isinstance(value, str) else _NAMES.get(type(value), "another")
        raise MalformedError(f"is {shown}, not one of {', '.join(options)}")
    return options[value]


def _fixed(reads: tuple[Read, ...], value: Any) -> tuple[Any, ...]:
    if type(value) is not list:
        raise _expected(value, list)
    if len(value) != len(reads):
        raise MalformedError(f"has {len(value)} entries, not {len(reads)}")
    return tuple(
        _inside(i, read, entry) for i, (read, entry) in enumerate(zip(reads, value, strict=True))
    )


def _array(make: Callable[[list[Any]], Any], read: Read, value: Any) -> Any:
    if type(value) is not list:
        raise _expected(value, list)
    return make([_inside(i, read, entry) for i, entry in enumerate(value)])


def _mapping(read_name: Read, read: Read, value: Any) -> Json:
    if type(value) is not dict:
        raise _expected(value, dict)
    return {read_name(name): _inside(name, read, entry) for name, entry in value.items()}


def _inside(name: object, read: Read, value: Any) -> Any:
    try:
        return read(value)
    except MalformedError as error:
        raise error.inside(name) from None


class _Record:
    """Decodes objects that are a dataclass."""

    def __init__(self, record: Any) -> None:
        self.make = record
        hints = get_type_hints(record, include_extras=True)
        self.reads = {json_name(f): (f.name, reader(hints[f.name])) for f in fields(record)}
        self.needed = [
            json_name(field)
            for field in fields(record)
            if field.default is MISSING and field.default_factory is MISSING
        ]

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict:
            raise _expected(value, dict)
        values = {}
        for name, entry in value.items():
            if name not in self.reads:
                raise MalformedError(f"has an unknown entry {name[:40]!r}")
            field, read = self.reads[name]
            values[field] = _inside(name, read, entry)
        for name in self.needed:
            if name not in value:
                raise MalformedError(f"lacks {name!r}")
        try:
            return self.make(**values)
        except CalitreeError as error:
            raise MalformedError(f"is wrong: {error}") from error


def json_name(field: Any) -> str:
    """The name that a field of a dataclass has in JSON: its own, or `metadata={"json": …}`."""
    return str(field.metadata.get("json", field.name))


# -- to JSON --------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """A value as JSON that `decode` reads."""
    if is_dataclass(value):
        return {json_name(field): encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: encode(entry) for name, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(encode, value))
    if isinstance(value, tuple | list):
        return [encode(entry) for entry in value]
    return value


# -- checks ---------------------------------------------------------------------------------------


def count(value: int) -> int:
    """The check of a number of rows or bytes."""
    if not 0 <= value < 1 << 63:
        raise ValueError("is no count")
    return value


Count = Annotated[int, count]
