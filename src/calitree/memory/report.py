"""Who holds what in memory: a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Holding:
    """What one kind of things holds in memory.

    Attributes:
        kind: What it is.
        count: How many there are.
        nbytes: Their bytes.

    Example:
        >>> wide.memory().data[0]
        Holding(kind='relations', count=2, nbytes=83)
    """

    kind: str
    count: int
    nbytes: int


@dataclass(frozen=True)
class Memory:
    """Who holds what, as `WideTable.memory` tells it.

    Attributes:
        limit: The bytes that may be kept.
        kept: What is kept to be used again, the largest kind first; it counts into the limit.
        data: What answers need in any case; it does not.

    Example:
        >>> memory = wide.memory()
        >>> memory.kept_bytes <= memory.limit
        True
    """

    limit: int
    kept: tuple[Holding, ...]
    data: tuple[Holding, ...]

    @property
    def kept_bytes(self) -> int:
        """The bytes of all that is kept."""
        return sum(holding.nbytes for holding in self.kept)

    @property
    def data_bytes(self) -> int:
        """The bytes of the data."""
        return sum(holding.nbytes for holding in self.data)

    def __str__(self) -> str:
        lines = [f"kept {_size(self.kept_bytes)} of {_size(self.limit)}"]
        lines += map(_line, self.kept)
        lines.append(f"data {_size(self.data_bytes)}")
        lines += map(_line, self.data)
        return "\n".join(lines)


def _line(holding: Holding) -> str:
    return f"  {holding.kind:<16}{holding.count:>8,}{_size(holding.nbytes):>14}"


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f} MB" if nbytes >= 100_000 else f"{nbytes:,} bytes"
