"""Questions asked again: the plan and its contractions are those of before, the work is done anew."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct
from calitree.cache import LRUCache
from calitree.calibration import snapshot
from calitree.calibration.branch import Branch
from calitree.engines.api.contraction import Contraction
from calitree.engines.reference import ReferenceEngine
from calitree.engines.reference.engine import ReferenceTable
from calitree.query.binder import Question
from calitree.sql.evaluator import evaluate
from calitree.wide_table import WideTable

CITIES = ("Quito", "Loja", "Manta")
BY_CITY: dict[str, Any] = {"group_by": ["city"]}
BY_COLOUR: dict[str, Any] = {"group_by": ["colour"]}


def in_city(city: str) -> dict[str, Any]:
    """Grouped at one end of the tree, filtered at the other: stores and sales send a message each."""
    return {"group_by": ["colour"], "where": f"city = '{city}'"}


class Spy(ReferenceEngine):
    """Writes down every contraction."""

    def __init__(self) -> None:
        self.seen: list[Contraction] = []

    def contract(self, contraction: Contraction, watch: Any = None) -> list[ReferenceTable]:
        self.seen.append(contraction)
        return super().contract(contraction)

    def asked(self, wide: WideTable, question: dict[str, Any]) -> list[Contraction]:
        """The contractions of one question."""
        before = len(self.seen)
        wide.query(**question)
        return self.seen[before:]


def shop(**options: Any) -> tuple[WideTable, Spy]:
    spy = Spy()
    graph = ct.JoinGraph(engine=spy)
    graph.add_relation(
        "sales",
        {
            "store": [i % 5 for i in range(40)],
            "item": [i * 7 % 11 for i in range(40)],
            "units": list(range(40)),
        },
    )
    graph.add_relation("stores", {"store": range(5), "city": [CITIES[i % 3] for i in range(5)]})
    graph.add_relation(
        "items", {"item": range(11), "colour": [("red", "blue")[i % 2] for i in range(11)]}
    )
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "items", on="item")
    wide = graph.calibrate({"n": "count(*)", "units": "sum(units)"}, **options)
    spy.seen.clear()
    return wide, spy


def rows(wide: WideTable, question: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(wide.query(**question).rows(), key=str)


@pytest.mark.parametrize("question", [{}, BY_CITY, BY_COLOUR, {"where": "city = 'Quito'"}])
def test_asked_again_the_contraction_is_the_same(question: dict[str, Any]) -> None:
    wide, spy = shop()
    first, again = spy.asked(wide, question), spy.asked(wide, question)
    assert len(first) == len(again) == 1, "an answer is never remembered"
    assert again[0] is first[0]
    assert rows(wide, question) == rows(shop()[0], question)


def test_words_that_mean_the_same_to_python_find_the_same_plan() -> None:
    wide, spy = shop()
    listed, tupled = spy.asked(wide, BY_CITY), spy.asked(wide, {"group_by": ("city",)})
    assert listed == tupled
    named, given = {"measures": ["n"]}, {"measures": {"n": "count(*)"}}
    assert spy.asked(wide, named) != spy.asked(wide, given)
    assert spy.asked(wide, given) == spy.asked(wide, {"measures": {"n": "count(*)"}})


def test_a_question_that_cannot_be_remembered_is_answered() -> None:
    wide, spy = shop()
    question: dict[str, Any] = {"group_by": dict.fromkeys(["city"]).keys()}
    assert Question(**question).key is None
    assert spy.asked(wide, question) != spy.asked(wide, question)
    assert rows(wide, question) == rows(wide, BY_CITY)


def test_a_kept_message_is_reused_and_then_the_plan_is_stable() -> None:
    wide, spy = shop()
    question = in_city("Quito")
    first, second = wide.query(**question), wide.query(**question)
    assert len(first.plan.computed) == 2 and second.plan.computed == ()
    assert len(spy.seen) == 3 + 1
    third, fourth = spy.asked(wide, question), spy.asked(wide, question)
    assert third == fourth == spy.seen[3:4]
    assert first.rows() == second.rows()


def test_another_questions_message_leads_to_another_plan() -> None:
    wide, _ = shop()
    before = wide.plan(**BY_CITY)
    assert wide.plan(**BY_CITY) is before
    wide.query(**in_city("Quito"))
    assert wide.plan(**BY_CITY) is not before and wide.plan(**BY_CITY) == before


def test_after_an_eviction_it_is_computed_again_and_nothing_holds_what_is_gone() -> None:
    wide, spy = shop()
    wide.query(**in_city("Quito"))
    wide.state.store.memory_limit = wide.state.store.kept_bytes
    wide.query(**in_city("Quito"))
    evicted = [weakref.ref(message.table) for message in wide.state.store._kept]
    wide.query(**in_city("Loja"))
    wide.query()
    spy.seen.clear()
    gc.collect()
    assert len(evicted) == 2 and [gone() for gone in evicted] == [None, None]
    assert len(wide.query(**in_city("Quito")).plan.computed) == 2
    assert rows(wide, in_city("Quito")) == rows(shop()[0], in_city("Quito"))


def test_a_remembered_plan_uses_its_messages() -> None:
    wide, _ = shop()
    for city in ("Quito", "Loja"):
        wide.query(**in_city(city))
    wide.state.store.memory_limit = wide.state.store.kept_bytes
    for city in ("Quito", "Loja", "Quito"):
        assert wide.query(**in_city(city)).plan.computed == ()
    wide.query(**in_city("Manta"))
    assert wide.plan(**in_city("Quito")).computed == ()
    assert wide.plan(**in_city("Loja")).computed


def test_where_no_message_is_kept_the_plan_is_remembered_too() -> None:
    wide, spy = shop()
    wide.state.store.memory_limit = 0
    question = in_city("Quito")
    plan = wide.plan(**question)
    first, again = spy.asked(wide, question), spy.asked(wide, question)
    assert wide.plan(**question) is plan and len(plan.computed) == 2
    assert len(first) == len(again) == 3
    assert first[0] is again[0], "all its inputs are relations and stored messages"
    for one, other in zip(first[1:], again[1:], strict=True):
        assert one is not other and one.outputs is other.outputs
    assert rows(wide, question) == rows(shop()[0], question)
    assert wide.state.store.kept_bytes == 0


def test_messages_that_are_pinned_after_planning_are_reused() -> None:
    calibrated_graph, spy = shop()
    wide = WideTable(
        Branch.new(
            calibrated_graph.schema,
            spy,
            calibrated_graph.tree,
            measures=calibrated_graph.measures,
            memory_limit=0,
        )
    )
    assert len(wide.query().plan.computed) == 2
    wide.refresh()
    assert wide.query().plan.computed == ()
    assert wide.query().rows() == calibrated_graph.query().rows()


def test_a_result_tells_its_own_rows_and_times() -> None:
    wide, _ = shop(memory_limit=0)
    first, again = (wide.query(**in_city("Quito")).plan for _ in range(2))
    assert first == again and first.measured.keys() == again.measured.keys()
    assert {None, *first.computed} == first.measured.keys()
    assert first.measured[None].rows == 2 and first.measured is not again.measured
    assert wide.plan(**in_city("Quito")).measured == {}


def test_the_number_of_remembered_questions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "QUESTIONS_REMEMBERED", 3)
    wide, spy = shop()
    used = spy.asked(wide, BY_CITY)
    for least in range(5):
        spy.asked(wide, {"where": f"units > {least}", "measures": ["n"]})
        assert spy.asked(wide, BY_CITY) == used, "what is used stays"
    assert (
        len(wide.snapshot.bindings.projections)
        == len(wide.snapshot.cache.plans(wide.state.store.epoch))
        == 3
    )


def test_the_least_recently_used_is_forgotten_first() -> None:
    cache = LRUCache[str](limit=2)
    computed: list[str] = []

    def ask(key: str) -> str:
        return cache.of(key, lambda: computed.append(key) or key)  # type: ignore[func-returns-value]

    for key in "abacab":
        assert ask(key) == key
    assert computed == ["a", "b", "c", "b"]
    assert cache.of(None, lambda: "x") == "x" and len(cache) == 2


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None]),
        pa.array([1, None], pa.int32()),
        pa.array([1.5, None], pa.float32()),
        pa.array(["a", None]).dictionary_encode(),
        pa.array(["a", None], pa.large_string()),
        pa.array([0, None], pa.date64()),
        pa.array([0, None], pa.timestamp("us", "Europe/Berlin")),
        pa.nulls(2),
    ],
    ids=lambda values: str(values.type),
)
def test_a_column_by_itself_has_the_type_that_an_expression_gives_it(values: pa.Array) -> None:
    wide, _ = shop()
    question = wide.snapshot.bind(Question(["city"], measures=["n"]))
    absorbed = pa.table({"stores.city": values, "c0": pa.array([1, 2])})
    formula = question.formulas["city"]
    wanted = evaluate(formula, {"stores.city": values}, 2)
    answer = question.answer(absorbed)
    assert answer.column_names == ["city", "n"]
    assert answer.column("city").type == wanted.type
    assert answer.column("city").to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("room", [0, 1, 3])
def test_threads_get_right_answers(room: int) -> None:
    questions: Sequence[dict[str, Any]] = [{}, BY_CITY, BY_COLOUR, *map(in_city, CITIES)]
    fresh, _ = shop()
    expected = [rows(fresh, question) for question in questions]
    size = fresh.state.store.kept_bytes // len(CITIES)
    wide, _ = shop(memory_limit=room * size)

    def ask(number: int) -> bool:
        i = number % len(questions)
        return rows(wide, questions[i]) == expected[i]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(240)))
    assert wide.state.store.kept_bytes <= room * size
    assert wide.state.store.kept_bytes == sum(m.table.nbytes for m in wide.state.store._kept)
