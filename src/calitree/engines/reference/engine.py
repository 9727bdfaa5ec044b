"""The reference engine: plain Python dictionaries and nested loops. Slow, short and obviously
right.

Rows are dictionaries, integers never overflow, and the join is tried row by row. The other engines
are tested against it and against the join really built.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Table,
    stored_parts,
)
from calitree.engines.api.protocol import Watch
from calitree.engines.api.semiring import Semiring
from calitree.engines.reference.rowwise import evaluate_row
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


@dataclass
class ReferenceTable:
    """Rows of Python values."""

    kinds: Mapping[str, Kind]
    data: list[Row]
    exact: bool = True
    null_free: frozenset[str] = frozenset()
    types: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.data)

    @property
    def nbytes(self) -> int:
        return 64 * len(self.data) * max(1, len(self.kinds))


class ReferenceEngine:
    """The `Engine` protocol, spelled out."""

    name = "reference"

    def load(self, name: str, source: Any) -> ReferenceTable:
        from calitree.storage.frames import arrow_table

        table = arrow_table(name, source)
        kinds = {f.name: kind_of_arrow(f.type) for f in table.schema}
        types = {f.name: f.type for f in table.schema}
        rows = [{key: _canonical(value) for key, value in row.items()} for row in table.to_pylist()]
        return ReferenceTable(kinds, rows, types=types)

    def how(self, contraction: Contraction) -> str:
        """It has but one way."""
        return ""

    def contract(
        self, contraction: Contraction, watch: Watch | None = None
    ) -> list[ReferenceTable]:
        return [self._output(contraction.inputs, output) for output in contraction.outputs]

    def _output(self, inputs: Sequence[Input], output: Output) -> ReferenceTable:
        groups: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
        for row, origins in _joined(inputs, output):
            if all(evaluate_row(p.node, row) is True for p in output.where):
                values = groups.setdefault(tuple(row[a] for a in output.keep), {})
                for column in output.columns:
                    product = _product(column, row, origins)
                    so_far = values.get(column.name)
                    values[column.name] = (
                        product if so_far is None else _plus(column.semiring, so_far, product)
                    )
        kinds = {a: _kind(a, inputs, output) for a in output.keep}
        kinds |= {part: Kind.OTHER for column in output.columns for part in column.parts}
        types = {a: _type(a, inputs, output) for a in output.keep}
        data = []
        for key, values in groups.items():
            row = dict(zip(output.keep, key, strict=True))
            for column in output.columns:
                row |= dict(zip(column.parts, values[column.name], strict=True))
            data.append(row)
        return ReferenceTable(kinds, data, types=types)

    def arrow(self, table: Table) -> pa.Table:
        import pyarrow as pa

        assert isinstance(table, ReferenceTable)

        arrays = {}
        for name in table.kinds:
            values = [row[name] for row in table.data]
            arrays[name] = _array(values, table.types.get(name))
        if not arrays:
            return pa.table({"": pa.nulls(len(table.data))}).select([])
        return pa.table(arrays)

    # -- updates -----------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(name, _own(table).types[name]) for name in table.kinds])

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> ReferenceTable | None:
        groups: dict[tuple[Any, ...], Row] = {}
        subtracted: dict[tuple[Any, ...], list[Row]] = {}
        for table in plus:
            for row in _own(table).data:
                key = _key(row, output.keep)
                groups[key] = _sum(output, groups[key], row) if key in groups else row
        before = dict(groups)
        for table in minus:
            for row in _own(table).data:
                key = _key(row, output.keep)
                negated = {n: v if n in output.keep else -v for n, v in row.items()}
                groups[key] = _sum(output, groups[key], negated) if key in groups else negated
                subtracted.setdefault(key, []).append(row)
        if rows is not None:
            groups = {key: row for key, row in groups.items() if row[rows] != 0}
        for part in _parts(output):
            peaks: dict[tuple[Any, ...], float] = {}
            for row in (row for table in (*plus, *minus) for row in _own(table).data):
                key = _key(row, output.keep)
                peaks[key] = max(peaks.get(key, 0.0), _peak(row, part))
            for key, row in groups.items():
                if key in subtracted and _is_lost(
                    row[part], max(peaks[key], _peak(before.get(key, row), part))
                ):
                    return None
                groups[key] = {**row, _PEAK + part: max(peaks[key], _peak(row, part))}
        first = _own((*plus, *minus)[0])
        return ReferenceTable(first.kinds, list(groups.values()), types=first.types)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> ReferenceTable:
        first = _own(plus[0])
        gone = Counter(_key(row, first.kinds) for table in minus for row in _own(table).data)
        kept = []
        for row in (row for table in plus for row in _own(table).data):
            key = _key(row, first.kinds)
            if gone[key]:
                gone[key] -= 1
            else:
                kept.append(row)
        for key in +gone:
            raise EngineError(f"A row that is to be deleted is not there: {key}.")
        return ReferenceTable(first.kinds, kept, types=first.types)

    def select(self, relation: Input, where: Expression) -> ReferenceTable:
        table, attributes = _own(relation.table), relation.attributes

        def passes(row: Row) -> bool:
            here = {attribute: row[column] for attribute, column in attributes.items()}
            return evaluate_row(where.node, here) is True

        return _rows_of(table, [row for row in table.data if passes(row)])

    def matching(self, table: Table, rows: pa.Table) -> ReferenceTable:
        wanted = {tuple(map(_canonical, row.values())) for row in rows.to_pylist()}
        table = _own(table)
        found = [row for row in table.data if _key(row, rows.column_names) in wanted]
        return _rows_of(table, found)

    def apart(self, table: Table, keys: Table) -> ReferenceTable:
        gone = {_key(row, keys.kinds) for row in _own(keys).data}
        table = _own(table)
        return _rows_of(table, [row for row in table.data if _key(row, keys.kinds) not in gone])


def _own(table: Table) -> ReferenceTable:
    assert isinstance(table, ReferenceTable)
    return table


def _rows_of(table: ReferenceTable, rows: list[Row]) -> ReferenceTable:
    return ReferenceTable(table.kinds, rows, types=table.types)


def _key(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _parts(output: Output) -> Iterator[str]:
    return (part for column in output.columns for part in column.parts)


def _sum(output: Output, left: Row, right: Row) -> Row:
    """⊕ of two rows of a result that have the same key."""
    found = {name: left[name] for name in output.keep}
    for column in output.columns:
        sides = ([row[part] for part in column.parts] for row in (left, right))
        found |= dict(zip(column.parts, _plus(column.semiring, *sides), strict=True))
    return found


_PEAK = "the most it ever was: "
"""With a floating-point sum goes its largest magnitude since it was last computed from rows."""


def _peak(row: Row, part: str) -> float:
    value = row[part]
    size = abs(float(value)) if isinstance(value, float | int | Decimal) else 0.0
    return max(float(row.get(_PEAK + part, 0.0)), size)


def _is_lost(value: Any, peak: float) -> bool:
    """Whether a difference of floating-point numbers is too small to have digits left."""
    if not isinstance(value, float):
        return False
    return not math.isfinite(value) or abs(value) < peak / 100


def _joined(inputs: Sequence[Input], output: Output) -> Iterator[tuple[Row, dict[int, Row]]]:
    """Every joined row as attributes, and the input row each part came from. NULL equals nothing."""
    rows: list[tuple[Row, dict[int, Row]]] = [({}, {})]
    for index in output.inputs:
        given = inputs[index]
        assert isinstance(given.table, ReferenceTable)
        found = []
        for so_far, origins in rows:
            for raw in given.table.data:
                here = {attribute: raw[column] for attribute, column in given.attributes.items()}
                if all(_same(so_far[a], v) for a, v in here.items() if a in so_far):
                    found.append(({**so_far, **here}, {**origins, index: raw}))
        rows = found
    return iter(rows)


def _same(a: Any, b: Any) -> bool:
    """SQL's equality: NULL equals nothing, NaN (of which there is one here) equals itself."""
    return a is not None and b is not None and (a is b or bool(a == b))


