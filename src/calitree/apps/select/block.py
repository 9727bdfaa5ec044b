"""A SELECT over the graph: the questions that it asks, and the SELECT over their answers that is left.

Groups and aggregates are the questions'. What a statement makes of them afterwards (HAVING, ORDER BY, window
functions, expressions over groups and aggregates) becomes a SELECT over the answer, a small table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from calitree.apps.select.grammar import own_parts, refused
from calitree.apps.select.groupings import Groupings, groupings_of
from calitree.apps.select.sources.source import GraphSource
from calitree.errors import CalitreeError, ExpressionError, SchemaError, did_you_mean
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.aggregates import with_names
from calitree.query.binder import MeasureLike, Question
from calitree.query.formula import is_aggregate
from calitree.query.grain import GrainMeasure, measure
from calitree.sql.analysis import Resolved
from calitree.sql.nodes import quoted_sql
from calitree.sql.parser import parse_node, typed

MEASURE = "MEASURE"
"""The function that gives a declared measure, as in Spark's metric views."""

FLAGS = exp.Grouping | exp.GroupingId
"""Which of some expressions a grouping set lacks."""

SORTED = ("having", "qualify", "order", "limit", "offset", "distinct", "windows")
"""Clauses that are about the answer."""


class Item(NamedTuple):
    """A column of the SELECT list."""

    name: str
    node: exp.Expr


class Direct(NamedTuple):
    """A block that is one question, whose answer needs no more than its columns put in order."""

    question: Question
    columns: tuple[str, ...]
    in_order: bool
    """Whether the answer has them in this order."""
    deleted: Mapping[str, str]
    """By relation, the rows that are asked about as if they were not there."""


