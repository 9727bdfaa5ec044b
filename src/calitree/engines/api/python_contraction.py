"""Contractions with columns in a `PythonSemiring`, by means of any engine.

The engine does what it does for every contraction, join, filter and group, but in place of the product
it keeps what the product is made of: the attributes that lifts read, and the positions of the elements that
messages have (`elements`). It also counts the rows that agree on all of these. So there is one row for each
different product, which is computed in Python, added up as often as it was counted, and summed by group.

Whoever may have such columns or tables calls these functions in place of the engine's methods of the same
name. Other contractions go to the engine as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from calitree.engines.api.contraction import (
    Called,
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
    Table,
    Weight,
)
from calitree.engines.api.elements import POSITION, ElementTable, engine_table, index_of, keys_of
from calitree.engines.api.protocol import Engine, Watch, on_spark, updatable
from calitree.engines.api.python_semiring import PythonSemiring
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.errors import EngineError, ExpressionError, cut

if TYPE_CHECKING:
    import pyarrow as pa

HAS_ELEMENTS = "has elements"
"""Under which a contraction has what was found out of it."""
ROWS = "rows with this product"
"""The column that counts them."""


def contract(
    engine: Engine, contraction: Contraction, watch: Watch | None = None
) -> Sequence[Table]:
    """Compute every output, in order."""
    if not _needs_python(contraction):
        return engine.contract(contraction, watch)
    for output in contraction.outputs:
        for column in _python_columns(output):
            _check_is_here(engine, column, [contraction.inputs[at] for at in output.inputs])
    outputs = [_plain(output) for output in contraction.outputs]
    # What has nothing else is known by its elements.
    needed = {
        at: output
        for at, output in enumerate(outputs)
        if output.columns or not contraction.outputs[at].columns
    }
    known: dict[int, Table] = {}
    if needed:
        plain = Contraction(_plain_inputs(contraction.inputs), tuple(needed.values()))
        known = dict(zip(needed, engine.contract(plain, watch), strict=True))
    return [
        _with_elements(engine, contraction.inputs, output, known.get(at))
        for at, output in enumerate(contraction.outputs)
    ]


def how(engine: Engine, contraction: Contraction) -> str:
    """Which strategy computes this, and why."""
    if not _needs_python(contraction):
        return engine.how(contraction)
    if any(_python_columns(output) for output in contraction.outputs):
        return "in Python"
    return engine.how(plain_contraction(contraction))


def add(
    engine: Engine, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
) -> Table | None:
    """The ⊕-sum of results of this output, less (⊖) those in `minus`, as one result of it."""

    def own(tables: Sequence[Table]) -> list[Table]:
        return [_without_positions(engine, output.keep, table) for table in tables]

    columns = _python_columns(output)
    if not columns:
        return updatable(engine).add(output, own(plus), own(minus), rows)
    assert not minus  # as no Python semiring has ⊖
    plain = None
    if len(columns) < len(output.columns):
        plain = updatable(engine).add(_plain(output), own(plus), (), rows)
    stored = tuple(replace(column, factors=(Stored(0, column.name),)) for column in columns)
    given = Input(_concatenated(engine, output, plus), {name: name for name in output.keep})
    return _with_elements(engine, (given,), Output((0,), (), output.keep, stored), plain)


def apart(engine: Engine, table: Table, keys: Table) -> Table:
    """The anti-join of a result with `keys` on all columns of `keys`."""
    keys = engine_table(keys)
    if not isinstance(table, ElementTable):
        return updatable(engine).apart(table, keys)
    index = updatable(engine).apart(table.index, keys)
    same = table.plain is table.index
    plain = index if same else updatable(engine).apart(table.plain, keys)
    return ElementTable(plain, index, table.elements)


def plain_contraction(contraction: Contraction) -> Contraction:
    """The same without elements, of which no output has any."""
    if not _needs_python(contraction):
        return contraction
    return Contraction(_plain_inputs(contraction.inputs), contraction.outputs)


def _needs_python(contraction: Contraction) -> bool:
    """Whether a column or a table has elements, which is kept with the contraction: every one is asked."""
    known = vars(contraction)
    if HAS_ELEMENTS not in known:
        known[HAS_ELEMENTS] = _has_elements(contraction)
    return bool(known[HAS_ELEMENTS])


def _has_elements(contraction: Contraction) -> bool:
    for output in contraction.outputs:
        for column in output.columns:
            if isinstance(column.semiring, PythonSemiring):
                return True
    for given in contraction.inputs:
        if isinstance(given.table, ElementTable):
            return True
        if given.match is not None and isinstance(given.match.known, ElementTable):
            return True
    return False


def _python_columns(output: Output) -> list[Column]:
    return [column for column in output.columns if isinstance(column.semiring, PythonSemiring)]


def _plain(output: Output) -> Output:
    """The same without columns in a Python semiring."""
    plain = (c for c in output.columns if not isinstance(c.semiring, PythonSemiring))
    return replace(output, columns=tuple(plain))


def _plain_inputs(inputs: Sequence[Input]) -> tuple[Input, ...]:
    return tuple(given.moved(engine_table) for given in inputs)


def _with_elements(
    engine: Engine, inputs: Sequence[Input], output: Output, plain: Table | None
) -> Table:
    """The result of an output, given that of its other columns if it has some."""
    import pyarrow as pa

    columns = _python_columns(output)
    if not columns:
        assert plain is not None
        return plain
    groups: dict[tuple[Any, ...], int] = {}
    elements: dict[str, list[Any]] = {}
    keys: pa.Table | None = None
    for column in columns:
        products = _Products(engine, inputs, output, column)
        if keys is None:
            groups, first = products.groups()
            keys = products.rows.select(list(output.keep)).take(pa.array(first, pa.int64()))
        elements[column.name] = products.sums(groups)
    assert keys is not None
    index = index_of(engine, keys, range(len(groups)))
    return ElementTable(index if plain is None else plain, index, elements)


class _Products:
    """The different products of one column, with the group that each is added to and how often."""

    def __init__(
        self, engine: Engine, inputs: Sequence[Input], output: Output, column: Column
    ) -> None:
        assert isinstance(column.semiring, PythonSemiring)
        self.semiring, self.column, self.inputs = column.semiring, column, inputs
        self.keep = output.keep
        self.stored = {f.input: f.name for f in column.factors if isinstance(f, Stored)}
        self.rows = self._counted(engine, output)

    def groups(self) -> tuple[dict[tuple[Any, ...], int], list[int]]:
        """The position of each group, and the first row of each."""
        groups: dict[tuple[Any, ...], int] = {}
        first = []
        for at, key in enumerate(keys_of(self.rows, self.keep)):
            if key not in groups:
                groups[key] = len(groups)
                first.append(at)
        return groups, first

    def sums(self, groups: Mapping[tuple[Any, ...], int]) -> list[Any]:
        """The ⊕-sum of each group."""
        semiring, length = self.semiring, self.rows.num_rows
        multiplied = (f for f in self.column.factors if not isinstance(f, Weight))
        factors = list(map(self._values, multiplied))
        counts = [1] * length if semiring.idempotent else self.rows.column(ROWS).to_pylist()
        sums: dict[int, Any] = {}
        for at, key in enumerate(keys_of(self.rows, self.keep)):
            parts = [values[at] for values in factors] or [semiring.one[0]]
            element = semiring.several(reduce(semiring.times_of, parts), int(counts[at]))
            group = groups[key]
            sums[group] = semiring.plus_of(sums[group], element) if group in sums else element
        return [sums[group] for group in range(len(groups))]

    def _counted(self, engine: Engine, output: Output) -> pa.Table:
        """What is kept and multiplied, and how many rows agree on it."""
        inputs = [self._with_position(at, given) for at, given in enumerate(self.inputs)]
        lifted = [f for f in self.column.factors if isinstance(f, Lifted)]
        read = (name for f in lifted for e in f.expressions for name in sorted(e.attributes))
        keep = tuple(dict.fromkeys((*output.keep, *read, *map(_position, self.stored))))
        weights = [f for f in self.column.factors if isinstance(f, Weight)]
        count = Column(ROWS, SUM_PRODUCT, tuple(Stored(f.input, f.name) for f in weights))
        columns = () if self.semiring.idempotent else (count,)
        counting = Contraction(tuple(inputs), (replace(output, keep=keep, columns=columns),))
        (table,) = engine.contract(counting)
        if not table.exact:
            raise EngineError(
                f"Semiring {self.semiring.name!r}: more rows agree than can be counted exactly. Filter "
                "them, or declare the semiring idempotent if it is."
            )
        return engine.arrow(table)

    def _with_position(self, at: int, given: Input) -> Input:
        """An input with the positions of its elements, if these are multiplied."""
        moved = given.moved(engine_table)
        if at not in self.stored:
            return moved
        assert isinstance(given.table, ElementTable)
        attributes = {**given.attributes, _position(at): POSITION}
        return replace(moved, table=given.table.index, attributes=attributes)

    def _values(self, factor: Factor) -> list[Any]:
        """A factor in every row."""
        from calitree.sql.evaluator import evaluate

        if isinstance(factor, Stored):
            table = self.inputs[factor.input].table
            assert isinstance(table, ElementTable)
            elements = table.elements[factor.name]
            return [elements[at] for at in self.rows.column(_position(factor.input)).to_pylist()]
        assert isinstance(factor, Lifted)
        columns = {n: self.rows.column(n) for e in factor.expressions for n in e.attributes}
        arguments = [
            evaluate(e.node, columns, self.rows.num_rows).to_pylist() for e in factor.expressions
        ]
        if isinstance(factor, Called):
            return _calls(self.semiring, factor.function, arguments, self.rows.num_rows)
        zero = self.semiring.zero[0]
        return [zero if value is None else value for value in arguments[0]]


def _position(at: int) -> str:
    """The attribute for the position of the elements of an input."""
    return f"{POSITION} {at}"


def _calls(
    semiring: PythonSemiring,
    function: Callable[..., Any],
    arguments: Sequence[Sequence[Any]],
    length: int,
) -> list[Any]:
    """What a lift returns for every row."""
    rows = zip(*arguments, strict=True) if arguments else iter([()] * length)
    elements = []
    for row in rows:
        try:
            elements.append(function(*row))
        except Exception as error:
            name = getattr(function, "__name__", type(function).__name__)
            given = cut(", ".join(map(repr, row)))
            raise ExpressionError(
                f"Semiring {semiring.name!r}: the lift {name}({given}) raised "
                f"{type(error).__name__}: {error}"
            ) from error
    return elements


def _check_is_here(engine: Engine, column: Column, inputs: Sequence[Input]) -> None:
    """Python functions see rows of this process only."""
    spark = on_spark(engine)
    tables = [table for given in inputs for table in given.tables]
    if spark is not None and spark.is_on_spark(map(engine_table, tables)):
        raise EngineError(
            f"Semiring {column.semiring.name!r} is in Python, which cannot run on Spark: rows of its "
            "relations, or of relations that are joined with them, are there. Give these as Arrow tables or "
            'frames of this process, use engine="local", or write the semiring as data (calitree.Semiring).'
        )


def _without_positions(engine: Engine, keep: tuple[str, ...], table: Table) -> Table:
    """A result without its elements, as the engine would have computed it."""
    if not isinstance(table, ElementTable) or table.plain is not table.index:
        return engine_table(table)
    given = Input(table.index, {name: name for name in keep})
    return engine.contract(Contraction((given,), (Output((0,), (), keep, ()),)))[0]


def _concatenated(engine: Engine, output: Output, tables: Sequence[Table]) -> ElementTable:
    """The rows of several results under each other; what lacks a column has its zero."""
    import pyarrow as pa

    elements: dict[str, list[Any]] = {column.name: [] for column in _python_columns(output)}
    zeros = {column.name: column.semiring.zero[0] for column in _python_columns(output)}
    parts, size = [], 0
    for table in tables:
        if isinstance(table, ElementTable):
            rows, known = table.rows_of(engine)
        else:
            rows, known = engine.arrow(table), {}
        parts.append(rows.select(list(output.keep)))
        for name, values in elements.items():
            values += known.get(name, [zeros[name]] * rows.num_rows)
        size += rows.num_rows
    keys = pa.concat_tables(parts, promote_options="permissive")
    columns = dict(zip(keys.column_names, keys.columns, strict=True))
    data = pa.table({**columns, POSITION: pa.array(range(size), pa.int64())})
    relation = engine.load("elements", data)
    return ElementTable(relation, relation, elements)
