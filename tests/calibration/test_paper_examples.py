"""The paper's own examples: what is reused, what is computed, and where the root is."""

from __future__ import annotations

from typing import Any

import pytest

import calitree as ct
from calitree.calibration.branch import Branch
from calitree.wide_table import WideTable

R = {"A": [1, 1, 2], "B": [1, 2, 1]}
S = {"A": [1, 1, 2], "C": [1, 2, 1]}
T = {"A": [1, 2, 2], "D": [1, 1, 2]}


def chain_of_three() -> ct.JoinGraph:
    """Figure 1: AB, AC, AD, all joined on A, with the tree AB — AC — AD."""
    graph = ct.JoinGraph(engine="local")
    for name, columns in {"AB": R, "AC": S, "AD": T}.items():
        graph.add_relation(name, columns)
    graph.add_join("AB", "AC", on="A")
    graph.add_join("AC", "AD", on="A")
    return graph


def messages(keys: Any) -> set[str]:
    return {str(key) for key in keys}


def test_figure_2_moving_the_root_reuses_every_message() -> None:
    """§3.1: the filter on C blocks AC → AD if AD is the root; with AC as the root nothing is
    computed.
    """
    wide = chain_of_three().calibrate()
    plan = wide.plan(where="C = 1")
    assert plan.root == "AC"
    assert plan.computed == ()
    assert messages(plan.reused) == {"AB→AC", "AD→AC"}
    assert str(plan) == (
        "root AC   reused 2 of 2 messages\n"
        "reuse   AB→AC\n"
        "reuse   AD→AC\n"
        "absorb  AC      total where C = 1"
    )


def test_upward_messages_alone_do_not_let_the_root_move() -> None:
    """Without calibration there is nothing to reuse: that is why messages go in both directions."""
    graph = chain_of_three()
    wide = WideTable(
        Branch.new(graph.schema, graph.engine, graph.hypertree(), measures={"n": "count(*)"})
    )
    assert not wide.is_calibrated
    plan = wide.plan(where="C = 1")
    assert plan.reused == () and len(plan.computed) == 2
    assert wide.query(where="C = 1").rows() == [{"n": 2 * 1 * 1 + 1 * 1 * 2}]


def test_figure_6_filter_and_group_by() -> None:
    """§3.3: COUNT filtered by C = 1, grouped by B."""
    wide = chain_of_three().calibrate()
    result = wide.query(group_by=["B"], where="C = 1")
    assert sorted(result.rows(), key=str) == [{"B": 1, "n": 3}, {"B": 2, "n": 1}]
    # AB → AC carries B, or AC → AB is filtered: either way one message, and AD → AC is reused.
    assert len(result.plan.computed) == 1
    assert "AD→AC" in messages(result.plan.reused)


def chain(engine: str = "local") -> ct.JoinGraph:
    """Figure 7: AB — BC — CD."""
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("AB", {"A": [1, 2, 3], "B": [1, 1, 2]})
    graph.add_relation("BC", {"B": [1, 1, 2], "C": [1, 2, 2]})
    graph.add_relation("CD", {"C": [1, 2, 2, 2], "D": [1, 1, 2, 3]})
    graph.add_join("AB", "BC", on="B")
    graph.add_join("BC", "CD", on="C")
    return graph


def test_figure_7_predicates_stand_near_the_root_where_messages_can_be_reused() -> None:
    """Q2' of the paper: σ(C) at CD keeps BC → CD reusable; Q2, σ(C) at BC, would not."""
    wide = chain().calibrate()
    plan = wide.plan(group_by=["D"], where="BC.C = 2")
    assert plan.root == "CD"
    assert plan.computed == () and messages(plan.reused) == {"BC→CD"}
    assert [(str(a), bag) for a, bag in plan.placed if str(a).startswith("σ")] == [
        ("σ(BC.C = 2)", "CD")
    ]


