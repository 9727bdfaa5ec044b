"""What declared joins mean: as SQL, which of them are outer in effect, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import calitree as ct
from calitree.errors import QueryError, SchemaError, TreeError
from calitree.jointree.joins.from_clause import (
    effective_hows,
    from_clause,
    inner_blocks,
    outer_joins,
)
from calitree.jointree.schema import Join


def join(text: str) -> Join:
    """`a left b`, on columns that are called `ab` on both sides."""
    left, how, right = text.split()
    name = "".join(sorted(left + right))
    return Join(left, right, ((name, name),), how)


def graph_of(*texts: str, engine: Any = "local") -> ct.JoinGraph:
    """The graph of such joins; each relation has the keys that it needs, and one that it has alone."""
    joins = list(map(join, texts))
    graph = ct.JoinGraph(engine=engine)
    for name in sorted({name for j in joins for name in (j.left, j.right)}):
        keys = {column for j in joins if name in (j.left, j.right) for column, _ in j.pairs}
        rows = range(ord(name) - ord("a"), 6)
        graph.add_relation(
            name, {key: list(rows) for key in sorted(keys)} | {f"x{name}": list(rows)}
        )
    for j in joins:
        graph.add_join(j.left, j.right, on=dict(j.pairs), how=j.how)
    return graph


def hows(*texts: str) -> list[str]:
    joins = list(map(join, texts))
    return effective_hows(sorted({n for j in joins for n in (j.left, j.right)}), joins)


def outward(*texts: str) -> list[str]:
    """The outer joins from the core outward."""
    joins = list(map(join, texts))
    clause = from_clause(sorted({n for j in joins for n in (j.left, j.right)}), joins)
    return [
        f"{''.join(sorted(j.preserved))} {'full' if j.is_full else 'left'} {''.join(sorted(j.optional))}"
        for j in outer_joins(clause)
    ]


# -- what is left of outer joins -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "effective"),
    [
        (["a left b"], ["left"]),
        (["a left b", "b inner c"], ["inner", "inner"]),
        (["a left b", "a inner c"], ["left", "inner"]),
        (["b inner c", "a left b"], ["inner", "left"]),
        (["a left b", "b left c"], ["left", "left"]),
        (["a left b", "b right c"], ["inner", "right"]),
        (["a left b", "a right c"], ["left", "right"]),
        (["a full b", "a inner c"], ["left", "inner"]),
        (["a full b", "b inner c"], ["right", "inner"]),
        (["a full b", "a left c"], ["full", "left"]),
        (["a full b", "a right c"], ["left", "right"]),
        (["a full b", "a inner c", "b inner d"], ["inner", "inner", "inner"]),
        (["a left b", "b left c", "c inner d"], ["inner", "inner", "inner"]),
        (["a right b"], ["right"]),
    ],
)
def test_joins_after_an_outer_join_may_make_it_an_inner_one(
    declared: list[str], effective: list[str]
) -> None:
    assert hows(*declared) == effective


def test_the_optional_side_is_a_block() -> None:
    joins = [join("b inner c"), join("a left b")]
    clause = from_clause("abc", joins)
    assert inner_blocks(clause)["b"] == {"b", "c"}
    (outer,) = outer_joins(clause)
    assert outer.preserved == {"a"} and outer.optional == {"b", "c"} and outer.linked == {"b"}


def test_outer_joins_are_seen_from_the_core() -> None:
    assert outward("a right b") == ["b left a"]
    assert outward("a left b", "b left c") == ["a left b", "b left c"]
    assert outward("a left b", "a right c") == ["c left a", "a left b"]
    assert outward("a full b", "b left c") == ["a full b", "b left c"]
    assert outward("a full b", "a inner c") == ["a left b"]
    assert outward("a left b", "b inner c") == []


# -- as SQL ----------------------------------------------------------------------------------------


def test_the_text() -> None:
    assert graph_of("a left b", "a full c").from_clause() == (
        "a LEFT JOIN b ON a.ab = b.ab FULL JOIN c ON a.ac = c.ac"
    )
    assert graph_of("b inner c", "a left b").from_clause() == (
        "a LEFT JOIN (b JOIN c ON b.bc = c.bc) ON a.ab = b.ab"
    )
    assert graph_of("a right b").from_clause() == "a RIGHT JOIN b ON a.ab = b.ab"


def test_names_that_need_quotes() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("the sales", {"store nbr": [1], "day": [1]})
    graph.add_relation("select", {'a"b': [1], "day": [1]})
    graph.add_join("the sales", "select", on={"store nbr": 'a"b', "day": "day"}, how="left")
    assert graph.from_clause() == (
        '"the sales" LEFT JOIN "select" ON "the sales"."store nbr" = "select"."a""b" '
        'AND "the sales"."day" = "select"."day"'
    )
    assert graph.calibrate().verify().ok


def test_a_closing_join_is_part_of_the_on() -> None:
    graph = graph_of("b inner c", "a left b", "a left c")
    assert graph.from_clause() == (
        "a LEFT JOIN (b JOIN c ON b.bc = c.bc) ON a.ab = b.ab AND a.ac = c.ac"
    )
    assert graph.calibrate().verify().ok


def test_relations_that_are_not_joined() -> None:
    graph = graph_of("a left b")
    graph.add_relation("z", {"x": [1]})
    assert graph.from_clause() == "a LEFT JOIN b ON a.ab = b.ab CROSS JOIN z"
    with pytest.raises(TreeError) as caught:
        ct.JoinGraph(engine="local").from_clause()
    assert str(caught.value) == "The graph has no relation yet; add one with add_relation."


# -- what is refused -------------------------------------------------------------------------------


def refused(*texts: str) -> str:
    with pytest.raises(SchemaError) as caught:
        graph_of(*texts)
    return str(caught.value)


def test_a_closing_join_of_another_kind() -> None:
    assert refused("b inner c", "a left b", "a inner c") == (
        "a ⋈ c on a.ac = c.ac closes a cycle: it is part of the left join that has connected a and b, and "
        "cannot be inner. Declare it with how='left'."
    )
    assert refused("b inner c", "a left b", "c left a") == (
        "c ⟕ a on c.ac = a.ac closes a cycle: it is part of the right join that has connected a and b, and "
        "cannot be left. Declare it with how='right'."
    )


def test_an_outer_join_on_columns_of_independent_relations() -> None:
    assert refused("a left b", "a left c", "b left d", "c left d") == (
        "An outer join on columns of b and c is not supported: one of these relations may be NULL where "
        "the other is not."
    )


def test_a_full_join_between_optional_sides() -> None:
    assert refused("a left b", "c left d", "b full d") == (
        "A full join of relations that are both the optional side of other joins is not supported: "
        "d is one, for c. Declare the full join first, or join one side inner."
    )


def test_an_unknown_kind() -> None:
    with pytest.raises(SchemaError) as caught:
        graph_of("a outer b")
    assert str(caught.value) == "how is one of inner, left, right, full; got 'outer'."


def test_a_relation_left_out_without_which_another_join_is_outer() -> None:
    """`(a LEFT JOIN b) JOIN c ON b` is inner, and `a LEFT JOIN b` is not."""
    wide = graph_of("a left b", "b inner c").calibrate()
    with pytest.raises(QueryError) as caught:
        wide.query(relations=["a", "b"])
    assert str(caught.value) == (
        "With the relations left out, other joins of those that stay would be outer joins: an inner join "
        "behind them, or a join that closes a cycle, is gone. Declare a graph without them."
    )
    assert wide.query(relations=["b", "c"]).rows() == [{"n": 4}]


# -- trees -----------------------------------------------------------------------------------------


def test_bags_that_break_an_outer_join() -> None:
    graph = graph_of("b inner c", "a left b")
    with pytest.raises(TreeError) as caught:
        graph.hypertree({"A": ["a"], "B": ["b"], "C": ["c"]}, [("A", "B"), ("B", "C")])
    assert str(caught.value) == (
        "b and c are one side of an outer join, so they must share a bag; they are in B and C."
    )
    with pytest.raises(TreeError) as caught:
        graph.hypertree({"A": ["a", "b", "c"]})
    assert (
        str(caught.value) == "Bag A is the optional side of an outer join, so it cannot have a too."
    )
    tree = graph.hypertree({"A": ["a"], "B": ["b", "c"]}, [("A", "B")])
    assert graph.calibrate(tree=tree).verify().ok


def test_an_edge_must_be_between_the_two_sides() -> None:
    graph = graph_of("a left b", "a left c")
    with pytest.raises(TreeError) as caught:
        graph.hypertree({"A": ["a"], "B": ["b"], "C": ["c"]}, [("A", "B"), ("B", "C")])
    assert str(caught.value) == (
        "Running intersection: the bags with a.ac? (A, C) are not connected."
    )
    bags = {"A": ["a"], "M": ["a"], "B": ["b"], "C": ["c"]}
    with pytest.raises(TreeError) as caught:
        graph.hypertree(bags, [("A", "M"), ("A", "B"), ("M", "C")], {"a": "A"})
    assert str(caught.value) == (
        "C is the optional side of an outer join with A: there must be an edge between these bags."
    )
    tree = graph.hypertree(empty={"view": ["a.ab", "a.ac"], "other": ["b.xb"]})
    wide = graph.calibrate(tree=tree)
    assert wide.verify().ok and wide.query().rows() == [{"n": 6}]


@pytest.mark.parametrize("redundant", [False, True])
def test_a_cyclic_core_with_optional_dimensions(redundant: bool) -> None:
    graph = graph_of("a inner b", "b inner c", "c inner a", "a left d", "b left e", "e left f")
    wide = graph.calibrate(tree=graph.hypertree(redundant=redundant))
    assert wide.query().rows() == [{"n": 4}]
    assert wide.query(where="f.xf is null").rows() == [{"n": 3}]
    assert wide.verify().ok


def test_an_optional_cycle() -> None:
    graph = graph_of("b inner c", "c inner d", "d inner b", "a left b", engine="local")
    wide = graph.calibrate()
    assert wide.query().rows() == [{"n": 6}]
    assert wide.query(where="d.xd is null").rows() == [{"n": 3}]
    assert wide.verify().ok


# -- plans -----------------------------------------------------------------------------------------


def test_the_plan_of_a_left_join() -> None:
    wide = graph_of("a left b", "a left c").calibrate()
    assert str(wide.plan(["b.xb"], where="c.xc > 2")).splitlines() == [
        "root a   reused 0 of 2 messages",
        "compute  b→a   γ(b.xb) is not in the pivot",
        "compute  c→a   σ(c.xc > 2) is not in the pivot",
        "absorb   a     keep b.xb",
    ]


def test_the_plan_of_a_full_join() -> None:
    wide = graph_of("a full b", "a left c").calibrate()
    assert str(wide.plan(["b.xb"], where="c.xc > 2")).splitlines() == [
        "root a   reused 0 of 2 messages",
        "compute  b→a   γ(b.xb) is not in the pivot",
        "compute  c→a   σ(c.xc > 2) is not in the pivot",
        "absorb   a     keep b.xb",
        "absorb   b     what has no partner in a",
    ]
