"""Scalar SQL text → a typed, normalised expression over attributes.

Text is parsed by `sql.parsing.dialect`, then resolved, typed and normalised by `calitree.sql.analyzer`.

An `Expression` is a value: two of them are equal when their canonical SQL is. That text is what
message keys consist of, so `items.family='DAIRY'` and `family = 'DAIRY'` use the same message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import local

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from calitree.cache import cached_property
from calitree.errors import ExpressionError, shortened
from calitree.sql.analysis import Resolver
from calitree.sql.analyzer import normalise
from calitree.sql.limits import (
    MAX_CHAIN,
    MAX_CHARACTERS,
    MAX_OTHER_CHARACTERS,
    MAX_TOKENS,
    flaw_of,
    on_deep_stack,
)
from calitree.sql.nodes import display, kind_of, node_bytes, sql_text
from calitree.sql.parsing.chains import check_nesting, with_balanced_chains
from calitree.sql.parsing.dialect import Calitree
from calitree.sql.parsing.literal_lists import with_lists, without_lists
from calitree.sql.parsing.segments import MAX_DEPTH, Segments, nesting_of
from calitree.types import Kind

MAX_KEPT_CHARACTERS = 1_000
"""Of a text of which tokens may stay in memory until the thread parses another."""


class _Grammar(local):
    """What reads texts, for each thread: to make it takes as long as to read a short text."""

    def __init__(self) -> None:
        dialect = Calitree()
        self.tokenizer, self.parser = dialect.tokenizer(), dialect.parser()


_grammar = _Grammar()


@dataclass(frozen=True)
class Expression:
    """A scalar expression over attributes. Equality and hash are those of its canonical SQL."""

    sql: str
    node: exp.Expr = field(compare=False, repr=False)
    kind: Kind = field(compare=False)
    text: str = field(compare=False)
    attributes: frozenset[str] = field(compare=False)

    @cached_property
    def nbytes(self) -> int:
        """About how many bytes it takes, with its texts and lists."""
        return node_bytes(self.node) + 20 * len(self.sql) + len(self.text)

    def __str__(self) -> str:
        return self.text


def parse_node(text: str, max_tokens: int = MAX_TOKENS) -> exp.Expr:
    """Parse the text of one expression; what is none is an `ExpressionError`."""
    if not isinstance(text, str):
        raise ExpressionError(f"Expected SQL text, got {type(text).__name__}: {shortened(text)}.")
    try:
        return _parsed(text, max_tokens)
    except SqlglotError as error:
        reason = _reason(text, error)
    except ExpressionError as error:
        reason = str(error)
        if reason.endswith("."):
            raise
    raise ExpressionError(f"Cannot parse {shortened(text)}: {reason}.")


@on_deep_stack
def _parsed(text: str, max_tokens: int) -> exp.Expr:
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"it has more than {MAX_CHARACTERS:,} characters")
    flaw = flaw_of(text)
    if flaw:
        raise ExpressionError(flaw)
    short, lists = without_lists(text)
    if len(short) > MAX_OTHER_CHARACTERS:
        raise ExpressionError(f"it has more than {MAX_OTHER_CHARACTERS:,} characters")
    grammar = _grammar if len(short) <= MAX_KEPT_CHARACTERS else _Grammar()
    tokens = grammar.tokenizer.tokenize(short)
    if len(tokens) > max_tokens:
        raise ExpressionError(f"it has more than {max_tokens:,} names, values and operators")
    unclosed = _checked(tokens, text)

    def parse(part: Sequence[Token]) -> exp.Expr:
        (node,) = grammar.parser.parse_into(exp.Condition, list(part), short) or [None]
        if node is None:
            raise ExpressionError("it is empty")
        return node

    if len(tokens) <= 2 * MAX_DEPTH or nesting_of(tokens) <= MAX_DEPTH:
        node = parse(tokens)
    else:
        node = Segments(parse).whole(tokens)
    if unclosed > 0:  # which sqlglot does not see at the end of some functions
        raise ExpressionError("a parenthesis is not closed")
    if len(tokens) > MAX_CHAIN:
        node = with_balanced_chains(node)
        check_nesting(node)
    return with_lists(node, lists)


def _checked(tokens: Sequence[Token], text: str) -> int:
    """Refuse what is no single expression; the number of parentheses that are not closed."""
    if tokens and tokens[0].token_type in (TokenType.SELECT, TokenType.WITH):
        raise ExpressionError(f"Expected an expression, not a whole query: {shortened(text)}.")
    depth = 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise ExpressionError(
                f"Expected one expression, without a semicolon: {shortened(text)}."
            )
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        token.comments = []
    return depth


def _reason(text: str, error: SqlglotError) -> str:
    """The reason that sqlglot gives, without the names of its classes."""
    if not text.strip():
        return "it is empty"
    errors = getattr(error, "errors", None)
    if not errors:
        return "a quote or a comment is not closed"
    reason, at = errors[0]["description"], errors[0]["highlight"]
    if reason.startswith("Required keyword"):
        return f"something is missing at {at!r}"
    if reason.startswith("Invalid expression"):
        return f"{at!r} is unexpected"
    return f"{reason[0].lower()}{reason[1:]} at {at!r}"


def parse(text: str, resolve: Resolver) -> Expression:
    """Parse, resolve and type one scalar expression.

    >>> from calitree.sql.analysis import Resolved
    >>> resolve = lambda table, name: Resolved(f"{table}.{name}", (table,), Kind.INTEGER)
    >>> parse("a.x/a.y > 2", resolve).sql
    '(CAST("a.x" AS DOUBLE) / NULLIF(CAST("a.y" AS DOUBLE), 0)) > 2'
    """
    return typed(parse_node(text), resolve)


def parse_predicate(text: str, resolve: Resolver) -> tuple[Expression, ...]:
    """Parse a condition into its conjuncts; `a and b` filters the same rows as `a`, then `b`."""
    parts: dict[Expression, None] = {}
    for node in conjuncts(parse_node(text)):
        part = typed(node, resolve)
        if part.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError(
                f"A filter must be true or false, but {part.text!r} is {part.kind.phrase}."
            )
        parts[part] = None
    return tuple(parts)


@on_deep_stack
def typed(node: exp.Expr, resolve: Resolver) -> Expression:
    """The expression of a parsed node: its columns resolved, its types checked."""
    shown = sql_text(node)
    return expression_of(normalise(node, resolve), shown)


@on_deep_stack
def expression_of(node: exp.Expr, text: str | None = None) -> Expression:
    """The expression of a node in canonical form: its columns have attribute names and owners."""
    sql = sql_text(node)
    shown = text if text is not None else display(node)
    attributes = frozenset(column.name for column in node.find_all(exp.Column))
    return Expression(sql, node, kind_of(node), shown, attributes)


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a conjunction, parentheses removed."""
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    else:
        yield node
