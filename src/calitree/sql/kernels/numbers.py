"""Functions of doubles. Out of their domain the answer is NaN or infinite, never an error."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.values import Datum

sin, cos, tan, asin, acos, atan = pc.sin, pc.cos, pc.tan, pc.asin, pc.acos, pc.atan
log10, log2 = pc.log10, pc.log2
is_nan, is_inf, is_finite = pc.is_nan, pc.is_inf, pc.is_finite


def sign(datum: Datum) -> Datum:
    """-1, 0 or 1; NaN has none."""
    return pc.cast(pc.if_else(pc.is_nan(datum), 0.0, pc.sign(datum)), pa.int64())


def atan2(y: Datum, x: Datum) -> Datum:
    """The angle of a point; -0.0 is 0.0."""
    return pc.atan2(pc.add(y, 0.0), pc.add(x, 0.0))


def degrees(datum: Datum) -> Datum:
    """Radians as degrees."""
    return pc.multiply(datum, 180 / math.pi)


def radians(datum: Datum) -> Datum:
    """Degrees as radians."""
    return pc.multiply(datum, math.pi / 180)
