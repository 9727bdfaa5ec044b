"""Building blocks for expression trees: small, typed sqlglot nodes.

A node in canonical form has its kind in `meta["kind"]`, and a column the relations that it can be
read from in `meta["owners"]`. These functions keep that true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import local
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator

from calitree.errors import ExpressionError, cut
from calitree.sql.limits import MAX_DIGITS, on_deep_stack
from calitree.sql.parsing.chains import balanced
from calitree.types import Kind, common_kind

TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.STRING: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMPNTZ",
    Kind.TIMESTAMP_TZ: "TIMESTAMPTZ",
    Kind.TIME: "TIME",
    Kind.DURATION: "INTERVAL",
    Kind.BINARY: "VARBINARY",
}
"""The type that CAST to a kind is written with."""

NODE_BYTES = 550
"""What a node with its fields takes in memory."""

NAMES: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Neg: "-",
    exp.DPipe: "||",
    exp.Pow: "POWER",
}

_MAY_BE_NARROW = (exp.Column, exp.Case, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif)


def name_of(node: exp.Expr) -> str:
    """The name of a function, or the sign of an operator, in messages."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return NAMES.get(type(node), type(node).__name__.upper())


def key_of(node: exp.Expr) -> type[exp.Expr] | str:
    """What a node is known by: its class, or its name if it is a call of a function by name."""
    return node.name.upper() if type(node) is exp.Anonymous else type(node)


def marked(node: exp.Expr, kind: Kind) -> exp.Expr:
    """`node`, with its kind recorded."""
    node.meta["kind"] = kind
    return node


def kind_of(node: exp.Expr) -> Kind:
    """The recorded kind of a node; OTHER if there is none."""
    kind = node.meta.get("kind")
    return kind if isinstance(kind, Kind) else Kind.OTHER


def check_literal(node: exp.Expr) -> None:
    """Refuse a number with more digits than anything can hold, and what is none."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return
    if len(node.name) > MAX_DIGITS:
        raise ExpressionError(f"{cut(node.name)} has more than {MAX_DIGITS:,} digits")
    try:
        float(node.name)
    except ValueError:
        raise ExpressionError(f"{node.name} is not a number") from None


def literal_kind(node: exp.Expr) -> Kind:
    """The kind of a constant by its text: 1.5 is a decimal, 15e-1 a float."""
    if not isinstance(node, exp.Literal):
        return Kind.BOOLEAN if isinstance(node, exp.Boolean) else Kind.NULL
    if node.is_string:
        return Kind.STRING
    if "e" in node.name.lower():
        return Kind.FLOAT
    return Kind.DECIMAL if "." in node.name else Kind.INTEGER


def integer_of(node: exp.Expr, key: str) -> int | None:
    """An argument of a node that is an integer literal, if it has it."""
    literal = node.args.get(key)
    return None if literal is None else int(literal.name)


def column(attribute: str, owning: Iterable[str] = (), written: str = "") -> exp.Column:
    """The node for an attribute inside an expression; `written` is its name in the user's text."""
    node = exp.Column(this=exp.to_identifier(attribute, quoted=True))
    node.meta["owners"] = tuple(owning)
    node.meta["written"] = written or attribute
    return node


def owners(node: exp.Expr) -> frozenset[str] | None:
    """The relations from which the whole of `node` can be computed; None for a constant."""
    common: frozenset[str] | None = None
    for column in node.find_all(exp.Column):
        readable = frozenset(column.meta["owners"])
        common = readable if common is None else common & readable
    return common


def display(node: exp.Expr) -> str:
    """The text a person reads in a plan: columns as they were written, without quotes."""
    shown = node.copy()
    for column in list(shown.find_all(exp.Column)):
        column.set("this", exp.to_identifier(column.meta.get("written", column.name), quoted=False))
    return sql_text(shown)


def quoted_sql(node: exp.Expr) -> str:
    """A node as an error quotes it."""
    return cut(sql_text(node))


class _Generator(Generator):
    """sqlglot's own, but for `//`: that would be printed as a quotient of doubles, rounded."""

    TRANSFORMS: ClassVar = {
        **Generator.TRANSFORMS,
        exp.IntDiv: lambda self, node: self.binary(node, "//"),
    }


class _Generators(local):
    """A generator for each thread: to make one takes as long as most texts."""

    def __init__(self) -> None:
        self.one = _Generator(dialect=Dialect())


_generators = _Generators()


