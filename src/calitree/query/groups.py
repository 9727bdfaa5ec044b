"""What a question groups by: columns, and expressions over one relation or several.

An expression over the columns of one relation is a derived column of it, called by its own text, and
grouped by like any other. For one over several relations, the columns that it needs are kept up to the
root, and what is absorbed there is grouped once more, by its value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from calitree.errors import QueryError, shortened
from calitree.jointree.schema import Relation, Schema
from calitree.sql.analysis import Resolved
from calitree.sql.limits import flaw_of_name
from calitree.sql.nodes import owners
from calitree.sql.parser import Expression, typed
from calitree.sql.substitution import reference, substituted
from calitree.types import Kind

GroupBy = Sequence[str] | Mapping[str, str]
"""Columns and expressions; result columns are called as they are written, or by the names of a mapping."""


class DerivedColumn(NamedTuple):
    """A column of a relation that only one question has, and its definition over the others."""

    relation: str
    name: str
    definition: Expression


@dataclass(frozen=True)
class GroupColumns:
    """The columns of a result that are grouped by, and what they are computed from."""

    columns: tuple[tuple[str, str], ...] = ()
    """Each column of the result, and its attribute."""
    derived: tuple[DerivedColumn, ...] = ()
    """Columns that relations must have for it."""
    folded: tuple[tuple[str, Expression], ...] = ()
    """Attributes that no relation has, each as an expression over attributes that are kept."""

    @property
    def keep(self) -> tuple[str, ...]:
        """The attributes that messages keep, each once."""
        folded = dict(self.folded)
        kept: dict[str, None] = {}
        for _, attribute in self.columns:
            needed = folded[attribute].attributes if attribute in folded else (attribute,)
            kept |= dict.fromkeys(sorted(needed))
        return tuple(kept)


def groups_of(schema: Schema, given: GroupBy, joined: Sequence[str]) -> GroupColumns:
    """Resolve and check what a question groups by."""
    columns: list[tuple[str, str]] = []
    derived: dict[DerivedColumn, None] = {}
    folded: dict[str, Expression] = {}
    for name, text in named_groups(given):
        given_as = schema.column_or_node(text, joined)
        if isinstance(given_as, Resolved):
            columns.append((name, given_as.attribute))
            continue
        if isinstance(given_as, exp.Star) or given_as.find(exp.Star):
            raise QueryError(f"{text!r} is not a column; write relation.column, or its bare name.")
        expression = typed(given_as, lambda table, column: schema.resolve(table, column, joined))
        able = owners(expression.node)
        if able is None or expression.kind in (Kind.NULL, Kind.OTHER):
            raise QueryError(f"{shortened(text)} has no column whose values make groups.")
        if able:
            # The last one: facts tend to be declared before what they refer to.
            relation = schema.relations[next(r for r in reversed(joined) if r in able)]
            attribute, column = _derived(schema, relation, expression)
            derived |= dict.fromkeys(column)
            columns.append((name, attribute))
        else:
            attribute = expression.sql
            while attribute in schema.attributes:  # A column may be called so.
                attribute += "'"
            folded[attribute] = expression
            columns.append((name, attribute))
    return GroupColumns(tuple(columns), tuple(derived), tuple(folded.items()))


def _derived(
    schema: Schema, relation: Relation, expression: Expression
) -> tuple[str, list[DerivedColumn]]:
    """The attribute of an expression over one relation, and its column if the relation lacks it."""
    own: dict[str, Expression] = {}
    for attribute in expression.attributes:
        column = schema.columns_of[relation.name][attribute]
        stored = reference(column, (relation.name,), relation.columns[column])
        own[attribute] = relation.derived.get(column, stored)
    definition = substituted(expression, own)
    for column, known in relation.derived.items():
        if known == definition:
            return schema.attribute_of[relation.name, column], []
    name = definition.sql
    while name in relation.columns:  # A column may be called so.
        name += "'"
    return f"{relation.name}.{name}", [DerivedColumn(relation.name, name, definition)]


def kept_groups(given: GroupBy) -> tuple[str, ...] | dict[str, str]:
    """What is grouped by, as a value that nobody else changes."""
    return dict(given) if isinstance(given, Mapping) else tuple(given)


def named_groups(given: GroupBy) -> list[tuple[str, str]]:
    """The name and the text of each group, checked to be different."""
    if isinstance(given, str):
        raise QueryError(f"group_by is a list of columns; write group_by=[{given!r}].")
    if not isinstance(given, Collection):
        raise QueryError(f"group_by is a list of columns; got {type(given).__name__}.")
    if isinstance(given, Mapping):
        for name in given:
            flaw = "it is no text" if not isinstance(name, str) else flaw_of_name(name)
            if flaw or not name:
                raise QueryError(f"{name!r} is no name for a group: {flaw or 'it is empty'}.")
        return list(given.items())
    written = list(given)
    for text in written:
        if written.count(text) > 1:
            raise QueryError(f"{text!r} is grouped by twice.")
    return [(text, text) for text in written]
