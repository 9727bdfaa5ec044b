"""How a race is run: contestants take turns, medians count, and all must give the same answer.

    race = Race(repeat=5)
    race.run(Heat(
        contestants=(
            Contestant("calitree", lambda: wide.query(), as_total),
            Contestant("DuckDB", lambda: duck.ask(sql), as_total),
        ),
        comparisons=(Comparison("total", "calitree", "DuckDB", bars=(at_least(8),)),),
    ))

Turns, because a machine that is busy for a minute then slows everyone down alike; the ratio of two
medians is what such a run can tell, a time by itself is not. What must be kept out of the time
(data to load, a tree to calibrate) is done before the heat is made, or in a contestant's `setup`.
"""

from __future__ import annotations

import gc
import statistics
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from benchmarks.compare import Answers, difference

MIN_TURN_SECONDS = 0.02
"""Seconds that a turn should last; what is quicker is run many times a turn, as `timeit` does."""


@dataclass(frozen=True)
class Contestant:
    """Someone who answers. `run` is timed; `answer` makes its value comparable, and is not.

    `setup` comes before every run, untimed; then a turn is one run, however short.
    """

    name: str
    run: Callable[[], Any]
    answer: Callable[[Any], Answers]
    setup: Callable[[], None] | None = None


@dataclass(frozen=True)
class Bar:
    """What a field of a result should be. It is reported, and fails nothing."""

    field: str
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, result: Mapping[str, Any]) -> bool:
        value = result[self.field]
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    def as_json(self, result: Mapping[str, Any]) -> dict[str, Any]:
        limits = {"at_least": self.at_least, "at_most": self.at_most}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        return {"field": self.field, **given, "met": self.holds(result)}


def at_least(ratio: float) -> Bar:
    """So many times as fast as the other."""
    return Bar("ratio", at_least=ratio)


def within(seconds: float) -> Bar:
    """In at most this time."""
    return Bar("seconds", at_most=seconds)


@dataclass(frozen=True)
class Comparison:
    """One line of the result: `ours` against another contestant of the heat, or alone."""

    name: str
    ours: str
    against: str | None = None
    bars: tuple[Bar, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Heat:
    """Contestants that are run in turns, and which of them are to be compared."""

    contestants: tuple[Contestant, ...]
    comparisons: tuple[Comparison, ...]

    def __post_init__(self) -> None:
        names = [contestant.name for contestant in self.contestants]
        for comparison in self.comparisons:
            for name in (comparison.ours, comparison.against):
                if name is not None and names.count(name) != 1:
                    raise ValueError(f"{comparison.name}: {names} has {name!r} not once")


@dataclass
class Timing:
    """A contestant's times: the warm-up's, then one a round, each the mean of `loops` runs."""

    first: float
    loops: int = 0
    runs: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)


@dataclass(frozen=True)
class Benchmark:
    """What a file here offers: `options` adds to the parser, `run` races."""

    name: str
    summary: str
    options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Race], None]


def positive(text: str) -> int:
    """A count given on the command line; `1_000_000` and `1,000,000` are easier to read."""
    number = int(text.replace(",", ""))
    if number < 1:
        raise ArgumentTypeError(f"{text} is less than 1")
    return number


