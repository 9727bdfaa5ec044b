"""From SQL aggregates to lifts, and back to the right number.

The first half looks at what a measure is compiled to, because that decides what messages hold and what
they share; the second half at the numbers, where they are hard: huge, tiny, close together, of odd types.
"""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import calitree as ct
from calitree.query.annotation import Aggregate
from calitree.query.measure import NAMES, Measure, measure_of
from calitree.results.result import Result
from tests.support.engines import LOCAL, engine_named

# -- what a measure is compiled to ---------------------------------------------------------------


def graph() -> ct.JoinGraph:
    """a — b — c. `n`, `m` and `u` have NULLs; the other columns are known to have none."""
    graph = ct.JoinGraph(engine="local")
    graph.add_relation(
        "a", pa.table({"k": [1, 2], "x": [1, 2], "w": [3, 4], "n": [1, None], "s": ["p", "q"]})
    )
    graph.add_relation(
        "b", pa.table({"k": [1, 2], "j": [1, 2], "y": [1, 2], "m": [1, None], "t": ["p", "q"]})
    )
    graph.add_relation("c", pa.table({"j": [1, 2], "z": [0.5, 2.5], "u": [None, 1.5]}))
    graph.add_join("a", "b", on="k")
    graph.add_join("b", "c", on="j")
    return graph


def compiled(text: str) -> Measure:
    schema = graph().schema
    return measure_of(text, schema, schema.relations)


def shown(aggregate: Aggregate) -> str:
    """`sum a: x, b: y` for Σ x·y; `sum` for COUNT."""
    lifts = {lift.relation: str(lift.expressions[0]) for lift in aggregate.lifts}
    parts = ", ".join(f"{relation}: {lifts[relation]}" for relation in sorted(lifts))
    return f"{aggregate.semiring.name} {parts}".rstrip()


COUNT = "sum"


def is_there(column: str) -> str:
    return f"CASE WHEN NOT ({column} IS NULL) THEN 1 END"


