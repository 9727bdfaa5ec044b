"""SQL expressions on Arrow columns, without a loop over rows: what DuckDB gives for the same text.

`compile` turns a node into nested functions once; running them is a sequence of kernels from
`calitree.kernels`. Constants stay scalars until the end.

Two tables say how a node is computed. `_STRICT` holds the operators that are NULL when an operand
is: their kernels never see the constant NULL. `_FORMS` holds those with rules of their own:
connectives, IS, IN, and CASE and COALESCE, which must not evaluate what they do not choose. These
compute a branch only on the rows that take it, unless the branch cannot fail; then computing it
everywhere is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.kernels import arithmetic as numbers
from calitree.sql.kernels import comparison as compare
from calitree.sql.kernels import functions
from calitree.sql.kernels.branches import Columns, Rows, Run, choice, otherwise
from calitree.sql.kernels.casts import cast, null_of, try_cast
from calitree.sql.kernels.values import (
    NULL,
    Datum,
    broadcast,
    constant,
    double,
    is_null,
)
from calitree.sql.nodes import display
from calitree.sql.nodes import kind_of as node_kind
from calitree.sql.rules.conversions import CASTS
from calitree.types import Kind


def evaluate(node: exp.Expr, columns: Columns, length: int) -> pa.Array:
    """The value of `node` for each of `length` rows; `columns` are named by attribute."""
    return compile(node)(columns, length)


def compile(node: exp.Expr) -> Callable[[Columns, int], pa.Array]:
    """`evaluate` for a node that will be run often."""
    run = _compiled(node)

    def evaluated(columns: Columns, length: int) -> pa.Array:
        try:
            result = run(Rows(columns, length))
        except ExpressionError as error:
            raise ExpressionError(f"In {display(node)}: {str(error).rstrip('.')}.") from None
        except pa.ArrowException as error:
            raise ExpressionError(f"Cannot compute {display(node)}: {error}.") from error
        kind = _kind(node)
        if pa.types.is_null(result.type):
            result = null_of(kind)
        elif kind is Kind.FLOAT:
            result = double(result)  # where every branch that is a float was the constant NULL
        return broadcast(result, length)

    return evaluated


def _compiled(node: exp.Expr) -> Run:
    if isinstance(node, exp.Paren):
        return _compiled(node.this)
    form = _FORMS.get(type(node))
    if form is not None:
        return form(node)
    kernel = _STRICT.get(type(node))
    if kernel is None:
        raise ExpressionError(f"{node.sql()} ({type(node).__name__}) cannot be evaluated.")
    run = _strict(kernel(node), [_compiled(operand) for operand in _operands(node)])
    return run if node.find(exp.Column) else _once(run)


def _once(run: Run) -> Run:
    """A constant, computed when first needed: most often a date that is written as text."""
    known: list[Datum] = []

    def cached(rows: Rows) -> Datum:
        value = known[0] if known else run(rows)
        if isinstance(value, pa.Scalar) and not known:
            known.append(value)
        return value

    return cached


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a strict node; a pattern or a date part is an option of its kernel."""
    if isinstance(node, exp.Extract):
        return [node.expression]
    if isinstance(node, exp.Binary | exp.Pow) and not isinstance(node, exp.Like | exp.ILike):
        return [node.this, node.expression]
    return [node.this]


def _strict(kernel: Callable[..., Datum], operands: Sequence[Run]) -> Run:
    def run(rows: Rows) -> Datum:
        data = [operand(rows) for operand in operands]
        return NULL if any(map(is_null, data)) else kernel(*data)

    return run


def _literal(node: exp.Expr) -> Run:
    text = node.name
    if node.args.get("is_string"):
        value = constant(text)
    elif "e" in text.lower():
        value = constant(float(text))
    else:
        value = constant(Decimal(text) if "." in text else int(text))
    return lambda rows: value


def _is(node: exp.Expr) -> Run:
    inner = _compiled(node.this)
    if isinstance(node.expression, exp.Null):
        return lambda rows: compare.missing(inner(rows))
    test = compare.is_true if node.expression.this else compare.is_false
    return lambda rows: test(inner(rows))


def _in(node: exp.Expr) -> Run:
    needle, items = _compiled(node.this), [_compiled(item) for item in node.expressions]
    return lambda rows: compare.is_in(needle(rows), [item(rows) for item in items])


def _lenient(kernel: Callable[[Datum, Datum], Datum]) -> Callable[[exp.Expr], Run]:
    """A binary operator that looks at NULLs itself."""

    def form(node: exp.Expr) -> Run:
        left, right = _compiled(node.this), _compiled(node.expression)
        return lambda rows: kernel(left(rows), right(rows))

    return form


def _of_all(kernel: Callable[[Sequence[Datum]], Datum]) -> Callable[[exp.Expr], Run]:
    def form(node: exp.Expr) -> Run:
        runs = [_compiled(each) for each in (node.this, *node.expressions)]
        return lambda rows: kernel([run(rows) for run in runs])

    return form