class SelectBlock:
    """Translates one SELECT, whose FROM is read already."""

    def __init__(
        self,
        schema: Schema,
        known: Mapping[str, MeasureLike],
        select: exp.Select,
        source: GraphSource,
        names: Sequence[str],
    ) -> None:
        self.known, self.select, self.source = known, select, source
        self.joined = source.relations or tuple(schema.relations)
        self.schema = remaining_schema(schema, self.joined)
        self.items = self._items(names)
        self._check_columns()
        self.aliases = {item.name.lower(): item.node for item in self.items}
        self.is_aggregated = select.args.get("group") is not None or any(
            self.is_over_rows(node)
            for node in (*(item.node for item in self.items), select.args.get("having"))
            if node is not None
        )
        self.groupings = self._groupings()
        self.keys: dict[str | None, int] = {
            self._group_key(node): at for at, node in enumerate(self.groupings.expressions)
        }

    # -- what is selected ------------------------------------------------------------------------

    def _items(self, names: Sequence[str]) -> list[Item]:
        items: list[Item] = []
        for name, node in zip(names, self.select.expressions, strict=True):
            if node.is_star and not isinstance(node.unalias(), exp.Count):
                raise refused("rows", "* would list the rows of the join; name columns.", node)
            if name.lower() in (item.name.lower() for item in items):
                raise refused("columns", f"Two columns are called {name!r}; use AS.", node)
            items.append(Item(name, self.with_measures(node.unalias())))
        return items

    def _check_columns(self) -> None:
        """An error for a column that is not there, which says where it stands."""
        aliases = {node.alias.lower() for node in self.select.expressions}
        others = {*aliases, *map(str.lower, self.known), "all"}
        for node in own_parts(self.select):
            if isinstance(node, exp.Column) and (node.table or node.name.lower() not in others):
                try:
                    self.resolve(node.table or None, node.name)
                except SchemaError as error:
                    raise refused("columns", str(error), node) from None

    def with_measures(self, node: exp.Expr) -> exp.Expr:
        """With the texts of declared measures in place of their names, and aggregates known as such."""

        def placed(part: exp.Expr) -> exp.Expr:
            name = self._measure_name(part)
            if name is None:
                return part
            given = self.known[name]
            if isinstance(given, str):
                return exp.Paren(this=parse_node(given))
            return exp.Anonymous(this=MEASURE, expressions=[exp.column(name, quoted=True)])

        return with_names(node.copy().transform(placed))

    def _measure_name(self, node: exp.Expr) -> str | None:
        """The declared measure that a node asks for by MEASURE(name), or by its name alone."""
        if isinstance(node, exp.Anonymous) and node.name.upper() == MEASURE:
            given = node.expressions[0].name if len(node.expressions) == 1 else ""
            if given not in self.known:
                hint = did_you_mean(given, self.known)
                raise refused("measures", f"There is no measure {given!r}.{hint}", node)
            return given
        if isinstance(node, exp.Column) and not node.table and node.name in self.known:
            inside = isinstance(node.parent, exp.Anonymous) and node.parent.name.upper() == MEASURE
            return node.name if not inside and self.key(node) is None else None
        return None

    def is_over_rows(self, node: exp.Expr) -> bool:
        """Whether a node has an aggregate of joined rows in it."""
        return any(is_measure(part) for part in _outside_windows(node))

    def _groupings(self) -> Groupings:
        plain = [item.node for item in self.items if not self.is_over_rows(item.node)]
        if self.is_aggregated:
            return groupings_of(self.select, self.grouped, plain)
        if self.select.args.get("distinct") is None:
            raise refused(
                "rows",
                "This lists the rows of the join, one by one. Group them (GROUP BY ALL), or SELECT DISTINCT.",
                self.items[0].node,
            )
        return Groupings(tuple(dict.fromkeys(plain)), (frozenset(range(len(set(plain)))),))

    def grouped(self, node: exp.Expr) -> exp.Expr:
        """What stands in GROUP BY: a column, the number of a column of the SELECT list, or its name."""
        if isinstance(node, exp.Literal) and node.is_int:
            at = int(node.name) - 1
            if not 0 <= at < len(self.items):
                raise refused("groups", f"There is no column {node.name} in the SELECT list.", node)
            return self.items[at].node
        if isinstance(node, exp.Column) and not node.table and self.key(node) is None:
            return self.aliases.get(node.name.lower(), node)
        return node

    def _group_key(self, node: exp.Expr) -> str:
        for part in own_parts(node):
            if is_measure(part) or isinstance(part, exp.Window | exp.Query):
                raise refused("groups", f"{quoted_sql(part)} cannot be grouped by.", node)
        try:
            return typed(node.copy(), self.resolve).sql
        except ExpressionError as error:
            raise refused("expressions", str(error), node) from error

    def key(self, node: exp.Expr) -> str | None:
        """A text that equal expressions share; None if it is no expression over columns."""
        if node.find(exp.AggFunc, exp.Window, exp.Query) is not None:
            return None
        try:
            return typed(node.copy(), self.resolve).sql
        except CalitreeError:
            return None

    def resolve(self, table: str | None, name: str) -> Resolved:
        """What a column means."""
        return self.schema.resolve(table, name, self.joined)

    # -- the questions ---------------------------------------------------------------------------

    def direct(self) -> Direct | None:
        """The block as one question; None if more is to be done."""
        if any(self.select.args.get(clause) for clause in SORTED):
            return None
        if len(self.groupings.sets) > 1:
            return None
        groups: dict[str, str] = {}
        measures: dict[str, MeasureLike] = {}
        for name, node in self.items:
            given = self._own_measure(node)
            if self.key(node) in self.keys:
                groups[name] = text_of(node)
            elif given is not None:
                measures[name] = self.at_grain(given)
            else:
                return None
        if len(groups) < len(self.groupings.expressions) or not measures:
            return None
        question = Question(groups, self.where(), measures, self.source.relations)
        columns = tuple(item.name for item in self.items)
        return Direct(question, columns, columns == (*groups, *measures), self.deleted())

    def _own_measure(self, node: exp.Expr) -> MeasureLike | None:
        """The measure that a node is by itself; None if it has groups, windows or queries in it too."""
        if isinstance(node, exp.Anonymous) and node.name.upper() == MEASURE:
            return self.known[node.expressions[0].name]
        parts = list(own_parts(node))
        if not self.is_over_rows(node) or any(
            isinstance(part, exp.Window | exp.Query | FLAGS)
            or (isinstance(part, exp.Anonymous) and part.name.upper() == MEASURE)
            for part in parts
        ):
            return None
        inside = {id(c) for p in parts if is_aggregate(p) for c in p.find_all(exp.Column)}
        if any(isinstance(part, exp.Column) and id(part) not in inside for part in parts):
            return None
        return text_of(node)

    def parts(self) -> Iterator[tuple[exp.Expr, Question]]:
        """Each of the expressions that it is made of, and a question that asks for nothing else."""
        count = {"rows": "count(*)"}
        for node in self.source.filters:
            yield node, Question((), text_of(node), count, self.source.relations)
        for node in self.groupings.expressions:
            yield node, Question({"group": text_of(node)}, None, count, self.source.relations)
        having = self.select.args.get("having")
        for whole in (*(item.node for item in self.items), *([having.this] if having else [])):
            nodes = list(filter(is_aggregate, own_parts(whole)))
            if isinstance(self._own_measure(whole), str):
                nodes.append(whole)
            for node in nodes:
                measures = {"measure": text_of(node)}
                yield node, Question((), None, measures, self.source.relations)

    def at_grain(self, given: MeasureLike) -> MeasureLike:
        """A measure, whose rows count once if others are joined for EXISTS; SQL text counts joined rows."""
        if not self.source.grain:
            return GrainMeasure(given, None) if isinstance(given, str) else given
        if not isinstance(given, str):
            raise refused(
                "queries", "EXISTS that depends on the row, and a measure that is not SQL."
            )
        return measure(given, grain=list(self.source.grain))

    def deleted(self) -> dict[str, str]:
        """By relation, the rows that outer joins do not see."""
        return {
            relation: f"({' AND '.join(f'({text_of(node)})' for node in conditions)}) IS NOT TRUE"
            for relation, conditions in self.source.optional.items()
        }

    def where(self) -> str | None:
        """The condition of its questions."""
        conditions = self.source.filters
        for node in conditions:
            for part in own_parts(node):
                if is_aggregate(part) or isinstance(part, exp.Window):
                    raise refused("groups", "WHERE has no aggregates; use HAVING.", node)
        return " AND ".join(f"({text_of(node)})" for node in conditions) or None


def is_measure(node: exp.Expr) -> bool:
    """Whether a node is an aggregate of joined rows, or a declared measure."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() == MEASURE
    return is_aggregate(node) and not isinstance(node, FLAGS)


WRAPPED = exp.Filter | exp.IgnoreNulls | exp.RespectNulls
"""What may stand between a window and its function."""


def _outside_windows(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that are no function of a window, but for what such a function is given."""
    functions = set[int]()
    for window in own_parts(node):
        if isinstance(window, exp.Window):
            function = window.this
            functions.add(id(function))
            while isinstance(function, WRAPPED):
                function = function.this
                functions.add(id(function))
    return [part for part in own_parts(node) if id(part) not in functions]


def text_of(node: exp.Expr) -> str:
    """A node as text in our own dialect."""
    return node.sql(dialect="duckdb")


def names_of(select: exp.Select) -> list[str]:
    """What the columns of a SELECT list are called: by AS, by their name, or as they are written."""
    return [
        node.alias_or_name
        if node.alias or isinstance(node, exp.Column)
        else node.sql(dialect="duckdb", normalize_functions="lower")
        for node in select.expressions
    ]
