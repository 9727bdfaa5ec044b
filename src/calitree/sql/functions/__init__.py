"""Every scalar function and operator: how it is typed, computed, and written for Spark.

`calitree.sql.analyzer` uses the rules, `calitree.sql.evaluator` the kernels and `calitree.sql.spark`
the texts; `calitree.sql.parsing.dialect` leaves the calls of the names to them, and `calitree functions` lists
them. A new function is a row here and its kernel, and for the reference engine a line of
`calitree.engines.reference`, which is independent of this table so that both can be compared.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair, Rule
from calitree.sql.functions.function import Function
from calitree.sql.functions.numbers import NUMBERS
from calitree.sql.functions.operators import ARITHMETIC, CHOICES, CONDITIONS
from calitree.sql.functions.sketches import SKETCHES
from calitree.sql.functions.text import TEXT
from calitree.sql.functions.times import TIMES

FAMILIES = {
    "operators": ARITHMETIC,
    "conditions": CONDITIONS,
    "choices and conversions": CHOICES,
    "numbers": NUMBERS,
    "text": TEXT,
    "dates and times": TIMES,
    "sketches": SKETCHES,
}
"""All functions, by what they are about."""

FUNCTIONS: dict[type[exp.Expr] | str, Function] = {
    key: function for family in FAMILIES.values() for key, function in family.items()
}
"""By the class of the node, or by the name of the function (`calitree.sql.nodes.key_of`)."""

ALIASES = {
    "PREFIX": "STARTS_WITH",
    "SUFFIX": "ENDS_WITH",
    "INSTR": "STRPOS",
    "DATEDIFF": "DATE_DIFF",
    "DATETRUNC": "DATE_TRUNC",
    "DATEPART": "DATE_PART",
}
"""Other names of some."""

NAMES = frozenset(key for key in (*FUNCTIONS, *ALIASES) if isinstance(key, str)) - {"TRIM"}
"""Of functions that are called by name; TRIM has a syntax of its own."""


def _renamed(name: str) -> Rule:
    def rule(analysis: Analysis, node: exp.Expr) -> Pair:
        return FUNCTIONS[name].rule(
            analysis, exp.Anonymous(this=name, expressions=node.expressions)
        )

    return rule


RULES: dict[type[exp.Expr] | str, Rule] = {
    **{key: function.rule for key, function in FUNCTIONS.items()},
    **{alias: _renamed(name) for alias, name in ALIASES.items()},
}
"""How a parsed node is typed."""
