"""The groups of an answer together with the aggregates behind its measures.

From them other answers are made without asking: the same measures by fewer columns, and for each
group the measures over all the *other* groups. The latter is what the answer would be without the
group's rows. Nothing is subtracted for it: what stands before a group and what stands after it are
added up (⊕) from both ends, so that it works for MIN and MAX as it does for sums, exact numbers stay
exact, and a large group that goes does not take the digits of the small ones with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calitree.cache import cached_property
from calitree.calibration.message import column_names
from calitree.calibration.projection import Projection
from calitree.engines.api.contraction import stored_parts
from calitree.engines.api.semiring import Plus, Scalar
from calitree.errors import QueryError, did_you_mean
from calitree.results.summands import Array, Summand, alike, summand_of
from calitree.results.tabular import Tabular, text_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 1 << 62
"""Combinations that a number of 64 bits can tell apart."""
DENSE = 1 << 20
"""Up to so many combinations of values are numbered by a table of all that could be."""


@dataclass(frozen=True, eq=False)
class Key:
    """A group-by column: for each group the place of its value among the distinct ones."""

    codes: Array
    values: pa.Array

    @classmethod
    def of(cls, column: Any) -> Key:
        import pyarrow as pa

        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = whole.dictionary_encode(null_encoding="encode")
        return cls(np.asarray(encoded.indices).astype(np.int64), encoded.dictionary)

    def arrow(self) -> pa.Array:
        import pyarrow as pa

        return self.values.take(pa.array(self.codes))


class Groups(Tabular):
    """The groups of an answer, each with its aggregates.

    >>> from calitree import JoinGraph
    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"city": ["Quito", "Quito", "Loja"], "price": [10, 20, 5]})
    >>> wide = g.calibrate({"mean": "avg(price)", "dearest": "max(price)"})
    >>> wide.query(["city"]).groups.without().rows()
    [{'city': 'Quito', 'mean': 5.0, 'dearest': 5}, {'city': 'Loja', 'mean': 15.0, 'dearest': 20}]
    """

    def __init__(
        self, question: Projection, keys: Mapping[str, Key], parts: Mapping[str, Summand], size: int
    ) -> None:
        self._question = question
        self._keys = dict(keys)
        self._parts = dict(parts)
        self._size = size

    @classmethod
    def absorbed(cls, question: Projection, table: pa.Table) -> Groups:
        """Those of an answer as the root has absorbed it."""
        parts = {name: table.column(name) for name in _parts(question)}
        return cls._of(question, question.keys(table), parts, table.num_rows)

    @classmethod
    def _of(
        cls, question: Projection, keys: Mapping[str, Any], parts: Mapping[str, Any], size: int
    ) -> Groups:
        coded = {name: Key.of(column) for name, column in keys.items()}
        summands = {
            name: summand_of(parts[name], plus, zero)
            for name, (plus, zero) in _parts(question).items()
        }
        groups = cls(question, coded, summands, size)
        return groups if keys else groups.by([])  # a total is one row, even of nothing

    @property
    def columns(self) -> list[str]:
        return [*self._keys, *(name for name, _ in self._question.query.measures)]

    def by(self, group_by: Sequence[str]) -> Groups:
        """Fewer columns to group by, or none: groups that agree on these are one."""
        for name in group_by:
            if name not in self._keys:
                raise QueryError(f"{name!r} is not grouped by.{did_you_mean(name, self._keys)}")
        chosen = [self._keys[name] for name in group_by]
        if not chosen:
            inverse, firsts = np.zeros(self._size, np.int64), np.zeros(1, np.int64)
        else:
            inverse, firsts = _numbered(chosen)
        keys = {
            name: replace(key, codes=key.codes[firsts])
            for name, key in zip(group_by, chosen, strict=True)
        }
        parts = {name: part.summed(inverse, len(firsts)) for name, part in self._parts.items()}
        return Groups(self._question, keys, parts, len(firsts))

    def without(self) -> Groups:
        """For each group the measures over all the others: what they would be without its rows."""
        parts = {name: part.others() for name, part in self._parts.items()}
        return Groups(self._question, self._keys, parts, self._size)

    def plus(self, other: Groups) -> Groups:
        """The groups of both, of the same question about rows that have none in common."""
        import pyarrow as pa

        def both(a: pa.Array, b: pa.Array) -> pa.Array:
            return pa.concat_arrays(alike(a, b))

        keys = {
            name: both(key.arrow(), other._keys[name].arrow()) for name, key in self._keys.items()
        }
        parts = {
            name: both(part.arrow(), other._parts[name].arrow())
            for name, part in self._parts.items()
        }
        whole = Groups._of(self._question, keys, parts, len(self) + len(other))
        return whole.by(list(self._keys))

    @cached_property
    def _arrow(self) -> pa.Table:
        import pyarrow as pa

        parts = {name: part.arrow() for name, part in self._parts.items()}
        keys = {name: key.arrow() for name, key in self._keys.items()}
        return pa.table({**keys, **self._question.measured(parts, self._size)})

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return text_of(self._arrow.slice(0, 10).to_pylist(), self.columns, len(self))


def _parts(question: Projection) -> dict[str, tuple[Plus, Scalar]]:
    """The columns of an absorbed table with their ⊕ and its zero."""
    found: dict[str, tuple[Plus, Scalar]] = {}
    for aggregate, name in column_names(question.query.aggregates).items():
        semiring = aggregate.semiring
        signs = zip(semiring.plus, semiring.zero, strict=True)
        found |= dict(zip(stored_parts(name, semiring), signs, strict=True))
    return found


def _numbered(keys: Sequence[Key]) -> tuple[Array, Array]:
    """For each row the number of its combination of values, and for each number a row that has it."""
    code, width = keys[0].codes, max(1, len(keys[0].values))
    for key in keys[1:]:
        size = max(1, len(key.values))
        if width * size >= MOST:  # number what there is, before the codes would not fit
            known, code = np.unique(code, return_inverse=True)
            width = len(known)
        code = code * size + key.codes
        width *= size
    if width > DENSE:
        _, firsts, inverse = np.unique(code, return_index=True, return_inverse=True)
        return inverse, firsts
    row = np.full(width, -1, np.int64)
    row[code] = np.arange(len(code))
    there = row >= 0
    return (np.cumsum(there) - 1)[code], row[there]