class Race:
    """Runs heats one after the other and gathers their results."""

    def __init__(self, repeat: int, console: Console | None = None) -> None:
        self.repeat = repeat
        self.console = console or Console(stderr=True, quiet=True)
        self.results: list[dict[str, Any]] = []
        self.disagreements: list[dict[str, str]] = []

    def run(self, heat: Heat) -> list[dict[str, Any]]:
        """The results of this heat, one a comparison; they are in `results` too."""
        timings: dict[str, Timing] = {}
        answers: dict[str, Answers] = {}
        with self.console.status(heat.comparisons[0].name):
            for contestant in heat.contestants:
                seconds, value = _turn(contestant, 1)
                timings[contestant.name] = Timing(seconds)
                answers[contestant.name] = contestant.answer(value)
                del value
            verdicts = _verdicts(heat, answers)
            for number in range(self.repeat):
                # Coming first in a round may be of use or harm: everyone does in turn.
                at = number % len(heat.contestants)
                for contestant in heat.contestants[at:] + heat.contestants[:at]:
                    value = self._round(contestant, timings[contestant.name])
                    if number == self.repeat - 1:
                        answers[contestant.name] = contestant.answer(value)
                    del value
            # Asked again, an answer may come from what was kept the first time: check that too.
            again = _verdicts(heat, answers)
        return [self._add(c, timings, verdicts[c.name] or again[c.name]) for c in heat.comparisons]

    def record(self, name: str, bars: tuple[Bar, ...] = (), **fields: Any) -> dict[str, Any]:
        """A result that is not a race: a size, a growth, the parts of a time."""
        alone = {"seconds": None, "against": None, "against_seconds": None, "ratio": None}
        result = {"name": name, **alone, **fields}
        result["bars"] = [bar.as_json(result) for bar in bars]
        self.results.append(result)
        return result

    def _round(self, contestant: Contestant, timing: Timing) -> Any:
        """One turn; the first also finds out how many runs make one that can be timed."""
        if timing.loops == 0:
            timing.loops = 1
            if contestant.setup is None:
                seconds, value = _turn(contestant, 1)
                while (whole := seconds * timing.loops) < MIN_TURN_SECONDS:
                    more = min(10.0, 1.2 * MIN_TURN_SECONDS / max(whole, 1e-9))
                    timing.loops = int(timing.loops * more) + 1
                    seconds, value = _turn(contestant, timing.loops)
                timing.runs.append(seconds)
                return value
        seconds, value = _turn(contestant, timing.loops)
        timing.runs.append(seconds)
        return value

    def _add(
        self, comparison: Comparison, timings: dict[str, Timing], wrong: str
    ) -> dict[str, Any]:
        ours = timings[comparison.ours]
        result: dict[str, Any] = {
            "name": comparison.name,
            "contestant": comparison.ours,
            "seconds": ours.median,
            "against": comparison.against,
            "against_seconds": None,
            "ratio": None,
            **_spread("", ours),
        }
        if comparison.against is not None:
            theirs = timings[comparison.against]
            result["against_seconds"] = theirs.median
            result["ratio"] = theirs.median / ours.median
            result |= _spread("against_", theirs)
            result["agree"] = not wrong
        if wrong:
            between = f"{comparison.ours} and {comparison.against}"
            self.disagreements.append(
                {"name": comparison.name, "between": between, "difference": wrong}
            )
        result |= comparison.notes
        result["bars"] = [bar.as_json(result) for bar in comparison.bars]
        self.results.append(result)
        return result


def _turn(contestant: Contestant, loops: int) -> tuple[float, Any]:
    """The mean time of `loops` runs without the collector's pauses, and the last value."""
    if contestant.setup is not None:
        contestant.setup()
    run, value = contestant.run, None
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        started = time.perf_counter_ns()
        for _ in range(loops):
            value = run()
        elapsed = time.perf_counter_ns() - started
    finally:
        if enabled:
            gc.enable()
    return elapsed / loops / 1e9, value


def _verdicts(heat: Heat, answers: Mapping[str, Answers]) -> dict[str, str]:
    """For each comparison what its two differ in, or nothing."""
    return {
        comparison.name: difference(answers[comparison.ours], answers[comparison.against])
        if comparison.against
        else ""
        for comparison in heat.comparisons
    }


def _spread(prefix: str, timing: Timing) -> dict[str, float | int]:
    return {
        f"{prefix}seconds_min": min(timing.runs),
        f"{prefix}seconds_max": max(timing.runs),
        f"{prefix}seconds_first": timing.first,
        f"{prefix}runs": len(timing.runs) * timing.loops,
    }
