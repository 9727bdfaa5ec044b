"""The text of a statement as a parsed tree, and where in the text a part of it stands."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from calitree.errors import StatementError, did_you_mean, shortened
from calitree.sql.limits import MAX_OTHER_CHARACTERS, flaw_of, on_deep_stack
from calitree.sql.parsing.dialect import ExpressionParser

NESTED = (exp.Query,)
"""What has columns of its own."""


class StatementParser(ExpressionParser):
    """The grammar of statements, in which grouping sets are of any expressions."""

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
        for token, kind in ((TokenType.CUBE, exp.Cube), (TokenType.ROLLUP, exp.Rollup)):
            if self._match(token):
                listed = [] if with_prefix else self._parse_wrapped_csv(self._parse_disjunction)
                return self.expression(kind(expressions=listed))
        return None

    def _parse_grouping_set(self) -> exp.Expr | None:
        nested = self._parse_grouping_sets() or self._parse_cube_or_rollup()
        return nested or self._parse_disjunction()


class Statements(DuckDB):
    """The dialect of `WideTable.sql`: DuckDB's, with expressions that bind as in conditions and measures."""

    Parser = StatementParser


def parse_statement(text: str, dialect: str | None) -> exp.Query:
    """The query that a text is.

    Raises:
        StatementError: It does not parse, is no query, or is several.
    """
    if not isinstance(text, str):
        raise StatementError(f"Expected SQL text, got {type(text).__name__}.", "syntax")
    flaw = flaw_of(text)
    if flaw is None and len(text) > MAX_OTHER_CHARACTERS:
        flaw = f"it has more than {MAX_OTHER_CHARACTERS:,} characters"
    if flaw:
        raise StatementError(f"Cannot parse {shortened(text)}: {flaw}.", "syntax")
    if dialect is not None and dialect != "duckdb":
        text = _transpiled(text, dialect)
    statements = _parsed(text)
    if len(statements) != 1:
        given = "none" if not statements else f"{len(statements)}"
        raise StatementError(f"Expected one statement, got {given}.", "syntax")
    (statement,) = statements
    if not isinstance(statement, exp.Query):
        kind = text.split(None, 1)[0].upper()
        raise StatementError(
            f"{shortened(kind)} is not answered here: a statement is a SELECT, perhaps with WITH or UNION.",
            "statement",
        )
    return statement


def _transpiled(text: str, dialect: str) -> str:
    known = {name for name in Dialect.classes if name}
    if dialect not in known:
        raise StatementError(
            f"There is no dialect {shortened(dialect)}.{did_you_mean(str(dialect), known)}",
            "syntax",
        )
    try:
        return ";".join(sqlglot.transpile(text, read=dialect, write="duckdb"))
    except SqlglotError as error:
        raise _syntax_error(text, error) from None


@on_deep_stack
def _parsed(text: str) -> list[exp.Expr]:
    try:
        parts = sqlglot.parse(text, dialect=Statements)
        return [p for p in parts if p is not None and not isinstance(p, exp.Semicolon)]
    except SqlglotError as error:
        raise _syntax_error(text, error) from None


def _syntax_error(text: str, error: SqlglotError) -> StatementError:
    errors = error.errors if isinstance(error, ParseError) else []
    if not errors:
        return StatementError(
            f"Cannot parse {shortened(text)}: a quote or a comment is not closed.", "syntax"
        )
    first = errors[0]
    reason, _, _ = first["description"].partition(" but got <")
    line, column = first["line"], first["col"]
    at = first["highlight"] or ""
    where = f" at {shortened(at)}" if at else ""
    return StatementError(
        f"Cannot parse the statement (line {line}, column {column}): "
        f"{reason[0].lower()}{reason[1:].rstrip('.')}{where}.",
        "syntax",
        line,
        column,
    )


def refused(reason: str, text: str, node: exp.Expr | None = None) -> StatementError:
    """The error for a part of a statement, which says where that stands."""
    place = None if node is None else _place(node)
    if place is None:
        return StatementError(text, reason)
    line, column = place
    return StatementError(f"{text} (line {line}, column {column})", reason, line, column)


def _place(node: exp.Expr) -> tuple[int, int] | None:
    """The line and column at which a part of a statement begins."""
    places = [
        (part.meta["start"], part.meta["line"], part.meta["col"])
        for part in node.walk()
        if "start" in part.meta and "line" in part.meta
    ]
    if not places:
        return None
    start, line, column = min(places)
    length = next(
        part.meta["end"] - part.meta["start"]
        for part in node.walk()
        if part.meta.get("start") == start
    )
    return line, column - length  # of what sqlglot has, the column is that of its end


def own_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a node that are not those of a query inside of it, which is given itself."""
    yield from node.walk(prune=lambda part: part is not node and isinstance(part, NESTED))
