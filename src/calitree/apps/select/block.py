"""A SELECT over the graph: the questions that it asks, and the SELECT over their answers that is left.

Groups and aggregates are the questions'. What a statement makes of them afterwards (HAVING, ORDER BY, window
functions, expressions over groups and aggregates) becomes a SELECT over the answer, a small table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from calitree.apps.select.grammar import own_parts, refused
from calitree.apps.select.groupings import Groupings, groupings_of
from calitree.apps.select.sources import Source
from calitree.errors import CalitreeError, SchemaError, did_you_mean
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.aggregates import with_names
from calitree.query.binder import MeasureLike, Question
from calitree.query.formula import is_aggregate
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


class OverAnswers(NamedTuple):
    """A block over the answers to some questions, which are one table, one below the other."""

    questions: tuple[Question, ...]
    constants: tuple[Mapping[str, int], ...]
    """For each question, columns that its answer has besides: those of GROUPING."""
    select: exp.Select
    """The rest, over a table that is called `name`."""


class Block:
    """Translates one SELECT, whose FROM is read already."""

    def __init__(
        self,
        schema: Schema,
        known: Mapping[str, MeasureLike],
        select: exp.Select,
        source: Source,
        names: Sequence[str],
    ) -> None:
        self.known, self.select, self.source = known, select, source
        self.joined = source.relations or tuple(schema.relations)
        self.schema = remaining_schema(schema, self.joined)
        self.items = self._items(names)
        self._check_columns()
        self.aliases = {item.name.lower(): item.node for item in self.items}
        self.is_aggregated = select.args.get("group") is not None or any(
            self._is_over_rows(node)
            for node in (*(item.node for item in self.items), select.args.get("having"))
            if node is not None
        )
        self.groupings = self._groupings()
        self.keys = {self._key(node): at for at, node in enumerate(self.groupings.expressions)}
        self.measures: dict[str, MeasureLike] = {}
        self.flags: dict[str, list[int]] = {}
        """For each call of GROUPING its column, and the numbers of what it asks about."""

    # -- what is selected ------------------------------------------------------------------------

    def _items(self, names: Sequence[str]) -> list[Item]:
        items: list[Item] = []
        for name, node in zip(names, self.select.expressions, strict=True):
            if node.is_star and not isinstance(node.unalias(), exp.Count):
                raise refused("rows", "* would list the rows of the join; name columns.", node)
            if name.lower() in (item.name.lower() for item in items):
                raise refused("columns", f"Two columns are called {name!r}; use AS.", node)
            items.append(Item(name, self._with_measures(node.unalias())))
        return items

    def _check_columns(self) -> None:
        """An error for a column that is not there, which says where it stands."""
        aliases = {node.alias.lower() for node in self.select.expressions}
        others = {*aliases, *map(str.lower, self.known), "all"}
        for node in own_parts(self.select):
            if isinstance(node, exp.Column) and (node.table or node.name.lower() not in others):
                try:
                    self._resolve(node.table or None, node.name)
                except SchemaError as error:
                    raise refused("columns", str(error), node) from None

    def _with_measures(self, node: exp.Expr) -> exp.Expr:
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
            return node.name if not inside and self._key(node) is None else None
        return None

    def _is_over_rows(self, node: exp.Expr) -> bool:
        """Whether a node has an aggregate of joined rows in it."""
        return any(_is_measure(part) for part in _outside_windows(node))

    def _groupings(self) -> Groupings:
        plain = [item.node for item in self.items if not self._is_over_rows(item.node)]
        if self.is_aggregated:
            return groupings_of(self.select, self._grouped, plain)
        if self.select.args.get("distinct") is None:
            raise refused(
                "rows",
                "This lists the rows of the join, one by one. Group them (GROUP BY ALL), or SELECT DISTINCT.",
                self.items[0].node,
            )
        return Groupings(tuple(dict.fromkeys(plain)), (frozenset(range(len(set(plain)))),))

    def _grouped(self, node: exp.Expr) -> exp.Expr:
        """What stands in GROUP BY: a column, the number of a column of the SELECT list, or its name."""
        if isinstance(node, exp.Literal) and node.is_int:
            at = int(node.name) - 1
            if not 0 <= at < len(self.items):
                raise refused("groups", f"There is no column {node.name} in the SELECT list.", node)
            return self.items[at].node
        if isinstance(node, exp.Column) and not node.table and self._key(node) is None:
            return self.aliases.get(node.name.lower(), node)
        return node

    def _key(self, node: exp.Expr) -> str | None:
        """A text that equal expressions share; None if it is no expression over columns."""
        if node.find(exp.AggFunc, exp.Window, exp.Query) is not None:
            return None
        try:
            return typed(node.copy(), self._resolve).sql
        except CalitreeError:
            return None

    def _resolve(self, table: str | None, name: str) -> Resolved:
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
            if self._key(node) in self.keys:
                groups[name] = text_of(node)
            elif given is not None:
                measures[name] = given
            else:
                return None
        if len(groups) < len(self.groupings.expressions) or not measures:
            return None
        question = Question(groups, self._where(), measures, self.source.relations)
        columns = tuple(item.name for item in self.items)
        return Direct(question, columns, columns == (*groups, *measures))

    def _own_measure(self, node: exp.Expr) -> MeasureLike | None:
        """The measure that a node is by itself; None if it has groups, windows or queries in it too."""
        if isinstance(node, exp.Anonymous) and node.name.upper() == MEASURE:
            return self.known[node.expressions[0].name]
        parts = list(own_parts(node))
        if not self._is_over_rows(node) or any(
            isinstance(part, exp.Window | exp.Query | FLAGS)
            or (isinstance(part, exp.Anonymous) and part.name.upper() == MEASURE)
            for part in parts
        ):
            return None
        inside = {id(c) for p in parts if is_aggregate(p) for c in p.find_all(exp.Column)}
        if any(isinstance(part, exp.Column) and id(part) not in inside for part in parts):
            return None
        return text_of(node)

    def over_answers(self, name: str) -> OverAnswers:
        """The block over its answers, a table of this name."""
        rest = exp.Select(
            expressions=[exp.alias_(self._lift(n), name, quoted=True) for name, n in self.items]
        ).from_(exp.table_(name, quoted=True))
        if self.is_aggregated and self.select.args.get("distinct"):
            rest.set("distinct", self._distinct())
        having = self.select.args.get("having")
        if having is not None:
            rest.set("where", exp.Where(this=self._lift(self._unaliased(having.this))))
        qualify = self.select.args.get("qualify")
        if qualify is not None:
            rest.set("qualify", exp.Qualify(this=self._lift(self._unaliased(qualify.this))))
        for clause in ("limit", "offset"):
            if self.select.args.get(clause) is not None:
                rest.set(clause, self.select.args[clause].copy())
        if self.select.args.get("order") is not None:
            rest.set("order", self._order(self.select.args["order"]))
        return OverAnswers(self._questions(), self._constants(), rest)

    def _questions(self) -> tuple[Question, ...]:
        where, relations = self._where(), self.source.relations
        measures = self.measures or {"m0": "count(*)"}
        texts = [text_of(node) for node in self.groupings.expressions]
        return tuple(
            Question({f"g{at}": texts[at] for at in sorted(chosen)}, where, measures, relations)
            for chosen in self.groupings.sets
        )

    def _constants(self) -> tuple[Mapping[str, int], ...]:
        """GROUPING(a, b): for each set the number whose bits tell which of these it lacks."""
        return tuple(
            {
                name: sum(
                    (number not in chosen) << (len(numbers) - 1 - at)
                    for at, number in enumerate(numbers)
                )
                for name, numbers in self.flags.items()
            }
            for chosen in self.groupings.sets
        )

    def _where(self) -> str | None:
        conditions = self.source.filters
        for node in conditions:
            for part in own_parts(node):
                if is_aggregate(part) or isinstance(part, exp.Window):
                    raise refused("groups", "WHERE has no aggregates; use HAVING.", node)
        return " AND ".join(f"({text_of(node)})" for node in conditions) or None

    # -- what is left ----------------------------------------------------------------------------

    def _distinct(self) -> exp.Expr:
        distinct = self.select.args["distinct"].copy()
        on = distinct.args.get("on")
        if on is not None:
            distinct.set("on", self._lift(self._unaliased(on)))
        assert isinstance(distinct, exp.Expr)
        return distinct

    def _order(self, order: exp.Expr) -> exp.Expr:
        sorted_by = []
        for key in order.expressions:
            node = key.this
            named = isinstance(node, exp.Column) and not node.table
            if named and node.name.lower() in self.aliases:
                lifted: exp.Expr = exp.column(
                    next(i.name for i in self.items if i.name.lower() == node.name.lower()),
                    quoted=True,
                )
            elif isinstance(node, exp.Literal) or node.name.upper() == "ALL":
                lifted = node.copy()
            else:
                lifted = self._lift(self._with_measures(node))
            ordered = key.copy()
            ordered.set("this", lifted)
            sorted_by.append(ordered)
        return exp.Order(expressions=sorted_by)

    def _unaliased(self, node: exp.Expr) -> exp.Expr:
        """A condition in which names of the SELECT list are what they stand for."""

        def swap(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and not part.table and self._key(part) is None:
                known = self.aliases.get(part.name.lower())
                return part if known is None else exp.Paren(this=known.copy())
            return part

        return self._with_measures(node.copy().transform(swap))

    def _lift(self, node: exp.Expr) -> exp.Expr:
        """A node over rows as one over the answer: groups and aggregates are its columns."""
        if isinstance(node, exp.Query):
            return node.copy()  # it is answered by itself
        if isinstance(node, FLAGS):
            return self._flag(node)
        if _is_measure(node):
            return self._column(node)
        at = self.keys.get(self._key(node)) if not isinstance(node, exp.Literal) else None
        if at is not None:
            return exp.column(f"g{at}", quoted=True)
        if isinstance(node, exp.Column):
            raise refused(
                "groups",
                f"{quoted_sql(node)} stands neither in GROUP BY nor in an aggregate.",
                node,
            )
        copy = node.copy()
        window = node.this if isinstance(node, exp.Window) else None
        for child, original in zip(
            list(copy.iter_expressions()), list(node.iter_expressions()), strict=True
        ):
            lifted = self._lift_arguments(original) if original is window else self._lift(original)
            child.replace(lifted)
        return copy

    def _lift_arguments(self, function: exp.Expr) -> exp.Expr:
        """The function of a window, whose arguments are over groups."""
        copy = function.copy()
        for child, original in zip(
            list(copy.iter_expressions()), list(function.iter_expressions()), strict=True
        ):
            nested = isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls)
            is_call = nested and is_aggregate(original)
            child.replace(self._lift_arguments(original) if is_call else self._lift(original))
        return copy

    def _flag(self, node: exp.Expr) -> exp.Expr:
        numbers = []
        for part in node.expressions:
            at = self.keys.get(self._key(self._grouped(part)))
            if at is None:
                raise refused("groups", f"{quoted_sql(part)} does not stand in GROUP BY.", part)
            numbers.append(at)
        name = f"p{len(self.flags)}"
        self.flags[name] = numbers
        return exp.column(name, quoted=True)

    def _column(self, node: exp.Expr) -> exp.Expr:
        """The column of the answer that has an aggregate."""
        own = isinstance(node, exp.Anonymous)
        given = self.known[node.expressions[0].name] if own else text_of(node)
        for name, known in self.measures.items():
            if known == given:
                return exp.column(name, quoted=True)
        name = f"m{len(self.measures)}"
        self.measures[name] = given
        return exp.column(name, quoted=True)


def _is_measure(node: exp.Expr) -> bool:
    """Whether a node is an aggregate of joined rows, or a declared measure."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() == MEASURE
    return is_aggregate(node) and not isinstance(node, FLAGS)


def _outside_windows(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that are no function of a window, but for what such a function is given."""
    functions = set[int]()
    for window in own_parts(node):
        if isinstance(window, exp.Window):
            function = window.this
            while True:
                functions.add(id(function))
                inner = function.this if isinstance(function.this, exp.Expr) else None
                if not isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
                    break
                if inner is None:
                    break
                function = inner
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
