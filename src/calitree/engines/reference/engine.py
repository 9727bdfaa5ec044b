"""The reference engine: plain Python dictionaries and nested loops, slow and meant to be obviously right.

Rows are dictionaries, integers never overflow, and the join is tried row by row. The other engines
are tested against it and against the materialised join.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Match,
    Output,
    Stored,
    Table,
    Weight,
    stored_parts,
)
from calitree.engines.api.protocol import Watch
from calitree.engines.api.semiring import Semiring
from calitree.engines.reference.addition import (
    PEAK,
    Key,
    Row,
    add_row,
    is_lost,
    key_of,
    negated,
    padded,
    peak_of,
    subtracted_parts,
)
from calitree.engines.reference.algebra import product_of
from calitree.engines.reference.covariances import element, several
from calitree.engines.reference.rowwise import evaluate_row
from calitree.errors import EngineError
from calitree.grouping import canonical
from calitree.sql.parser import Expression
from calitree.sql.scalar_casts import EXACT, double
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS = 38
"""Of a decimal; what has more is given back as a double."""


@dataclass(eq=False)
class ReferenceTable:
    """Rows of Python values."""

    kinds: Mapping[str, Kind]
    data: list[Row]
    null_free: frozenset[str] = frozenset()
    types: dict[str, Any] = field(default_factory=dict)
    """The Arrow types of relations' columns and of kept attributes."""
    unsupported: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.data)

    @property
    def exact(self) -> bool:
        """Whether every number that was computed fits a decimal."""
        computed = [name for name, kind in self.kinds.items() if kind is Kind.OTHER]
        return all(_scale([row[name] for row in self.data]) is not None for name in computed)

    @property
    def nbytes(self) -> int:
        """About how much memory it holds."""
        return 64 * len(self.data) * max(1, len(self.kinds))