def test_figure_7_predicates_are_pushed_down_where_nothing_can_be_reused() -> None:
    """The same query on a tree that is not calibrated: σ goes as far from the root as C is."""
    graph = chain()
    wide = WideTable(
        Branch.new(graph.schema, graph.engine, graph.hypertree(), measures={"n": "count(*)"})
    )
    plan = wide.plan(group_by=["D"], where="BC.C = 2")
    assert plan.root == "CD" and messages(plan.computed) == {"AB→BC", "BC→CD"}
    assert [(str(a), bag) for a, bag in plan.placed if str(a).startswith("σ")] == [
        ("σ(BC.C = 2)", "BC")
    ]


def steiner() -> WideTable:
    """Figure 8: bags BF — BC — AC — CD — DE; the pivot groups by D and filters B = 1."""
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("BF", {"B": [1, 2, 2], "F": [1, 1, 2]})
    graph.add_relation("BC", {"B": [1, 1, 2], "C": [1, 2, 1]})
    graph.add_relation("AC", {"A": [1, 2, 3, 4, 5, 5], "C": [1, 1, 2, 1, 2, 1]})
    graph.add_relation("CD", {"C": [1, 2, 2], "D": [1, 1, 2]})
    graph.add_relation("DE", {"D": [1, 1, 2], "E": [1, 2, 3]})
    for left, right, on in [
        ("BF", "BC", "B"),
        ("BC", "AC", "C"),
        ("AC", "CD", "C"),
        ("CD", "DE", "D"),
    ]:
        graph.add_join(left, right, on=on)
    return graph.calibrate(group_by=["DE.D"], where="BC.B = 1")


def test_figure_8_the_steiner_tree_is_shrunk_and_compensated() -> None:
    """Q groups by A and filters C = 1: σ(B) is dropped, γ(D) summed out at CD, root AC."""
    wide = steiner()
    plan = wide.plan(group_by=["A"], where="AC.C = 1")
    assert plan.root == "AC"
    assert messages(plan.computed) == {"BC→AC", "CD→AC"}
    assert messages(plan.reused) == {"BF→BC", "DE→CD"}
    placed = {str(annotation): bag for annotation, bag in plan.placed}
    assert placed["γ(AC.A)"] == "AC" and placed["Σ(CD.D)"] == "CD"
    shown = str(plan)
    assert "the pivot's σ(BC.B = 1) is not wanted" in shown
    assert "the pivot's γ(CD.D) is not wanted" in shown


@pytest.mark.parametrize(
    "question",
    [
        {"group_by": ["AB.B"]},
        {"group_by": ["AC.C"]},
        {"group_by": ["AD.D"]},
        {"group_by": ["A"]},
        {"where": "D = 2"},
        {"where": "B = 1"},
        {"where": "A = 1"},
    ],
)
def test_one_attribute_deltas_compute_no_message(question: dict[str, Any]) -> None:
    """§3.4.1: calibration means that all bags are ready for absorption."""
    assert chain_of_three().calibrate().plan(**question).computed == ()


def store_and_time(engine: str = "local") -> ct.JoinGraph:
    """Figure 4, simplified TPC-DS: Store_Sales with its dimensions."""
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation(
        "Store_Sales",
        {
            "store": [1, 1, 2, 2, 2, 3] * 20,
            "time": [1, 2, 1, 1, 2, 3] * 20,
            "item": list(range(10)) * 12,
            "price": list(range(120)),
        },
    )
    graph.add_relation("Stores", {"store": [1, 2, 3], "city": ["x", "y", "y"]})
    graph.add_relation("Time", {"time": [1, 2, 3], "hour": [8, 9, 9]})
    graph.add_relation("Items", {"item": list(range(10)), "brand": list("aabbccddee")})
    for dimension, key in [("Stores", "store"), ("Time", "time"), ("Items", "item")]:
        graph.add_join("Store_Sales", dimension, on=key)
    return graph


def test_figure_4_an_empty_bag_answers_without_the_fact_bag() -> None:
    """An empty bag (store, time) keeps the view that a query by both needs."""
    graph = store_and_time()
    tree = graph.hypertree(empty={"Store_Time": ["Stores.store", "Time.time"]})
    assert set(tree.neighbours("Store_Time")) == {"Store_Sales", "Stores", "Time"}
    wide = graph.calibrate({"n": "count(*)", "s": "sum(price)"}, tree=tree)
    result = wide.query(group_by=["Stores.store", "Time.time"])
    assert result.plan.root == "Store_Time" and result.plan.computed == ()
    assert result.plan.absorb is not None and result.plan.absorb.bag == "Store_Time"
    plain = graph.calibrate({"n": "count(*)", "s": "sum(price)"})
    with_fact = plain.query(group_by=["Stores.store", "Time.time"])
    assert with_fact.plan.root == "Store_Sales"
    assert sorted(result.rows(), key=str) == sorted(with_fact.rows(), key=str)


