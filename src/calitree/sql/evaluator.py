"""SQL expressions on Arrow columns, without a loop over rows: what DuckDB gives for the same text.

`compile` turns a node into nested functions once; running them is a sequence of the kernels that
`calitree.sql.functions` names. Constants stay scalars until the end.

CASE and COALESCE have no kernel: they must not evaluate what they do not choose. A branch is computed
only on the rows that take it, unless it cannot fail; then computing it everywhere is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib import import_module

import pyarrow as pa
from sqlglot import exp
from sqlglot.helper import ensure_list

from calitree.errors import ExpressionError, cut
from calitree.sql.functions import FUNCTIONS
from calitree.sql.functions.function import Function
from calitree.sql.kernels.branches import CaseBranch, Columns, Rows, Run, choice, first_known
from calitree.sql.kernels.casts import null_of
from calitree.sql.kernels.comparison import Among
from calitree.sql.kernels.values import NULL, Datum, broadcast, constant, double, is_null
from calitree.sql.limits import on_deep_stack
from calitree.sql.nodes import display, key_of, literal_kind, quoted_sql
from calitree.sql.nodes import kind_of as node_kind
from calitree.sql.parsing.literal_lists import list_of
from calitree.sql.rules.conversions import bits_of, is_widened, target_of
from calitree.types import Kind


def evaluate(node: exp.Expr, columns: Columns, length: int) -> pa.Array:
    """The value of `node` for each of `length` rows; `columns` are named by attribute."""
    return compile(node)(columns, length)


@on_deep_stack
def compile(node: exp.Expr) -> Callable[[Columns, int], pa.Array]:
    """`evaluate` for a node that will be run often."""
    run = _compiled(node)

    @on_deep_stack
    def evaluated(columns: Columns, length: int) -> pa.Array:
        try:
            result = run(Rows(columns, length))
        except ExpressionError as error:
            raise ExpressionError(f"In {cut(display(node))}: {str(error).rstrip('.')}.") from None
        except pa.ArrowException as error:
            raise ExpressionError(f"Cannot compute {cut(display(node))}: {error}.") from error
        kind = _kind(node)
        if pa.types.is_null(result.type):
            result = null_of(kind)
        elif kind is Kind.FLOAT:
            result = double(result)  # where every branch that is a float was the constant NULL
        return broadcast(result, length)

    return evaluated


def _compiled(node: exp.Expr) -> Run:
    while type(node) is exp.Paren or (type(node) is exp.Cast and is_widened(node)):
        node = node.this  # whatever number of bits it has taken
    form = _FORMS.get(type(node))
    if form is not None:
        return form(node)
    function = FUNCTIONS.get(key_of(node))
    if function is None or not function.kernel:
        raise ExpressionError(f"{quoted_sql(node)} ({type(node).__name__}) cannot be evaluated.")
    run = _call(function, node)
    return _once(run) if function.strict and not node.find(exp.Column) else run


@cache
def _kernel(name: str) -> Callable[..., Datum]:
    module, _, function = name.rpartition(".")
    kernel: Callable[..., Datum] = getattr(
        import_module(f"calitree.sql.kernels.{module}"), function
    )
    return kernel


def _call(function: Function, node: exp.Expr) -> Run:
    kernel, strict = _kernel(function.kernel), function.strict
    operands: list[Run] = []
    for key in function.operands:
        for operand in ensure_list(node.args.get(key)):
            operands.append(_compiled(operand))
    options = [read(node) for read in function.options]
    null = null_of(Kind.FLOAT) if _kind(node) is Kind.FLOAT else NULL

    def run(rows: Rows) -> Datum:
        data: list[Datum] = []
        for operand in operands:
            data.append(operand(rows))
        if strict and any(map(is_null, data)):
            return null
        return kernel(*data, *options)

    return run


def _once(run: Run) -> Run:
    """A constant, computed when first needed: most often a date that is written as text."""
    known: list[Datum] = []

    def cached(rows: Rows) -> Datum:
        value = known[0] if known else run(rows)
        if isinstance(value, pa.Scalar) and not known:
            known.append(value)
        return value

    return cached


def _literal(node: exp.Expr) -> Run:
    value = constant(_PARSED[literal_kind(node)](node.name))
    return lambda rows: value


_PARSED: dict[Kind, Callable[[str], str | int | float | Decimal]] = {
    Kind.STRING: str,
    Kind.INTEGER: int,
    Kind.FLOAT: float,
    Kind.DECIMAL: Decimal,
}


def _case(node: exp.Expr) -> Run:
    subject, default = node.args.get("this"), node.args.get("default")
    last: Run = _compiled(default) if default is not None else lambda rows: NULL
    safe = default is None or _cannot_fail(default)
    branches: list[CaseBranch] = []
    for branch in reversed(node.args["ifs"]):
        condition, value = branch.this, branch.args["true"]
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        safe = safe and _cannot_fail(value)
        branches.append(CaseBranch(_compiled(condition), _compiled(value), safe))
        safe = safe and _cannot_fail(condition)
    return choice(branches[::-1], last)


def _coalesce(node: exp.Expr) -> Run:
    *values, last = (node.this, *node.expressions)
    safe = all(map(_cannot_fail, node.expressions))
    return first_known(list(map(_compiled, values)), _compiled(last), safe)


def _in(node: exp.Expr) -> Run:
    listed = list_of(node)
    if listed is None:
        return _call(FUNCTIONS[exp.In], node)
    needle, among = _compiled(node.this), Among(listed.array, listed.has_null)
    return lambda rows: among(needle(rows))


def _cannot_fail(node: exp.Expr) -> bool:
    """Whether computing a node on rows that do not need it can neither raise nor change its type.

    Sums and products of integers or decimals can: an overflow changes the type of the whole column.
    """
    for part in node.bfs():
        function = FUNCTIONS.get(key_of(part))
        if function is not None and function.can_fail:
            return False
        if isinstance(part, exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Abs):
            if _kind(part) is not Kind.FLOAT:
                return False
        elif isinstance(part, exp.Cast):
            harmless = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.NULL)
            narrow = bits_of(part) < 64 or target_of(part) is not Kind.FLOAT
            if narrow or _kind(part.this) not in harmless:
                return False
    return True


def _kind(node: exp.Expr) -> Kind:
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
        return Kind.BOOLEAN
    return _kind(node.this) if isinstance(node, exp.Paren) else node_kind(node)


_FORMS: dict[type[exp.Expr], Callable[[exp.Expr], Run]] = {
    exp.Column: lambda node: lambda rows: rows.column(node.name),
    exp.Literal: _literal,
    exp.Boolean: lambda node: lambda rows: pa.scalar(bool(node.this)),
    exp.Null: lambda node: lambda rows: NULL,
    exp.Case: _case,
    exp.In: _in,
    exp.Coalesce: _coalesce,
}
