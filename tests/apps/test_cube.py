"""Cubes: what they answer, against DuckDB on the join really built; what they compute; what they take."""

from __future__ import annotations

import json
import random
import runpy
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from benchmarks.__main__ import main
from calitree import CalitreeError, QueryError, WideTable
from calitree.apps.cube.cube import Cube
from calitree.apps.cube.lattice import Lattice, group_bys
from calitree.apps.cube.sizes import Sizes
from calitree.apps.verify.check import compare
from calitree.calibration.calibrate import cube_messages
from calitree.calibration.message import Message
from calitree.calibration.planning.cost import Cost, cheapest_root
from calitree.calibration.planning.staleness import stored_edges
from calitree.errors import ExpressionError, SchemaError
from calitree.query.binder import Question
from tests.calibration.test_versions import NEW, shop
from tests.support.databases import Database, databases, join_size, questions
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.oracle import oracle
from tests.support.scale import examples

ENGINES = ["reference", *LOCAL]
DIMS = ["city", "country", "family", "sales.day", "sales.item"]
MEASURES = {"n": "count(*)", "revenue": "sum(price)"}
EXAMPLES = Path(__file__).parents[2] / "examples"


def cubed(engine: Any = "local", k: int = 1, **options: Any) -> Cube:
    return shop(engine_named(engine), MEASURES).cube(DIMS, k, **options)


def chain(length: int, domain: int = 4, engine: Any = "local") -> ct.JoinGraph:
    """R0(a0, a1), R1(a1, a2), …, in which every value meets two of the next."""
    graph = ct.JoinGraph(engine=engine)
    for i in range(length):
        pairs = [(x, (x + step) % domain) for x in range(domain) for step in (0, 1)]
        left, right = zip(*pairs, strict=True)
        graph.add_relation(f"r{i}", {f"a{i}": list(left), f"a{i + 1}": list(right)})
        if i:
            graph.add_join(f"r{i - 1}", f"r{i}", on=f"a{i}")
    return graph


# -- against the join really built -----------------------------------------------------------------


def dimensions(draw: Any, wide: WideTable, database: Database) -> list[str]:
    """Columns of different attributes, join keys among them."""
    columns = draw(st.permutations(database.columns()))[: draw(st.integers(1, 5))]
    by_attribute: dict[str, str] = {}
    for column in columns:
        by_attribute.setdefault(wide.schema.column(column).attribute, column)
    return list(by_attribute.values())


