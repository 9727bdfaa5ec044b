"""Measures in a Python semiring: the worked examples, what is reused, what is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.engines.spark import SparkEngine
from tests.support.engines import LOCAL, engine_named, spark_frame
from tests.support.scale import examples

# -- the worked examples, against all combinations of rows ------------------------------------------

LAST = "~"
Way = tuple[int, tuple[str, ...]] | None


def by_cost(way: Any) -> Any:
    return (way[0], *way[1], LAST)


def cheaper(a: Way, b: Way) -> Way:
    return min((way for way in (a, b) if way), key=by_cost, default=None)


def joined(a: Way, b: Way) -> Way:
    return a and b and (a[0] + b[0], tuple(sorted(a[1] + b[1])))


WAYS = ct.python_semiring("ways", cheaper, joined, zero=None, one=(0, ()), idempotent=True)

Pairs = tuple[tuple[int, tuple[str, ...]], ...]


def best(pairs: Any) -> Pairs:
    return tuple(sorted(pairs, key=lambda pair: (-pair[0], *pair[1], LAST))[:3])


TOP = ct.python_semiring(
    "top three",
    plus=lambda a, b: best(a + b),
    times=lambda a, b: best((v * w, tuple(sorted(p + q))) for v, p in a for w, q in b),
    zero=(),
    one=((1, ()),),
)

WAY = ct.aggregate(
    WAYS,
    {
        "r0": lambda cost, id: (cost, (f"0.{id}",)),
        "r1": lambda cost, id: (cost, (f"1.{id}",)),
        "r2": (lambda cost, id: (cost, (f"2.{id}",)), ["cost", "id"]),
    },
    final=lambda way: way and [str(way[0]), *way[1]],
    returns=pa.list_(pa.string()),
)
BEST = ct.aggregate(
    TOP,
    {
        "r0": lambda cost, id: ((cost, (f"0.{id}",)),),
        "r2": lambda cost, id: ((cost, (f"2.{id}",)),),
    },
    final=lambda pairs: [[str(value), *origin] for value, origin in pairs],
    returns=pa.list_(pa.list_(pa.string())),
)

Leg = list[tuple[int | None, int | None, int, int]]
"""Rows of one of three relations in a row: the keys on both sides, a cost, and an id."""

KEY = st.sampled_from([None, 0, 0, 1, 2])
LEG = st.lists(st.tuples(KEY, KEY, st.integers(1, 6), st.integers(0, 3)), max_size=6)


def table(leg: Leg) -> pa.Table:
    columns = zip(*leg, strict=True) if leg else ([], [], [], [])
    names = ("before", "after", "cost", "id")
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(names, columns, strict=True)})


def legs_joined(engine: Any, legs: list[Leg]) -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    for at, leg in enumerate(legs):
        graph.add_relation(f"r{at}", table(leg))
    graph.add_join("r0", "r1", on={"after": "before"})
    graph.add_join("r1", "r2", on={"after": "before"})
    return graph


def combinations(legs: list[Leg]) -> list[tuple[Any, Any, Any]]:
    return [
        (a, b, c)
        for a, b, c in product(*legs)
        if a[1] is not None and a[1] == b[0] and b[1] is not None and b[1] == c[0]
    ]


def by_hand(legs: list[Leg], of: int = 2) -> dict[Any, tuple[Any, Any]]:
    """By `after` of one leg, the cheapest way and the three best pairs, of all combinations of rows."""
    groups: dict[Any, list[Any]] = {}
    for rows in combinations(legs):
        groups.setdefault(rows[of][1], []).append(rows)
    answer = {}
    for key, matches in groups.items():
        ways = [
            (sum(row[2] for row in rows), [f"{at}.{row[3]}" for at, row in enumerate(rows)])
            for rows in matches
        ]
        pairs = [(a[2] * c[2], [f"0.{a[3]}", f"2.{c[3]}"]) for a, _, c in matches]
        cost, names = min(ways)
        ordered = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:3]
        answer[key] = ([str(cost), *names], [[str(value), *origin] for value, origin in ordered])
    return answer


def answered(wide: ct.WideTable, of: int = 2, **asked: Any) -> dict[Any, tuple[Any, Any]]:
    rows = wide.query([f"r{of}.after"], measures={"way": WAY, "best": BEST}, **asked).rows()
    return {row[f"r{of}.after"]: (row["way"], row["best"]) for row in rows}


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_worked_examples(engine: str) -> None:
    @settings(max_examples=examples(12), deadline=None)
    @given(legs=st.lists(LEG, min_size=3, max_size=3), change=LEG, at=st.integers(0, 2))
    def run(legs: list[Leg], change: Leg, at: int) -> None:
        wide = legs_joined(engine_named(engine), legs).calibrate({"way": WAY, "best": BEST})
        assert answered(wide) == by_hand(legs)
        dear = [[row for row in leg if row[2] <= 4] for leg in legs]
        changed = [*legs[:at], dear[at], *legs[at + 1 :]]
        branch = wide.what_if(delete={f"r{at}": "cost > 4"})
        assert answered(branch) == by_hand(changed)
        assert answered(wide, where=f"not r{at}.cost > 4") == by_hand(changed)
        wide.update(f"r{at}", insert=table(change))
        legs[at] = legs[at] + change
        assert answered(wide) == by_hand(legs)
        wide.update("r1", delete="id = 1")
        legs[1] = [row for row in legs[1] if row[3] != 1]
        assert answered(wide) == by_hand(legs)
        wide.update("r1", delete="cost = 2")
        legs[1] = [row for row in legs[1] if row[2] != 2]
        wide.refresh()
        for of in range(3):
            assert answered(wide, of) == by_hand(legs, of)

    run()


# -- what it computes -------------------------------------------------------------------------------


class Calls:
    """A lift that counts how often it is called."""

    __name__ = "calls"

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: int) -> int:
        self.count += 1
        return value


def summed(calls: Any) -> Any:
    """Sums, as a Python semiring."""
    sums = ct.python_semiring("sums", lambda a, b: a + b, lambda a, b: a * b, zero=0, one=1)
    return ct.aggregate(sums, {"sales": (calls, ["price"])})


def shop(engine: Any) -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("sales", {"store": [1, 1, 2, 2, None], "price": [10, 20, 5, 5, 9]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_relation("days", {"store": [1, 2, 2], "day": ["mo", "mo", "tu"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.add_join("stores", "days", on={"id": "store"})
    return graph


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_equal_rows_are_one_call_and_messages_are_reused(engine: str) -> None:
    wide = shop(engine_named(engine)).calibrate({"n": "count(*)"})
    calls = Calls()
    total = summed(calls)
    first = wide.query(["city"], measures={"total": total})
    assert sorted(row["total"] for row in first) == [20, 30]
    assert calls.count == 4  # of 5 rows: two are equal by store and price
    again = wide.query(["day"], where="city <> 'Loja'", measures={"total": total})
    assert again.rows() == [{"day": "mo", "total": 40}, {"day": "tu", "total": 10}]
    assert calls.count == 4
    assert "sales→stores" in map(str, again.plan.reused)
    assert "in Python" in str(again.plan)
    # Counts are those that the tree was calibrated with.
    assert "days→stores" in map(str, first.plan.reused)


def test_the_same_as_sums_on_rows_that_repeat() -> None:
    """What joined rows repeat is added as often, by doubling."""
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", {"k": [1] * 1000, "price": [3] * 1000})
    graph.add_relation("others", {"k": [1] * 999})
    graph.add_join("sales", "others", on="k")
    calls = Calls()
    adds = []
    sums = ct.python_semiring(
        "sums", lambda a, b: adds.append(0) or a + b, lambda a, b: a * b, zero=0, one=1
    )
    measures = {"sum": "sum(price)", "total": ct.aggregate(sums, {"sales": (calls, ["price"])})}
    (row,) = graph.calibrate(measures).query().rows()
    assert row["sum"] == row["total"] == 3 * 999_000
    assert calls.count < 5
    assert len(adds) < 100


def test_null_is_zero_in_sql_and_none_in_python() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", {"unit price": [1, None, 3]})
    sums = ct.python_semiring("sums", lambda a, b: a + b, lambda a, b: a * b, zero=0, one=1)
    wide = graph.calibrate({"n": "count(*)"})
    seen = []

    def lift(value: int | None) -> int:
        seen.append(value)
        return 100 if value is None else value

    measures = {
        "sql": ct.aggregate(sums, {"r": '"unit price" * 2'}),
        "python": ct.aggregate(sums, {"r": (lift, ['"unit price"'])}),
        "nothing": ct.aggregate(sums, {}),
        "constant": ct.aggregate(sums, {"r": (lambda: 7, [])}),
    }
    assert wide.query(measures=measures).rows() == [
        {"sql": 8, "python": 104, "nothing": 3, "constant": 21}
    ]
    assert sorted(map(str, seen)) == ["1", "3", "None"]
    assert wide.query(where='"unit price" > 9', measures=measures).rows() == [
        {"sql": 0, "python": 0, "nothing": 0, "constant": 0}
    ]


def test_beside_other_measures() -> None:
    """Holistic ones, ones at a grain, and groups that are expressions over several relations."""
    wide = shop("local").calibrate({"n": "count(*)"})
    measures = {
        "total": summed(lambda price: price),
        "median": "median(price)",
        "once": ct.measure("sum(price)", grain="sales"),
        "n": "count(*)",
    }
    rows = wide.query({"where": "city || ' ' || day"}, measures=measures).rows()
    assert sorted(rows, key=lambda row: row["where"]) == [
        {"where": "Cuenca mo", "total": 10, "median": 5.0, "once": 10, "n": 2},
        {"where": "Cuenca tu", "total": 10, "median": 5.0, "once": 10, "n": 2},
        {"where": "Quito mo", "total": 30, "median": 15.0, "once": 30, "n": 2},
    ]
    selected = wide.query(["city"], measures=measures).having("total > 25")
    assert [row["city"] for row in selected] == ["Quito"]


def test_cubes_relations_added_and_versions() -> None:
    graph = shop("local")
    wide = graph.calibrate({"total": summed(lambda price: price)})
    cube = wide.cube(["city", "day"], k=1)
    assert sorted(row["total"] for row in cube.query(["city"])) == [20, 30]
    added = wide.augment({"city": ["Quito"], "region": ["Sierra"]}, on="city", name="regions")
    assert added.query(["region"]).rows() == [{"region": "Sierra", "total": 30}]
    wide.update("sales", delete="price = 20")
    assert [wide.query().rows(), wide.at(0).query().rows()] == [[{"total": 30}], [{"total": 50}]]


# -- what is refused --------------------------------------------------------------------------------


def test_saving(tmp_path: Path) -> None:
    total = summed(lambda price: price)
    with pytest.raises(ct.SavedError, match="'total' is in the Python semiring 'sums'"):
        shop("local").calibrate({"total": total}).save(tmp_path / "refused")
    wide = shop("local").calibrate({"n": "count(*)"})
    expected = wide.query(["city"], measures={"total": total}).rows()
    wide.save(tmp_path / "tree")  # messages of the question are left out
    opened = ct.open(tmp_path / "tree", engine="local")
    answer = opened.query(["city"], measures={"total": total})
    assert answer.rows() == expected
    assert "days→stores" in map(str, answer.plan.reused)


def test_groups_and_verify() -> None:
    wide = shop("local").calibrate({"total": summed(lambda price: price)})
    with pytest.raises(ct.QueryError, match="'total' is in a Python semiring"):
        _ = wide.query(["city"]).groups
    with pytest.raises(ct.EngineError, match="of its own semiring"):
        wide.verify()


def ask(**given: Any) -> Any:
    defaults: dict[str, Any] = {
        "plus": lambda a, b: a + b,
        "times": lambda a, b: a * b,
        "lifts": {"sales": "price"},
    }
    parts = defaults | given
    sums = ct.python_semiring("sums", parts["plus"], parts["times"], zero=0, one=1)
    options = {name: parts[name] for name in ("final", "returns") if name in parts}
    measure = ct.aggregate(sums, parts["lifts"], **options)
    return shop("local").calibrate({"n": "count(*)"}).query(measures={"m": measure})


def failing(*values: Any) -> Any:
    raise KeyError("why")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"plus": 3}, "Semiring 'sums': plus is a function of two elements; got 3."),
        ({"plus": failing}, r"Semiring 'sums': plus\(.*\) raised KeyError: 'why'"),
        ({"lifts": {"sales": failing}}, "do not say which columns it needs"),
        ({"lifts": {"sales": (failing, ["price"])}}, r"the lift failing\(.*\) raised KeyError"),
        ({"lifts": {"sales": lambda prize: 1}}, "prize"),
        ({"lifts": {"sales": lambda *, price: 1}}, "do not say which columns it needs"),
        ({"lifts": {"sales": 7}}, "The lift of sales is SQL, a function of its columns, or"),
        ({"lifts": {"sales": (abs, "price")}}, "The lift of sales is SQL, a function of its"),
        ({"lifts": {"sale": "price"}}, "sale"),
        ({"lifts": "price"}, "lifts is"),
        ({"final": "element"}, "final= is a function of an element, not 'element'."),
        ({"final": failing}, "final= of measure 'm' raised KeyError for 50: 'why'"),
        ({"final": lambda e: [e, "x"]}, "not of one Arrow type"),
        ({"final": str, "returns": pa.int32()}, ""),
        ({"final": lambda e: "x", "returns": pa.int32()}, "not of Arrow's int32"),
        ({"returns": "int"}, "returns= is an Arrow type"),
    ],
)
def test_bad_input(given: dict[str, Any], text: str) -> None:
    if not text:
        text = "not of Arrow's int32"
    with pytest.raises(ct.CalitreeError, match=text):
        ask(**given)


def test_python_in_a_semiring_that_is_data() -> None:
    with pytest.raises(ct.ExpressionError, match="'min' is data: the lift of sales is SQL"):
        ct.aggregate(ct.semiring.MIN, {"sales": lambda price: price})  # type: ignore[dict-item]
    with pytest.raises(ct.ExpressionError, match="'min' is data: final= is SQL"):
        ct.aggregate(ct.semiring.MIN, {"sales": "price"}, final=lambda v: v)
    with pytest.raises(ct.ExpressionError, match="'min' is data: its components have types"):
        ct.aggregate(ct.semiring.MIN, {"sales": "price"}, returns=pa.int64())


def test_types() -> None:
    result = ask(returns=pa.float32())
    assert result.arrow().schema.field("m").type == pa.float32()
    assert ask().rows() == [{"m": 50}]


# -- Spark ------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_on_spark(spark: Any) -> None:
    graph = ct.JoinGraph(engine=SparkEngine(spark))
    graph.add_relation("sales", pa.table({"price": [10, 20, 5]}))
    wide, total = graph.calibrate({"n": "count(*)"}), summed(lambda price: price)
    with pytest.raises(ct.EngineError, match="'sums' is in Python, which cannot run on Spark"):
        wide.query(measures={"total": total})


@pytest.mark.spark
def test_hybrid(spark: Any) -> None:
    total = summed(lambda price: price)
    wide = shop(spark).calibrate({"total": total})  # all of it is in this process
    assert sorted(row["total"] for row in wide.query(["city"])) == [20, 30]
    graph = ct.JoinGraph(engine=spark)
    graph.add_relation("sales", pa.table({"store": [1, 1, 2], "price": [10, 20, 5]}))
    days = pa.table({"store": [1, 2, 2], "day": ["mo", "mo", "tu"]})
    graph.add_relation("days", spark_frame(spark, days))
    graph.add_join("sales", "days", on="store")
    wide = graph.calibrate({"n": "count(*)"})
    # Of the relation on Spark only counts come here.
    assert wide.query(measures={"total": total}).rows() == [{"total": 40}]
    days_lifted = ct.aggregate(total.semiring, {"days": lambda store: store})
    with pytest.raises(ct.EngineError, match="cannot run on Spark"):
        wide.query(["price"], measures={"total": days_lifted})
