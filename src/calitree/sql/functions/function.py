"""What is known of one scalar function or operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from calitree.sql.analysis import Rule
from calitree.sql.rules.signatures import call
from calitree.types import Kind


class Function(NamedTuple):
    """What is known of one class of nodes, or of the calls of one function by name."""

    usage: str
    """How it is written, as in `lpad(text, length, padding)`."""
    about: str
    """What it gives, in one line."""
    rule: Rule
    """Types a parsed node and gives its canonical form, which may be of another class."""
    kernel: str = ""
    """The Arrow kernel: a file in `sql/kernels/` and a function in it. Classes that no canonical form
    has need none, nor do those that `calitree.sql.evaluator` evaluates itself."""
    operands: tuple[str, ...] = ("this",)
    """The arguments of the node that are evaluated and passed to the kernel."""
    options: tuple[Callable[[exp.Expr], object], ...] = ()
    """The other parameters of the kernel: constants, each read from the node."""
    result: Kind | None = None
    """The kind of its value; None where that depends on the arguments."""
    strict: bool = True
    """The value is NULL where an operand is NULL, and the kernel never gets the constant NULL."""
    can_fail: bool = False
    """Whether some values are an error, so that CASE must not compute it where it is not wanted."""
    bound: int = 1 << 63
    """No whole number that it gives is larger."""
    spark: Callable[[exp.Expr], str | None] | str | None = None
    """The text for Spark, or a form of it with the operands as {0}, {1} …, `{1:int}` for 32 bits. None, and a
    text that is None, is the one that sqlglot writes."""


BINARY = ("this", "expression")
VARIADIC = ("this", "expressions")
CALL = ("expressions",)


def named(
    usage: str,
    about: str,
    kinds: tuple[Kind, ...],
    result: Kind,
    kernel: str,
    *,
    optional: int = 0,
    can_fail: bool = False,
    bound: int = 1 << 63,
    spark: Callable[[exp.Expr], str | None] | str | None = None,
) -> Function:
    """A function that is called by its name, of arguments of these kinds; the last ones may be optional."""
    rule = call(*kinds, result=result, optional=optional)
    return Function(
        usage,
        about,
        rule,
        kernel,
        CALL,
        result=result,
        can_fail=can_fail,
        bound=bound,
        spark=spark,
    )


def rewritten(usage: str, about: str, rule: Rule, result: Kind | None = None) -> Function:
    """A function by name that is others, written out."""
    return Function(usage, about, rule, result=result)
