"""Where a wide table comes from: a join graph that is declared, or a tree that was saved.

Mistakes are told when they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from calitree.calibration.branch import MEMORY_LIMIT, Branch
from calitree.calibration.state import Mode
from calitree.engines.api.protocol import Engine
from calitree.engines.registry import engine_of
from calitree.errors import QueryError, SchemaError, TreeError, did_you_mean
from calitree.jointree.decompose import given_tree, join_tree
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins import On, checked_join, checked_name, joint_kind
from calitree.jointree.schema import Attribute, ColumnName, Join, Relation, Schema, find_name
from calitree.progress import Progress
from calitree.query.binder import MeasureLike, Question
from calitree.saved.reader import read_tree
from calitree.wide_table import WideTable


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

    def __init__(self, engine: Any = None) -> None:
        self.engine: Engine = engine_of(engine)
        self._relations: dict[str, Relation] = {}
        self._joins: list[Join] = []
        self._parent: dict[ColumnName, ColumnName] = {}

    def add_relation(self, name: str, source: Any) -> None:
        """Add a table: an Arrow table, a pandas or polars frame, a Parquet or CSV path or glob, and
        on Spark also a DataFrame or the name of a table."""
        checked_name(name, self._relations)
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
        """Join two relations on equal columns: `"k"`, `["k1", "k2"]` or `{"left_col":
        "right_col"}`.
        """
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
        self._unite(checked_join(a, b, Join(a.name, b.name, pairs)))

    def _unite(self, join: Join) -> None:
        parent = dict(self._parent)
        for x, y in join.pairs:
            parent[_root(parent, (join.right, y))] = _root(parent, (join.left, x))
        classes: dict[ColumnName, dict[str, str]] = {}
        for relation, column in parent:
            seen = classes.setdefault(_root(parent, (relation, column)), {})
            if relation in seen:
                raise SchemaError(
                    f"{join} would make {relation}.{seen[relation]} and {relation}.{column} equal. "
                    f"If that is not meant, add {join.left} or {join.right} a second time under another "
                    "name and join that."
                )
            seen[relation] = column
        self._parent = parent
        self._joins.append(join)

    def _relation(self, name: str) -> Relation:
        match = find_name(name, self._relations)
        if match is None:
            raise SchemaError(
                f"There is no relation {name!r}.{did_you_mean(str(name), self._relations)}"
            )
        return self._relations[match]

    def _column(self, relation: Relation, name: str) -> str:
        match = find_name(name, relation.columns)
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
            attributes[name] = Attribute(name, tuple(members), joint_kind(kinds))
        return Schema(dict(self._relations), tuple(self._joins), attributes)

    def hypertree(
        self,
        bags: Mapping[str, Sequence[str]] | None = None,
        edges: Iterable[tuple[str, str]] | None = None,
        mapping: Mapping[str, str] | None = None,
        *,
        empty: Mapping[str, Sequence[str]] | None = None,
        redundant: bool = False,
    ) -> Hypertree:
        """The junction hypertree of this graph: found automatically, or as you give it.

        Each relation has its own bag, but for those that close a cycle: they share bags, chosen so
        that the joins inside stay small. `redundant=True` gives these too a bag of their own, around
        empty bags; messages are larger then, but one relation can change without joining the
        others again. Print the tree to see its bags and how large they can become.

        `bags` names each bag and lists relations (all their columns) and columns; `edges` connects
        them; `mapping` says which bag each relation belongs to, where several could hold it.
        `empty` adds empty bags, views of columns that one bag has together: `empty={"when_where":
        ["sales.day", "sales.store"]}`.
        """
        schema = self.schema
        if bags is not None and redundant:
            raise TreeError(
                "redundant=True finds the bags by itself: leave out bags, or write there one bag for "
                "each relation and one that lists only columns."
            )
        if bags is not None:
            tree = given_tree(schema, bags, edges or (), mapping or {})
        elif edges is not None or mapping is not None:
            raise TreeError("edges and mapping describe bags: give bags too.")
        else:
            tree = join_tree(schema, redundant=redundant)
        for name, columns in (empty or {}).items():
            if isinstance(columns, str):
                raise TreeError(f"Empty bag {name} is a list of columns, not one text.")
            tree = tree.with_empty_bag(name, (schema.column(c).attribute for c in columns))
        return tree

    def calibrate(
        self,
        measures: Mapping[str, MeasureLike] | None = None,
        group_by: Sequence[str] = (),
        where: str | None = None,
        *,
        tree: Hypertree | None = None,
        memory_limit: int = MEMORY_LIMIT,
        maintenance: Mode = "lazy",
        progress: Progress | bool | None = None,
    ) -> WideTable:
        """Pass all messages of the pivot query in both directions and keep them.

        `measures` defaults to `{"n": "count(*)"}`. `memory_limit` bounds what delta queries may
        keep beside the pivot's own messages, in bytes.

        `maintenance` says what happens to messages when relations are updated. `"lazy"`: a query
        brings those up to date that it needs. `"eager"`: every update brings all up to date.
        `"recompute"`: a query computes those anew that it needs.
        """

        if not isinstance(measures, Mapping | None):
            raise QueryError(f"measures is {{name: expression}}; got {measures!r}.")
        if not isinstance(tree, Hypertree | None):
            raise TreeError(f"A tree is what g.hypertree() makes; got {type(tree).__name__}.")
        branch = Branch.new(
            self.schema,
            self.engine,
            tree if tree is not None else self.hypertree(),
            {"n": "count(*)"} if measures is None else measures,
            Question(tuple(group_by), where),
            memory_limit=memory_limit,
            maintenance=maintenance,
        )
        wide = WideTable(branch)
        wide.refresh(progress)
        return wide

    def __repr__(self) -> str:
        lines = [f"JoinGraph on {self.engine.name}"]
        lines += [f"  {name}({', '.join(r.columns)})" for name, r in self._relations.items()]
        lines += [f"  {join}" for join in self._joins]
        return "\n".join(lines)


def open_tree(
    path: str | PathLike[str], engine: Any = None, version: int | None = None
) -> WideTable:
    """Open a tree that `WideTable.save` has saved: the newest, or an older `version`.

    `engine` is what `JoinGraph` takes, whatever engine the tree was saved from. What a query needs
    beyond the saved messages is read from the relations, if they are still where they were.
    """
    return WideTable(*read_tree(path, engine_of(engine), version))


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
