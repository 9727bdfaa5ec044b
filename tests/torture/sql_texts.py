"""Random SQL text over the columns of `sql_data`: all operators and functions, few parentheses.

A text is made by kind, so that most are typed well if they bind as they were made. As parentheses are
left out at random, many bind otherwise, and some mean nothing at all: DuckDB says which.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

NUMBERS = ("i8", "i16", "i32", "i64", "u8", "u32", "u64", "f32", "f64", "g64", "dec", "big")
TEXTS = ("s", "s2", "digits")
TRUTHS = ("b", "c")
DAYS = ("d", "d2")
TIMES = ("ts", "ts2", "tz")

NUMBER_LITERALS = (
    *("0", "1", "2", "3", "-1", "-7", "10", "100", "127", "128", "255", "32768", "2147483648"),
    *("0.5", "1.5", "-2.5", "0.1", "10.00", "0.25", "0.001", "1e0", "2.5e0", "1e3", "-1e-3"),
    *("cast('nan' as double)", "'inf'::double", "'-inf'::double", "null"),
)
TEXT_LITERALS = (
    *("''", "'a'", "'A'", "'ab'", "'Straße'", "'ﬁn'", "'İ'", "'é'", "'it''s'", "'%'", "'a_b'"),
    *("' pad '", "'10'", "'-1.5'", "'true'", "'2020-02-29'", "'😀'", "'\\'", "null"),
)
PATTERNS = ("'%'", "'a%'", "'%b'", "'_'", "'a_b'", "'%é%'", "''", "'A%'", "'%ß%'", "'\\%'", "'%i%'")
DAY_LITERALS = ("date '2020-02-29'", "'2021-01-01'::date", "cast('1969-12-31' as date)", "null")
TIME_LITERALS = (
    "timestamp '2020-02-29 12:30:00'",
    "'2021-01-01 00:00:00'::timestamp",
    "cast('1969-12-31 23:59:59.999999' as timestamp)",
    "timestamptz '2020-02-29 12:30:00+00'",
    "null",
)
INTEGER_TYPES = ("tinyint", "smallint", "int", "integer", "bigint", "int8", "int4")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute")
DEPTHS = (1, 1, 1, 2, 2, 3)
PARTS = (*UNITS, "doy")


class Texts:
    """A source of random texts.

    `shown` asks for numbers as text too, of which the last digits, and zeros, may depend on the engine.
    `bare` is how often parentheses that would be needed are left out.
    """

    def __init__(self, seed: int, shown: bool = True, bare: float = 0.35) -> None:
        self.random = Random(seed)
        self.kinds = ("truth", "truth", "number", "number", "text", "day", "time")
        self.kinds += ("shown",) if shown else ()
        self.bare = bare

    def one(self) -> str:
        """A text of any kind."""
        kind = self.random.choice(self.kinds)
        return self.of(kind, self.random.choice(DEPTHS))

    def different(self, make: Callable[[], str], count: int) -> list[str]:
        """So many texts, no two of them the same."""
        texts: dict[str, None] = {}
        while len(texts) < count:
            texts[make()] = None
        return list(texts)

    def condition(self) -> str:
        """A text that is a condition, if it binds as it was made."""
        return self.of("truth", self.random.choice(DEPTHS))

    def of(self, kind: str, depth: int) -> str:
        """A text of a kind, nested so deep."""
        if depth <= 0 or self.random.random() < 0.1:
            return self._leaf(kind)
        form = self.random.choice(FORMS[kind])
        while "{" in form:
            before, _, rest = form.partition("{")
            hole, _, after = rest.partition("}")
            form = before + self._filled(hole, depth - 1) + after
        return form.replace("--", "- -")

    def _filled(self, hole: str, depth: int) -> str:
        """A choice of words, or an operand: in upper case one that stands between delimiters."""
        if "|" in hole:
            return self.random.choice(hole.split("|"))
        if hole in CHOICES:
            return self.random.choice(CHOICES[hole])
        kind = hole.lower()
        if kind == "any":
            kind = self.random.choice(("number", "text", "truth", "day", "time"))
        text = self.of(kind, depth)
        simple = text.replace(".", "").replace("_", "").isalnum() or text.endswith("'")
        if hole.isupper() or simple or self.random.random() < self.bare:
            return text
        return f"({text})"

    def _leaf(self, kind: str) -> str:
        columns, literals = LEAVES[kind]
        if self.random.random() < 0.3:
            return self.random.choice(literals)
        column = self.random.choice(columns)
        return f"t.{column}" if self.random.random() < 0.2 else column


LEAVES = {
    "number": (NUMBERS, NUMBER_LITERALS),
    "shown": (TEXTS, TEXT_LITERALS),
    "text": (TEXTS, TEXT_LITERALS),
    "truth": (TRUTHS, ("true", "false", "null")),
    "day": (DAYS, DAY_LITERALS),
    "time": (TIMES, TIME_LITERALS),
}
CHOICES = {
    "comparison": ("=", "<>", "!=", "<", "<=", ">", ">=", "==", "is distinct from"),
    "pattern": PATTERNS,
    "integer": INTEGER_TYPES,
    "part": PARTS,
    "unit": UNITS,
    "longer": ("century", "decade", "isoyear", "yearweek", "dow", "isodow", "epoch", "microsecond"),
    "span": ("1 month", "-1 year", "90 days", "1 month -1 day", "36 hours", "00:00:01.5"),
    "calendar": ("years", "quarters", "months", "weeks", "days"),
    "clock": ("hours", "minutes", "seconds", "milliseconds", "microseconds"),
    "count": ("0", "1", "2", "-1", "5", "-9"),
    "regex": ("'a.?[ab]'", "'^[a-z]+$'", "'(é|ß)'", "'[0-9]+'", "'\\W'", "'ab?'"),
    "format": ("'%Y-%m-%d'", "'%H:%M:%S.%f'", "'%B %-m, %y'", "'%j %U %W %V %G'", "'%I %p'"),
    "escaped": ("'a!_%'", "'%!%%'", "'a!ab'", "'!!%'", "'%!_b'"),
}

FORMS = {
    "number": (
        *("{number} + {number}", "{number} - {number}", "{number} * {number}"),
        *("{number} / {number}", "{number} % {number}", "-{number}", "+{number}"),
        *("{number} ^ {number}", "abs({NUMBER})", "floor({NUMBER})", "ceil({NUMBER})"),
        *("round({NUMBER})", "round({NUMBER}, {0|1|2|3})", "sqrt({NUMBER})", "ln({NUMBER})"),
        *("exp({NUMBER})", "power({NUMBER}, {NUMBER})", "pow({NUMBER}, 2)"),
        *("greatest({NUMBER}, {NUMBER})", "least({NUMBER}, {NUMBER}, {NUMBER})"),
        *("coalesce({NUMBER}, {NUMBER})", "nullif({NUMBER}, {NUMBER})"),
        "case when {TRUTH} then {NUMBER} else {NUMBER} end",
        "case when {TRUTH} then {NUMBER} when {TRUTH} then {NUMBER} end",
        "case {NUMBER} when {NUMBER} then {NUMBER} else {NUMBER} end",
        *("if({TRUTH}, {NUMBER}, {NUMBER})", "length({TEXT})", "extract({part} from {TIME})"),
        *("{year|quarter|month|week|day|dayofyear|weekofyear}({DAY})", "{hour|minute}({TIME})"),
        *("cast({NUMBER} as {integer})", "{number}::{integer}", "try_cast({NUMBER} as {integer})"),
        *(
            "cast({NUMBER} as double)",
            "try_cast({s|s2|digits} as {integer})",
            "cast({TRUTH} as int)",
        ),
        *(
            "try_cast({s|s2|digits} as double)",
            "cast({NUMBER} as float)::double",
            "{number}::double",
        ),
        "cast(digits as {integer|double})",
        *("sign({NUMBER})", "trunc({NUMBER})", "mod({NUMBER}, {NUMBER})", "{i32|i64|u8} // {i8|3}"),
        *(
            "{i8|i32|i64|7} & {i16|3}",
            "{i32|5} | {i8|i64}",
            "(~ {i8|i64})",
            "xor({i32|i8}, {i64|7})",
        ),
        *("{i32|100} >> {1|2|u8}", "{u8|1} << {0|1|2}", "log10({NUMBER})", "log2({NUMBER})"),
        *("atan({NUMBER})", "strpos({TEXT}, {TEXT})", "position({text} in {TEXT})"),
        *(
            "{day} - {day}",
            "date_diff('{unit}', {DAY}, {TIME})",
            "date_diff('{unit}', {TIME}, {TIME})",
        ),
        *("extract({part} from {TIME})", "extract({longer} from {TIME})", "epoch_us({TIME})"),
        *("date_part('{part}', {DAY})", "extract({day|hour|minute} from {ts|ts2} - {d|ts|ts2})"),
        *("{sin|cos|tan}({i8|g64|dec})", "{asin|acos}({NUMBER})", "atan2({NUMBER}, {NUMBER})"),
        *("{degrees|radians}({NUMBER})", "pi() * {number}", "log({NUMBER})", "log(2, {NUMBER})"),
        *(
            "bin({f64|g64}, {2|0.25})",
            "width_bucket({NUMBER}, {-1|0}, 5, {1|4})",
            "epoch_ms({TIME})",
        ),
    ),
    "text": (
        *("{text} || {text}", "{text} || {text} || {text}", "lower({TEXT})", "upper({TEXT})"),
        *("trim({TEXT})", "substring({TEXT}, {1|2|3})", "substring({TEXT}, {1|2}, {1|2|3})"),
        *("substring({TEXT} from 2 for 1)", "coalesce({TEXT}, {TEXT})", "nullif({TEXT}, {TEXT})"),
        *("greatest({TEXT}, {TEXT})", "least({TEXT}, {TEXT})"),
        "case when {TRUTH} then {TEXT} else {TEXT} end",
        *("cast({i8|i32|i64|dec|u32} as varchar)", "{b|d|ts|i16|digits}::text"),
        *("cast({TRUTH} as varchar)", "cast({DAY} as text)", "cast({TIME} as varchar)"),
        "if({TRUTH}, {TEXT}, {TEXT})",
        *(
            "left({TEXT}, {count})",
            "right({TEXT}, {count})",
            "reverse({TEXT})",
            "repeat({s|s2}, {2|0})",
        ),
        *("replace({TEXT}, {TEXT}, {TEXT})", "ltrim({TEXT})", "rtrim({TEXT}, {TEXT})"),
        *(
            "trim({TEXT}, {TEXT})",
            "lpad({TEXT}, {count}, {'x'|'éß'})",
            "rpad({TEXT}, {count}, {'-'|'ab'})",
        ),
        *("split_part({TEXT}, {TEXT}, {count})", "substring({TEXT}, {count}, {count})"),
        *(
            "concat({TEXT}, {i32|b|d|dec}, {TEXT})",
            "regexp_replace({TEXT}, {regex}, {'x'|'[\\0]'})",
        ),
        *("regexp_extract({TEXT}, {regex})", "strftime({TIME}, {format})", "dayname({DAY})"),
        *("monthname({TIME})", "trim({both|leading|trailing} {'a'|' b'|'é'} from {TEXT})"),
    ),
    "truth": (
        *("{number} {comparison} {number}",) * 4,
        *("{text} {comparison} {text}",) * 2,
        *("{day} {comparison} {day}", "{time} {comparison} {time}", "{truth} {comparison} {truth}"),
        *("{day} {comparison} {time}", "{day} {comparison} '2020-02-29'"),
        *("{time} {comparison} '2020-02-29 12:30:00'", "{truth} and {truth}", "{truth} or {truth}"),
        *("{truth} and {truth} or {truth}", "{truth} or {truth} and {truth}", "not {truth}"),
        *("not {truth}", "{any} is null", "{any} is not null", "{truth} is {true|false}"),
        *("{truth} is not {true|false|unknown}", "{any} {isnull|notnull}"),
        *("{number} is not distinct from {number}", "{text} is distinct from {text}"),
        *("{number} in ({NUMBER}, {NUMBER})", "{number} not in ({NUMBER}, 1, null)"),
        *("{text} in ({TEXT}, 'a')", "{text} not in ({TEXT})", "{day} in ('2020-02-29', {DAY})"),
        *("{number} between {number} and {number}", "{number} not between {number} and {number}"),
        *("{text} between {text} and {text}", "{time} between {time} and {time}"),
        *("{text} like {pattern}", "{text} not like {pattern}", "{text} ilike {pattern}"),
        *("{text} not ilike {pattern}", "coalesce({TRUTH}, {TRUTH})", "nullif({TRUTH}, {TRUTH})"),
        *("case when {TRUTH} then {TRUTH} else {TRUTH} end", "if({TRUTH}, {TRUTH}, {TRUTH})"),
        *("cast({NUMBER} as boolean)", "try_cast({TEXT} as boolean)", "{number}::boolean"),
        *("starts_with({TEXT}, {TEXT})", "ends_with({TEXT}, {TEXT})", "isnan({NUMBER})"),
        *("regexp_matches({TEXT}, {regex})", "{text} ~ {regex}", "{text} similar to {regex}"),
        *("{text} like {escaped} escape '!'", "{text} ilike {escaped} escape '!'"),
        *("{isinf|isfinite}({NUMBER})", "contains({TEXT}, {s|s2|'a'})"),
        "regexp_full_match({TEXT}, {regex})",
        *(
            "({number}, {text}) in (({NUMBER}, {TEXT}), (1, null))",
            "({i8|i32}, {s|s2}) not in ((1, 'a'))",
        ),
        *(
            "{ts|ts2} - {d|ts|ts2} > interval '{1 day|36 hours|-1 week}'",
            "{day} <= {day} + interval '{span}'",
        ),
        *("greatest({TRUTH}, {TRUTH})", "{any} is null {comparison} {truth}"),
        "{number} {comparison} {number} is {null|not null|true|not false}",
    ),
    "shown": ("cast({NUMBER} as varchar)", "try_cast({NUMBER} as text)"),
    "day": (
        *("cast({TIME} as date)", "coalesce({DAY}, {DAY})", "nullif({DAY}, {DAY})"),
        *("greatest({DAY}, {DAY})", "least({DAY}, {DAY})", "try_cast({s|digits} as date)"),
        *("case when {TRUTH} then {DAY} else {DAY} end", "{time}::date"),
        *("{day} + {1|-30|cast(i8 as int)}", "{day} - {7|i16::int}", "last_day({TIME})"),
        "date({TIME})",
    ),
    "time": (
        *(
            "date_trunc('{unit}', {TIME})",
            "date_trunc('{unit}', {DAY})",
            "cast({DAY} as timestamp)",
        ),
        *("coalesce({TIME}, {TIME})", "nullif({TIME}, {TIME})", "greatest({TIME}, {TIME})"),
        *("least({TIME}, {DAY})", "case when {TRUTH} then {TIME} else {TIME} end"),
        *("cast({TIME} as timestamptz)", "cast({TIME} as timestamp)"),
        *("try_cast({s2|digits} as timestamp)", "{day}::timestamp"),
        *("{day} + interval '{span}'", "{time} - interval '{span}'", "interval '{span}' + {time}"),
        *("{time} + interval ({i8|2}) {month|day|hour}", "{day} - {i8|3} * interval '1 month'"),
        *(
            "date_trunc('{decade|century|second|millisecond}', {TIME})",
            "{day} + to_{calendar}({i8|1})",
        ),
        *("date_add({DAY}, interval '{span}')", "{time} - to_{clock}({i8|90})"),
        "{day} + to_{decades|centuries|millennia}(1)",
    ),
}
