"""Triangles R(a,b), S(b,c), T(a,c): a join that closes a cycle, against DuckDB.

Joining any two of the three first can take far more rows than there are triangles. On the paper's
balanced data (appendix E) all joins are as large as the bound allows, on its unbalanced data two of
the relations meet in 10⁸ rows and all three in 10⁴. In a graph, generated or read from a file, all
three are its edges, and a triangle is a way from a to b to c and back.
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compare import Answer, Answers
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.opponents import DuckDB
from benchmarks.questions import keeping_no_messages
from calitree import JoinGraph, WideTable
from calitree.calibration.branch import Branch

JOINED = "R JOIN S USING (b) JOIN T USING (a, c)"
COUNT = f"SELECT count(*) AS n FROM {JOINED}"
BY_A = f"SELECT a, count(*) AS n FROM {JOINED} GROUP BY a"
MEASURES = {"n": "count(*)"}


@dataclass(frozen=True)
class Triangle:
    """Three relations, and what counting their triangles anew should reach."""

    name: str
    tables: Mapping[str, pa.Table]
    bars: tuple[Bar, ...] = ()

    @property
    def rows(self) -> dict[str, int]:
        return {name: table.num_rows for name, table in self.tables.items()}


def pairs(first: Any, second: Any, a: str, b: str) -> pa.Table:
    return pa.table({a: first, b: second})


def balanced() -> Triangle:
    """Every relation is [100] × [100]."""
    x, y = np.divmod(np.arange(10_000), 100)
    names = {"R": "ab", "S": "bc", "T": "ac"}
    return Triangle("balanced", {name: pairs(x, y, *of) for name, of in names.items()})


def unbalanced() -> Triangle:
    """R and T are [1] × [10000], S is [100] × [100]."""
    one, many = np.zeros(10_000, np.int64), np.arange(10_000)
    x, y = np.divmod(many, 100)
    tables = {"R": pairs(one, many, *"ab"), "S": pairs(x, y, *"bc"), "T": pairs(one, many, *"ac")}
    return Triangle("unbalanced", tables, (at_least(10),))


def of_graph(name: str, sources: Any, targets: Any, bars: tuple[Bar, ...] = ()) -> Triangle:
    """The edges of a graph three times: from a to b, from b to c, from c to a."""
    ends = {"R": ("a", "b"), "S": ("b", "c"), "T": ("c", "a")}
    tables = {relation: pairs(sources, targets, *names) for relation, names in ends.items()}
    return Triangle(name, tables, bars)


def power_law(edges: int, seed: int) -> Triangle:
    """A graph with a tenth as many nodes as edges, a few of which have many."""
    rng = np.random.default_rng([seed, edges])
    nodes = max(3, edges // 10)
    chance = np.cumsum(1 / np.arange(2, nodes + 2) ** 0.7)
    drawn = np.searchsorted(chance / chance[-1], rng.random((2 * edges, 2)))
    distinct = np.unique(drawn, axis=0)
    kept = distinct[np.sort(rng.permutation(len(distinct))[:edges])]
    return of_graph(f"power law, {len(kept):,} edges", kept[:, 0], kept[:, 1])


def from_file(path: Path) -> Triangle:
    """The distinct edges in a Parquet file: its columns `src` and `dst`, or else the first two."""
    names = pq.read_schema(path).names
    columns = ["src", "dst"] if {"src", "dst"} <= set(names) else names[:2]
    edges = pq.read_table(path, columns=columns).group_by(columns).aggregate([]).drop_null()
    return of_graph(path.stem, edges.column(columns[0]), edges.column(columns[1]), (at_least(1),))


def options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--rows", "--edges", type=positive, default=200_000, help="edges of the generated graph"
    )
    parser.add_argument(
        "--graph",
        type=Path,
        action="append",
        metavar="FILE",
        help="a Parquet file of edges, its columns src and dst or the first two; may be repeated",
    )


def run(given: Namespace, race: Race) -> None:
    cases = [balanced(), unbalanced(), power_law(given.rows, given.seed)]
    for case in (*cases, *map(from_file, given.graph or ())):
        with tempfile.TemporaryDirectory() as directory:
            files = {name: Path(directory) / f"{name}.parquet" for name in case.tables}
            for name, table in case.tables.items():
                pq.write_table(table, files[name])
            run_case(case, files, race)


def run_case(case: Triangle, files: Mapping[str, Path], race: Race) -> None:
    graph, duck = triangle_graph(files), DuckDB(files)
    wide = keeping_no_messages(graph.calibrate(MEASURES, progress=False))
    questions: dict[str, tuple[Callable[[], pa.Table], str, tuple[Bar, ...]]] = {
        "count, nothing calibrated": (fresh_count(graph), COUNT, case.bars),
        "calibrate, then the total": (partial(calibrate_and_count, graph), COUNT, ()),
        "total": (partial(total, wide), COUNT, ()),
        "by a": (lambda: wide.query(group_by=["R.a"]).arrow(), BY_A, ()),
    }
    for name, (ours, sql, bars) in questions.items():
        answer = partial(answers, name, int(sql == BY_A))
        contestants = (
            Contestant("calitree local", ours, answer),
            Contestant(duck.name, partial(duck.ask, sql), answer),
        )
        called, notes = f"{case.name}: {name}", {"rows": case.rows}
        line = Comparison(called, "calitree local", duck.name, bars, notes)
        race.run(Heat(contestants, (line,)))


def triangle_graph(files: Mapping[str, Path]) -> JoinGraph:
    graph = JoinGraph(engine="local")
    for name, path in files.items():
        graph.add_relation(name, str(path))
    graph.add_join("R", "S", on="b")
    graph.add_join("S", "T", on="c")
    graph.add_join("R", "T", on="a")
    return graph


def forget(graph: JoinGraph) -> None:
    """Let the engine give up the joined rows, but neither codes nor sorted relations: those are its
    format, as tables are DuckDB's.
    """
    engine: Any = graph.engine
    engine._prepared.joined.clear()
    engine._prepared.stars.clear()


def fresh_count(graph: JoinGraph) -> Callable[[], pa.Table]:
    """The number of triangles, with nothing calibrated and the join made anew."""
    given = graph.schema, graph.engine, graph.hypertree()
    wide = keeping_no_messages(WideTable(Branch.new(*given, measures=MEASURES)))

    def count() -> pa.Table:
        forget(graph)
        return total(wide)

    return count


def calibrate_and_count(graph: JoinGraph) -> pa.Table:
    """As the paper measures it: where all three share a bag, there is no message to pass."""
    forget(graph)
    return total(graph.calibrate(MEASURES, progress=False))


def total(wide: WideTable) -> pa.Table:
    return wide.query().arrow()


def answers(name: str, keys: int, table: pa.Table) -> Answers:
    return {name: Answer(table, keys)}


BENCHMARK = Benchmark(
    "triangle",
    "triangles in the paper's data and in graphs: a cyclic join, anew and calibrated, against DuckDB",
    options,
    run,
)
