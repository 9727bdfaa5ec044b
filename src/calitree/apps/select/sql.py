"""`WideTable.sql`: SQL text, answered by the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.application import application
from calitree.apps.select.block import Direct
from calitree.apps.select.commands import command_of
from calitree.apps.select.fallback import plainly
from calitree.apps.select.finish import finished
from calitree.apps.select.grammar import parse_statement, refused, refused_at
from calitree.apps.select.parameters import Parameters, bind_parameters
from calitree.apps.select.rewriting import OverAnswers
from calitree.apps.select.statement import Statement
from calitree.cache import cached_property
from calitree.calibration.parts import plan_of_parts
from calitree.calibration.planning.plan import Plan
from calitree.errors import (
    STACK_USED_UP,
    CalitreeError,
    ExpressionError,
    QueryError,
    SchemaError,
    StatementError,
)
from calitree.query.binder import MeasureLike
from calitree.query.grain import GrainMeasure
from calitree.results.result import Result
from calitree.results.tabular import Tabular
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa


class SqlResult(Tabular):
    """The answer to a statement.

    Made by `WideTable.sql`.

    Attributes:
        results: What the tree was asked for it, each a `Result`.
        rest: The SQL that DuckDB ran on these answers; None if the answer is one of them.
        fallback: Why the tree did not answer, if it was run on the tables, plainly joined; else None.

    >>> wide.sql("SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s")
    city    s
    Cuenca  5
    Quito   30
    """

    def __init__(
        self,
        results: list[Result],
        table: pa.Table | None = None,
        rest: str | None = None,
        fallback: str | None = None,
    ) -> None:
        self.results, self.rest, self.fallback, self._table = results, rest, fallback, table

    @cached_property
    def _arrow(self) -> pa.Table:
        return self.results[0].arrow() if self._table is None else self._table

    @cached_property
    def plan(self) -> Plan:
        """How the tree answered: what was reused and what was computed, with rows and times."""
        return _plan([result.plan for result in self.results])

    @property
    def exact(self) -> bool:
        """Whether every answer of the tree is exact; see `Result.exact`."""
        return all(result.exact for result in self.results)


@application
def sql(
    wide: WideTable,
    text: str,
    parameters: Parameters | None = None,
    *,
    dialect: str | None = None,
    fallback: bool = False,
    **named: Any,
) -> SqlResult:
    """Answer an SQL query.

    A SELECT is about the join of all tables, which is called `wide`, or about tables of the graph, joined as
    the graph joins them. Its groups and aggregates are answered by the tree, and what a statement makes of
    these (HAVING, ORDER BY, LIMIT, window functions, WITH, UNION, queries in FROM) by DuckDB.

    Args:
        wide: The wide table.
        text: One SELECT, in which `MEASURE(name)` is a declared measure; also EXPLAIN [ANALYZE] of one,
            SHOW TABLES, SHOW MEASURES, and DESCRIBE of a table or of `wide`.
        parameters: Values for `?` in order, or for `$name` by name; these may also be given as arguments.
        dialect: The dialect that the text is in, as sqlglot calls it; DuckDB's by default.
        fallback: Whether a statement that the tree does not answer is run on the tables, plainly joined.
        named: Values for `$name`.

    Returns:
        The answer, with the plan of what the tree was asked.

    Raises:
        StatementError: The text does not parse, or the tree does not answer it.

    >>> wide.sql("SELECT city, MEASURE(revenue) AS r FROM wide WHERE price > $p GROUP BY ALL", p=5).rows()
    [{'city': 'Quito', 'r': 30}]
    """
    if parameters is not None and named:
        raise StatementError("Give parameters in one way, not in two.", "parameters")
    given: Parameters = named if parameters is None else parameters
    known = wide.state.statements.get(key := _key(text, dialect, given))
    if known is not None:
        return _answer_direct(wide, known)
    try:
        command = command_of(text)
        if command is not None:
            return SqlResult([], command(wide, partial(_explained, wide, dialect, given)))
        query = bind_parameters(parse_statement(text, dialect), given)
        statement = _statement(then := wide.at(wide.version))
        try:
            with _placing_errors(then, statement, text):
                return _answer(then, statement, query, key)
        except ERRORS as error:
            if not fallback:
                raise
            return SqlResult([], plainly(wide, query), query.sql("duckdb"), str(error))
    except RecursionError:
        raise StatementError(STACK_USED_UP, "syntax") from None


def _key(text: str, dialect: str | None, given: Parameters) -> object:
    """What a statement is recognised by; None if a value is of no hashable type."""
    values = tuple(given.items()) if isinstance(given, Mapping) else tuple(given)
    key = text, dialect, tuple(map(repr, values))
    return key if isinstance(text, str) and sum(map(len, key[2])) < MAX_KEY else None


MAX_KEY = 10_000
"""Characters of the values of a statement that is recognised."""


def _statement(wide: WideTable) -> Statement:
    def answered(query: exp.Query) -> pa.Table:
        inner = _statement(wide)
        rest = inner.rewritten(query)
        return _finish(inner, rest, _asked(wide, inner))

    default = wide.state.grain
    measures: dict[str, MeasureLike] = {
        name: GrainMeasure(given, default) if default and isinstance(given, str) else given
        for name, given in wide.measures.items()
    }
    return Statement(wide.schema, measures, answered)


ERRORS = QueryError, ExpressionError, SchemaError
"""Those of a question."""


@contextmanager
def _placing_errors(wide: WideTable, statement: Statement, text: str) -> Iterator[None]:
    """Errors of questions tell where in the text it stands what they are about."""
    try:
        yield
    except ERRORS as error:
        if isinstance(error, StatementError) and error.line is not None:
            raise
        reason = error.reason if isinstance(error, StatementError) else "expressions"
        for node in _wrong_parts(wide, statement):
            placed = refused(reason, str(error), node)
            if placed.line is not None:
                raise placed from error
        raise refused_at(reason, str(error), text, 0) from error


def _wrong_parts(wide: WideTable, statement: Statement) -> Iterator[exp.Expr]:
    """The parts of a statement that cannot be asked for even by themselves."""
    for block in statement.blocks:
        for node, question in block.parts():
            try:
                wide.plan(*question)
            except CalitreeError:
                yield node


def _answer(wide: WideTable, statement: Statement, query: exp.Query, key: object) -> SqlResult:
    """Answer a statement at one version of the tree."""
    direct = statement.direct(query)
    if direct is not None:
        wide.state.statements.put(key, direct)
        return _answer_direct(wide, direct)
    rest = statement.rewritten(query.copy())
    answers = _asked(wide, statement)
    table = _finish(statement, rest, answers)
    results = [result for given in answers.values() for result in given]
    return SqlResult(results, table, rest.sql(dialect="duckdb"))


def _answer_direct(wide: WideTable, direct: Direct) -> SqlResult:
    result = _without(wide, direct.deleted).ask(direct.question)
    if direct.in_order:
        return SqlResult([result])
    return SqlResult([result], result.arrow().select(list(direct.columns)))


def _asked(wide: WideTable, statement: Statement) -> dict[str, list[Result]]:
    answers = {}
    for name, over in statement.asked.items():
        there = _without(wide, over.deleted)
        answers[name] = [there.ask(question) for question in over.questions]
    return answers


def _without(wide: WideTable, deleted: Mapping[str, str]) -> WideTable:
    return wide.what_if(delete=deleted) if deleted else wide


def _finish(statement: Statement, rest: exp.Query, answers: Mapping[str, list[Result]]) -> pa.Table:
    tables = {name: _stacked(over, answers[name]) for name, over in statement.asked.items()}
    return finished(rest.sql(dialect="duckdb"), tables)


def _stacked(over: OverAnswers, results: list[Result]) -> pa.Table:
    """The answers one below the other; groups that a set lacks are NULL."""
    import pyarrow as pa

    tables = []
    for result, constants in zip(results, over.constants, strict=True):
        table = result.arrow()
        for name, value in constants.items():
            table = table.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), len(table)))
        tables.append(table)
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def _explained(
    wide: WideTable, dialect: str | None, given: Parameters, text: str, run: bool
) -> Plan:
    """The plan of a statement, which is run or not."""
    query = bind_parameters(parse_statement(text, dialect), given)
    then = wide.at(wide.version)
    statement = _statement(then)
    with _placing_errors(then, statement, text):
        if run:
            return _answer(then, statement, query, None).plan
        direct = statement.direct(query)
        if direct is not None:
            return _without(then, direct.deleted).plan(*direct.question)
        statement.rewritten(query)
        asked = [
            (_without(then, over.deleted), question)
            for over in statement.asked.values()
            for question in over.questions
        ]
        return _plan([there.plan(*question) for there, question in asked])


def _plan(plans: list[Plan]) -> Plan:
    if not plans:
        raise StatementError("The statement asks nothing of the tree.", "plan")
    return plans[0] if len(plans) == 1 else plan_of_parts(plans)
