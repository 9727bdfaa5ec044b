"""One meaning for SQL's scalar expressions: resolve, type, normalise.

What SQL dialects disagree on is written out once, here, so that every engine computes the same
number:

* `/` is division of doubles and NULL when the divisor is zero; `%` by zero is NULL too;
* integer arithmetic is 64-bit, whatever the column's width;
* a string literal compared with a date or timestamp is cast to it.

What is not understood is refused: an option that is dropped silently would be a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import reduce
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.nodes import cast, column, display, kind_of, nullif_zero, paren, wider
from calitree.types import Kind


class Resolved(NamedTuple):
    """What a column name stands for: its attribute, the relations it may be read from, its kind."""

    attribute: str
    owners: tuple[str, ...]
    kind: Kind


Resolver = Callable[[str | None, str], Resolved]
"""Given the table (or None) and the name of a column as written, tell what it is."""


CASTS = {
    exp.DataType.Type.TINYINT: Kind.INTEGER,
    exp.DataType.Type.SMALLINT: Kind.INTEGER,
    exp.DataType.Type.INT: Kind.INTEGER,
    exp.DataType.Type.BIGINT: Kind.INTEGER,
    exp.DataType.Type.FLOAT: Kind.FLOAT,
    exp.DataType.Type.DOUBLE: Kind.FLOAT,
    exp.DataType.Type.TEXT: Kind.STRING,
    exp.DataType.Type.VARCHAR: Kind.STRING,
    exp.DataType.Type.BOOLEAN: Kind.BOOLEAN,
    exp.DataType.Type.DATE: Kind.DATE,
    exp.DataType.Type.TIMESTAMP: Kind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: Kind.TIMESTAMP,
    exp.DataType.Type.DATETIME: Kind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: Kind.TIMESTAMP_TZ,
}

SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What TRIM removes: every character that Unicode calls a space; tabs and line ends are none."""

DATE_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE")
TRUNC_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")

_PART_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfYear: "DOY",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
}

_FLOAT_FUNCTIONS = (exp.Sqrt, exp.Ln, exp.Exp)
_ROUNDING = (exp.Floor, exp.Ceil, exp.Round)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_AS_WIDE_AS_ITS_COLUMNS = (
    exp.Column,
    exp.Case,
    exp.Coalesce,
    exp.Greatest,
    exp.Least,
    exp.Nullif,
)

_UNDERSTOOD = frozenset(
    [
        "this",
        "expression",
        "expressions",
        "ifs",
        "default",
        "true",
        "false",
        "low",
        "high",
        "decimals",
        "start",
        "length",
        "unit",
        "to",
        "typed",
        "safe",
        "big_int",
        "ignore_nulls",
        "_type",
        "negate",
        "query",
        "unnest",
    ]
)

Pair = tuple[exp.Expr, Kind]
Rule = Callable[["_Typing", Any], Pair]


def _castable(source: Kind, target: Kind) -> bool:
    """Whether SQL dialects agree that there is such a cast (a number of seconds is no timestamp)."""
    if source in (target, Kind.NULL):
        return True
    families = {
        "time" if kind.is_temporal else "number"
        for kind in (source, target)
        if kind.is_number or kind.is_temporal or kind is Kind.BOOLEAN
    }
    others = {source, target} - set(CASTS.values()) - {Kind.DECIMAL}
    return len(families) == 1 and not others


def normalise(node: exp.Expr, resolve: Resolver) -> exp.Expr:
    """Resolve the columns of a parsed node, check its types, and write it out for every engine."""
    return _Typing(resolve, node).normal(node)[0]


