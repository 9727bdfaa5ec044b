"""DuckDB on the tables as they stand, or would stand: what answers after updates are held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.compare import Answer, Answers, difference
from benchmarks.frame import Race
from benchmarks.opponents import DuckDB


class Asked(Mapping[str, Answer]):
    """DuckDB's answers to whatever SQL they are looked up by, asked only then.

    A contestant that supposes other rows every time names its answer by the SQL that would give the
    same. Of the thousands that are timed, DuckDB has to answer those few that are compared.
    """

    def __init__(self, duck: DuckDB, grouped_by: int = 0) -> None:
        self._duck, self._grouped_by = duck, grouped_by

    def __getitem__(self, sql: str) -> Answer:
        return Answer(self._duck.ask(sql), self._grouped_by)

    def __contains__(self, sql: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def check(race: Race, name: str, ours: Answers, theirs: Answers, between: str) -> bool:
    """Whether answers that were not raced agree; if not, the race is told."""
    wrong = difference(ours, theirs)
    if wrong:
        race.disagreements.append({"name": name, "between": between, "difference": wrong})
    return not wrong


def rank(sorted_values: Sequence[float], part: float) -> float:
    """The value below which so large a part lies.

    >>> rank([1, 2, 3, 4], 0.95), rank([1, 2, 3, 4], 0.5)
    (4, 3)
    """
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]