LIFTS = {
    # COUNT is the aggregate without lifts; what is never NULL needs no count of its own.
    "count(*)": {COUNT},
    "count(1)": {COUNT},
    "count(x)": {COUNT},
    "count(x + y)": {COUNT},
    "count(n)": {f"sum a: {is_there('n')}"},
    "count(x * m)": {f"sum b: {is_there('m')}"},
    "count(n * m)": {f"sum a: {is_there('n')}, b: {is_there('m')}"},
    "count(null)": {f"sum a: {is_there('NULL')}"},
    # A sum goes with the number of rows it is over, as it is NULL over none.
    "sum(x)": {"sum a: x", COUNT},
    "sum(n)": {"sum a: n", f"sum a: {is_there('n')}"},
    "avg(x)": {"sum a: x", COUNT},
    "sum(x) / count(*)": {"sum a: x", COUNT},
    "sum(1)": {COUNT},
    # A product across relations is one lift a relation.
    "sum(a.x * b.y)": {"sum a: a.x, b: b.y", COUNT},
    "sum(x * y * z)": {"sum a: x, b: y, c: z", COUNT},
    "sum(n * y)": {"sum a: n, b: y", f"sum a: {is_there('n')}"},
    "sum(n * m)": {"sum a: n, b: m", f"sum a: {is_there('n')}, b: {is_there('m')}"},
    "sum(x / z)": {
        "sum a: CAST(x AS DOUBLE), c: CAST('1.0' AS DOUBLE) / NULLIF(z, 0)",
        f"sum c: {is_there('''(CAST('1.0' AS DOUBLE) / NULLIF(z, 0))''')}",
    },
    # What one relation can compute stays one lift.
    "sum(x * (x - w))": {
        "sum a: CAST(x AS BIGINT) * (CAST(x AS BIGINT) - CAST(w AS BIGINT))",
        COUNT,
    },
    "sum(a.x * (b.y - 1))": {"sum a: a.x, b: CAST(b.y AS BIGINT) - 1", COUNT},
    "sum(abs(x - w) * z)": {"sum a: ABS(CAST(x AS BIGINT) - CAST(w AS BIGINT)), c: z", COUNT},
    # A sum across relations is expanded, each monomial an aggregate.
    "sum(x + y)": {"sum a: x", "sum b: y", COUNT},
    "sum(x - z)": {"sum a: x", "sum c: z", COUNT},
    "sum(a.x * (b.y - a.w))": {
        "sum a: a.x, b: b.y",
        "sum a: CAST(a.x AS BIGINT) * CAST(a.w AS BIGINT)",
        COUNT,
    },
    "sum((x + y) * (w + z))": {
        "sum a: CAST(x AS BIGINT) * CAST(w AS BIGINT)",
        "sum a: x, c: z",
        "sum a: w, b: y",
        "sum b: y, c: z",
        COUNT,
    },
    # A join key belongs to several relations, and goes where the other factor is.
    "sum(k)": {"sum a: k", COUNT},
    "sum(k * x)": {"sum a: CAST(k AS BIGINT) * CAST(x AS BIGINT)", COUNT},
    "sum(k * y)": {"sum b: CAST(k AS BIGINT) * CAST(y AS BIGINT)", COUNT},
    "sum(k + j)": {"sum b: CAST(k AS BIGINT) + CAST(j AS BIGINT)", COUNT},
    "sum(x * y * k)": {"sum a: CAST(x AS BIGINT) * CAST(k AS BIGINT), b: y", COUNT},
    "sum(a.k * y)": {"sum a: a.k, b: y", COUNT},
    "count(*) filter (where k > 1)": {"sum a: CASE WHEN k > 1 THEN 1 END"},
    "max(k + y)": {"max b: CAST(k AS BIGINT) + CAST(y AS BIGINT)"},
    # FILTER is a lift that is zero elsewhere.
    "count(*) filter (where y > 1)": {"sum b: CASE WHEN y > 1 THEN 1 END"},
    "sum(x) filter (where s = 'p')": {
        "sum a: CASE WHEN s = 'p' THEN x END",
        "sum a: CASE WHEN s = 'p' THEN 1 END",
    },
    "sum(x) filter (where t = 'p')": {
        "sum a: x, b: CASE WHEN t = 'p' THEN 1 END",
        "sum b: CASE WHEN t = 'p' THEN 1 END",
    },
    "sum(x) filter (where s = 'p' and t = 'q')": {
        "sum a: CASE WHEN s = 'p' THEN x END, b: CASE WHEN t = 'q' THEN 1 END",
        "sum a: CASE WHEN s = 'p' THEN 1 END, b: CASE WHEN t = 'q' THEN 1 END",
    },
    # Extremes are sums of terms in (min, +) and (max, +).
    "min(x)": {"min a: x"},
    "min(s)": {"min a: s"},
    "min(x * w)": {"min a: CAST(x AS BIGINT) * CAST(w AS BIGINT)"},
    "min(a.x + b.y)": {"min a: a.x, b: b.y"},
    "max(x - y)": {"max a: x, b: -(CAST(y AS BIGINT))"},
    "min(x + y + 1)": {"min a: x, b: y"},
    "min(x + y) filter (where z > 1)": {"min a: x, b: y, c: CASE WHEN z > 1 THEN 0 END"},
    "max(x) - min(x)": {"max a: x", "min a: x"},
    "bool_or(x > 1)": {"max a: x > 1"},
    "bool_and(t = 'p')": {"min b: t = 'p'"},
}


@pytest.mark.parametrize("text", LIFTS)
def test_lifts(text: str) -> None:
    assert {shown(part) for part in compiled(text).aggregates} == LIFTS[text]


COUNTS = [
    (["sum(x)", "avg(x)", "count(*)"], 2),
    (["sum(x)", "sum(sales.x)".replace("sales", "a"), "SUM( X )"], 2),
    (["sum(x)", "sum(x * y)", "sum(y)"], 4),
    (["sum(n)", "avg(n)", "count(n)"], 2),
    (["var_pop(x)"], 1),
    (["var_samp(x)", "var_pop(x)", "stddev_samp(x)", "stddev_pop(x)", "stddev(x)"], 1),
    (["covar_pop(x, y)"], 1),
    (["covar_samp(x, y)", "covar_pop(x, y)"], 1),
    (["corr(x, y)"], 1),
    (["corr(x, y)", "var_pop(x)", "stddev_pop(y)", "covar_pop(x, y)", "count(*)"], 4),
    (["corr(x, w)"], 1),
    (["var_pop(x + y)"], 1),
    (["var_pop(x + y)", "var_pop(x)", "var_pop(y)", "covar_pop(x, y)"], 4),
]


