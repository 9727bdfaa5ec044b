"""Functions as Spark SQL, where the text that sqlglot writes would give another value.

The operands of a node are texts for Spark already. None stands for sqlglot's own text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from calitree.sql.nodes import TYPES, kind_of
from calitree.sql.rules.arithmetic import decimals_of
from calitree.sql.rules.conversions import TEXTS, bits_of, target_of
from calitree.sql.rules.dates import unit_of
from calitree.sql.rules.text import PAIRED, SINGLE_UPPER, pattern_of
from calitree.sql.rules.text import lower as in_lower_case
from calitree.types import Kind


def sql(node: exp.Expr) -> str:
    """A node in sqlglot's dialect for Spark."""
    return node.sql(dialect="spark")


class _Operand(str):
    """The text of an operand in a form: `{0}`, or `{0:int}` as an integer of 32 bits."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        most = (1 << 31) - 2  # so that one more still has 32 bits
        if spec != "int" or (self.isdigit() and int(self) <= most):
            return str(self)
        return (
            f"CAST(CASE WHEN {self} > {most} THEN {most} WHEN {self} < -{most} THEN -{most}"
            f" ELSE {self} END AS INT)"
        )


def formatted(form: str, node: exp.Expr) -> str:
    """A form with the operands of a node in it."""
    operands = node.expressions if isinstance(node, exp.Anonymous) else node.iter_expressions()
    return form.format(*(_Operand(sql(operand)) for operand in operands))


def _quoted(text: str) -> str:
    return sql(exp.Literal.string(text))


def column(node: exp.Expr) -> str | None:
    """Floats of 32 bits are computed with in 64; the cast costs nothing where they have 64."""
    return f"CAST({sql(node)} AS DOUBLE)" if kind_of(node) is Kind.FLOAT else None


MAX_CONDITIONS = 32
"""That a conjunction or disjunction may have. Spark makes one deep tree, and then one method, of a longer
one, whatever its shape; so the conditions of a longer one are an array."""


def all_of(conditions: Sequence[str]) -> str:
    """The conjunction of conditions, each in parentheses or a call."""
    if len(conditions) <= MAX_CONDITIONS:
        return " AND ".join(conditions)
    return f"FORALL(ARRAY({', '.join(conditions)}), truth -> truth)"


def any_of(conditions: Sequence[str]) -> str:
    """The disjunction of conditions."""
    if len(conditions) <= MAX_CONDITIONS:
        return " OR ".join(conditions)
    return f"EXISTS(ARRAY({', '.join(conditions)}), truth -> truth)"


def connected(node: exp.Expr) -> str | None:
    """AND and OR, where they connect many conditions."""
    operator, parent = type(node), node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, operator):
        return None  # it is part of that
    conditions, left = [], [node]
    while left:
        part = left.pop()
        inner = part.unnest()
        if isinstance(inner, operator):
            left += [inner.expression, inner.this]
        else:
            conditions.append(part)
    if len(conditions) <= MAX_CONDITIONS:
        return None
    return (all_of if operator is exp.And else any_of)([sql(part) for part in conditions])


def listed(node: exp.Expr) -> str | None:
    """A long list, each value as Spark writes it."""
    values = node.meta.get("values")
    if values is None:
        return None
    null = ["NULL"] if values.has_null else []
    if values.kind is Kind.STRING:
        return ", ".join([*map(_quoted, values.array.to_pylist()), *null])
    texts = values.array.cast("string").to_pylist()
    form = _LISTED.get(values.kind, "{}")
    return ", ".join([*map(form.format, texts), *null])


_LISTED = {Kind.FLOAT: "{}D", Kind.DATE: "DATE'{}'", Kind.TIMESTAMP: "TIMESTAMP_NTZ'{}'"}
"""How the constants of a kind are written, if not by their digits alone."""

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs)


def literal(node: exp.Expr) -> str | None:
    """An integer among integers has 64 bits; among decimals it keeps its few digits."""
    parent = node.parent
    whole = not node.args.get("is_string") and node.name.isdigit() and int(node.name) < 2**63
    if whole and isinstance(parent, _ARITHMETIC) and kind_of(parent) is Kind.INTEGER:
        return f"{node.name}L"
    return None


def wide(node: exp.Expr) -> str:
    """An integer of 64 bits."""
    return f"CAST({sql(node)} AS BIGINT)"


def mean(node: exp.Expr) -> str | None:
    """AVG as a double; of decimals Spark would give a decimal, rounded after four more digits."""
    return f"AVG(CAST({sql(node.this)} AS DOUBLE))" if kind_of(node.this) is Kind.DECIMAL else None


def quantile(node: exp.Expr) -> str:
    """PERCENTILE_DISC and PERCENTILE_CONT, whose values Spark wants to be ordered by."""
    name = "PERCENTILE_DISC" if isinstance(node, exp.PercentileDisc) else "PERCENTILE_CONT"
    return f"{name}({sql(node.expression)}) WITHIN GROUP (ORDER BY {sql(node.this)})"


def whole(node: exp.Expr) -> str | None:
    """FLOOR and CEIL of doubles as doubles; from 2^52 on, every double is whole."""
    if kind_of(node.this) is Kind.DECIMAL:
        return None
    x, function = sql(node.this), type(node).__name__.upper()
    small = f"ABS({x}) < 4503599627370496D"
    return f"CASE WHEN {small} THEN CAST({function}({x}) AS DOUBLE) ELSE {x} END"


def towards_zero(node: exp.Expr) -> str:
    """TRUNC as FLOOR or CEIL."""
    x = node.expressions[0]
    below, above = (
        whole(kind(this=x.copy())) or sql(kind(this=x.copy())) for kind in (exp.Floor, exp.Ceil)
    )
    return f"CASE WHEN {sql(x)} < 0 THEN {above} ELSE {below} END"


def rounded(node: exp.Expr) -> str | None:
    """ROUND of a double times 10^decimals; Spark would round the decimal digits that it prints."""
    if kind_of(node) is Kind.DECIMAL:
        return None
    x, power = sql(node.this), f"{10 ** decimals_of(node)}D"
    small = f"ABS({x} * {power}) < 9007199254740992D"
    return f"CASE WHEN {small} THEN ROUND({x} * {power}) / {power} ELSE {x} END"


def ln(node: exp.Expr) -> str:
    """LN, infinite or NaN out of its domain; Spark would give NULL."""
    x = sql(node.this)
    return (
        f"CASE WHEN {x} = 0 THEN DOUBLE('-Infinity') WHEN {x} < 0 THEN DOUBLE('NaN')"
        f" ELSE LN({x}) END"
    )


def power(node: exp.Expr) -> str:
    """POWER, for which -0.0 is 0.0, and 1 to any power 1; Java says NaN of 1 to an infinite one."""
    x, y = sql(node.this), sql(node.expression)
    infinite = f"ABS({y}) = DOUBLE('Infinity')"
    one = f"{x} = 1 AND {y} IS NOT NULL OR {x} = -1 AND {infinite}"
    return f"CASE WHEN {one} THEN 1D ELSE POWER({x} + 0D, {y}) END"


def quotient(node: exp.Expr) -> str | None:
    """Division of doubles, NULL by zero; a NULLIF in it Spark would compute twice, at every level."""
    divisor = node.expression
    if not isinstance(divisor, exp.Nullif) or not isinstance(divisor.expression, exp.Literal):
        return None
    return f"TRY_DIVIDE({sql(node.this)}, {sql(divisor.this)})"


def null_if(node: exp.Expr) -> str | None:
    """NULLIF as what Spark makes of it, unless it is part of a division."""
    if isinstance(node.parent, exp.Div) and isinstance(node.expression, exp.Literal):
        return None
    x = sql(node.this)
    return f"IF({x} = {sql(node.expression)}, NULL, {x})"


def like(node: exp.Expr) -> str:
    """LIKE, and ILIKE as LIKE of lower-case text and pattern, where a backslash is no escape."""
    folded = isinstance(node, exp.ILike)
    x, pattern = lower(node) if folded else sql(node.this), pattern_of(node)
    pattern = in_lower_case(pattern) if folded else pattern
    if pattern.count("%") > MAX_WILDCARDS:
        return f"{x} RLIKE {_quoted(_atomic(pattern))}"
    escaped = pattern.replace("\\", "\\\\")
    return f"{x} LIKE {_quoted(escaped)}"


MAX_WILDCARDS = 2
"""In a pattern that Spark gets as it is: it tries all places for all parts of a longer one."""


def _atomic(pattern: str) -> str:
    """A pattern as Java's regular expression, in which each part is taken where it first fits."""
    first, *between, last = (_escaped(part) for part in pattern.split("%"))
    parts = "".join(f"(?>.*?{part})" for part in between if part)
    return rf"(?s)\A{first}{parts}.*{last}\z"


