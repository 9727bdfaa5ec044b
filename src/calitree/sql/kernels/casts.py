"""CAST and TRY_CAST. A kernel here gives NULL for what it cannot convert; CAST makes that an error.

Rounding follows DuckDB: doubles go to the even neighbour, decimals and text away from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.sql.kernels.values import (
    Datum,
    double,
    is_null,
    kind_of,
    number,
    on_arrays,
    where,
    zero_of,
)
from calitree.sql.rules.conversions import TEXTS, TIMESTAMP, TRUE, WHITESPACE, is_castable
from calitree.types import Kind

_TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.DECIMAL: pa.decimal128(38, 0),
    Kind.STRING: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMP_TZ: pa.timestamp("us", "UTC"),
    Kind.TIME: pa.time64("us"),
    Kind.DURATION: pa.duration("us"),
    Kind.BINARY: pa.binary(),
}


def null_of(kind: Kind) -> pa.Scalar:
    """NULL with the type that values of a kind usually have, if there is one."""
    return pa.scalar(None, _TYPES.get(kind, pa.null()))


def cast(datum: Datum, kind: Kind, bits: int = 64) -> Datum:
    """CAST: what cannot be converted is an error that shows the first such value."""
    result = try_cast(datum, kind, bits)
    if isinstance(datum, pa.Array) and result.null_count == datum.null_count:
        return result
    lost = pc.and_(pc.is_valid(datum), pc.is_null(result))
    if isinstance(lost, pa.Scalar):
        first = datum if lost.as_py() else None
    else:
        first = datum[pc.index(lost, True).as_py()] if pc.any(lost).as_py() else None
    if first is not None:
        narrow = f" of {bits} bits" if bits < 64 and kind_of(datum).is_number else ""
        raise ExpressionError(
            f"{first.as_py()!r} is not a valid {kind.value}{narrow}; TRY_CAST would give NULL instead"
        )
    return result


def try_cast(datum: Datum, kind: Kind, bits: int = 64) -> Datum:
    """TRY_CAST: what cannot be converted is NULL; `bits` are those of the type that it is cast to."""
    if is_null(datum):
        return null_of(kind)
    if bits < 64:
        return _narrowed(try_cast(datum, kind), bits)
    source = kind_of(datum)
    if (source, kind) in _CASTS:
        return _CASTS[source, kind](datum)
    if not is_castable(source, kind):
        raise ExpressionError(f"a {source.value} cannot be cast to a {kind.value}")
    return datum if source is kind else pc.cast(datum, _TYPES[kind])


def _narrowed(datum: Datum, bits: int) -> Datum:
    """Integers, or doubles, that fewer bits can hold; others are NULL."""
    if kind_of(datum) is Kind.FLOAT:
        rounded = pc.cast(pc.cast(datum, pa.float32(), safe=False), pa.float64())
        return where(pc.or_(pc.invert(pc.is_inf(rounded)), pc.is_inf(datum)), rounded)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return where(pc.and_(pc.greater_equal(datum, low), pc.less_equal(datum, high)), datum)


def _integer_of_integer(datum: Datum) -> Datum:
    return _integer_of_decimal(number(datum)) if pa.types.is_uint64(datum.type) else datum


def _integer_of_float(datum: Datum) -> Datum:
    whole = pc.round(datum, round_mode="half_to_even")
    fits = pc.and_(pc.greater_equal(whole, -(2.0**63)), pc.less(whole, 2.0**63))
    return pc.cast(where(fits, whole), pa.int64(), safe=False)


def _integer_of_decimal(datum: Datum) -> Datum:
    digits, scale = datum.type.precision, datum.type.scale
    wide = pa.decimal256(digits + 1, scale)  # one digit more: 99.9 rounds to 100
    whole = pc.round(pc.cast(datum, wide), round_mode="half_towards_infinity")
    whole = pc.cast(whole, pa.decimal256(max(digits + 1 - scale, 20), 0))
    low, high = (pa.scalar(Decimal(bound), whole.type) for bound in (-(2**63), 2**63 - 1))
    fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
    return pc.cast(where(fits, whole), pa.int64())


_DIGITS = r"^(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?P<point>\.?)(?P<half>[0-9]?)[0-9]*$"


def _matching(array: pa.Array, kind: Kind) -> pa.Array:
    """Texts without white space at both ends; NULL where they cannot be of this kind."""
    text = pc.ascii_trim(array, characters=WHITESPACE)
    return where(pc.match_substring_regex(text, f"^(?:{TEXTS[kind]})$"), text)


@on_arrays
def _integer_of_text(array: pa.Array) -> pa.Array:
    text = _matching(array, Kind.INTEGER)
    exponent = pc.match_substring_regex(text, "[eE]")
    parts = pc.extract_regex(text, _DIGITS)  # NULL where there is an exponent
    sign, whole, _, half = parts.flatten()
    digits = pc.binary_join_element_wise(pc.replace_substring(sign, "+", ""), "0", whole, "")
    size = pc.binary_length(whole)
    exact = pc.cast(where(pc.less_equal(size, 20), digits), pa.decimal128(38, 0))
    up = pc.greater_equal(half, "5")
    step = pc.if_else(up, pc.if_else(pc.equal(sign, "-"), Decimal(-1), Decimal(1)), Decimal(0))
    plain = _integer_of_decimal(pc.add(pc.cast(exact, pa.decimal128(30, 0)), step))
    scaled = pc.cast(where(exponent, text), pa.float64())
    scaled = _integer_of_float(pc.round(scaled, round_mode="half_towards_infinity"))
    return pc.coalesce(plain, scaled)


@on_arrays
def _float_of_text(array: pa.Array) -> pa.Array:
    return pc.cast(_matching(array, Kind.FLOAT), pa.float64())


@on_arrays
def _text_of_float(array: pa.Array) -> pa.Array:
    """The shortest digits that give the number back: 1.0, 1e+20, nan; -0.0 is 0.0."""
    values = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False) + 0.0
    return where(pc.is_valid(array), pa.array(values.astype(str), pa.string()))


@on_arrays
def _text_of_decimal(array: pa.Array) -> pa.Array:
    """All decimals, never an exponent (Arrow writes 1E-8)."""
    scale = array.type.scale
    digits = pc.cast(pc.abs(array).view(pa.decimal128(array.type.precision, 0)), pa.string())
    sign = pc.if_else(pc.less(array, zero_of(array)), "-", "")
    if scale <= 0:
        return pc.binary_join_element_wise(sign, digits, "")
    digits = pc.utf8_lpad(digits, width=scale + 1, padding="0")
    whole = pc.utf8_slice_codeunits(digits, start=0, stop=-scale)
    fraction = pc.utf8_slice_codeunits(digits, start=-scale)
    return pc.binary_join_element_wise(sign, whole, ".", fraction, "")


def _text_of_timestamp(suffix: str) -> Callable[[Datum], Datum]:
    """ISO with a blank, without the zeros at the end of the seconds."""

    def text(datum: Datum) -> Datum:
        shown = pc.cast(pc.cast(datum, pa.timestamp(datum.type.unit)), pa.string())
        shown = pc.replace_substring_regex(shown, r"(\.[0-9]*?)0+$", r"\1")
        shown = pc.replace_substring_regex(shown, r"\.$", "")
        return pc.binary_join_element_wise(shown, suffix, "")

    return text


@on_arrays
def _boolean_of_text(array: pa.Array) -> pa.Array:
    text = pc.ascii_lower(_matching(array, Kind.BOOLEAN))
    return where(pc.is_valid(text), pc.is_in(text, value_set=pa.array(TRUE, text.type)))


def _boolean_of_number(datum: Datum) -> Datum:
    datum = number(datum)
    return pc.not_equal(datum, zero_of(datum))


def _joined(between: str, *parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(between, pa.large_string()))


def _pad(part: pa.Array) -> pa.Array:
    return pc.utf8_lpad(part, width=2, padding="0")


@on_arrays
def _timestamp_of_text(array: pa.Array, zoned: bool) -> pa.Array:
    """An ISO date or timestamp. An offset means something only if the result has a time zone."""
    text = pc.ascii_trim(pc.cast(array, pa.large_string()), characters=WHITESPACE)
    parts = pc.extract_regex(text, f"^{TIMESTAMP}$")
    part = dict(zip((field.name for field in parts.type), parts.flatten(), strict=True))
    day = _joined("-", part["year"], *(_pad(part[unit]) for unit in ("month", "day")))
    clock = _joined(":", *(_pad(part[unit]) for unit in ("hour", "minute", "second")))
    form = "%Y-%m-%d %H:%M:%S"
    whole = pc.strptime(_joined(" ", day, clock), format=form, unit="us", error_is_null=True)
    real = pc.equal(pc.day(whole), pc.cast(_pad(part["day"]), pa.int64()))
    whole = where(real, whole)  # not the 30th of February
    micro = pc.utf8_rpad(part["micro"], width=6, padding="0")
    micros = pc.add(pc.cast(whole, pa.int64()), pc.cast(micro, pa.int64()))
    if zoned:
        micros = pc.subtract(micros, _offset(part))
    return pc.cast(micros, pa.timestamp("us", "UTC" if zoned else None))


def printed_timestamps(texts: pa.Array) -> pa.Array | None:
    """Texts that all are timestamps or dates as these are printed, by Arrow's quicker cast; else None."""
    texts = pc.replace_substring(texts, "T", " ")
    try:
        values = pc.cast(texts, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    shown = pc.cast(values, texts.type)
    same = pc.equal(texts, shown)
    for length in (len("2013-01-01 00:00:00"), len("2013-01-01")):
        if not pc.all(same).as_py():
            same = pc.or_(same, pc.equal(texts, pc.utf8_slice_codeunits(shown, 0, length)))
    first = pa.scalar(datetime.min, values.type)
    return values if pc.all(same).as_py() and pc.min(values).value >= first.value else None


def _offset(part: dict[str, pa.Array]) -> pa.Array:
    """Microseconds east of UTC."""
    hours, minutes = (pc.cast(_pad(part[name]), pa.int64()) for name in ("hours", "minutes"))
    size = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
    return pc.if_else(pc.equal(part["sign"], "-"), pc.negate(size), size)


def _day(datum: Datum) -> Datum:
    """The day a timestamp falls on (in UTC), also before 1970."""
    return pc.cast(datum, pa.date32(), safe=False)


def _timestamp(zone: str | None) -> Callable[[Datum], Datum]:
    """A timestamp with or without time zone from the other, or from a date, as it reads in UTC."""
    return lambda datum: pc.cast(datum, pa.timestamp(getattr(datum.type, "unit", "us"), zone))


_CASTS: dict[tuple[Kind, Kind], Callable[[Datum], Datum]] = {
    (Kind.INTEGER, Kind.INTEGER): _integer_of_integer,
    (Kind.FLOAT, Kind.INTEGER): _integer_of_float,
    (Kind.DECIMAL, Kind.INTEGER): _integer_of_decimal,
    (Kind.STRING, Kind.INTEGER): _integer_of_text,
    (Kind.INTEGER, Kind.FLOAT): double,
    (Kind.DECIMAL, Kind.FLOAT): double,
    (Kind.STRING, Kind.FLOAT): _float_of_text,
    (Kind.FLOAT, Kind.STRING): _text_of_float,
    (Kind.DECIMAL, Kind.STRING): _text_of_decimal,
    (Kind.TIMESTAMP, Kind.STRING): _text_of_timestamp(""),
    (Kind.TIMESTAMP_TZ, Kind.STRING): _text_of_timestamp("+00"),
    (Kind.INTEGER, Kind.BOOLEAN): _boolean_of_number,
    (Kind.FLOAT, Kind.BOOLEAN): _boolean_of_number,
    (Kind.DECIMAL, Kind.BOOLEAN): _boolean_of_number,
    (Kind.STRING, Kind.BOOLEAN): _boolean_of_text,
    (Kind.TIMESTAMP, Kind.DATE): _day,
    (Kind.TIMESTAMP_TZ, Kind.DATE): _day,
    (Kind.STRING, Kind.DATE): lambda datum: _day(_timestamp_of_text(datum, False)),
    (Kind.DATE, Kind.TIMESTAMP): _timestamp(None),
    (Kind.TIMESTAMP_TZ, Kind.TIMESTAMP): _timestamp(None),
    (Kind.STRING, Kind.TIMESTAMP): lambda datum: _timestamp_of_text(datum, False),
    (Kind.DATE, Kind.TIMESTAMP_TZ): _timestamp("UTC"),
    (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ): _timestamp("UTC"),
    (Kind.STRING, Kind.TIMESTAMP_TZ): lambda datum: _timestamp_of_text(datum, True),
    (Kind.STRING, Kind.TIME): lambda text: pa.scalar(time.fromisoformat(text.as_py())),
    (Kind.STRING, Kind.DURATION): lambda text: pa.scalar(int(text.as_py()), pa.duration("us")),
    (Kind.STRING, Kind.BINARY): lambda text: pc.cast(text, pa.binary()),
}
"""The casts that Arrow would do in another way, by the kinds from and to which."""
