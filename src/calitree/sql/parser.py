"""Scalar SQL text → a typed, normalised expression over attributes.

Text is parsed by `calitree.sql.dialect`, then resolved, typed and normalised by `calitree.sql.analyzer`.

An `Expression` is a value: two of them are equal when their canonical SQL is. That text is what
message keys consist of, so `items.family='DAIRY'` and `family = 'DAIRY'` use the same message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from calitree.errors import ExpressionError
from calitree.sql.analysis import Resolver
from calitree.sql.analyzer import normalise
from calitree.sql.dialect import Calitree
from calitree.sql.nodes import display, kind_of
from calitree.sql.text_lists import with_lists, without_lists
from calitree.types import Kind


@dataclass(frozen=True)
class Expression:
    """A scalar expression over attributes. Equality and hash are those of its canonical SQL."""

    sql: str
    node: exp.Expr = field(compare=False, repr=False)
    kind: Kind = field(compare=False)
    text: str = field(compare=False)
    attributes: frozenset[str] = field(compare=False)

    def __str__(self) -> str:
        return self.text


def parse_node(text: str) -> exp.Expr:
    """Parse the text of one expression; what is none is an `ExpressionError`."""
    if not isinstance(text, str):
        raise ExpressionError(f"Expected SQL text, got {type(text).__name__}: {text!r}.")
    dialect, (short, lists) = Calitree(), without_lists(text)
    try:
        tokens = dialect.tokenize(short)
        if tokens and tokens[0].token_type in (TokenType.SELECT, TokenType.WITH):
            raise ExpressionError(f"Expected an expression, not a whole query: {text!r}.")
        if any(token.token_type is TokenType.SEMICOLON for token in tokens):
            raise ExpressionError(f"Expected one expression, without a semicolon: {text!r}.")
        (node,) = dialect.parser().parse_into(exp.Condition, tokens, short) or [None]
    except SqlglotError as error:
        raise ExpressionError(f"Cannot parse {text!r}: {_reason(text, error)}.") from None
    if node is None:
        raise ExpressionError(f"Cannot parse {text!r}: it is empty.")
    opened, closed = (
        sum(token.token_type is parenthesis for token in tokens)
        for parenthesis in (TokenType.L_PAREN, TokenType.R_PAREN)
    )
    if opened != closed:  # which sqlglot does not see at the end of some functions
        raise ExpressionError(f"Cannot parse {text!r}: a parenthesis is not closed.")
    return with_lists(node, lists)


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


def typed(node: exp.Expr, resolve: Resolver) -> Expression:
    """The expression of a parsed node: its columns resolved, its types checked."""
    shown = node.sql()
    return expression_of(normalise(node, resolve), shown)


def expression_of(node: exp.Expr, text: str | None = None) -> Expression:
    """The expression of a node in canonical form: its columns have attribute names and owners."""
    sql = node.sql(normalize_functions="upper")
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