def _escaped(part: str) -> str:
    return "".join(
        "." if c == "_" else c if c.isalnum() or c == " " else f"\\x{{{ord(c):x}}}" for c in part
    )


_PLACES = "".join(chr(0x10F000 + i) for i in range(len(SINGLE_UPPER)))
"""Characters that nobody uses, for letters while others become upper case."""


def upper(node: exp.Expr) -> str:
    """UPPER makes one letter of one; Spark would make two of the German ß, or of a ligature."""
    x = sql(node.this)
    before, after = (
        _quoted("".join(letters)) for letters in zip(*SINGLE_UPPER.items(), strict=True)
    )
    kept = f"TRANSLATE(UPPER(TRANSLATE({x}, {before}, '{_PLACES}')), '{_PLACES}', {after})"
    return f"CASE WHEN {x} RLIKE '[{PAIRED}]' THEN {kept} ELSE UPPER({x}) END"


def lower(node: exp.Expr) -> str:
    """LOWER makes one letter of one; and a Σ is the same at the end of a word."""
    return f"LOWER(TRANSLATE({sql(node.this)}, 'İΣ', 'iσ'))"


def truncated(node: exp.Expr) -> str:
    """DATE_TRUNC; Spark gives a timestamp with time zone, whatever it is given."""
    text = f"DATE_TRUNC('{unit_of(node)}', {sql(node.this)})"
    return text if kind_of(node) is Kind.TIMESTAMP_TZ else f"CAST({text} AS TIMESTAMP_NTZ)"


