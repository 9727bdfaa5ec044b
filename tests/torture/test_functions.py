"""Every scalar function, with all kinds of arguments, means what it means in DuckDB.

What differs is listed in `docs/semantics.md`. `test_expressions` has the same functions, nested at random.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.functions import FUNCTIONS
from calitree.sql.nodes import key_of
from calitree.sql.parser import parse_node
from tests.support.expression_cases import same
from tests.torture.function_texts import matrix
from tests.torture.sql_texts import Texts
from tests.torture.test_expressions import OVERFLOWS, Sides, alike, close

MATRIX, COLUMNS = tuple(matrix()), tuple(matrix(only_columns=True))
ELSEWHERE = {exp.Between, exp.Interval, "TRIM"}
"""What is rewritten while it is parsed, or stands inside another."""

LISTED = {key for key, function in FUNCTIONS.items() if function.usage}


def faults(engine: Any, texts: Sequence[str], seed: int = 3) -> list[str]:
    """Where an engine and DuckDB differ; DuckDB may only refuse what overflows there."""
    sides = Sides(seed, engine)
    ours, plain = sides.ours(list(texts)), sides.duck(list(texts), defined=False)
    differing = [text for text in texts if not alike(ours[text], plain[text])]
    defined = sides.duck(differing, defined=True)
    return [
        f"{text}: {_first(ours[text], defined[text])}"
        for text in differing
        if not alike(ours[text], defined[text]) and not isinstance(defined[text], OVERFLOWS)
    ]


def _first(ours: Any, theirs: Any) -> str:
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        return f"{ours} / {theirs}"
    pairs = zip(ours, theirs, strict=True)
    return str(next((a, b) for a, b in pairs if not same(a, b) and not close(a, b)))


@pytest.mark.parametrize("third", range(3))
def test_the_local_engine(third: int) -> None:
    """A third of all texts on each of three sets of rows."""
    assert faults("local", MATRIX[third::3], seed=2 + third) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7])
def test_the_local_engine_on_other_rows(seed: int) -> None:
    assert faults("local", MATRIX, seed) == []


def test_the_reference_engine() -> None:
    assert faults("reference", COLUMNS) == []


@pytest.mark.slow
def test_all_of_the_reference_engine() -> None:
    assert faults("reference", MATRIX) == []


def test_spark(spark: Any) -> None:
    from calitree.engines.spark import SparkEngine

    assert faults(SparkEngine(spark), COLUMNS) == []


@pytest.mark.slow
def test_all_of_spark(spark: Any) -> None:
    from calitree.engines.spark import SparkEngine

    assert faults(SparkEngine(spark), MATRIX) == []


def keys_of(texts: Iterable[str]) -> set[Any]:
    """The functions that texts call."""
    keys = set()
    for text in texts:
        with suppress(ExpressionError):  # a random text may be none
            keys |= {key_of(part) for part in parse_node(text).walk()}
    return keys


def test_every_function_is_in_the_matrix() -> None:
    assert LISTED - keys_of(COLUMNS) - ELSEWHERE == set()


def test_every_function_is_nested_at_random() -> None:
    source = Texts(seed=0)
    assert LISTED - keys_of(source.different(source.one, 5_000)) - ELSEWHERE == set()
