"""Questions as plain SQL over the join, built as one table, and what runs that SQL.

That is DuckDB, or Spark for relations that are there and are too large to come here. Neither knows
anything of trees or messages. The SQL here is written of what we have read in a question; DuckDB is given
the texts of the question themselves (`calitree.apps.verify.verbatim`) wherever it can run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Protocol, TypeVar

import pyarrow as pa
from sqlglot import exp

from calitree.apps.verify.bounds import with_bounds
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, Persistent, SparkBacked, on_spark
from calitree.engines.api.signed import settled
from calitree.errors import EngineError
from calitree.interrupts import current, run
from calitree.jointree.joins.as_of import matches_sql
from calitree.jointree.joins.conditions import located_condition
from calitree.jointree.joins.from_clause import from_clause
from calitree.jointree.joins.join import ColumnName, Join
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.binder import Query
from calitree.query.grain import once_column
from calitree.sql.parsing.literal_lists import with_values
from calitree.sql.quoting import quote
from calitree.sql.spark import to_spark
from calitree.storage.files import is_parquet
from calitree.storage.filesystem import is_url
from calitree.wide_table import WideTable

Value = TypeVar("Value")

MAX_BYTES_HERE = 256 << 20
"""What of tables on Spark may come to this process; files of Parquet are read by DuckDB itself."""


class SqlRunner(Protocol):
    """Builds the join as one table, then answers SQL from it."""

    name: str
    dialect: str

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        """Build the table `wide` by a query over some tables."""

    def ask(self, sql: str) -> pa.Table:
        """Answer a query over `wide`."""


DEFINITIONS = (
    "SET TimeZone = 'UTC'",
    "SET disabled_optimizers = 'expression_rewriter,statistics_propagation'",
    'CREATE MACRO "/"(a, b) AS system.main."/"(a, nullif(b, 0))',
    'CREATE MACRO "%"(a, b) AS system.main."%"(a, nullif(b, 0))',
    'CREATE MACRO "//"(a, b) AS system.main."//"(a, nullif(b, 0))',
    "CREATE MACRO mod(a, b) AS system.main.mod(a, nullif(b, 0))",
    *(
        f'CREATE MACRO "{name}"(a, b) AS system.main.power(a + 0e0, b)'
        for name in ("power", "pow", "^", "**")
    ),
    "CREATE MACRO atan2(a, b) AS system.main.atan2(a + 0e0, b + 0e0)",
    "CREATE MACRO bin(x, w) AS floor(x / w) * w",
    "CREATE MACRO width_bucket(x, low, high, n) AS CASE WHEN x IS NULL THEN NULL "
    "WHEN low < high AND x < low OR low > high AND x > low THEN 0 "
    "WHEN low < high AND x >= high OR low > high AND x <= high THEN n + 1 "
    "ELSE least(n, CAST(floor((x - low) * n / (high - low)) AS BIGINT) + 1) END",
    "CREATE MACRO top_k(x, n) AS list_transform(list_sort(list_transform(map_entries(histogram(x)), "
    "lambda e: {'w': -CAST(e.value AS BIGINT), 'k': e.key}))[:n], lambda e: e.k)",
)
"""What makes DuckDB's answers ours; `docs/semantics.md` has the reasons."""

WIDENED = (
    (("int8", "int16", "int32", "uint8", "uint16", "uint32"), "BIGINT"),
    (("uint64",), "DECIMAL(20, 0)"),
    (("halffloat", "float"), "DOUBLE"),
)
"""Arrow's types of narrow numbers, and the types in which DuckDB computes with them here."""