def check_random(engine: Any, data: st.DataObject, cuboids: int = 3) -> None:
    database = data.draw(databases(max_relations=5, max_rows=24), label="database")
    assume(join_size(database) <= 5_000)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    wide = database.graph(engine).calibrate(**pivot)
    dims = dimensions(data.draw, wide, database)
    k = data.draw(st.integers(0, min(3, len(dims))), label="k")
    where = data.draw(st.sampled_from([None, pivot.get("where")]), label="where")
    budget = data.draw(st.sampled_from([None, None, 500, 5_000, 50_000]), label="budget")
    cube = wide.cube(dims, k, where=where, budget=budget)
    assert budget is None or cube.bytes <= budget
    assert wide.is_calibrated
    sizes = [c for size in range(min(k + 1, len(dims)) + 1) for c in combinations(dims, size)]
    for columns in data.draw(st.permutations(sizes), label="cuboids")[:cuboids]:
        result = cube.cuboid(columns)
        expected = oracle(wide, database, {"group_by": list(columns), "where": where})
        assert not compare(result.arrow(), expected, len(columns)), f"{columns}\n{result.plan}"
        assert not cube.left_out or budget is not None
        assert cube.left_out or not result.plan.computed, f"{columns}\n{result.plan}"
    asked = data.draw(questions(database), label="question")
    result = cube.query(**asked)
    keys = len(asked.get("group_by", ()))
    assert not compare(result.arrow(), oracle(wide, database, asked), keys), str(result.plan)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check_random("reference", data)


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check_random(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    @settings(max_examples=examples(3), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check_random(spark_engine_named(engine, spark, tmp_path), data, cuboids=2)

    run()


# -- what is computed ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("k", [0, 1, 2])
def test_cuboids_of_one_dimension_more_need_no_message(engine: str, k: int) -> None:
    cube = cubed(engine, k)
    seen = 0
    for columns, result in cube.cuboids():
        assert not result.plan.computed, f"{columns}\n{result.plan}"
        seen += 1
    assert seen == len(group_bys(DIMS, k + 1))


def test_the_chain_of_the_paper() -> None:
    """With two carried from each side, four dimensions of a chain need no message at all."""
    dims = [f"a{i}" for i in range(9)]
    computed = []
    for k in (0, 1, 2):
        cube = chain(8, engine="reference").calibrate(memory_limit=0).cube(dims, k)
        computed.append(
            [len(cube.wide.plan(columns).computed) for columns in combinations(dims, 4)]
        )
    none, one, two = computed
    assert all(a >= b for a, b in zip(none, one, strict=True))
    assert sum(one) < sum(none) / 4 and sum(two) == 0


def test_each_message_is_passed_once() -> None:
    """One for each edge and each choice of up to k dimensions that lie behind it only."""
    wide = chain(5).calibrate()
    own = len(wide.state.store)
    dims = [f"a{i}" for i in range(6)]
    totals: list[int] = []
    cube = wide.cube(dims, 2, progress=lambda done, total, what: totals.append(total))
    sizes = [
        i + 1 for i in range(4)
    ] * 2  # dimensions behind each edge, to the right and to the left
    expected = sum(n + n * (n - 1) // 2 for n in sizes)
    assert cube.messages == cube.estimated.messages == expected
    assert len(wide.state.store) == own + expected
    assert len(cube.pivots) == cube.estimated.pivots == 1 + 6 + 15
    assert totals[-1] == expected
    assert wide.calibration is not None and len(wide.calibration.computed) == expected


def test_a_cube_made_again_passes_nothing() -> None:
    cube = cubed(k=2)
    again = cube.wide.cube(DIMS[:3], 2)
    assert computed(cube) == 0 and again.bytes < cube.bytes
    more = cube.wide.cube(DIMS, 3)
    assert computed(cube) == more.messages - cube.messages > 0


def computed(cube: Cube) -> int:
    """Messages that were passed when pivots were last calibrated."""
    assert cube.wide.calibration is not None
    return len(cube.wide.calibration.computed)


def test_no_message_of_a_cube_is_evicted() -> None:
    wide = shop("local", MEASURES, memory_limit=1 << 20)
    wide.query(["city", "family"])  # leaves messages that may go
    assert wide.state.store.kept_bytes
    cube = wide.cube(["city", "family"], 1)
    pinned = {message.key for message in wide.state.store.pinned}
    assert {
        m.key for m in cube_messages(wide.snapshot, [Question(p) for p in cube.pivots])
    } <= pinned


@pytest.mark.parametrize("engine", ENGINES)
def test_an_update_reaches_every_cuboid(engine: str) -> None:
    cube = cubed(engine)
    wide = cube.wide
    wide.update("sales", insert=[NEW], delete="price > 30")
    wide.update("stores", upsert=[{"id": 2, "city": "Loja", "region": 8}])
    for columns, result in cube.cuboids():
        assert not result.plan.computed, "messages take what has changed"
        assert wide.verify([{"group_by": list(columns)}]).ok
    plan = wide.refresh()
    assert isinstance(plan, ct.Plan) and not plan.computed
    wide.update("items", delete="family = 'MEAT'")
    plan = wide.refresh()
    assert isinstance(plan, ct.Plan) and len(plan.refreshed) > 6, "those of the cube too"
    assert wide.is_calibrated and not cube.cuboid(["city", "country"]).plan.refreshed
    assert wide.verify([{"group_by": ["city", "country"]}]).ok


def test_eager_maintenance_has_the_cube_fresh() -> None:
    wide = shop("local", MEASURES, maintenance="eager")
    cube = wide.cube(["city", "family"], 1)
    wide.update("sales", insert=[NEW])
    assert wide.is_calibrated and not cube.cuboid(["city", "family"]).plan.refreshed


def test_what_ifs_and_earlier_versions_find_the_messages() -> None:
    cube = cubed(k=1)
    wide = cube.wide
    before = cube.cuboid(["city", "family"]).rows()
    other = wide.what_if(delete={"items": "family = 'DAIRY'"})
    result = other.query(["city", "family"])
    assert not result.plan.computed
    assert result.rows() == [row for row in before if row["family"] != "DAIRY"]
    with pytest.raises(QueryError, match="belong to the tree itself"):
        other.cube(["city"])
    wide.update("sales", delete="price > 0")
    assert cube.cuboid(["city", "family"]).rows() == []
    assert wide.at(0).query(["city", "family"]).rows() == before


def test_a_saved_tree_has_its_cube(tmp_path: Path) -> None:
    wide = shop("local", MEASURES)
    cube = wide.cube(DIMS, 1)
    expected = {columns: result.rows() for columns, result in cube.cuboids()}
    wide.save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    assert not opened.query(["city", "family"]).plan.computed
    again = opened.cube(DIMS, 1)
    assert opened.calibration is not None and not opened.calibration.computed
    assert again.bytes > 0 and again.pivots == cube.pivots
    for columns, result in again.cuboids():
        assert result.rows() == expected[columns]
    supposed = opened.what_if(delete={"items": "family = 'MEAT'"})
    supposed.refresh()
    assert supposed.is_calibrated
    opened.update("sales", insert=[NEW])
    opened.refresh()
    assert opened.is_calibrated and not again.cuboid(["city", "family"]).plan.refreshed
    opened.save()
    wide.reload()
    assert wide.cube(DIMS, 1).cuboid(["city"]).rows() == again.cuboid(["city"]).rows()


def test_a_cube_where_a_condition_holds() -> None:
    wide = shop("local", MEASURES, where="price < 30", group_by=["country"])
    cube = wide.cube(["city", "country", "family"], 1, where="price < 30")
    for columns, result in cube.cuboids():
        assert not result.plan.computed
        asked: dict[str, Any] = {"group_by": list(columns), "where": "price < 30"}
        assert result.rows() == wide.query(**asked).rows()
        assert wide.verify([asked]).ok
    assert "price < 30" in repr(cube)


# -- the smallest Steiner tree ---------------------------------------------------------------------


class KnownCost(Cost):
    """A cost that knows how many rows each message really has."""

    def __init__(self, wide: WideTable, asked: Question, stored: dict[Any, Message]) -> None:
        placement = wide.snapshot.cube_pivot(asked)
        super().__init__(wide.schema, placement, stored, keeps=False)
        for edge in placement.edges:
            relations = sorted(placement.subtrees[edge].relations)
            keep = [_column(wide, attribute, relations) for attribute in placement.keep[edge]]
            self._rows[edge] = len(wide.query(keep, relations=relations))


def _column(wide: WideTable, attribute: str, relations: list[str]) -> str:
    """An attribute, as a column of one of these relations."""
    columns = wide.schema.attributes[attribute].columns
    return next(f"{relation}.{column}" for relation, column in columns if relation in relations)


def random_tree(rng: random.Random, most: int) -> ct.JoinGraph:
    """Relations of different sizes, each joined to an earlier one, sometimes on the same key."""
    count = rng.randint(2, most)
    columns: list[list[str]] = [["x0"]]
    joins = []
    for i in range(1, count):
        parent = rng.randrange(i)
        keys = [c for c in columns[parent] if c[0] == "k"]
        key = rng.choice(keys) if keys and rng.random() < 0.3 else f"k{i}"
        if key not in columns[parent]:
            columns[parent].append(key)
        columns.append([key, f"x{i}"])
        joins.append((f"r{parent}", f"r{i}", key))
    graph = ct.JoinGraph(engine="local")
    for i, names in enumerate(columns):
        rows = rng.choice([1, 3, 8])
        graph.add_relation(f"r{i}", {n: [rng.randrange(3) for _ in range(rows)] for n in names})
    for left, right, key in joins:
        graph.add_join(left, right, on=key)
    return graph


@pytest.mark.parametrize("seed", range(examples(12)))
def test_no_single_pivot_and_root_do_better(seed: int) -> None:
    """The appendix chooses the pivot, then the root, with the least to compute. Messages of all pivots
    mix here, so it must never be more; the bags may be of any size.
    """
    rng = random.Random(seed)
    wide = random_tree(rng, 6).calibrate(memory_limit=0)
    attributes = sorted(wide.schema.attributes)
    dims = rng.sample(attributes, min(len(attributes), 5))
    k = rng.randint(0, 2)
    cube = wide.cube(dims, min(k, len(dims)))
    for _ in range(4):
        asked = Question(tuple(rng.sample(dims, min(len(dims), 4))))
        placement = wide.snapshot.cube_pivot(asked)
        every = stored_edges(placement, wide.state.store)
        ours = KnownCost(wide, asked, every)
        root = cheapest_root(ours)
        best = min(
            KnownCost(
                wide, asked, {e: m for e, m in every.items() if m.key == pivot.keys[e]}
            ).answer(bag.name)
            for pivot in (wide.snapshot.cube_pivot(Question(columns)) for columns in cube.pivots)
            for bag in wide.tree.bags
        )
        assert ours.answer(root) <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(examples(12)))
def test_equal_bags_make_the_least_messages(seed: int) -> None:
    """Where all bags have one row, the messages computed are the edges of the smallest Steiner tree that
    spans what a pivot lacks: counted here without keys, over all pivots and roots.
    """
    rng = random.Random(seed)
    graph = random_tree(rng, 7)
    for name, relation in list(graph.schema.relations.items()):
        one = {column: [0] for column in relation.columns}
        graph = _with(graph, name, one)
    wide = graph.calibrate(memory_limit=0)
    attributes = sorted(wide.schema.attributes)
    dims = rng.sample(attributes, min(len(attributes), 6))
    cube = wide.cube(dims, min(rng.randint(0, 2), len(dims)))
    tree = wide.tree
    for _ in range(6):
        asked = frozenset(rng.sample(dims, min(len(dims), 4)))
        lacks = [
            sum(
                any(tree.holders((a,)) <= tree.subtree(*edge) for a in asked - frozenset(pivot))
                for edge in tree.upward(bag.name)
            )
            for pivot in cube.pivots
            if asked >= frozenset(pivot)
            for bag in tree.bags
        ]
        assert len(wide.plan(sorted(asked)).computed) <= min(lacks)


def _with(graph: ct.JoinGraph, name: str, rows: Any) -> ct.JoinGraph:
    other = ct.JoinGraph(engine="local")
    for other_name, relation in graph.schema.relations.items():
        other.add_relation(
            other_name, rows if other_name == name else graph.engine.arrow(relation.table)
        )
    for join in graph.schema.joins:
        other.add_join(join.left, join.right, on=dict(join.pairs))
    return other


# -- what it takes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_estimate_is_no_less_than_what_it_takes(k: int) -> None:
    wide = chain(6).calibrate(MEASURES | {"revenue": "sum(r2.a2 * r5.a6)"})
    dims = [f"a{i}" for i in range(7)]
    estimate = Cube.estimate(wide, dims, k)
    messages = len(wide.state.store)
    cube = wide.cube(dims, k)
    assert estimate == cube.estimated and messages == len(wide.state.store) - cube.messages
    assert cube.bytes <= estimate.bytes <= 8 * cube.bytes


def test_values_are_counted_not_guessed() -> None:
    """A thousand sales of three colours are three groups for each store, not a thousand."""
    sales = {"store": [i % 10 for i in range(1000)], "colour": ["rgb"[i % 3] for i in range(1000)]}
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", sales)
    graph.add_relation("stores", {"store": list(range(10)), "city": list("aabbccddee")})
    graph.add_join("sales", "stores", on="store")
    sizes = Sizes(graph.calibrate(), ["colour", "city"], None)
    assert sizes.rows((("sales", "stores"), frozenset(["sales.colour"]))) == 30
    assert sizes.rows((("stores", "sales"), frozenset(["stores.city"]))) == 10, "a city a store"


@pytest.mark.parametrize("budget", [1, 300, 2_000, 10_000, 100_000, 10_000_000])
def test_a_budget_is_kept(budget: int) -> None:
    wide = chain(6).calibrate()
    dims = [f"a{i}" for i in range(7)]
    cube = wide.cube(dims, 2, budget=budget)
    assert cube.bytes <= budget
    assert len(cube.pivots) + len(cube.left_out) == 1 + 7 + 21
    every = wide.cube(dims, 2)
    if every.bytes <= budget:
        assert not cube.left_out
    else:
        assert cube.left_out and "left out" in repr(cube)
    for columns in combinations(dims, 3):
        n = sum(row["n"] for row in cube.cuboid(columns).rows())
        assert n == 4 * 2**6


def test_more_bytes_answer_more() -> None:
    dims = [f"a{i}" for i in range(7)]
    computed = []
    for budget in (1, 2_000, 4_000, 1 << 20):
        cube = chain(6).calibrate(memory_limit=0).cube(dims, 2, budget=budget)
        computed.append(sum(len(result.plan.computed) for _, result in cube.cuboids()))
    assert computed == sorted(computed, reverse=True) and len(set(computed)) == 4
    assert computed[-1] == 0


def test_the_most_useful_pivot_comes_first() -> None:
    """Two dimensions far from each other at the ends of a chain, one of them with few values."""
    graph = chain(4, domain=20)
    graph.add_relation("left", {"a0": list(range(20)), "few": [i % 2 for i in range(20)]})
    graph.add_relation("right", {"a4": list(range(20)), "many": list(range(20))})
    graph.add_join("r0", "left", on="a0")
    graph.add_join("r3", "right", on="a4")
    wide = graph.calibrate()
    sizes = Sizes(wide, ["few", "many"], None)
    dims = ["left.few", "right.many"]
    lattice = Lattice(sizes, dims, 1)
    few = lattice.messages([frozenset(["left.few"])])
    (_, first), *rest = [
        (i, pivot) for i, pivot in enumerate(lattice.choose(lattice.bytes(few))) if pivot
    ]
    assert first == {"left.few"} and not rest, "either would do, and this one takes less"


def test_what_turns_out_larger_than_estimated_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sizes, "bytes", lambda self, state: 1.0)
    wide = chain(6).calibrate()
    cube = wide.cube([f"a{i}" for i in range(7)], 2, budget=2_000)
    assert 0 < cube.bytes <= 2_000 and cube.left_out
    assert wide.state.store.pinned_bytes <= 2_000 + own_bytes(wide)


def own_bytes(wide: WideTable) -> int:
    own = set(wide.snapshot.pivot.keys.values())
    return sum(m.table.nbytes for m in wide.state.store.pinned if m.key in own)


# -- having ----------------------------------------------------------------------------------------


def check_icebergs(engine: Any) -> None:
    cube = shop(engine, MEASURES).cube(["city", "sales.day"], 1)
    sql = "SELECT city, n FROM t WHERE {}"
    whole = cube.cuboid(["city", "sales.day"]).arrow()
    for condition in (
        "n >= 2",
        "n >= 2 and city = 'Quito'",
        "revenue / n > 10 or city is null",
        "day is not null",
        "not (day > date '2020-01-01')",
        "case when n > 1 then city else 'Cuenca' end = 'Cuenca'",
    ):
        selected = cube.cuboid(["city", "sales.day"], having=condition)
        with duckdb.connect() as connection:
            connection.register("t", whole.rename_columns(["city", "day", "n", "revenue"]))
            expected = connection.sql(sql.format(condition)).fetchall()
        assert sorted((row["city"], row["n"]) for row in selected) == sorted(expected), condition
        assert len(selected) == len(expected)
        assert (
            selected.columns
            == ["city", "sales.day", "n", "revenue"]
            == selected.arrow().column_names
        )
        assert selected.exact and not selected.plan.computed


@pytest.mark.parametrize("engine", ENGINES)
def test_having(engine: str) -> None:
    check_icebergs(engine_named(engine))


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK[:2])
def test_having_on_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    check_icebergs(spark_engine_named(engine, spark, tmp_path))


