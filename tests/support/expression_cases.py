"""Expressions that every evaluator must agree on, and data to try them with.

`COLUMNS` has the values that break things: NULL, NaN, infinities, negative zero, the ends of int32,
leap days, weeks across years, timestamps before 1970, characters of several bytes.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse
from calitree.types import kind_of_arrow

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int64(),
        "k": pa.int32(),
        "x": pa.float64(),
        "y": pa.float64(),
        "m": pa.decimal128(10, 2),
        "q": pa.decimal128(18, 4),
        "s": pa.string(),
        "u": pa.string(),
        "b": pa.bool_(),
        "c": pa.bool_(),
        "d": pa.date32(),
        "e": pa.date32(),
        "t": pa.timestamp("us"),
        "v": pa.timestamp("us"),
        "z": pa.timestamp("us", "UTC"),
        "digits": pa.string(),
        "real": pa.string(),
        "day": pa.string(),
        "clock": pa.string(),
        "yes": pa.string(),
    }
)

NAN, INF = float("nan"), float("inf")


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


COLUMNS: dict[str, list[Any]] = {
    "i": [0, 1, -1, 7, -7, 2**31, None, 100, -2, 5],
    "j": [3, -3, 0, 2, -2, -(2**31) - 1, 4, None, -2, 5],
    "k": [2**31 - 1, -(2**31), 0, 3, None, 1, 2, -3, 40000, 5],
    "x": [0.0, -0.0, 2.5, -2.5, NAN, INF, -INF, None, 2.675, 1e+300],
    "y": [-0.0, 0.0, 1.5, NAN, NAN, 2.0, None, 3.5, 0.5, 7.0],
    "m": [
        "0.00", "-1.25", "2.50", "99999999.99", None, "-2.50", "0.01", "3.00", "1.10",
        "-99999999.99",
    ],
    "q": [
        "2.5000", "1.2500", None, "0.0001", "7.0000", "-0.5000", "10.0000", "3.0000", "1.1000",
        "0.0000",
    ],
    "s": [
        "", " pad ", "Straße", "a_b", "a%b", "100%", None, "naïve 😀 x", "a\\b", "two\nlines",
    ],
    "u": ["", "pad", "STRASSE", None, "a%b", "1", "x", "naïve", "a\\b", "two"],
    "b": [True, False, None, True, False, None, True, False, None, True],
    "c": [True, True, True, False, False, False, None, None, None, True],
    "d": [
        date(2020, 2, 29), date(2021, 1, 1), date(2020, 12, 31), date(1969, 12, 28), None,
        date(1900, 3, 1), date(2000, 1, 3), date(2024, 7, 1), date(2018, 12, 31),
        date(1970, 1, 1),
    ],
    "e": [
        date(2020, 2, 29), date(2020, 1, 1), None, date(1970, 1, 1), date(2020, 2, 29),
        date(1900, 2, 28), date(2000, 1, 3), date(2024, 6, 30), date(2019, 1, 1),
        date(1969, 12, 31),
    ],
    "t": [
        datetime(2020, 2, 29, 23, 59, 59, 999999), datetime(2021, 1, 3, 0, 0), None,
        datetime(1969, 12, 31, 23, 30), datetime(1970, 1, 1, 0, 0),
        datetime(2020, 2, 29, 0, 0), datetime(1900, 1, 1, 12, 0, 0, 1),
        datetime(2024, 7, 1, 5, 6, 7, 120000), datetime(2019, 1, 1, 0, 0),
        datetime(9999, 12, 31, 23, 59),
    ],
    "v": [
        datetime(2020, 2, 29, 0, 0), datetime(2021, 1, 3, 0, 0), datetime(2000, 1, 1, 0, 0),
        None, datetime(1970, 1, 1, 0, 0), datetime(2020, 3, 1, 0, 0),
        datetime(1900, 1, 1, 12, 0), datetime(2024, 7, 1, 5, 6, 7),
        datetime(2018, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1, 0, 0),
    ],
    "z": [
        _utc(2020, 2, 29, 23, 59, 59, 999999), _utc(2021, 1, 3, 0, 0), None,
        _utc(1969, 12, 31, 23, 30), _utc(1970, 1, 1, 0, 0), _utc(2020, 2, 29, 0, 0),
        _utc(1900, 1, 1, 12, 0, 0, 1), _utc(2024, 7, 1, 5, 6, 7, 120000),
        _utc(2019, 1, 1, 0, 0), _utc(2030, 12, 31, 23, 59),
    ],
    "digits": [
        "12", " -7 ", "+5", "2.5", "-2.5", "1e3", None, "9223372036854775807", "0.4", "25e-1",
    ],
    "real": ["1.5", " -2 ", "1e3", ".5", "5.", "nan", None, "-Infinity", "1e-3", "0"],
    "day": [
        "2020-02-29", "1969-12-31", "2020-1-5", "0999-01-01", None, "2021-06-07 10:11:12",
        "2021-06-07T10:11:12", "2000-01-01", "1900-01-01", "9999-12-31",
    ],
    "clock": [
        "2020-02-29", "2020-02-29 10:11", "2020-02-29T10:11:12.5",
        "1969-12-31 23:59:59.999999", None, "2020-1-5 1:2:3", " 2000-01-01 00:00:00 ",
        "2020-01-01 10:00:00.1234567", "2020-01-05T10:00:00Z", "1900-01-01 00:00:00.000001",
    ],
    "yes": ["true", "F", "1", "0", "yes", "NO", None, "t", "N", "y"],
}  # fmt: skip


def table(columns: dict[str, list[Any]] | None = None) -> pa.Table:
    """The columns above, or others of the same names, as `t.<name>`."""
    data = columns if columns is not None else COLUMNS
    arrays = []
    for field in SCHEMA:
        values = data[field.name]
        if pa.types.is_decimal(field.type):
            values = [None if value is None else Decimal(value) for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, names=[f"t.{field.name}" for field in SCHEMA])


def resolve(relation: str | None, name: str) -> Resolved:
    return Resolved(f"t.{name}", ("t",), kind_of_arrow(SCHEMA.field(name).type))


def expression(text: str) -> Expression:
    return parse(text, resolve)


_COMPARED = """
i {} j | x {} y | m {} q | i {} x | m {} i | m {} x | s {} u | b {} c | d {} e | t {} v | d {} t
t {} z | i {} 2.5 | x {} 2.5 | k {} 3 | x {} cast('nan' as double) | i {} null | s {} 'a'
d {} '2020-02-29' | t {} '2020-02-29' | z {} '2020-02-29'
"""
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]


ARITHMETIC = """
i + j | i - j | i * j | i * 1000000000 | k + k | k * k | k - 2000000000 | -k | abs(k) | -i
abs(-i) | x + y | x - y | x * y | x * 2 | -x | abs(x) | i + x | k * 1.5 | i * 1.5e0 | m + q
m - q | m * q | m * m | m * i | m + 1 | 1 - m | m * (1 - q) * (1 + q) | m * 1.1 | -m | abs(m)
m + x | m * 2.5e0 | i / j | i / 0 | x / y | m / q | m / i | 1 / 3 | (i + j) / (i - j) | i % j
-7 % 3 | 7 % -3 | i % 3 | k % 7 | x % y | x % 2 | m % q | m % 2 | i % 0 | i % 2.5 | m % 0
coalesce(k, 1) * 2147483647 | (case when b then k else 1 end) * 3 | nullif(k, 0) * k
greatest(k, 7) + k | 1 + null | null * i | 2 * 3 + i | length(s) * 1000000000
year(d) * 10000000
"""

FUNCTIONS = """
floor(x) | ceil(x) | floor(m) | ceil(m) | round(x) | round(x, 2) | round(y, 1) | round(m, 1)
round(i) | round(x, 10) | round(1.005e0, 2) | round(-2.5e0) | round(0.49999999999999994e0)
sqrt(y) | sqrt(-1) | sqrt(i) | ln(y) | ln(0) | ln(-1) | ln(i) | exp(y) | exp(1000) | exp(-y)
power(y, 2) | power(2, y) | power(-8, 1.0/3) | power(0, -1) | power(y, 0.5) | pow(i, 3)
lower(s) | upper(u) | upper(s) | length(s) | trim(s) | substring(s, 2, 3) | substring(s, 3)
substring(s, 20) | substring(s from 1 for 2) | s || u | s || '!' | s || null
trim(s) || lower(u) | length(trim(s)) * 2 | year(d) | quarter(d) | month(d) | week(d) | day(d)
extract(doy from d) | dayofyear(d) | extract(week from t) | year(t) | month(t) | hour(t)
minute(t) | extract(doy from t) | quarter(t) | year(z) | hour(z) | extract(week from z) | day(z)
second(t) | second(z) | dayofweek(d) | dayofweek(t) | isodow(z) | extract(dow from t)
extract(isodow from d) | weekday(d) | date_part('month', t) | date_trunc('second', t)
date_trunc('second', z) | date(t) | date(z) | date(d) | left(s, 2) | concat(s, 'x', u) | concat(s, i)
bin(i, 5) | bin(k, 3) | bin(m, 0.25) | bin(i, 2.5) | bin(y, 0.5) | bin(-i, 7) | bin(m, 2)
width_bucket(i, 0, 10, 5) | width_bucket(y, 0.5, 3.5, 3) | width_bucket(x, 5, -5, 4)
width_bucket(m, -2.5, 3, 7) | width_bucket(k, -3, 6, 9)
date_trunc('year', d) | date_trunc('quarter', d) | date_trunc('month', d) | date_trunc('week', d)
date_trunc('year', t) | date_trunc('quarter', t) | date_trunc('month', t) | date_trunc('week', t)
date_trunc('day', t) | date_trunc('hour', t) | date_trunc('minute', t) | date_trunc('week', z)
date_trunc('month', z) | date_trunc('day', d) | date_trunc('hour', z) | greatest(i, j)
least(i, j) | greatest(x, y) | least(x, y) | greatest(m, q) | least(m, i, q) | greatest(s, u)
least(s, u) | greatest(b, c) | least(b, c) | greatest(d, e) | least(t, v, null) | greatest(i, x)
least(x, 1) | greatest(d, t) | greatest(i, null) | greatest(null, null) | greatest(i)
coalesce(i, j, 0) | coalesce(x, 0) | coalesce(m, 0) | coalesce(null, s, 'none') | coalesce(i, x)
coalesce(d, t) | coalesce(t, z) | coalesce(b, false) | coalesce(null, null) | coalesce(m, q, i)
nullif(i, 0) | nullif(x, 0) | nullif(x, y) | nullif(s, u) | nullif(i, null) | nullif(null, i)
nullif(m, q) | nullif(d, '2020-02-29') | nullif(b, true)
"""

NAMED = """
sign(i) | sign(x) | trunc(x) | trunc(m) | trunc(i) | log10(y) | log2(x) | sin(y) | cos(y) | tan(y)
asin(y) | acos(y) | atan(x) | atan2(y, x) | degrees(y) | radians(y) | isnan(x) | isinf(x)
isfinite(x) | xor(i, 5) | i & 7 | ~ i | (i & 15) << 2 | i >> 1 | i // 3 | i // j
mod(i, 3) | log(2, y) | replace(s, 'a', u) | replace(s, '', 'x') | left(s, -2) | right(s, 2)
right(s, i) | starts_with(s, u) | ends_with(s, 'b') | contains(s, 'ï') | strpos(s, 'x')
position(u in s) | ltrim(s) | rtrim(s) | trim(s, 'a ') | lpad(s, 7, 'xy') | rpad(s, 3, 'é')
repeat(u, 2) | reverse(s) | split_part(s, 'a', 2) | split_part(s, '', -1) | substring(s, -3, 2)
substring(s, 2, -1) | substring(s, 0, 3) | substring(s, i, j) | regexp_matches(s, 'a.b')
regexp_full_match(u, '[a-z]+') | regexp_replace(s, '(a)', '<\\1>', 'g') | regexp_replace(s, 'a', '$')
regexp_extract(s, '([a-z])(.)', 2) | s ~ 'x$' | s similar to 'a.b' | s like 'a!_%' escape '!'
extract(isoyear from d) | extract(microsecond from t) | extract(century from t) | extract(epoch from z)
extract(julian from d) | d + 7 | d - e | t - v > interval '1 day' | extract(day from t - v)
d + interval '1' month | t - interval '1 year 2 days 03:00:00' | z + interval '1' quarter
d + interval (i % 100) day | date_trunc('decade', v + interval '30 years') | date_diff('hour', v, t)
date_diff('week', d, e) | strftime(t, '%Y-%m-%d %H:%M:%S.%f %a %B %p %U') | last_day(d) | dayname(d)
epoch_us(t) | (i, s) in ((1, ' pad '), (0, '')) | (i, j) not in ((1, -3), (null, 4))
"""

LOGIC = """
b and c | b or c | not b | b and null | b or null | not (b and not c) | b and i > 0 or c
b is null | b is not null | b is true | b is false | b is not true | b is not false | x is null
(i > j) is true | (x > y) is not false | null is null | i is not null | i in (0, 1, 7)
i in (0, null) | i not in (0, 1) | i not in (0, null) | x in (0, 2.5)
x in (0, cast('nan' as double)) | m in (2.5, 3, -1.25) | s in ('a_b', '100%')
s in ('a_b', null) | i in (j, 7, k) | d in ('2020-02-29', '1970-01-01')
d in ('2020-02-29', timestamp '2021-01-01 00:00:00') | t in ('2020-02-29', '1970-01-01')
k in (3, 2.5) | i in (1, x, 9007199254740993) | cast(case when b then null::double else i end as varchar)
null in (1, 2) | i in (null) | b in (true) | '2020-02-29' in (d, e)
i between -1 and 7 | x not between -3 and 3 | s between 'a' and 'b'
d between '2020-01-01' and '2020-12-31' | t between v and '2024-12-31' | s like 'a%'
s like '%b' | s like 'a_b' | s like '%%' | s like '' | s like '_' | s like '100%' | s like '%ï%'
s like '%😀_x' | s like 'a\\b' | s like 'a\\%' | s like 'two%lines' | s like 'two_lines'
s not like 'a%' | s ilike 'STRA%' | u ilike '%S%' | s ilike 'A\\B' | s not ilike '%X'
s like '%\\' | s like '(a|b).*'
"""

CHOICES = """
case when i > 0 then 'pos' when i < 0 then 'neg' else 'zero' end | case when b then i end
case i when 0 then 'zero' when 1 then 'one' end | case when b then i else x end
case when b then m else i end | case when b then m when c then q else 1 end
case when i <> 0 then 100 / i end | case when null then 1 else 2 end
case when b then null else i end | case when b then null end | if(b, i, j) | if(b, d, t)
if(b, 1, 2.5) | case when b then i * 1000000 else 0 end
case when i < 100 then i * i * i else i end
case when length(digits) = 2 then cast(digits as int) end | case when b then s else u end
case when b is null then x when x > y then y else x + y end | coalesce(i, cast(digits as int))
coalesce(nullif(i, 0), j * 2, k) | case when b then 1 else 0 end + 1
case when i is null then 0 when j is null then -1 else i * j end
"""

CASTS = """
cast(i as double) | cast(x as varchar) | cast(y as varchar) | cast(i as varchar)
cast(m as varchar) | cast(q as varchar) | cast(q * q as varchar) | cast(b as varchar)
cast(d as varchar) | cast(t as varchar) | cast(v as varchar) | cast(z as varchar)
cast(y * 1e15 as varchar) | cast(y / 1e6 as varchar) | cast(m * 1e10 as varchar)
cast(i / 7 as varchar) | cast(x / 3e4 as varchar) | cast(m as int) | cast(q as bigint)
cast(m as double) | cast(round(abs(y)) as varchar) | cast(q * 2.5 as int) | cast(2.5 as int)
cast(-2.5 as int) | cast(2.5e0 as int) | cast(3.5e0 as int) | cast(-2.5e0 as int)
cast(b as int) | cast(b as double) | cast(i as boolean) | cast(x as boolean) | cast(m as boolean)
cast(digits as bigint) | cast(digits as bigint) + 0 | cast(real as double) | cast(yes as boolean)
cast(day as date) | cast(clock as timestamp) | cast(day as timestamp) | cast(clock as date)
cast(t as date) | cast(d as timestamp) | cast(z as date) | cast(z as timestamp)
cast(t as timestamptz) | cast(d as timestamptz) | cast('2020-02-29' as date)
timestamp '2020-02-29 10:00:00' | date '2020-02-29'
cast('2020-02-29 10:00:00+02:00' as timestamptz) | cast(null as int) | cast(null as varchar)
try_cast(i as tinyint) | try_cast(k as smallint) | cast(x / 1e300 as float) | try_cast(x as float)
 try_cast(s as int) | try_cast(s as double) | try_cast(u as int)
