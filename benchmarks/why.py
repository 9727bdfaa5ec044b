"""Why the units per sale were high in one month, asked of a star of 15 attributes, against DuckDB.

A cause is planted: in that month the sales of one family of items through one channel are larger. The
tree answers with all candidates of one and of two attributes. DuckDB joins and sums up once for every
attribute and every two of them (GROUPING SETS), on both sides: what it takes to know the measure without
each candidate, but not yet to judge them. Then every influence that is told is compared with the question
asked again without these rows.

All relations are in memory, and the tree keeps no message of a question for the next.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.compare import Answer, Answers
from benchmarks.data import star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, positive, within
from benchmarks.opponents import DuckDB
from benchmarks.questions import keeping_no_messages, star_graph
from benchmarks.whatif import in_memory
from calitree.apps.explain.explanation import Explanation

MEASURES = {"n": "count(*)", "per_sale": "avg(sales.unit_sales)"}
ATTRIBUTES = (
    *("stores.city", "stores.state", "stores.type", "stores.cluster"),
    *("items.family", "items.class", "items.perishable"),
    *("oil.year", "oil.quarter", "oil.weekday", "holiday.type"),
    *("sales.onpromotion", "sales.channel", "sales.payment", "sales.hour"),
)
CHANNELS = ("shop", "web", "phone", "app")
MONTH = 45
"""The odd month, counted from the first."""
WHERE = f"oil.month = {MONTH}"
FAMILY, CHANNEL, FACTOR = "DELI", "web", 4.0
CAUSE = f"items.family = '{FAMILY}' AND sales.channel = '{CHANNEL}'"


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=10_000_000, help="rows of sales")


def run(given: Namespace, race: Race) -> None:
    tables = planted(in_memory(star_files(given.rows, given.seed, given.data)), given.seed)
    wide = keeping_no_messages(star_graph(tables, "local").calibrate(MEASURES, progress=False))
    duck = DuckDB({})
    for name, table in tables.items():
        duck.connection.register("given", table)
        duck.keep(name, "SELECT * FROM given")

    def ours() -> Explanation:
        return wide.why("per_sale", WHERE, attributes=ATTRIBUTES, progress=False)

    def theirs() -> pa.Table:
        return duck.ask(EVERY_PAIR)

    began = time.perf_counter()
    explanation = ours()
    cold = time.perf_counter() - began
    contestants = (
        Contestant("calitree local", ours, _best),
        Contestant(duck.name, theirs, _cause),
    )
    notes = {
        "sentence": explanation.sentence,
        "questions": explanation.questions,
        "attributes": len(ATTRIBUTES),
        "seconds_cold": cold,  # the columns of the sales are numbered when they are first grouped by
    }
    name = "why, 15 attributes and their pairs, against their sums"
    line = Comparison(name, "calitree local", duck.name, (within(2.0),), notes)
    race.run(Heat(contestants, (line,)))
    race.record(
        "the rank of the planted cause",
        (Bar("rank", at_most=1),),
        rank=1 + next(i for i, row in enumerate(explanation) if row["explanation"] == CAUSE),
    )
    race.record(
        "influences that are not those of the question asked again",
        (Bar("wrong", at_most=0),),
        wrong=len(explanation.verify()),
        of=len(explanation),
    )


def planted(tables: Mapping[str, pa.Table], seed: int) -> dict[str, pa.Table]:
    """The star with more attributes, and a cause."""
    planted, rng = dict(tables), np.random.default_rng([seed, 2])
    days = planted["oil"].column("date")
    month = np.asarray(pc.add(pc.multiply(pc.subtract(pc.year(days), 2013), 12), pc.month(days)))
    for name, values in {
        "month": month,
        "year": pc.year(days),
        "quarter": pc.quarter(days),
        "weekday": pc.day_of_week(days),
    }.items():
        planted["oil"] = planted["oil"].append_column(name, pa.array(values).cast(pa.int32()))
    sales = planted["sales"]
    channel = rng.integers(0, len(CHANNELS), len(sales)).astype(np.int32)
    there = pa.DictionaryArray.from_arrays(pa.array(channel), pa.array(CHANNELS))
    sales = sales.append_column("channel", there)
    for name, size in (("payment", 5), ("hour", 14)):
        sales = sales.append_column(name, pa.array(rng.integers(0, size, len(sales), np.int32)))
    items, dates = planted["items"], pa.array(days).filter(pa.array(month == MONTH))
    family = items.column("item").filter(pc.equal(items.column("family"), FAMILY))
    odd = pc.and_(
        pc.is_in(sales.column("item"), value_set=family.combine_chunks()),
        pc.and_(
            pc.is_in(sales.column("date"), value_set=dates),
            pa.array(channel == CHANNELS.index(CHANNEL)),
        ),
    )
    units = sales.column("unit_sales")
    units = pc.if_else(odd, pc.multiply(units, FACTOR), units)
    at = sales.column_names.index("unit_sales")
    planted["sales"] = sales.set_column(at, "unit_sales", units).combine_chunks()
    return planted


SETS = [columns for width in (1, 2) for columns in combinations(ATTRIBUTES, width)]
EVERY_PAIR = f"""
SELECT {", ".join(f'{name} AS "{name}"' for name in ATTRIBUTES)}, {WHERE} AS odd,
  grouping({", ".join(ATTRIBUTES)}) AS by, sum(unit_sales) AS units, count(*) AS n
FROM sales JOIN oil USING (date) JOIN holiday USING (date) JOIN transactions USING (date, store)
  JOIN stores USING (store) JOIN items USING (item)
GROUP BY GROUPING SETS ({", ".join(f"({', '.join(columns)}, odd)" for columns in SETS)})
"""


def _best(explanation: Explanation) -> Answers:
    """What is left without the planted cause."""
    row = next(row for row in explanation if row["explanation"] == CAUSE)
    return {"without": Answer(pa.table({"without": [row["without"]], "n": [row["rows"]]}), 0)}


def _cause(table: pa.Table) -> Answers:
    """The same from the sums of families and channels."""
    bits = {name: 1 << i for i, name in enumerate(reversed(ATTRIBUTES))}
    by = sum(bits.values()) - bits["items.family"] - bits["sales.channel"]
    odd = [row for row in table.filter(pc.field("by") == by).to_pylist() if row["odd"]]
    cause = {"items.family": FAMILY, "sales.channel": CHANNEL}
    gone = [row for row in odd if cause.items() <= row.items()]
    rest = [row for row in odd if row not in gone]
    without = sum(row["units"] for row in rest) / sum(row["n"] for row in rest)
    return {"without": Answer(pa.table({"without": [without], "n": [gone[0]["n"]]}), 0)}


BENCHMARK = Benchmark(
    "why",
    "an outlier explained by 15 attributes and their pairs, against DuckDB's GROUPING SETS",
    options,
    run,
)
