"""Random texts mean the same to calitree and to DuckDB, but for what `docs/semantics.md` lists.

Every text is asked for row by row (`max(text)` by id), so that all of its values are compared. DuckDB is
asked twice: as it is, and, where that differs, with the definitions on the page. What differs then too is a
fault. DuckDB refuses some texts that we answer, always by an overflow or a division by zero.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import calitree as ct
from calitree.apps.verify.plain import DEFINITIONS, WIDENED, widened_view
from calitree.errors import CalitreeError
from tests.support.expression_cases import same
from tests.torture.sql_data import EDGES, SMALL, TYPES, table
from tests.torture.sql_texts import Texts

BATCH = 64
COLUMN = re.compile(rf"\b({'|'.join(TYPES)})\b")
PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"
OVERFLOWS = (duckdb.OutOfRangeException, duckdb.InvalidInputException, duckdb.ConversionException)
Outcomes = dict[str, Any]
"""For each text its values, or the error it ended with."""


def by_batches(ask: Callable[[list[str]], Outcomes], texts: list[str], errors: Any) -> Outcomes:
    """Many texts in one query; where one fails, halves of them."""

    def some(batch: list[str]) -> Iterator[tuple[str, Any]]:
        try:
            yield from ask(batch).items()
        except errors as error:
            if len(batch) == 1:
                yield batch[0], error
            else:
                half = len(batch) // 2
                yield from some(batch[:half])
                yield from some(batch[half:])

    return {
        text: outcome
        for i in range(0, len(texts), BATCH)
        for text, outcome in some(texts[i : i + BATCH])
    }


class Sides:
    """A tree, and DuckDB as it is and as defined, over the same random rows."""

    def __init__(self, seed: int, engine: Any = "local") -> None:
        self.data = table(seed, EDGES if seed % 2 else SMALL)
        graph = ct.JoinGraph(engine)
        graph.add_relation("t", self.data)
        self.wide = graph.calibrate({"n": "count(*)"})

    def ours(self, texts: list[str]) -> Outcomes:
        return by_batches(self._ours, texts, CalitreeError)

    def _ours(self, texts: list[str]) -> Outcomes:
        measures = {f"m{i}": measure(text) for i, text in enumerate(texts)}
        result = self.wide.query(group_by=["id"], measures=measures).arrow().sort_by("id")
        return {text: result[f"m{i}"].to_pylist() for i, text in enumerate(texts)}

    def duck(self, texts: list[str], defined: bool) -> Outcomes:
        connection = duckdb.connect()
        connection.register("t here", self.data)
        connection.execute(DEFINITIONS[0])
        if defined:
            for definition in DEFINITIONS[1:]:
                connection.execute(definition)
            connection.execute(widened_view("t", '"t here"', self.data.schema))
        else:
            connection.execute(DEFINITIONS[1])
            connection.execute('CREATE VIEW t AS FROM "t here"')
        return by_batches(partial(_duck, connection), texts, duckdb.Error)


def _duck(connection: Any, texts: list[str]) -> Outcomes:
    chosen = ", ".join(f"{measure(text)} AS m{i}" for i, text in enumerate(texts))
    sql = f"SELECT {chosen} FROM t GROUP BY id ORDER BY id"
    result = connection.sql(sql).to_arrow_table()
    return {text: result[f"m{i}"].to_pylist() for i, text in enumerate(texts)}


def measure(text: str) -> str:
    """A measure that is the value of the text in each row; one without a column is no measure."""
    return f"max({text})" if COLUMN.search(text) else f"max(case when t.id >= 0 then {text} end)"


def alike(left: Any, right: Any) -> bool:
    if isinstance(left, Exception) or isinstance(right, Exception):
        return isinstance(left, Exception) and isinstance(right, Exception)
    return all(same(a, b) or close(a, b) for a, b in zip(left, right, strict=True))


def close(left: Any, right: Any) -> bool:
    """Doubles as texts that differ in their last digit, as a long decimal may be another double."""
    if not (isinstance(left, str) and isinstance(right, str) and "." in left):
        return False
    try:
        return math.isclose(float(left), float(right), rel_tol=1e-14)
    except ValueError:
        return False


def is_cut(left: Any, right: Any) -> bool:
    """Whether DuckDB has rounded a decimal, of which it has 38 digits without places for it."""
    if not (isinstance(left, Decimal) and isinstance(right, Decimal)):
        return same(left, right)
    return right == left.to_integral_value(ROUND_HALF_UP) or left == right


def compared(seed: int, count: int, engine: Any = "local") -> Counter[str]:
    """How the outcomes of so many texts compare; what is not explained fails."""
    sides, source = Sides(seed, engine), Texts(seed, shown=engine == "local")
    texts = source.different(source.one, count)
    ours, plain = sides.ours(texts), sides.duck(texts, defined=False)
    differing = [text for text in texts if not alike(ours[text], plain[text])]
    defined = sides.duck(differing, defined=True)
    outcomes = Counter(same=len(texts) - len(differing), all=len(texts))
    for text in differing:
        answer, expected = ours[text], defined[text]
        if alike(answer, expected):
            outcomes["defined"] += 1
        elif isinstance(answer, Exception):
            outcomes["refused"] += 1
        elif isinstance(expected, OVERFLOWS) or (
            not isinstance(expected, Exception) and all(map(is_cut, answer, expected))
        ):
            outcomes["beyond"] += 1
        else:
            pytest.fail(f"seed {seed}: {text}\n  ours {answer}\n  DuckDB {expected}")
    return outcomes


def check(outcomes: Counter[str]) -> None:
    """Few texts are refused, or answered where DuckDB cannot."""
    assert outcomes["same"] > 0.9 * outcomes["all"]
    assert outcomes["refused"] < 0.01 * outcomes["all"] + 5
    assert outcomes["beyond"] < 0.01 * outcomes["all"] + 5


@pytest.mark.parametrize("seed", range(10))
def test_texts_mean_what_they_mean_in_duckdb(seed: int) -> None:
    check(compared(seed, 1_000))


@pytest.mark.slow
def test_other_texts() -> None:
    """Other ones every time; a failure names its seed."""
    seed = time.time_ns() % 10**9
    for offset in range(10):
        check(compared(seed + offset, 2_000))


@pytest.mark.parametrize("seed", [20, 21])
def test_the_reference_engine(seed: int) -> None:
    check(compared(seed, 300, "reference"))


@pytest.mark.parametrize("seed", range(30, 33))
def test_conditions_as_filters(seed: int) -> None:
    """`where=`, FILTER and DuckDB's WHERE leave the same rows."""
    sides, source = Sides(2 * seed), Texts(seed)
    texts = source.different(source.condition, 100)
    connection = duckdb.connect()
    for definition in DEFINITIONS:
        connection.execute(definition)
    connection.register("t here", sides.data)
    connection.execute(widened_view("t", '"t here"', sides.data.schema))
    compared_texts = 0
    for text in texts:
        try:
            expected = connection.sql(f"SELECT count(*) FROM t WHERE ({text})").fetchall()[0][0]
            kept = sides.wide.query(where=text).rows()[0]["n"]
        except (duckdb.Error, CalitreeError):
            continue
        counted = {"n": f"count(*) filter (where {text})"}
        assert kept == expected, text
        if COLUMN.search(text):
            assert sides.wide.query(measures=counted).rows()[0]["n"] == expected, text
        compared_texts += 1
    assert compared_texts > 0.8 * len(texts)


@pytest.mark.parametrize("engine", ["spark", "hybrid"])
def test_on_spark(spark: Any, engine: str) -> None:
    from calitree.engines.hybrid import HybridEngine
    from calitree.engines.spark import SparkEngine

    own = SparkEngine(spark) if engine == "spark" else HybridEngine(spark)
    check(compared(40 if engine == "spark" else 41, 80 if engine == "spark" else 300, own))


def test_the_page_lists_every_definition() -> None:
    page = PAGE.read_text()
    for definition in DEFINITIONS:
        assert definition in page
    for _, wide in WIDENED:
        assert wide in page
