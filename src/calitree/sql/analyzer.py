"""One meaning for SQL's scalar expressions: resolve, type, normalise.

What SQL dialects disagree on is written out once, by the rules, so that every engine computes the
same number:

* `/` is division of doubles and NULL when the divisor is zero; `%` by zero is NULL too;
* integer arithmetic is 64-bit, whatever the column's width;
* a string literal compared with a date or timestamp is cast to it.

What is not understood is refused: an option that is dropped silently would be a wrong number.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Resolver
from calitree.sql.functions import RULES


def normalise(node: exp.Expr, resolve: Resolver) -> exp.Expr:
    """Resolve the columns of a parsed node, check its types, and give its canonical form."""
    return Analysis(resolve, node, RULES).normal(node)[0]
