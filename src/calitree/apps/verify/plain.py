"""Questions as plain SQL over the join, built as one table, and what runs that SQL.

For relations on Spark that is Spark, for those of this process DuckDB. Neither knows anything of trees
or messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, SparkBacked, on_spark
from calitree.errors import EngineError
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.binder import Query
from calitree.sql.quoting import quote
from calitree.sql.spark import to_spark


class SqlRunner(Protocol):
    """Builds the join as one table, then answers SQL from it."""

    name: str
    dialect: str

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        """Build the table `wide` by a query over some tables."""

    def ask(self, sql: str) -> pa.Table:
        """Answer a query over `wide`."""


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


def runner_of(engine: Engine, tables: Iterable[Table]) -> SqlRunner:
    """What checks the answers that this engine gives from these tables."""
    spark = on_spark(engine)
    return _Spark(spark) if spark is not None and spark.is_on_spark(tables) else _DuckDB(engine)


def wide_sql(
    schema: Schema, relations: Iterable[str], attributes: Iterable[str], dialect: str
) -> tuple[str, dict[str, Table]]:
    """The join of these relations with these attributes as its columns, and the tables it reads."""
    joined = [name for name in schema.relations if name in set(relations)]
    aliases = {name: f"r{i}" for i, name in enumerate(joined)}
    schema = remaining_schema(schema, joined)
    chosen = []
    for attribute in attributes:
        owner, column = next(c for c in schema.attributes[attribute].columns if c[0] in aliases)
        source = exp.column(column, aliases[owner], quoted=True)
        chosen.append(exp.alias_(source, attribute, quoted=True).sql(dialect))
    sql = f"SELECT {', '.join(chosen) or '1 AS one'} {from_clause(schema, aliases, dialect)}"
    return sql, {alias: schema.relations[name].table for name, alias in aliases.items()}


def from_clause(schema: Schema, aliases: Mapping[str, str], dialect: str) -> str:
    """FROM and the joins declared between some relations, given the alias of each."""
    joins = schema.declared_joins(aliases)
    first, *left = aliases
    text, joined = f"FROM {quote(aliases[first], dialect=dialect)}", {first}
    while left:
        # The next one that joins with those before it.
        near = (n for n in left if any({n} < {j.left, j.right} <= joined | {n} for j in joins))
        name = next(near, left[0])
        left.remove(name)
        joined.add(name)
        tests = [
            exp.EQ(
                this=exp.column(a, aliases[join.left], quoted=True),
                expression=exp.column(b, aliases[join.right], quoted=True),
            ).sql(dialect)
            for join in joins
            if name in (join.left, join.right) and joined.issuperset((join.left, join.right))
            for a, b in join.pairs
        ]
        alias = quote(aliases[name], dialect=dialect)
        text += f" JOIN {alias} ON {' AND '.join(tests) or 'TRUE'}"
    return text


def attributes_of(query: Query) -> set[str]:
    """The attributes that a query needs of the wide table."""
    attributes = set(query.keep).union(*(predicate.attributes for predicate in query.where))
    for _, measure in query.measures:
        if measure.plain is not None:
            attributes |= {column.name for column in measure.plain.find_all(exp.Column)}
    return attributes


def query_sql(query: Query, dialect: str) -> str:
    """A query as plain SQL over `wide`, whose columns are named by attributes."""

    def text(node: exp.Expr) -> str:
        return to_spark(node) if dialect == "spark" else node.sql(dialect)

    def name(attribute: str) -> str:
        return quote(attribute, dialect=dialect)

    columns = [f"{name(attribute)} AS {name(written)}" for written, attribute in query.group_by]
    for title, measure in query.measures:
        if measure.plain is None:
            raise EngineError(
                f"{title!r} is a measure of its own semiring; SQL has nothing to compare it with."
            )
        columns.append(f"{text(measure.plain)} AS {name(title)}")
    sql = f"SELECT {', '.join(columns)} FROM wide"
    if query.where:
        sql += f" WHERE {' AND '.join(f'({text(p.node)})' for p in query.where)}"
    if query.keep:
        sql += f" GROUP BY {', '.join(map(name, query.keep))}"
    return sql
