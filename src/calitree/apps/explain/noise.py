"""How much of a gap chance alone makes: the standard error of an average, a sum or a count.

Rows are taken as drawn one by one. An average over n rows is then off by the root of their variance over n,
and a sum, to which their number adds its own chance, by the root of the sum of their squares. Copies of
one row that a join makes are not drawn one by one: of such a measure the error is larger than told here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sqlglot import exp

from calitree.query.measure import Measure
from calitree.sql.parser import parse_node

Number = int | float | Decimal
VARIANCE, COUNTED = "variance", "counted"
"""What is asked for besides the measure."""


def spread_measures(measure: Measure) -> dict[str, str]:
    """What must be known of the values of an average or a sum."""
    if _call(measure) not in (exp.Avg, exp.Sum):
        return {}
    argument = measure.text[measure.text.index("(") :]
    return {VARIANCE: f"var_pop{argument}", COUNTED: f"count{argument}"}


def standard_error(
    measure: Measure, value: Number | None, asked: Mapping[str, Any]
) -> float | None:
    """The standard error of a measure, given its value and the answers; None if it is not known."""
    if value is None or not math.isfinite(value):
        return None
    if _call(measure) is exp.Count:
        return math.sqrt(value)
    rows, variance = asked.get(COUNTED), asked.get(VARIANCE)
    if not rows or variance is None or not math.isfinite(variance):
        return None
    if _call(measure) is exp.Avg:
        return math.sqrt(variance / rows)
    mean = float(value) / float(rows)
    return math.hypot(math.sqrt(variance), mean) * math.sqrt(rows)


def _call(measure: Measure) -> type[exp.Expr] | None:
    """The aggregate, if a measure is one and nothing else."""
    return None if measure.plain is None else type(parse_node(measure.text))
