"""How far two times are apart that are compared: an interval, or a number of steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from calitree.errors import QueryError, shortened
from calitree.sql.constants import PARTS, UNITS, interval_parts
from calitree.types import Kind

_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


@dataclass(frozen=True)
class Period:
    """An interval of months, days and microseconds; or, for columns of integers, a number of `steps`.

    >>> Period.read("1 year").months
    12
    """

    text: str
    months: int = 0
    days: int = 0
    microseconds: int = 0
    steps: int = 0

    @classmethod
    def read(cls, given: object) -> Period:
        """The period that a text or a whole number stands for."""
        if isinstance(given, int) and not isinstance(given, bool):
            period = cls(str(given), steps=given)
        else:
            if not isinstance(given, str):
                raise QueryError(
                    f"A period is an interval such as '1 year', or a whole number for a column of "
                    f"integers; got {type(given).__name__}."
                )
            try:
                parts = interval_parts(given)
            except ValueError:
                raise QueryError(
                    f"{shortened(given)} is no period; write '1 year', '3 months', '52 weeks' or '1 day'."
                ) from None
            period = cls(given.strip(), parts["MONTH"], parts["DAY"], parts["MICROSECOND"])
        if not any((period.months, period.days, period.microseconds, period.steps)):
            raise QueryError(f"A period of {shortened(given)} compares everything with itself.")
        return period

    def with_days(self, days: int) -> Period:
        """The same period, longer by some days."""
        return replace(self, days=self.days + days)

    def suits(self, kind: Kind) -> bool:
        """Whether values of a kind can be moved by it."""
        return kind is Kind.INTEGER if self.steps else kind.is_temporal

    def added(self, node: exp.Expr, kind: Kind) -> exp.Expr:
        """A parsed node of a kind, later by this period; of the same kind."""
        return self._moved(exp.Add, node, kind)

    def subtracted(self, node: exp.Expr, kind: Kind) -> exp.Expr:
        """A parsed node of a kind, earlier by this period; of the same kind."""
        return self._moved(exp.Sub, node, kind)

    def _moved(self, operator: type[exp.Binary], node: exp.Expr, kind: Kind) -> exp.Expr:
        size: exp.Expr = exp.Paren(this=exp.Literal.number(self.steps))
        if not self.steps:
            sizes = {"months": self.months, "days": self.days, "microseconds": self.microseconds}
            parts = " ".join(f"{size} {unit}" for unit, size in sizes.items() if size)
            size = exp.Interval(this=exp.Literal.string(parts or "0 days"))
        moved = exp.Paren(this=operator(this=node, expression=size))
        return exp.Cast(this=moved, to=exp.DataType.build("DATE")) if kind is Kind.DATE else moved

    def is_whole(self, unit: str) -> bool:
        """Whether it is a whole number of units: the start of one, so much later, is that of another.

        >>> Period.read("1 year").is_whole("QUARTER"), Period.read("1 year").is_whole("WEEK")
        (True, False)
        """
        day = int(PARTS["DAY"])
        if unit in _MONTHS:
            return self.months % _MONTHS[unit] == 0 and not (self.days or self.microseconds)
        if unit == "WEEK":
            return not self.months and (self.days * day + self.microseconds) % (7 * day) == 0
        length = day if unit == "DAY" else UNITS[unit][1]
        return self.microseconds % length == 0