def test_a_selection_has_all_forms() -> None:
    selected = cubed("reference").cuboid(["city"], having="n > 1")
    assert selected.rows() == [{"city": "Quito", "n": 3, "revenue": 70}]
    assert selected.pandas()["n"].tolist() == selected.polars()["n"].to_list() == [3]
    assert repr(selected).splitlines()[-1].split() == ["Quito", "3", "70"]
    assert "<td>Quito</td>" in selected._repr_html_()
    assert [row["n"] for row in selected] == [3]
    total = cubed("reference").cuboid([], having="n > 100")
    assert len(total) == 0 and total.rows() == []
    assert len(cubed("reference").cuboid(["city"], having="null").rows()) == 0


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        ("nn > 1", QueryError, "no column 'nn'. Did you mean n?"),
        ("stores.city = 'Quito'", QueryError, "no column 'stores.city'. Did you mean city?"),
        ("n + 1", ExpressionError, "'n + 1' is an integer"),
        ("n >", ExpressionError, "Cannot parse"),
        ("count(*) > 1", ExpressionError, "count"),
        ("n > 'a'", ExpressionError, "cannot compare"),
    ],
)
def test_wrong_conditions(condition: str, error: type[CalitreeError], text: str) -> None:
    with pytest.raises(error) as raised:
        cubed("reference").cuboid(["city"], having=condition)
    assert text.lower() in str(raised.value).lower()


