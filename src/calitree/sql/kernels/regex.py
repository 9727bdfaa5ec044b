"""Regular expressions: RE2's, by Arrow. Patterns are constants, with their flags in front."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.values import (
    MAX_BYTES,
    Datum,
    bytes_of,
    check_bytes,
    on_arrays,
    total,
    where,
)
from calitree.sql.rules.regex import with_one_group


def matches(datum: Datum, pattern: pa.Scalar) -> Datum:
    """Whether the pattern is found somewhere."""
    return pc.match_substring_regex(datum, pattern.as_py())


def fits(datum: Datum, pattern: pa.Scalar) -> Datum:
    """Whether the pattern is the whole text."""
    flags, body = re.fullmatch(r"(\(\?[is]+\))?(.*)", pattern.as_py(), re.DOTALL).groups()  # type: ignore[union-attr]
    return pc.match_substring_regex(datum, rf"{flags or ''}\A(?:{body})\z")


def replace(
    datum: Datum, pattern: pa.Scalar, other: pa.Scalar, flags: pa.Scalar | None = None
) -> Datum:
    """The first match replaced, or all of them."""
    most, new = 1 if flags is None else None, other.as_py()
    rows = 1 if isinstance(datum, pa.Scalar) else len(datum)
    own, size = bytes_of(datum), len(new.encode())
    parts = own * (1 + new.count("\\"))  # what was matched may stand in the new text several times
    places = rows if most else own + rows
    if parts + places * size > MAX_BYTES and not most:
        places = total(pc.count_substring_regex(datum, pattern=pattern.as_py()))
    check_bytes("REGEXP_REPLACE", parts + places * size, rows)
    return pc.replace_substring_regex(
        datum, pattern=pattern.as_py(), replacement=new, max_replacements=most
    )


@on_arrays
def extract(array: pa.Array, pattern: pa.Scalar, group: pa.Scalar) -> pa.Array:
    """The first match, or a group of it; an empty text where there is none."""
    match = pc.extract_regex(array, with_one_group(pattern.as_py(), group.as_py()))
    return where(pc.is_valid(array), pc.fill_null(pc.struct_field(match, "g"), ""))