def _product(column: Column, row: Row, origins: Mapping[int, Row]) -> list[Any]:
    factors = [_factor(factor, column.semiring, row, origins) for factor in column.factors]
    result = list(column.semiring.one) if not factors else factors[0]
    for factor in factors[1:]:
        result = _times(column.semiring, result, factor)
    return result


def _factor(factor: Factor, semiring: Semiring, row: Row, origins: Mapping[int, Row]) -> list[Any]:
    if isinstance(factor, Lifted):
        values = [evaluate_row(e.node, row) for e in factor.expressions]
    else:
        values = [origins[factor.input][part] for part in stored_parts(factor.name, semiring)]
    return [z if v is None else v for v, z in zip(values, semiring.zero, strict=True)]


def _times(semiring: Semiring, left: list[Any], right: list[Any]) -> list[Any]:
    sides = {f"l_{n}": v for n, v in zip(semiring.components, left, strict=True)}
    sides |= {f"r_{n}": v for n, v in zip(semiring.components, right, strict=True)}
    return [evaluate_row(node, sides) for node in semiring.times_nodes]


def _plus(semiring: Semiring, left: list[Any], right: list[Any]) -> list[Any]:
    return [_PLUS[p](a, b) for p, a, b in zip(semiring.plus, left, right, strict=True)]


def _skipping_null(choose: Any) -> Any:
    def plus(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return choose(a, b)

    return plus


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, float) and isinstance(b, Decimal):
        return a + float(b)
    if isinstance(a, Decimal) and isinstance(b, float):
        return float(a) + b
    return a + b


_PLUS: dict[str, Any] = {
    "sum": _add,
    "min": _skipping_null(lambda a, b: b if _less(b, a) else a),
    "max": _skipping_null(lambda a, b: b if _less(a, b) else a),
    "any": lambda a, b: a or b,
}


def _less(a: Any, b: Any) -> bool:
    """SQL's order: NaN is greater than every number."""
    if isinstance(a, float) and math.isnan(a):
        return False
    if isinstance(b, float) and math.isnan(b):
        return True
    return bool(a < b)


_NAN = float("nan")


def _canonical(value: Any) -> Any:
    """One NaN and one zero, so that Python's `==` and dictionaries group as SQL does."""
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    return value


def _kind(attribute: str, inputs: Sequence[Input], output: Output) -> Kind:
    holder = next(inputs[i] for i in output.inputs if attribute in inputs[i].attributes)
    return holder.table.kinds[holder.attributes[attribute]]


def _type(attribute: str, inputs: Sequence[Input], output: Output) -> Any:
    holder = next(inputs[i] for i in output.inputs if attribute in inputs[i].attributes)
    assert isinstance(holder.table, ReferenceTable)
    return holder.table.types.get(holder.attributes[attribute])


def _array(values: list[Any], dtype: Any) -> pa.Array:
    import pyarrow as pa

    if dtype is not None:
        return pa.array(values, dtype)
    if any(isinstance(v, int) and not isinstance(v, bool) and abs(v) >= 2**63 for v in values):
        values = [None if v is None else Decimal(v) for v in values]
    if any(
        isinstance(v, float) for v in values
    ):  # a NULL double counts as 0, and 0 × m is a decimal
        values = [float(v) if isinstance(v, Decimal) else v for v in values]
    return pa.array(values)