def sql_text(node: exp.Expr) -> str:
    """A node as SQL.

    sqlglot calls itself for every level of a node. Where the stack ends, levels are printed from below.
    """
    try:
        return _generators.one.generate(node, copy=False)
    except RecursionError:
        return _by_levels(node)


@on_deep_stack
def _by_levels(node: exp.Expr) -> str:
    root = exp.Paren(this=node.copy())
    depths = {id(root): 0}
    parts = []
    for part in root.this.bfs():
        depth = depths[id(part)] = depths[id(part.parent)] + 1
        if depth % _LEVELS == 0 and isinstance(part, exp.Paren | exp.Func):
            parts.append(part)
    for part in reversed(parts):
        part.replace(exp.var(_generators.one.generate(part, copy=False)))
    return _generators.one.generate(root.this, copy=False)


_LEVELS = 10
"""Of a deep node that are printed at once."""


def cast(node: exp.Expr, kind: Kind) -> exp.Expr:
    """`node` as a value of `kind`."""
    return marked(exp.Cast(this=node, to=exp.DataType.build(TYPES[kind])), kind)


def double(node: exp.Expr, kind: Kind) -> exp.Expr:
    """A number of this kind as a double."""
    return node if kind is Kind.FLOAT else cast(node, Kind.FLOAT)


def wide(node: exp.Expr, kind: Kind) -> exp.Expr:
    """An operand of 64-bit arithmetic; only a column, or a choice among some, can be narrower."""
    if kind is Kind.INTEGER and isinstance(node, _MAY_BE_NARROW):
        return cast(node, kind)
    return node


def wider(left: Kind, right: Kind) -> Kind:
    """The kind that two operands, or two branches of a CASE, share."""
    kind = common_kind(left, right)
    if kind is None:
        raise ExpressionError(f"cannot mix {left.phrase} and {right.phrase}")
    return kind


def nullif_zero(node: exp.Expr) -> exp.Expr:
    """NULLIF(node, 0)."""
    return marked(exp.Nullif(this=node, expression=exp.Literal.number(0)), kind_of(node))


def paren(node: exp.Expr) -> exp.Expr:
    """An operator in parentheses, so that the canonical text has the shape of the tree."""
    prefixed = exp.Not | exp.Neg | exp.BitwiseNot
    if isinstance(node, exp.Binary | prefixed | exp.In | exp.Is | exp.Like):
        return marked(exp.Paren(this=node), kind_of(node))
    return node


def binary(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Arithmetic on two typed nodes (copies, so that a node may be used twice)."""
    kind = wider(kind_of(left), kind_of(right))
    return marked(operator(this=paren(left.copy()), expression=paren(right.copy())), kind)


def combined(operator: type[exp.Binary], operands: Sequence[exp.Expr]) -> exp.Expr:
    """Typed operands of an associative operator, which may be many."""

    def combine(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
        result = kind(this=paren(left), expression=paren(right))
        return marked(result, wider(kind_of(left), kind_of(right)))

    return balanced(operator, [operand.copy() for operand in operands], combine)


def number(value: int | float) -> exp.Expr:
    """A literal; a float is written so that it reads back as the same double."""
    if isinstance(value, int):
        size = exp.Literal.number(abs(value))
        return marked(exp.Neg(this=size) if value < 0 else size, Kind.INTEGER)
    return cast(marked(exp.Literal.string(repr(value)), Kind.STRING), Kind.FLOAT)


def not_null(node: exp.Expr) -> exp.Expr:
    """NOT (node IS NULL)."""
    test = exp.Is(this=paren(node.copy()), expression=exp.Null())
    return marked(exp.Not(this=exp.Paren(this=test)), Kind.BOOLEAN)


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """The conjunction of conditions."""
    if len(conditions) == 1:
        return marked(conditions[0].copy(), Kind.BOOLEAN)
    return combined(exp.And, [marked(condition.copy(), Kind.BOOLEAN) for condition in conditions])


def when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """CASE WHEN condition THEN value END."""
    return marked(exp.Case(ifs=[exp.If(this=condition, true=value)]), kind_of(value))


def ratio(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Division of doubles, NULL where the divisor is zero."""
    divisor = nullif_zero(cast(right.copy(), Kind.FLOAT))
    return marked(exp.Div(this=cast(left.copy(), Kind.FLOAT), expression=divisor), Kind.FLOAT)


def node_bytes(node: exp.Expr) -> int:
    """About how many bytes a tree of nodes takes, with the long lists in it."""
    nbytes = 0
    for part in node.walk():
        nbytes += NODE_BYTES
        if "values" in part.meta:
            nbytes += int(part.meta["values"].array.nbytes)
    return nbytes