class ReferenceEngine:
    """The `Engine` and `Updatable` protocols, as plainly as possible.

    >>> ReferenceEngine().load("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]}).rows
    2
    """

    name = "reference"

    def load(self, name: str, source: Any) -> ReferenceTable:
        """A relation of whatever can be converted to Arrow."""
        from calitree.storage.frames import relation_rows

        table, unsupported = relation_rows(name, source)
        kinds = {f.name: kind_of_arrow(f.type) for f in table.schema}
        types = {f.name: f.type for f in table.schema}
        rows = [{key: canonical(value) for key, value in row.items()} for row in table.to_pylist()]
        return ReferenceTable(kinds, rows, types=types, unsupported=unsupported)

    def how(self, contraction: Contraction) -> str:
        """Empty: it has only one strategy."""
        return ""

    def contract(
        self, contraction: Contraction, watch: Watch | None = None
    ) -> list[ReferenceTable]:
        """Every output, by nested loops."""
        return [self._output(contraction.inputs, output) for output in contraction.outputs]

    def _output(self, inputs: Sequence[Input], output: Output) -> ReferenceTable:
        groups: dict[Key, Row] = {}
        for row, origins in _joined(inputs, output):
            if all(evaluate_row(condition.node, row) is True for condition in output.where):
                summand = {name: row[name] for name in output.keep}
                for column in output.columns:
                    product = _product(column, row, origins)
                    summand |= zip(column.parts, product, strict=True)
                add_row(groups, output, summand)
        holders = {
            name: next(inputs[i] for i in output.inputs if inputs[i].has(name))
            for name in output.keep
        }
        kinds = {name: holder.kind(name) for name, holder in holders.items()}
        kinds |= dict.fromkeys(_parts(output), Kind.OTHER)
        types = {name: _type(holder, name) for name, holder in holders.items()}
        return ReferenceTable(kinds, list(groups.values()), types=types)

    def arrow(self, table: Table) -> pa.Table:
        """The table as Arrow data."""
        import pyarrow as pa

        own = _own(table)
        arrays = {
            name: _array([row[name] for row in own.data], own.types.get(name)) for name in own.kinds
        }
        return pa.table(arrays) if arrays else pa.table({"": pa.nulls(own.rows)}).select([])

    # -- Updatable -------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        """The columns of a relation with their Arrow types."""
        import pyarrow as pa

        return pa.schema([(name, _own(table).types[name]) for name in table.kinds])

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> ReferenceTable | None:
        """The ⊕-sum of results less those in `minus`; None if digits would be lost."""
        added, subtracted = [padded(output, row) for row in _all_rows(plus)], _all_rows(minus)
        groups: dict[Key, Row] = {}
        for row in added:
            add_row(groups, output, row)
        before = dict(groups)
        for row in subtracted:
            add_row(groups, output, negated(output, row))
        if rows is not None:
            groups = {key: row for key, row in groups.items() if row[rows] != 0}
        changed = {key_of(row, output.keep) for row in subtracted}
        for part in subtracted_parts(output):
            peaks: defaultdict[Key, float] = defaultdict(float)
            for row in (*added, *subtracted):
                key = key_of(row, output.keep)
                peaks[key] = max(peaks[key], peak_of(row, part))
            for key, row in groups.items():
                peak = max(peaks[key], peak_of(before.get(key, row), part))
                if key in changed and is_lost(row[part], peak):
                    return None
                groups[key] = {**row, PEAK + part: max(peaks[key], peak_of(row, part))}
        first = _own((*plus, *minus)[0])
        kinds = {**first.kinds, **dict.fromkeys(_parts(output), Kind.OTHER)}
        return ReferenceTable(kinds, list(groups.values()), types=first.types)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> ReferenceTable:
        """The bag difference of relations."""
        first = _own(plus[0])
        deleted = Counter(key_of(row, first.kinds) for row in _all_rows(minus))
        rest = []
        for row in _all_rows(plus):
            key = key_of(row, first.kinds)
            if deleted[key]:
                deleted[key] -= 1
            else:
                rest.append(row)
        for key in +deleted:
            raise EngineError(f"A row that is to be deleted is not there: {key}.")
        return _rows_of(first, rest)

    def select(self, relation: Input, where: Expression) -> ReferenceTable:
        """The rows for which a condition is true."""
        table, attributes = _own(relation.table), relation.attributes
        rows = (({a: row[c] for a, c in attributes.items()}, row) for row in table.data)
        return _rows_of(table, [row for own, row in rows if evaluate_row(where.node, own) is True])

    def matching(self, table: Table, rows: pa.Table) -> ReferenceTable:
        """The semi-join of a relation with `rows`."""
        keys = {tuple(map(canonical, row.values())) for row in rows.to_pylist()}
        own = _own(table)
        return _rows_of(own, [row for row in own.data if key_of(row, rows.column_names) in keys])

    def apart(self, table: Table, keys: Table) -> ReferenceTable:
        """The anti-join of a result with `keys`."""
        deleted = {key_of(row, keys.kinds) for row in _own(keys).data}
        own = _own(table)
        return _rows_of(own, [row for row in own.data if key_of(row, keys.kinds) not in deleted])


def _own(table: Table) -> ReferenceTable:
    assert isinstance(table, ReferenceTable)
    return table


def _rows_of(table: ReferenceTable, rows: list[Row]) -> ReferenceTable:
    return ReferenceTable(table.kinds, rows, types=table.types)


def _all_rows(tables: Iterable[Table]) -> list[Row]:
    return [row for table in tables for row in _own(table).data]


def _parts(output: Output) -> Iterator[str]:
    return (part for column in output.columns for part in column.parts)


def _joined(inputs: Sequence[Input], output: Output) -> Iterator[tuple[Row, dict[int, Row]]]:
    """Every joined row as attributes, and the rows of the inputs it was joined from."""
    rows: list[tuple[Row, dict[int, Row]]] = [({}, {})]
    for index in output.inputs:
        given = inputs[index]
        key = () if given.match is None else given.match.key
        known = set() if given.match is None else _known_keys(given.match)
        joined = []
        for left, origins in rows:
            for raw in _own(given.table).data:
                right = _attributes(given, raw)
                if all(
                    _same(left[a], value)
                    for a, value in right.items()
                    if a in left and a not in key
                ) and (not key or _matched(left, key, known) == _matched(right, key, known)):
                    joined.append(({**right, **left}, {**origins, index: raw}))
        rows = joined
    return iter(rows)


