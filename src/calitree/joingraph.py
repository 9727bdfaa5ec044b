"""The join graph: relations, how they join, and the attributes that the joins make of their columns.

Columns that are joined are one attribute (a class of columns with equal values); a column that takes part
in no join is an attribute by itself. An attribute is named by its first column, `relation.column`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.engines import Engine, Table, engine_of
from calitree.errors import ExpressionError, QueryError, SchemaError, TreeError, did_you_mean
from calitree.expressions import Resolved, parse_node
from calitree.types import Kind

if TYPE_CHECKING:
    from calitree.calibrated import WideTable
    from calitree.hypertree import Hypertree
    from calitree.measures import Measure
    from calitree.progress import Progress

On = str | Sequence[str] | Mapping[str, str]
ColumnName = tuple[str, str]


@dataclass(frozen=True)
class Relation:
    """A named table of the graph, at a version. The same table may appear under several names."""

    name: str
    table: Table
    version: int = 0

    @property
    def columns(self) -> Mapping[str, Kind]:
        return self.table.kinds


@dataclass(frozen=True)
class Join:
    """Equality of one or more pairs of columns."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        on = " and ".join(f"{self.left}.{a} = {self.right}.{b}" for a, b in self.pairs)
        return f"{self.left} ⋈ {self.right} on {on}"


@dataclass(frozen=True)
class Attribute:
    """A class of columns that the joins make equal."""

    name: str
    columns: tuple[ColumnName, ...]
    kind: Kind

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(relation for relation, _ in self.columns)


@dataclass(frozen=True)
class Schema:
    """A join graph at rest: what queries, trees and measures are resolved against."""

    relations: Mapping[str, Relation]
    joins: tuple[Join, ...]
    attributes: Mapping[str, Attribute]

    @cached_property
    def attribute_of(self) -> dict[ColumnName, str]:
        return {c: a.name for a in self.attributes.values() for c in a.columns}

    @cached_property
    def columns_of(self) -> dict[str, dict[str, str]]:
        """For each relation, its attributes and the column that carries each."""
        found: dict[str, dict[str, str]] = {name: {} for name in self.relations}
        for attribute in self.attributes.values():
            for relation, column in attribute.columns:
                found[relation][attribute.name] = column
        return found

    def resolve(self, table: str | None, name: str, among: Iterable[str] | None = None) -> Resolved:
        """What a column means, as written; `among` limits the relations it may come from."""
        inside = tuple(self.relations) if among is None else tuple(among)
        if table is not None:
            relation = self.relation(table)
            if relation.name not in inside:
                raise QueryError(
                    f"{table}.{name} is not available: {table} is left out of this query."
                )
            column = _match(name, relation.columns)
            if column is None:
                hint = did_you_mean(name, relation.columns)
                raise SchemaError(f"{relation.name} has no column {name!r}.{hint}")
            attribute = self.attribute_of[relation.name, column]
            return Resolved(attribute, (relation.name,), relation.columns[column])
        return self._resolve_bare(name, inside)

    def _resolve_bare(self, name: str, inside: tuple[str, ...]) -> Resolved:
        found: list[ColumnName] = []
        for exactly in (True, False):
            for relation in inside:
                column = _match(name, self.relations[relation].columns, exactly)
                if column is not None:
                    found.append((relation, column))
            if found:
                break
        if not found:
            options = [c for r in inside for c in self.relations[r].columns]
            elsewhere = [
                r for r in self.relations if r not in inside and name in self.relations[r].columns
            ]
            if elsewhere:
                raise QueryError(
                    f"{name} is not available: {elsewhere[0]} is left out of this query."
                )
            raise SchemaError(f"No relation has a column {name!r}.{did_you_mean(name, options)}")
        attributes = {self.attribute_of[each] for each in found}
        if len(attributes) > 1:
            options = [f"{relation}.{column}" for relation, column in found]
            raise SchemaError(
                f"{name!r} is ambiguous: it may be {' or '.join(options)}. Write one of these."
            )
        relation, column = found[0]
        owners = tuple(relation for relation, _ in found)
        return Resolved(attributes.pop(), owners, self.relations[relation].columns[column])

    def column(self, text: str, among: Iterable[str] | None = None) -> Resolved:
        """Resolve a column given as text: `relation.column`, a bare name, or with SQL quotes."""
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
            node = None
        if node is None and dot:
            return self.resolve(table, name, among)
        if (
            not isinstance(node, exp.Column)
            or isinstance(node.this, exp.Star)
            or node.args.get("db")
        ):
            raise QueryError(f"{text!r} is not a column; write relation.column, or its bare name.")
        return self.resolve(node.table or None, node.name, among)

    def relation(self, name: str) -> Relation:
        match = _match(name, self.relations)
        if match is None:
            raise SchemaError(
                f"There is no relation {name!r}.{did_you_mean(str(name), self.relations)}"
            )
        return self.relations[match]

    def kind(self, attribute: str) -> Kind:
        return self.attributes[attribute].kind

    def components(self, among: Iterable[str] | None = None) -> list[list[str]]:
        """The relations grouped by whether a chain of shared attributes connects them."""
        left = list(self.relations if among is None else among)
        groups: list[list[str]] = []
        while left:
            group, frontier = [left[0]], [left.pop(0)]
            while frontier:
                here = self.columns_of[frontier.pop()].keys()
                near = [other for other in left if here & self.columns_of[other].keys()]
                left = [other for other in left if other not in near]
                group += near
                frontier += near
            groups.append(group)
        return groups


