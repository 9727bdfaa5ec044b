"""Questions as plain SQL over one wide table, and who answers them so.

On Spark the wide table is built by Spark; for the in-process engines by DuckDB. Neither knows
anything of trees or messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, SparkBacked, on_spark
from calitree.errors import EngineError
from calitree.jointree.schema import Schema
from calitree.query.binder import Query
from calitree.sql.spark import to_spark

if TYPE_CHECKING:
    import pyarrow as pa


class Plain(Protocol):
    """Someone who runs plain SQL: builds the wide table once, then answers from it."""

    name: str
    dialect: str

    def build(self, sql: str, tables: Mapping[str, Table]) -> None: ...

    def ask(self, sql: str) -> pa.Table: ...


class _DuckDB:
    name, dialect = "DuckDB", "duckdb"

    def __init__(self, engine: Engine) -> None:
        try:
            import duckdb
        except ImportError:
            raise EngineError(
                'Verifying in-process answers needs DuckDB: pip install "calitree[verify]".'
            ) from None
        self.engine = engine
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        for name, table in tables.items():
            self.connection.register(name, self.engine.arrow(table))
        self.connection.execute(f"CREATE OR REPLACE TABLE wide AS {sql}")

    def ask(self, sql: str) -> pa.Table:
        return self.connection.sql(sql).to_arrow_table()


class _Spark:
    name, dialect = "Spark", "spark"

    def __init__(self, engine: SparkBacked) -> None:
        self.engine = engine
        self.wide: Table | None = None

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        self.wide = self.engine.materialise(sql, tables)

    def ask(self, sql: str) -> pa.Table:
        assert self.wide is not None
        return self.engine.query(sql, {"wide": self.wide})


def plain_of(engine: Engine, tables: Iterable[Table]) -> Plain:
    """Who checks the answers that this engine gives from these tables."""
    spark = on_spark(engine)
    return _Spark(spark) if spark is not None and spark.is_on_spark(tables) else _DuckDB(engine)


def wide_sql(
    schema: Schema, relations: Iterable[str], attributes: Iterable[str], dialect: str
) -> tuple[str, dict[str, Table]]:
    """The join of these relations with these attributes as its columns, and the tables it reads."""
    joined = [name for name in schema.relations if name in set(relations)]
    names = {name: f"r{i}" for i, name in enumerate(joined)}
    order, left = [joined[0]], joined[1:]
    clauses = [f"{names[joined[0]]}"]
    where: dict[str, exp.Expr] = {}
    for attribute, column in schema.columns_of[joined[0]].items():
        where[attribute] = exp.column(column, names[joined[0]], quoted=True)
    while left:
        near = next(n for n in left if schema.columns_of[n].keys() & where.keys())
        left.remove(near)
        order.append(near)
        tests = []
        for attribute, column in schema.columns_of[near].items():
            here = exp.column(column, names[near], quoted=True)
            if attribute in where:
                tests.append(exp.EQ(this=where[attribute].copy(), expression=here).sql(dialect))
            else:
                where[attribute] = here
        clauses.append(f"JOIN {names[near]} ON {' AND '.join(tests)}")
    chosen = [exp.alias_(where[a].copy(), a, quoted=True).sql(dialect) for a in attributes]
    sql = f"SELECT {', '.join(chosen) or '1 AS one'} FROM {' '.join(clauses)}"
    return sql, {names[n]: schema.relations[n].table for n in order}


def attributes_of(query: Query) -> set[str]:
    """The attributes that a query needs of the wide table."""
    found = set(query.keep)
    for predicate in query.where:
        found |= predicate.attributes
    for _, measure in query.measures:
        if measure.plain is not None:
            found |= {column.name for column in measure.plain.find_all(exp.Column)}
    return found


def query_sql(query: Query, dialect: str) -> str:
    """A query as plain SQL over `wide`, whose columns are named by attributes."""

    def text(node: exp.Expr) -> str:
        if dialect == "spark":
            return to_spark(node)
        return node.sql(dialect)

    def named(node: str, name: str) -> str:
        return f"{node} AS {exp.to_identifier(name, quoted=True).sql(dialect)}"

    columns = [
        named(exp.to_identifier(attribute, quoted=True).sql(dialect), written)
        for written, attribute in query.group_by
    ]
    for name, measure in query.measures:
        if measure.plain is None:
            raise EngineError(
                f"{name!r} is a measure of its own semiring; SQL has nothing to compare it with."
            )
        columns.append(named(text(measure.plain), name))
    sql = f"SELECT {', '.join(columns)} FROM wide"
    if query.where:
        sql += f" WHERE {' AND '.join(f'({text(p.node)})' for p in query.where)}"
    if query.keep:
        keys = [exp.to_identifier(a, quoted=True).sql(dialect) for a in query.keep]
        sql += f" GROUP BY {', '.join(keys)}"
    return sql