def _known_keys(match: Match) -> set[Key]:
    keys = (key_of(row, match.key) for row in _own(match.known).data)
    return {key for key in keys if None not in key}


def _matched(row: Row, names: Sequence[str], known: set[Key]) -> Key | None:
    """A key, or None if it is not among those that are known."""
    key = key_of(row, names)
    return key if key in known else None


def _attributes(given: Input, raw: Row) -> Row:
    """The attributes of a row of an input."""
    row = {attribute: raw[column] for attribute, column in given.attributes.items()}
    derived = {name: evaluate_row(e.node, row) for name, e in given.derived.items()}
    return {**row, **{name: canonical(value) for name, value in derived.items()}}


def _type(given: Input, attribute: str) -> Any:
    """The Arrow type of an attribute; None for what follows from its values."""
    if attribute in given.derived:
        from calitree.sql.kernels.casts import null_of

        kind = given.derived[attribute].kind
        return None if kind is Kind.DECIMAL else null_of(kind).type
    return _own(given.table).types.get(given.attributes[attribute])


def _same(a: Any, b: Any) -> bool:
    """SQL's equality: NULL equals nothing, NaN (of which there is one here) equals itself."""
    return a is not None and b is not None and (a is b or bool(a == b))


def _product(column: Column, row: Row, origins: Mapping[int, Row]) -> list[Any]:
    semiring = column.semiring
    of = _covariance_factor if semiring.values else _factor
    factors = [of(factor, semiring, row, origins) for factor in column.factors]
    if not factors:
        return list(semiring.one)
    return reduce(partial(product_of, semiring), factors)


def _factor(factor: Factor, semiring: Semiring, row: Row, origins: Mapping[int, Row]) -> list[Any]:
    if isinstance(factor, Lifted):
        values = [evaluate_row(e.node, row) for e in factor.expressions]
    else:
        values = [origins[factor.input][part] for part in stored_parts(factor.name, semiring)]
    return [z if v is None else v for v, z in zip(values, semiring.zero, strict=True)]


def _covariance_factor(
    factor: Factor, semiring: Semiring, row: Row, origins: Mapping[int, Row]
) -> list[Any]:
    """A row as a group of its own, or several equal ones."""
    if isinstance(factor, Stored):
        return _factor(factor, semiring, row, origins)
    if isinstance(factor, Weight):
        return several(semiring, origins[factor.input][factor.name] or 0)
    return element(semiring, [evaluate_row(e.node, row) for e in factor.expressions])


def _array(values: list[Any], dtype: Any) -> pa.Array:
    import pyarrow as pa

    if dtype is not None and not (dtype == pa.int64() and any(map(_is_large, values))):
        return pa.array(values, dtype)
    scale = _scale(values)
    if scale is None or any(isinstance(v, float) for v in values):
        # A NULL double counts as 0, and 0 × m is a decimal.
        values = [double(v) if isinstance(v, Decimal | int) else v for v in values]
    elif any(isinstance(v, Decimal) or _is_large(v) for v in values):
        values = [Decimal(v) if isinstance(v, int) else v for v in values]
        return pa.array(values, pa.decimal128(DIGITS, scale))
    return pa.array(values)


def _is_large(value: Any) -> bool:
    """Whether an integer does not fit 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _scale(values: list[Any]) -> int | None:
    """How many decimals these numbers have at most; None if one has more digits than a decimal.

    What is no integer or decimal has none.
    """
    numbers = [v for v in values if isinstance(v, Decimal | int)]
    places = [-int(v.as_tuple().exponent) for v in numbers if isinstance(v, Decimal)]
    scale = max((0, *places))
    fit = all(abs(EXACT.scaleb(Decimal(v), scale)) < 10**DIGITS for v in numbers)
    return scale if fit and scale <= DIGITS else None