class _Typing:
    """One bottom-up pass over one parsed expression: resolve, type, normalise."""

    def __init__(self, resolve: Resolver, whole: exp.Expr) -> None:
        self.resolve = resolve
        self.whole = whole

    def fail(self, reason: str) -> ExpressionError:
        return ExpressionError(f"In {self.whole.sql()!r}: {reason}.")

    def normal(self, node: exp.Expr) -> Pair:
        try:
            result, kind = self._normal(node)
        except ExpressionError as error:
            text = str(error)
            raise error if text.endswith((".", "?")) else self.fail(text) from None
        result.meta["kind"] = kind
        return result, kind

    def number(self, node: exp.Expr, what: str) -> Pair:
        result, kind = self.normal(node)
        if not (kind.is_number or kind is Kind.NULL):
            raise self.fail(f"{what} needs a number, but {node.sql()} is {kind.phrase}")
        return result, kind

    def string(self, node: exp.Expr, what: str) -> exp.Expr:
        result, kind = self.normal(node)
        if kind not in (Kind.STRING, Kind.NULL):
            raise self.fail(f"{what} needs text, but {node.sql()} is {kind.phrase}")
        return result

    def boolean(self, node: exp.Expr, what: str) -> exp.Expr:
        result, kind = self.normal(node)
        if kind not in (Kind.BOOLEAN, Kind.NULL):
            raise self.fail(f"{what} needs a condition, but {node.sql()} is {kind.phrase}")
        return result

    def wide(self, node: exp.Expr, kind: Kind) -> exp.Expr:
        """An operand of 64-bit arithmetic; only a column, or a choice among some, can be narrower."""
        if kind is Kind.INTEGER and isinstance(node, _AS_WIDE_AS_ITS_COLUMNS):
            return cast(node, kind)
        return node

    def double(self, pair: Pair) -> exp.Expr:
        return pair[0] if pair[1] is Kind.FLOAT else cast(pair[0], Kind.FLOAT)

    def alike(self, left: Pair, right: Pair) -> tuple[exp.Expr, exp.Expr]:
        """Two sides of a comparison, brought to one kind."""
        (a, ka), (b, kb) = left, right
        if ka.is_temporal and isinstance(b, exp.Literal) and b.is_string:
            b, kb = self.moment(b, ka), ka
        elif kb.is_temporal and isinstance(a, exp.Literal) and a.is_string:
            a, ka = self.moment(a, kb), kb
        if ka.is_temporal and kb.is_temporal and ka is not kb:
            kind = wider(ka, kb)
            a, b = (a if ka is kind else cast(a, kind)), (b if kb is kind else cast(b, kind))
            return a, b
        if not ka.meets(kb):
            raise self.fail(
                f"cannot compare {display(a)} ({ka.phrase}) with {display(b)} ({kb.phrase})"
            )
        return a, b

    def moment(self, literal: exp.Literal, kind: Kind) -> exp.Expr:
        """A quoted date or timestamp; what is none is told now, not when rows are read."""
        try:
            datetime.fromisoformat(literal.name.strip())
        except ValueError:
            raise self.fail(
                f"'{literal.name}' is not {kind.phrase}; write 2024-01-31 or 2024-01-31 12:30:00"
            ) from None
        return cast(literal, kind)

    def _normal(self, node: exp.Expr) -> Pair:
        if isinstance(node, exp.Paren):
            return self.normal(node.this)
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise self.fail("* stands for no single column")
            if node.args.get("db") is not None:
                raise self.fail(f"write {node.sql()} as relation.column")
            found = self.resolve(node.table or None, node.name)
            written = f"{node.table}.{node.name}" if node.table else node.name
            return column(found.attribute, found.owners, written), found.kind
        if isinstance(node, exp.Literal):
            if node.is_string:
                return node.copy(), Kind.STRING
            text = node.name.lower()
            if "e" in text:
                return node.copy(), Kind.FLOAT
            return node.copy(), Kind.DECIMAL if "." in text else Kind.INTEGER
        if isinstance(node, exp.Boolean):
            return node.copy(), Kind.BOOLEAN
        if isinstance(node, exp.Null):
            return node.copy(), Kind.NULL
        for classes, method in self._RULES:
            if isinstance(node, classes):
                self.refuse_unknown_options(node)
                return method(self, node)
        if isinstance(node, exp.AggFunc):
            raise self.fail(f"{node.sql()} is an aggregate; aggregates belong in measures")
        if isinstance(node, exp.Anonymous):
            raise self.fail(f"there is no function {node.name}")
        raise self.fail(f"{node.sql()} is not supported here")

    def refuse_unknown_options(self, node: exp.Expr) -> None:
        """A modifier we would not carry over (ESCAPE, SYMMETRIC, …) must never be dropped silently."""
        for option, value in node.args.items():
            if value not in (None, False, []) and option not in _UNDERSTOOD:
                raise self.fail(f"{option.upper()} in {node.sql()} is not supported")

    def arithmetic(self, node: exp.Binary) -> Pair:
        sign = {"Add": "+", "Sub": "-", "Mul": "*"}[type(node).__name__]
        left, right = self.number(node.left, sign), self.number(node.right, sign)
        result = type(node)(this=paren(self.wide(*left)), expression=paren(self.wide(*right)))
        return result, wider(left[1], right[1])

    def negation(self, node: exp.Expr) -> Pair:
        inner, kind = self.number(node.this, "-")
        return exp.Neg(this=paren(self.wide(inner, kind))), kind

    def division(self, node: exp.Binary) -> Pair:
        left, right = self.number(node.left, "/"), self.number(node.right, "/")
        return exp.Div(
            this=paren(self.double(left)), expression=nullif_zero(self.double(right))
        ), Kind.FLOAT

    def modulo(self, node: exp.Binary) -> Pair:
        left, right = self.number(node.left, "%"), self.number(node.right, "%")
        return exp.Mod(
            this=paren(self.wide(*left)), expression=nullif_zero(self.wide(*right))
        ), wider(left[1], right[1])

    def comparison(self, node: exp.Binary) -> Pair:
        a, b = self.alike(self.normal(node.left), self.normal(node.right))
        return type(node)(this=paren(a), expression=paren(b)), Kind.BOOLEAN

    def connective(self, node: exp.Binary) -> Pair:
        word = type(node).__name__.upper()
        sides = [self.boolean(side, word) for side in (node.left, node.right)]
        return type(node)(this=paren(sides[0]), expression=paren(sides[1])), Kind.BOOLEAN

    def negated(self, node: exp.Expr) -> Pair:
        return exp.Not(this=paren(self.boolean(node.this, "NOT"))), Kind.BOOLEAN

    def is_(self, node: exp.Expr) -> Pair:
        inner, kind = self.normal(node.this)
        if isinstance(node.expression, exp.Boolean) and kind not in (Kind.BOOLEAN, Kind.NULL):
            raise self.fail(f"IS {node.expression.sql()} needs a condition")
        if not isinstance(node.expression, exp.Boolean | exp.Null):
            raise self.fail(f"{node.sql()} is not supported here")
        return exp.Is(this=paren(inner), expression=node.expression.copy()), Kind.BOOLEAN

    def in_(self, node: exp.Expr) -> Pair:
        if node.args.get("query") or node.args.get("unnest"):
            raise self.fail("IN takes a list of values here, not a query")
        this = self.normal(node.this)
        if not node.expressions:
            raise self.fail("IN needs at least one value")
        values = [self.normal(each) for each in node.expressions]
        for value in values:  # a date, or quoted text, among timestamps becomes one
            needle = self.alike(this, value)[0]
            this = needle, kind_of(needle)
        items: dict[str, exp.Expr] = {}
        for value in values:
            item = self.alike(this, value)[1]
            items[item.sql()] = item
        ordered = [items[key] for key in sorted(items)]
        return exp.In(this=paren(this[0]), expressions=ordered), Kind.BOOLEAN

    def between(self, node: exp.Expr) -> Pair:
        ge = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        le = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return self.connective(exp.And(this=ge, expression=le))

    def like(self, node: exp.Expr) -> Pair:
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise self.fail("LIKE takes a quoted pattern")
        result = type(node)(this=self.string(node.this, "LIKE"), expression=pattern.copy())
        return exp.Not(this=paren(result)) if node.args.get("negate") else result, Kind.BOOLEAN

    def case(self, node: exp.Expr) -> Pair:
        conditions, values = [], []
        subject = node.args.get("this")
        for branch in node.args["ifs"]:
            condition = branch.this
            if subject is not None:
                condition = exp.EQ(this=subject.copy(), expression=condition.copy())
            conditions.append(self.boolean(condition, "WHEN"))
            values.append(self.normal(branch.args["true"]))
        default = node.args.get("default")
        values.append(self.normal(default if default is not None else exp.Null()))
        (*chosen, other), kind = self.of_one_kind(values)
        branches = [
            exp.If(this=condition, true=value)
            for condition, value in zip(conditions, chosen, strict=True)
        ]
        return exp.Case(ifs=branches, default=other), kind

    def of_one_kind(self, pairs: list[Pair]) -> tuple[list[exp.Expr], Kind]:
        """Values that one column may hold. Engines agree on mixed numbers, but not on mixed times."""
        kind = reduce(wider, (each for _, each in pairs), Kind.NULL)
        mixed = {each for _, each in pairs if each.is_temporal} - {kind}
        return [cast(node, kind) if each in mixed else node for node, each in pairs], kind

    def if_(self, node: exp.Expr) -> Pair:
        branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
        default = node.args.get("false")
        return self.case(exp.Case(ifs=[branch], default=default.copy() if default else None))

    def several(self, node: exp.Expr) -> Pair:
        """COALESCE, GREATEST, LEAST: one kind for all arguments."""
        first = node.this
        arguments = [first, *node.expressions] if first is not None else list(node.expressions)
        nodes, kind = self.of_one_kind([self.normal(argument) for argument in arguments])
        result = type(node)(this=nodes[0], expressions=nodes[1:])
        if not isinstance(node, exp.Coalesce):
            result.set("ignore_nulls", True)
        return result, kind

    def nullif(self, node: exp.Expr) -> Pair:
        left, right = self.normal(node.this), self.normal(node.expression)
        a, b = self.alike(left, right)
        return exp.Nullif(this=a, expression=b), left[1]

    def cast_(self, node: exp.Expr) -> Pair:
        to = node.args["to"]
        kind = CASTS.get(to.this)
        if kind is None:
            raise self.fail(f"casting to {to.sql()} is not supported")
        if node.args.get("default"):
            raise self.fail("DEFAULT in a CAST is not supported")
        inner, source = self.normal(node.this)
        if not _castable(source, kind):
            raise self.fail(f"{source.phrase} cannot be cast to {kind.phrase}")
        result = cast(inner, kind)
        return exp.TryCast(**result.args, safe=True) if isinstance(
            node, exp.TryCast
        ) else result, kind

    def absolute(self, node: exp.Expr) -> Pair:
        inner, kind = self.number(node.this, "ABS")
        return exp.Abs(this=self.wide(inner, kind)), kind

    def rounding(self, node: exp.Expr) -> Pair:
        name = type(node).__name__.upper()
        inner = self.double(self.number(node.this, name))
        result = type(node)(this=inner)
        if node.args.get("to"):
            raise self.fail(f"{name} takes no TO")
        decimals = node.args.get("decimals")
        if decimals is not None:
            if not isinstance(node, exp.Round):
                raise self.fail(f"{name} takes one argument")
            if not (isinstance(decimals, exp.Literal) and decimals.is_int):
                raise self.fail(f"{name} takes a whole number of decimals")
            result.set("decimals", decimals.copy())
        return result, Kind.FLOAT

    def floating(self, node: exp.Expr) -> Pair:
        name = type(node).__name__.upper()
        return type(node)(this=self.double(self.number(node.this, name))), Kind.FLOAT

    def power(self, node: exp.Expr) -> Pair:
        base, exponent = (
            self.double(self.number(n, "POWER")) for n in (node.this, node.expression)
        )
        return exp.Pow(this=base, expression=exponent), Kind.FLOAT

    def textual(self, node: exp.Expr) -> Pair:
        name = type(node).__name__.upper()
        if node.args.get("expression"):
            raise self.fail(f"{name} takes one argument; it removes spaces")
        return type(node)(this=self.string(node.this, name)), (
            Kind.INTEGER if isinstance(node, exp.Length) else Kind.STRING
        )

    def substring(self, node: exp.Expr) -> Pair:
        result = exp.Substring(this=self.string(node.this, "SUBSTRING"))
        for key in ("start", "length"):
            bound = node.args.get(key)
            if bound is not None:
                if not (isinstance(bound, exp.Literal) and bound.is_int and int(bound.name) > 0):
                    raise self.fail("SUBSTRING takes positive whole numbers")
                result.set(key, bound.copy())
        return result, Kind.STRING

    def concatenation(self, node: exp.Binary) -> Pair:
        return exp.DPipe(
            this=paren(self.string(node.left, "||")),
            expression=paren(self.string(node.right, "||")),
        ), Kind.STRING

    def date_part(self, node: exp.Expr) -> Pair:
        if isinstance(node, exp.Extract):
            part, source = node.this.name.upper(), node.expression
            part = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY"}.get(part, part)
        else:
            part, source = _PART_FUNCTIONS[type(node)], node.this
        while isinstance(source, exp.TsOrDsToDate):
            source = source.this
        if part not in DATE_PARTS:
            raise self.fail(f"there is no date part {part}; there are {', '.join(DATE_PARTS)}")
        inner, kind = self.normal(source)
        if not kind.is_temporal:
            raise self.fail(
                f"{part} needs a date or timestamp, but {source.sql()} is {kind.phrase}"
            )
        if kind is Kind.DATE and part in ("HOUR", "MINUTE"):
            raise self.fail(f"{part} needs a timestamp, but {source.sql()} is a date")
        return exp.Extract(this=exp.var(part), expression=inner), Kind.INTEGER

    def truncation(self, node: exp.Expr) -> Pair:
        unit = node.args["unit"].name.upper()
        if unit not in TRUNC_UNITS:
            raise self.fail(f"DATE_TRUNC knows {', '.join(TRUNC_UNITS)}, not {unit}")
        inner, kind = self.normal(node.this)
        if not kind.is_temporal:
            raise self.fail(
                f"DATE_TRUNC needs a date or timestamp, but {node.this.sql()} is {kind.phrase}"
            )
        at = inner if kind is not Kind.DATE else cast(inner, Kind.TIMESTAMP)
        return exp.TimestampTrunc(this=at, unit=exp.var(unit)), (
            Kind.TIMESTAMP if kind is Kind.DATE else kind
        )

    _RULES: ClassVar[list[tuple[tuple[type[exp.Expr], ...], Rule]]] = [
        (_ARITHMETIC, arithmetic),
        ((exp.Neg,), negation),
        ((exp.Div,), division),
        ((exp.Mod,), modulo),
        (_COMPARISONS, comparison),
        ((exp.And, exp.Or), connective),
        ((exp.Not,), negated),
        ((exp.Is,), is_),
        ((exp.In,), in_),
        ((exp.Between,), between),
        ((exp.Like, exp.ILike), like),
        ((exp.Case,), case),
        ((exp.If,), if_),
        ((exp.Coalesce, exp.Greatest, exp.Least), several),
        ((exp.Nullif,), nullif),
        ((exp.Cast,), cast_),
        ((exp.Abs,), absolute),
        (_ROUNDING, rounding),
        (_FLOAT_FUNCTIONS, floating),
        ((exp.Pow,), power),
        ((exp.Lower, exp.Upper, exp.Length, exp.Trim), textual),
        ((exp.Substring,), substring),
        ((exp.DPipe,), concatenation),
        ((exp.Extract, *_PART_FUNCTIONS), date_part),
        ((exp.DateTrunc, exp.TimestampTrunc), truncation),
    ]
