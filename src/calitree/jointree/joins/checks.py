"""Which names, columns and joins a graph can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from calitree.errors import SchemaError, shortened
from calitree.jointree.joins.join import ColumnName, Join, Pair
from calitree.jointree.schema import Relation
from calitree.sql.limits import flaw_of_name
from calitree.types import Kind, common_kind

On = str | Sequence[str] | Mapping[str, str]
"""What relations join on: a column, several, or pairs of them."""


def checked_name(name: object, taken: Iterable[str]) -> str:
    """A name for a relation, if it can be one."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"A relation needs a name, got {name!r}.")
    flaw = flaw_of_name(name)
    if flaw:
        raise SchemaError(f"{shortened(name)} is no name for a relation: {flaw}.")
    if "." in name:
        raise SchemaError(
            f"A relation's name has no dot in it: {name!r}; columns are relation.column."
        )
    clash = [other for other in taken if other.lower() == name.lower()]
    if clash:
        raise SchemaError(
            f"There is a relation {clash[0]!r} already. To use one table twice, add it under two names."
        )
    return name


def checked_join(left: Relation, right: Relation, join: Join) -> Join:
    """A join of two relations, if values of its columns can be equal."""
    for x, y in join.pairs:
        a, b = left.columns[x], right.columns[y]
        if not a.meets(b) or Kind.OTHER in (a, b):
            raise SchemaError(
                f"Cannot join {left.name}.{x} ({a.phrase}) with {right.name}.{y} ({b.phrase}). "
                "Cast one of them in the source first."
            )
    return join


def join_pairs(left: str, right: str, on: On | None) -> list[tuple[str, str]]:
    """What two relations join on, as pairs of texts."""
    if on is None:
        raise SchemaError(
            f"Say on which columns {left} and {right} join: on='k', ['k1', 'k2'] or a mapping."
        )
    if isinstance(on, str):
        return [(on, on)]
    if not isinstance(on, Iterable):
        raise SchemaError(f"on is a column, a list of columns or {{left: right}}; got {on!r}.")
    pairs = list(on.items()) if isinstance(on, Mapping) else [(name, name) for name in on]
    if not pairs:
        raise SchemaError(f"The join of {left} and {right} names no column.")
    return pairs


def classes_of_pairs(
    columns: Iterable[ColumnName], pairs: Iterable[Pair]
) -> list[tuple[ColumnName, ...]]:
    """These columns, those together that a chain of pairs connects."""
    parent = {column: column for column in columns}

    def root(column: ColumnName) -> ColumnName:
        while parent[column] != column:
            column = parent[column]
        return column

    for x, y in pairs:
        parent[root(y)] = root(x)
    classes: dict[ColumnName, list[ColumnName]] = {}
    for column in parent:
        classes.setdefault(root(column), []).append(column)
    return list(map(tuple, classes.values()))


def joint_kind(kinds: set[Kind]) -> Kind:
    """The kind of an attribute whose columns have these."""
    return common_kind(*kinds) or Kind.OTHER
