"""Hypertrees found automatically: valid for every graph, narrow where that is known, always the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.jointree.cycles import cyclic_core
from calitree.jointree.width import Width, cover
from tests.support.scale import examples

Shape = Mapping[str, str]
"""Relations, and their join attributes as letters."""

TRIANGLE = {"R": "AB", "S": "BC", "T": "AC"}


def graph_of(shape: Shape, rows: Mapping[str, int] | None = None) -> ct.JoinGraph:
    """A graph of this shape. Every relation has a column `x` of its own, and 100 rows if not said."""
    graph = ct.JoinGraph(engine="reference")
    first: dict[str, str] = {}
    for name, letters in shape.items():
        count = (rows or {}).get(name, 100)
        graph.add_relation(name, {column: list(range(count)) for column in (*letters, "x")})
        for letter in letters:
            if letter in first:
                graph.add_join(first[letter], name, on=letter)
            first.setdefault(letter, name)
    return graph


def cycle(length: int) -> dict[str, str]:
    letters = "ABCDEFGHIJ"[:length]
    return {f"R{i}": letters[i] + letters[(i + 1) % length] for i in range(length)}


def clique(size: int) -> dict[str, str]:
    return {f"R{a}{b}": a + b for a, b in combinations("ABCDEFGH"[:size], 2)}


def width(tree: ct.Hypertree) -> float:
    return max(width.exponent for width in tree.widths.values())


def bags_of(tree: ct.Hypertree) -> dict[str, tuple[str, ...]]:
    return {bag.name: bag.relations for bag in tree.bags}


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, str]:
    """Connected hypergraphs of up to eight relations over up to seven attributes."""
    letters = st.lists(st.sampled_from("ABCDEFG"), min_size=1, max_size=4, unique=True)
    drawn = draw(st.lists(letters, min_size=1, max_size=8))
    shape = {f"r{i}": "".join(attributes) for i, attributes in enumerate(drawn)}
    links = [(name, letter) for name, held in shape.items() for letter in held]
    assume(nx.is_connected(nx.Graph(links)))
    return shape


def is_acyclic(shape: Shape) -> bool:
    """The other definition: the primal graph is chordal, and its cliques are in relations."""
    pairs = [(a, b) for held in shape.values() for a, b in combinations(held, 2)]
    primal = nx.Graph(pairs)
    cliques = map(set, nx.find_cliques(primal)) if pairs else ()
    return (not pairs or nx.is_chordal(primal)) and all(
        any(clique <= set(held) for held in shape.values()) for clique in cliques
    )


sizes = st.dictionaries(st.sampled_from([f"r{i}" for i in range(8)]), st.integers(0, 30))


@settings(max_examples=examples(150))
@given(shape=shapes(), rows=sizes)
def test_every_graph_has_a_tree(shape: dict[str, str], rows: dict[str, int]) -> None:
    """That it is one is checked when it is made; here, which relations share bags."""
    graph = graph_of(shape, rows)
    tree = graph.hypertree()
    attributes = tree.relations
    assert sorted(r for bag in tree.bags for r in bag.relations) == sorted(shape)
    core = cyclic_core(attributes)
    assert bool(core) != is_acyclic(shape)
    for relation in shape:
        if relation not in core:
            home = tree.bag(tree.home(relation))
            assert home.relations == (relation,) and home.attributes == attributes[relation]
    shared = [bag.attributes for bag in tree.bags if set(bag.relations) <= set(core)]
    assert not any(a < b for a in shared for b in shared), "no bag of the core is inside another"
    assert str(graph.hypertree()) == str(tree) and graph.hypertree() == tree


@settings(max_examples=examples(100))
@given(shape=shapes(), rows=sizes)
def test_no_bag_is_wider_than_the_join(shape: dict[str, str], rows: dict[str, int]) -> None:
    graph = graph_of(shape, rows)
    letters = {name: frozenset(held) for name, held in shape.items()}
    joined = frozenset("".join(shape.values()))
    together = cover(joined, letters, dict.fromkeys(shape, 1.0))
    for tree in (graph.hypertree(), graph.hypertree(redundant=True)):
        assert 1 <= width(tree) <= max(1, together)


@settings(max_examples=examples(100))
@given(shape=shapes(), rows=sizes)
def test_the_redundant_design_gives_every_relation_its_bag(
    shape: dict[str, str], rows: dict[str, int]
) -> None:
    graph = graph_of(shape, rows)
    tree, plain = graph.hypertree(redundant=True), graph.hypertree()
    for name, attributes in tree.relations.items():
        assert tree.bag(name).relations == (name,) and tree.bag(name).attributes == attributes
    assert (tree == plain) == (len(tree.bags) == len(shape)), (
        "the same if there is nothing to share"
    )
    assert width(tree) <= width(plain)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (TRIANGLE, 1.5),
        *((cycle(k), 2.0) for k in (4, 5, 6, 7)),
        *((clique(k), k / 2) for k in (4, 5, 6)),
        # Loomis and Whitney's: all four triples of four attributes.
        ({"R": "ABC", "S": "ABD", "T": "ACD", "U": "BCD"}, 4 / 3),
        ({"fact": "ABC", "a": "A", "b": "B", "c": "C"}, 1.0),
    ],
)
def test_known_widths(shape: Shape, expected: float) -> None:
    assert width(graph_of(shape).hypertree()) == pytest.approx(expected)


@pytest.mark.parametrize("k", range(3, 9))
def test_known_covers(k: int) -> None:
    """A cycle is covered by half of each of its edges, a clique too."""
    for shape, expected in ((cycle(k), k / 2), (clique(k), k / 2)):
        held = {name: frozenset(letters) for name, letters in shape.items()}
        everything = frozenset().union(*held.values())
        assert cover(everything, held, dict.fromkeys(held, 1.0)) == expected


def test_the_tree_is_printed_with_its_widths() -> None:
    """A triangle of 100 rows each has at most 100^1.5; with 7 values of A, 7 · 100."""
    graph = graph_of({**TRIANGLE, "dim": "A"}, {"dim": 7})
    assert str(graph.hypertree()) == (
        "dim [dim]   width 1, at most 7 distinct rows\n"
        "  — R+S+T on R.A\n"
        "R+S+T [R, S, T]   width 1.5, at most 700 distinct rows\n"
        "  — dim on R.A"
    )
    assert str(graph.hypertree(redundant=True, empty={"just_x": ["dim.x"]})) == (
        "R [R]   width 1, at most 100 distinct rows\n"
        "  — (R.A, R.B, S.C) on R.A, R.B\n"
        "  — dim on R.A\n"
        "S [S]   width 1, at most 100 distinct rows\n"
        "  — (R.A, R.B, S.C) on R.B, S.C\n"
        "T [T]   width 1, at most 100 distinct rows\n"
        "  — (R.A, R.B, S.C) on R.A, S.C\n"
        "dim [dim]   width 1, at most 7 distinct rows\n"
        "  — R on R.A\n"
        "  — just_x on dim.x\n"
        "(R.A, R.B, S.C) [empty]   width 1.5, at most 700 distinct rows\n"
        "  — R on R.A, R.B\n"
        "  — S on R.B, S.C\n"
        "  — T on R.A, S.C\n"
        "just_x [empty]   width 1, at most 7 distinct rows\n"
        "  — dim on dim.x"
    )


def test_a_tree_of_ones_own_is_printed_too() -> None:
    tree = graph_of(TRIANGLE).hypertree(bags={"all": ["R", "S", "T"]})
    assert str(tree) == "all [R, S, T]   width 1.5, at most 1,000 distinct rows"
    bag = ct.Bag("all", frozenset("ABC"), tuple(TRIANGLE))
    held = {name: frozenset(letters) for name, letters in TRIANGLE.items()}
    assert str(ct.Hypertree((bag,), (), held)) == "all [R, S, T]   width 1.5"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Width(4 / 3), "width 1.33"),
        (Width(2.0, 1e30), "width 2, at most 1.0e+30 distinct rows"),
        (Width(2.0, float("inf")), "width 2, at most inf distinct rows"),
    ],
)
def test_widths_are_short(given: Width, expected: str) -> None:
    assert str(given) == expected


def test_sizes_that_no_float_holds() -> None:
    """Thirty relations, pairwise disjoint, of 2^40 rows each, and the bag that needs them all."""
    held = {f"r{i}": frozenset((f"a{i}", f"b{i}")) for i in range(30)}
    bag = ct.Bag("all", frozenset().union(*held.values()), tuple(held))
    views = [ct.Bag(f"v{a}", frozenset((a,))) for a in sorted(bag.attributes)]
    edges = tuple(("all", view.name) for view in views)
    tree = ct.Hypertree((bag, *views), edges, held, lambda name: 2**40)
    assert tree.widths["all"] == Width(30.0, float("inf"))


@pytest.mark.parametrize(("small", "expected"), [("R0 R1", ("R0", "R3")), ("R1 R2", ("R0", "R1"))])
def test_sizes_decide_how_a_cycle_is_cut(small: str, expected: Sequence[str]) -> None:
    """Of a cycle of four, each small relation goes with a large one: 10 · 1,000 twice, not 1,000²."""
    rows = {f"R{i}": 10 if f"R{i}" in small else 1_000 for i in range(4)}
    tree = graph_of(cycle(4), rows).hypertree()
    assert tuple(expected) in [bag.relations for bag in tree.bags]
    assert [width.rows for width in tree.widths.values()] == [pytest.approx(10_000)] * 2


def test_only_the_cycle_shares_a_bag() -> None:
    """Sakila: staff and inventory are of a store, and a rental has both. Stores stay an ear."""
    shape = {"rental": "SI", "staff": "ST", "store": "T", "inventory": "TI", "city": "Q"}
    shape["store"] += "Q"
    tree = graph_of(shape).hypertree()
    assert bags_of(tree) == {
        "store": ("store",),
        "city": ("city",),
        "rental+staff+inventory": ("rental", "staff", "inventory"),
    }
    assert set(tree.edges) == {("store", "city"), ("store", "rental+staff+inventory")}


def test_cycles_that_a_bridge_connects_stay_apart() -> None:
    left, right = TRIANGLE, {"U": "DE", "V": "EF", "W": "DF"}
    tree = graph_of({**left, "bridge": "CD", **right}).hypertree()
    assert set(bags_of(tree).values()) == {tuple(left), ("bridge",), tuple(right)}


def test_a_bag_needs_a_name_that_no_relation_has() -> None:
    tree = graph_of({**TRIANGLE, "R+S+T": "A"}).hypertree()
    assert bags_of(tree) == {"R+S+T": ("R+S+T",), "R+S+T'": ("R", "S", "T")}


def test_an_empty_relation_has_a_place_too() -> None:
    tree = graph_of(TRIANGLE, dict.fromkeys(TRIANGLE, 0)).hypertree()
    assert tree.widths["R+S+T"] == Width(1.5, 1.0)


def run(code: str, seed: str = "0") -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": seed},
    )
    return done.stdout


def test_the_tree_does_not_depend_on_the_order_of_sets() -> None:
    code = "from tests.jointree.test_decompose import *; print(graph_of({**clique(4), **cycle(7)}).hypertree())"
    assert run(code, "1") == run(code, "2") != ""


def test_an_acyclic_tree_is_computed_and_printed_without_scipy() -> None:
    code = """
import sys
import calitree as ct
graph = ct.JoinGraph(engine="reference")
graph.add_relation("sales", {"store": [1, 2], "day": [1, 2]})
graph.add_relation("stores", {"store": [1, 2], "city": [1, 2]})
graph.add_join("sales", "stores", on="store")
print(graph.hypertree(empty={"view": ["sales.store", "sales.day"]}))
print("scipy" in sys.modules)
"""
    assert run(code).splitlines()[-1] == "False"
