"""Which of 30 tables improves a model (paper §6, "Pandas Dataframe Compiler"), three ways in one run.

The star's sales, stores and items are to tell the number of transactions: a linear model of unit_sales,
cluster and perishable. Ten tables each join on the date, the store and the item. Each has one value a
key: the mean of the target by this key, blurred; how much is drawn from the paper's distribution.

- the calibrated tree: the model's sums are calibrated once, then every table is a message and an absorption;
- factorised retraining: for every table, messages are passed upward over the tree that has it, and
  nothing is kept. It is told where the means are, so that one pass suffices;
- the join, built by DuckDB with the columns of the model alone, and scikit-learn's `LinearRegression`.

With `--spark` the tree is on the hybrid engine, the sales in a Parquet file, and Spark ML's
`LinearRegression` has the joined frame.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.compare import Answer, Answers
from benchmarks.data import star_files
from benchmarks.extras import FEATURES, KEYS, TABLES_PER_KEY, TARGET, Extra, extra_tables, joined
from benchmarks.frame import (
    Bar,
    Benchmark,
    Comparison,
    Contestant,
    Heat,
    Race,
    at_least,
    positive,
    within,
)
from benchmarks.opponents import DuckDB, SparkSql, spark_frames
from benchmarks.questions import keeping_no_messages, star_graph
from benchmarks.whatif import in_memory
from calitree import JoinGraph, WideTable
from calitree.apps.regression.gram import Gram
from calitree.apps.regression.gram_query import GramQuery
from calitree.apps.regression.least_squares import solve
from calitree.calibration.branch import Branch

OURS, AFTER = "calibrated tree", "calibrated tree, calibrated before"
RETRAINED, SKLEARN, SPARK_ML = "factorised retraining", "DuckDB + scikit-learn", "Spark ML"
AGREE = 1e-6
"""How far R² of two solvers may be apart."""
DIMENSIONS = 4 << 20
"""Bytes that are more than any dimension has, and less than a million sales."""


def options(parser: ArgumentParser) -> None:
    count = len(KEYS) * TABLES_PER_KEY
    parser.add_argument("--rows", type=positive, default=10_000_000, help="rows of sales")
    parser.add_argument(
        "--sklearn", type=positive, default=count, help="tables that scikit-learn is given"
    )
    parser.add_argument("--spark", action="store_true", help="on Spark, against Spark ML")
    parser.add_argument("--ml", type=positive, default=2, help="tables that Spark ML is given")


@dataclass(frozen=True)
class Fitted:
    """How well the model does with one more table, over the rows that it was fitted to."""

    r2: float
    rows: int


Fits = dict[str, Fitted]


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    duck = DuckDB(files)
    extras = extra_tables(duck, given.seed)
    if given.spark:
        on_spark(race, files, extras, given.ml)
        return
    graph = star_graph(in_memory(files), "local")
    parts(race, graph, extras)
    ours = against_retraining(race, graph, extras)
    against_sklearn(race, duck, extras[: given.sklearn], ours)


# -- the calibrated tree ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A tree with the sums of the model, up to where tables join."""

    wide: WideTable
    centres: Mapping[str, float]


def uncalibrated(graph: JoinGraph) -> WideTable:
    tree = graph.hypertree()
    return keeping_no_messages(
        WideTable(Branch.new(graph.schema, graph.engine, tree, measures={"n": "count(*)"}))
    )


def prepared(graph: JoinGraph) -> Prepared:
    """From relations that are loaded to all messages that tables will need."""
    wide = uncalibrated(graph)
    centres = GramQuery(wide, TARGET, FEATURES).centres()
    for key in KEYS:
        wide = wide.keyed([f"sales.{key}"])
    questions = GramQuery(wide, TARGET, FEATURES).questions(centres)
    wide.branch.add_pivots(questions, progress=False)
    return Prepared(wide, centres)


def gram(wide: WideTable, centres: Mapping[str, float], extra: Extra) -> Gram:
    """Those of the model with one more table, which has its values around zero."""
    more = wide.augment(extra.table, on=f"sales.{extra.key}", name=extra.name)
    known = {**centres, extra.feature: 0.0}
    return GramQuery(more, TARGET, [*FEATURES, extra.feature]).gram(known)


