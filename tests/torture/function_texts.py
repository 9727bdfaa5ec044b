"""Every scalar function with the arguments that break things: NULL, empty, extreme, negative, not ASCII.

A form has holes by kind. Each hole is filled with every value of its kind, the others with columns, in which
all of these stand too.
"""

from __future__ import annotations

from collections.abc import Iterator

VALUES = {
    "text": ("s", "''", "'Straße 😀'", "' a é '", "null"),
    "part": ("'a'", "''", "'é'", "'😀'", "' '", "null", "s2"),
    "count": ("2", "0", "-1", "-100", "100", "null", "cast(i8 as int)"),
    "padding": ("'xy'", "'é'", "null"),
    "regex": ("'a.?b'", "''", "'^[a-z]+$'", "'(é|ß)'", "'\\s'", "null",
              "'[[:alpha:]]+'", "'[^[:punct:][:space:]a]'", "'[][&~|%]'"),
    "number": ("f64", "i64", "dec", "0", "-1.5", "'nan'::double", "'-inf'::double", "1e300", "null"),
    "integer": ("i32", "i8", "0", "-7", "9223372036854775807", "-9223372036854775807", "null"),
    "bits": ("0", "1", "7", "null"),
    "shift": ("1", "62", "63", "64", "-1"),
    "truth": ("b", "true", "null"),
    "day": ("d", "date '1900-03-01'", "date '2020-02-29'", "null::date"),
    "time": ("ts", "d", "tz", "timestamp '0001-01-01 00:00:00'", "timestamp '9999-12-31 23:59:59.999999'",
             "timestamp '1969-12-31 23:59:59.999999'", "null::timestamp"),
    "near": ("ts", "d", "tz", "null::timestamp"),
    "months": ("1", "-1", "13", "-14", "1200"),
    "ages": ("1", "0", "-2"),
    "any": ("i32", "g64", "dec", "s", "b", "d", "ts", "null"),
}  # fmt: skip

PARTS = (
    *(
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "doy",
        "dow",
        "isodow",
        "isoyear",
        "hour",
        "minute",
    ),
    *("second", "millisecond", "microsecond", "decade", "century", "millennium", "yearweek", "era"),
    *("epoch", "julian"),
)
UNITS = (
    *(
        "millennium",
        "century",
        "decade",
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
    ),
    *("second", "millisecond", "microsecond"),
)
FORMATS = ("%Y-%m-%d %H:%M:%S.%f", "%a %A %b %B", "%c|%x|%X|%p|%I|%%", "%g %G %j %u %U %V %w %W %y")
FORMATS += ("%-d %-H %-I %-j %-m %-M %-S %-y",)

SPANS = (
    *("years", "quarters", "months", "weeks", "days", "hours", "minutes", "seconds"),
    *("milliseconds", "microseconds"),
)

