"""Joins by a condition: what may be declared, and what the tree looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.engines.api import pairs
from calitree.errors import EngineError, ExpressionError, QueryError, SchemaError, TreeError
from tests.support.theta import ThetaDatabase, plain_answer

EVENTS = pa.table({"t": [1, 5, None, 7, 3], "k": [1, 1, 2, 2, None], "x": [1, 2, 3, 4, 5]})
SPANS = pa.table({"lo": [0, 2, 4, None], "hi": [3, 8, 5, 9], "k": [1, 2, 2, 1]})


def graph(engine: Any = "local", **join: Any) -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("a", EVENTS)
    graph.add_relation("b", SPANS)
    if join:
        graph.add_join("a", "b", **join)
    return graph


def test_equalities_among_the_conjuncts_are_columns_of_the_join() -> None:
    joined = graph(condition="a.k = b.k and (lo <= t)")
    (join,) = joined.schema.joins
    assert join.pairs == (("k", "k"),)
    assert joined.hypertree().separator("a", "b") == {"a.k"}
    assert graph(condition="b.k = a.k").schema.joins[0].condition == ""


def test_the_graph_and_the_tree_tell_it() -> None:
    joined = graph(condition="a.t >= b.lo")
    assert "a ⋈ b on a.t >= b.lo" in repr(joined)
    assert "— b on no equal columns" in str(joined.hypertree())
    wide = joined.calibrate()
    assert "a.t >= b.lo" in str(wide.query().plan)


@pytest.mark.parametrize(
    ("join", "error", "text"),
    [
        ({"condition": "a.t > 3"}, SchemaError, "does not compare a with b"),
        ({"condition": "k > lo"}, SchemaError, "'k' is ambiguous: it may be a.k or b.k"),
        ({"condition": "a.t >"}, ExpressionError, "In the condition of a and b: Cannot parse"),
        ({"condition": "a.t + b.lo"}, ExpressionError, "must be true or false"),
        ({"condition": "a.t > c.lo"}, SchemaError, "There is no relation 'c'"),
        ({"condition": "a.u > b.lo"}, SchemaError, "a has no column 'u'"),
        (
            {"condition": "a.t > b.lo", "how": "left"},
            SchemaError,
            "how='left' with a condition is not",
        ),
    ],
)
def test_what_is_refused(join: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace("(", r"\(")):
        graph(**join)


def test_parts_are_joined_only_if_that_is_said() -> None:
    apart = graph()
    with pytest.raises(TreeError, match="have all combinations of their rows with cross_join=True"):
        apart.calibrate()
    with pytest.raises(TreeError, match="cross_join=True"):
        apart.hypertree({"a": ["a"], "b": ["b"]}, [("a", "b")])
    wide = apart.calibrate({"n": "count(*)", "s": "sum(a.x)"}, cross_join=True)
    assert wide.query().rows() == [{"n": 20, "s": 60}]
    assert wide.query(["b.k"], measures=["n"]).rows() == [{"b.k": 1, "n": 10}, {"b.k": 2, "n": 10}]
    assert wide.query(relations=["a"]).rows() == [{"n": 5, "s": 15}]
    by_tree = apart.calibrate(tree=apart.hypertree(cross_join=True))
    assert by_tree.query().rows() == [{"n": 20}]


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_a_relation_left_out_takes_its_condition_along(engine: str) -> None:
    joined = graph(engine, condition="a.t >= b.lo")
    joined.add_relation("c", {"k": [1, 2], "z": [5, 6]})
    joined.add_join("b", "c", on="k")
    wide = joined.calibrate()
    assert wide.query(relations=["b", "c"]).rows() == [{"n": 4}]
    assert wide.query(relations=["a"]).rows() == [{"n": 5}]
    with pytest.raises(QueryError, match="Add b"):
        wide.query(relations=["a", "c"])


def test_a_product_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = graph(condition="(a.t + b.lo) % 2 = 0").calibrate()
    assert wide.query().rows()
    monkeypatch.setattr(pairs, "MAX_PAIRS", 10)
    with pytest.raises(EngineError, match=r"try about 20 pairs of rows.*MAX_PAIRS = 20"):
        wide.query(["a.x", "b.hi"])
    with pytest.raises(EngineError, match="A join of tables without equal columns"):
        graph().calibrate(cross_join=True).query(["a.x", "b.hi"])


def test_one_inequality_of_many_rows_tries_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 10^10 pairs match; all that is kept or filtered is summed by order."""
    monkeypatch.setattr(pairs, "MAX_PAIRS", 0)
    rng = np.random.default_rng(7)
    tables = {
        "a": pa.table({"t": rng.permutation(100_000), "f": rng.random(100_000)}),
        "b": pa.table({"t": rng.integers(0, 100_000, 100_000), "g": rng.integers(0, 3, 100_000)}),
    }
    graph = ct.JoinGraph(engine="local")
    for name, table in tables.items():
        graph.add_relation(name, table)
    graph.add_join("a", "b", condition="a.t <= b.t")
    measures = {"n": "count(*)", "s": "sum(f)", "m": "max(f)"}
    wide = graph.calibrate(measures)
    order = np.argsort(tables["a"]["t"].to_numpy())
    below = np.cumsum(tables["a"]["f"].to_numpy()[order])
    most = np.maximum.accumulate(tables["a"]["f"].to_numpy()[order])
    t, g = (tables["b"][name].to_numpy() for name in ("t", "g"))
    for row in wide.query(["b.g"]).rows():
        mine = t[g == row["b.g"]]
        assert row["n"] == (mine + 1).sum()
        assert row["s"] == pytest.approx(below[mine].sum(), rel=1e-9)
        assert row["m"] == most[mine].max()
    both = {r["b.g"]: r["n"] for r in wide.query(["b.g"], where="a.t < 1000").rows()}
    assert both == {i: np.minimum(t[g == i] + 1, 1000).sum() for i in range(3)}


