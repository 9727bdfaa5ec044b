"""The times in a question: the columns that have them, and what its groups and conditions make of these."""

from __future__ import annotations

from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import QueryError, did_you_mean
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.binder import Query, Question
from calitree.query.groups import named_groups
from calitree.query.shift.period import Period
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, typed
from calitree.sql.substitution import reference, substituted
from calitree.types import Kind

TRY = "group by a date or date_trunc('month', date), filter on a date, or give on='relation.column'"


class Times:
    """The groups and conditions of a question, as expressions over the columns that have its times.

    A declared column that is computed from a time stands for its definition. One that is a time, and is
    computed from something else (`cast(text as date)`), is a column like those that are stored.
    """

    def __init__(self, schema: Schema, question: Question, query: Query) -> None:
        self.joined = tuple(name for name in schema.relations if name in query.relations)
        self.schema = remaining_schema(schema, self.joined)
        self.question, self.query = question, query

    def resolve(self, table: str | None, name: str) -> Resolved:
        """What a column of the question's texts means."""
        return self.schema.resolve(table, name, self.joined)

    def kind(self, attribute: str) -> Kind:
        """The kind of an attribute."""
        return self.schema.attributes[attribute].kind

    def of_kind(self, expression: Expression, period: Period) -> list[str]:
        """The attributes of an expression that a period can move."""
        return sorted(a for a in expression.attributes if period.suits(self.kind(a)))

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        """The declared columns that are computed from a date or timestamp."""
        return {
            attribute: definition
            for name in self.joined
            for attribute, definition in self.schema.derived_of[name].items()
            if any(self.kind(source).is_temporal for source in definition.attributes)
        }

    @cached_property
    def groups(self) -> dict[str, Expression]:
        """What the question groups by, by name."""
        groups = {}
        for name, text in named_groups(self.question.group_by):
            given = self.schema.column_or_node(text, self.joined)
            if isinstance(given, Resolved):
                meaning = reference(given.attribute, given.owners, given.kind, text)
            else:
                meaning = typed(given, self.resolve)
            groups[name] = substituted(meaning, self.definitions)
        return groups

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions of the question, all of which must hold."""
        return tuple(substituted(part, self.definitions) for part in self.query.filters)

    def column(self, period: Period, by: str | None, on: str | None) -> str:
        """The attribute whose values are moved: of the group `by`, of the column `on`, or the only one."""
        attribute = self._named(period, by, on)
        if self.kind(attribute) is Kind.DATE and not period.is_whole("DAY"):
            raise QueryError(
                f"{attribute} has dates, and {period.text} is no whole number of days."
            )
        return attribute

    def _named(self, period: Period, by: str | None, on: str | None) -> str:
        named = {self._of_group(period, by)} if by is not None else set[str]()
        if on is not None:
            named.add(self._of_column(period, on))
        if len(named) > 1:
            raise QueryError(f"{by!r} is no group of {on!r}: give one of by= and on=.")
        if named:
            return named.pop()
        if period.steps:
            raise QueryError(
                f"Name the column of integers that is compared {period.text} before: by= for one that "
                "is grouped by, on= for one that is filtered on."
            )
        for expressions, what in ((self.groups.values(), "group by"), (self.conditions, "filter")):
            times = sorted({a for given in expressions for a in self.of_kind(given, period)})
            if len(times) > 1:
                raise QueryError(
                    f"The {what} of this question has several times: {', '.join(times)}. Say which "
                    f"one is compared, with on={times[0]!r}."
                )
            if times:
                return times[0]
        raise QueryError(f"This question has no time that could be compared: {TRY}.")

    def _of_group(self, period: Period, by: str) -> str:
        if not isinstance(by, str) or by not in self.groups:
            raise QueryError(f"{by!r} is not grouped by.{did_you_mean(str(by), self.groups)}")
        times = self.of_kind(self.groups[by], period)
        if len(times) != 1 or (period.steps and not isinstance(self.groups[by].node, exp.Column)):
            raise QueryError(self._unsuited(by, period))
        return times[0]

    def _of_column(self, period: Period, on: str) -> str:
        column = self.schema.column(on, self.joined)
        meaning = reference(column.attribute, column.owners, column.kind, on)
        times = self.of_kind(substituted(meaning, self.definitions), period)
        if len(times) != 1:
            raise QueryError(self._unsuited(on, period))
        return times[0]

    def _unsuited(self, name: str, period: Period) -> str:
        if period.steps:
            return f"{name!r} is no column of integers, so nothing is {period.text} before: give an interval."
        return f"{name!r} is no date or timestamp, nor computed from one: {TRY}."

    def timed(self, attribute: str, period: Period) -> tuple[str, ...]:
        """The groups whose values are times: these values, less the period, are those of other groups.

        They are the time itself, as it is, as a date, or truncated to a unit of which the period has a
        whole number.
        """
        timed = []
        for name, meaning in self.groups.items():
            units = _units(meaning.node, attribute)
            if units is None or (period.steps and units):
                continue
            if self.kind(attribute) is Kind.DATE:
                units.append("DAY")
            for unit in units if not period.steps else ():
                if not period.is_whole(unit):
                    example = "52 weeks" if unit == "WEEK" else f"1 {unit.lower()}"
                    raise QueryError(
                        f"{name!r} has starts of a {unit.lower()}, and {period.text} before one is none: "
                        f"give a whole number of {unit.lower()}s, such as {example!r}."
                    )
            timed.append(name)
        return tuple(timed)

    def is_known(self, attribute: str) -> bool:
        """Whether a condition compares the time, so that it is not NULL."""
        return any(_compares(condition.node, attribute) for condition in self.conditions)

    def refuse_moving_measures(self, attribute: str) -> None:
        """An error if a measure has a condition on the time, which is not moved with it."""
        of_time = {a for a, d in self.definitions.items() if attribute in d.attributes} | {
            attribute
        }
        for name, measure in self.query.measures:
            tests = () if measure.plain is None else measure.plain.find_all(*_TESTS)
            for test in tests:
                if any(column.name in of_time for column in test.find_all(exp.Column)):
                    raise QueryError(
                        f"Measure {name!r} has a condition on {attribute}, which would not be that of "
                        "an earlier time. Filter by where= instead."
                    )


COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
"""The operators that are NULL if an operand is."""
_TESTS = (exp.Filter, exp.Case, exp.If, exp.Predicate)


def _compares(node: exp.Expr, attribute: str) -> bool:
    if isinstance(node, exp.Paren):
        return _compares(node.this, attribute)
    if isinstance(node, exp.And):
        return _compares(node.left, attribute) or _compares(node.right, attribute)
    if not isinstance(node, COMPARISONS):
        return False
    sides = (
        side.expression if isinstance(side, exp.Extract) else side
        for side in (node.left, node.right)
    )
    return any(_units(side, attribute) is not None for side in sides)


def _units(node: exp.Expr, attribute: str) -> list[str] | None:
    """The units to which a time is truncated; None if the node is something else than that time."""
    units = []
    while not isinstance(node, exp.Column):
        kind = node.meta.get("kind", Kind.OTHER) if isinstance(node, exp.Cast) else Kind.OTHER
        if isinstance(node, exp.TimestampTrunc):
            units.append(node.text("unit").upper())
        elif kind is Kind.DATE:
            units.append("DAY")
        elif not (kind.is_temporal or isinstance(node, exp.Paren)):
            return None
        node = node.this
    return units if node.name == attribute else None
