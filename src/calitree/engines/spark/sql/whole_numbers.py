"""Exact arithmetic on Spark: integers and decimals as whole numbers with known bounds.

Where a number does not fit, Spark would wrap, raise or round, depending on the session. So a decimal
is computed with as the integer value × 10^scale (twice as fast as Spark's decimals, too), and every
intermediate result has an upper bound. If all bounds fit BIGINT, that is the type to compute in; else
DECIMAL(38), which is three times slower; beyond that only doubles are left, and the result is not exact. So
nothing can overflow, whatever the session's ANSI mode. `calitree.sql.spark` writes the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from sqlglot import exp

from calitree.engines.spark.fields import BIGINT, DECIMAL, DOUBLE, Field
from calitree.engines.spark.sql.zone import as_in_utc
from calitree.sql.functions import FUNCTIONS
from calitree.sql.limits import checked_size, on_deep_stack
from calitree.sql.nodes import key_of, kind_of, marked
from calitree.sql.rules.arithmetic import decimals_of
from calitree.sql.rules.conversions import CASTS, bits_of, is_widened
from calitree.sql.spark import to_spark
from calitree.types import Kind

LIMITS: dict[str, float] = {BIGINT: 2**63 - 1, DECIMAL: 10**38 - 1, DOUBLE: math.inf}
"""The types to compute in, narrowest first, and the largest number that each can hold."""

_DIGITS, _MAX_SCALE, _MIN_PLACES = 38, 37, 6
"""Places of a decimal that Spark keeps where a product may have too many digits."""


class WholeNumber(NamedTuple):
    """A number × 10^scale as SQL text, and an upper bound of its absolute value."""

    text: str
    scale: int
    bound: int


class _Operation(NamedTuple):
    """An operation on whole numbers of one scale: its SQL, and its bound from those of its operands."""

    form: str
    bound: Callable[[Sequence[int]], int]
    can_overflow: bool = True

    @property
    def is_unary(self) -> bool:
        return self.form.count("{}") == 1


class SqlWriter:
    """Writes expressions over `fields` as SQL, computing with whole numbers of one width.

    A column's name in the expressions is its SQL text (`i0.c3`), which is its key in `fields`.
    Afterwards `peak` is an upper bound of all numbers in them, to be compared with the limit of the
    width.
    """

    def __init__(self, fields: Mapping[str, Field], width: str, utc: bool) -> None:
        self.fields = fields
        self.width = width
        self.utc = utc
        self.peak: float = 0
        self.used: set[str] = set()
        """The columns whose bounds `peak` depends on."""
        self.exact = width != DOUBLE

    def recorded(self, number: WholeNumber) -> WholeNumber:
        """The number, after its bound has gone into `peak`."""
        bound = math.inf if number.scale > _MAX_SCALE else number.bound
        self.peak = max(self.peak, bound)
        return number

    # -- any expression --------------------------------------------------------------------------

    @on_deep_stack
    def plain(self, node: exp.Expr) -> str:
        """The value of `node`, as SQL text."""
        root = exp.Paren(this=node.copy())
        self._rewrite(root.this)
        return self._text(root.this)

    def _text(self, node: exp.Expr) -> str:
        return to_spark(node if self.utc else as_in_utc(node))

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
        if isinstance(node, exp.Cast) and is_widened(node):
            return self.value(node)
        if not _computes(node):
            return None
        if type(node) in _COMPARED:
            pair = self.wholes((node.this, node.expression))
            return f"({pair[0].text} {_COMPARED[type(node)]} {pair[1].text})" if pair else None
        if isinstance(node, exp.In):
            values = self.wholes((node.this, *node.expressions))
            listed = ", ".join(value.text for value in values[1:])
            return f"({values[0].text} IN ({listed}))" if values else None
        return self.value(node)

    def value(self, node: exp.Expr) -> str | None:
        """The value of a whole number: a double among doubles, and a decimal elsewhere."""
        number = self.whole(node)
        if number is None:
            return None
        if number.scale == 0:
            return number.text
        if self.width == DOUBLE or _among_doubles(node):
            return f"(CAST({number.text} AS DOUBLE) / {_power(number.scale)}D)"
        return as_decimal(number.text, number.scale)

    # -- whole numbers ---------------------------------------------------------------------------

    def whole(self, node: exp.Expr) -> WholeNumber | None:
        """`node` as a whole number, or None if it is a double or no number at all."""
        rule = _WHOLE.get(type(node))
        if rule is not None:
            return rule(self, node)
        known = FUNCTIONS.get(key_of(node)) if kind_of(node) is Kind.INTEGER else None
        return self._opaque(node, known.bound) if known is not None else None

    def wholes(self, nodes: Iterable[exp.Expr]) -> list[WholeNumber]:
        """Several whole numbers at one scale; empty if any of the nodes is not one."""
        numbers = []
        for node in nodes:
            number = self.whole(node)
            if number is None:
                return []
            numbers.append(number)
        scale = max(number.scale for number in numbers)
        return [self.shifted(number, scale) for number in numbers]

    def shifted(self, number: WholeNumber, scale: int) -> WholeNumber:
        """The same number at a finer scale."""
        by = scale - number.scale
        if by == 0:
            return number
        text = f"({number.text} * {self.digits(_power(by))})"
        return self.recorded(WholeNumber(text, scale, number.bound * _power(by)))

    def digits(self, value: int) -> str:
        """An integer literal of this width."""
        if self.width == BIGINT and abs(value) < 2**63:
            return f"{value}L"
        return f"{value}D" if self.width == DOUBLE else f"CAST({value} AS {DECIMAL})"

    def _column(self, node: exp.Expr) -> WholeNumber | None:
        field = self.fields[node.name]
        if not field.is_whole:
            return None
        self.used.add(node.name)
        return self.column(node.name, field)

    def column(self, text: str, field: Field) -> WholeNumber:
        """A column that holds integers or decimals."""
        shift = 0 if field.coded else field.scale
        if shift and self.width == DOUBLE:
            text = f"(CAST({text} AS DOUBLE) * {_power(shift)}D)"
        elif shift:
            text = _unscaled(text, field, self.width)
        elif field.type != self.width:
            text = f"CAST({text} AS {self.width})"
        number = WholeNumber(text, field.scale, field.bound)
        if field.type.startswith("DECIMAL"):
            self.recorded(number)
        return number

    def _literal(self, node: exp.Expr) -> WholeNumber | None:
        text = node.name
        if node.args.get("is_string") or not text.replace(".", "", 1).isdigit():
            return None
        before, _, after = text.partition(".")
        value = int(before + after)
        return self.recorded(WholeNumber(self.digits(value), len(after), value))

    def _operation(self, node: exp.Expr) -> WholeNumber | None:
        operation = _OPERATIONS[type(node)]
        operands = [node.this] if operation.is_unary else [node.this, node.expression]
        numbers = self.wholes(operands)
        if not numbers:
            return None
        text = checked_size(operation.form.format(*(number.text for number in numbers)))
        bound = operation.bound([number.bound for number in numbers])
        result = WholeNumber(text, numbers[0].scale, bound)
        return self.recorded(result) if operation.can_overflow else result

    def _product(self, node: exp.Expr) -> WholeNumber | None:
        left, right = self.whole(node.this), self.whole(node.expression)
        if left is None or right is None:
            return None
        scale, bound = left.scale + right.scale, left.bound * right.bound
        return self.recorded(WholeNumber(f"({left.text} * {right.text})", scale, bound))

    def _one_of(self, node: exp.Expr) -> WholeNumber | None:
        """COALESCE, GREATEST, LEAST."""
        values = self.wholes((node.this, *node.expressions))
        if len(values) < 2:
            return values[0] if values else None
        listed = ", ".join(value.text for value in values)
        return _any_of(values, f"{type(node).__name__.upper()}({listed})")

    def _case(self, node: exp.Expr) -> WholeNumber | None:
        branches = node.args["ifs"]
        otherwise = node.args.get("default") or exp.Null()
        values = self.wholes((*(branch.args["true"] for branch in branches), otherwise))
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

    def _cast(self, node: exp.Expr) -> WholeNumber | None:
        if CASTS.get(node.args["to"].this) is not Kind.INTEGER:
            return None
        if kind_of(node.this) is Kind.BOOLEAN:
            return self._opaque(node, 1)
        bits = bits_of(node)
        inner = self.whole(node.this)
        fits = not isinstance(node, exp.TryCast) or inner is None or inner.bound <= 2**63
        if inner is not None and inner.scale == 0 and bits == 64 and fits:
            return inner
        return self._opaque(node, 1 << bits - 1)

    def _rounded(self, node: exp.Expr) -> WholeNumber | None:
        """FLOOR, CEIL or ROUND of a decimal."""
        inner, places = self.whole(node.this), decimals_of(node)
        if inner is None or kind_of(node) is not Kind.DECIMAL:
            return None
        if inner.scale <= places:
            return inner
        rounded = self._opaque(node, inner.bound // _power(inner.scale - places) + 1, places)
        return self.recorded(rounded)

    def _opaque(self, node: exp.Expr, bound: int, scale: int = 0) -> WholeNumber:
        """A number that is not the result of arithmetic; there may be some inside."""
        inside = node.copy()
        for child in list(inside.iter_expressions()):
            self._rewrite(child)
        text = self._text(inside)
        if scale:
            text = f"{text} * {_power(scale)}"
        if self.width != BIGINT or kind_of(node) is not Kind.INTEGER:
            text = f"CAST({text} AS {self.width})"
        return WholeNumber(text, scale, bound)


def _unscaled(text: str, field: Field, width: str) -> str:
    """A decimal without its decimal point.

    Spark's product has no room for the largest numbers. These are written with an exponent; small
    ones not, as their text may have one already.
    """
    precision, scale = int(field.type[len("DECIMAL(") :].split(",")[0]), field.scale
    product = f"CAST({text} * {_power(scale)} AS {width})"
    places = max(_DIGITS - (precision + 2), min(scale, _MIN_PLACES))
    if precision + scale + 2 <= _DIGITS or field.bound < _power(_DIGITS - places):
        return product
    written = f"CAST(CONCAT(CAST({text} AS STRING), 'E{scale}') AS {width})"
    return f"IF(ABS({text}) < 0.000001, {product}, {written})"


def as_decimal(text: str, scale: int) -> str:
    """A whole number with its decimal point; Spark's own * and / may round to 6 places."""
    return f"CAST(CONCAT(CAST({text} AS STRING), 'E-{scale}') AS DECIMAL(38,{scale}))"


