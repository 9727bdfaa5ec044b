"""Text with many parentheses inside each other, parsed in segments.

A parser that calls itself for every parenthesis needs a stack as deep as the text. So what stands inside
many parentheses is parsed first, by itself, and has a name in the text around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from calitree.errors import ExpressionError

MAX_DEPTH = 8
"""Of the text that the parser gets at once."""
PLACE = "\ue001"
"""A letter of nobody's alphabet, with which the names of segments begin."""

_OPENED = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.L_BRACE: TokenType.R_BRACE,
    TokenType.CASE: TokenType.END,
}
_CLOSED = frozenset(_OPENED.values())
_BEFORE_AN_OPERAND = frozenset(
    (
        *(TokenType.L_PAREN, TokenType.COMMA, TokenType.CASE, TokenType.WHEN, TokenType.THEN),
        *(TokenType.ELSE, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.DPIPE),
        *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
        *(TokenType.DASH, TokenType.PLUS, TokenType.STAR, TokenType.SLASH, TokenType.MOD),
        *(TokenType.CARET, TokenType.BETWEEN, TokenType.WHERE),
    )
)
_CALLED = frozenset((TokenType.VAR, TokenType.IDENTIFIER, TokenType.LEFT, TokenType.RIGHT))
_AFTER_A_CALL = frozenset(
    (TokenType.FILTER, TokenType.OVER, TokenType.DOT, TokenType.L_PAREN, TokenType.L_BRACKET)
)


@dataclass
class _Group:
    """A parenthesis, bracket or CASE that is open: where it stands, and how deep those inside were."""

    start: int
    close: TokenType
    height: int = 0


Parse = Callable[[Sequence[Token]], exp.Expr]


def nesting_of(tokens: Sequence[Token]) -> int:
    """How many parentheses and CASEs are open at once, at most."""
    depth = deepest = 0
    for token in tokens:
        if token.token_type in _OPENED:
            depth += 1
            deepest = max(deepest, depth)
        elif token.token_type in _CLOSED:
            depth -= 1
    return deepest


class Segments:
    """The segments of one text, each parsed."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self._nodes: list[exp.Expr] = []

    def whole(self, tokens: Sequence[Token]) -> exp.Expr:
        """The node of all tokens, of which those deep inside others are parsed before them."""
        return self._parsed(self._shallow(tokens))

    def _parsed(self, tokens: Sequence[Token]) -> exp.Expr:
        root = exp.Paren(this=self._parse(tokens))
        for column in list(root.find_all(exp.Column)) if self._nodes else ():
            if column.name.startswith(PLACE):
                column.replace(self._nodes[int(column.name[1:])])
        node = root.this.pop()
        assert isinstance(node, exp.Expr)
        return node

    def _shallow(self, tokens: Sequence[Token]) -> list[Token]:
        kept: list[Token] = []
        groups: list[_Group] = []
        for at, token in enumerate(tokens):
            kept.append(token)
            kind = token.token_type
            if kind in _OPENED:
                groups.append(_Group(len(kept) - 1, _OPENED[kind]))
            elif groups and kind is groups[-1].close:
                group = groups.pop()
                height = 1 + group.height
                if height >= MAX_DEPTH:
                    after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
                    height = self._take_out(kept, group.start, height, after)
                if groups:
                    groups[-1].height = max(groups[-1].height, height)
        if len(groups) > MAX_DEPTH:
            raise ExpressionError("a parenthesis is not closed")
        if nesting_of(kept) > 3 * MAX_DEPTH:
            raise ExpressionError("lists or brackets are nested too deeply")
        return kept

    def _take_out(self, kept: list[Token], start: int, height: int, after: TokenType | None) -> int:
        """Replace the group at the end of the tokens by a name, if it is an operand by itself."""
        first, before = kept[start], kept[start - 1].token_type if start else TokenType.L_PAREN
        if first.token_type is TokenType.CASE and after not in _AFTER_A_CALL:
            kept[start:] = [self._named(kept[start:])]
            return 1
        if first.token_type is not TokenType.L_PAREN:
            return height
        if before in _BEFORE_AN_OPERAND:
            kept[start + 1 : -1] = [self._named(kept[start + 1 : -1])]
            return 1
        dotted = start > 1 and kept[start - 2].token_type is TokenType.DOT
        if before in _CALLED and after not in _AFTER_A_CALL and not dotted:
            kept[start - 1 :] = [self._named(kept[start - 1 :])]
            return 1
        return height

    def _named(self, tokens: Sequence[Token]) -> Token:
        node = self._parsed(tokens)
        while type(node) is exp.Paren and not node.meta.get("plus"):
            node = node.this
        self._nodes.append(node)
        name = Token.identifier(f"{PLACE}{len(self._nodes) - 1}")
        name.line, name.col = tokens[0].line, tokens[0].col
        name.start, name.end = tokens[0].start, tokens[-1].end
        return name