class DuckDB:
    """DuckDB, which computes as `docs/semantics.md` says."""

    name, dialect = "DuckDB", "duckdb"

    def __init__(self, engine: Engine) -> None:
        try:
            import duckdb
        except ImportError:
            raise EngineError(
                'Verifying in-process answers needs DuckDB: pip install "calitree[verify]".'
            ) from None
        self.engine = engine
        self.error = duckdb.Error
        self.connection = run(duckdb.connect)
        for definition in DEFINITIONS:
            self._execute(definition)

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        """Build the table `wide` by a query over some tables."""
        self.register_all(tables)
        self._execute(f"CREATE OR REPLACE TABLE wide AS {sql}")

    def register_all(self, tables: Mapping[str, Table]) -> None:
        """Let queries name some tables."""
        for name, table in tables.items():
            self._register(name, table)

    def _execute(self, sql: str) -> None:
        self._run(lambda: self.connection.execute(sql))

    def _answer(self, sql: str) -> pa.Table:
        return self._run(lambda: self.connection.sql(sql).to_arrow_table())

    def _run(self, call: Callable[[], Value]) -> Value:
        """What a call returns; Ctrl-C ends it. In the main thread DuckDB would answer that itself."""

        def stoppable() -> Value:
            stop = current()
            with nullcontext() if stop is None else stop.calling(self.connection.interrupt):
                return call()

        return run(stoppable)

    def _register(self, name: str, table: Table) -> None:
        files = _local_files(self.engine, table)
        if files and table.nbytes > MAX_BYTES_HERE:
            listed = ", ".join(f"'{file.replace(chr(39), chr(39) * 2)}'" for file in files)
            rows = f"read_parquet([{listed}])"
            schema = self._answer(f"FROM {rows} LIMIT 0").schema
        else:
            data = self.engine.arrow(table)
            self._run(lambda: self.connection.register(f"{name} here", data))
            rows, schema = quote(f"{name} here"), data.schema
        self._execute(widened_view(name, rows, schema))

    def ask(self, sql: str) -> pa.Table:
        """Answer a query over `wide`."""
        try:
            return self._answer(sql)
        except self.error as error:
            raise EngineError(f"DuckDB could not answer {sql!r}: {error}.") from error


def widened_view(name: str, rows: str, schema: pa.Schema) -> str:
    """The statement for a view of some rows, in which no number is narrow."""
    widened = [
        f"CAST({quote(field.name)} AS {wide}) AS {quote(field.name)}"
        for field in schema
        for narrow, wide in WIDENED
        if str(field.type) in narrow
    ]
    replaced = f" REPLACE ({', '.join(widened)})" if widened else ""
    return f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS SELECT *{replaced} FROM {rows}"


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


def settled_schema(wide: WideTable) -> Schema:
    """The graph of a tree, in which every relation is one table."""
    schema = wide.schema
    return schema.having(
        {
            name: replace(relation, table=settled(wide.engine, relation.table))
            for name, relation in schema.relations.items()
        }
    )


def runner_of(engine: Engine, tables: Iterable[Table]) -> SqlRunner:
    """What checks the answers that this engine gives from these tables."""
    given, spark = list(tables), on_spark(engine)
    if spark is None or not spark.is_on_spark(given):
        return DuckDB(engine)
    large = (table for table in given if not _local_files(engine, table))
    if find_spec("duckdb") is None or sum(table.nbytes for table in large) > MAX_BYTES_HERE:
        return _Spark(spark)
    return DuckDB(engine)


def _local_files(engine: Engine, table: Table) -> list[str]:
    """The Parquet files of a relation on this machine, if that is all it is."""
    source = engine.origin(table).source if isinstance(engine, Persistent) else None
    if source is None or source.place != "files":
        return []
    files = [file.path for file in source.files]
    plain = is_parquet(files) and not any(is_url(file) or "=" in file for file in files)
    return files if plain else []


def wide_sql(
    schema: Schema,
    relations: Iterable[str],
    attributes: Iterable[str],
    dialect: str,
    numbered: Sequence[str] = (),
) -> tuple[str, dict[str, Table]]:
    """The join of these relations with these attributes as its columns, and the tables it reads.

    Of those that are numbered it also has the number of the row.
    """
    joined = [name for name in schema.relations if name in set(relations)]
    aliases = {name: f"r{i}" for i, name in enumerate(joined)}
    schema = remaining_schema(schema, joined)
    chosen = []
    for attribute in attributes:
        owner, column = next(c for c in schema.attributes[attribute].columns if c[0] in aliases)
        source = column_sql(schema, aliases, (owner, column), dialect)
        chosen.append(f"{source} AS {quote(attribute, dialect=dialect)}")
    chosen += [
        f"{quote(aliases[name], ROW, dialect=dialect)} AS {quote(row_of(name), dialect=dialect)}"
        for name in numbered
    ]
    source = joined_sql(schema, aliases, dialect, numbered)
    sql = f"SELECT {', '.join(chosen) or '1 AS one'} {source}"
    return sql, {alias: schema.relations[name].table for name, alias in aliases.items()}


