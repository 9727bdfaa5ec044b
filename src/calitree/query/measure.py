"""Measures: formulas over SQL aggregates, compiled to sums of products of lifts.

An `Aggregate` is the sum of one product; a `Measure` is several of them and the formula (`final`)
that computes the number a user asked for: `avg(x)` is Σx / Σ[x is not NULL]. Equal aggregates are
shared between measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import ExpressionError, MixedRelationsError, did_you_mean, shortened
from calitree.jointree.schema import Schema
from calitree.query.aggregate_call import AggregateCall
from calitree.query.aggregates import AGGREGATES, EXTREMES, with_names
from calitree.query.annotation import Aggregate
from calitree.query.carried.carrying import Carrying
from calitree.query.carried.fold import Fold
from calitree.query.carried.folds import HOLISTIC
from calitree.query.custom.python_value import PythonValue
from calitree.query.formula import (
    AggregateFunction,
    Formula,
    is_aggregate,
    outside,
    scalar_formula,
)
from calitree.query.grain import (
    DefaultGrain,
    Grain,
    GrainMeasure,
    counted_once,
    is_null_without,
    owning_relations,
)
from calitree.query.lifting import Lifting
from calitree.query.monomials import mixed
from calitree.sql.limits import MAX_MEASURE_TOKENS, on_deep_stack
from calitree.sql.nodes import (
    all_of,
    binary,
    kind_of,
    marked,
    name_of,
    node_bytes,
    owners,
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
    folds: tuple[Fold, ...] = ()
    """What `final` has as `f0`, `f1`, …: values that are folded of others carried in the tree."""
    value: PythonValue | None = None
    """How the element of its only aggregate becomes a value, if that is in a Python semiring."""

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

    @property
    def error(self) -> str:
        """How far it may be from the exact value, by the approximate aggregates in it; empty if it has none."""
        return ", ".join(dict.fromkeys(fold.error for fold in self.folds if fold.error))

    @property
    def grains(self) -> list[frozenset[str]]:
        """The relations whose rows count once in some of its aggregates, in plain SQL too."""
        folded = (frozenset(fold.grain) for fold in self.folds)
        every = (*(part.grain for part in self.aggregates), *folded)
        return list(dict.fromkeys(grain for grain in every if grain))

    @cached_property
    def relations(self) -> frozenset[str]:
        """The relations that one of the aggregates lifts, or a fold has values of."""
        lifted = frozenset(lift.relation for part in self.aggregates for lift in part.lifts)
        folded = (fold.relations for fold in self.folds)
        return lifted.union(*(part.grain for part in self.aggregates), *folded)


FUNCTIONS: tuple[AggregateFunction[Any], ...] = tuple(
    dict.fromkeys((*AGGREGATES.values(), *HOLISTIC.values()))
)
"""All aggregates that SQL text may use."""

NAMES = tuple(function.name for function in FUNCTIONS)

Custom = Callable[[Schema], Measure]
"""A measure that is not SQL text: what `calitree.aggregate` returns."""


def measure_of(
    given: str | GrainMeasure | Measure | Custom,
    schema: Schema,
    among: Iterable[str],
    grain: DefaultGrain = None,
) -> Measure:
    """Compile SQL text such as `sum(a.x * b.y) / count(*)` into a measure.

    `grain` is for texts that say nothing of it.
    """
    if isinstance(given, Measure):
        return given
    if isinstance(given, GrainMeasure):
        return _measure(given.text, schema, tuple(among), given.grain)
    if callable(given):
        return given(schema)
    return _measure(given, schema, tuple(among), grain)


@on_deep_stack
def _measure(given: str, schema: Schema, among: tuple[str, ...], grain: Grain) -> Measure:
    compiler = _Compiler(schema, among, grain)
    try:
        final, plain = compiler.formula(with_names(parse_node(given, MAX_MEASURE_TOKENS)))
    except ExpressionError as error:
        reason = str(error)
        complete = reason.endswith((".", "?"))
        raise (
            error if complete else type(error)(f"In measure {shortened(given)}: {reason}.")
        ) from None
    return Measure(given, tuple(compiler.aggregates), final, plain, tuple(compiler.carrying.folds))


class _Compiler:
    """Compiles one measure: the formula over its aggregates, and the same as plain SQL."""

    def __init__(self, schema: Schema, among: tuple[str, ...], grain: Grain) -> None:
        self.schema, self.among = schema, among
        self.grain = grain if grain is None or grain == "owner" else self._relations(grain)
        self.aggregates: list[Aggregate] = []
        self.carrying = Carrying(self.scalar, schema)

    def _relations(self, names: tuple[str, ...]) -> frozenset[str]:
        """The relations of a grain."""
        return frozenset(self.schema.relation(name).name for name in names)

    def formula(self, node: exp.Expr) -> Formula:
        """A scalar expression over aggregates: the same over their values, and as plain SQL."""
        if isinstance(node, exp.Paren):
            return self.formula(node.this)
        if is_aggregate(node):
            return self.aggregate(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            kind = Kind.INTEGER if node.is_int else Kind.DECIMAL
            return Formula(marked(node.copy(), kind), node.copy())
        if isinstance(node, exp.Neg):
            final, plain = self.operand(node, node.this)
            negative = marked(exp.Neg(this=paren(final)), kind_of(final))
            return Formula(negative, exp.Neg(this=exp.Paren(this=plain)))
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            (left, a), (right, b) = self.operand(node, node.left), self.operand(node, node.right)
            if isinstance(node, exp.Div):
                return Formula(ratio(left, right), ratio(a, b))
            plain = type(node)(this=exp.Paren(this=a), expression=exp.Paren(this=b))
            return Formula(binary(type(node), left, right), plain)
        if node.find(exp.AggFunc) and not isinstance(node, exp.Window):
            return scalar_formula(node, self.formula)
        raise _no_measure(node)

    def operand(self, operator: exp.Expr, node: exp.Expr) -> Formula:
        """One side of an arithmetic operator between aggregates."""
        final, plain = self.formula(node)
        kind = kind_of(final)
        if not (kind.is_number or kind is Kind.NULL):
            raise ExpressionError(
                f"{name_of(operator)} needs a number, but {quoted_sql(node)} is {kind.phrase}"
            )
        return Formula(final, plain)

    def aggregate(self, node: exp.Expr) -> Formula:
        """One call, perhaps with FILTER: its value as a formula, and the call over attributes."""
        call, condition = self._checked(node)
        if self.carrying.takes(call):
            return self.carried(node)
        if type(call) not in AGGREGATES:
            raise _no_aggregate(quoted_sql(call), name_of(call))
        given = list(call.iter_expressions())
        counted = self._counted_relation(call, given)
        star = counted is not None or (len(given) == 1 and isinstance(given[0], exp.Star))
        arguments = [] if star else [self.scalar(argument).node for argument in given]
        grain = frozenset((counted,)) if counted else self._grain(call, arguments)
        filters = [] if condition is None else list(conjuncts(condition.node))
        kept = [*([] if condition is None else [condition.node]), *counted_once(grain)]
        plain = _plain_call(type(call), arguments, kept)
        rule = AGGREGATES[type(call)].rule
        lifting = Lifting(self.schema, self.among, grain)
        known = len(self.aggregates)
        try:
            final = rule(AggregateCall(lifting, self.aggregates, arguments, filters))
        except MixedRelationsError:
            del self.aggregates[known:]
            return self.carried(node)
        return Formula(final, plain)

    def _checked(self, node: exp.Expr) -> tuple[exp.Expr, Expression | None]:
        """The call of an aggregate, and the condition of its FILTER if it has one."""
        call = node.this if isinstance(node, exp.Filter) else node
        for nested in node.find_all(exp.AggFunc):
            if nested is not call:
                raise ExpressionError(f"{quoted_sql(nested)} stands inside another aggregate")
        if call is node:
            return call, None
        condition = self.scalar(node.expression.this)
        if condition.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError("FILTER needs a condition")
        return call, condition

    def carried(self, node: exp.Expr) -> Formula:
        """A call whose values are carried, or a condition of several relations that it is filtered by."""
        call, condition = node, None
        if isinstance(node, exp.Filter):
            call, condition = node.this, node.expression.this
            filters = list(conjuncts(self.scalar(condition).node))
            try:
                AggregateCall(Lifting(self.schema, self.among), [], [], filters).rows()
            except MixedRelationsError:
                other = _Compiler(self.schema, self.among, None)
                alone = kind_of(other.aggregate(call).final), other.carrying.error
                return self.carrying.where(call, condition, alone, self.grain)
        if not (self.carrying.takes(call) or self.carrying.folds_any_argument(call)):
            arguments = [self.scalar(argument).node for argument in call.iter_expressions()]
            raise mixed(next(node for node in arguments if owners(node) == frozenset()))
        return self.carrying.formula(call, condition, self.grain)

    def _counted_relation(self, call: exp.Expr, given: list[exp.Expr]) -> str | None:
        """The relation of `count(stores)`, unless there is a column of that name."""
        if not isinstance(call, exp.Count) or len(given) != 1:
            return None
        (name,) = given
        if not isinstance(name, exp.Column) or name.table or name.name not in self.schema.relations:
            return None
        columns = (relation.columns for relation in self.schema.relations.values())
        return None if any(name.name in own for own in columns) else name.name

    def _grain(self, call: exp.Expr, arguments: list[exp.Expr]) -> frozenset[str]:
        """The relations whose rows a call with these arguments counts once."""
        if self.grain is None:
            return frozenset()
        grain = owning_relations(arguments) if self.grain == "owner" else frozenset(self.grain)
        at_any = isinstance(call, EXTREMES) and is_null_without(grain, arguments, self.schema)
        return frozenset() if at_any else grain

    def scalar(self, node: exp.Expr) -> Expression:
        """An expression over the columns of the relations that are joined."""
        among = self.among
        return typed(node, lambda table, name: self.schema.resolve(table, name, among))


def _plain_call(
    call: type[exp.Expr], arguments: list[exp.Expr], filters: list[exp.Expr]
) -> exp.Expr:
    """A call as SQL over attributes."""
    plain = call(this=arguments[0].copy() if arguments else exp.Star())
    if len(arguments) > 1:
        plain.set("expression", arguments[1].copy())
    if not filters:
        return plain
    return exp.Filter(this=plain, expression=exp.Where(this=all_of(filters)))


def _no_measure(node: exp.Expr) -> ExpressionError:
    if isinstance(node, exp.Column):
        return outside(node)
    if isinstance(node, exp.Anonymous):
        return _no_aggregate(node.name, node.name)
    text = quoted_sql(node)
    if isinstance(node, exp.Window):
        reason = f"{text} is a window function; a measure has one value a group"
    else:
        reason = f"{text} is not an aggregate or a formula over aggregates"
    return ExpressionError(reason)


def _no_aggregate(text: str, name: str) -> ExpressionError:
    hint = did_you_mean(name, NAMES) or f" There are: {', '.join(NAMES)}."
    return ExpressionError(f"There is no aggregate {text}.{hint}")
