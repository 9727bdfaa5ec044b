"""Distinct counts and medians on the star, against DuckDB: of a fact's column, and of dimensions' columns.

Every sale has a customer, one of as many as a tenth of the sales. Both sides have all six tables in memory,
and every question ends as an Arrow table.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.opponents import DuckDB
from benchmarks.questions import MEASURES, Question, keeping_no_messages, star_graph
from calitree import WideTable

ROWS_PER_CUSTOMER = 10
QUESTIONS: tuple[tuple[Question, tuple[Bar, ...]], ...] = (
    (
        Question(
            "customers by store", ("stores.store",), measures=(("d", "count(distinct customer)"),)
        ),
        (at_least(5),),
    ),
    (
        Question(
            "customers by city and family",
            ("stores.city", "items.family"),
            measures=(("d", "count(distinct customer)"),),
        ),
        (),
    ),
    (
        Question(
            "families by city", ("stores.city",), measures=(("d", "count(distinct items.family)"),)
        ),
        (at_least(1),),
    ),
    (
        Question(
            "median of transactions by state",
            ("stores.state",),
            measures=(("m", "median(transactions.transactions)"),),
        ),
        (at_least(5),),
    ),
)


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=10_000_000, help="rows of sales")


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    tables = {name: pq.read_table(path) for name, path in files.items()}
    tables["sales"] = with_customers(tables["sales"], given.seed)
    duckdb = DuckDB({name: path for name, path in files.items() if name != "sales"})
    duckdb.connection.register("sold", tables["sales"])
    duckdb.connection.execute("CREATE TABLE sales AS FROM sold")
    wide = keeping_no_messages(star_graph(tables, "local").calibrate(MEASURES, progress=False))
    for question, bars in QUESTIONS:
        _race(race, wide, duckdb, question, bars)
    declared = star_graph(tables, "local").calibrate(
        {"families": "count(distinct items.family)"}, progress=False
    )
    asked = replace(QUESTIONS[2][0], name="families by city, declared")
    _race(race, declared, duckdb, asked, (at_least(50),))
    wide.cube(["stores.city", "items.family"], k=1)
    _race(
        race,
        wide,
        duckdb,
        replace(QUESTIONS[2][0], name="families by city, from a cube"),
        (at_least(50),),
    )


def _race(
    race: Race, wide: WideTable, duckdb: DuckDB, question: Question, bars: tuple[Bar, ...]
) -> None:
    """One question, on both sides."""
    notes: dict[str, Any] = {"plan": str(question.ask(wide).plan)}
    ours = Contestant("calitree local", partial(_asked, question, wide), question.answers)
    theirs = Contestant(duckdb.name, partial(duckdb.ask, question.sql), question.answers)
    line = Comparison(f"local: {question.name}", ours.name, theirs.name, bars, notes)
    race.run(Heat((ours, theirs), (line,)))


def _asked(question: Question, wide: WideTable) -> pa.Table:
    return question.ask(wide).arrow()


def with_customers(sales: pa.Table, seed: int) -> pa.Table:
    """Sales with a customer each."""
    rng = np.random.default_rng([seed, 2])
    customers = rng.integers(0, max(1, len(sales) // ROWS_PER_CUSTOMER), len(sales), np.int32)
    return sales.append_column("customer", pa.array(customers))


BENCHMARK = Benchmark(
    "distinct",
    "distinct counts and medians on the star, of a fact's and of dimensions' columns, against DuckDB",
    options,
    run,
)
