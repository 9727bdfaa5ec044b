"""What approximate aggregates carry in place of values, and how far they may be from the exact ones.

`approx_count_distinct` carries the cell that the hash of a value falls into, and `approx_quantile` the bucket
of a number: of these there are only so many, however many values there are.
"""

from __future__ import annotations

import math

from sqlglot import exp

from calitree.sql.nodes import cast, marked
from calitree.sql.rules.sketches import BUCKET, BUCKET_BITS, CELL, REGISTER_BITS
from calitree.types import Kind

COUNT_DISTINCT, QUANTILE = "approx_count_distinct", "approx_quantile"

STANDARD_ERROR = math.sqrt(6 * math.log(2) / 2**REGISTER_BITS) / math.pi
"""Of a number of values, as a part of it: by the Fisher information of the cells that are taken."""

VALUE_ERROR = 1 / (2 ** (BUCKET_BITS + 1) + 1)
"""How far a quantile is at most from the exact one, as a part of that: half of a bucket."""

STATED = {
    COUNT_DISTINCT: f"standard error {STANDARD_ERROR:.1%}".replace("%", " %"),
    QUANTILE: f"within {VALUE_ERROR:.1%} of the value".replace("%", " %"),
}
"""What is promised of each."""

CARRIED_AS = {
    COUNT_DISTINCT: ("cells of the hash of ", f"{CELL}("),
    QUANTILE: ("buckets of ", f"{BUCKET}("),
}
"""What is carried of a value, in words, and the start of the text that computes it."""


APPROXIMATE = "approximate"
"""Under which a node of plain SQL has the name of the aggregate that it is the exact value of."""


def carried_text(function: str, argument: str) -> str:
    """The text of what is carried for an approximate aggregate of an argument."""
    return f"{CARRIED_AS[function][1]}{argument})"


def carried_phrase(function: str, carried: str) -> str:
    """What is carried, given its text."""
    phrase, start = CARRIED_AS[function]
    return f"{phrase}{carried[len(start) : -1]} for {function}, approximate: {STATED[function]}"


def exact(call: exp.Expr, where: exp.Expr | None, kind: Kind) -> exp.Expr:
    """The exact aggregate in place of an approximate one of values of a kind, which the node remembers."""
    if isinstance(call, exp.ApproxDistinct):
        given = call.this
        distinct = given if isinstance(given, exp.Distinct) else exp.Distinct(expressions=[given])
        plain: exp.Expr = exp.Count(this=distinct, big_int=True)
    else:
        plain = exp.PercentileDisc(this=call.this, expression=call.args["quantile"])
    if where is not None:
        plain = exp.Filter(this=plain, expression=where)
    if isinstance(call, exp.ApproxQuantile) and kind is not Kind.INTEGER:
        plain = cast(plain, Kind.FLOAT)
    else:
        plain = marked(plain, Kind.INTEGER)
    plain.meta[APPROXIMATE] = COUNT_DISTINCT if isinstance(call, exp.ApproxDistinct) else QUANTILE
    return plain