def test_an_ambiguous_name_is_told() -> None:
    result = shop("reference", MEASURES).query(["sales.item", "items.item"])
    with pytest.raises(QueryError, match=r"may be sales\.item or items\.item"):
        result.having("item = 1")
    assert len(result.having("items.item = 1")) == 1


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"dims": ["citty"]}, SchemaError, "Did you mean city?"),
        ({"dims": ["city", "city"]}, QueryError, "named twice: city"),
        (
            {"dims": ["sales.store", "stores.id"]},
            QueryError,
            "both as sales.store and as stores.id",
        ),
        ({"dims": "city"}, QueryError, "a list of columns; got 'city'"),
        ({"dims": 3}, QueryError, "a list of columns; got 3"),
        ({"dims": [3]}, QueryError, "named by text"),
        ({"dims": ["city"], "k": -1}, QueryError, "0 or more; got -1"),
        ({"dims": ["city"], "k": 1.5}, QueryError, "0 or more; got 1.5"),
        ({"dims": ["city"], "k": True}, QueryError, "0 or more; got True"),
        ({"dims": ["city"], "k": 2}, QueryError, "cannot group by 2 of 1 dimensions"),
        ({"dims": ["city"], "budget": 0}, QueryError, "positive number of bytes; got 0"),
        ({"dims": ["city"], "budget": -5}, QueryError, "positive number of bytes; got -5"),
        ({"dims": ["city"], "budget": "1 GB"}, QueryError, "positive number of bytes; got '1 GB'"),
        ({"dims": ["city"], "where": "citty = 1"}, SchemaError, "Did you mean city?"),
    ],
)
def test_wrong_cubes(options: dict[str, Any], error: type[CalitreeError], text: str) -> None:
    with pytest.raises(error) as raised:
        shop("reference", MEASURES).cube(**options)
    assert text in str(raised.value)


