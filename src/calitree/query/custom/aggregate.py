"""Measures over a semiring of the user's own: given by their lifts, not by SQL text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from calitree.engines.api.contraction import stored_parts
from calitree.engines.api.python_semiring import PythonSemiring
from calitree.engines.api.semiring import Semiring
from calitree.errors import ExpressionError, did_you_mean
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate, Lift
from calitree.query.custom.python_measure import PythonLifts, PythonMeasure, python_measure
from calitree.query.measure import Measure
from calitree.sql.analysis import Resolved
from calitree.sql.nodes import wider
from calitree.sql.parser import parse_node, typed
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

Lifts = Mapping[str, Mapping[str, str] | str]


@dataclass(frozen=True)
class CustomMeasure:
    """A measure over a semiring of the user's own, as `aggregate` returns it: data, so it can be saved.

    Attributes:
        semiring: What the measure adds and multiplies.
        lifts: By relation, an SQL expression for each component.
        final: An SQL formula over the components; None for the only one.

    Example:
        >>> from calitree import aggregate, semiring
        >>> measure = aggregate(semiring.AVG, {"sales": {"n": "1", "s": "price"}}, final="s / n")
        >>> measure.final
        's / n'
    """

    semiring: Semiring
    lifts: Lifts = field(hash=False)
    final: str | None

    def __call__(self, schema: Schema) -> Measure:
        """The measure over the columns of a join graph.

        Args:
            schema: The join graph.

        Returns:
            What to compute for it.

        Raises:
            ExpressionError: If a lift or the formula does not fit the graph or the semiring.

        Example:
            >>> from calitree import aggregate, semiring
            >>> measure = aggregate(semiring.MIN, {"sales": "price"})
            >>> measure(wide.schema).text
            'min: v'
        """
        semiring = self.semiring
        lifts = [_given_lift(semiring, name, given, schema) for name, given in self.lifts.items()]
        relations = [lift.relation for lift in lifts]
        for relation in relations:
            if relations.count(relation) > 1:
                raise ExpressionError(f"lifts names {relation} twice.")
        final = semiring.components[0] if self.final is None else self.final
        formula = typed(parse_node(final), lambda table, part: _component(part, semiring, lifts))
        aggregate = Aggregate(semiring, frozenset(lifts))
        return Measure(f"{semiring.name}: {final}", (aggregate,), formula.node, None)


def aggregate(
    semiring: Semiring,
    lifts: Lifts | PythonLifts,
    final: str | Callable[[Any], Any] | None = None,
    *,
    returns: pa.DataType | None = None,
) -> CustomMeasure | PythonMeasure:
    """A measure over a semiring of your own, to be given where SQL text is.

    Args:
        semiring: What to add and multiply.
        lifts: For each relation that has a value, an SQL expression over its columns, or
            `{component: expression}` if the semiring has several components. In a `python_semiring` it is
            an SQL expression (NULL is zero); or a function of the columns that its parameters are
            called by; or a function and the SQL of its arguments, `(function, ["price * 2", …])`.
        final: An SQL formula over the names of the components; needed if there are several. In a
            `python_semiring` a function of an element.
        returns: In a `python_semiring` the Arrow type of what `final` returns, or of the elements; the
            one that Arrow sees in the values if it is not given.

    Returns:
        The measure, for `JoinGraph.calibrate` or `WideTable.query`.

    Raises:
        ExpressionError: If an argument is of another type, or `final` is missing.

    Example:
        >>> from calitree import aggregate, semiring
        >>> mean = aggregate(semiring.AVG, {"sales": {"n": "1", "s": "price"}}, final="s / n")
        >>> wide.query(["city"], measures={"mean": mean}).rows()
        [{'city': 'Quito', 'mean': 15.0}, {'city': 'Cuenca', 'mean': 5.0}]
    """
    if not isinstance(semiring, Semiring):
        raise ExpressionError(f"aggregate needs a Semiring; got {type(semiring).__name__}.")
    if not isinstance(lifts, Mapping):
        raise ExpressionError(f"lifts is {{relation: expression}}; got {lifts!r}.")
    if isinstance(semiring, PythonSemiring):
        return python_measure(semiring, cast(PythonLifts, lifts), final, returns)
    _check_sql(semiring, lifts, final, returns)
    if final is None and len(semiring.components) > 1:
        listed = ", ".join(semiring.components)
        raise ExpressionError(
            f"Semiring {semiring.name!r} has several components: say final= over {listed}."
        )
    copied = {
        name: dict(given) if isinstance(given, Mapping) else given for name, given in lifts.items()
    }
    return CustomMeasure(semiring, cast(Lifts, copied), cast("str | None", final))


def _check_sql(
    semiring: Semiring, lifts: Mapping[str, Any], final: object, returns: object
) -> None:
    """Refuse Python where a semiring is data, which engines compile."""
    functions = [f"the lift of {name}" for name, given in lifts.items() if callable(given)]
    functions += ["final="] if callable(final) else []
    if functions or returns is not None:
        what = f"{functions[0]} is SQL" if functions else "its components have types of their own"
        raise ExpressionError(
            f"Semiring {semiring.name!r} is data: {what}. For functions of Python, and returns=, make it with "
            "calitree.python_semiring."
        )


def _given_lift(
    semiring: Semiring, name: str, given: Mapping[str, str] | str, schema: Schema
) -> Lift:
    relation = schema.relation(name).name
    if not isinstance(given, str | Mapping):
        raise ExpressionError(
            f"The lift of {relation} is an expression a component; got {given!r}."
        )
    values = {semiring.components[0]: given} if isinstance(given, str) else dict(given)
    for component in values:
        if component not in semiring.components:
            hint = did_you_mean(component, semiring.components)
            raise ExpressionError(
                f"Semiring {semiring.name!r} has no component {component!r}.{hint}"
            )
    missing = [component for component in semiring.components if component not in values]
    if missing:
        raise ExpressionError(f"The lift of {relation} says nothing of component {missing[0]!r}.")

    def resolve(table: str | None, column: str) -> Resolved:
        return schema.resolve(table or relation, column, (relation,))

    lift = tuple(typed(parse_node(values[name]), resolve) for name in semiring.components)
    for component, plus, value in zip(semiring.components, semiring.plus, lift, strict=True):
        kind = value.kind
        if plus == "sum" and not (kind.is_number or kind is Kind.NULL):
            raise ExpressionError(
                f"Component {component!r} is a sum, but {value} is {kind.phrase}."
            )
        if plus == "any" and kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError(
                f"Component {component!r} is a condition, but {value} is {kind.phrase}."
            )
    return Lift(relation, semiring, lift)


def _component(name: str, semiring: Semiring, lifts: Sequence[Lift]) -> Resolved:
    """A component in a user's formula: the column that holds its value."""
    if name not in semiring.components:
        listed = ", ".join(semiring.components)
        raise ExpressionError(f"final= may use only {listed}, not {name}.")
    index = semiring.components.index(name)
    kind = reduce(wider, (lift.expressions[index].kind for lift in lifts), Kind.NULL)
    if semiring.plus[index] == "any":
        kind = Kind.BOOLEAN
    elif kind in (Kind.NULL, Kind.INTEGER):
        # ⊗ may have mixed in other components, and a sum may be wider than 64 bits.
        kind = Kind.DECIMAL
    return Resolved(stored_parts("a0", semiring)[index], (), kind)
