"""Measures: formulas over SQL aggregates, compiled to sums of products of lifts.

An `Aggregate` is the sum of one product; a `Measure` is several of them and the formula (`final`)
that computes the number a user asked for: `avg(x)` is Σx / Σ[x is not NULL]. Equal aggregates are
shared between measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import ExpressionError, shortened
from calitree.jointree.schema import Schema
from calitree.query.aggregates import AGGREGATE_NAMES, AGGREGATES, AggregateCall
from calitree.query.annotation import Aggregate
from calitree.query.lifting import Lifting
from calitree.sql.limits import MAX_MEASURE_TOKENS, on_deep_stack
from calitree.sql.nodes import (
    binary,
    kind_of,
    marked,
    name_of,
    node_bytes,
    paren,
    quoted_sql,
    ratio,
)
from calitree.sql.parser import Expression, conjuncts, parse_node, typed
from calitree.types import Kind


@dataclass(frozen=True)
class Measure:
    """What to compute for one result column.

    `final` is a formula over `a0`, `a1`, … (or `a0.component`); `plain` is the same measure as SQL
    aggregates over attributes, for whoever has the whole join (None if SQL has no such aggregate).
    """

    text: str
    aggregates: tuple[Aggregate, ...]
    final: exp.Expr = field(compare=False, repr=False)
    plain: exp.Expr | None = field(compare=False, repr=False)

    @property
    def stored(self) -> tuple[str, str] | None:
        """The relation and the column that it takes a value from, if it is an extreme of one."""
        stored: tuple[str, str] | None = self.final.meta.get("stored")
        return stored

    @cached_property
    def final_bytes(self) -> int:
        """About how many bytes the formula of its value takes."""
        return node_bytes(self.final)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes: its formulas, and its lifts."""
        formulas = self.final_bytes + (0 if self.plain is None else node_bytes(self.plain))
        return 1_000 + formulas + sum(aggregate.nbytes for aggregate in self.aggregates)

    @cached_property
    def relations(self) -> frozenset[str]:
        """The relations that one of the aggregates lifts."""
        return frozenset(lift.relation for part in self.aggregates for lift in part.lifts)


Custom = Callable[[Schema], Measure]
"""A measure that is not SQL text: what `calitree.query.custom.aggregate` returns."""


def measure_of(given: str | Measure | Custom, schema: Schema, among: Iterable[str]) -> Measure:
    """Compile SQL text such as `sum(a.x * b.y) / count(*)` into a measure."""
    if isinstance(given, Measure):
        return given
    if callable(given):
        return given(schema)
    return _measure(given, schema, tuple(among))


@on_deep_stack
def _measure(given: str, schema: Schema, among: tuple[str, ...]) -> Measure:
    compiler = _Compiler(schema, among)
    try:
        final, plain = compiler.formula(parse_node(given, MAX_MEASURE_TOKENS))
    except ExpressionError as error:
        reason = str(error)
        complete = reason.endswith((".", "?"))
        raise (
            error if complete else ExpressionError(f"In measure {shortened(given)}: {reason}.")
        ) from None
    return Measure(given, tuple(compiler.aggregates), final, plain)


class _Compiler:
    """Compiles one measure: the formula over its aggregates, and the same as plain SQL."""

    def __init__(self, schema: Schema, among: tuple[str, ...]) -> None:
        self.schema = schema
        self.lifting = Lifting(schema, among)
        self.aggregates: list[Aggregate] = []

    def formula(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Arithmetic over aggregates: the same over their values, and as plain SQL."""
        if isinstance(node, exp.Paren):
            return self.formula(node.this)
        if isinstance(node, exp.Filter | exp.AggFunc) and not isinstance(node, exp.Anonymous):
            return self.aggregate(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            kind = Kind.INTEGER if node.is_int else Kind.DECIMAL
            return marked(node.copy(), kind), node.copy()
        if isinstance(node, exp.Neg):
            final, plain = self.operand(node, node.this)
            negative = marked(exp.Neg(this=paren(final)), kind_of(final))
            return negative, exp.Neg(this=exp.Paren(this=plain))
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            (left, a), (right, b) = self.operand(node, node.left), self.operand(node, node.right)
            if isinstance(node, exp.Div):
                return ratio(left, right), ratio(a, b)
            plain = type(node)(this=exp.Paren(this=a), expression=exp.Paren(this=b))
            return binary(type(node), left, right), plain
        raise _no_measure(node)

    def operand(self, operator: exp.Expr, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """One side of an arithmetic operator between aggregates."""
        final, plain = self.formula(node)
        kind = kind_of(final)
        if not (kind.is_number or kind is Kind.NULL):
            raise ExpressionError(
                f"{name_of(operator)} needs a number, but {quoted_sql(node)} is {kind.phrase}"
            )
        return final, plain

    def aggregate(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """One call, perhaps with FILTER: its value as a formula, and the call over attributes."""
        call = node.this if isinstance(node, exp.Filter) else node
        for nested in node.find_all(exp.AggFunc):
            if nested is not call:
                raise ExpressionError(f"{quoted_sql(nested)} stands inside another aggregate")
        condition = None
        if isinstance(node, exp.Filter):
            condition = self.scalar(node.expression.this)
            if condition.kind not in (Kind.BOOLEAN, Kind.NULL):
                raise ExpressionError("FILTER needs a condition")
        if type(call) not in AGGREGATES:
            listed = ", ".join(AGGREGATE_NAMES)
            raise ExpressionError(
                f"{quoted_sql(call)} cannot be split by relation; there are {listed}"
            )
        distinct = call.find(exp.Distinct)
        if distinct is not None:
            inner = ", ".join(map(quoted_sql, distinct.expressions))
            raise ExpressionError(
                f"DISTINCT cannot be split by relation; group by {inner} and count the groups"
            )
        given = list(call.iter_expressions())
        star = len(given) == 1 and isinstance(given[0], exp.Star)
        arguments = [] if star else [self.scalar(argument).node for argument in given]
        plain = type(call)(this=arguments[0].copy() if arguments else exp.Star())
        if len(arguments) > 1:
            plain.set("expression", arguments[1].copy())
        filters = []
        if condition is not None:
            filters = list(conjuncts(condition.node))
            plain = exp.Filter(this=plain, expression=exp.Where(this=condition.node.copy()))
        _, rule = AGGREGATES[type(call)]
        return rule(AggregateCall(self.lifting, self.aggregates, arguments, filters)), plain

    def scalar(self, node: exp.Expr) -> Expression:
        """An expression over the columns of the relations that are joined."""
        among = self.lifting.among
        return typed(node, lambda table, name: self.schema.resolve(table, name, among))


def _no_measure(node: exp.Expr) -> ExpressionError:
    text = quoted_sql(node)
    if isinstance(node, exp.Column):
        reason = f"{text} stands outside of an aggregate; write sum({text}) or group by it"
    elif isinstance(node, exp.Anonymous):
        reason = f"there is no aggregate {node.name}; there are {', '.join(AGGREGATE_NAMES)}"
    elif isinstance(node, exp.Window):
        reason = f"{text} is a window function; a measure has one value a group"
    else:
        reason = f"{text} is not an aggregate or arithmetic over aggregates"
    return ExpressionError(reason)
