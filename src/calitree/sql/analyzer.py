"""One meaning for SQL's scalar expressions: resolve, type, normalise.

What SQL dialects disagree on is written out once, here, so that every engine computes the same
number:

* `/` is division of doubles and NULL when the divisor is zero; `%` by zero is NULL too;
* integer arithmetic is 64-bit, whatever the column's width;
* a string literal compared with a date or timestamp is cast to it.

What is not understood is refused: an option that is dropped silently would be a wrong number.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Resolver, Rule
from calitree.sql.rules import arithmetic, choices, conditions, conversions, dates, text

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)

RULES: list[Rule] = [
    ((exp.Add, exp.Sub, exp.Mul), arithmetic.arithmetic),
    ((exp.Neg,), arithmetic.negation),
    ((exp.Div,), arithmetic.division),
    ((exp.Mod,), arithmetic.modulo),
    (COMPARISONS, conditions.comparison),
    ((exp.And, exp.Or), conditions.connective),
    ((exp.Not,), conditions.negated),
    ((exp.Is,), conditions.is_),
    ((exp.In,), conditions.in_),
    ((exp.Between,), conditions.between),
    ((exp.Like, exp.ILike), conditions.like),
    ((exp.Case,), choices.case),
    ((exp.If,), choices.if_),
    ((exp.Coalesce, exp.Greatest, exp.Least), choices.several),
    ((exp.Nullif,), choices.nullif),
    ((exp.Cast,), conversions.cast_),
    ((exp.Abs,), arithmetic.absolute),
    ((exp.Floor, exp.Ceil, exp.Round), arithmetic.rounding),
    ((exp.Sqrt, exp.Ln, exp.Exp), arithmetic.floating),
    ((exp.Pow,), arithmetic.power),
    ((exp.Lower, exp.Upper, exp.Length, exp.Trim), text.textual),
    ((exp.Substring,), text.substring),
    ((exp.DPipe,), text.concatenation),
    ((exp.Extract, *dates.PART_FUNCTIONS), dates.date_part),
    ((exp.DateTrunc, exp.TimestampTrunc), dates.truncation),
]
"""The first whose classes a node is of."""


def normalise(node: exp.Expr, resolve: Resolver) -> exp.Expr:
    """Resolve the columns of a parsed node, check its types, and write it out for every engine."""
    return Analysis(resolve, node, RULES).normal(node)[0]
