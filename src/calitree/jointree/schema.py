"""The join graph as a value: relations, and the attributes that the joins make of their columns.

Columns that are joined are one attribute (a class of columns with equal values); a column that takes part
in no join is an attribute by itself. An attribute is named by its first column, `relation.column`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from calitree.cache import cached_property
from calitree.engines.api.contraction import Input, Table
from calitree.errors import (
    CalitreeError,
    ExpressionError,
    QueryError,
    SchemaError,
    did_you_mean,
)
from calitree.jointree.joins.join import AsOf, ColumnName, Join, OuterJoin
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse_node
from calitree.sql.substitution import reference, substituted
from calitree.types import Kind


@dataclass(frozen=True)
class Relation:
    """A named table of the graph, at a revision. The same table may appear under several names.

    `added` tells that it was added to a tree which had messages already. `derived` are columns that its
    table does not have, each as an expression over those that it has. The matches of an as-of join are a
    relation too, with an `as_of`.
    """

    name: str
    table: Table
    revision: int = 0
    added: bool = False
    derived: Mapping[str, Expression] = field(default_factory=dict)
    as_of: AsOf | None = None

    @property
    def columns(self) -> Mapping[str, Kind]:
        """Its columns and their kinds, those that are derived at the end."""
        if not self.derived:
            return self.table.kinds
        return {**self.table.kinds, **{name: given.kind for name, given in self.derived.items()}}


@dataclass(frozen=True)
class Attribute:
    """A class of columns that the joins make equal.

    An outer join makes nothing equal: where a row has no partner, the other column is NULL. Its columns
    are a class of their own, a `match`, by which partners are found and which no question can name.
    """

    name: str
    columns: tuple[ColumnName, ...]
    kind: Kind
    match: bool = False

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """The relations of its columns."""
        return tuple(relation for relation, _ in self.columns)


@dataclass(frozen=True)
class Schema:
    """A join graph: what queries, trees and measures are resolved against."""

    relations: Mapping[str, Relation]
    joins: tuple[Join, ...]
    attributes: Mapping[str, Attribute]
    outer: tuple[OuterJoin, ...] = ()

    @cached_property
    def attribute_of(self) -> dict[ColumnName, str]:
        """The attribute of each column."""
        return {c: a.name for a in self.attributes.values() if not a.match for c in a.columns}

    @cached_property
    def optional(self) -> dict[str, OuterJoin]:
        """The relations that may be NULL for want of a partner, and the join in which."""
        return {name: join for join in self.outer for name in join.optional}

    @cached_property
    def columns_of(self) -> dict[str, dict[str, str]]:
        """For each relation, its attributes and the column of each."""
        columns: dict[str, dict[str, str]] = {name: {} for name in self.relations}
        for attribute in self.attributes.values():
            for relation, column in attribute.columns:
                columns[relation][attribute.name] = column
        return columns

    @cached_property
    def attributes_of(self) -> dict[str, frozenset[str]]:
        """The attributes of each relation."""
        return {relation: frozenset(columns) for relation, columns in self.columns_of.items()}

    @cached_property
    def first_joins(self) -> tuple[Join, ...]:
        """The joins without those of relations that were added later, which are all inner.

        These change nothing about outer joins: where an optional relation is NULL, they find no partner.
        """
        added = {name for name, relation in self.relations.items() if relation.added}
        return tuple(join for join in self.joins if added.isdisjoint((join.left, join.right)))

    @cached_property
    def matches(self) -> dict[str, AsOf]:
        """The as-of joins, by the relations that are their matches."""
        return {r.name: r.as_of for r in self.relations.values() if r.as_of is not None}

    @property
    def has_outer(self) -> bool:
        """Whether a join was declared as an outer one."""
        return any(join.how != "inner" for join in self.joins)

    @cached_property
    def nullable(self) -> frozenset[str]:
        """The relations that are NULL in some rows of the join."""
        full = any(join.is_full for join in self.outer)
        return frozenset(self.relations if full else self.optional)

    @cached_property
    def derived_of(self) -> dict[str, dict[str, Expression]]:
        """For each relation, its derived attributes as expressions over its other attributes."""
        derived: dict[str, dict[str, Expression]] = {}
        for name, relation in self.relations.items():
            kinds, attribute_of = relation.table.kinds, self.attribute_of
            used = {c for definition in relation.derived.values() for c in definition.attributes}
            own = {c: reference(attribute_of[name, c], (name,), kinds[c], c) for c in used}
            derived[name] = {
                attribute: substituted(relation.derived[column], own)
                for attribute, column in self.columns_of[name].items()
                if column in relation.derived
            }
        return derived

    def input_of(self, name: str, wanted: Iterable[str] = (), table: Table | None = None) -> Input:
        """A relation as an input, with those of its derived attributes that are wanted.

        In place of its table it may have another of the same columns.
        """
        table = self.relations[name].table if table is None else table
        columns, derived = self.columns_of[name], self.derived_of[name]
        if not derived:
            return Input(table, columns)
        stored = {a: column for a, column in columns.items() if a not in derived}
        return Input(table, stored, {a: derived[a] for a in wanted if a in derived})

    def inlined(self, expression: Expression, relations: Iterable[str]) -> Expression:
        """An expression with the definitions of these relations' derived attributes in their place."""
        for name in relations:
            if self.derived_of[name]:
                expression = substituted(expression, self.derived_of[name])
        return expression

    def resolve(self, table: str | None, name: str, among: Iterable[str] | None = None) -> Resolved:
        """What a column means, as written; `among` limits the relations it may come from."""
        names = self.relations if among is None else among
        available = tuple(name for name in names if name not in self.matches)
        if table is None:
            return self._resolve_bare(name, available)
        relation = self.relation(table)
        if relation.name not in available:
            raise QueryError(f"{table}.{name} is not available: {table} is left out of this query.")
        column = find_column(name, relation)
        attribute = self.attribute_of[relation.name, column]
        return Resolved(attribute, (relation.name,), relation.columns[column])

    def _resolve_bare(self, name: str, available: tuple[str, ...]) -> Resolved:
        """A column without its relation."""
        relations = [self.relations[relation] for relation in available]
        matches = [(relation.name, name) for relation in relations if name in relation.columns]
        if not matches:
            folded = [(relation.name, find_name(name, relation.columns)) for relation in relations]
            matches = [(relation, column) for relation, column in folded if column is not None]
        copies = _copies(self, {self.attribute_of[match] for match in matches})
        matches = [match for match in matches if self.attribute_of[match] not in copies]
        # A relation that was added does not change what a name means.
        matches[1:] = [match for match in matches[1:] if not self.relations[match[0]].added]
        if not matches:
            raise self._no_column(name, available)
        attributes = {self.attribute_of[match] for match in matches}
        if len(attributes) > 1:
            options = " or ".join(map(".".join, matches))
            raise SchemaError(f"{name!r} is ambiguous: it may be {options}. Write one of these.")
        (relation, column), *_ = matches
        owners = tuple(relation for relation, _ in matches)
        return Resolved(attributes.pop(), owners, self.relations[relation].columns[column])

    def _no_column(self, name: str, available: tuple[str, ...]) -> CalitreeError:
        for relation in self.relations.values():
            if relation.name not in available and name in relation.columns:
                return QueryError(
                    f"{name} is not available: {relation.name} is left out of this query."
                )
        for relation in map(self.relations.__getitem__, available):
            refuse_unsupported(name, relation)
        options = [column for r in available for column in self.relations[r].columns]
        return SchemaError(f"No relation has a column {name!r}.{did_you_mean(name, options)}")

    def column(self, text: str, among: Iterable[str] | None = None) -> Resolved:
        """Resolve a column given as text: `relation.column`, a bare name, or with SQL quotes."""
        column = self.column_or_node(text, among)
        if not isinstance(column, Resolved):
            raise QueryError(f"{text!r} is not a column; write relation.column, or its bare name.")
        return column

    def column_or_node(self, text: str, among: Iterable[str] | None = None) -> Resolved | exp.Expr:
        """What a text stands for, if it names a column; else the expression that it is, as parsed."""
        if not isinstance(text, str):
            raise QueryError(f"A column is named by text, got {type(text).__name__}: {text!r}.")
        table, dot, name = text.partition(".")
        if dot and table in self.relations and name in self.relations[table].columns:
            return self.resolve(table, name, among)
        if any(text in relation.columns for relation in self.relations.values()):
            return self.resolve(None, text, among)
        try:
            node = parse_node(text)
        except ExpressionError:
            if dot and find_name(table, self.relations) is not None:
                return self.resolve(table, name, among)
            raise
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        if node.args.get("db"):
            raise QueryError(f"{text!r} is not a column; write relation.column, or its bare name.")
        return self.resolve(node.table or None, node.name, among)

    def with_columns(self, columns: Iterable[tuple[str, str, Expression]]) -> Schema:
        """The graph with more derived columns: the relation, the name and the definition of each."""
        relations, attributes = dict(self.relations), dict(self.attributes)
        for name, column, definition in columns:
            relation, attribute = relations[name], f"{name}.{column}"
            relations[name] = replace(relation, derived={**relation.derived, column: definition})
            attributes[attribute] = Attribute(attribute, ((name, column),), definition.kind)
        return Schema(relations, self.joins, attributes, self.outer) if columns else self

    def relation(self, name: str) -> Relation:
        """The relation of a name, whatever its case."""
        relation = find_relation(name, self.relations)
        if relation.as_of is not None:
            raise SchemaError(
                f"{relation.name!r} follows from {relation.as_of.left} and {relation.as_of.right}: it tells "
                "which of their rows meet. Name these instead."
            )
        return relation

    def having(self, changed: Mapping[str, Relation]) -> Schema:
        """The same graph with other tables, of the same columns, for some relations."""
        if not changed:
            return self
        other = Schema({**self.relations, **changed}, self.joins, self.attributes, self.outer)
        for derived in ("attribute_of", "columns_of", "derived_of", "matches"):  # of names alone
            other.__dict__[derived] = getattr(self, derived)
        return other

    def rows(self, name: str) -> int:
        """How many rows a relation has; an engine may count them when first asked."""
        return self.relations[name].table.rows

    def declared_joins(self, relations: Iterable[str]) -> tuple[Join, ...]:
        """The joins declared between these relations, in the order of their declaration."""
        among = frozenset(relations)
        return tuple(join for join in self.joins if among.issuperset((join.left, join.right)))

    def components(self, among: Iterable[str] | None = None) -> list[list[str]]:
        """The relations grouped by whether a chain of joins declared between them connects them."""
        left = list(self.relations if among is None else among)
        joins = self.declared_joins(left)
        groups: list[list[str]] = []
        while left:
            group, frontier = [left[0]], [left.pop(0)]
            while frontier:
                one = frontier.pop()
                joined = {
                    name for j in joins if one in (j.left, j.right) for name in (j.left, j.right)
                }
                near = [other for other in left if other in joined]
                left = [other for other in left if other not in near]
                group += near
                frontier += near
            groups.append(group)
        return groups


