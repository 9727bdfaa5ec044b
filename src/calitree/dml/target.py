"""The relation that an update changes: its columns and types, and rows given for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calitree.calibration.revisions import Rows, is_arrow
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import ArrowTypes
from calitree.dml.fitting import first_misfit, fitted
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Updatable, on_spark, updatable
from calitree.errors import UpdateError, did_you_mean
from calitree.jointree.schema import Relation, Schema, find_name
from calitree.sql.analysis import Resolved

if TYPE_CHECKING:
    import pyarrow as pa

Columns = str | Sequence[str]


@dataclass(frozen=True)
class UpdateTarget:
    """A relation at one version, about to be updated."""

    engine: Updatable
    schema: Schema
    relation: Relation
    arrow_types: ArrowTypes

    @classmethod
    def of(cls, snapshot: Snapshot, relation: str) -> UpdateTarget:
        """A relation by its name."""
        state, schema = snapshot.state, snapshot.schema
        target, engine = schema.relation(relation), updatable(state.engine)
        return cls(engine, schema, target, state.types_of(target))

    @property
    def name(self) -> str:
        """The name of the relation."""
        return self.relation.name

    @property
    def types(self) -> pa.Schema:
        """Its columns, with their Arrow types."""
        return self.arrow_types.schema

    # -- columns ---------------------------------------------------------------------------------

    def column(self, name: str) -> str:
        """The name of a column, spelt as the relation has it."""
        column = find_name(name, self.types.names)
        derived = find_name(name, self.relation.derived)
        if column is None and derived is not None:
            definition = self.relation.derived[derived]
            raise UpdateError(
                f"{self.name}.{derived} is derived: it is computed as {definition}, and not given."
            )
        if column is None:
            hint = did_you_mean(str(name), self.types.names)
            raise UpdateError(f"{self.name} has no column {name!r}.{hint}")
        return column

    def resolve(self, table: str | None, name: str) -> Resolved:
        """The attribute of a column in a condition, which may name no other relation."""
        if table is not None and find_name(table, (self.name,)) is None:
            raise UpdateError(
                f"{table}.{name} is not a column of {self.name}, whose rows this is about."
            )
        derived = find_name(name, self.relation.derived)
        return self.schema.resolve(self.name, self.column(name) if derived is None else derived)

    # -- rows ------------------------------------------------------------------------------------

    def read(self, source: Any, *, some_columns: bool = False, here: bool = False) -> Any:
        """Rows as they were given, with the columns of the relation and their types.

        With `some_columns`, they need not have all. With `here`, they are brought to this process,
        where they are keys by which others are looked up.
        """
        import pyarrow as pa

        if isinstance(source, pa.Table) and self._has(source.schema, some_columns):
            return source
        if isinstance(source, list):
            from calitree.dml.python_rows import rows_of_types

            rows = rows_of_types(source, self.types)
            if rows is not None and (some_columns or rows.num_columns == len(self.types)):
                return rows
        from calitree.storage.frames import arrow_table

        spark = None
        if getattr(source, "sparkSession", None) is not None:
            spark = on_spark(self.engine)
        if spark is not None:
            source = spark.fix(source)
            if not is_arrow(source):
                if not here:
                    return self._checked(source)
                source = self.engine.arrow(source)
        if isinstance(source, str):
            raise UpdateError(
                f"{self.name}: rows are an Arrow table, a frame, a list of dictionaries or columns "
                f"by name; got the text {source!r}. Only rows to delete are told by a condition."
            )
        if isinstance(source, Sequence) and not len(source):
            return self.types.empty_table()
        return self._typed(arrow_table(self.name, source, self.types), some_columns)

    def _has(self, columns: pa.Schema, some_columns: bool) -> bool:
        """Whether these are its columns, or some of them, and have their types."""
        known = self.arrow_types.by_name
        if not 0 < len(columns) < len(known):
            return bool(columns.equals(self.types))
        given = {field.name: field.type for field in columns}
        return some_columns and len(given) == len(columns) and given.items() <= known.items()

    def _checked(self, table: Table) -> Table:
        """Rows that stay on Spark, so that their types must be those of the relation."""
        self._typed(self.engine.schema(table).empty_table(), some_columns=False)
        for name, kind in self.relation.table.kinds.items():
            given = table.kinds.get(name)
            if given is not kind:
                other = "called otherwise" if given is None else given.value
                raise UpdateError(
                    f"{self.name}.{name} is {kind.value}, and what is given is {other}. Rename or "
                    "cast it in the frame."
                )
        return table

    def _typed(self, given: pa.Table, some_columns: bool) -> pa.Table:
        import pyarrow as pa

        if self._has(given.schema, some_columns):
            return given
        ignored = self.relation.table.unsupported
        columns = [name for name in given.column_names if find_name(name, ignored) is None]
        given_as = {self.column(name): name for name in columns}
        if len(given_as) < len(columns):
            raise UpdateError(f"{self.name}: some column is given twice: {given.column_names}.")
        lacking = [name for name in self.types.names if name not in given_as]
        if lacking and not some_columns:
            raise UpdateError(
                f"{self.name}: the rows lack {', '.join(lacking)}. Give NULLs if there are no values."
            )
        if not given_as:
            raise UpdateError(f"{self.name}: the rows to delete have no columns.")
        fields = [field for field in self.types if field.name in given_as]
        arrays = []
        for field in fields:
            column = given.column(given_as[field.name])
            values = fitted(column, field.type)
            if values is None:
                value = first_misfit(column, field.type)
                raise UpdateError(
                    f"{self.name}.{field.name} is {field.type}, and what is given is {column.type}: "
                    f"{value!r} does not fit. Convert it first."
                )
            arrays.append(values)
        return pa.table(arrays, schema=pa.schema(fields))

    def arrow(self, rows: Rows) -> pa.Table:
        """Rows in this process, with the types of the relation."""
        table = rows if is_arrow(rows) else self.engine.arrow(rows)
        return table.select(self.types.names).cast(self.types)
