"""A statement that the tree does not answer, run on the tables, plainly joined: slow, and any SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from calitree.apps.select.grammar import refused
from calitree.apps.select.sources.source import WIDE
from calitree.apps.verify.plain import DuckDB, runner_of, settled_schema
from calitree.apps.verify.verbatim import WrittenName, scope_sql
from calitree.errors import EngineError, StatementError
from calitree.jointree.schema import Schema, find_name
from calitree.query.binder import MeasureLike
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa


def plainly(wide: WideTable, query: exp.Query) -> pa.Table:
    """The answer of DuckDB on the relations as they are, and on their join if `wide` is asked.

    Raises:
        StatementError: It names other tables, or a measure that is not SQL.
        EngineError: DuckDB is not there or cannot run it, or the relations are too large to come here.
    """
    schema = settled_schema(wide)
    used = _tables(schema, query)
    runner = runner_of(wide.engine, [schema.relations[n].table for n in schema.relations])
    if not isinstance(runner, DuckDB):
        raise EngineError("The relations are on Spark, and too large to be joined here.")
    plain = query.copy().transform(_with_texts, wide.measures)
    runner.register_all({name: schema.relations[name].table for name in used})
    if WIDE not in schema.relations and any(_is_wide(t) for t in plain.find_all(exp.Table)):
        aliases = {t.alias_or_name.lower() for t in plain.find_all(exp.Table) if _is_wide(t)}
        scope = scope_sql(schema, tuple(schema.relations), _names(plain, aliases))
        if scope is None:
            raise refused("columns", "Not all columns of the statement are those of the join.")
        runner.build(*scope)
    try:
        return runner.ask(plain.sql(dialect="duckdb"))
    except EngineError as error:
        raise StatementError(str(error), "rest") from error


def _tables(schema: Schema, query: exp.Query) -> list[str]:
    """The relations that a statement names; an error if it reads anything else."""
    others = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    used = []
    for table in query.find_all(exp.Table):
        relation = find_name(table.name, schema.relations)
        if relation is not None and relation not in schema.matches:
            used.append(relation)
        elif not (_is_wide(table) or table.name.lower() in others) or not table.name:
            raise refused("tables", f"There is no table {table.sql()!r}.", table)
    return list(dict.fromkeys(used))


def _is_wide(table: exp.Table) -> bool:
    return table.name.lower() == WIDE


def _names(query: exp.Expr, aliases: set[str]) -> set[WrittenName]:
    """The columns that a statement names; those of `wide` without a table."""
    names = set[WrittenName]()
    for column in query.find_all(exp.Column):
        if not isinstance(column.this, exp.Star):
            table = column.table
            names.add((None if not table or table.lower() in aliases else table, column.name))
    known = {alias.alias for alias in query.find_all(exp.Alias)}
    return {(table, name) for table, name in names if table or name not in known}


def _with_texts(node: exp.Expr, measures: Mapping[str, MeasureLike]) -> exp.Expr:
    """MEASURE(name) as the text of the measure."""
    if not (isinstance(node, exp.Anonymous) and node.name.upper() == "MEASURE"):
        return node
    given = measures.get(node.expressions[0].name) if node.expressions else None
    if not isinstance(given, str):
        raise refused("measures", f"{node.sql()} is no measure in SQL.", node)
    return exp.paren(exp.maybe_parse(given, dialect="duckdb"))
