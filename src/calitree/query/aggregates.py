"""Measures: SQL aggregates → sums of products of lifts, and a formula over them.

An `Aggregate` is the sum of one product; a `Measure` is several of them and the formula (`final`)
that makes the number a user asked for: `avg(x)` is Σx / Σ[x is not NULL]. Equal aggregates are
shared between measures.

NULLs: a row counts for `sum(e)` if e is not NULL. Beside Σe we carry the number of rows where it is
not, and the sum is NULL where that is zero. If no row can be NULL that number is COUNT, which is
there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from calitree.cache import cached_property
from calitree.engines.api.semiring import MAX, MIN, Semiring
from calitree.errors import ExpressionError
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate
from calitree.query.lifting import Lifting, Monomial, bare, monomials, terms
from calitree.sql.nodes import (
    binary,
    cast,
    column,
    display,
    kind_of,
    marked,
    number,
    owners,
    paren,
    ratio,
    when,
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

    @cached_property
    def relations(self) -> frozenset[str]:
        return frozenset(lift.relation for each in self.aggregates for lift in each.lifts)


Center = Callable[[str, exp.Expr], float]
"""Given a relation and an expression over it, a value near its mean."""

Custom = Callable[[Schema], Measure]
"""A measure that is not SQL text: what `calitree.query.custom.aggregate` makes."""

Nodes = list[exp.Expr]


def measure_of(
    given: str | Measure | Custom, schema: Schema, among: Iterable[str], center: Center
) -> Measure:
    """Compile SQL text such as `sum(a.x * b.y) / count(*)` into a measure."""
    if isinstance(given, Measure):
        return given
    if callable(given):
        return given(schema)
    compiler = _Compiler(schema, tuple(among), center)
    try:
        final, plain = compiler.formula(parse_node(given))
    except ExpressionError as error:
        reason = str(error)
        known = reason.endswith((".", "?"))
        raise error if known else ExpressionError(f"In measure {given!r}: {reason}.") from None
    return Measure(given, tuple(compiler.aggregates), final, plain)


class _Compiler:
    """Compiles one measure: finds its aggregates, expands them, shares equal ones."""

    def __init__(self, schema: Schema, among: tuple[str, ...], center: Center) -> None:
        self.schema = schema
        self.lifting = Lifting(schema, among)
        self.center = center
        self.aggregates: list[Aggregate] = []

    def formula(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Arithmetic over aggregates: the same over their values, and as plain SQL."""
        if isinstance(node, exp.Paren):
            return self.formula(node.this)
        if isinstance(node, exp.Filter | exp.AggFunc) and not isinstance(node, exp.Anonymous):
            return self.aggregated(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            kind = Kind.INTEGER if node.is_int else Kind.DECIMAL
            return marked(node.copy(), kind), node.copy()
        if isinstance(node, exp.Neg):
            final, plain = self.operand(node.this, "-")
            return marked(exp.Neg(this=paren(final)), kind_of(final)), exp.Neg(
                this=exp.Paren(this=plain)
            )
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}[type(node)]
            (left, a), (right, b) = self.operand(node.left, sign), self.operand(node.right, sign)
            if isinstance(node, exp.Div):
                return ratio(left, right), ratio(a, b)
            plain = type(node)(this=exp.Paren(this=a), expression=exp.Paren(this=b))
            return binary(type(node), left, right), plain
        if isinstance(node, exp.Column):
            raise ExpressionError(
                f"{node.sql()} stands outside of an aggregate; write sum({node.sql()}) or group by it"
            )
        if isinstance(node, exp.Anonymous):
            raise ExpressionError(
                f"there is no aggregate {node.name}; there are {', '.join(AGGREGATE_NAMES)}"
            )
        if isinstance(node, exp.Window):
            raise ExpressionError(
                f"{node.sql()} is a window function; a measure has one value a group"
            )
        raise ExpressionError(f"{node.sql()} is not an aggregate or arithmetic over aggregates")

    def operand(self, node: exp.Expr, sign: str) -> tuple[exp.Expr, exp.Expr]:
        """One side of an arithmetic operator between aggregates."""
        final, plain = self.formula(node)
        kind = kind_of(final)
        if not (kind.is_number or kind is Kind.NULL):
            raise ExpressionError(f"{sign} needs a number, but {node.sql()} is {kind.phrase}")
        return final, plain

    def aggregated(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """One call, perhaps with FILTER: its value as a formula, and the call over attributes."""
        call, filters = node.this if isinstance(node, exp.Filter) else node, []
        for nested in node.find_all(exp.AggFunc):
            if nested is not call:
                raise ExpressionError(f"{nested.sql()} stands inside another aggregate")
        if isinstance(node, exp.Filter):
            condition = self.scalar(node.expression.this)
            if condition.kind is not Kind.BOOLEAN:
                raise ExpressionError("FILTER needs a condition")
            filters = list(conjuncts(condition.node))
        rule = _RULES.get(type(call))
        if rule is None:
            listed = ", ".join(AGGREGATE_NAMES)
            raise ExpressionError(f"{call.sql()} cannot be split by relation; there are {listed}")
        distinct = call.find(exp.Distinct)
        if distinct is not None:
            inner = ", ".join(each.sql() for each in distinct.expressions)
            raise ExpressionError(
                f"DISTINCT cannot be split by relation; group by {inner} and count the groups"
            )
        given = list(call.iter_expressions())
        stars = [isinstance(each, exp.Star) for each in given]
        nodes = [] if stars == [True] else [self.scalar(each).node for each in given]
        plain = type(call)(this=nodes[0].copy() if nodes else exp.Star())
        if len(nodes) > 1:
            plain.set("expression", nodes[1].copy())
        if filters:
            plain = exp.Filter(this=plain, expression=exp.Where(this=condition.node.copy()))
        return rule(self, nodes, filters), plain

    def scalar(self, node: exp.Expr) -> Expression:
        among = self.lifting.among
        return typed(node, lambda table, name: self.schema.resolve(table, name, among))

    def value(self, aggregate: Aggregate, kind: Kind) -> exp.Expr:
        """The column that `final` finds an aggregate under."""
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return marked(column(f"a{self.aggregates.index(aggregate)}"), kind)

    def present(self, nodes: Sequence[exp.Expr], filters: Nodes) -> exp.Expr:
        """The number of rows where none of these is NULL."""
        return self.value(self.lifting.product(Monomial(), nodes, filters), Kind.INTEGER)

    def total(self, node: exp.Expr, present: Sequence[exp.Expr], filters: Nodes) -> exp.Expr:
        """Σ node over the rows where nothing in `present` is NULL: one aggregate a monomial."""
        parts = []
        for monomial in monomials(node):
            part = self.value(self.lifting.product(monomial, present, filters), kind_of(node))
            for coefficient in monomial.coefficients:
                part = binary(exp.Mul, coefficient, part)
            parts.append(part)
        result = parts[0]
        for part in parts[1:]:
            result = binary(exp.Add, result, part)
        return result

    def centred(self, node: exp.Expr) -> exp.Expr:
        """x - c with c near the mean of x, so that Σ(x-c)² - (Σ(x-c))²/n does not cancel.

        Spread does not depend on c. Where x is a sum of columns of several relations each gets its
        own c; a product across relations is left as it is.
        """
        relation = self.lifting.owner(node)
        if relation is not None:
            node = bare(node)
            return binary(exp.Sub, cast(node, Kind.FLOAT), number(self.center(relation, node)))
        if isinstance(node, exp.Paren):
            return self.centred(node.this)
        if isinstance(node, exp.Add | exp.Sub):
            return binary(type(node), self.centred(node.left), self.centred(node.right))
        return node

    def spread(self, i: int, j: int, nodes: Nodes, filters: Nodes) -> exp.Expr:
        """Σ(x-x̄)(y-ȳ) for two of the arguments, over the rows where no argument is NULL."""
        x, y = self.centred(nodes[i]), self.centred(nodes[j])
        sums = [cast(self.total(each, nodes, filters), Kind.FLOAT) for each in (x, y)]
        square = cast(self.total(binary(exp.Mul, x, y), nodes, filters), Kind.FLOAT)
        n = self.present(nodes, filters)
        spread = binary(exp.Sub, square, ratio(binary(exp.Mul, *sums), n))
        if i != j:
            return spread
        # What is left of equal values is rounding, a few units in the last place of the square.
        more = exp.GT(this=paren(spread.copy()), expression=binary(exp.Mul, number(1e-14), square))
        case = exp.Case(ifs=[exp.If(this=more, true=spread)], default=number(0.0))
        return marked(case, Kind.FLOAT)


Rule = Callable[[_Compiler, Nodes, Nodes], exp.Expr]


def _numbers(nodes: Nodes, what: str, count: int = 1) -> Nodes:
    if len(nodes) != count:
        raise ExpressionError(f"{what} takes {count} argument{'s' if count > 1 else ''}")
    for node in nodes:
        if not (kind_of(node).is_number or kind_of(node) is Kind.NULL):
            raise ExpressionError(
                f"{what} needs a number, but {display(node)} is {kind_of(node).phrase}"
            )
    return nodes


def _count(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
    if len(nodes) > 1:
        raise ExpressionError("COUNT takes 1 argument")
    return compiler.present(nodes, filters)


def _sum(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
    total = compiler.total(_numbers(nodes, "SUM")[0], nodes, filters)
    some = exp.GT(this=compiler.present(nodes, filters), expression=number(0))
    return when(some, total)


def _avg(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
    total = compiler.total(_numbers(nodes, "AVG")[0], nodes, filters)
    return ratio(total, compiler.present(nodes, filters))


def _per_row(total: exp.Expr, n: exp.Expr, sample: bool) -> exp.Expr:
    """total / n over at least one row, or total / (n - 1) over at least two; NULL over fewer."""
    least = number(1 if sample else 0)
    rows = binary(exp.Sub, n, least) if sample else n
    return when(exp.GT(this=n.copy(), expression=least), ratio(total, rows))


def _spread(sample: bool, root: bool) -> Rule:
    def rule(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
        spread = compiler.spread(0, 0, _numbers(nodes, "STDDEV" if root else "VARIANCE"), filters)
        result = _per_row(spread, compiler.present(nodes, filters), sample)
        return marked(exp.Sqrt(this=result), Kind.FLOAT) if root else result

    return rule


def _covariance(sample: bool) -> Rule:
    def rule(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
        spread = compiler.spread(0, 1, _numbers(nodes, "COVAR", 2), filters)
        return _per_row(spread, compiler.present(nodes, filters), sample)

    return rule


def _correlation(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
    _numbers(nodes, "CORR", 2)
    both, *own = (compiler.spread(i, j, nodes, filters) for i, j in ((0, 1), (0, 0), (1, 1)))
    roots = [marked(exp.Sqrt(this=each), Kind.FLOAT) for each in own]
    return ratio(both, binary(exp.Mul, *roots))


def _extreme(semiring: Semiring, only: Kind | None = None) -> Rule:
    def rule(compiler: _Compiler, nodes: Nodes, filters: Nodes) -> exp.Expr:
        if len(nodes) != 1:
            raise ExpressionError(f"{semiring.name.upper()} takes 1 argument")
        kind = kind_of(nodes[0])
        if only is not None and kind is not only:
            raise ExpressionError(f"{display(nodes[0])} is {kind.phrase}, not a condition")
        parts = terms(nodes[0])
        columns = [each for each in parts if owners(each) is not None]
        if not columns:
            raise ExpressionError(f"{display(nodes[0])} has no column")
        aggregate = compiler.lifting.sum_of_terms(semiring, columns, filters)
        if len(aggregate.lifts) > 1 and not kind.is_number:
            raise ExpressionError(
                f"{kind.phrase} cannot be combined with a filter on another relation; filter with where="
            )
        result = compiler.value(aggregate, kind)
        for each in parts:
            if owners(each) is None:
                result = binary(exp.Add, result, each)
        return result

    return rule


_RULES: dict[type[exp.Expr], Rule] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Min: _extreme(MIN),
    exp.Max: _extreme(MAX),
    exp.LogicalAnd: _extreme(MIN, Kind.BOOLEAN),
    exp.LogicalOr: _extreme(MAX, Kind.BOOLEAN),
    exp.Variance: _spread(sample=True, root=False),
    exp.VariancePop: _spread(sample=False, root=False),
    exp.Stddev: _spread(sample=True, root=True),
    exp.StddevSamp: _spread(sample=True, root=True),
    exp.StddevPop: _spread(sample=False, root=True),
    exp.CovarSamp: _covariance(sample=True),
    exp.CovarPop: _covariance(sample=False),
    exp.Corr: _correlation,
}

AGGREGATE_NAMES = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
    "covar_samp",
    "covar_pop",
    "corr",
    "bool_or",
    "bool_and",
]
