"""Exact arithmetic for Spark: integers and decimals as whole numbers whose size is known before.

Where a number does not fit, Spark would wrap, raise or round, depending on the session. So a decimal
is computed with as the integer value × 10^scale (twice as fast as Spark's decimals, too), and each
step carries a bound on what it can reach. If no step can leave BIGINT, BIGINT it is; else DECIMAL(38),
which is three times slower; beyond that only doubles are left, and the result is no longer exact.
Nothing can overflow then, whatever the session's ANSI mode.

What is not arithmetic is written by `calitree.sql.spark`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from calitree.engines.spark.zone import as_in_utc
from calitree.sql.nodes import kind_of, marked
from calitree.sql.rules.conversions import CASTS
from calitree.sql.spark import to_spark
from calitree.types import Kind

BIGINT, DECIMAL, DOUBLE = "BIGINT", "DECIMAL(38,0)", "DOUBLE"
LIMITS: dict[str, float] = {BIGINT: 2**63 - 1, DECIMAL: 10**38 - 1, DOUBLE: math.inf}
"""The widths to compute in, narrowest first, and the largest number that each can hold."""

_LARGEST_SCALE = 37
_ROUNDED_FROM = 10**31
"""From here on Spark rounds a decimal of more than 6 places when it is multiplied by 10^places."""


@dataclass(frozen=True)
class Field:
    """A column as Spark has it: its name there, its type, and how large its numbers can be."""

    name: str
    type: str
    kind: Kind
    scale: int = 0
    bound: int = 0
    """No value × 10^scale is further from zero; of integers and decimals only."""
    coded: bool = False
    """Holds value × 10^scale, not the value."""
    exact: bool = True

    @property
    def is_whole(self) -> bool:
        return self.kind in (Kind.INTEGER, Kind.DECIMAL)


class Whole(NamedTuple):
    """A number × 10^scale as SQL text, and how far from zero it can be."""

    text: str
    scale: int
    bound: int


class Writer:
    """Writes expressions over `fields` as SQL, computing with whole numbers of one width.

    A column's name in the expressions is its SQL text (`i0.c3`), by which `fields` knows it.
    Afterwards `peak` is the largest number that may have come up, to be compared with the limit of
    the width.
    """

    def __init__(self, fields: Mapping[str, Field], width: str, utc: bool) -> None:
        self.fields = fields
        self.width = width
        self.utc = utc
        self.peak: float = 0
        self.used: set[str] = set()
        """The columns whose bounds `peak` depends on."""
        self.exact = width != DOUBLE

    def reached(self, number: Whole) -> Whole:
        """Remember how large this can be."""
        beyond = math.inf if number.scale > _LARGEST_SCALE else number.bound
        self.peak = max(self.peak, beyond)
        return number

    # -- any expression --------------------------------------------------------------------------

    def plain(self, node: exp.Expr) -> str:
        """The value of `node`, as SQL text."""
        root = exp.Paren(this=node.copy())
        self._rewrite(root.this)
        return to_spark(root.this if self.utc else as_in_utc(root.this))

    def _rewrite(self, node: exp.Expr) -> None:
        """Replace the arithmetic in a tree by the text of its whole numbers."""
        text = self._rewritten(node)
        if text is not None:
            node.replace(marked(exp.var(text), kind_of(node)))
            return
        for child in list(node.iter_expressions()):
            self._rewrite(child)

    def _rewritten(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Column):
            field = self.fields[node.name]
            node.meta["kind"] = field.kind
            self.exact = self.exact and field.exact
            return self.value(node) if field.coded else None
        if not _computes(node):
            return None
        if type(node) in _COMPARED:
            pair = self.wholes((node.this, node.expression))
            return f"({pair[0].text} {_COMPARED[type(node)]} {pair[1].text})" if pair else None
        if isinstance(node, exp.In):
            values = self.wholes((node.this, *node.expressions))
            listed = ", ".join(each.text for each in values[1:])
            return f"({values[0].text} IN ({listed}))" if values else None
        return self.value(node)

    def value(self, node: exp.Expr) -> str | None:
        """What a whole number stands for: a double among doubles, and a decimal elsewhere."""
        number = self.whole(node)
        if number is None:
            return None
        if number.scale == 0:
            return number.text
        if self.width == DOUBLE or _among_doubles(node):
            return f"(CAST({number.text} AS DOUBLE) / {_power(number.scale)}D)"
        return as_decimal(number.text, number.scale)

    # -- whole numbers ---------------------------------------------------------------------------

    def whole(self, node: exp.Expr) -> Whole | None:
        """`node` as a whole number, or None if it is none: a double, or no number at all."""
        rule = _WHOLE.get(type(node))
        return rule(self, node) if rule is not None else None

    def wholes(self, nodes: Iterable[exp.Expr]) -> list[Whole]:
        """Several of them at one scale; nothing if one of them is none."""
        numbers = []
        for node in nodes:
            number = self.whole(node)
            if number is None:
                return []
            numbers.append(number)
        scale = max(each.scale for each in numbers)
        return [self.shifted(each, scale) for each in numbers]

    def shifted(self, number: Whole, scale: int) -> Whole:
        """The same number at a finer scale."""
        by = scale - number.scale
        if by == 0:
            return number
        text = f"({number.text} * {self.digits(_power(by))})"
        return self.reached(Whole(text, scale, number.bound * _power(by)))

    def digits(self, value: int) -> str:
        """An integer literal of this width."""
        if self.width == BIGINT and abs(value) < 2**63:
            return f"{value}L"
        return f"{value}D" if self.width == DOUBLE else f"CAST({value} AS {DECIMAL})"

    def _column(self, node: exp.Expr) -> Whole | None:
        field = self.fields[node.name]
        if not field.is_whole:
            return None
        self.used.add(node.name)
        return self.column(node.name, field)

    def column(self, text: str, field: Field) -> Whole:
        """A column that holds integers or decimals."""
        shift = 0 if field.coded else field.scale
        if shift and self.width == DOUBLE:
            text = f"(CAST({text} AS DOUBLE) * {_power(shift)}D)"
        elif shift:
            text = f"CAST({text} * {_power(shift)} AS {self.width})"
        elif field.type != self.width:
            text = f"CAST({text} AS {self.width})"
        number = Whole(text, field.scale, field.bound)
        if field.type.startswith("DECIMAL"):
            self.reached(number)
        if shift > 6 and field.bound >= _ROUNDED_FROM:
            self.peak = math.inf
        return number

    def _literal(self, node: exp.Expr) -> Whole | None:
        text = node.name
        if node.args.get("is_string") or not text.replace(".", "", 1).isdigit():
            return None
        before, _, after = text.partition(".")
        value = int(before + after)
        return self.reached(Whole(self.digits(value), len(after), value))

    def _null(self, node: exp.Expr) -> Whole:
        return Whole(f"CAST(NULL AS {self.width})", 0, 0)

    def _paren(self, node: exp.Expr) -> Whole | None:
        return self.whole(node.this)

    def _negated(self, node: exp.Expr) -> Whole | None:
        inner = self.whole(node.this)
        if inner is None:
            return None
        return self.reached(inner._replace(text=f"(-{inner.text})"))

    def _absolute(self, node: exp.Expr) -> Whole | None:
        inner = self.whole(node.this)
        if inner is None:
            return None
        return self.reached(inner._replace(text=f"ABS({inner.text})"))

    def _sum(self, node: exp.Expr) -> Whole | None:
        pair = self.wholes((node.this, node.expression))
        if not pair:
            return None
        left, right = pair
        sign = "+" if isinstance(node, exp.Add) else "-"
        text = f"({left.text} {sign} {right.text})"
        return self.reached(Whole(text, left.scale, left.bound + right.bound))

    def _product(self, node: exp.Expr) -> Whole | None:
        left, right = self.whole(node.this), self.whole(node.expression)
        if left is None or right is None:
            return None
        scale, bound = left.scale + right.scale, left.bound * right.bound
        return self.reached(Whole(f"({left.text} * {right.text})", scale, bound))

    def _remainder(self, node: exp.Expr) -> Whole | None:
        pair = self.wholes((node.this, node.expression))
        return pair[0]._replace(text=f"({pair[0].text} % {pair[1].text})") if pair else None

    def _nullif(self, node: exp.Expr) -> Whole | None:
        pair = self.wholes((node.this, node.expression))
        return pair[0]._replace(text=f"NULLIF({pair[0].text}, {pair[1].text})") if pair else None

    def _chosen(self, node: exp.Expr) -> Whole | None:
        """COALESCE, GREATEST, LEAST."""
        values = self.wholes((node.this, *node.expressions))
        if len(values) < 2:
            return values[0] if values else None
        listed = ", ".join(each.text for each in values)
        return _any_of(values, f"{type(node).__name__.upper()}({listed})")

    def _case(self, node: exp.Expr) -> Whole | None:
        branches = node.args["ifs"]
        otherwise = node.args.get("default") or exp.Null()
        values = self.wholes((*(each.args["true"] for each in branches), otherwise))
        if not values:
            return None
        text = ""
        for branch, value in zip(branches, values, strict=False):
            test = branch.this
            if node.this is not None:
                test = exp.EQ(this=node.this.copy(), expression=test.copy())
            condition = "FALSE" if isinstance(test, exp.Null) else self.plain(test)
            text += f" WHEN {condition} THEN {value.text}"
        return _any_of(values, f"CASE{text} ELSE {values[-1].text} END")

    def _cast(self, node: exp.Expr) -> Whole | None:
        if CASTS.get(node.args["to"].this) is not Kind.INTEGER:
            return None
        if kind_of(node.this) is Kind.BOOLEAN:
            return self._opaque(node, 1)
        inner = self.whole(node.this)
        if inner is not None and inner.scale == 0:
            return inner
        return self._opaque(node, 2**63)

    def _part(self, node: exp.Expr) -> Whole:
        return self._opaque(node, 2**31)

    def _opaque(self, node: exp.Expr, bound: int) -> Whole:
        """A BIGINT that is not the result of arithmetic; there may be some inside."""
        inside = node.copy()
        for child in list(inside.iter_expressions()):
            self._rewrite(child)
        text = to_spark(inside if self.utc else as_in_utc(inside))
        return Whole(text if self.width == BIGINT else f"CAST({text} AS {self.width})", 0, bound)


def as_decimal(text: str, scale: int) -> str:
    """A whole number with its decimal point; Spark's own * and / may round to 6 places."""
    return f"CAST(CONCAT(CAST({text} AS STRING), 'E-{scale}') AS DECIMAL(38,{scale}))"