@pytest.mark.parametrize(("texts", "count"), COUNTS, ids=[", ".join(texts) for texts, _ in COUNTS])
def test_equal_aggregates_are_shared(texts: list[str], count: int) -> None:
    """The variance of x and all that is computed from it share one aggregate."""
    assert len({aggregate for text in texts for aggregate in compiled(text).aggregates}) == count


def message_columns(*texts: str) -> dict[str, set[str]]:
    """The columns of each message once a tree is calibrated for these measures."""
    wide = graph().calibrate({text: text for text in texts})
    return {
        f"{u}→{v}": {shown(column) for column in wide.snapshot.pivot.subtrees[u, v].columns}
        for u, v in wide.tree.directed
    }


def test_count_serves_measures_lifted_elsewhere() -> None:
    """A message has the lifts of the relations it sums up; for lifts elsewhere COUNT will do."""
    assert message_columns("sum(x)", "sum(z)") == {
        "a→b": {COUNT, "sum a: x"},
        "b→a": {COUNT, "sum c: z"},
        "b→c": {COUNT, "sum a: x"},
        "c→b": {COUNT, "sum c: z"},
    }


def test_a_factor_is_carried_once_whatever_it_is_multiplied_with() -> None:
    assert message_columns("sum(x)", "sum(x * y)", "sum(x * z)", "avg(x)") == {
        "a→b": {COUNT, "sum a: x"},
        "b→a": {COUNT, "sum b: y", "sum c: z"},
        "b→c": {COUNT, "sum a: x", "sum a: x, b: y"},
        "c→b": {COUNT, "sum c: z"},
    }


def test_an_extreme_carries_nothing_where_it_is_not_lifted() -> None:
    """`one` of an idempotent semiring is the group's being there."""
    assert message_columns("min(x)") == {
        "a→b": {"min a: x"},
        "b→a": set(),
        "b→c": {"min a: x"},
        "c→b": set(),
    }


def test_a_new_measure_computes_only_messages_away_from_its_relation() -> None:
    wide = graph().calibrate()
    assert wide.plan(measures={"m": "sum(y)"}).computed == ()
    wide = graph().calibrate(group_by=["c.z"])
    plan = wide.plan(group_by=["c.z"], measures={"m": "sum(x)"})
    assert {str(key) for key in plan.computed} <= {"a→b", "b→c"}


# -- what cannot be one --------------------------------------------------------------------------

LISTED = ", ".join(NAMES)
NOT_SPLIT = (
    "mixes columns of {} other than by +, -, *, whole powers and division by one relation's columns, "
    "so it cannot be split by relation"
)

