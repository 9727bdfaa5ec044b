"""Relations and messages of a saved tree, which are read when they are first needed.

How messages are written is here too, so that both directions are seen together.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from calitree.cache import cached_property
from calitree.engines.local.annotation.labels import from_column
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.tables.filters import Columns
from calitree.engines.local.tables.tables import (
    ArrowColumns,
    EncodedMessage,
    EncodedRelation,
)
from calitree.engines.local.tables.wire import to_wire
from calitree.errors import (
    DamagedError,
    DamagedRelationError,
    EngineError,
    MissingRelationError,
    SchemaError,
)
from calitree.storage.arrow_types import original, portable, schema_of_text, text_of_schema
from calitree.storage.column_types import supported_columns
from calitree.storage.files import is_parquet
from calitree.storage.filesystem import map_paths, reason, shown
from calitree.storage.frames import relation_rows
from calitree.storage.parquet import ParquetColumns
from calitree.storage.table_format import (
    FileDigests,
    Origin,
    SavedColumn,
    SavedMessage,
    SavedRelation,
    Source,
    file_at,
    write_parquet,
)
from calitree.types import Kind, kind_of_arrow


class LazyColumns:
    """The columns of a saved relation. Its files are opened when a column is first asked for."""

    def __init__(self, saved: SavedRelation, threads: int) -> None:
        self.saved, self.threads = saved, threads
        self.name, self.rows, self.decoded_bytes = saved.name, saved.rows, saved.nbytes
        self.schema = supported_columns(saved.name, schema_of_text(saved.schema)).schema
        self.unsupported, self.null_free = saved.unsupported, saved.null_free

    @cached_property
    def opened(self) -> Columns:
        """The columns in their files."""
        name, source = self.saved.name, self.saved.source
        if source.place == "nowhere":
            raise MissingRelationError(name, source.reason)
        if source.place == "table":
            raise MissingRelationError(
                name,
                f"they are in Spark's table {source.table}: open the tree with engine='hybrid'",
            )
        source.check(name)
        files = [file.path for file in source.files]
        digests = {file.path: file.digest for file in source.files if file.digest is not None}
        try:
            if is_parquet(files):
                columns: Columns = ParquetColumns(name, files, self.threads, digests)
            else:
                columns = ArrowColumns(*relation_rows(name, files))
        except DamagedError as error:
            raise DamagedRelationError(name, error) from error
        except SchemaError as error:
            raise MissingRelationError(name, str(error).rstrip(".")) from error
        kinds = {field.name: kind_of_arrow(field.type) for field in columns.schema}
        if columns.rows != self.rows or kinds != self.saved.kinds:
            raise MissingRelationError(
                name, f"{files[0]} is read otherwise than when the tree was saved"
            )
        return columns

    @property
    def is_copied(self) -> bool:
        """Whether the rows are in the directory of the tree."""
        return self.saved.source.place == "copied"

    @property
    def nbytes(self) -> int:
        """Bytes in memory: none before the files are opened."""
        return self.opened.nbytes if "opened" in self.__dict__ else 0

    def column(self, label: str) -> pa.ChunkedArray:
        """One column, read from its files."""
        try:
            return original(self.opened.column(label), self.schema.field(label).type)
        except DamagedError as error:
            raise DamagedRelationError(self.name, error) from error
        except EngineError:
            self.saved.source.check(self.name)  # perhaps it was vacuumed away meanwhile
            raise
        except pa.ArrowException as error:
            files = ", ".join(shown(file.path) for file in self.saved.source.files)
            damage = DamagedError(files, reason(error))
            raise DamagedRelationError(self.name, damage) from error

    def table(self) -> pa.Table:
        """All columns."""
        return pa.table({label: self.column(label) for label in self.schema.names})


def files_of(relation: EncodedRelation) -> ParquetColumns | None:
    """The Parquet files of a relation that is read where it is; None if it is in this process."""
    columns = relation.columns
    if isinstance(columns, LazyColumns) and columns.saved.source.place == "files":
        columns = columns.opened
    return columns if isinstance(columns, ParquetColumns) else None


class LazyMessage(EncodedMessage):
    """A saved message. Its codes and annotations are read when one of them is first asked for."""

    def __init__(self, book: Codebook, saved: SavedMessage) -> None:
        super().__init__(book, {}, {}, saved.rows, {})
        self.saved = saved
        self.attributes = saved.attributes
        self.kinds = {c.name: Kind.OTHER if c.annotation else c.kind for c in saved.columns}

    @cached_property
    def _read(self) -> tuple[dict[str, Codes], dict[str, Value]]:
        codes, values = {}, {}
        for column, data in zip(self.saved.columns, self.saved.read().columns, strict=True):
            if column.annotation:
                values[column.name] = _value(data, column)
            else:
                codes[column.name] = self.book.dictionary(column.name).encode(data)
        return codes, values

    @property
    def own_codes(self) -> Mapping[str, Codes]:
        """The codes of its attributes, read from the file."""
        return self._read[0]

    @property
    def annotations(self) -> Mapping[str, Value]:
        """Its physical columns of annotations, read from the file."""
        return self._read[1]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, or those it will have when it is read."""
        if "_read" not in self.__dict__:
            return self.saved.nbytes
        codes = sum(int(column.nbytes) for column in self._read[0].values())
        return max(codes + sum(value.nbytes for value in self._read[1].values()), self.saved.nbytes)

    @property
    def exact(self) -> bool:
        """Whether no annotation was rounded."""
        return self.saved.exact


