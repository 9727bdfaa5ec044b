"""Functions, aggregates, grains and as-of joins with arguments that nobody would write by hand.

Scalar functions are those of `function_texts`, so that a new one is tried here too.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.torture.function_texts import FORMS, VALUES

OPEN = "\ue000"
"""Stands for a brace of a pattern, which is no hole of a form."""

COUNTS = ("16777216", "16777217", "1000000", "2147483647", "2147483648", "9223372036854775807")
COUNTS += ("-9223372036854775808", "99999999999999999999", "1e18", "0.5", "i8", "null", "'2'", "s")
HUGE = (
    *(
        "repeat(s, 16777216)",
        "repeat('😀', 16777216)",
        "lpad(s, 16777216, '😀')",
        "rpad(s, 5000000)",
    ),
    *("repeat(repeat('ab', 1000), 1000)", "replace(repeat('a', 10000), 'a', repeat('b', 10000))"),
    *(
        "regexp_replace(repeat('a', 50000), 'a', repeat('é', 9999), 'g')",
        "repeat(s, 9999999) || s2",
    ),
    *(
        "lower(repeat('İ', 8000000))",
        "replace(s, '', repeat('x', 1000000))",
        "reverse(s) || digits",
    ),
    *("concat(repeat(s, 4000000), repeat(s2, 4000000), i64)", "upper(repeat('ß', 9000000))"),
)
REGEXES = (
    *(
        "(a+)+$",
        "(a|a)*b",
        "([a-z]+)*!",
        "(.*)*x",
        "(x+x+)+y",
        "a{1000}",
        "a{1001}",
        "(a{100}){100}",
    ),
    *(
        "((a{30}){30}){30}",
        "x{0,1000}",
        "(?=a)b",
        "(a)\\1",
        "[[:alpha:]",
        "[",
        "(",
        "*",
        "+a",
        "a**",
    ),
    *("\\", "\\p{L}+", "\\p{Nope}", "(?i)STRA", "(?<n>a)", "(?P<n>a)", "$^", "", "a|", "|" * 500),
    *(
        "(" * 200 + "a" + ")" * 200,
        "(" * 2000 + ")" * 2000,
        "[^\\x00-\\x{10FFFF}]",
        "\\C",
        ".{0,9}" * 99,
    ),
)
INTERVALS = (
    *("interval '1e9 years'", "interval '99999999999 days'", "interval '-178956970 years'"),
    *("interval '2147483647' month", "interval (9223372036854775807) month", "interval '1 foo'"),
    *("interval ''", "interval '1'", "interval '-'", "interval '1 day 1 day'", "interval 'P1Y'"),
    *("interval (i64) day", "to_months(i32 * 1000000000)", "9999999999 * interval '1 day'"),
    *("interval '" + "1 day " * 500 + "'", "interval '00:00:99999999999'", "interval null day"),
)
EXTREMES = {
    **VALUES,
    "count": (*VALUES["count"], *COUNTS),
    "text": (*VALUES["text"], *HUGE),
    "part": (*VALUES["part"], "repeat('a', 100000)", "'" + "a" * 5000 + "'"),
    "padding": (*VALUES["padding"], "repeat('😀', 1000)", "''"),
    "regex": tuple(f"'{regex}'" for regex in REGEXES),
    "months": (*VALUES["months"], "9223372036854775807", "-2147483649", "i64", "null"),
    "bits": (*VALUES["bits"], "62", "63", "64", "-1", "9223372036854775807", "i64"),
    "time": (*VALUES["time"], "timestamp '294247-01-10 04:00:54.775806'", "'infinity'::timestamp"),
    "day": (*VALUES["day"], "date '9999-12-31'", "date '5877642-06-25'", "'-infinity'::date"),
}
MORE = (
    *("bin({number}, 0)", "bin({number}, 1e-300)", "bin({number}, 1e308)", "bin({number}, -1)"),
    *("width_bucket({number}, 0, 0, 3)", "width_bucket({number}, 0, 'inf'::double, 3)"),
    *("width_bucket({number}, 0, 5, 99999999999)", "width_bucket({number}, 'nan'::double, 5, 3)"),
    *("round({number}, {count})", "trunc({number}, 2)", "pow({number}, 99999)", "log(0, {number})"),
    *(
        "strftime({time}, {part})",
        "strftime({time}, '%')",
        "strftime({time}, '%q')",
        "{time} + {time}",
    ),
    *(
        "date_trunc('fortnight', {time})",
        "extract(nothing from {time})",
        "date_diff('x', {time}, {day})",
    ),
    *("split_part({text}, {part}, {count})", "regexp_extract({text}, {regex}, {count})"),
    *("regexp_replace({text}, {regex}, '\\9\\0$0', {part})", "{text} similar to {regex}"),
    *("cast({text} as {regex})", "try_cast({text} as timestamp)", "position({text} in {text})"),
)
QUANTILES = (
    "0",
    "1",
    "0.5",
    "-1",
    "2",
    "'nan'::double",
    "1e400",
    "null",
    "i32",
    "'x'",
    "[0.1, 0.5]",
)
KS = (
    "0",
    "-1",
    "1",
    "3",
    "1000",
    "1001",
    "1000000000",
    "9223372036854775808",
    "null",
    "i8",
    "'a'",
    "1.5",
)
AGGREGATES = (
    *(
        "sum({any})",
        "avg({any})",
        "min({any})",
        "max({text})",
        "count({any})",
        "median({any})",
        "mode({any})",
    ),
    *(
        "var_samp({number})",
        "stddev_pop({number})",
        "corr({number}, {number})",
        "bool_and({truth})",
    ),
    *("regr_slope({number}, {number})", "count(distinct {any})", "sum(distinct {number})"),
    *("count(distinct ({any}, {any}))", "count(distinct {any}, {any})", "avg(distinct {integer})"),
    *("quantile_cont({number}, {q})", "quantile_disc({any}, {q})", "top_k({any}, {k})"),
    *("percentile_cont({q}) within group (order by {number} desc)", "top_k({any}, {k}, {number})"),
    *("percentile_disc({q}) within group (order by {any})", "histogram({any})", "list({any})"),
    *("list(distinct {any} order by {any} desc)", "string_agg({text}, {part})", "list({text})"),
    *("string_agg(distinct {text}, ',' order by {text} desc)", "arg_min({any}, {any})"),
    *("arg_max({text}, {number})", "median({number}) filter (where {truth})", "count_if({truth})"),
    *("sum(sum({number}))", "max(median({number}))", "list(list({any}))", "sum({number}) over ()"),
    *(
        "approx_count_distinct({any})",
        "any_value({any})",
        "first({any})",
        "sum({number} order by i8)",
    ),
    *("median()", "median(*)", "quantile_cont({number})", "top_k({any})", "count(distinct *)"),
    *("list({any}) + 1", "length(string_agg({text}, {part}))", "histogram({any}) = 1"),
)
FRAMES = ("{}", "coalesce({}, null)", "case when count(*) > 3 then {} end", "{} = {}", "({}) + 1")

ODD_ARGUMENTS: tuple[Any, ...] = (
    *(
        "t",
        "at",
        "nothing",
        "",
        "\0",
        "\ud800",
        "t.t",
        "u.at",
        "a" * 2000,
        "at; drop table t",
        "('at')",
    ),
    *(
        None,
        0,
        5,
        -1,
        1.5,
        float("nan"),
        True,
        b"at",
        [],
        [""],
        ["at"],
        ["at", "at"],
        [None],
        {},
        (),
    ),
    *(
        {"at": "at"},
        {"at": "nothing"},
        {"at": 5},
        {5: "at"},
        {"at": ["at"]},
        {"at": "at", "k": "k"},
    ),
    *(object(), ["t", "u"], ["u", "t", "u"], {"t", "u"}, "count(*)", "t, u"),
)
TOLERANCES: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        1.5,
        10**30,
        -(10**30),
        float("nan"),
        float("inf"),
        True,
        "",
        "1 day",
        "x",
        "-1 day",
    ),
    *(
        "1 month",
        "9" * 5000,
        "1e999 days",
        "\0",
        [],
        {},
        b"1",
        object(),
        "interval '1 day'",
        "1 foo",
    ),
)


class HostileFunctions:
    """A source of random calls of functions and aggregates."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def scalar(self) -> str:
        """A call, now and then inside of another one."""
        form = self.random.choice((*FORMS, *FORMS, *MORE, *INTERVALS))
        if form in INTERVALS:
            form = f"{{near}} {self.random.choice('+-')} {form}"
        if "{text}" in form and self.random.random() < 0.1:
            form = form.replace("{text}", self.filled(self.random.choice(HUGE)), 1)
        return self.filled(form)

    def condition(self) -> str:
        """Whether a call has a value, or which."""
        text = self.scalar()
        around = self.random.choice(
            ("({}) is not null", "({}) is null", "({0}) = ({0})", "({0}) < ({0})")
        )
        return around.format(text)

    def measure(self) -> str:
        """An aggregate, now and then of a call, and inside of an expression."""
        form = self.random.choice(AGGREGATES)
        form = form.replace("{q}", self.random.choice(QUANTILES))
        form = form.replace("{k}", self.random.choice(KS))
        if self.random.random() < 0.3 and "{any}" in form:
            form = form.replace("{any}", self.scalar().replace("{", OPEN))
        text = self.filled(form)
        frame = self.random.choice(FRAMES) if self.random.random() < 0.2 else "{}"
        return frame.replace("{}", text)

    def filled(self, form: str) -> str:
        """A form with a value in each hole: mostly an ordinary one."""
        while "{" in form:
            before, _, rest = form.partition("{")
            kind, _, after = rest.partition("}")
            values = EXTREMES[kind] if self.random.random() < 0.5 else VALUES[kind]
            form = before + self.random.choice(values).replace("{", OPEN) + after
        return form.replace(OPEN, "{")

    def argument(self) -> Any:
        """What is no name of a column or a relation, or one."""
        return self.random.choice(ODD_ARGUMENTS)

    def tolerance(self) -> Any:
        """What is no tolerance of an as-of join, or one."""
        return self.random.choice(TOLERANCES)
