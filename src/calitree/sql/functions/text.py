"""Functions of text."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql import spark_text as spark
from calitree.sql.functions import spark_strings
from calitree.sql.functions.function import CALL, Function, named, rewritten
from calitree.sql.rules import regex, rewrites, text
from calitree.sql.rules.signatures import function
from calitree.types import Kind

_S, _I, _TEXT = Kind.STRING, Kind.INTEGER, Kind.STRING
_CHARACTERS = 1 << 31
_of_text = function(Kind.STRING, result=Kind.STRING)
_length = function(Kind.STRING, result=Kind.INTEGER)

_LEFT = "CASE WHEN {1} < 0 THEN LEFT({0}, LENGTH({0}) + {1:int}) ELSE LEFT({0}, {1:int}) END"
_RIGHT = (
    "CASE WHEN {1} < 0 THEN SUBSTRING({0}, 1 - {1:int}) WHEN {1} = 0 AND {0} IS NOT NULL THEN ''"
    " ELSE RIGHT({0}, {1:int}) END"
)
_PAD = (
    "CASE WHEN {{2}} = '' AND LENGTH({{0}}) < {{1}} THEN RAISE_ERROR('{0} has nothing to pad with')"
    " ELSE {0}({{0}}, {{1:int}}, {{2}}) END"
)
_SPLIT = (
    "CASE WHEN {2} = 0 AND {0} IS NOT NULL AND {1} IS NOT NULL THEN ''"
    " WHEN {1} = '' THEN IF({2} < 0, SUBSTRING({0}, IF(-{2:int} > LENGTH({0}), LENGTH({0}) + 1, {2:int}), 1),"
    " SUBSTRING({0}, {2:int}, 1)) ELSE SPLIT_PART({0}, {1}, NULLIF({2:int}, 0)) END"
)

TEXT: dict[type[exp.Expr] | str, Function] = {
    exp.Lower: Function(
        "lower(text)", "In lower case, letter by letter", _of_text, "text.lower", spark=spark.lower,
        result=Kind.STRING,
    ),
    exp.Upper: Function(
        "upper(text)", "In upper case, letter by letter", _of_text, "text.upper", spark=spark.upper,
        result=Kind.STRING,
    ),
    exp.Length: Function(
        "length(text)", "Number of characters", _length, "text.length", bound=_CHARACTERS, spark=spark.wide,
        result=Kind.INTEGER,
    ),
    "CONCAT": rewritten(
        "concat(a, b, …)", "Values as text, joined; NULL is empty", rewrites.concat, result=Kind.STRING,
    ),
    exp.Substring: Function(
        "substring(text, start, [length]), substring(text FROM 2 FOR 3)",
        "From the start-th character on, from the end if negative", text.substring, "substrings.substring",
        ("this", "start", "length"), spark=spark_strings.substring, result=Kind.STRING,
    ),
    "LEFT": named(
        "left(text, n)", "The first n characters, or all but the last -n", (_S, _I), _TEXT, "substrings.left",
        spark=_LEFT,
    ),
    "RIGHT": named(
        "right(text, n)", "The last n characters, or all but the first -n", (_S, _I), _TEXT, "substrings.right",
        spark=_RIGHT,
    ),
    "REPLACE": named(
        "replace(text, part, other)", "Every part replaced", (_S,) * 3, _TEXT, "substrings.replace"
    ),
    "STARTS_WITH": named(
        "starts_with(text, part)", "Whether it starts so", (_S,) * 2, Kind.BOOLEAN,
        "substrings.starts_with", spark="STARTSWITH({0}, {1})",
    ),
    "ENDS_WITH": named(
        "ends_with(text, part)", "Whether it ends so", (_S,) * 2, Kind.BOOLEAN,
        "substrings.ends_with", spark="ENDSWITH({0}, {1})",
    ),
    "CONTAINS": named(
        "contains(text, part)", "Whether it has this part", (_S,) * 2, Kind.BOOLEAN, "substrings.contains"
    ),
    "STRPOS": named(
        "strpos(text, part), position(part IN text)", "Where a part first stands, 0 if nowhere",
        (_S,) * 2, Kind.INTEGER, "substrings.position", bound=_CHARACTERS,
        spark="CAST(LOCATE({1}, {0}) AS BIGINT)",
    ),
    exp.StrPosition: Function("", "", rewrites.position),
    exp.Trim: Function("", "", text.trim),
    "TRIM": named(
        "trim(text, [characters]), trim(BOTH characters FROM text)", "Without spaces, or others, at both ends",
        (_S,) * 2, _TEXT, "substrings.trim", optional=1, spark=spark_strings.trimmed("BOTH"),
    ),
    "LTRIM": named(
        "ltrim(text, [characters])", "The same at the start", (_S,) * 2, _TEXT, "substrings.trim_left",
        optional=1, spark=spark_strings.trimmed("LEADING"),
    ),
    "RTRIM": named(
        "rtrim(text, [characters])", "The same at the end", (_S,) * 2, _TEXT, "substrings.trim_right",
        optional=1, spark=spark_strings.trimmed("TRAILING"),
    ),
    "LPAD": named(
        "lpad(text, length, padding)", "Padded in front, or cut, to a length", (_S, _I, _S), _TEXT,
        "substrings.pad_left", can_fail=True, spark=_PAD.format("LPAD"),
    ),
    "RPAD": named(
        "rpad(text, length, padding)", "Padded behind, or cut, to a length", (_S, _I, _S), _TEXT,
        "substrings.pad_right", can_fail=True, spark=_PAD.format("RPAD"),
    ),
    "REPEAT": named(
        "repeat(text, n)", "The text n times", (_S, _I), _TEXT, "substrings.repeat", can_fail=True,
        spark="REPEAT({0}, {1:int})",
    ),
    "REVERSE": named(
        "reverse(text)", "From the last character to the first", (_S,), _TEXT, "substrings.reverse",
    ),
    "SPLIT_PART": named(
        "split_part(text, separator, n)", "The n-th part between separators, from the end if negative",
        (_S, _S, _I), _TEXT, "substrings.split_part", spark=_SPLIT,
    ),
    "REGEXP_MATCHES": Function(
        "regexp_matches(text, pattern, [options]), text ~ pattern", "Whether a regular expression is found",
        regex.matching("REGEXP_MATCHES"), "regex.matches", CALL, spark=spark_strings.call, result=Kind.BOOLEAN,
    ),
    "REGEXP_FULL_MATCH": Function(
        "regexp_full_match(text, pattern, [options])", "Whether it fits the whole text",
        regex.matching("REGEXP_FULL_MATCH"), "regex.fits", CALL, spark=spark_strings.call, result=Kind.BOOLEAN,
    ),
    "REGEXP_REPLACE": Function(
        "regexp_replace(text, pattern, other, [options])", "The first match replaced, all with 'g'",
        regex.replacing, "regex.replace", CALL, spark=spark_strings.call, result=Kind.STRING,
    ),
    "REGEXP_EXTRACT": Function(
        "regexp_extract(text, pattern, [group])", "The first match or a group of it, '' if there is none",
        regex.extracting, "regex.extract", CALL, spark=spark_strings.call, result=Kind.STRING,
    ),
}  # fmt: skip