def branch(node: exp.Expr) -> None:
    """A condition of CASE must be a Boolean for Spark: NULL becomes false."""
    if isinstance(node.this, exp.Null):
        node.set("this", exp.false())


def single(node: exp.Expr) -> str | None:
    """GREATEST and LEAST of one argument; Spark wants two."""
    return None if node.expressions else sql(node.this)


def cast(node: exp.Expr) -> str:
    """CAST and TRY_CAST, which take fewer texts than Spark's, and round where Spark's truncate."""
    source, kind, x = kind_of(node.this), target_of(node), sql(node.this)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind].format(x=x)
    bits = bits_of(node)
    if bits < 64:
        return _narrowed(node, kind, bits)
    function = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    if source is Kind.STRING and kind in TEXTS:
        x = _checked_text(node.this, re.sub(r"\?P<\w+>", "", TEXTS[kind]))
    if kind is Kind.INTEGER and source is Kind.STRING:
        x, source = f"{function}({x} AS DECIMAL(38, 18))", Kind.DECIMAL
    if kind is Kind.INTEGER and source in _ROUND:
        x = f"{_ROUND[source]}({x})"
    if kind is Kind.STRING and source is Kind.FLOAT:
        return _digits(x)
    if kind is Kind.STRING and source is Kind.TIMESTAMP_TZ:
        return f"CONCAT(CAST({x} AS STRING), '+00')"
    return f"{function}({x} AS {sql(node.args['to'])})"


_CONSTANTS = {
    Kind.TIME: "TIME{x}",
    Kind.DURATION: "MAKE_DT_INTERVAL(0, 0, 0, CAST(CAST({x} AS DECIMAL(24, 0)) / 1000000 AS DECIMAL(18, 6)))",
    Kind.BINARY: "CAST({x} AS BINARY)",
}
"""Constants of kinds that nothing else is cast to."""


def _narrowed(node: exp.Expr, kind: Kind, bits: int) -> str:
    """A cast to 64 bits, and then an error, or NULL, for what fewer bits cannot hold."""
    wide = type(node)(this=node.this.copy(), to=exp.DataType.build(TYPES[kind]))
    x = cast(wide)
    if kind is Kind.FLOAT:
        result = f"CAST(CAST({x} AS FLOAT) AS DOUBLE)"
        fits = f"ABS({result}) <> DOUBLE('Infinity') OR ABS({x}) = DOUBLE('Infinity')"
    else:
        result, limit = x, 1 << bits - 1
        fits = f"{x} BETWEEN {-limit} AND {limit - 1}"
    message = f"a number is out of the range of {sql(node.args['to'])}; TRY_CAST would give NULL"
    error = "NULL" if isinstance(node, exp.TryCast) else f"RAISE_ERROR({_quoted(message)})"
    return f"CASE WHEN {fits} THEN {result} WHEN {x} IS NOT NULL THEN {error} END"


_ROUND = {Kind.FLOAT: "RINT", Kind.DECIMAL: "ROUND"}
"""Doubles go to the even neighbour, decimals away from zero; Spark's casts would truncate."""


def _checked_text(node: exp.Expr, pattern: str) -> str:
    """Text that Spark cannot cast, where it does not match the pattern."""
    x, pattern = sql(node), rf"\s*(?:{pattern})\s*"
    if isinstance(node, exp.Literal) and re.fullmatch(pattern, node.name, re.ASCII):
        return x
    return f"CASE WHEN {x} RLIKE {_quoted(f'^{pattern}$')} THEN {x} ELSE CONCAT('?', {x}) END"


def _digits(x: str) -> str:
    """A double as Python writes it: 0.0001, 1e-05, 1e+16, nan."""
    text = f"CAST({x} AS STRING)"
    exact = f"CAST(CAST({x} AS DECIMAL(38, 21)) AS STRING)"
    plain = f"REGEXP_REPLACE({exact}, {_quoted(_ZEROS)}, '$1')"
    mantissa = f"REGEXP_REPLACE({text}, {_quoted(_EXPONENT)}, '')"
    exponent = f"CAST(REGEXP_EXTRACT({text}, 'E(.*)$', 1) AS INT)"
    digits = f"IF(ABS({exponent}) < 10, '0', ''), ABS({exponent})"
    return (
        f"CASE WHEN ISNAN({x}) THEN 'nan' WHEN {x} = DOUBLE('Infinity') THEN 'inf'"
        f" WHEN {x} = DOUBLE('-Infinity') THEN '-inf' WHEN {x} = 0 THEN '0.0'"
        f" WHEN ABS({x}) >= 1e-4 AND ABS({x}) < 1e16 THEN {plain}"
        f" ELSE CONCAT({mantissa}, IF({exponent} < 0, 'e-', 'e+'), {digits}) END"
    )


_ZEROS, _EXPONENT = r"(\.\d+?)0+$", r"(\.0)?E.*$"