def restore(
    book: Codebook, saved: SavedMessage | SavedRelation, threads: int
) -> EncodedMessage | EncodedRelation:
    """A saved table, of which nothing is read yet."""
    if isinstance(saved, SavedRelation):
        return EncodedRelation(book, LazyColumns(saved, threads))
    if not saved.columns:
        return EncodedMessage(book, {}, {}, saved.rows, {})
    return LazyMessage(book, saved)


def origin(relation: EncodedRelation) -> Origin:
    """Where the rows of a relation are."""
    columns = relation.columns
    if isinstance(columns, LazyColumns):
        return Origin(columns.schema, columns.decoded_bytes, columns.saved.source)
    if isinstance(columns, ParquetColumns):
        columns.check()
        files = tuple(map_paths(file_at, columns.files))
        return Origin(columns.schema, columns.decoded_bytes, Source("files", files))
    return Origin(columns.schema, columns.nbytes)


def write(message: EncodedMessage, path: str) -> SavedMessage:
    """Write a message to a file, in the form that all engines read."""
    wire = to_wire(message)
    types, arrays, columns = [], [], []
    for i, name in enumerate(wire.column_names):
        data = wire.column(i)
        arrays.append(portable(data))
        types.append(pa.field(f"c{i}", data.type))
        value = message.annotations.get(name)
        if value is None:
            scale = data.type.scale if pa.types.is_decimal(data.type) else 0
            columns.append(SavedColumn(name, kind_of_arrow(data.type), scale=scale))
        else:
            columns.append(_described(name, data.type, value))
    digests: FileDigests = {}
    if columns:
        digests = {"": write_parquet(pa.table(arrays, [field.name for field in types]), path)}
    schema = text_of_schema(pa.schema(types))
    return SavedMessage(
        path, message.rows, message.nbytes, schema, columns=tuple(columns), digests=digests
    )


def _described(name: str, dtype: pa.DataType, value: Value) -> SavedColumn:
    if value.labels is not None or not value.is_integer:
        return SavedColumn(name, kind_of_arrow(dtype), annotation=True, exact=value.exact)
    kind = Kind.DECIMAL if value.scale else Kind.INTEGER
    return SavedColumn(
        name, kind, True, True, scale=value.scale, bound=value.bound, exact=value.exact
    )


def _value(data: pa.ChunkedArray, column: SavedColumn) -> Value:
    """What was saved as whole numbers has its scale beside it."""
    value = from_column(data)
    if not column.coded:
        return value.with_exact(column.exact and value.exact)
    positive = value.valid is None and bool((value.signs > 0).all())
    return Value(value.data, value.valid, scale=column.scale, exact=column.exact, positive=positive)
