"""Random cases of a check, on the engines that it is for: what all property tests of engines share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.engines import LOCAL, engine_named, spark_engine_named
from tests.support.scale import examples

Check: TypeAlias = Callable[[Any, st.DataObject, int], None]
"""Checks a random tree of an engine by so many random questions."""


def run_cases(count: int, case: Callable[[st.DataObject], None]) -> None:
    """Run so many random cases."""

    @settings(max_examples=examples(count), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        case(data)

    run()


def run_reference(check: Check, count: int, deltas: int) -> None:
    """So many cases, on the reference engine."""
    run_cases(count, lambda data: check("reference", data, deltas))


def run_local(check: Check, count: int, deltas: int) -> None:
    """So many cases, on the local engine: half of them as if every table were large."""

    def case(data: st.DataObject) -> None:
        check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas)

    run_cases(count, case)


def run_spark(check: Check, engine: Callable[[], Any], count: int, deltas: int) -> None:
    """So many cases, on an engine of Spark's: few trees, as each is many jobs, and more questions of each."""
    run_cases(count, lambda data: check(engine(), data, deltas))


def spark_engines(name: str, spark: Any, tmp_path: Path) -> Callable[[], Any]:
    """Engines of this name on one session, a new one for each case."""
    return lambda: spark_engine_named(name, spark, tmp_path)
