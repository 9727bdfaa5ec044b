"""From the table that the root absorbs to the columns that a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from calitree.cache import cached_property
from calitree.calibration.folding.held import HeldTable
from calitree.calibration.message import column_names
from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Input,
    Output,
    Stored,
    Table,
    stored_parts,
)
from calitree.engines.api.elements import ElementTable
from calitree.engines.api.protocol import Engine
from calitree.engines.api.python_contraction import contract
from calitree.engines.api.python_semiring import PythonSemiring
from calitree.errors import SavedError
from calitree.query.annotation import COUNT
from calitree.query.binder import FOLD, VALUE, Query
from calitree.sql.nodes import column, kind_of
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

Compute = Callable[[dict[str, Any], int], Any]
"""Given columns and their length, another column."""


@dataclass(frozen=True, eq=False)
class Projection:
    """The result's columns as formulas over the columns of the absorbed table, compiled once.

    `types` are those of the columns that extremes are taken of, by measure, and of groups that engines
    have in another type: a number that is stored comes back in its own type.
    """

    query: Query
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return Projection, (self.query, dict(self.types))  # without what was compiled

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, with its formulas once they are compiled."""
        query = self.query
        filters = sum(1_500 + predicate.nbytes for predicate in query.where)
        formulas = sum(2 * measure.final_bytes for _, measure in query.measures)
        return 4_000 + filters + formulas + 2_000 * len(query.group_by)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The group-by columns as written, then the measures."""
        grouped = (text for text, _ in self.query.group_by)
        return (*grouped, *(name for name, _ in self.query.measures))

    @cached_property
    def parts(self) -> tuple[Projection, ...]:
        """Those of the queries that its query is answered by; itself, if it is the only one."""
        parts = self.query.parts
        return (self,) if len(parts) == 1 else tuple(map(Projection, parts))

    def folded(self, engine: Engine, absorbed: Table) -> Table:
        """What is absorbed, grouped once more by the attributes that are expressions over others."""
        query = self.query
        if not query.folded:
            return absorbed
        columns = tuple(
            Column(name, aggregate.semiring, (Stored(0, name),))
            for aggregate, name in column_names(query.aggregates).items()
        )
        keep = tuple(dict.fromkeys(attribute for _, attribute in query.group_by))
        given = Input(absorbed, {name: name for name in query.keep}, dict(query.folded))
        output = Output((0,), (), keep, columns)
        return contract(engine, Contraction((given,), (output,)))[0]

    def valued(self, engine: Engine, absorbed: Table) -> Table:
        """What is absorbed, with the values of measures in place of Python elements."""
        if not isinstance(absorbed, ElementTable):
            return absorbed
        rows, elements = absorbed.rows_of(engine)
        names = column_names(self.query.aggregates)
        for name, measure in self.query.measures:
            if measure.value is not None:
                values = measure.value.array(name, elements[names[measure.aggregates[0]]])
                rows = rows.append_column(VALUE + name, values)
        held: Any = HeldTable(rows, absorbed.exact)
        return cast(Table, held)

    @cached_property
    def formulas(self) -> dict[str, exp.Expr]:
        """Each result column as an expression over the columns of an absorbed table that has rows.

        A group without rows is absent, so a sum that is NULL only over no rows is never NULL there.
        """
        count = column_names(self.query.aggregates).get(COUNT)
        return {name: _of_some_rows(node, count) for name, node in self._formulas.items()}

    @cached_property
    def _formulas(self) -> dict[str, exp.Expr]:
        names = column_names(self.query.aggregates)
        formulas: dict[str, exp.Expr] = {
            text: column(attribute) for text, attribute in self.query.group_by
        }
        for name, measure in self.query.measures:
            if name in self.query.values:
                formulas[name] = column(VALUE + name)
                continue
            swap: dict[str, str] = {}
            for i, aggregate in enumerate(measure.aggregates):
                ours = stored_parts(f"a{i}", aggregate.semiring)
                theirs = stored_parts(names[aggregate], aggregate.semiring)
                swap |= dict(zip(ours, theirs, strict=True))
            swap |= {f"f{i}": self.query.folds[fold] for i, fold in enumerate(measure.folds)}
            formulas[name] = measure.final.transform(_renamed, swap)
        return formulas

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """The measures that are computed from integers or decimals, and should be some too."""
        return tuple(
            name
            for name, measure in self.query.measures
            if kind_of(measure.final) in (Kind.INTEGER, Kind.DECIMAL)
            and not isinstance(self.formulas[name], exp.Column)
        )

    @cached_property
    def _compiled(self) -> list[Compute]:
        return [_compute(node, self.types.get(name)) for name, node in self.formulas.items()]

    @cached_property
    def _measures(self) -> dict[str, Compute]:
        names = [name for name, _ in self.query.measures]
        return {name: _compute(self._formulas[name], self.types.get(name)) for name in names}

    def answer(self, absorbed: pa.Table) -> pa.Table:
        """The columns asked for."""
        import pyarrow as pa

        if absorbed.num_rows == 0 and not self.query.group_by:
            nothing = self._nothing(absorbed)
            return pa.table(self.measured(_by_name(nothing), nothing.num_rows))
        columns = _by_name(absorbed)
        arrays = [compute(columns, absorbed.num_rows) for compute in self._compiled]
        return pa.Table.from_arrays(arrays, names=self.columns)

    def keys(self, absorbed: pa.Table) -> dict[str, Any]:
        """The group-by columns as written."""
        columns = _by_name(absorbed)
        names = [text for text, _ in self.query.group_by]
        computed = zip(names, self._compiled, strict=False)
        return {name: compute(columns, absorbed.num_rows) for name, compute in computed}

    def measured(self, absorbed: dict[str, Any], length: int) -> dict[str, Any]:
        """The measures, of groups that may also have no rows."""
        return {name: compute(absorbed, length) for name, compute in self._measures.items()}

    def _nothing(self, absorbed: pa.Table) -> pa.Table:
        """A total over no rows is one row: the zero of each semiring, of which COUNT is 0 and SUM NULL."""
        import pyarrow as pa

        zeros: dict[str, Any] = {}
        for aggregate, name in column_names(self.query.aggregates).items():
            if isinstance(aggregate.semiring, PythonSemiring):
                continue
            parts = stored_parts(name, aggregate.semiring)
            for part, zero in zip(parts, aggregate.semiring.zero, strict=True):
                dtype = absorbed.schema.field(part).type
                zeros[part] = pa.array([zero], None if pa.types.is_null(dtype) else dtype)
        for fold, name in self.query.folds.items():
            zeros[name] = pa.array([fold.over_nothing], absorbed.schema.field(name).type)
        for name, measure in self.query.measures:
            if measure.value is not None:
                (zero,) = measure.aggregates[0].semiring.zero
                zeros[VALUE + name] = measure.value.array(name, [zero])
        return pa.table(zeros)


def _by_name(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _compute(formula: exp.Expr, dtype: pa.DataType | None) -> Compute:
    from calitree.sql.evaluator import compile

    run = compile(formula)
    if dtype is not None and kind_of_arrow(dtype).is_number:
        return _stored(run, dtype)
    if isinstance(formula, exp.Column):
        return _column(formula.name, run)
    guarded = _guarded(formula)
    if guarded is None:
        return run
    count, value = guarded
    is_column, is_float = isinstance(value, exp.Column), kind_of(formula) is Kind.FLOAT
    return _if_counted(count, _compute(value, None), run, (is_column, is_float))


def _if_counted(count: str, value: Compute, run: Compute, is_a: tuple[bool, bool]) -> Compute:
    """CASE WHEN count > 0 THEN value END.

    By `run` only where some group has a count of 0 and `value`, which `is_a` column and a float or not, may
    fail for it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    is_column, is_float = is_a

    def column(columns: dict[str, Any], length: int) -> Any:
        counts = columns[count]
        if length and counts.type == pa.int64() and not counts.null_count:
            chunks = counts.chunks if isinstance(counts, pa.ChunkedArray) else (counts,)
            is_counted = all(chunk.to_numpy().min(initial=1) > 0 for chunk in chunks)
            values = value(columns, length) if is_counted or is_column else None
            if values is not None and (not is_float or values.type == pa.float64()):
                null = pa.scalar(None, values.type)
                return values if is_counted else pc.if_else(pc.greater(counts, 0), values, null)
        return run(columns, length)

    return column