def _among_doubles(node: exp.Expr) -> bool:
    """Whether it is an operand; its operator works on doubles, or would be part of the number."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return CASTS.get(parent.args["to"].this) is Kind.FLOAT
    return isinstance(parent, (*_ARITHMETIC, exp.Div))


def _any_of(values: Sequence[Whole], text: str) -> Whole:
    """One of several numbers of one scale."""
    return Whole(text, values[0].scale, max(each.bound for each in values))


def _power(digits: int) -> int:
    return int(10**digits)


def _computes(node: exp.Expr) -> bool:
    """Whether there is arithmetic in it; a negative literal is none."""
    return any(
        isinstance(each, _ARITHMETIC)
        and not (isinstance(each, exp.Neg) and isinstance(each.this, exp.Literal))
        for each in node.walk()
    )


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs)
_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_WHOLE: dict[type[exp.Expr], Callable[[Writer, exp.Expr], Whole | None]] = {
    exp.Column: Writer._column,
    exp.Literal: Writer._literal,
    exp.Null: Writer._null,
    exp.Paren: Writer._paren,
    exp.Neg: Writer._negated,
    exp.Abs: Writer._absolute,
    exp.Add: Writer._sum,
    exp.Sub: Writer._sum,
    exp.Mul: Writer._product,
    exp.Mod: Writer._remainder,
    exp.Nullif: Writer._nullif,
    exp.Coalesce: Writer._chosen,
    exp.Greatest: Writer._chosen,
    exp.Least: Writer._chosen,
    exp.Case: Writer._case,
    exp.Cast: Writer._cast,
    exp.TryCast: Writer._cast,
    exp.Length: Writer._part,
    exp.Extract: Writer._part,
}