def fitted(sums: Gram) -> Fitted:
    return Fitted(solve(sums).r2(sums), int(sums.rows))


def all_of(ready: Prepared, extras: Sequence[Extra]) -> Fits:
    return {extra.name: fitted(gram(ready.wide, ready.centres, extra)) for extra in extras}


def assert_at_home(ready: Prepared, extras: Sequence[Extra]) -> int:
    """No plan of any table reads the sales; how many messages all of them compute."""
    computed = 0
    for extra in extras:
        for plan in gram(ready.wide, ready.centres, extra).plans:
            bags = {plan.root, *(key.source for key in plan.computed)}
            assert "sales" not in bags, f"{extra.name} reads the sales:\n{plan}"
            computed += len(plan.computed)
    return computed


def parts(race: Race, graph: JoinGraph, extras: Sequence[Extra]) -> None:
    """The calibration by itself, and the tables by themselves."""
    ready = prepared(graph)
    notes = {
        "messages_of_the_tables": assert_at_home(ready, extras),
        "bytes": sum(message.table.nbytes for message in ready.wide.state.store.pinned),
    }
    base = "calibration of the sums"
    contestants = (
        Contestant(base, partial(prepared, graph), lambda _: {}),
        Contestant(AFTER, partial(all_of, ready, extras), answers),
    )
    lines = (
        Comparison(base, base, notes=notes),
        Comparison(f"{len(extras)} tables, after calibration", AFTER, bars=(within(1.0),)),
    )
    race.run(Heat(contestants, lines))


# -- the others ------------------------------------------------------------------------------------


def against_retraining(race: Race, graph: JoinGraph, extras: Sequence[Extra]) -> Timed:
    """All tables, from loaded relations; what our side found, and its time."""
    centres = prepared(graph).centres

    def retrained() -> Fits:
        wide = uncalibrated(graph)
        return {extra.name: fitted(gram(wide, centres, extra)) for extra in extras}

    def ours() -> Fits:
        return all_of(prepared(graph), extras)

    contestants = (Contestant(OURS, ours, answers), Contestant(RETRAINED, retrained, answers))
    name = f"{len(extras)} tables, calibration included, against retraining"
    (result,) = race.run(Heat(contestants, (Comparison(name, OURS, RETRAINED, (at_least(10),)),)))
    return Timed(ours(), result["seconds"])


def answers(fits: Fits) -> Answers:
    table = pa.table(
        {
            "table": list(fits),
            "rows": [fit.rows for fit in fits.values()],
            "r2": [fit.r2 for fit in fits.values()],
        }
    )
    return {"R²": Answer(table, 1)}


@dataclass(frozen=True)
class Timed:
    """What was found for some tables, and the seconds for all of them."""

    fits: Fits
    seconds: float


def timed(fit: Callable[[Extra], Fitted], extras: Sequence[Extra]) -> Timed:
    """Each table once: seconds apiece are told well enough by one run."""
    fits, started = {}, time.perf_counter()
    for extra in extras:
        fits[extra.name] = fit(extra)
    return Timed(fits, time.perf_counter() - started)


def compare(race: Race, title: str, ours: Timed, name: str, theirs: Timed, *bars: Bar) -> None:
    """Ours for all tables against another's for some, as if it had taken as long for each of the rest."""
    whole = theirs.seconds / len(theirs.fits) * len(ours.fits)
    wrong = [
        f"R² of {table} is {mine.r2} over {mine.rows} rows, not {it.r2} over {it.rows}"
        for table, it in theirs.fits.items()
        if it.rows != (mine := ours.fits[table]).rows or abs(it.r2 - mine.r2) > AGREE
    ]
    if wrong:
        between = f"{OURS} and {name}"
        race.disagreements.append({"name": title, "between": between, "difference": wrong[0]})
    race.record(
        title,
        bars,
        seconds=ours.seconds,
        against=name,
        against_seconds=whole,
        ratio=whole / ours.seconds,
        agree=not wrong,
        tables_run=len(theirs.fits),
    )


