"""Measures over a Python semiring: lifted by SQL or by Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calitree.engines.api.python_semiring import PythonSemiring
from calitree.errors import ExpressionError, cut
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate, Lift, PythonLift
from calitree.query.custom.python_value import PythonValue
from calitree.query.measure import Measure
from calitree.sql.nodes import column, marked
from calitree.sql.parser import Expression, parse_node, typed
from calitree.sql.quoting import name_text
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

Function = Callable[..., Any]
PythonLifts = Mapping[str, str | Function | tuple[Function, Sequence[str]]]
"""By relation: SQL, a function of the columns that its parameters are called by, or one of SQL."""


@dataclass(frozen=True)
class PythonMeasure:
    """A measure over a Python semiring, as `aggregate` returns it.

    Attributes:
        semiring: What the measure adds and multiplies.
        lifts: By relation, SQL, a function of columns, or a function and the SQL of its arguments.
        value: How an element becomes a value of the result.

    Example:
        >>> from calitree import aggregate, python_semiring
        >>> least = python_semiring("least", min, lambda a, b: a + b, zero=float("inf"), one=0)
        >>> aggregate(least, {"sales": "price"}).semiring.name
        'least'
    """

    semiring: PythonSemiring
    lifts: PythonLifts = field(hash=False)
    value: PythonValue

    def __call__(self, schema: Schema) -> Measure:
        """The measure over the columns of a join graph."""
        lifts = [_lift(self.semiring, name, given, schema) for name, given in self.lifts.items()]
        relations = [lift.relation for lift in lifts]
        for relation in relations:
            if relations.count(relation) > 1:
                raise ExpressionError(f"lifts names {relation} twice.")
        aggregate = Aggregate(self.semiring, frozenset(lifts))
        final = marked(column("a0"), Kind.OTHER)
        return Measure(self.semiring.name, (aggregate,), final, None, value=self.value)


def python_measure(
    semiring: PythonSemiring, lifts: PythonLifts, final: object, returns: pa.DataType | None
) -> PythonMeasure:
    """A measure over a Python semiring."""
    import pyarrow as pa

    if final is not None and not callable(final):
        raise ExpressionError(
            f"Semiring {semiring.name!r} is in Python: final= is a function of an element, not {final!r}."
        )
    if returns is not None and not isinstance(returns, pa.DataType):
        raise ExpressionError(
            f"returns= is an Arrow type, such as pyarrow.int64(); got {returns!r}."
        )
    return PythonMeasure(semiring, dict(lifts), PythonValue(final, returns))


def _lift(semiring: PythonSemiring, name: str, given: object, schema: Schema) -> Lift:
    relation = schema.relation(name).name

    def expression(text: str) -> Expression:
        return typed(
            parse_node(text),
            lambda table, column: schema.resolve(table or relation, column, (relation,)),
        )

    if isinstance(given, str):
        return Lift(relation, semiring, (expression(given),))
    function, texts = _function(relation, given)
    return PythonLift(relation, semiring, tuple(map(expression, texts)), function)


def _function(relation: str, given: object) -> tuple[Function, list[str]]:
    """A function and the SQL of its arguments."""
    function, texts = given, None
    if isinstance(given, tuple) and len(given) == 2:
        function, texts = given
    listed = texts is None or (
        isinstance(texts, Sequence)
        and not isinstance(texts, str)
        and all(isinstance(text, str) for text in texts)
    )
    if not callable(function) or not listed:
        raise ExpressionError(
            f"The lift of {relation} is SQL, a function of its columns, or a function and a list of the SQL "
            f"of its arguments; got {cut(repr(given))}."
        )
    if not isinstance(function, Hashable):
        raise ExpressionError(f"The lift of {relation} is a function that cannot be hashed.")
    return function, _parameters(relation, function) if texts is None else list(texts)


def _parameters(relation: str, function: Function) -> list[str]:
    """The columns that a function is called with: those that its parameters are called by."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in positional and p.default is p.empty]
    others = [p for p in parameters if p.kind not in positional and p.default is p.empty]
    if not named or others:
        raise ExpressionError(
            f"The parameters of the lift of {relation} do not say which columns it needs: give it with the SQL "
            'of its arguments, (function, ["price", …]).'
        )
    return list(map(name_text, named))
