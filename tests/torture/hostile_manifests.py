"""Manifests that somebody has tampered with, each with its checksum made right again."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from calitree.saved.manifest import checksum

Path = tuple[str | int, ...]

ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 2**70, 10**30, -(10**400)),
    *(
        0.5,
        -1.5,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "sales",
        "c0",
        "count(*)",
        "sum(",
        "1/0",
    ),
    *(
        "..",
        ".",
        "/",
        "../../outside/secret.parquet",
        "a\0b",
        "\ud800",
        "C:\\x",
        "%2e%2e/x",
        "é" * 40,
    ),
    *("x" * 50_000, "(" * 2_000, "sum(price", "price; drop table sales", "`", '"', "'", "\n"),
    *(
        [],
        {},
        [[]],
        [None],
        {"a": 1},
        {"": {}},
        [1, 2, 3],
        ["sales", "stores"],
        [["sales", "store"]],
    ),
]


HOW = ("odd", "odd", "near", "near", "near", "swap", "swap", "delete", "twice", "more", "outside")


class Hostile(NamedTuple):
    """A manifest as text; the path of each thing that was changed in it, and how."""

    text: str
    changed: list[tuple[Path, str]]


def sealed_again(content: dict[str, Any]) -> str:
    """The text of a manifest whose checksum is right."""
    body = {name: part for name, part in content.items() if name not in ("format", "checksum")}
    whole = {"format": content["format"], "checksum": checksum(body), **body}
    return json.dumps(whole)


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """The way to every part of a value."""
    if at:
        yield at
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            yield from paths(part, (*at, name))


def at(value: Any, path: Path) -> Any:
    """A part of a value."""
    for name in path:
        value = value[name]
    return value


def nested(depth: int) -> Any:
    """Arrays in arrays."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def mutations(
    original: dict[str, Any], seed: int, outside: list[str], among: str = ""
) -> Iterator[Hostile]:
    """Manifests with one thing or a few changed, without end.

    `outside` are paths worth stealing; `among` is what the names of changed fields begin with.
    """
    chance = random.Random(seed)
    everywhere = [path for path in paths(original) if path[0] not in ("format", "checksum")]
    by_kind: dict[str, list[Path]] = {}  # all fields have their turn, however often they occur
    for path in everywhere:
        kind = ".".join(str(name) for name in path if isinstance(name, str))
        if kind.startswith(among):
            by_kind.setdefault(kind, []).append(path)
    while True:
        content, changed = copy.deepcopy(original), []
        for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
            path = chance.choice(by_kind[chance.choice(list(by_kind))])
            how = chance.choice(HOW)
            try:
                change(content, path, how, chance, everywhere, outside)
                changed.append((path, how))
            except (KeyError, IndexError, TypeError):  # an earlier change took it away
                continue
        yield Hostile(sealed_again(content), changed)


def change(
    content: Any,
    path: Path,
    how: str,
    chance: random.Random,
    others: list[Path],
    outside: list[str],
) -> None:
    """Change a part of a manifest in place."""
    owner, name = at(content, path[:-1]), path[-1]
    value = owner[name]
    if how == "odd":
        owner[name] = copy.deepcopy(chance.choice(ODD)) if chance.random() < 0.97 else nested(300)
    elif how == "outside":
        owner[name] = chance.choice(outside)
    elif how == "delete":
        del owner[name]
    elif how == "swap":
        alike = [p for p in chance.choices(others, k=200) if type(_at(content, p)) is type(value)]
        owner[name] = copy.deepcopy(at(content, chance.choice(alike)))
    elif how == "near":
        owner[name] = _near(value, chance)
    elif how == "twice" and isinstance(owner, list):
        owner.insert(int(name), copy.deepcopy(value))
    elif isinstance(owner, dict):
        owner[chance.choice(("extra", "path", "__class__", "\ud800", "version"))] = value


def _at(content: Any, path: Path) -> Any:
    try:
        return at(content, path)
    except (KeyError, IndexError, TypeError):
        return ...


def _near(value: Any, chance: random.Random) -> Any:
    """Another value of the same type, not far from it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice((value + 1, value - 1, -value, value * 2, value << 40))
    if isinstance(value, str):
        cut = chance.randrange(len(value) + 1)
        return chance.choice((value[:cut], value[cut:], value + "x", value.upper(), value[::-1]))
    if isinstance(value, list):
        return chance.choice((value[::-1], value[1:], value + value, [value]))
    if isinstance(value, dict):
        return dict(list(value.items())[1:])
    return 1


def texts(original: dict[str, Any]) -> Iterator[bytes]:
    """Files that are no manifest, or not only one."""
    whole = sealed_again(original)
    yield from (b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", b"\0" * 1_000)
    yield from (b"[" * 200_000, b'{"a":' * 200_000, whole.encode()[:-1], whole.encode() + b"x")
    yield whole.replace("{", '{"format": 5, "engine": "twice", ', 1).encode()
    yield whole.replace('"rows": ', '"rows": 1, "rows": ', 1).encode()
    yield whole.replace('"rows": ', '"rows": ' + "9" * 5_000, 1).encode()
    yield whole.replace('"memory_limit": ', '"memory_limit": NaN, "x": ', 1).encode()
    yield whole.replace('"format": ', '"format": true, "x": ', 1).encode()
    yield whole.replace('"format": ', '"format": {}, "x": ', 1).encode()
    yield whole.replace('"checksum": ', '"checksum": [], "x": ', 1).encode()