ERRORS = {
    "x": "x stands outside of an aggregate; write sum(x) or group by it",
    "sum(x) + w": "w stands outside of an aggregate; write sum(w) or group by it",
    "stddev(distinct x)": (
        "STDDEV(DISTINCT x) takes no DISTINCT here; there are count, sum, min, max, bool_and, bool_or, "
        "avg, and median, quantiles, list and string_agg"
    ),
    "sum(distinct s)": "SUM needs a number, but s is a string",
    "quantile_cont(x, 2)": (
        "QUANTILE_CONT takes a number from 0 to 1, as in QUANTILE_CONT(x, 0.9)"
    ),
    "quantile_cont(s, 0.5)": (
        "between values of s, which is a string, there are no others; use quantile_disc"
    ),
    "list(x order by w)": "LIST can be ordered by its own values only",
    "mode(x order by x)": "MODE takes no ORDER BY",
    "string_agg(x)": "STRING_AGG needs text, but x is an integer; cast it to varchar",
    "arg_max(x)": "ARG_MAX takes 2 arguments",
    "median(sum(x))": "SUM(x) stands inside another aggregate",
    "median(s) + 1": "+ needs a number, but MEDIAN(s) is a string",
    "sum(x) over ()": "SUM(x) OVER () is a window function; a measure has one value a group",
    "coalesce(sum(x), w)": "w stands outside of an aggregate; write sum(w) or group by it",
    "'p'": "'p' is not an aggregate or a formula over aggregates",
    "sum(sum(x))": "SUM(x) stands inside another aggregate",
    "count(*) filter (where sum(x) > 3)": "SUM(x) stands inside another aggregate",
    "sum(s)": "SUM needs a number, but s is a string",
    "avg(s || t)": "AVG needs a number, but s || t is a string",
    "sum(x = 1)": "SUM needs a number, but x = 1 is a boolean",
    "stddev(s)": "STDDEV needs a number, but s is a string",
    "var_pop(s)": "VARIANCE needs a number, but s is a string",
    "corr(x, s)": "CORR needs a number, but s is a string",
    "sum(*)": "SUM takes 1 argument",
    "count(x, y)": "COUNT takes 1 argument",
    "min(x, y)": "MIN takes 1 argument",
    "corr(x, y, z)": "CORR takes 2 arguments",
    "max(s) + 1": "+ needs a number, but MAX(s) is a string",
    "-max(s)": "- needs a number, but MAX(s) is a string",
    "sum(x) / max(s)": "/ needs a number, but MAX(s) is a string",
    "sum(x) filter (where y)": "FILTER needs a condition",
    "bool_or(x)": "x is an integer, not a condition",
    "min(1)": "1 has no column",
    "var_pop(abs(a.x - b.y))": (
        f"ABS(CAST(a.x AS BIGINT) - CAST(b.y AS BIGINT)) {NOT_SPLIT.format('a and b')}"
    ),
    "corr(x, case when y > 1 then z end)": (
        f"CASE WHEN y > 1 THEN z ELSE NULL END {NOT_SPLIT.format('b and c')}"
    ),
}

OTHER_ERRORS = {
    "corr(x)": "Cannot parse 'corr(x)': something is missing at ')'.",
    "sum(x": "Cannot parse 'sum(x': expecting ) at 'x'.",
    "max(s) || 1": "In 'MAX(s) || 1': || needs text, but 1 is an integer.",
    "round(max(s))": "In 'ROUND(MAX(s))': ROUND needs a number, but MAX(s) is a string.",
    "foo(x)": f"There is no aggregate foo. There are: {LISTED}.",
    "medain(x)": "There is no aggregate medain. Did you mean median or min?",
    "kurtosis(x)": f"There is no aggregate KURTOSIS(x). There are: {LISTED}.",
    "sum(s + 1)": "In 's + 1': + needs a number, but s is a string.",
    "sum(x order by w)": "In 'x ORDER BY w': x ORDER BY w is not supported here.",
}


@pytest.mark.parametrize("text", ERRORS)
def test_refused(text: str) -> None:
    with pytest.raises(ct.ExpressionError) as caught:
        compiled(text)
    assert str(caught.value) == f"In measure {text!r}: {ERRORS[text]}."


@pytest.mark.parametrize("text", OTHER_ERRORS)
def test_refused_before_it_is_a_measure(text: str) -> None:
    with pytest.raises(ct.ExpressionError) as caught:
        compiled(text)
    assert str(caught.value) == OTHER_ERRORS[text]


# -- the numbers, on every engine ----------------------------------------------------------------


