"""The grammar of expressions: how operators bind in DuckDB and PostgreSQL.

From the loosest to the tightest:

    OR
    AND
    NOT
    IS [NOT] NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM    after a whole comparison
    =  <>  <  <=  >  >=                                   one of them: they do not chain
    [NOT] BETWEEN, IN, LIKE, ILIKE, SIMILAR TO, ~         only IN may be followed by another
    ||
    &  |  <<  >>                                          from the left, and ~ of a whole sum
    +  -
    *  /  %
    ^                                                     from the left
    + and - of one operand
    ::

So `a = b IS NULL` is `(a = b) IS NULL`, and `a = b = c` is refused. All else is sqlglot's DuckDB, but for the
functions that `calitree.sql.functions` has by name: these stay calls, whose arguments the rules read.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

from calitree.sql.constants import UNITS
from calitree.sql.functions import NAMES

_COMPARISONS = {**DuckDBParser.EQUALITY, **DuckDBParser.COMPARISON}
_RANGES = (
    *(TokenType.BETWEEN, TokenType.IN, TokenType.LIKE, TokenType.ILIKE),
    *(TokenType.GLOB, TokenType.SIMILAR_TO, TokenType.TILDE),
)
_TRUTHS = {TokenType.TRUE: exp.true, TokenType.FALSE: exp.false}
_SIGNS = (TokenType.DASH, TokenType.PLUS)
_BITS = {TokenType.AMP: exp.BitwiseAnd, TokenType.PIPE: exp.BitwiseOr}
_SHIFTS = {TokenType.LT: exp.BitwiseLeftShift, TokenType.GT: exp.BitwiseRightShift}
_DISTINCT = (exp.NullSafeEQ, exp.NullSafeNEQ)


class ExpressionParser(DuckDBParser):
    """sqlglot's parser, with the levels between AND and `::` as above."""

    UNARY_PARSERS: ClassVar = {
        TokenType.DASH: lambda self: self._signed(),
        TokenType.PLUS: lambda self: self._signed(),
        TokenType.TILDE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),
    }
    RANGE_PARSERS: ClassVar = {
        **DuckDBParser.RANGE_PARSERS,
        TokenType.TILDE: lambda self, this: self._matched(this),
    }
    FUNCTIONS: ClassVar = {
        name: build for name, build in DuckDBParser.FUNCTIONS.items() if name not in NAMES
    }

    def _warn_unsupported(self) -> None:
        """A statement is refused; sqlglot would log that it is one, and take it."""
        self.raise_error("This is no expression")

    def _signed(self) -> exp.Expr:
        """Signs, and an operand that must be a number."""
        signs = [self._prev.token_type]
        while self._match_set(_SIGNS):
            signs.append(self._prev.token_type)
        result = self._parse_unary()
        for sign in reversed(signs):
            if sign is TokenType.DASH:
                result = self.expression(exp.Neg(this=result))
            else:
                result = self.expression(exp.Paren(this=result))
                result.meta["plus"] = True
        assert result is not None
        return result

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """NOT, IS and one comparison; `parse_is` is sqlglot's, and of no effect."""
        negations = 0
        while self._match(TokenType.NOT):
            negations += 1
        this = self._truths()
        for _ in range(negations):
            this = self.expression(exp.Not(this=this))
        return this

    def _truths(self) -> exp.Expr | None:
        this = self._comparison()
        while self._curr.token_type in self.IS_PREDICATE_TOKENS:
            this = self._truth(this)
            if self._curr.token_type in _COMPARISONS:
                this = self._comparison(this)
        return this

    def _comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        this = this or self._parse_range()
        if not self._match_set(_COMPARISONS):
            return this
        operator = _COMPARISONS[self._prev.token_type]
        negated = self._curr.token_type is TokenType.NOT
        right = self._parse_equality() if negated else self._parse_range()
        if right is not None and self._curr.token_type in _COMPARISONS:
            self._refuse_chain()
        return self.expression(operator(this=_operand(this), expression=_operand(right)))

    def _truth(self, this: exp.Expr | None) -> exp.Expr:
        """`this`, and what follows it: IS, ISNULL, NOTNULL or NOT NULL."""
        negated = self._match(TokenType.NOTNULL)
        expected: exp.Expr = exp.Null()
        if not negated and not self._match(TokenType.ISNULL):
            is_ = self._match(TokenType.IS)
            negated = self._match(TokenType.NOT)
            if is_ and self._match_text_seq("DISTINCT", "FROM"):
                return self._distinct(exp.NullSafeEQ if negated else exp.NullSafeNEQ, this)
            if is_ and self._match_set(_TRUTHS):
                expected = _TRUTHS[self._prev.token_type]()
            elif not self._parse_null():
                self.raise_error(
                    "After IS comes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, not what stands"
                )
        test = self.expression(exp.Is(this=_operand(this), expression=expected))
        return self.expression(exp.Not(this=test)) if negated else test

    def _distinct(self, operator: type[exp.Binary], this: exp.Expr | None) -> exp.Expr:
        """IS [NOT] DISTINCT FROM a whole comparison."""
        if isinstance(this, _DISTINCT):
            self._refuse_chain()
        right = self._comparison()
        return self.expression(operator(this=_operand(this), expression=_operand(right)))

    def _refuse_chain(self) -> None:
        self.raise_error("Comparisons do not chain; put one in parentheses, or AND between two")

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        """BETWEEN, IN, LIKE and the like; `parse_is` is sqlglot's, and of no effect."""
        this = this or self._parse_bitwise()
        while self._range_ahead():
            if isinstance(this, exp.Predicate | exp.Not) and not isinstance(this, exp.In):
                self.raise_error("Parentheses are missing before this")
            negated = self._match(TokenType.NOT)
            self._advance()
            this = self.RANGE_PARSERS[self._prev.token_type](self, this)
            this = self._negate_range(this) if negated else this
        return this

    def _range_ahead(self) -> bool:
        ahead = self._next if self._curr.token_type is TokenType.NOT else self._curr
        return ahead.token_type in _RANGES

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        """The bounds, of which sqlglot would also take two without an AND."""
        symmetric = self._match_text_seq("SYMMETRIC")
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("An AND is missing after BETWEEN")
        between = exp.Between(
            this=this, low=low, high=self._parse_bitwise(), symmetric=symmetric or None
        )
        return self.expression(between)

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        """DATE '2020-01-31' and the like, which sqlglot would cast after a `::` behind it."""
        if (
            self._curr.token_type is TokenType.INTERVAL
            and self._next.token_type is TokenType.STRING
        ):
            return self._interval()
        if self._curr.token_type in self.TYPE_TOKENS:
            index = self._index
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(data_type, exp.DataType) and self._match(TokenType.STRING, advance=False):
                literal = self.expression(exp.Cast(this=self._parse_string(), to=data_type))
                return self._parse_column_ops(literal)
            self._retreat(index)
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _interval(self) -> exp.Expr:
        """INTERVAL '1 year 2 months', or INTERVAL '90' DAY."""
        self._advance()
        text, unit = self._parse_string(), None
        if self._curr.text.upper() in UNITS:
            unit = exp.var(self._curr.text.upper())
            self._advance()
        return self.expression(exp.Interval(this=text, unit=unit))

    def _matched(self, this: exp.Expr | None) -> exp.Expr:
        """What a regular expression is found in: `this ~ pattern`."""
        match = exp.Anonymous(this="REGEXP_MATCHES", expressions=[this, self._parse_bitwise()])
        return self.expression(match)

    def _parse_bitwise(self) -> exp.Expr | None:
        """||, and what is done with bits."""
        this = self._bits()
        while self._match(TokenType.DPIPE):
            this = self.expression(exp.DPipe(this=this, expression=self._bits()))
        return this

    def _bits(self) -> exp.Expr | None:
        this = self._parse_term()
        while operator := self._bit_operator():
            this = self.expression(operator(this=this, expression=self._parse_term()))
        return this

    def _bit_operator(self) -> type[exp.Binary] | None:
        if self._match_set(_BITS):
            return _BITS[self._prev.token_type]
        kind = self._curr.token_type
        if kind in _SHIFTS and self._match_pair(kind, kind):
            return _SHIFTS[kind]
        return None


class Calitree(Dialect):
    """The dialect of conditions, measures and derived columns: DuckDB's, as far as they go."""

    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True
    Parser = ExpressionParser

    class Tokenizer(tokens.Tokenizer):
        """What tokens stand for."""

        KEYWORDS: ClassVar = {
            **tokens.Tokenizer.KEYWORDS,
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
            "INT8": TokenType.BIGINT,
            **dict.fromkeys(("BPCHAR", "CHAR", "STRING", "VARCHAR"), TokenType.TEXT),
            **dict.fromkeys(("DATETIME", "TIMESTAMP"), TokenType.TIMESTAMPNTZ),
        }


def _operand(node: exp.Expr | None) -> exp.Expr | None:
    """An operand in parentheses, so that text written of the tree binds as the tree does."""
    return exp.Paren(this=node) if isinstance(node, exp.Not | exp.Predicate) else node