try_cast(s as date) | try_cast(s as boolean) | try_cast(x as int) | try_cast(y as int)
try_cast('2020-02-30' as date) | try_cast(u as timestamp) | try_cast(digits as int)
try_cast(i as varchar) | try_cast('' as double) | try_cast(' ' as int)
"""

OTHER = """
i | x | s | b | m | d | t | z | 1 | 1.5 | 1.5e0 | 'text' | true | null | -1 | 12345678901 | .5
'it''s'
"""


def _texts(block: str) -> list[str]:
    return [text.strip() for line in block.strip().splitlines() for text in line.split(" | ")]


TEXTS = ["i | 8", "z - cast(t as timestamptz) = interval '0 days'"]
TEXTS += [text.format(sign) for text in _texts(_COMPARED) for sign in _OPERATORS]
for _block in (ARITHMETIC, FUNCTIONS, NAMED, LOGIC, CHOICES, CASTS, OTHER):
    TEXTS += _texts(_block)


def same(left: Any, right: Any) -> bool:
    """Equal values; floats to 1e-9, whole numbers and decimals exactly."""
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        a, b = float(left), float(right)
        return (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9)
    if isinstance(left, int | Decimal) and isinstance(right, int | Decimal):
        return left == right
    if isinstance(right, str):
        right = _ONE_ZERO_AND_NAN.get(right, right)
    return type(left) is type(right) and bool(left == right)


_ONE_ZERO_AND_NAN = {"-0.0": "0.0", "-nan": "nan"}
"""What DuckDB writes, and we: these have no sign for us."""


def differences(left: list[Any], right: list[Any]) -> list[tuple[int, Any, Any]]:
    """The rows where two columns are not the same."""
    pairs = enumerate(zip(left, right, strict=True))
    return [(row, a, b) for row, (a, b) in pairs if not same(a, b)]
