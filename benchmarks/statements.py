"""SQL statements: what they cost beside the questions that they are, and how many of TPC-DS are answered.

The 99 texts of TPC-DS are those that sqlglot parses in its own tests; its source distribution has them, which
pip downloads once. Each is put to the graphs that have its tables, and its answer compared with DuckDB's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from benchmarks.compare import Answer, Answers, difference
from benchmarks.data import default_cache
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race
from benchmarks.tpcds_data import generator
from benchmarks.tpcds_graphs import GRAPHS, SECOND_NAMES, tpcds_graph
from calitree import CalitreeError, JoinGraph, StatementError, WideTable

MORE = 30e-6
"""Seconds that a statement asked again may take beyond its question."""
ANSWERED = 25
"""Of the 99 texts, those that should be answered."""
FIXTURE = "tests/fixtures/optimizer/tpc-ds/tpc-ds.sql"
TABLES = tuple(dict.fromkeys(SECOND_NAMES.get(r, r) for graph in GRAPHS.values() for r in graph))


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=0.05, help="gigabytes of TPC-DS")
    parser.add_argument("--only", choices=("cost", "tpcds"), help="one of the two parts")


def run(given: Namespace, race: Race) -> None:
    if given.only != "tpcds":
        _cost(race)
    if given.only != "cost":
        _tpcds(race, given.data or default_cache(), given.scale)


# -- what a statement costs -----------------------------------------------------------------------


def _cost(race: Race) -> None:
    """A prepared statement against the question that it is, both asked before."""
    wide = _shop()
    text = "SELECT city, sum(price) AS s FROM wide WHERE price > $p GROUP BY city"
    question: dict[str, Any] = {
        "group_by": {"city": "city"},
        "where": "price > 3",
        "measures": {"s": "sum(price)"},
    }

    def as_answers(table: Any) -> Answers:
        return {"by city": Answer(table, 1)}

    asked: dict[str, Callable[[], Any]] = {
        "query": lambda: wide.query(**question).arrow(),
        "sql": lambda: wide.sql(text, p=3).arrow(),
    }
    contestants = tuple(Contestant(name, run, as_answers) for name, run in asked.items())
    (result,) = race.run(Heat(contestants, (Comparison("asked again", "sql", "query"),)))
    more = result["seconds"] - result["against_seconds"]
    race.record("sql beyond query", (Bar("seconds", at_most=MORE),), seconds=more)


def _shop() -> WideTable:
    graph = JoinGraph(engine="local")
    rows = range(10_000)
    graph.add_relation("sales", {"store": [i % 50 for i in rows], "price": [i % 7 for i in rows]})
    graph.add_relation("stores", {"id": [*range(50)], "city": [f"c{i % 9}" for i in range(50)]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return graph.calibrate({"s": "sum(price)"}, progress=False)


# -- the texts of TPC-DS --------------------------------------------------------------------------


def _tpcds(race: Race, cache: Path, scale: float) -> None:
    directory = _tables(cache, scale)
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS FROM '{directory / name}.parquet'")
    trees: dict[str, WideTable] = {}
    outcomes = [
        _outcome(race, number, text, connection, partial(_tree, trees, directory))
        for number, text in _texts(cache).items()
    ]
    answered = [outcome for outcome in outcomes if outcome.startswith("answered")]
    stores = [outcome for outcome in answered if "store" in outcome]
    for name, some in (("TPC-DS, answered", answered), ("TPC-DS, answered on stores", stores)):
        race.record(name, (Bar("answered", at_least=ANSWERED),), answered=len(some))


def _tree(trees: dict[str, WideTable], directory: Path, name: str) -> WideTable:
    if name not in trees:
        trees[name] = tpcds_graph(name, directory, "local").calibrate(progress=False)
    return trees[name]


def _outcome(
    race: Race,
    number: int,
    text: str,
    connection: duckdb.DuckDBPyConnection,
    tree: Callable[[str], WideTable],
) -> str:
    """`answered` and by which graph, or the reasons of the graphs that have the tables of a text."""
    reasons: dict[str, None] = {}
    for name in _graphs_with(text):
        try:
            ours = tree(name).sql(text).arrow()
        except CalitreeError as error:
            reasons[error.reason if isinstance(error, StatementError) else "other"] = None
            continue
        theirs = _without_nan(connection.sql(text).to_arrow_table())
        wrong = difference({"rows": Answer(ours)}, {"rows": Answer(theirs)})
        if wrong:
            between = f"{name} and DuckDB"
            race.disagreements.append(
                {"name": f"TPC-DS {number}", "between": between, "difference": wrong}
            )
        outcome = f"answered: {name}"
        race.record(f"TPC-DS {number}, {outcome}", outcome=outcome, rows=len(ours))
        return outcome
    outcome = f"refused: {', '.join(reasons) or 'no one graph has its tables'}"
    race.record(f"TPC-DS {number}, {outcome}", outcome=outcome)
    return outcome


def _without_nan(table: pa.Table) -> pa.Table:
    """With NULL for DuckDB's 0 / 0, as it is here."""
    for at, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = table.column(at)
            null = pa.scalar(None, field.type)
            table = table.set_column(at, field.name, pc.if_else(pc.is_nan(column), null, column))
    return table


def _graphs_with(text: str) -> list[str]:
    """The graphs that have all tables of a text."""
    query = sqlglot.parse_one(text, read="duckdb")
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = {table.name.lower() for table in query.find_all(exp.Table)} - ctes
    return [
        name
        for name, graph in GRAPHS.items()
        if tables <= {SECOND_NAMES.get(relation, relation) for relation in graph}
    ]


def _texts(cache: Path) -> dict[int, str]:
    """The texts by their numbers."""
    path = cache / f"tpcds-{sqlglot.__version__}.sql"
    if not path.is_file():
        path.write_text(_fixture())
    parts = re.split(r"-{20,}\n-- TPC-DS (\d+)\n-{20,}\n", path.read_text())
    texts = zip(parts[1::2], parts[2::2], strict=True)
    # Each is followed by what sqlglot's optimizer makes of it.
    without = {number: re.sub(r"^#.*\n", "", text, flags=re.M) for number, text in texts}
    return {int(number): text.partition(";")[0].strip() for number, text in without.items()}


def _fixture() -> str:
    """The file of sqlglot's source distribution, of the version that is installed."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "sqlglot"]
        wanted = f"sqlglot=={sqlglot.__version__}"
        subprocess.run([*command, "--quiet", "--dest", directory, wanted], check=True)
        (archive,) = Path(directory).glob("sqlglot-*.tar.gz")
        with tarfile.open(archive) as content:
            (member,) = [one for one in content if one.name.endswith(FIXTURE)]
            file = content.extractfile(member)
            assert file is not None
            return file.read().decode()


def _tables(cache: Path, scale: float) -> Path:
    """The directory with all tables, made once."""
    directory = cache / f"tpcds-all-{scale:g}"
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=cache))
        wanted = ["--scale-factor", f"{scale:g}", "--quiet", "--output-dir", str(made)]
        try:
            subprocess.run([generator(), "tpcds", "parquet", *wanted], check=True)
            made.rename(directory)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return directory


BENCHMARK = Benchmark(
    "statements",
    "what SQL statements cost beside their questions, and how many of the 99 of TPC-DS are answered",
    options,
    run,
)
