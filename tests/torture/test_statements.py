"""Random SQL statements: answered as DuckDB does on the join really built, or refused by an error of ours."""

from __future__ import annotations

import random

import duckdb
import pytest

import calitree as ct
from tests.apps.select.test_statements import assert_same, duck, tree
from tests.support.scale import examples
from tests.torture.statement_texts import broken, statement

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_valid_statements(part: int) -> None:
    rng = random.Random(part)
    for _ in range(examples(60)):
        text = statement(rng)
        assert_same(text, tree("local").sql(text).arrow(), duck().sql(text).to_arrow_table())


@pytest.mark.parametrize("part", range(PARTS))
def test_broken_statements(part: int) -> None:
    rng = random.Random(100 + part)
    answered = 0
    for _ in range(examples(250)):
        text = broken(rng)
        try:
            ours = tree("local").sql(text).arrow()
        except ct.StatementError as error:
            assert error.line is not None, f"{text}: {error}"
            continue
        try:
            theirs = duck().sql(text).to_arrow_table()
        except duckdb.Error:
            continue  # it may be stricter
        assert_same(text, ours, theirs)
        answered += 1
    assert answered