def test_figure_5_a_leaf_empty_bag_is_the_identity() -> None:
    """Figure 5(b): an empty bag D beside AD materialises COUNT by D, and changes no answer."""
    graph = chain_of_three()
    wide = graph.calibrate(tree=graph.hypertree(empty={"just_D": ["AD.D"]}))
    assert wide.is_calibrated and len(wide.state.store.pinned) == 5, (
        "nothing is sent by an empty leaf"
    )
    result = wide.query(group_by=["D"])
    assert result.plan.root == "just_D" and result.plan.computed == ()
    assert sorted(result.rows(), key=str) == [{"D": 1, "n": 5}, {"D": 2, "n": 1}]


def test_figure_3_different_mappings_different_messages_same_answers() -> None:
    """R(A,B), S(A), T(B,C) on bags AB — ABC or so: S may be mapped to either bag that has A."""
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("R", {"A": [1, 1, 2], "B": [1, 2, 2]})
    graph.add_relation("S", {"A": [1, 1, 3]})
    graph.add_relation("T", {"B": [1, 2, 2], "C": [1, 2, 3]})
    graph.add_join("R", "S", on="A")
    graph.add_join("R", "T", on="B")
    bags = {"left": ["R.A", "R.B"], "right": ["R.A", "R.B", "T.C"]}
    wides = []
    for home in ("left", "right"):
        tree = graph.hypertree(
            bags, [("left", "right")], mapping={"R": "left", "S": home, "T": "right"}
        )
        wides.append(graph.calibrate(tree=tree))
    sent = [
        {m.key.source: wide.engine.arrow(m.table).to_pylist() for m in wide.state.store.pinned}
        for wide in wides
    ]
    assert sent[0]["left"] != sent[1]["left"]
    for question in ({}, {"group_by": ["C"]}, {"group_by": ["S.A"]}, {"where": "T.C > 1"}):
        answers = [sorted(wide.query(**question).rows(), key=str) for wide in wides]
        assert answers[0] == answers[1]
    assert wides[0].query().rows() == [{"n": 6}]


def test_a_new_measure_reuses_the_counts() -> None:
    """Ours: a measure lifted at one relation needs no message if its bag is the root."""
    wide = store_and_time().calibrate()
    plan = wide.plan(measures={"s": "sum(Stores.store)"})
    assert plan.root == "Stores" and plan.computed == ()
    far = wide.plan(group_by=["hour"], measures={"s": "sum(price)"})
    assert far.root == "Time" and messages(far.computed) == {"Store_Sales→Time"}
    assert "λ(price) is new" in str(far)


def test_count_triangles_in_both_designs() -> None:
    """Appendix on latency: all relations in one bag of width 1.5, or apart around an empty bag."""
    graph = ct.JoinGraph(engine="local")
    for name, (a, b) in {"R": "AB", "S": "BC", "T": "AC"}.items():
        grid = [(i, j) for i in range(4) for j in range(4)]
        graph.add_relation(name, {a: [i for i, _ in grid], b: [j for _, j in grid]})
    for left, right, on in [("R", "S", "B"), ("S", "T", "C"), ("R", "T", "A")]:
        graph.add_join(left, right, on=on)
    reduced, redundant = graph.hypertree(), graph.hypertree(redundant=True)
    assert str(reduced) == "R+S+T [R, S, T]   width 1.5, at most 64 distinct rows"
    (empty,) = [bag.name for bag in redundant.bags if not bag.relations]
    assert set(redundant.neighbours(empty)) == {"R", "S", "T"} and len(redundant.edges) == 3
    for tree in (reduced, redundant):
        assert graph.calibrate(tree=tree).query().rows() == [{"n": 64}], "16^1.5: the bound is met"