def test_wrong_cuboids() -> None:
    cube = cubed("reference")
    with pytest.raises(QueryError, match="region is no dimension of this cube"):
        cube.cuboid(["region"])
    with pytest.raises(SchemaError, match="Did you mean city"):
        cube.cuboid(["citty"])
    with pytest.raises(QueryError, match=r"write cuboid\(\['city'\]\)"):
        cube.cuboid("city")
    with pytest.raises(QueryError, match="0 or more; got -1"):
        list(cube.cuboids(-1))
    assert cube.cuboid(["items.item"]).columns == ["items.item", "n", "revenue"], "a joined column"


# -- what there is to see --------------------------------------------------------------------------


def test_what_it_says_of_itself() -> None:
    cube = cubed("local", 1)
    text, html = repr(cube), cube._repr_html_()
    for fact in ("city, country, family", f"{cube.bytes:,}", f"{cube.estimated.bytes:,}"):
        assert fact in text and fact in html
    assert str(cube.estimated).startswith("6 pivots")
    assert cube.dims == tuple(DIMS) and cube.pivots[:2] == ((), ("city",)) and not cube.left_out


def test_no_dimensions_and_no_rows() -> None:
    wide = shop("local", MEASURES)
    empty = wide.cube([], 0)
    assert empty.pivots == ((),) and empty.bytes == 0
    assert [columns for columns, _ in empty.cuboids()] == [()]
    graph = ct.JoinGraph(engine="local")
    graph.add_relation(
        "a", pa.table({"k": pa.array([], pa.int64()), "x": pa.array([], pa.string())})
    )
    graph.add_relation(
        "b", pa.table({"k": pa.array([], pa.int64()), "y": pa.array([], pa.string())})
    )
    graph.add_join("a", "b", on="k")
    cube = graph.calibrate({"n": "count(*)", "s": "sum(a.k)"}).cube(["x", "y"], 1)
    assert cube.cuboid(["x", "y"]).rows() == []
    assert cube.cuboid([]).rows() == [{"n": 0, "s": None}]


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "cube.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "0 messages computed" in output and "29 cuboids" in output and "left out" in output


def test_the_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    small = ["--length", "4", "--questions", "5", "--repeat", "1"]
    assert main(["cube", *small, "--data", str(tmp_path), "--json", str(path)]) == 0
    written = json.loads(path.read_text())
    assert written["complete"] and not written["disagreements"]
    builds = [result for result in written["results"] if result["name"].startswith("build")]
    assert [result["messages"] for result in builds] == [0, 12, 20]
    compared = [result for result in written["results"] if result["against"]]
    assert len(compared) == 2 * 3 * 2 + 1 and all(result["agree"] for result in compared)