@pytest.fixture(params=["reference", *LOCAL, pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("spark") if request.param == "spark" else request.param


def name_of(engine: Any) -> str:
    return engine if isinstance(engine, str) else "spark"


def asked(
    engine: Any, left: dict[str, Any], right: dict[str, Any], measures: dict[str, Any], **query: Any
) -> Result:
    """Measures over two small relations joined on k, in one row."""
    graph = ct.JoinGraph(engine=engine_named(engine))
    graph.add_relation("a", pa.table(left))
    graph.add_relation("b", pa.table(right))
    graph.add_join("a", "b", on="k")
    return graph.calibrate(measures).query(**query)


def row(result: Result) -> dict[str, Any]:
    (only,) = result.rows()
    return only


ONE = {"k": [1]}
"""A relation that changes nothing."""


def ones(*values: Any, dtype: pa.DataType | None = None) -> dict[str, Any]:
    return {"k": [1] * len(values), "x": pa.array(values, dtype)}


class Sum(NamedTuple):
    """Values whose sum, or whose products' sum, is near the end of 64 bits or beyond."""

    left: list[int]
    right: list[int]


HALF = 2**62

SUMS = {
    "below 2^62": Sum([2**61 + 1, 2**60, 3], [1]),
    "a product below 2^62": Sum([2**30 + 1] * 2, [2**30 - 1]),
    "2^63 - 1": Sum([HALF, HALF - 1], [1]),
    "-2^63 + 1": Sum([-HALF, -HALF + 1], [1]),
    "just beyond": Sum([HALF, HALF + 1], [1]),
    "far beyond": Sum([HALF + 1] * 3, [1]),
    "a product beyond": Sum([2**40 + 1] * 2, [2**40 + 3] * 2),
    "beyond by the number of rows": Sum([HALF + 1], [1] * 5),
    "beyond on the way only": Sum([HALF + 1, HALF + 1, -HALF - 1, -HALF], [1]),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_exact_near_64_bits_and_beyond(engine: Any, name: str) -> None:
    left, right = SUMS[name]
    expected = sum(x * y for x in left for y in right)
    result = asked(engine, ones(*left), {"k": [1] * len(right), "y": right}, {"m": "sum(x * y)"})
    value = row(result)["m"]
    assert result.exact
    assert value == expected


@pytest.mark.parametrize("name", ["2^63 - 1", "-2^63 + 1"])
def test_sums_are_exact_while_they_fit(engine: Any, name: str) -> None:
    result = asked(engine, ones(*SUMS[name].left), ONE, {"m": "sum(x)"})
    assert result.exact
    assert row(result)["m"] == sum(SUMS[name].left)


@pytest.mark.parametrize("text", ["sum(x * 4)", "sum(x + x)", "max(x + x)"])
def test_a_lift_may_pass_64_bits(engine: Any, text: str) -> None:
    result = asked(engine, ones(HALF + 1, HALF + 3), ONE, {"m": text})
    expected = {
        "sum(x * 4)": 8 * HALF + 16,
        "sum(x + x)": 4 * HALF + 8,
        "max(x + x)": 2 * HALF + 6,
    }[text]
    assert result.exact
    assert row(result)["m"] == expected


def test_the_smallest_integer(engine: Any) -> None:
    least = -(2**63)
    result = asked(engine, ones(least), ONE, {"s": "sum(x)", "low": "min(x)", "n": "count(x)"})
    answer = row(result)
    assert (int(answer["s"]), answer["low"], answer["n"]) == (least, least, 1)


def test_whole_numbers_are_compared_as_such(engine: Any) -> None:
    """Doubles cannot tell these apart."""
    result = asked(engine, ones(HALF + 1, HALF, HALF + 2), ONE, {"low": "min(x)", "high": "max(x)"})
    assert row(result) == {"low": HALF, "high": HALF + 2}


def test_narrow_integers_are_computed_with_in_64_bits(engine: Any) -> None:
    top, bottom = 2**31 - 1, -(2**31)
    result = asked(
        engine,
        {
            "k": [1, 1, 1],
            "x": pa.array([top] * 3, pa.int32()),
            "c": pa.array([127, 127, -128], pa.int8()),
            "d": pa.array([255, 255, 1], pa.uint8()),
        },
        {"k": [1], "y": pa.array([bottom], pa.int32()), "e": pa.array([-128], pa.int8())},
        {
            "sum": "sum(x)",
            "shifted": "sum(x + 1)",
            "negative": "sum(-y)",
            "apart": "max(x - y)",
            "small": "sum(c)",
            "across": "sum(c * e)",
            "square": "sum(c * c)",
            "unsigned": "sum(d)",
            "below zero": "min(d - 300)",
            "mean": "avg(x)",
            "product": "sum(x * y) / count(*)",
        },
    )
    answer = row(result)
    assert answer.pop("product") == pytest.approx(float(top * bottom), rel=1e-12)
    assert answer == {
        "sum": 3 * top,
        "shifted": 3 * top + 3,
        "negative": -3 * bottom,
        "apart": top - bottom,
        "small": 126,
        "across": -128 * 126,
        "square": 2 * 127**2 + 128**2,
        "unsigned": 511,
        "below zero": -299,
        "mean": float(top),
    }


def test_unsigned_64_bits(engine: Any) -> None:
    values = [2**64 - 1, 2**63, 5]
    measures = {"s": "sum(x)", "high": "max(x)", "low": "min(x)", "n": "count(x)"}
    result = asked(engine, ones(*values, dtype=pa.uint64()), ONE, measures)
    expected = {"s": sum(values), "high": 2**64 - 1, "low": 5, "n": 3}
    assert result.exact
    assert row(result) == expected
    assert result.arrow().schema.field("high").type == pa.uint64()
    small = asked(engine, ones(7, 5, dtype=pa.uint64()), ONE, measures)
    assert small.exact
    assert small.arrow().schema.field("low").type == pa.uint64()
    assert row(small) == {"s": 12, "high": 7, "low": 5, "n": 2}


def decimals(*values: str, places: int) -> pa.Array:
    return pa.array([Decimal(value) for value in values], pa.decimal128(12, places))


def test_decimals_are_exact_to_the_last_digit(engine: Any) -> None:
    result = asked(
        engine,
        {"k": [1, 1], "x": decimals("0.1", "0.2", places=1)},
        {"k": [1, 1], "y": decimals("1.25", "-0.05", places=2)},
        {
            "sum": "sum(x)",
            "product": "sum(x * y)",
            "literal": "sum(x * 1.5)",
            "twice": "2 * sum(x)",
            "least": "min(x + y)",
            "most": "max(y)",
            "mean": "avg(x)",
        },
    )
    answer = row(result)
    assert result.exact
    assert answer.pop("mean") == pytest.approx(0.15, rel=1e-12)
    assert all(isinstance(value, Decimal) for value in answer.values())
    assert answer == {
        "sum": Decimal("0.6"),
        "product": Decimal("0.36"),
        "literal": Decimal("0.90"),
        "twice": Decimal("1.2"),
        "least": Decimal("0.05"),
        "most": Decimal("1.25"),
    }


def test_wide_decimals_are_exact(engine: Any) -> None:
    values = [Decimal("90000000000000000.01"), Decimal("90000000000000000.02")]
    dtype = pa.decimal128(22, 2)
    result = asked(engine, ones(*values, dtype=dtype), ONE, {"s": "sum(x)", "high": "max(x)"})
    assert row(result) == {"s": sum(values), "high": values[1]}
    assert result.exact
    types = [result.arrow().schema.field(name).type for name in ("s", "high")]
    assert types == [pa.decimal128(38, 2), dtype]


def test_nulls_and_nothing(engine: Any) -> None:
    """SUM, AVG, MIN over no value are NULL, COUNT is 0; a constant NULL is never there."""
    measures = {
        "s": "sum(x)",
        "n": "count(x)",
        "a": "avg(x)",
        "low": "min(x)",
        "spread": "stddev_pop(x)",
        "never": "count(null)",
        "nor": "count(x * y * null)",
        "rows": "count(*)",
    }
    none = {"s": None, "n": 0, "a": None, "low": None, "spread": None, "never": 0, "nor": 0}
    right = {"k": [1, 1], "y": [1.5, 2.5]}
    result = asked(engine, ones(None, None, dtype=pa.int64()), right, measures)
    assert row(result) == {**none, "rows": 4}
    result = asked(engine, ones(1, dtype=pa.int64()), right, measures, where="y > 9")
    assert row(result) == {**none, "rows": 0}


def test_a_cast_that_may_fail_is_counted_where_it_succeeds(engine: Any) -> None:
    measures = {"n": "count(try_cast(x as int))", "a": "avg(try_cast(x as int))"}
    result = asked(engine, ones(1.0, math.inf, 3.0), ONE, measures)
    assert row(result) == {"n": 2, "a": 2.0}


SPREAD = {
    "integers": ones(10**9, 10**9 + 1, 10**9 + 2),
    "floats": ones(1e9, 1e9 + 1, 1e9 + 2),
    "small floats": ones(0.1, 0.1 + 1e-9, 0.1 + 2e-9),
    "floats of many digits": ones(1234567890.0, 1234567891.0, 1234567892.0),
    "with NULLs": ones(1e9, 1e9 + 1, 1e9 + 2, None, None, None),
}


@pytest.mark.parametrize("name", SPREAD)
def test_spread_of_values_close_together(engine: Any, name: str) -> None:
    data = SPREAD[name]
    values = [value for value in data["x"].to_pylist() if value is not None]
    answer = row(asked(engine, data, ONE, {"s": "stddev_pop(x)", "v": "var_samp(x)"}))
    assert answer["s"] == pytest.approx(statistics.pstdev(values), rel=1e-9)
    assert answer["v"] == pytest.approx(statistics.variance(values), rel=1e-9)


def test_spread_in_groups_far_apart(engine: Any) -> None:
    data = {**ones(0.0, 1.0, 2.0, 1e9, 1e9 + 1, 1e9 + 2), "g": [0, 0, 0, 1, 1, 1]}
    rows = asked(engine, data, ONE, {"s": "stddev_pop(x)"}, group_by=["g"]).rows()
    assert [group["s"] for group in rows] == pytest.approx([math.sqrt(2 / 3)] * 2, rel=1e-9)


def test_spread_of_equal_values_is_zero(engine: Any) -> None:
    answer = row(asked(engine, ones(0.1, 0.1, 0.1), {"k": [1] * 7}, {"s": "stddev_samp(x)"}))
    assert answer == {"s": 0.0}


def test_moments_across_relations(engine: Any) -> None:
    """Covariance and correlation of columns of two relations, with fan-out, as statistics has it."""
    left = {"k": [1, 1, 2, 2], "x": [1e6 + 1, 1e6 + 4, 1e6 + 2, 1e6 + 9]}
    right = {"k": [1, 2, 2], "y": [-3.0, 5.0, 8.0]}
    pairs = [
        (x, y)
        for k, x in zip(left["k"], left["x"], strict=True)
        for j, y in zip(right["k"], right["y"], strict=True)
        if k == j
    ]
    xs, ys = zip(*pairs, strict=True)
    measures = {
        "covariance": "covar_samp(x, y)",
        "correlation": "corr(x, y)",
        "sum": "var_pop(x + y)",
        "difference": "stddev_samp(x - y)",
    }
    expected = {
        "covariance": statistics.covariance(xs, ys),
        "correlation": statistics.correlation(xs, ys),
        "sum": statistics.pvariance([x + y for x, y in pairs]),
        "difference": statistics.stdev([x - y for x, y in pairs]),
    }
    assert row(asked(engine, left, right, measures)) == pytest.approx(expected, rel=1e-9)


def test_user_defined_semirings(engine: Any) -> None:
    """`ct.aggregate`: the average in one annotation, and a semiring with a different ⊕ a component."""
    mean = ct.aggregate(
        ct.semiring.AVG, {"a": {"n": "1", "s": "x"}, "b": {"n": "1", "s": "0"}}, final="s / n"
    )
    route = ct.Semiring(
        "route",
        ("cost", "ways"),
        ("min", "sum"),
        ("l_cost + r_cost", "l_ways * r_ways"),
        (None, 0),
        (0, 1),
    )
    trips = {"a": {"cost": "x", "ways": "1"}, "b": {"cost": "y", "ways": "1"}}
    answer = row(
        asked(
            engine,
            ones(4, 2, 9),
            {"k": [1, 1], "y": [10, 30]},
            {
                "mean": mean,
                "cheapest": ct.aggregate(route, trips, final="cost"),
                "ways": ct.aggregate(route, trips, final="ways"),
                "both": ct.aggregate(route, trips, final="cost * 100 + ways"),
                "any": ct.aggregate(ct.semiring.BOOL, {"a": "x > 8"}),
                "least": ct.aggregate(ct.semiring.MIN, {"a": "x", "b": "y"}, final="v - 1"),
            },
        )
    )
    assert answer == {
        "mean": 5.0,
        "cheapest": 12,
        "ways": 6,
        "both": 1206,
        "any": True,
        "least": 11,
    }