def test_cancelling_floats_lose_no_digits() -> None:
    """1e18 before a range must not take the digits of what is in it."""
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"t": [0, 1, 2, 3], "f": [1e18, 0.1, 0.2, -1e18]})
    graph.add_relation("b", {"lo": [1, 0], "hi": [3, 2]})
    graph.add_join("a", "b", condition="lo <= t and t < hi")
    wide = graph.calibrate({"s": "sum(f)"})
    assert wide.query(["lo"], where="lo = 1").rows()[0]["s"] == pytest.approx(0.3, rel=1e-12)


def test_sums_beyond_64_bits_are_exact() -> None:
    large = 2**62
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"t": [0, 1, 2, 3], "x": [large, large, large, large + 1]})
    graph.add_relation("b", {"u": [1, 3, 3]})
    graph.add_join("a", "b", condition="t <= u")
    result = graph.calibrate({"s": "sum(x)"}).query()
    assert result.rows() == [{"s": 2 * large + 2 * (4 * large + 1)}]
    assert result.exact


def test_saved_trees_have_their_conditions(tmp_path: Path) -> None:
    wide = graph(condition="lo <= t and t < hi and a.k = b.k").calibrate()
    wide.save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", engine="local")
    assert opened.schema.joins == wide.schema.joins
    assert opened.query(["a.x"]).rows() == wide.query(["a.x"]).rows()
    opened.update("a", insert=EVENTS.slice(0, 2))
    asked = {"group_by": [], "measures": {"n": "count(*)"}}
    tables = {"a": pa.concat_tables([EVENTS, EVENTS.slice(0, 2)]), "b": SPANS}
    database = ThetaDatabase(tables, (("a", "b", {"k": "k"}),), conditions=("lo <= t and t < hi",))
    assert opened.query().rows() == plain_answer(database, asked).to_pylist()


def test_verify_and_check_know_conditions() -> None:
    joined = graph(condition="lo <= t and t < hi")
    assert joined.check().ok
    assert joined.calibrate().verify().ok
