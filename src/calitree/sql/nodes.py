"""Building blocks for expression trees: small, typed sqlglot nodes.

A normalised node knows its kind (`meta["kind"]`), and a column knows which relations it can be read
from (`meta["owners"]`). These functions keep that true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.types import Kind, common_kind

TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.STRING: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMPNTZ",
    Kind.TIMESTAMP_TZ: "TIMESTAMPTZ",
}


def marked(node: exp.Expr, kind: Kind) -> exp.Expr:
    """`node`, remembered to be of this kind."""
    node.meta["kind"] = kind
    return node


def kind_of(node: exp.Expr) -> Kind:
    """The kind found by typing (columns and casts carry it; the rest was recorded on the way)."""
    kind = node.meta.get("kind")
    return kind if isinstance(kind, Kind) else Kind.OTHER


def column(attribute: str, owning: Iterable[str] = (), written: str = "") -> exp.Column:
    """The node by which an attribute is named inside an expression; `written` is what the user
    called it.
    """
    node = exp.Column(this=exp.to_identifier(attribute, quoted=True))
    node.meta["owners"] = tuple(owning)
    node.meta["written"] = written or attribute
    return node


def owners(node: exp.Expr) -> frozenset[str] | None:
    """The relations from which the whole of `node` can be computed; None for a constant."""
    common: frozenset[str] | None = None
    for column in node.find_all(exp.Column):
        here = frozenset(column.meta["owners"])
        common = here if common is None else common & here
    return common


def display(node: exp.Expr) -> str:
    """The text a person reads in a plan: columns as they were written, without quotes."""
    shown = node.copy()
    for each in list(shown.find_all(exp.Column)):
        each.set("this", exp.to_identifier(each.meta.get("written", each.name), quoted=False))
    return shown.sql()


def cast(node: exp.Expr, kind: Kind) -> exp.Expr:
    """`node` as a value of `kind`."""
    result = exp.Cast(this=node, to=exp.DataType.build(TYPES[kind]))
    result.meta["kind"] = kind
    return result


def wider(left: Kind, right: Kind) -> Kind:
    """The kind that two operands, or two branches of a CASE, share."""
    kind = common_kind(left, right)
    if kind is None:
        raise ExpressionError(f"cannot mix {left.phrase} and {right.phrase}")
    return kind


def nullif_zero(node: exp.Expr) -> exp.Expr:
    result = exp.Nullif(this=node, expression=exp.Literal.number(0))
    result.meta["kind"] = kind_of(node)
    return result


def paren(node: exp.Expr) -> exp.Expr:
    """Keep the tree's shape in the canonical text, whatever the operators' precedence."""
    if isinstance(node, exp.Binary | exp.Not | exp.Neg | exp.In | exp.Is | exp.Like):
        result = exp.Paren(this=node)
        result.meta["kind"] = kind_of(node)
        return result
    return node


def binary(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Arithmetic on two typed nodes (copies, so that a node may be used twice)."""
    kind = wider(kind_of(left), kind_of(right))
    return marked(operator(this=paren(left.copy()), expression=paren(right.copy())), kind)


def number(value: int | float) -> exp.Expr:
    """A literal; a float is written so that it reads back as the same double."""
    if isinstance(value, int):
        sign = exp.Literal.number(abs(value))
        return marked(exp.Neg(this=sign) if value < 0 else sign, Kind.INTEGER)
    return cast(marked(exp.Literal.string(repr(value)), Kind.STRING), Kind.FLOAT)


def not_null(node: exp.Expr) -> exp.Expr:
    test = exp.Is(this=paren(node.copy()), expression=exp.Null())
    return marked(exp.Not(this=exp.Paren(this=test)), Kind.BOOLEAN)


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    result = conditions[0].copy()
    for each in conditions[1:]:
        result = exp.And(this=paren(result), expression=paren(each.copy()))
    return marked(result, Kind.BOOLEAN)


def when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """CASE WHEN condition THEN value END."""
    return marked(exp.Case(ifs=[exp.If(this=condition, true=value)]), kind_of(value))


def ratio(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Division of doubles, NULL where the divisor is zero."""
    divisor = nullif_zero(cast(right.copy(), Kind.FLOAT))
    return marked(exp.Div(this=cast(left.copy(), Kind.FLOAT), expression=divisor), Kind.FLOAT)
