"""Rows as a user gives them, with the columns of a relation and their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calitree.calibration.state import ArrowTypes
from calitree.calibration.versions import is_arrow
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Updatable, on_spark
from calitree.errors import UpdateError, did_you_mean
from calitree.jointree.schema import Relation, find_name

if TYPE_CHECKING:
    import pyarrow as pa

Columns = str | Sequence[str]


class GivenRows:
    """Reads rows for one relation. `types` are its columns, with their Arrow types."""

    def __init__(self, engine: Updatable, relation: Relation, types: ArrowTypes) -> None:
        self.engine, self.relation = engine, relation
        self.arrow, self.types = types, types.schema
        self.name = relation.name

    def read(self, source: Any, some_columns: bool = False, here: bool = False) -> Any:
        """Rows as they were given, with the columns of the relation and their types; in this process
        (`here`) where others are looked for by them.
        """
        import pyarrow as pa

        from calitree.storage.frames import arrow_table

        if isinstance(source, pa.Table) and (
            source.schema.equals(self.types) or (some_columns and self._has(source.schema))
        ):
            return source
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
        given = arrow_table(self.name, source)
        return self._typed(given, some_columns)

    def _checked(self, table: Table) -> Table:
        """Rows that stay where they are, so that they must be as those of the relation."""
        self._typed(self.engine.schema(table).empty_table(), some_columns=False)
        for name, kind in self.relation.table.kinds.items():
            given = table.kinds.get(name)
            if given is not kind:
                found = "called otherwise" if given is None else given.value
                raise UpdateError(
                    f"{self.name}.{name} is {kind.value}, and what is given is {found}. Rename or "
                    "cast it in the frame."
                )
        return table

    def _has(self, columns: pa.Schema) -> bool:
        """Whether these are some of its columns, not all, and have their types."""
        given = {field.name: field.type for field in columns}
        known = self.arrow.by_name
        return 0 < len(given) == len(columns) < len(known) and given.items() <= known.items()

    def _typed(self, given: pa.Table, some_columns: bool) -> pa.Table:
        import pyarrow as pa

        places = {self.column(name): name for name in given.column_names}
        if len(places) < len(given.column_names):
            raise UpdateError(f"{self.name}: some column is given twice: {given.column_names}.")
        lacking = [name for name in self.types.names if name not in places]
        if lacking and not some_columns:
            raise UpdateError(
                f"{self.name}: the rows lack {', '.join(lacking)}. Give NULLs if there are no values."
            )
        if not places:
            raise UpdateError(f"{self.name}: the rows to delete have no columns.")
        fields = [field for field in self.types if field.name in places]
        arrays = []
        for field in fields:
            column = given.column(places[field.name])
            try:
                arrays.append(column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise UpdateError(
                    f"{self.name}.{field.name} is {field.type}, and what is given is {column.type}: "
                    f"{str(error).rstrip('.')}."
                ) from None
        return pa.table(arrays, schema=pa.schema(fields))

    def column(self, name: str) -> str:
        """The name of a column, as the relation has it."""
        found = find_name(name, self.types.names)
        if found is None:
            hint = did_you_mean(str(name), self.types.names)
            raise UpdateError(f"{self.name} has no column {name!r}.{hint}")
        return found