def _among_doubles(node: exp.Expr) -> bool:
    """Whether it is an operand of arithmetic; on whole numbers, that would have been rewritten too."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return CASTS.get(parent.args["to"].this) is Kind.FLOAT
    return isinstance(parent, (*_ARITHMETIC, exp.Div))


def _any_of(values: Sequence[WholeNumber], text: str) -> WholeNumber:
    """One of several numbers of one scale."""
    return WholeNumber(text, values[0].scale, max(value.bound for value in values))


def _power(digits: int) -> int:
    return int(10**digits)


def _computes(node: exp.Expr) -> bool:
    """Whether there is arithmetic in it; a negative literal is none."""
    return any(
        isinstance(part, _ARITHMETIC)
        and not (isinstance(part, exp.Neg) and isinstance(part.this, exp.Literal))
        for part in node.walk()
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
_OPERATIONS: dict[type[exp.Expr], _Operation] = {
    exp.Neg: _Operation("(-{})", max),
    exp.Abs: _Operation("ABS({})", max),
    exp.Add: _Operation("({} + {})", sum),
    exp.Sub: _Operation("({} - {})", sum),
    exp.Mod: _Operation("({} % {})", itemgetter(0), can_overflow=False),
    exp.Nullif: _Operation("IF({0} = {1}, NULL, {0})", itemgetter(0), can_overflow=False),
}
_WHOLE: dict[type[exp.Expr], Callable[[SqlWriter, exp.Expr], WholeNumber | None]] = {
    exp.Column: SqlWriter._column,
    exp.Literal: SqlWriter._literal,
    exp.Null: lambda writer, _: WholeNumber(f"CAST(NULL AS {writer.width})", 0, 0),
    exp.Paren: lambda writer, node: writer.whole(node.this),
    **dict.fromkeys(_OPERATIONS, SqlWriter._operation),
    exp.Mul: SqlWriter._product,
    exp.Coalesce: SqlWriter._one_of,
    exp.Greatest: SqlWriter._one_of,
    exp.Least: SqlWriter._one_of,
    exp.Case: SqlWriter._case,
    exp.Cast: SqlWriter._cast,
    exp.TryCast: SqlWriter._cast,
    **dict.fromkeys((exp.Floor, exp.Ceil, exp.Round), SqlWriter._rounded),
}
