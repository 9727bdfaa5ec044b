"""What is left of a SELECT over the graph: a SELECT over the answers to its questions.

Groups are the columns `g0`, `g1` … of these, aggregates `m0`, `m1` …, and calls of GROUPING `p0`, `p1` ….
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from calitree.apps.select.block import FLAGS, WRAPPED, SelectBlock, is_measure, text_of
from calitree.apps.select.grammar import refused
from calitree.query.binder import MeasureLike, Question
from calitree.query.formula import is_aggregate
from calitree.sql.nodes import quoted_sql


class OverAnswers(NamedTuple):
    """A block over the answers to some questions, which are one table, one below the other."""

    questions: tuple[Question, ...]
    constants: tuple[Mapping[str, int], ...]
    """For each question, columns that its answer has besides: those of GROUPING."""
    select: exp.Select
    """The rest, over a table with the answers."""
    deleted: Mapping[str, str]
    """By relation, the rows that are asked about as if they were not there."""


class AnswerRewriter:
    """Rewrites one block."""

    def __init__(self, block: SelectBlock) -> None:
        self.block = block
        self.measures: dict[str, MeasureLike] = {}
        """What columns of the answer are."""
        self.flags: dict[str, list[int]] = {}
        """For each call of GROUPING its column, and the numbers of what it asks about."""

    def over(self, name: str) -> OverAnswers:
        """The block over its answers, a table of this name."""
        rest = exp.Select(
            expressions=[
                exp.alias_(self._lift(n), name, quoted=True) for name, n in self.block.items
            ]
        ).from_(exp.table_(name, quoted=True))
        if self.block.is_aggregated and self.block.select.args.get("distinct"):
            rest.set("distinct", self._distinct())
        having = self.block.select.args.get("having")
        if having is not None:
            rest.set("where", exp.Where(this=self._lift(self._unaliased(having.this))))
        qualify = self.block.select.args.get("qualify")
        if qualify is not None:
            rest.set("qualify", exp.Qualify(this=self._lift(self._unaliased(qualify.this))))
        for clause in ("limit", "offset"):
            if self.block.select.args.get(clause) is not None:
                rest.set(clause, self.block.select.args[clause].copy())
        if self.block.select.args.get("order") is not None:
            rest.set("order", self._order(self.block.select.args["order"]))
        return OverAnswers(self._questions(), self._constants(), rest, self.block.deleted())

    def _questions(self) -> tuple[Question, ...]:
        where, relations = self.block.where(), self.block.source.relations
        measures = self.measures or {"m0": self.block.at_grain("count(*)")}
        texts = [text_of(node) for node in self.block.groupings.expressions]
        return tuple(
            Question({f"g{at}": texts[at] for at in sorted(chosen)}, where, measures, relations)
            for chosen in self.block.groupings.sets
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
            for chosen in self.block.groupings.sets
        )

    def _distinct(self) -> exp.Expr:
        distinct = self.block.select.args["distinct"].copy()
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
            if named and node.name.lower() in self.block.aliases:
                lifted: exp.Expr = exp.column(
                    next(i.name for i in self.block.items if i.name.lower() == node.name.lower()),
                    quoted=True,
                )
            elif isinstance(node, exp.Literal) or node.name.upper() == "ALL":
                lifted = node.copy()
            else:
                lifted = self._lift(self._unaliased(node))
            ordered = key.copy()
            ordered.set("this", lifted)
            sorted_by.append(ordered)
        return exp.Order(expressions=sorted_by)

    def _unaliased(self, node: exp.Expr) -> exp.Expr:
        """A condition in which names of the SELECT list are what they stand for."""

        def swap(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and not part.table and self.block.key(part) is None:
                known = self.block.aliases.get(part.name.lower())
                return part if known is None else exp.Paren(this=known.copy())
            return part

        return self.block.with_measures(node.copy().transform(swap))

    def _lift(self, node: exp.Expr) -> exp.Expr:
        """A node over rows as one over the answer: groups and aggregates are its columns."""
        if isinstance(node, exp.Query):
            return node.copy()  # it is answered by itself
        if isinstance(node, FLAGS):
            return self._flag(node)
        if is_measure(node):
            return self._column(node)
        at = (
            self.block.keys.get(self.block.key(node)) if not isinstance(node, exp.Literal) else None
        )
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
            is_call = isinstance(function, WRAPPED) and is_aggregate(original)
            child.replace(self._lift_arguments(original) if is_call else self._lift(original))
        return copy

    def _flag(self, node: exp.Expr) -> exp.Expr:
        numbers = []
        for part in node.expressions:
            at = self.block.keys.get(self.block.key(self.block.grouped(part)))
            if at is None:
                raise refused("groups", f"{quoted_sql(part)} does not stand in GROUP BY.", part)
            numbers.append(at)
        name = f"p{len(self.flags)}"
        self.flags[name] = numbers
        return exp.column(name, quoted=True)

    def _column(self, node: exp.Expr) -> exp.Expr:
        """The column of the answer that has an aggregate."""
        own = isinstance(node, exp.Anonymous)
        given = self.block.at_grain(
            self.block.known[node.expressions[0].name] if own else text_of(node)
        )
        for name, known in self.measures.items():
            if known == given:
                return exp.column(name, quoted=True)
        name = f"m{len(self.measures)}"
        self.measures[name] = given
        return exp.column(name, quoted=True)
