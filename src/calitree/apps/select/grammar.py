"""The text of a statement as a parsed tree, and where in the text a part of it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from calitree.errors import StatementError, did_you_mean, shortened
from calitree.sql.limits import MAX_OTHER_CHARACTERS, flaw_of, on_deep_stack
from calitree.sql.parsing.dialect import ExpressionParser

NESTED = (exp.Query,)
"""What has columns of its own."""


Parse = Callable[[Parser], exp.Expr | None]


def _with_places(parsers: Mapping[TokenType, Parse]) -> dict[TokenType, Parse]:
    """How parameters are parsed, such that they know where they stand."""

    def placed(parse: Parse) -> Parse:
        def with_place(parser: Parser) -> exp.Expr | None:
            token, node = parser._prev, parse(parser)
            return node if node is None else node.update_positions(token)

        return with_place

    return {token: placed(parse) for token, parse in parsers.items()}


_ODD = re.compile("[\0\ud800-\udfff]")
"""Characters that no text of SQL has."""


class StatementParser(ExpressionParser):
    """The grammar of statements, in which grouping sets are of any expressions."""

    PLACEHOLDER_PARSERS = _with_places(ExpressionParser.PLACEHOLDER_PARSERS)

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
        odd = _ODD.search(text)
        offset = min(len(text), MAX_OTHER_CHARACTERS) if odd is None else odd.start()
        raise refused_at("syntax", f"Cannot parse {shortened(text)}: {flaw}.", text, offset)
    if dialect is not None and dialect != "duckdb":
        text = _transpiled(text, dialect)
    statements = _parsed(text)
    if not statements:
        raise refused_at("syntax", "Expected one statement, got none.", text, 0)
    if len(statements) > 1:
        several = f"Expected one statement, got {len(statements)}."
        raise refused_at("syntax", several, text, text.index(";"))
    (statement,) = statements
    if not isinstance(statement, exp.Query):
        kind = text.split(None, 1)[0]
        raise refused_at(
            "statement",
            f"{shortened(kind.upper())} is not answered here: a statement is a SELECT, perhaps with WITH or "
            "UNION.",
            text,
            text.index(kind),
        )
    for part in statement.find_all(exp.Tuple):
        if len(part.expressions) == 1 and not isinstance(part.parent, exp.Values | exp.Distinct):
            # As text it would be the value itself.
            one = "A tuple of one value is not supported here; leave out the comma."
            raise refused("syntax", one, part)
    return statement


def _transpiled(text: str, dialect: str) -> str:
    known = {name for name in Dialect.classes if name}
    if dialect not in known:
        raise StatementError(
            f"There is no dialect {shortened(dialect)}.{did_you_mean(str(dialect), known)}",
            "syntax",
        )
    other = Dialect.get_or_raise(dialect)
    parameters = _with_places(other.parser_class.PLACEHOLDER_PARSERS)
    grammar = type("Grammar", (other.parser_class,), {"PLACEHOLDER_PARSERS": parameters})
    try:
        parts = grammar(dialect=other).parse(other.tokenize(text), text)
        return ";".join(part.sql("duckdb") for part in map(_numbered, parts) if part is not None)
    except SqlglotError as error:
        raise _syntax_error(text, error) from None


@on_deep_stack
def _parsed(text: str) -> list[exp.Expr]:
    try:
        parts = map(_numbered, sqlglot.parse(text, dialect=Statements))
        return [p for p in parts if p is not None and not isinstance(p, exp.Semicolon)]
    except SqlglotError as error:
        raise _syntax_error(text, error) from None


def _numbered(statement: exp.Expr | None) -> exp.Expr | None:
    """The statement, whose parameters `?` are `$1`, `$2` and so on in the order of the text.

    In the tree they are in another: the queries of WITH come last.
    """
    if statement is not None:
        marks = [mark for mark in statement.find_all(exp.Placeholder) if mark.name == "?"]
        for at, mark in enumerate(sorted(marks, key=lambda mark: int(mark.meta["start"])), start=1):
            mark.set("this", str(at))
    return statement


def _syntax_error(text: str, error: SqlglotError) -> StatementError:
    errors = error.errors if isinstance(error, ParseError) else []
    if not errors:
        unclosed = f"Cannot parse {shortened(text)}: a quote or a comment is not closed."
        return refused_at("syntax", unclosed, text, len(text))
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
    return StatementError(text, reason) if place is None else _refused(reason, text, *place)


def refused_at(reason: str, text: str, statement: str, offset: int) -> StatementError:
    """The error for what stands at an offset of the text of a statement."""
    before = statement[:offset]
    column = offset - before.rfind("\n")
    return _refused(reason, text, before.count("\n") + 1, column)


def _refused(reason: str, text: str, line: int, column: int) -> StatementError:
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
