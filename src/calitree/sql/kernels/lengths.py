"""How many bytes the texts may have that a function makes of shorter ones."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError

MAX_BYTES, MAX_BYTES_PER_ROW = 1 << 27, 1 << 12
"""Of all texts of a column together: so many, or so many for each row if that is more."""


def check_bytes(name: str, nbytes: float, rows: int) -> None:
    """Refuse texts that would have so many bytes in so many rows, before they are made."""
    if nbytes > max(MAX_BYTES, rows * MAX_BYTES_PER_ROW):
        raise ExpressionError(f"{name} makes texts of more than {MAX_BYTES:,} bytes together")


def bytes_of(datum: pa.Array | pa.Scalar, rows: int = 1) -> int:
    """The bytes of a column of texts, or of a text in so many rows."""
    if isinstance(datum, pa.Scalar):
        return rows * datum.as_buffer().size if datum.is_valid else 0
    return int(pc.sum(pc.binary_length(datum)).as_py() or 0)


def is_text(datum: pa.Array | pa.Scalar) -> bool:
    """Whether these are texts, or bytes."""
    return bool(pa.types.is_string(datum.type) or pa.types.is_large_string(datum.type))
