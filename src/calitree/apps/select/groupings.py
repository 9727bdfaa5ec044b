"""GROUP BY: the expressions that are grouped by, and which of them each grouping set has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import NamedTuple

from sqlglot import exp

from calitree.apps.select.grammar import refused

MAX_SETS = 256
"""Grouping sets of one block, each of which is a question of its own."""

Items = tuple[exp.Expr, ...]


class Groupings(NamedTuple):
    """What a block groups by."""

    expressions: Items
    """All expressions, each once."""
    sets: tuple[frozenset[int], ...]
    """Which of them each grouping set has; one set with all of them for a plain GROUP BY."""


def groupings_of(
    select: exp.Select, resolve: Callable[[exp.Expr], exp.Expr], plain: Sequence[exp.Expr]
) -> Groupings:
    """What a block groups by, given how ordinals and aliases are resolved, and what GROUP BY ALL means."""
    group = select.args.get("group")
    if group is None:
        return Groupings((), (frozenset(),))
    if group.args.get("all"):
        return _numbered([[tuple(plain)]])
    factors: list[list[Items]] = [
        [(resolve(node),)] for node in group.expressions if not _is_set(node)
    ]
    for node in (*group.expressions, *_listed(group)):
        if _is_set(node):
            factors.append([tuple(map(resolve, one)) for one in _sets(node)])
    return _numbered(factors)


def _listed(group: exp.Group) -> list[exp.Expr]:
    """Grouping sets that the parser has put beside the expressions."""
    return [
        node
        for key in ("grouping_sets", "cube", "rollup")
        for node in group.args.get(key) or []
        if isinstance(node, exp.Expr)
    ]


def _is_set(node: exp.Expr) -> bool:
    return isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)


def _sets(node: exp.Expr) -> list[Items]:
    parts = [_items(part) for part in node.expressions]
    if isinstance(node, exp.Rollup):
        return [_joined(parts[:end]) for end in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube):
        if 2 ** len(parts) > MAX_SETS:
            raise refused("groups", f"CUBE of more than {MAX_SETS} grouping sets.", node)
        sizes = range(len(parts), -1, -1)
        return [_joined(chosen) for size in sizes for chosen in combinations(parts, size)]
    return [
        one
        for part in node.expressions
        for one in (_sets(part) if _is_set(part) else [_items(part)])
    ]


def _items(node: exp.Expr) -> Items:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node.unnest(),)


def _joined(parts: Sequence[Items]) -> Items:
    return tuple(item for part in parts for item in part)


def _numbered(factors: Sequence[Sequence[Items]]) -> Groupings:
    """All combinations of one set of each."""
    count = 1
    for factor in factors:
        count *= len(factor)
    if count > MAX_SETS:
        raise refused("groups", f"GROUP BY has {count:,} grouping sets, of at most {MAX_SETS}.")
    expressions: dict[exp.Expr, int] = {}
    sets = []
    for chosen in product(*factors):
        items = _joined(chosen)
        sets.append(frozenset(expressions.setdefault(item, len(expressions)) for item in items))
    return Groupings(tuple(expressions), tuple(sets))
