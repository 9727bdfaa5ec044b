"""Expressions as Spark SQL that gives the values `calitree.sql.evaluator` gives.

sqlglot writes most nodes as they should be. `calitree.sql.spark_text` rewrites the rest: Spark's
FLOOR of a double is an integer that may not fit, its integers are 32 bits wide where they can be, a
backslash in LIKE is an escape, casts truncate where others round, text like '2020' counts as a date,
and so on.

This holds for a session in UTC and in ANSI mode; `calitree.engines.spark.zone` and
`calitree.engines.spark.numbers` see to others.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from calitree.sql import spark_text
from calitree.sql.functions import FUNCTIONS
from calitree.sql.limits import checked_size, on_deep_stack
from calitree.sql.nodes import key_of, kind_of, marked

_TEXTS: dict[type[exp.Expr] | str, Callable[[exp.Expr], str | None] | str] = {
    **{key: function.spark for key, function in FUNCTIONS.items() if function.spark},
    exp.Column: spark_text.column,
    exp.Literal: spark_text.literal,
    exp.Var: spark_text.listed,
    exp.Avg: spark_text.mean,
    exp.PercentileDisc: spark_text.quantile,
    exp.PercentileCont: spark_text.quantile,
    exp.And: spark_text.connected,
    exp.Or: spark_text.connected,
}


def _own(node: exp.Expr) -> None:
    """The text that sqlglot writes."""


@on_deep_stack
def to_spark(node: exp.Expr) -> str:
    """`node` as text for Spark.

    >>> to_spark(exp.Length(this=exp.Literal.string("x")))
    "CAST(LENGTH('x') AS BIGINT)"
    """
    root = exp.Paren(this=node.copy())
    for part in reversed(list(root.this.bfs())):
        rewrite = _TEXTS.get(key_of(part), _own)
        text = spark_text.formatted(rewrite, part) if isinstance(rewrite, str) else rewrite(part)
        if text is not None:
            if "values" not in part.meta:
                checked_size(text)
            part.replace(marked(exp.var(text), kind_of(part)))
    return spark_text.sql(root.this)
