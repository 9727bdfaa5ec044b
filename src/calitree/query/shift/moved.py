"""A question in which a time is moved: every row counts as if it were later by a period.

A condition on the time, and a group that is computed from it, are asked of the time plus the period. So
`year(day) = 2013` chooses the rows of 2012, of which `month(day)` and all else is what it is a year later.
Where a time is compared with a constant, that is the constant less the period, if both mean the same: then
it is the question that one would write.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlglot import exp

from calitree.query.binder import Question
from calitree.query.carried.holistic_call import text_of
from calitree.query.groups import named_groups
from calitree.query.shift.period import Period
from calitree.query.shift.times import COMPARISONS, Times
from calitree.sql.analysis import Resolved, Resolver
from calitree.sql.limits import on_deep_stack
from calitree.sql.parser import parse_node
from calitree.types import Kind

LAST_OF_ALL_MONTHS = 28
"""The first day on which a month may end: some months later, other days may be the same."""


class Moved:
    """The texts of a question, of which the time in one attribute is moved."""

    def __init__(self, times: Times, attribute: str, period: Period) -> None:
        self.times, self.attribute, self.period = times, attribute, period
        self.kind = times.kind(attribute)

    def question(self, as_they_are: Collection[str]) -> Question:
        """The question about rows that have a time; these groups are those of the time as it is."""
        given, where = self.times.question, []
        if given.where is not None:
            where.append(text_of(self.node(parse_node(given.where), self.times.resolve)))
        if not self.times.is_known(self.attribute):
            where.append(f"{text_of(self._written(self.attribute))} IS NOT NULL")
        groups = {
            name: text if name in as_they_are else self._group(text)
            for name, text in named_groups(given.group_by)
        }
        return given._replace(group_by=groups, where=" AND ".join(f"({text}\n)" for text in where))

    def _group(self, text: str) -> str:
        times = self.times
        node = times.schema.column_or_node(text, times.joined)
        if isinstance(node, Resolved):
            node = self._written(node.attribute)
        moved = self.node(node, times.resolve)
        return text if moved == node else text_of(moved)

    def _written(self, attribute: str) -> exp.Expr:
        """An attribute as a column of one of the relations that are joined."""
        columns = self.times.schema.attributes[attribute].columns
        relation, column = next(c for c in columns if c[0] in self.times.joined)
        return _column(relation, column)

    @on_deep_stack
    def node(self, node: exp.Expr, resolve: Resolver) -> exp.Expr:
        """A parsed node, of which the time is moved."""

        def moved(part: exp.Expr) -> exp.Expr:
            bounds = self._with_bounds(part, resolve)
            if bounds is not None:
                return bounds
            if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
                return self._moved_column(part, resolve)
            return part

        return node.copy().transform(moved, copy=False)

    def _moved_column(self, node: exp.Column, resolve: Resolver) -> exp.Expr:
        attribute = resolve(node.table or None, node.name).attribute
        if attribute == self.attribute:
            return self.period.added(node.copy(), self.kind)
        definition = self.times.definitions.get(attribute)
        if definition is None or self.attribute not in definition.attributes:
            return node
        schema = self.times.schema
        ((relation, column),) = schema.attributes[attribute].columns
        own = parse_node(schema.relations[relation].derived[column].text).transform(
            lambda part: _column(relation, part.name) if type(part) is exp.Column else part
        )
        return exp.Paren(this=self.node(own, resolve))

    def _with_bounds(self, node: exp.Expr, resolve: Resolver) -> exp.Expr | None:
        """A comparison of the time with constants as one with earlier ones; None if it is something else."""
        if isinstance(node, exp.Between):
            sides = {"low": node.args["low"], "high": node.args["high"]}
            compared = node.this
        elif isinstance(node, COMPARISONS):
            key = "expression" if isinstance(node.this, exp.Column) else "this"
            sides = {key: node.args[key]}
            compared = node.this if key == "expression" else node.expression
        else:
            return None
        if not isinstance(compared, exp.Column) or isinstance(compared.this, exp.Star):
            return None
        if resolve(compared.table or None, compared.name).attribute != self.attribute:
            return None
        moved = node.copy()
        for key, side in sides.items():
            earlier = self._earlier(side)
            if earlier is None:
                return None
            moved.set(key, earlier)
        return moved

    def _earlier(self, constant: exp.Expr) -> exp.Expr | None:
        """A constant less the period; None if to be compared with it is not the same as to be moved."""
        literal = constant.this if isinstance(constant, exp.Cast) else constant
        if not isinstance(literal, exp.Literal) or literal.is_string == bool(self.period.steps):
            return None
        if self.period.steps:
            is_whole = literal is constant and literal.name.isdigit()
            return exp.Literal.number(int(literal.name) - self.period.steps) if is_whole else None
        at = self._before(literal.name.strip())
        if at is None:
            return None
        text = at.date().isoformat() if at == _midnight(at) else at.isoformat(sep=" ")
        earlier = exp.Literal.string(text)
        return earlier if literal is constant else exp.Cast(this=earlier, to=constant.args["to"])

    def _before(self, text: str) -> datetime | None:
        """A time less the period, if no other time is that a period later."""
        try:
            at = datetime.fromisoformat(text)
            if at.tzinfo is not None or (self.kind is Kind.DATE and at != _midnight(at)):
                return None
            at -= timedelta(self.period.days, microseconds=self.period.microseconds)
            years, month = divmod(at.month - 1 - self.period.months, 12)
            changes = at.month == 2 or self.period.months % 12 != 0
            if self.period.months and changes and at.day >= LAST_OF_ALL_MONTHS:
                return None
            return at.replace(at.year + years, month + 1)
        except (ValueError, OverflowError):
            return None


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _column(relation: str, name: str) -> exp.Column:
    return exp.column(name, table=relation, quoted=True)