def against_sklearn(race: Race, duck: DuckDB, extras: Sequence[Extra], ours: Timed) -> None:
    """The join as arrays, and a fit to them."""
    from sklearn.linear_model import LinearRegression

    columns = [*FEATURES, "extra.val", TARGET]
    chosen = ", ".join(f"CAST({column} AS DOUBLE) AS c{i}" for i, column in enumerate(columns))

    def fit(extra: Extra) -> Fitted:
        duck.connection.register("extra", extra.table)
        sql = f"SELECT {chosen} FROM {joined()} JOIN extra USING ({extra.key})"
        rows = duck.connection.sql(sql).fetchnumpy()
        *x, y = (rows[f"c{i}"] for i in range(len(columns)))
        matrix = np.column_stack(x)
        return Fitted(LinearRegression().fit(matrix, y).score(matrix, y), len(y))

    theirs = timed(fit, extras)
    title = f"{len(ours.fits)} tables, calibration included, against the join"
    compare(race, title, ours, SKLEARN, theirs, at_least(30))
    list_r2(race, extras, ours, theirs)


def list_r2(race: Race, extras: Sequence[Extra], ours: Timed, theirs: Timed) -> None:
    """A line for each table; retraining has the same as we, or it would have been told."""
    for extra in extras:
        mine, other = ours.fits[extra.name], theirs.fits[extra.name]
        name = f"{extra.name}: φ {extra.phi:.3f}, R² {mine.r2:.6f}, {other.r2:.6f}"
        race.record(name, phi=extra.phi, rows=mine.rows, r2=mine.r2, their_r2=other.r2)


# -- on Spark --------------------------------------------------------------------------------------


def on_spark(race: Race, files: Mapping[str, Path], extras: Sequence[Extra], count: int) -> None:
    from calitree import spark_session
    from calitree.engines.hybrid import HybridEngine

    session = spark_session("local[2]", app_name="calitree benchmarks")
    graph = star_graph(files, HybridEngine(session, in_process=DIMENSIONS))
    ready = prepared(graph)
    messages = assert_at_home(ready, extras)
    base = "calibration of the sums, on Spark"
    contestants = (
        Contestant(base, partial(prepared, graph), lambda _: {}),
        Contestant(AFTER, partial(all_of, ready, extras), answers),
    )
    name = f"{len(extras)} tables, after calibration, on Spark"
    lines = (
        Comparison(base, base),
        Comparison(name, AFTER, notes={"messages_of_the_tables": messages}),
    )
    calibration, after = (result["seconds"] for result in race.run(Heat(contestants, lines)))
    fits = all_of(ready, extras)
    opponent = SparkSql(session, spark_frames(session, files, cached=False))
    some = extras[:count]
    spark_ml(opponent, some[0])  # the first takes twice as long
    theirs = timed(partial(spark_ml, opponent), some)
    title = f"{len(extras)} tables, after calibration, against {SPARK_ML}"
    compare(race, title, Timed(fits, after), SPARK_ML, theirs, at_least(50))
    title = f"{len(extras)} tables, calibration included, against {SPARK_ML}"
    compare(race, title, Timed(fits, calibration + after), SPARK_ML, theirs)
    list_r2(race, some, Timed(fits, after), theirs)


def spark_ml(opponent: SparkSql, extra: Extra) -> Fitted:
    """The join as a frame, which is never built as a whole, and a fit by normal equations."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression

    columns = [*FEATURES, "extra.val", TARGET]
    *x, y = (f"c{i}" for i in range(len(columns)))
    chosen = ", ".join(f"CAST({column} AS DOUBLE) AS c{i}" for i, column in enumerate(columns))
    opponent.session.createDataFrame(extra.table).createOrReplaceTempView("extra")
    frame = opponent.session.sql(f"SELECT {chosen} FROM {joined()} JOIN extra USING ({extra.key})")
    rows = VectorAssembler(inputCols=x, outputCol="x").transform(frame).select("x", y)
    summary = LinearRegression(featuresCol="x", labelCol=y, solver="normal").fit(rows).summary
    return Fitted(summary.r2, summary.numInstances)


BENCHMARK = Benchmark(
    "augment",
    "which of 30 tables improves a model: calibrated, retrained, and on the join really built",
    options,
    run,
)
