"""Measures over a semiring of the user's own: given by their lifts, not by SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from calitree.engines.api.contraction import stored_parts
from calitree.engines.api.semiring import Semiring
from calitree.errors import ExpressionError, did_you_mean
from calitree.jointree.schema import Schema
from calitree.query.aggregates import Measure
from calitree.query.annotation import Aggregate, Lift
from calitree.sql.analysis import Resolved
from calitree.sql.nodes import wider
from calitree.sql.parser import parse_node, typed
from calitree.types import Kind

Lifts = Mapping[str, Mapping[str, str] | str]


@dataclass(frozen=True)
class CustomMeasure:
    """A measure as `aggregate` was told it: data, so that it can be saved."""

    semiring: Semiring
    lifts: Lifts = field(hash=False)
    final: str | None

    def __call__(self, schema: Schema) -> Measure:
        """The measure over the columns of this graph."""
        semiring = self.semiring
        made = [_given_lift(semiring, name, given, schema) for name, given in self.lifts.items()]
        relations = [lift.relation for lift in made]
        for relation in relations:
            if relations.count(relation) > 1:
                raise ExpressionError(f"lifts names {relation} twice.")
        name = semiring.components[0] if self.final is None else self.final
        formula = typed(parse_node(name), lambda table, part: _component(part, semiring, made)).node
        shown = f"{semiring.name}: {name}"
        return Measure(shown, (Aggregate(semiring, frozenset(made)),), formula, None)


def aggregate(semiring: Semiring, lifts: Lifts, final: str | None = None) -> CustomMeasure:
    """A measure over a semiring of your own, to be given where SQL text is.

    `lifts` gives, for each relation that has one, an SQL expression a component; `final` is a
    formula over the component names (needed where there are several).

    >>> from calitree import semiring
    >>> mean = aggregate(semiring.AVG, {"sales": {"n": "1", "s": "price"}}, final="s / n")
    """
    if not isinstance(semiring, Semiring):
        raise ExpressionError(f"aggregate needs a Semiring; got {type(semiring).__name__}.")
    if not isinstance(lifts, Mapping):
        raise ExpressionError(f"lifts is {{relation: expression}}; got {lifts!r}.")
    if final is None and len(semiring.components) > 1:
        listed = ", ".join(semiring.components)
        raise ExpressionError(
            f"Semiring {semiring.name!r} has several components: say final= over {listed}."
        )

    copied = {
        name: dict(given) if isinstance(given, Mapping) else given for name, given in lifts.items()
    }
    return CustomMeasure(semiring, copied, final)


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

    found = tuple(typed(parse_node(values[each]), resolve) for each in semiring.components)
    for component, plus, value in zip(semiring.components, semiring.plus, found, strict=True):
        kind = value.kind
        if plus == "sum" and not (kind.is_number or kind is Kind.NULL):
            raise ExpressionError(
                f"Component {component!r} is a sum, but {value} is {kind.phrase}."
            )
        if plus == "any" and kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError(
                f"Component {component!r} is a condition, but {value} is {kind.phrase}."
            )
    return Lift(relation, semiring, found)


def _component(name: str, semiring: Semiring, lifts: Sequence[Lift]) -> Resolved:
    """In a user's formula: the column that a component is found under."""
    if name not in semiring.components:
        listed = ", ".join(semiring.components)
        raise ExpressionError(f"final= may use only {listed}, not {name}.")
    place = semiring.components.index(name)
    kind = reduce(wider, (lift.expressions[place].kind for lift in lifts), Kind.NULL)
    if semiring.plus[place] == "any":
        kind = Kind.BOOLEAN
    elif kind in (Kind.NULL, Kind.INTEGER):
        # ⊗ may have mixed in other components, and a sum may be wider than 64 bits.
        kind = Kind.DECIMAL
    return Resolved(stored_parts("a0", semiring)[place], (), kind)
