"""Functions of text."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import paren
from calitree.types import Kind

SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What TRIM removes: every character that Unicode calls a space; tabs and line ends are none."""


def textual(analysis: Analysis, node: exp.Expr) -> Pair:
    name = type(node).__name__.upper()
    if node.args.get("expression"):
        raise analysis.fail(f"{name} takes one argument; it removes spaces")
    return type(node)(this=analysis.string(node.this, name)), (
        Kind.INTEGER if isinstance(node, exp.Length) else Kind.STRING
    )


def substring(analysis: Analysis, node: exp.Expr) -> Pair:
    result = exp.Substring(this=analysis.string(node.this, "SUBSTRING"))
    for key in ("start", "length"):
        bound = node.args.get(key)
        if bound is not None:
            if not (isinstance(bound, exp.Literal) and bound.is_int and int(bound.name) > 0):
                raise analysis.fail("SUBSTRING takes positive whole numbers")
            result.set(key, bound.copy())
    return result, Kind.STRING


def concatenation(analysis: Analysis, node: exp.Binary) -> Pair:
    return exp.DPipe(
        this=paren(analysis.string(node.left, "||")),
        expression=paren(analysis.string(node.right, "||")),
    ), Kind.STRING
