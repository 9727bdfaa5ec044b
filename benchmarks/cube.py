"""The paper's cube (§6, "Cubes in the Cloud"): the many-to-many chain of eight relations, fanout 10,
domain 10, and 100 random questions that group by four of its nine attributes.

For k = 0, 1, 2 a cube is built, and asked. No message that a question computes is kept for the
next. Without a cube messages are passed for every question, in two ways: to the root that
is best for this question, as `WideTable.query` does; and to one and the same root, the best for the
total. Questions are asked for the first time (planned, and the absorbed keys joined), and again.

The naive query has all relations in one bag, and counts their join of 10^9 rows with the same engine:
by a worst-case optimal join, which counts the innermost values without visiting each.
"""

from __future__ import annotations

import random
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import pyarrow as pa

from benchmarks.chain import chain_files, chain_graph
from benchmarks.compare import Answer, Answers
from benchmarks.frame import Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.questions import keeping_no_messages
from calitree import JoinGraph, WideTable
from calitree.apps.cube.cube import Cube
from calitree.calibration.branch import Branch
from calitree.calibration.compilation.compiler import Compiled, compile_plan
from calitree.calibration.executor import run_plan
from calitree.calibration.planning.plan import Absorb, Plan, Planned, Send, Step
from calitree.calibration.planning.staleness import Available
from calitree.jointree.bag import Bag
from calitree.jointree.hypertree import Hypertree
from calitree.query.binder import Question

FANOUT = 10
MEASURES = {"n": "count(*)"}
KS = (0, 1, 2)
BEST, ONE = "messages to the best root", "messages to one root"
FASTER = 20
"""How many times as fast as without a cube the largest should be."""

Columns = tuple[str, ...]


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--length", type=positive, default=8, help="relations of the chain")
    parser.add_argument("--questions", type=positive, default=100, help="asked of each cube")
    parser.add_argument("--engine", default="local", help="who computes")


def run(given: Namespace, race: Race) -> None:
    files = chain_files(FANOUT, given.data)[: given.length]
    start = partial(chain_graph, files, given.engine)
    dims = [f"a{i}" for i in range(given.length + 1)]
    rng = random.Random(given.seed)
    questions = [tuple(rng.sample(dims, 4)) for _ in range(given.questions)]
    build(race, start, dims)
    first(race, start, dims, questions)
    again(race, start, dims, questions)
    naive(race, start, dims)


def build(race: Race, start: Callable[[], JoinGraph], dims: list[str]) -> None:
    """From tables that are loaded to a cube, each time on a new engine."""
    graphs: list[JoinGraph] = []

    def setup() -> None:
        graphs[:] = [start()]

    contestants, comparisons = [], []
    for k in KS:
        name = f"build, k = {k}"
        cube = built(start(), dims, k)
        base = sum(
            cube.wide.engine.arrow(r.table).nbytes for r in cube.wide.schema.relations.values()
        )
        notes = {
            "bytes": cube.bytes,
            "estimated_bytes": cube.estimated.bytes,
            "messages": cube.messages,
            "pivots": len(cube.pivots),
            "times_the_relations": cube.bytes / base,
        }
        make = partial(lambda k: built(graphs[0], dims, k), k)
        contestants.append(Contestant(name, make, lambda _: {}, setup))
        comparisons.append(Comparison(name, name, notes=notes))
    race.run(Heat(tuple(contestants), tuple(comparisons)))


def first(
    race: Race, start: Callable[[], JoinGraph], dims: list[str], questions: Sequence[Columns]
) -> None:
    """Each question for the first time: a new tree for every turn, made before it."""
    trees: dict[str, Any] = {}

    def contestant(name: str, make: Callable[[], Any]) -> Contestant:
        def setup() -> None:
            trees[name] = make()

        return Contestant(
            name, lambda: asked(trees[name], questions), partial(answers, questions), setup
        )

    heat(race, "asked first", contestant, start, dims)


def again(
    race: Race, start: Callable[[], JoinGraph], dims: list[str], questions: Sequence[Columns]
) -> None:
    """Questions that were asked before: only what depends on values is computed."""

    def contestant(name: str, make: Callable[[], Any]) -> Contestant:
        tree = make()
        return Contestant(name, lambda: asked(tree, questions), partial(answers, questions))

    heat(race, "asked again", contestant, start, dims)


