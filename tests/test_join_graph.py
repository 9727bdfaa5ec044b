"""Declaring graphs: attributes are classes of joined columns, and trees come from them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import calitree as ct
from calitree.engines.api.contraction import Contraction
from calitree.engines.local import LocalEngine


def nations(engine: str = "local") -> ct.JoinGraph:
    """TPC-H in small: one table of nations, used for suppliers and for customers."""
    nation = {"id": [1, 2, 3], "name": ["PERU", "CHINA", "JAPAN"]}
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("orders", {"supplier": [1, 1, 2], "customer": [7, 8, 7], "price": [5, 6, 7]})
    graph.add_relation("suppliers", {"id": [1, 2], "nation": [1, 2]})
    graph.add_relation("customers", {"id": [7, 8], "nation": [2, 3]})
    graph.add_relation("n1", nation)
    graph.add_relation("n2", nation)
    graph.add_join("orders", "suppliers", on={"supplier": "id"})
    graph.add_join("orders", "customers", on={"customer": "id"})
    graph.add_join("suppliers", "n1", on={"nation": "id"})
    graph.add_join("customers", "n2", on={"nation": "id"})
    return graph


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_one_table_under_two_names(engine: str) -> None:
    wide = nations(engine).calibrate({"n": "count(*)", "s": "sum(price)"})
    rows = wide.query(group_by=["n1.name", "n2.name"]).rows()
    assert sorted(rows, key=str) == [
        {"n1.name": "CHINA", "n2.name": "CHINA", "n": 1, "s": 7},
        {"n1.name": "PERU", "n2.name": "CHINA", "n": 1, "s": 5},
        {"n1.name": "PERU", "n2.name": "JAPAN", "n": 1, "s": 6},
    ]
    pair = "(n1.name = 'PERU' and n2.name = 'JAPAN') or (n1.name = 'JAPAN' and n2.name = 'PERU')"
    assert wide.query(where=pair).rows() == [{"n": 1, "s": 6}]


def test_attributes_are_classes_of_columns() -> None:
    schema = nations().schema
    assert schema.attributes["orders.supplier"].columns == (
        ("orders", "supplier"),
        ("suppliers", "id"),
    )
    assert schema.column("suppliers.id").attribute == "orders.supplier"
    assert schema.column("price").attribute == "orders.price"
    assert schema.components(["orders", "n1", "n2"]) == [["orders"], ["n1"], ["n2"]]


def test_the_tree_follows_the_declared_joins() -> None:
    tree = nations().hypertree()
    assert {frozenset(edge) for edge in tree.edges} == {
        frozenset(("orders", "suppliers")),
        frozenset(("orders", "customers")),
        frozenset(("suppliers", "n1")),
        frozenset(("customers", "n2")),
    }
    assert tree.subtree("suppliers", "orders") == {"suppliers", "n1"}
    assert "suppliers [suppliers]" in str(tree)


def test_a_cycle_that_a_shared_class_resolves_is_no_cycle() -> None:
    """a.k = b.k, b.k = c.k and a.k = c.k say one thing: it is an acyclic graph on one attribute."""
    graph = ct.JoinGraph(engine="local")
    for name in "abc":
        graph.add_relation(name, {"k": [1, 1, 2]})
    for left, right in ("ab", "bc", "ac"):
        graph.add_join(left, right, on="k")
    assert graph.calibrate().query(group_by=["k"]).rows() == [{"k": 1, "n": 8}, {"k": 2, "n": 1}]


def test_a_single_relation_is_a_graph() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("only", {"x": [1, 1, None]})
    wide = graph.calibrate()
    assert wide.is_calibrated
    assert wide.query(group_by=["x"]).rows() == [{"x": None, "n": 1}, {"x": 1, "n": 2}]


class Counting(LocalEngine):
    """A local engine that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Contraction] = []

    def contract(self, contraction: Contraction, watch: Any = None) -> Any:
        self.calls.append(contraction)
        return super().contract(contraction)


