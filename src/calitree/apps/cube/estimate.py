"""The dimensions of a cube, checked, and what it would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calitree.apps.cube.lattice import Lattice
from calitree.apps.cube.sizes import Sizes
from calitree.errors import QueryError, shortened
from calitree.query.binder import Question
from calitree.wide_table import WideTable


@dataclass(frozen=True)
class Estimate:
    """What a cube would take beside the tree's own messages.

    Attributes:
        pivots: How many group-bys it would calibrate.
        messages: How many messages they need.
        bytes: How large these can be at most.

    >>> from calitree import Cube
    >>> estimate = Cube.estimate(wide, ["city", "price"])
    >>> estimate.pivots, estimate.messages
    (3, 2)
    """

    pivots: int
    messages: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.pivots:,} pivots, {self.messages:,} messages, at most {self.bytes:,} bytes"


def checked_dims(wide: WideTable, dims: Sequence[str], k: int) -> dict[str, str]:
    """The dimensions as written, with their attributes, checked."""
    if isinstance(dims, str) or not isinstance(dims, Sequence):
        raise QueryError(f"The dimensions of a cube are a list of columns; got {dims!r}.")
    named: dict[str, str] = {}
    for column in dims:
        attribute = attribute_of(wide, column)
        for other, known in named.items():
            if known == attribute:
                same = f"twice: {column}" if other == column else f"both as {other} and as {column}"
                raise QueryError(f"A dimension is named {same}. Name it once.")
        named[column] = attribute
    if checked_k(k) > len(named):
        raise QueryError(f"A pivot cannot group by {k} of {len(named)} dimensions; lower k.")
    return named


def attribute_of(wide: WideTable, dimension: str) -> str:
    """The attribute of a column, or of an expression over columns of one relation."""
    query = wide.snapshot.bind(Question((dimension,))).query
    if query.folded:
        raise QueryError(
            f"{shortened(dimension)} is computed from several relations, so no message has its values; "
            "take the columns that it needs as dimensions."
        )
    return query.keep[0]


def checked_k(k: int) -> int:
    """The number, if it can be one of dimensions."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise QueryError(f"k is how many dimensions a pivot groups by, 0 or more; got {k!r}.")
    return k


def lattice_of(wide: WideTable, dims: Mapping[str, str], k: int, where: str | None) -> Lattice:
    """The pivots of a cube of these dimensions."""
    return Lattice(Sizes(wide, dims, where), tuple(dims.values()), k)


def estimate_of(lattice: Lattice) -> Estimate:
    """What all pivots would take."""
    every = [m for m in lattice.messages(lattice.pivots) if not lattice.sizes.is_own(m)]
    return Estimate(len(lattice.pivots), len(every), round(lattice.bytes(every)))