ROW = "row of it"
"""The number of a row in its relation, where its rows count once."""


def row_of(relation: str) -> str:
    """The column of the join that has it."""
    return f"row of {relation}"


def column_sql(schema: Schema, aliases: Mapping[str, str], column: ColumnName, dialect: str) -> str:
    """A column of a relation that has this alias; one that is derived as its definition."""
    owner, name = column
    definition = schema.relations[owner].derived.get(name)
    if definition is None:
        return quote(aliases[owner], name, dialect=dialect)

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return exp.column(node.name, aliases[owner], quoted=True)

    return f"({_text(definition.node.copy().transform(swap), dialect)})"


def _text(node: exp.Expr, dialect: str) -> str:
    return to_spark(node) if dialect == "spark" else with_values(node).sql(dialect)


def joined_sql(
    schema: Schema, aliases: Mapping[str, str], dialect: str, numbered: Sequence[str] = ()
) -> str:
    """FROM and the joins declared between some relations, given the alias of each."""

    def table(name: str) -> str:
        alias, as_of = quote(aliases[name], dialect=dialect), schema.matches.get(name)
        if as_of is not None:
            return f"({matches_sql(as_of, table, column, dialect)}) AS {alias}"
        if name not in numbered:
            return alias
        row = quote(ROW, dialect=dialect)
        return f"(SELECT *, row_number() OVER (ORDER BY 1) AS {row} FROM {alias}) AS {alias}"

    def column(relation: str, name: str) -> str:
        return column_sql(schema, aliases, (relation, name), dialect)

    def condition(join: Join) -> str:
        return located_condition(schema, join, dict(aliases), dialect)

    clause = from_clause(aliases, schema.declared_joins(aliases))
    return f"FROM {clause.sql(table, column, condition)}"


def attributes_of(query: Query) -> set[str]:
    """The attributes that a query needs of the wide table."""
    attributes = set(query.keep).union(*(predicate.attributes for predicate in query.where))
    for _, measure in query.measures:
        if measure.plain is not None:
            attributes |= {column.name for column in measure.plain.find_all(exp.Column)}
    return attributes - set(map(once_column, grains_of(query)))


def grains_of(query: Query) -> list[frozenset[str]]:
    """The grains of its measures."""
    measures = (measure for _, measure in query.measures)
    return list(dict.fromkeys(grain for measure in measures for grain in measure.grains))


def query_sql(query: Query, dialect: str) -> str:
    """A query as plain SQL over `wide`, whose columns are named by attributes."""
    text = partial(_text, dialect=dialect)

    def name(attribute: str) -> str:
        return quote(attribute, dialect=dialect)

    folded = {attribute: f"({text(e.node)})" for attribute, e in query.folded}
    grouped = {a: folded.get(a, name(a)) for _, a in query.group_by}
    columns = [f"{grouped[attribute]} AS {name(title)}" for title, attribute in query.group_by]
    for title, measure in query.measures:
        if measure.plain is None:
            raise EngineError(
                f"{title!r} is a measure of its own semiring; SQL has nothing to compare it with."
            )
        columns.append(f"{text(with_bounds(measure.plain))} AS {name(title)}")
    source = "wide"
    if query.where:
        source += f" WHERE {' AND '.join(f'({text(p.node)})' for p in query.where)}"
    for grain in grains_of(query):
        # In each group, one of the joined rows that repeat a row of the grain.
        rows = [name(row_of(relation)) for relation in sorted(grain)]
        by = ", ".join([*grouped.values(), *rows])
        first = f"row_number() OVER (PARTITION BY {by} ORDER BY 1) = 1"
        present = " AND ".join(f"{row} IS NOT NULL" for row in rows)
        once = name(once_column(grain))
        source = f"(SELECT *, {first} AND {present} AS {once} FROM {source})"
    sql = f"SELECT {', '.join(columns)} FROM {source}"
    if grouped:
        sql += f" GROUP BY {', '.join(grouped.values())}"
    return sql