def test_a_star_is_calibrated_in_one_contraction_of_the_fact() -> None:
    """n dimensions: n small messages in, then all n messages out of the fact in a single call."""
    engine = Counting()
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("fact", {f"k{i}": list(range(10)) for i in range(5)})
    for i in range(5):
        graph.add_relation(f"d{i}", {"id": list(range(8)), "name": [f"n{j}" for j in range(8)]})
        graph.add_join("fact", f"d{i}", on={f"k{i}": "id"})
    wide = graph.calibrate()
    assert [len(call.outputs) for call in engine.calls] == [1, 1, 1, 1, 1, 5]
    engine.calls.clear()
    assert wide.query(group_by=["d3.name"], where="d3.id < 5").rows()[0]["n"] == 1
    (absorb,) = engine.calls
    assert {len(given.attributes) for given in absorb.inputs} == {1, 2}, (
        "the dimension and a message"
    )


def test_progress_is_reported_bag_by_bag() -> None:
    calls: list[tuple[int, int, str]] = []
    nations().calibrate(progress=lambda done, total, what: calls.append((done, total, what)))
    assert calls[0][:2] == (0, 8) and calls[-1] == (8, 8, "")
    assert any("orders→" in what for _, _, what in calls)


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_integers_join_floats_as_frames_with_missing_keys_have_them(engine: str) -> None:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("a", {"k": [1, 2, 3, 0]})
    graph.add_relation("b", {"k": [1.0, 3.0, 3.5, float("nan"), -0.0, None]})
    graph.add_join("a", "b", on="k")
    wide = graph.calibrate()
    assert sorted(row["k"] for row in wide.query(group_by=["k"]).rows()) == [0, 1, 3]
    assert wide.verify().ok


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_nan_is_a_key_and_there_is_one_zero(engine: str) -> None:
    """As DuckDB and Spark have it: NaN equals NaN, and -0.0 equals 0.0."""
    nan = float("nan")
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("a", {"k": [0.0, -0.0, nan, 1.5, None]})
    graph.add_relation("b", {"k": [-0.0, nan, nan, None]})
    graph.add_join("a", "b", on="k")
    wide = graph.calibrate()
    assert wide.query(where="k = 0").rows() == [{"n": 2}]
    assert wide.query().rows() == [{"n": 4}]
    assert wide.verify([{}, {"group_by": ["k"]}]).ok


def test_keys_that_a_double_cannot_hold_are_refused() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"k": [2**53 + 1]})
    graph.add_relation("b", {"k": [0.5]})
    graph.add_join("a", "b", on="k")
    with pytest.raises(ct.EngineError, match="Cast one of the columns in its source"):
        graph.calibrate()


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_a_predicate_waits_for_what_a_relation_left_out_would_supply(engine: str) -> None:
    """X.A and Y.D are both columns of R's bag, but without R one of them comes from elsewhere."""
    random = Random(0)
    tables = {
        "R": {"A": range(4), "D": range(4), "K": [0, 1, 0, 1]},
        "X": {
            name: [random.randrange(n) for _ in range(20)]
            for name, n in zip("AKx", (4, 2, 3), strict=True)
        },
        "Y": {
            name: [random.randrange(n) for _ in range(20)]
            for name, n in zip("DKy", (4, 2, 3), strict=True)
        },
    }
    graph = ct.JoinGraph(engine=engine)
    for name, columns in tables.items():
        graph.add_relation(name, {label: list(values) for label, values in columns.items()})
    graph.add_join("R", "X", on=["A", "K"])
    graph.add_join("R", "Y", on=["D", "K"])
    graph.add_join("X", "Y", on="K")
    result = graph.calibrate().query(where="X.A < Y.D", relations=["X", "Y"], group_by=["x", "y"])
    xs, ys = (list(zip(*tables[name].values(), strict=True)) for name in "XY")
    expected = Counter((x, y) for a, k, x in xs for d, other, y in ys if k == other and a < d)
    assert {(row["x"], row["y"]): row["n"] for row in result} == expected