def _copies(schema: Schema, attributes: set[str]) -> set[str]:
    """What outer joins compare with these: a bare name is, as with USING, that of the preserved side."""
    copies: set[str] = set()
    for join in schema.outer:  # Those nearest to the core come first.
        for ours, theirs in join.pairs:
            one, other = schema.attribute_of[ours], schema.attribute_of[theirs]
            if not join.is_full and one != other and one in attributes | copies:
                copies.add(other)
    return copies


def find_relation(name: str, relations: Mapping[str, Relation]) -> Relation:
    """The relation of a name, exactly or the only one that differs in case."""
    match = find_name(name, relations)
    if match is None:
        declared = [known for known, relation in relations.items() if relation.as_of is None]
        raise SchemaError(f"There is no relation {name!r}.{did_you_mean(str(name), declared)}")
    return relations[match]


def find_column(name: str, relation: Relation) -> str:
    """The column of a name, exactly or the only one that differs in case."""
    match = find_name(name, relation.columns)
    if match is None:
        refuse_unsupported(name, relation)
        hint = did_you_mean(str(name), relation.columns)
        raise SchemaError(f"{relation.name} has no column {name!r}.{hint}")
    return match


def refuse_unsupported(name: object, relation: Relation) -> None:
    """An error if a source has this column, and it is of a type that cannot be used."""
    unsupported = relation.table.unsupported
    match = find_name(name, unsupported)
    if match is not None:
        raise SchemaError(f"{relation.name}.{match} is {unsupported[match]}.")


def find_name(name: object, options: Iterable[str]) -> str | None:
    """`name` among `options`: exactly, or the only one that differs in case."""
    if not isinstance(name, str):
        return None
    known = list(options)
    if name in known:
        return name
    folded = [option for option in known if option.lower() == name.lower()]
    return folded[0] if len(folded) == 1 else None
