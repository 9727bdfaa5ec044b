"""A dialect for SQLAlchemy: `create_engine("calitree:////data/tree?engine=local")`.

The tables are those of the graph, and `wide`, their join. Nothing can be written.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import URL, Connection, default
from sqlalchemy.engine.reflection import cache as reflected
from sqlalchemy.exc import NoSuchTableError

from calitree.apps.select.sources.source import WIDE
from calitree.jointree.schema import Schema
from calitree.types import Kind

TYPES: dict[Kind, type[types.TypeEngine[Any]]] = {
    Kind.BOOLEAN: types.Boolean,
    Kind.INTEGER: types.BigInteger,
    Kind.FLOAT: types.Float,
    Kind.DECIMAL: types.Numeric,
    Kind.STRING: types.String,
    Kind.DATE: types.Date,
    Kind.TIMESTAMP: types.DateTime,
    Kind.TIMESTAMP_TZ: types.DateTime,
    Kind.TIME: types.Time,
    Kind.BINARY: types.LargeBinary,
}


class CalitreeDialect(default.DefaultDialect):
    """What SQLAlchemy must know of calibrated trees."""

    name, driver = "calitree", "calitree"
    default_paramstyle = "named"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_schemas = False
    supports_sane_rowcount = False
    postfetch_lastrowid = False

    @classmethod
    def import_dbapi(cls) -> Any:
        """The module that connects."""
        from calitree import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """The directory, and the arguments of `calitree.open`."""
        return [url.database], dict(url.query)

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Of no effect."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether a connection lives: it does, being of this process."""
        return True

    def _schema(self, connection: Connection) -> Schema:
        schema: Schema = connection.connection.dbapi_connection.wide.schema  # type: ignore[union-attr]
        return schema

    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        """There is none."""
        return []

    def get_table_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """The tables of the graph, and their join."""
        known = self._schema(connection)
        return [*(name for name in known.relations if name not in known.matches), WIDE]

    def get_view_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """There is none."""
        return []

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Whether there is such a table."""
        return table_name in self.get_table_names(connection)

    @reflected
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        """The columns of a table; of the join those whose names only one table has, or that join tables."""
        known = self._schema(connection)
        if not self.has_table(connection, table_name):
            raise NoSuchTableError(table_name)
        names = [table_name] if table_name != WIDE else self.get_table_names(connection)[:-1]
        columns: dict[str, Kind] = {}
        for name in reversed(names):
            columns = {**known.relations[name].columns, **columns}
        return [
            {
                "name": name,
                "type": TYPES.get(kind, types.NullType)(),
                "nullable": True,
                "default": None,
            }
            for name, kind in columns.items()
        ]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> Any:
        """No key is declared."""
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        """The joins of the graph, from their left table to the right one."""
        known = self._schema(connection)
        return [
            {
                "name": None,
                "constrained_columns": [x for x, _ in join.pairs],
                "referred_schema": None,
                "referred_table": join.right,
                "referred_columns": [y for _, y in join.pairs],
            }
            for join in known.joins
            if join.left == table_name and join.pairs and join.right not in known.matches
        ]

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        """There is none."""
        return []