def _match(name: object, options: Iterable[str], exactly: bool | None = None) -> str | None:
    """`name` among `options`: exactly, or the only one that differs in case."""
    known = list(options)
    if not isinstance(name, str):
        return None
    if exactly is not False and name in known:
        return name
    if exactly is True:
        return None
    folded = [option for option in known if option.lower() == name.lower()]
    return folded[0] if len(folded) == 1 else None


class JoinGraph:
    """Declare relations and joins, then `calibrate`.

    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    >>> g.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    >>> g.add_join("sales", "stores", on={"store": "id"})
    >>> wide = g.calibrate({"revenue": "sum(price)"})
    >>> wide.query(group_by=["city"]).rows()
    [{'city': 'Quito', 'revenue': 30}, {'city': 'Cuenca', 'revenue': 5}]
    """

    def __init__(self, engine: Any = "local") -> None:
        self.engine: Engine = engine_of(engine)
        self._relations: dict[str, Relation] = {}
        self._joins: list[Join] = []
        self._parent: dict[ColumnName, ColumnName] = {}

    def add_relation(self, name: str, source: Any) -> None:
        """Add a table: an Arrow table, a pandas or polars frame, a Parquet or CSV path or glob, and on
        Spark also a DataFrame or the name of a table."""
        if not isinstance(name, str) or not name:
            raise SchemaError(f"A relation needs a name, got {name!r}.")
        if "." in name:
            raise SchemaError(
                f"A relation's name has no dot in it: {name!r}; columns are relation.column."
            )
        clash = [other for other in self._relations if other.lower() == name.lower()]
        if clash:
            raise SchemaError(
                f"There is a relation {clash[0]!r} already. To use one table twice, add it under two names."
            )
        table = self.engine.load(name, source)
        self._relations[name] = Relation(name, table)
        for column in table.kinds:
            self._parent[name, column] = (name, column)

    def add_join(
        self,
        left: str,
        right: str,
        on: On | None = None,
        *,
        how: str = "inner",
        condition: str | None = None,
    ) -> None:
        """Join two relations on equal columns: `"k"`, `["k1", "k2"]` or `{"left_col": "right_col"}`."""
        if condition is not None:
            raise SchemaError(
                "Joins by a condition are not supported in this version; join on columns."
            )
        if how != "inner":
            raise SchemaError(
                f"how={how!r} is not supported in this version: joins are inner. Rows without a partner "
                "count again in a query that leaves the partner out (relations=[...])."
            )
        a, b = self._relation(left), self._relation(right)
        if a.name == b.name:
            raise SchemaError(
                f"{left} cannot join itself; add its table a second time under another name."
            )
        pairs = tuple((self._column(a, x), self._column(b, y)) for x, y in _pairs(left, right, on))
        for x, y in pairs:
            if not a.columns[x].meets(b.columns[y]) or Kind.OTHER in (a.columns[x], b.columns[y]):
                raise SchemaError(
                    f"Cannot join {a.name}.{x} ({a.columns[x].phrase}) with {b.name}.{y} "
                    f"({b.columns[y].phrase}). Cast one of them in the source first."
                )
        self._unite(Join(a.name, b.name, pairs))

    def _unite(self, join: Join) -> None:
        parent = dict(self._parent)
        for x, y in join.pairs:
            parent[_root(parent, (join.right, y))] = _root(parent, (join.left, x))
        classes: dict[ColumnName, dict[str, str]] = {}
        for relation, column in parent:
            seen = classes.setdefault(_root(parent, (relation, column)), {})
            if relation in seen:
                raise SchemaError(
                    f"{join} would make {relation}.{seen[relation]} and {relation}.{column} equal. If that is "
                    f"not meant, add {join.left} or {join.right} a second time under another name and join that."
                )
            seen[relation] = column
        self._parent = parent
        self._joins.append(join)

    def _relation(self, name: str) -> Relation:
        match = _match(name, self._relations)
        if match is None:
            raise SchemaError(
                f"There is no relation {name!r}.{did_you_mean(str(name), self._relations)}"
            )
        return self._relations[match]

    def _column(self, relation: Relation, name: str) -> str:
        match = _match(name, relation.columns)
        if match is None:
            hint = did_you_mean(str(name), relation.columns)
            raise SchemaError(f"{relation.name} has no column {name!r}.{hint}")
        return match

    @property
    def schema(self) -> Schema:
        """The graph as declared so far, as a value."""
        classes: dict[ColumnName, list[ColumnName]] = {}
        for each in self._parent:
            classes.setdefault(_root(self._parent, each), []).append(each)
        attributes = {}
        for members in classes.values():
            kinds = {self._relations[r].columns[c] for r, c in members}
            name = ".".join(members[0])
            attributes[name] = Attribute(name, tuple(members), _joint_kind(kinds))
        return Schema(dict(self._relations), tuple(self._joins), attributes)

    def hypertree(
        self,
        bags: Mapping[str, Sequence[str]] | None = None,
        edges: Iterable[tuple[str, str]] | None = None,
        mapping: Mapping[str, str] | None = None,
        *,
        empty: Mapping[str, Sequence[str]] | None = None,
    ) -> Hypertree:
        """The junction hypertree of this graph: one bag a relation, or as you give it.

        `bags` names each bag and lists relations (all their columns) and columns; `edges` connects them;
        `mapping` says which bag each relation belongs to, where several could hold it. `empty` adds empty bags,
        views of columns that one bag has together: `empty={"when_where": ["sales.day", "sales.store"]}`.
        """
        from calitree.decompose import given_tree, join_tree

        schema = self.schema
        if bags is not None:
            tree = given_tree(schema, bags, edges or (), mapping or {})
        elif edges is not None or mapping is not None:
            raise TreeError("edges and mapping describe bags: give bags too.")
        else:
            tree = join_tree(schema)
        for name, columns in (empty or {}).items():
            if isinstance(columns, str):
                raise TreeError(f"Empty bag {name} is a list of columns, not one text.")
            tree = tree.with_empty_bag(name, (schema.column(c).attribute for c in columns))
        return tree

    def calibrate(
        self,
        measures: Mapping[str, str | Measure] | None = None,
        group_by: Sequence[str] = (),
        where: str | None = None,
        *,
        tree: Hypertree | None = None,
        memory_limit: int = 1 << 30,
        progress: Progress | bool | None = None,
    ) -> WideTable:
        """Pass all messages of the pivot query in both directions and keep them.

        `measures` defaults to `{"n": "count(*)"}`. `memory_limit` bounds what delta queries may keep
        beside the pivot's own messages, in bytes.
        """
        from calitree.calibrated import WideTable
        from calitree.hypertree import Hypertree

        if not isinstance(measures, Mapping | None):
            raise QueryError(f"measures is {{name: expression}}; got {measures!r}.")
        if not isinstance(tree, Hypertree | None):
            raise TreeError(f"A tree is what g.hypertree() makes; got {type(tree).__name__}.")
        return WideTable.calibrated(
            self.schema,
            self.engine,
            tree if tree is not None else self.hypertree(),
            measures={"n": "count(*)"} if measures is None else measures,
            group_by=group_by,
            where=where,
            memory_limit=memory_limit,
            progress=progress,
        )

    def __repr__(self) -> str:
        lines = [f"JoinGraph on {self.engine.name}"]
        lines += [f"  {name}({', '.join(r.columns)})" for name, r in self._relations.items()]
        lines += [f"  {join}" for join in self._joins]
        return "\n".join(lines)


def _root(parent: Mapping[ColumnName, ColumnName], each: ColumnName) -> ColumnName:
    while parent[each] != each:
        each = parent[each]
    return each


def _pairs(left: str, right: str, on: On | None) -> list[tuple[str, str]]:
    if on is None:
        raise SchemaError(
            f"Say on which columns {left} and {right} join: on='k', ['k1', 'k2'] or a mapping."
        )
    if isinstance(on, str):
        return [(on, on)]
    if not isinstance(on, Iterable):
        raise SchemaError(f"on is a column, a list of columns or {{left: right}}; got {on!r}.")
    pairs = list(on.items()) if isinstance(on, Mapping) else [(each, each) for each in on]
    if not pairs:
        raise SchemaError(f"The join of {left} and {right} names no column.")
    return pairs


def _joint_kind(kinds: set[Kind]) -> Kind:
    known = kinds - {Kind.NULL}
    if len(known) <= 1:
        return known.pop() if known else Kind.NULL
    return Kind.FLOAT if Kind.FLOAT in known else Kind.DECIMAL
