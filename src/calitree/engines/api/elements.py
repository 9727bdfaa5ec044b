"""Results that have elements of a `PythonSemiring`, as tables of any engine.

An engine has no Python values. Its table has their positions, as whole numbers; the elements stand in a
list. Such a number can be kept by a contraction like any other attribute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Input,
    Lifted,
    Output,
    Table,
)
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import MIN
from calitree.grouping import canonical
from calitree.sql.nodes import column, marked
from calitree.sql.parser import expression_of
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[Any, ...]

POSITION = "position of the element"
"""The column of an index that says where the elements of a row are."""

MEASURED_ELEMENTS = 100
"""Elements by which the bytes of all are estimated."""


@dataclass(frozen=True, eq=False)
class ElementTable:
    """A result with columns in a Python semiring.

    Attributes:
        plain: The engine's own result: what is kept, and the annotations in other semirings.
        index: The engine's own result: what is kept, and the position of each row's elements.
        elements: For each column the elements, by position.
    """

    plain: Table
    index: Table
    elements: Mapping[str, Sequence[Any]]

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names and their kinds."""
        kinds = {name: kind for name, kind in self.plain.kinds.items() if name != POSITION}
        return {**kinds, **dict.fromkeys(self.elements, Kind.OTHER)}

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Nothing: it is no relation."""
        return {}

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.index.rows

    @cached_property
    def nbytes(self) -> int:
        """About how much memory it holds; of containers of elements their own items count too."""
        own = sum(table.nbytes for table in dict.fromkeys((self.plain, self.index)))
        return own + sum(map(_bytes_of, self.elements.values()))

    @property
    def exact(self) -> bool:
        """Whether the numbers in other semirings are exact; what Python returns is what it is."""
        return self.plain.exact

    @property
    def null_free(self) -> frozenset[str]:
        """Columns known to hold no NULL."""
        return self.plain.null_free

    def rows_of(self, engine: Engine) -> tuple[pa.Table, dict[str, list[Any]]]:
        """What is plain as Arrow data, and for each of its rows the elements of every column."""
        rows = engine.arrow(self.plain)
        index = rows if self.plain is self.index else engine.arrow(self.index)
        positions = index.column(POSITION).to_pylist()
        if rows is not index:
            keep = [name for name in index.column_names if name != POSITION]
            by_key = dict(zip(keys_of(index, keep), positions, strict=True))
            positions = [by_key[key] for key in keys_of(rows, keep)]
        elements = {
            name: [values[at] for at in positions] for name, values in self.elements.items()
        }
        return rows.select([n for n in rows.column_names if n != POSITION]), elements


def keys_of(rows: pa.Table, keep: Sequence[str]) -> Iterator[Key]:
    """The values of some columns in every row, as SQL groups by them."""
    if not keep:
        return iter([()] * rows.num_rows)
    return zip(*(map(canonical, rows.column(name).to_pylist()) for name in keep), strict=True)


def engine_table(table: Table) -> Table:
    """The table that an engine knows, without elements."""
    return table.plain if isinstance(table, ElementTable) else table


def index_of(engine: Engine, keys: pa.Table, positions: Iterable[int]) -> Table:
    """An engine's result that has these rows, all different, with the positions of their elements."""
    import pyarrow as pa

    keep = tuple(keys.column_names)
    arrays = dict(zip(keep, keys.columns, strict=True))
    data = pa.table({**arrays, POSITION: pa.array(positions, pa.int64())})
    given = Input(engine.load("elements", data), {name: name for name in data.column_names})
    position = expression_of(marked(column(POSITION), Kind.INTEGER))
    columns = (Column(POSITION, MIN, (Lifted(0, (position,)),)),)
    return engine.contract(Contraction((given,), (Output((0,), (), keep, columns),)))[0]


def _bytes_of(elements: Sequence[Any]) -> int:
    """About how many bytes elements take, by some of them."""
    step = max(1, len(elements) // MEASURED_ELEMENTS)
    measured = [_bytes(element, 3) for element in elements[::step]]
    return 8 * len(elements) + len(elements) * sum(measured) // max(1, len(measured))


def _bytes(value: Any, depth: int) -> int:
    size = sys.getsizeof(value)
    if depth and isinstance(value, tuple | list | set | frozenset):
        size += sum(_bytes(item, depth - 1) for item in value)
    elif depth and isinstance(value, dict):
        size += sum(_bytes(part, depth - 1) for item in value.items() for part in item)
    return size