def _case(node: exp.Expr) -> Run:
    subject, default = node.args.get("this"), node.args.get("default")
    result: Run = _compiled(default) if default is not None else lambda rows: NULL
    safe = default is None or _cannot_fail(default)
    for branch in reversed(node.args["ifs"]):
        condition, value = branch.this, branch.args["true"]
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        safe = safe and _cannot_fail(value)
        result = choice(_compiled(condition), _compiled(value), result, safe)
        safe = safe and _cannot_fail(condition)
    return result


def _coalesce(node: exp.Expr) -> Run:
    first, *others = (node.this, *node.expressions)
    result = _compiled(others[-1]) if others else _compiled(first)
    safe = all(map(_cannot_fail, others))
    for each in reversed([first, *others][:-1]):
        result = otherwise(_compiled(each), result, safe)
    return result


def _cannot_fail(node: exp.Expr) -> bool:
    """Whether computing a node on rows that do not need it can neither raise nor change its type.

    Sums and products of integers or decimals can: an overflow turns the whole column into floats.
    """
    for each in node.walk():
        if isinstance(each, exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Abs):
            if _kind(each) is not Kind.FLOAT:
                return False
        elif isinstance(each, exp.Cast):
            harmless = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.NULL)
            if _target(each) is not Kind.FLOAT or _kind(each.this) not in harmless:
                return False
    return True


def _kind(node: exp.Expr) -> Kind:
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
        return Kind.BOOLEAN
    return _kind(node.this) if isinstance(node, exp.Paren) else node_kind(node)


def _target(node: exp.Expr) -> Kind:
    kind = CASTS.get(node.args["to"].this)
    if kind is None:
        raise ExpressionError(f"{node.sql()} cannot be evaluated.")
    return kind


def _cast(node: exp.Expr) -> Callable[[Datum], Datum]:
    kind, convert = _target(node), try_cast if isinstance(node, exp.TryCast) else cast
    return lambda datum: convert(datum, kind)


def _round(node: exp.Expr) -> Callable[[Datum], Datum]:
    decimals = node.args.get("decimals")
    digits = int(decimals.name) if decimals is not None else 0
    return lambda datum: numbers.round_half_away(datum, digits)


def _substring(node: exp.Expr) -> Callable[[Datum], Datum]:
    start, length = (node.args.get(key) for key in ("start", "length"))
    first = int(start.name) if start is not None else 1
    count = int(length.name) if length is not None else None
    return lambda datum: functions.substring(datum, first, count)


def _plain(kernel: Callable[..., Datum]) -> Callable[[exp.Expr], Callable[..., Datum]]:
    return lambda node: kernel


_STRICT: dict[type[exp.Expr], Callable[[exp.Expr], Callable[..., Datum]]] = {
    exp.Add: _plain(numbers.add),
    exp.Sub: _plain(numbers.subtract),
    exp.Mul: _plain(numbers.multiply),
    exp.Div: _plain(numbers.divide),
    exp.Mod: _plain(numbers.remainder),
    exp.Neg: _plain(numbers.negate),
    exp.Abs: _plain(numbers.absolute),
    exp.Pow: _plain(numbers.power),
    exp.Floor: _plain(numbers.floating("floor")),
    exp.Ceil: _plain(numbers.floating("ceil")),
    exp.Round: _round,
    exp.Sqrt: _plain(numbers.floating("sqrt")),
    exp.Ln: _plain(numbers.floating("ln")),
    exp.Exp: _plain(numbers.floating("exp")),
    exp.EQ: _plain(compare.equal),
    exp.NEQ: _plain(compare.not_equal),
    exp.LT: _plain(compare.less),
    exp.LTE: _plain(compare.less_equal),
    exp.GT: _plain(compare.greater),
    exp.GTE: _plain(compare.greater_equal),
    exp.Not: _plain(pc.invert),
    exp.Like: lambda node: lambda datum: functions.like(datum, node.expression.name),
    exp.ILike: lambda node: lambda datum: functions.ilike(datum, node.expression.name),
    exp.Lower: _plain(pc.utf8_lower),
    exp.Upper: _plain(pc.utf8_upper),
    exp.Length: _plain(functions.length),
    exp.Trim: _plain(functions.trim),
    exp.Substring: _substring,
    exp.DPipe: _plain(functions.concatenate),
    exp.Extract: lambda node: lambda datum: functions.part(datum, node.name.upper()),
    exp.TimestampTrunc: lambda node: lambda datum: functions.truncate(datum, node.text("unit")),
    exp.Cast: _cast,
    exp.TryCast: _cast,
}

_FORMS: dict[type[exp.Expr], Callable[[exp.Expr], Run]] = {
    exp.Column: lambda node: lambda rows: rows.column(node.name),
    exp.Literal: _literal,
    exp.Boolean: lambda node: lambda rows: pa.scalar(bool(node.this)),
    exp.Null: lambda node: lambda rows: NULL,
    exp.And: _lenient(compare.both),
    exp.Or: _lenient(compare.either),
    exp.Is: _is,
    exp.In: _in,
    exp.NullSafeEQ: _lenient(compare.not_distinct),
    exp.NullSafeNEQ: _lenient(compare.distinct),
    exp.Nullif: _lenient(compare.null_if),
    exp.Greatest: _of_all(compare.greatest),
    exp.Least: _of_all(compare.least),
    exp.Case: _case,
    exp.Coalesce: _coalesce,
}