FORMS = (
    *("{number} + {number}", "{number} - {number}", "{number} * {number}", "{number} / {number}"),
    *("{number} % {number}", "- {number}", "abs({number})", "sign({number})", "floor({number})"),
    *(
        "ceil({number})",
        "round({number})",
        "round({number}, 2)",
        "trunc({number})",
        "sqrt({number})",
    ),
    *("mod({number}, {number})", "{integer} // {integer}", "exp({number})", "ln({number})"),
    *("log({number})", "log10({number})", "log2({number})", "log(2, {number})"),
    *("pow({number}, {number})", "{number} ^ 2", "sin({number})", "cos({number})", "tan({number})"),
    *("asin({number})", "acos({number})", "atan({number})", "atan2({number}, {number})"),
    *("degrees({number})", "radians({number})", "pi() + {number}", "isnan({number})"),
    *("isinf({number})", "isfinite({number})", "{integer} & {integer}", "{integer} | {integer}"),
    *("~ {integer}", "xor({integer}, {integer})", "{bits} << {bits}", "{integer} >> {bits}"),
    *(
        "{integer} >> {integer}",
        "{integer} >> {shift}",
        "u8 << {bits}",
        "bin({number}, 2)",
        "width_bucket({number}, 0, 5, 3)",
    ),
    *("{text} || {text}", "lower({text})", "upper({text})", "length({text})", "reverse({text})"),
    *("concat({any}, {text}, {any})", "replace({text}, {part}, {part})", "left({text}, {count})"),
    *("right({text}, {count})", "starts_with({text}, {part})", "ends_with({text}, {part})"),
    *(
        "contains({text}, s2)",
        "contains({text}, 'é')",
        "strpos({text}, {part})",
        "prefix({text}, {part})",
    ),
    *("position({part} in {text})", "trim({text})", "ltrim({text})", "rtrim({text})"),
    *("trim({text}, {part})", "ltrim({text}, {part})", "rtrim({text}, {part})"),
    *("trim(both 'a' from {text})", "trim(leading from {text})", "trim(trailing ' b' from {text})"),
    *("lpad({text}, {count}, {padding})", "rpad({text}, {count}, {padding})"),
    *(
        "repeat({text}, {count})",
        "split_part({text}, {part}, {count})",
        "substring({text}, {count})",
    ),
    *("substring({text}, {count}, {count})", "substring({text} from 2 for 2)"),
    *("regexp_matches({text}, {regex})", "regexp_full_match({text}, {regex})", "{text} ~ 'a'"),
    *("{text} !~ 'a'", "{text} similar to 'a.*'", "regexp_matches({text}, 'STRA', 'i')"),
    *("regexp_replace({text}, {regex}, 'x')", "regexp_replace({text}, '(a)(.)', '\\2\\1-', 'g')"),
    *("regexp_replace({text}, 'b|é', '[\\0]$1')", "regexp_extract({text}, {regex})"),
    *("regexp_extract({text}, '(a)(.)?', 2)", "regexp_extract({text}, 'a', 3)"),
    *("{text} like '%a_b'", "{text} like 'a!_%' escape '!'", "{text} not like '%!%%' escape '!'"),
    *("{text} ilike 'STRA_E%'", "{text} ilike 'A!_%' escape '!'", "{text} like 'a!b' escape '!'"),
    *("{number} = {number}", "{number} <> {number}", "{number} < {number}", "{number} <= {number}"),
    *("{number} > {number}", "{text} >= {text}", "{number} is distinct from {number}"),
    *(
        "{text} is not distinct from {text}",
        "{truth} and {truth}",
        "{truth} or {truth}",
        "not {truth}",
    ),
    *(
        "{any} is null",
        "{truth} is not true",
        "{number} in (0, 1, null)",
        "{number} between 0 and 5",
    ),
    *(
        "({integer}, {text}) in ((1, 'a'), (0, ''), (null, 'b'))",
        "(i8, i16) not in ((1, 2), (0, null))",
    ),
    *("case when {truth} then {number} else 0 end", "if({truth}, {text}, 'x')"),
    *("coalesce({text}, 'x')", "greatest({number}, {number})", "least({text}, {text})"),
    *("nullif({text}, 'a')", "cast({number} as double)", "try_cast({text} as int)"),
    *("try_cast({text} as date)", "cast({near} as date)", "date({near})"),
    *("{day} + {count}", "{day} - {count}", "{day} - {day}", "{near} + interval ({months}) month"),
    *("{near} - interval '1' year", "{near} + interval '1 month 2 days 03:04:05.5'"),
    *(
        "{near} - interval 90 day",
        "{months} * interval '1 day' + {near}",
    ),
    *(
        "date_add({near}, interval '2' week)",
        "{near} - interval '1 hour'",
    ),
    *(
        "{near} - ts2 > interval '1 day'",
        "extract(day from ts - {near})",
        "extract(hour from ts - ts2)",
    ),
    *("extract(epoch from ts - ts2)", "{near} + (ts - ts2)", "{day} + time '12:30:00'"),
    *("last_day({near})", "dayname({time})", "monthname({time})", "epoch_us({time})"),
    *(
        "epoch_ms({near})",
        "epoch_ms({near} + interval '00:00:01.5')",
        "epoch_ms(ts - ts2)",
        "year({time})",
        "weekday({time})",
        "date_part('decade', {time})",
    ),
    *(f"{{near}} + to_{span}({{months}})" for span in SPANS),
    *(f"{{near}} - to_{span}({{ages}})" for span in ("millennia", "centuries", "decades")),
    *(f"extract({part} from {{time}})" for part in PARTS),
    *(f"date_trunc('{unit}', {{time}})" for unit in UNITS[3:]),
    *(f"date_trunc('{unit}', {{near}})" for unit in UNITS[:3]),
    *(f"date_diff('{unit}', {{near}}, {{time}})" for unit in UNITS),
    *(f"strftime({{time}}, '{form}')" for form in FORMATS),
)


def matrix(only_columns: bool = False) -> Iterator[str]:
    """All texts, each once; or of each form the one whose arguments are columns."""
    seen = set()
    for form in FORMS:
        holes = _holes(form)
        for at, hole in enumerate(holes or [""]):
            for value in VALUES.get(hole, ("",))[: 1 if only_columns else None]:
                chosen = [VALUES[kind][0] for kind in holes]
                if holes:
                    chosen[at] = value
                text = f"case when t.id >= 0 then {_filled(form, chosen)} end"
                if text not in seen:
                    seen.add(text)
                    yield text


def _holes(form: str) -> list[str]:
    return [piece.partition("}")[0] for piece in form.split("{")[1:]]


def _filled(form: str, values: list[str]) -> str:
    first, *others = form.split("{")
    return first + "".join(
        value + piece.partition("}")[2] for value, piece in zip(values, others, strict=True)
    )