def _stored(compute: Compute, dtype: pa.DataType) -> Compute:
    """Numbers of a column in its own type; engines compute with wider ones."""
    import pyarrow as pa

    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type

    def column(columns: dict[str, Any], length: int) -> Any:
        values = compute(columns, length)
        if values.type == dtype:
            return values
        if pa.types.is_floating(values.type) and not pa.types.is_floating(dtype):
            return values  # of more digits than a decimal has
        if pa.types.is_integer(values.type) and pa.types.is_decimal(dtype):
            values = values.cast(pa.decimal128(19, 0))  # as Arrow goes by types, not by values
        try:
            return values.cast(dtype)
        except pa.ArrowInvalid as error:  # only what a saved tree says wrongly of its columns
            raise SavedError(f"A saved message has no values of its column: {error}.") from error

    return column


def _column(name: str, compute: Compute) -> Compute:
    """A column by itself: as it is, if its type is one that every engine gives back."""
    import pyarrow as pa

    plain = (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32())
    is_any_type = name.startswith((FOLD, VALUE))

    def column(columns: dict[str, Any], length: int) -> Any:
        values = columns[name]
        return values if is_any_type or values.type in plain else compute(columns, length)

    return column


def _of_some_rows(node: exp.Expr, count: str | None) -> exp.Expr:
    """CASE WHEN count > 0 THEN x END where there are rows: x."""
    guarded = _guarded(node)
    return guarded[1] if guarded is not None and guarded[0] == count else node


def _guarded(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """The count and x of CASE WHEN count > 0 THEN x END; None if a node is something else."""
    if isinstance(node, exp.Case) and node.args.get("default") is None:
        (branch, *others) = node.args["ifs"]
        condition = branch.this
        if (
            not others
            and isinstance(condition, exp.GT)
            and isinstance(condition.this, exp.Column)
            and condition.expression.name == "0"
        ):
            return condition.this.name, branch.args["true"]
    return None


def _renamed(node: exp.Expr, swap: dict[str, str]) -> exp.Expr:
    if isinstance(node, exp.Column) and node.name in swap:
        return column(swap[node.name])
    return node