def heat(
    race: Race,
    title: str,
    contestant: Callable[[str, Callable[[], Any]], Contestant],
    start: Callable[[], JoinGraph],
    dims: list[str],
) -> None:
    contestants = [
        contestant(BEST, lambda: uncalibrated(start())),
        contestant(ONE, lambda: OneRoot(uncalibrated(start()))),
    ]
    comparisons = []
    for k in KS:
        name = f"cube, k = {k}"
        contestants.append(contestant(name, partial(lambda k: built(start(), dims, k), k)))
        for other in (BEST, ONE):
            bars = (at_least(FASTER),) if k == max(KS) else ()
            where = other.removeprefix("messages ")
            comparisons.append(Comparison(f"{title}, k = {k}, {where}", name, other, bars))
    race.run(Heat(tuple(contestants), tuple(comparisons)))


def naive(race: Race, start: Callable[[], JoinGraph], dims: list[str]) -> None:
    """All cuboids of two dimensions, from loaded tables, against one total of the join."""
    graphs: list[JoinGraph] = []

    def setup() -> None:
        graphs[:] = [start()]

    def cuboids() -> dict[str, pa.Table]:
        cube = built(graphs[0], dims, 1)
        grand = {"total": cube.cuboid([]).arrow()}
        return grand | {f"{a} {b}": cube.cuboid([a, b]).arrow() for a, b in combinations(dims, 2)}

    def total() -> dict[str, pa.Table]:
        graph = graphs[0]
        plain = graph.hypertree()
        bag = Bag("all", frozenset(graph.schema.attributes), tuple(graph.schema.relations))
        tree = Hypertree((bag,), (), plain.relations, plain.rows)
        wide = keeping_no_messages(
            WideTable(Branch.new(graph.schema, graph.engine, tree, measures=MEASURES))
        )
        return {"total": wide.query().arrow()}

    def both(tables: dict[str, pa.Table]) -> Answers:
        return {name: Answer(table, table.num_columns - 1) for name, table in tables.items()}

    race.run(
        Heat(
            (
                Contestant("all 2-attribute cuboids", cuboids, both, setup),
                Contestant("the join, counted", total, both, setup),
            ),
            (
                Comparison(
                    "k = 1 built and all 2-attribute cuboids",
                    "all 2-attribute cuboids",
                    "the join, counted",
                    (at_least(1),),
                ),
            ),
        )
    )


def uncalibrated(graph: JoinGraph) -> WideTable:
    return keeping_no_messages(
        WideTable(Branch.new(graph.schema, graph.engine, graph.hypertree(), measures=MEASURES))
    )


def built(graph: JoinGraph, dims: list[str], k: int) -> Cube:
    wide = uncalibrated(graph)
    wide.refresh(progress=False)
    return wide.cube(dims, k, progress=False)


class OneRoot:
    """Passes all messages of each question to the root that is best for the total."""

    def __init__(self, wide: WideTable) -> None:
        self.wide, self.root = wide, wide.plan().root
        self._prepared: dict[Columns, Compiled] = {}

    def query(self, group_by: Columns) -> Any:
        if group_by not in self._prepared:
            self._prepared[group_by] = self._prepare(group_by)
        prepared = self._prepared[group_by]
        table, _, _ = run_plan(self.wide.engine, prepared)
        return _Arrow(prepared.projection.answer(self.wide.engine.arrow(table)))

    def _prepare(self, group_by: Columns) -> Compiled:
        now, root = self.wide.snapshot, self.root
        question = now.bind(Question(group_by))
        placement, query = now.placement(question.query), question.query
        steps = tuple(
            Step(edge[0], (Send.of(placement, edge),)) for edge in placement.tree.upward(root)
        )
        absorb = Absorb(root, query.keep, (), query.aggregates)
        plan = Plan(root, steps, (), absorb, placement.placed(root, now.pivot))
        planned = Planned(question, plan, placement, Available({}, {}, {}))
        return compile_plan(now.schema, planned, {})


class _Arrow:
    def __init__(self, table: pa.Table) -> None:
        self.arrow = lambda: table


def asked(tree: Any, questions: Sequence[Columns]) -> list[pa.Table]:
    return [tree.query(columns).arrow() for columns in questions]


def answers(questions: Sequence[Columns], tables: list[pa.Table]) -> Answers:
    """By question."""
    pairs = zip(questions, tables, strict=True)
    return {" ".join(columns): Answer(table, len(columns)) for columns, table in pairs}


BENCHMARK = Benchmark(
    "cube",
    "the paper's cube over a chain: built for k = 0, 1, 2, and 100 random questions to each",
    options,
    run,
)
