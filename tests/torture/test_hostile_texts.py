"""Any text is answered rightly, or refused by an error of calitree: soon, and in little memory.

The limits are those of `docs/limits.md`. Texts that are answered are asked of DuckDB too, verbatim.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import calitree as ct
from calitree import ExpressionError, ModelError, QueryError, SchemaError
from calitree.cli.model import ModelFile
from calitree.errors import MAX_MESSAGE
from calitree.sql.limits import MAX_NESTING, MAX_TOKENS
from calitree.sql.parser import parse_predicate
from tests.torture.hostile_run import Run
from tests.torture.hostile_texts import from_left, in_halves

ROOT = Path(__file__).parents[2]
TABLE = pa.table(
    {
        "k": [1, 2, 3, 4],
        "x": [1, 2, 3, None],
        "f": [0.5, 1.5, 2.5, None],
        "t": ["a", "b", "c", None],
    }
)


def tree(engine: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("s", TABLE)
    graph.add_relation("d", {"k": [1, 2, 3, 4], "y": [1, 2, 3, 4]})
    graph.add_join("s", "d", on="k")
    return graph.calibrate({"n": "count(*)"})


@pytest.fixture(scope="module", params=["local", "reference"])
def wide(request: pytest.FixtureRequest) -> ct.WideTable:
    return tree(request.param)


@pytest.fixture(scope="module", params=["spark", "hybrid"])
def wide_on_spark(request: pytest.FixtureRequest, spark: Any) -> ct.WideTable:
    from calitree.engines.hybrid import HybridEngine
    from calitree.engines.spark import SparkEngine

    return tree(SparkEngine(spark) if request.param == "spark" else HybridEngine(spark))


def passing(wide: ct.WideTable, text: str) -> int:
    return int(wide.query(where=text).rows()[0]["n"])


# -- hostile texts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_hostile_texts(seed: int) -> None:
    run = Run(1000 + seed)
    run.conditions(200)
    run.functions(50)
    run.joins(10)
    run.names(40)
    run.models(40)
    assert run.faults == []
    assert run.outcomes["same"] > 25
    assert run.longest_message <= MAX_MESSAGE + 1


def test_hostile_texts_on_the_reference_engine() -> None:
    run = Run(1100, "reference")
    run.conditions(60)
    assert run.faults == []


def test_hostile_texts_on_spark(spark: Any) -> None:
    from calitree.engines.spark import SparkEngine

    run = Run(1200, SparkEngine(spark))
    run.conditions(25)
    assert run.faults == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_twenty_thousand_hostile_texts(part: int) -> None:
    """Others every time; in a process of its own, so that a text that hangs or crashes is named."""
    seed, count = time.time_ns() % 10**9, 2_000
    command = [sys.executable, "-m", "tests.torture.hostile_run", str(seed), str(count)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, f"part {part}, seed {seed}: {ended.stderr[-3000:]}"
    result = json.loads(ended.stdout.splitlines()[-1])
    assert result["faults"] == [], f"seed {seed}"
    assert result["outcomes"]["same"] > 300


# -- long --------------------------------------------------------------------------------------------


def chains(count: int) -> dict[str, tuple[str, int]]:
    """Chains of so many terms, and how many of the rows pass."""
    terms = range(count)
    return {
        "or": (" or ".join(f"x = {i}" for i in terms), 3),
        "and": (" and ".join(f"x <> {i + 5}" for i in terms), 3),
        "not or": (f"not ({' or '.join(f'x = {i + 3}' for i in terms)})", 2),
        "+": (" + ".join(["x"] * count) + f" > {2 * count}", 1),
        "+ and -": ("x" + "".join(" + x" if i % 2 else " - k" for i in terms) + " >= 1", 3),
        "+ of doubles": (" + ".join(["f"] * count) + f" = {1.5 * count}", 1),
        "||": (" || ".join(["t"] * count) + f" = '{'b' * count}'", 1),
        "*": ("*".join(["f"] * count) + " > 1", 2),
        "case": ("case " + " ".join(f"when x = {i} then {i}" for i in terms) + " end > 1", 2),
        "coalesce": (f"coalesce({', '.join(f'nullif(x, {i + 1})' for i in terms)}, 7) < 7", 3),
        "in": (f"x in ({', '.join(f'cast({i} as int)' for i in terms)})", 3),
    }


@pytest.mark.parametrize("name", chains(1))
def test_chains_of_a_thousand_terms(wide: ct.WideTable, name: str) -> None:
    text, expected = chains(1_000)[name]
    assert passing(wide, text) == expected
    filtered = wide.query(measures={"m": f"count(*) filter (where {text})"})
    assert filtered.rows()[0]["m"] == expected


def test_chains_of_a_thousand_terms_on_spark(wide_on_spark: ct.WideTable) -> None:
    for name, (text, expected) in chains(1_000).items():
        assert passing(wide_on_spark, text) == expected, name


def test_products_of_doubles_are_those_of_two_halves(wide: ct.WideTable) -> None:
    terms = [("*", "x"), *[("*", "1e-200")] * 10, *[("*", "1e200")] * 10]
    duck = duckdb.connect()
    duck.register("s", TABLE)
    for product, expected in ((from_left(terms), 0), (in_halves(terms), 3)):
        sql = f"SELECT count(*) FROM s WHERE {product} > 1"  # NaN is greater than all numbers
        assert duck.execute(sql).fetchall() == [(expected,)]
        assert passing(wide, f"{product} > 1") == 3
    assert passing(wide, f"({from_left(terms[:11])}) * {from_left(terms[11:])} > 1") == 0


@pytest.mark.parametrize("name", ["or", "+", "case"])
def test_chains_of_ten_thousand_terms(name: str) -> None:
    text, expected = chains(8_000 if name == "case" else 10_000)[name]
    assert passing(tree("local"), text) == expected


def test_measures_of_a_thousand_terms(wide: ct.WideTable) -> None:
    terms = {"sums": " + ".join(["sum(x)"] * 1_000), "sum": f"sum({' + '.join(['x'] * 1_000)})"}
    assert wide.query(measures=terms).rows() == [{"sums": 6_000, "sum": 6_000}]


def lists(count: int) -> dict[str, tuple[str, int]]:
    random = Random(1)
    numbers = random.sample(range(2, 10 * count), count - 1)
    return {
        "integers": ("x in (" + ", ".join(map(str, [3, *numbers])) + ")", 1 + (2 in numbers)),
        "decimals": ("f in (" + ", ".join(f"{n}.25" for n in numbers) + ", 1.50)", 1),
        "doubles": (
            "x in (" + ", ".join(f"{n + 2}e0" for n in numbers) + ", 2e0)",
            1 + (1 in numbers),
        ),
        "texts": ("t in ('b', " + ", ".join(f"'v{n}'" for n in numbers) + ")", 1),
        "not in": ("t not in ('b', " + ", ".join(f"'v{n}'" for n in numbers) + ")", 2),
        "null": ("t not in ('b', null, " + ", ".join(f"'v{n}'" for n in numbers) + ")", 0),
    }


@pytest.mark.parametrize("name", lists(200))
def test_long_lists(wide: ct.WideTable, name: str) -> None:
    text, expected = lists(2_000)[name]
    assert passing(wide, text) == expected


def test_long_lists_on_spark(wide_on_spark: ct.WideTable) -> None:
    for name, (text, expected) in lists(500).items():
        assert passing(wide_on_spark, text) == expected, name


@pytest.mark.parametrize("name", ["integers", "texts"])
def test_a_list_of_a_million_values(name: str) -> None:
    text, expected = lists(1_000_000)[name]
    wide = tree("local")
    began = time.process_time()
    assert passing(wide, text) == expected
    assert time.process_time() - began < 10  # it takes half a second


def test_a_long_list_is_one_short_name() -> None:
    text, _ = lists(100_000)["texts"]
    schema = tree("local").schema
    (condition,) = parse_predicate(text, schema.resolve)
    assert len(condition.sql) < 300
    assert condition == parse_predicate(text, schema.resolve)[0]
    assert condition != parse_predicate(text.replace("'b'", "'c'"), schema.resolve)[0]


# -- deep --------------------------------------------------------------------------------------------


def nested(count: int) -> dict[str, tuple[str, int]]:
    """Texts in which so many of something stand inside each other."""
    forms = {
        "(": ("(", ")", "x > 1", "", 2),
        "(1+": ("(1+", ")", "x", f" > {count + 2}", 1),
        "+1)": ("(", "+1)", "x", f" > {count + 2}", 1),
        "/": ("(x/", ")", "x", " > 0", 3),
        "not": ("not ", "", "x > 1", "", 1 if count % 2 else 2),
        "-": ("- ", "", "x", " > 0", 0 if count % 2 else 3),
        "abs": ("abs(", ")", "x", " > 1", 2),
        "else": ("case when x = 1 then 1 else ", " end", "x", " > 1", 2),
        "coalesce": ("coalesce(", ", 9)", "x", " > 1", 3),
    }
    return {
        name: (before * count + core + after * count + rest, expected)
        for name, (before, after, core, rest, expected) in forms.items()
    }


@pytest.mark.parametrize("name", nested(1))
def test_deep_texts(wide: ct.WideTable, name: str) -> None:
    text, expected = nested(MAX_NESTING // 2 - 4)[name]
    assert passing(wide, text) == expected
    text, expected = nested(MAX_NESTING - 4)[name]
    assert passing(wide, text) == expected


def test_deep_texts_on_spark(wide_on_spark: ct.WideTable) -> None:
    for name, (text, expected) in nested(MAX_NESTING - 4).items():
        assert passing(wide_on_spark, text) == expected, name


@pytest.mark.parametrize("count", [MAX_NESTING + 10, 1_000, 20_000])
@pytest.mark.parametrize("name", nested(1))
def test_too_deep_texts(name: str, count: int) -> None:
    text, expected = nested(count)[name]
    if name == "(" and count < MAX_TOKENS // 2 - 2:  # parentheses alone are no level
        assert passing(tree("local"), text) == expected
        return
    with pytest.raises(ExpressionError, match=r"nested|more than|not closed"):
        passing(tree("local"), text)


@pytest.mark.parametrize(
    "opened", ["(", "abs(", "case when ", "x in (", "[", "{'a': ", "not (", "cast("]
)
def test_what_is_never_closed(opened: str) -> None:
    for count in (5, 40, 3_000):
        with pytest.raises(ExpressionError):
            passing(tree("local"), opened * count)


def test_a_small_stack() -> None:
    """On a thread of 256 KB the same texts are answered."""
    wide, answers = tree("local"), []
    texts = [text for text, _ in nested(MAX_NESTING - 4).values()]
    texts += [text for text, _ in chains(300).values()]
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: answers.extend(passing(wide, t) for t in texts))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    expected = [*nested(MAX_NESTING - 4).values(), *chains(300).values()]
    assert answers == [count for _, count in expected]


def test_inside_a_deep_recursion() -> None:
    """However much of the stack is used, it is an answer or an error of calitree."""
    wide = tree("local")
    for text, expected in nested(MAX_NESTING - 4).values():

        def within(depth: int, text: str = text) -> int:
            return passing(wide, text) if depth == 0 else within(depth - 1)

        assert within(sys.getrecursionlimit() // 2) == expected
    for left in range(20, 160, 4):
        try:
            text = f"x > 1 and x < 3{left}"
            assert _below(left, lambda text=text: wide.query(where=text)).rows() == [{"n": 2}]
        except ct.CalitreeError as error:
            assert "stack" in str(error)


def _below(left: int, ask: Any) -> Any:
    """Ask where so many calls more are the end of the stack."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]

    def within(more: int) -> Any:
        return ask() if more <= 0 else within(more - 1)

    return within(sys.getrecursionlimit() - depth - left)


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "9" * 5_000,
        "x = 1e",
        "round(f, 999999999) = 1",
        "lpad(t, 99999999999, 'x') = 'a'",
        "t = '\0'",
        "t = '\ud800'",
        "x > 1 -- \udfff",
        "x > " + " " * 1_000_001 + "1",
        "case " * 3 + "x" + " when 1 then 2 when 2 then 3 end" * 3 + " = " + "(" * 40 + "x",
        " or ".join(["x = 1"] * 20_000),
        "(" + "x between 1 and 3) between true and (" * 40 + "true)",
        "'" + "a" * 100_000,
        "/*" + "a" * 100_000,
        '"' + "a" * 100_000 + '" = 1',
        "t = 1 + " + "'a' || " * 1_000 + "'b'",
    ],
    ids=range(15),
)
def test_refused_and_shortened(text: str) -> None:
    with pytest.raises(ct.CalitreeError) as caught:
        passing(tree("local"), text)
    assert len(str(caught.value)) < 1_000


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What sqlglot would take for a statement is refused without its warning."""
    for text in ("if->x, false, false", "show x", "x > (call x)"):
        with pytest.raises(ExpressionError):
            passing(tree("local"), text)
    assert caplog.records == []


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 1_001])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(SchemaError):
        ct.JoinGraph("local").add_relation(name, {"a": [1]})
    with pytest.raises(QueryError):
        tree("local").query(measures={name: "count(*)"})


def test_columns_that_have_no_name() -> None:
    with pytest.raises(SchemaError):
        ct.JoinGraph("local").add_relation("r", {"\ud800": [1]})
    with pytest.raises(SchemaError):
        ct.JoinGraph("local").add_relation("r", {"a": ["\ud800"]})


@pytest.mark.parametrize(
    "content",
    [
        "x = " + "[" * 5_000 + "]" * 5_000,
        "x = " + "{a=" * 5_000 + "1" + "}" * 5_000,
        ".".join("a" * 100_000) + " = 1",
        "[" + ".".join(['"a"'] * 50_000) + "]",
        "x = " + "9" * 5_000,
        "a" * 200_000,
        "# " + "a" * (1 << 20),
        "x = '\0'",
        "[relations]\nsales = '" + "a" * 9_000 + "'",
    ],
    ids=range(9),
)
def test_model_files(tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.toml"
    path.write_text(content)
    with pytest.raises(ct.CalitreeError) as caught:
        ModelFile.read(path).graph("local")
    assert "sales" in content or isinstance(caught.value, ModelError)
    assert len(str(caught.value)) < 1_000


# -- patterns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_patterns_take_no_power_of_the_length(engine: str) -> None:
    """`%a%a…%b` on a long text without a b; numbers that almost are some."""
    _check_patterns(engine, 20_000)


def test_patterns_take_no_power_of_the_length_on_spark(spark: Any) -> None:
    from calitree.engines.spark import SparkEngine

    _check_patterns(SparkEngine(spark), 2_000)


def _check_patterns(engine: Any, size: int) -> None:
    graph = ct.JoinGraph(engine)
    texts = ["a" * size, "1" * size + "x", "a" * size + "b", "a_b", "xaybza", "aa\nab", None]
    graph.add_relation("r", {"s": texts})
    wide = graph.calibrate({"n": "count(*)"})
    assert passing(wide, f"s like '{'%a' * 20}%b'") == 1
    assert passing(wide, "s like '%a%b%a'") == 1
    assert passing(wide, "s like '_%a%_b'") == 2
    assert passing(wide, "s like 'a%a%a%b'") == 2
    assert passing(wide, f"s ilike '{'%' * 500}B'") == 3
    assert passing(wide, "try_cast(s as double) is null") == 7
    assert passing(wide, "try_cast(s as int) is null") == 7
