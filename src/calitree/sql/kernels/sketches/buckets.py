"""The buckets that numbers are in, by the first bits of them as doubles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.values import double, on_arrays
from calitree.sql.rules.sketches import BUCKET_BITS, DIGIT_BITS

Array = np.ndarray[Any, Any]

LEAST_NORMAL = 2.0**-1022
"""Smaller doubles have fewer digits; they are as good as zero."""


@on_arrays
def bucket(values: pa.Array) -> pa.Array:
    """The bucket of each double: those of negative numbers are negative, and NaN is above all others."""
    numbers = doubles(values)
    sizes = np.where(np.isnan(numbers), np.nan, np.abs(numbers))
    buckets = sizes.view(np.int64) >> (DIGIT_BITS - BUCKET_BITS)
    buckets[sizes < LEAST_NORMAL] = 0
    return with_nulls(np.where(numbers < 0, -buckets, buckets), values)


def with_nulls(result: Array, values: pa.Array) -> pa.Array:
    """What was computed of some values; NULL where these are NULL."""
    mask = np.asarray(values.is_null()) if values.null_count else None
    return pa.array(result, mask=mask)


def doubles(values: pa.Array) -> Array:
    """Numbers as doubles, and any number where they are NULL."""
    return np.asarray(pc.fill_null(double(values), 0.0))
