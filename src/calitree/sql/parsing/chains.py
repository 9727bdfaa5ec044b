"""Long chains of one operator as balanced trees, and how deep an expression is.

`a OR b OR c …` is parsed into a tree as deep as the chain is long. What walks over expressions, here and in
Spark and DuckDB, calls itself for every level, so a long chain becomes a tree of which both sides are about
equally long. AND, OR and || mean the same however they are grouped, and so do + and * of whole numbers and
decimals; of doubles, a long sum or product is rounded in another order, and may leave their range elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.limits import MAX_CHAIN, MAX_NESTING, MAX_NODES

_CHAINS: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.And: (exp.And,),
    exp.Or: (exp.Or,),
    exp.DPipe: (exp.DPipe,),
    exp.Mul: (exp.Mul,),
    exp.Add: (exp.Add, exp.Sub),
    exp.Sub: (exp.Add, exp.Sub),
}
"""The operators that a chain of an operator may have."""

Term = tuple[bool, exp.Expr]
"""An operand of a chain, and whether it is subtracted."""


def balanced(
    operator: type[exp.Expr],
    operands: Sequence[exp.Expr],
    combine: Callable[[type[exp.Expr], exp.Expr, exp.Expr], exp.Expr],
) -> exp.Expr:
    """The operands of an associative operator combined, from the left if they are few."""
    return _combined(operator, [(False, operand) for operand in operands], combine)


def _combined(
    operator: type[exp.Expr],
    terms: Sequence[Term],
    combine: Callable[[type[exp.Expr], exp.Expr, exp.Expr], exp.Expr],
) -> exp.Expr:
    if len(terms) <= MAX_CHAIN:
        result = terms[0][1]
        for minus, term in terms[1:]:
            result = combine(exp.Sub if minus else operator, result, term)
        return result
    middle = len(terms) // 2
    left, right = terms[:middle], terms[middle:]
    minus = right[0][0]
    if minus:  # a - b + c is a - (b - c)
        right = [(not other, term) for other, term in right]
    return combine(
        exp.Sub if minus else operator,
        _combined(operator, left, combine),
        _combined(operator, right, combine),
    )


def with_balanced_chains(node: exp.Expr) -> exp.Expr:
    """A parsed node, each of whose long chains is a balanced tree."""
    root = exp.Paren(this=node)
    for top in list(root.find_all(*_CHAINS)):
        operators = _CHAINS[type(top)]
        if isinstance(top.parent, operators) and top.parent.this is top:
            continue
        terms, left = [], top
        while isinstance(left, operators):
            terms.append((isinstance(left, exp.Sub), left.expression))
            left = left.this
        if len(terms) >= MAX_CHAIN:
            terms.append((False, left))
            operator = exp.Add if isinstance(top, exp.Sub) else type(top)
            place, key, index = top.parent, top.arg_key, top.index
            assert place is not None and key is not None
            place.set(key, _combined(operator, terms[::-1], _grouped), index)
    result: exp.Expr = root.this.pop()
    return result


def _grouped(operator: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    if isinstance(right, _CHAINS[operator]):
        right = exp.Paren(this=right)
    return operator(this=left, expression=right)


def check_nesting(node: exp.Expr) -> None:
    """Refuse an expression that is nested too deeply, or is too large once it is written out."""
    level, depth = [node], 0
    parts: list[exp.Expr] = []
    while level:
        below: list[exp.Expr] = []
        for part in level:
            inner = _inner(part)
            parts.append(inner)
            below += inner.iter_expressions()
        level, depth = below, depth + 1
        if depth > MAX_NESTING + 2:  # a column and its name are no operators
            raise ExpressionError(
                f"operators, functions and CASEs are nested more than {MAX_NESTING} deep; split it"
            )
    sizes: dict[int, int] = {}
    for part in reversed(parts):
        own = [sizes[id(_inner(operand))] for operand in part.iter_expressions()]
        repeated = 0
        if part.this is not None and isinstance(part, exp.Between | exp.Case):
            times = len(part.args.get("ifs") or "-")
            repeated = times * sizes[id(_inner(part.this))]
        sizes[id(part)] = 1 + sum(own) + repeated
    if sizes[id(parts[0])] > 2 * MAX_NODES:  # names count here too
        raise ExpressionError(
            f"written out, it has more than {MAX_NODES:,} operators and operands; "
            "BETWEEN and CASE repeat what stands before them"
        )


def _inner(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
