"""The best explanations as a table, and its first row as a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from html import escape
from typing import Any

import pyarrow as pa

from calitree.apps.explain.noise import Number
from calitree.apps.explain.removals import Comparison, Removals
from calitree.cache import cached_property
from calitree.errors import QueryError
from calitree.results.tabular import Tabular, html_of, text_of

MAX_CLOSED = 2.0
"""If more of a gap than this can be closed, the gap is small beside the differences that make it."""
TOLERANCE = 1e-9
"""Relative difference of floating-point sums that may come from the order of the summands."""


class Explanation(Tabular):
    """The rows that explain a measure, ranked: one row for each candidate.

    Made by `WideTable.why` and `WideTable.explain_change`. The column `explanation` is a condition that
    can be given as `where=`; `calitree.apps.explain.explain` defines the other columns.

    A gap may be hardly one (`is_small`): of what is no gap a part means nothing, and `sentence` tells
    differences instead. Such are gaps that are due to rounding, those within their standard error, and
    those of which the first candidate closes more than 200 %.

    Attributes:
        questions: How many questions it took. It does not depend on the number of candidates.
        gap: What is to be explained: the measure less what it is compared with.
        standard_error: How large a gap is by chance; None if that is not known, as it is for averages,
            sums and counts over different rows.

    >>> explanation = wide.why("avg(price)", "city = 'Quito'", attributes=["price"])
    >>> explanation.rows()[0]["explanation"], len(explanation)
    ('sales.price = 20', 1)
    """

    def __init__(
        self,
        comparison: Comparison,
        best: Sequence[tuple[Removals, int]],
        is_change: bool,
        questions: int,
    ) -> None:
        self._comparison = comparison
        self._is_change = is_change
        self.questions = questions
        self.gap = comparison.total
        self.standard_error = comparison.error
        self._rows = [self._row(candidates, at) for candidates, at in best]

    def _row(self, removals: Removals, at: int) -> dict[str, Any]:
        side, other = self._comparison.side, self._comparison.other
        without, others = (
            rows.counted(values[at].as_py())
            for rows, values in zip((side, other), removals.without, strict=True)
        )
        ours, theirs = (int(rows[at]) for rows in removals.rows)
        rows = ours + theirs if self._is_change else ours
        of = side.rows + other.rows if self._is_change else side.rows
        return {
            "explanation": removals.predicate(at),
            "attributes": list(removals.columns),
            **self._influence(without, others),
            "closed": float(removals.closed[at]),
            "support": rows / of,
            "rows": rows,
            "risk_ratio": self._risk_ratio(ours, theirs),
            "score": float(removals.score[at]),
        }

    def _influence(self, without: Number | None, others: Number | None) -> dict[str, Any]:
        """What the removal makes of the measure, and of what it is compared with."""
        side, other, gap = self._comparison.side, self._comparison.other, self._comparison.gap
        if self._is_change:
            change, left = minus(side.value, other.value), minus(without, others)
            parts = {"before": others, "after": without}
            return {"influence": minus(change, left), "without": left, **parts}
        known = others is not None or not gap.scale
        reference = float(gap.reference(float(others or 0))) if known else None
        influence = minus(side.value, without)
        return {"influence": influence, "without": without, "reference": reference}

    def _risk_ratio(self, ours: int, theirs: int) -> float:
        """How many times as likely its rows are on our side as the others."""
        rest = self._comparison.side.rows - ours, self._comparison.other.rows - theirs
        return (ours / (ours + theirs)) / (rest[0] / sum(rest))

    @property
    def best(self) -> dict[str, Any]:
        """The first row, as a dictionary; a QueryError if nothing explains the measure."""
        if not self._rows:
            raise QueryError(self.sentence)
        return self._rows[0]

    @property
    def is_small(self) -> bool:
        """Whether the gap is hardly one.

        >>> wide.why("avg(price)", "city = 'Quito'", attributes=["price"]).is_small
        False
        """
        return self._reason is not None

    @property
    def _reason(self) -> str | None:
        """Why the gap is hardly one."""
        if self._comparison.is_rounding:
            return "it is no more than rounding"
        if self._comparison.is_noise:
            return f"chance alone makes one of {shown(self.standard_error)} (the standard error)"
        if self._rows and self._rows[0]["closed"] > MAX_CLOSED:
            return "leaving out single values makes larger differences"
        return None

    @property
    def sentence(self) -> str:
        """The first row as a sentence, and before it whether the gap is hardly one."""
        side, other, gap = self._comparison.side, self._comparison.other, self._comparison.gap
        name, size = side.measure.name, shown(self.gap)
        if self._comparison.is_rounding:
            but = " but for rounding" if self.gap else ""
            value = f"{name} is {shown(side.value)} {side.phrase}"
            return f"{value}, the same as {gap.phrase}{but}: there is nothing to explain."
        if self._reason is None:
            return self._first_row
        what = f"The gap of {size} from {name} {side.phrase} to {gap.phrase}"
        if self._is_change:
            what = f"The change of {name} by {size} from {other.label} to {side.label}"
        return f"{what} is hardly one: {self._reason}. {self._first_row}"

    @property
    def _first_row(self) -> str:
        side, other = self._comparison.side, self._comparison.other
        name = side.measure.name
        if not self._rows:
            changes = f"the change of {name}" if self._is_change else f"{name} {side.phrase}"
            return f"Nothing was found that explains {changes}."
        best = self._rows[0]
        start = f"Without {best['explanation']} ({_percent(best['support'])} of the rows), {name}"
        if self._is_change:
            change = minus(side.value, other.value)
            answer = f"{start} would have changed by {shown(best['without'])} instead of {shown(change)} "
            answer += f"from {other.label} to {side.label}"
            part = "of the change"
        else:
            answer = f"{start} {side.phrase} would be {shown(best['without'])} instead of "
            answer += shown(side.value)
            part = f"of the gap to {self._comparison.gap.phrase}"
        return f"{answer}." if self.is_small else f"{answer}: {_percent(best['closed'])} {part}."

    def verify(self) -> list[dict[str, Any]]:
        """Leave the rows of each explanation really out, and ask again.

        Returns:
            The rows of this table whose influence is different then, with that influence as
            `asked_again`. There should be none.

        >>> wide.why("avg(price)", "city = 'Quito'", attributes=["price"]).verify()
        []
        """
        side, other = self._comparison.side, self._comparison.other
        wrong = []
        for row in self._rows:
            without = side.without(row["explanation"])
            others = other.without(row["explanation"]) if self._is_change else None
            influence = self._influence(without, others)["influence"]
            scale = max(abs(float(v or 0)) for v in (side.value, other.value, without))
            if not _agree(row["influence"], influence, scale):
                wrong.append({**row, "asked_again": influence})
        return wrong

    @cached_property
    def _arrow(self) -> pa.Table:
        parts = ["before", "after"] if self._is_change else ["reference"]
        types = {
            "explanation": pa.string(),
            "attributes": pa.list_(pa.string()),
            **dict.fromkeys(("influence", "without", *parts)),
            **{"closed": pa.float64(), "support": pa.float64(), "rows": pa.int64()},
            **{"risk_ratio": pa.float64(), "score": pa.float64()},
        }
        columns: dict[str, Any] = {}
        for name, dtype in types.items():
            values = [row[name] for row in self._rows]
            columns[name] = _numbers(values) if dtype is None else pa.array(values, dtype)
        return pa.table(columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return self.sentence
        shown = [name for name in self.columns if name != "attributes"]
        return f"{self.sentence}\n\n{text_of(self._rows[:10], shown, len(self))}"

    def _repr_html_(self) -> str:
        names = [name for name in self.columns if name != "attributes"]
        rows = [
            {n: row[n] if isinstance(row[n], str) else shown(row[n]) for n in names}
            for row in self._rows
        ]
        table = html_of(rows, names, len(rows)) if rows else ""
        return f"<p>{escape(self.sentence)}</p>{table}"


def minus(a: Number | None, b: Number | None) -> Number | None:
    """The difference with all digits, unless one of them is a float; NULL if one is."""
    if a is None or b is None:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return float(a) - float(b)
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    with localcontext(prec=80):
        return Decimal(a) - Decimal(b)


def shown(value: Number | None) -> str:
    """A number as people read it."""
    if value is None:
        return "NULL"
    whole = isinstance(value, int) or 1e5 <= abs(float(value)) < 1e15
    return f"{value:,.0f}" if whole else f"{value:,.5g}"


def _percent(part: float) -> str:
    return f"{100 * part:.{0 if part >= 0.1 else 1}f} %"


def _agree(ours: Number | None, again: Number | None, scale: float) -> bool:
    if ours is None or again is None:
        return ours is again
    if isinstance(ours, float) or isinstance(again, float):
        return math.isclose(ours, again, rel_tol=TOLERANCE, abs_tol=TOLERANCE * scale)
    return ours == again


def _numbers(values: Sequence[Number | None]) -> pa.Array:
    """A column of numbers, exact if all are."""
    known = [value for value in values if value is not None]
    if not known or any(isinstance(value, float) for value in known):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in known):
        return pa.array(values, pa.int64())
    return pa.array([None if value is None else Decimal(value) for value in values])
