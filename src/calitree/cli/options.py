"""Options of commands, of which several have most, and the engine that they choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from calitree.engines.spark.session import spark_session
from calitree.engines.spark.session.launch import LOCAL
from calitree.errors import EngineError

ENGINE = "Who computes: hybrid, spark or local; hybrid if PySpark is installed, else local."

Model = Annotated[
    Path, typer.Argument(help="A TOML file of relations, joins and measures.", dir_okay=False)
]
Tree = Annotated[str, typer.Argument(help="The directory (or URL) of a saved tree.")]
EngineName = Annotated[str | None, typer.Option(help=ENGINE)]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs, such as local[4] or spark://host:7077.")
]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server, such as sc://host.")]
Version = Annotated[int | None, typer.Option(help="An older version of the tree.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="A directory or URL outside of the tree, or a Spark table, that may be read although "
        "somebody else has saved the tree. Repeatable."
    ),
]
Format = Annotated[str, typer.Option("--format", "-f", help="One of table, csv, json, parquet.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
]
Compare = Annotated[
    str | None,
    typer.Option(
        metavar="PERIOD", help="Beside each group the same a period earlier, such as '1 year'."
    ),
]
Running = Annotated[
    bool,
    typer.Option("--cumulative", help="Beside each measure the one of all rows up to this group."),
]
Share = Annotated[bool, typer.Option("--share", help="Beside each measure its share of the total.")]
Grace = Annotated[
    float,
    typer.Option(
        min=0, help="Minutes for which files stay whose version was dropped, or that have none."
    ),
]
InProcess = Annotated[
    int | None,
    typer.Option(
        min=0, help="Megabytes that a relation may have to be held by this process. [default: 256]"
    ),
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Megabytes that the tree may keep to use again, now and where it is opened. "
        "[default: a quarter of the memory]",
    ),
]


def chosen_engine(
    name: str | None, master: str | None, remote: str | None, in_process: int | None
) -> Any:
    """What `JoinGraph` takes; with a master or a server, an engine with a session there."""
    if master is None and remote is None and in_process is None:
        return name
    from calitree.engines.hybrid import HybridEngine
    from calitree.engines.hybrid.routing import Limits
    from calitree.engines.spark.engine import SparkEngine

    if name not in (None, "hybrid", "spark"):
        raise EngineError(f"--master, --remote and --in-process are not for the {name} engine.")
    if master is not None and remote is not None:
        raise EngineError("--master and --remote both say where Spark is; give one of them.")
    elsewhere = master is not None or remote is not None
    session = spark_session(master or LOCAL, remote=remote) if elsewhere else None
    if name == "spark":
        return SparkEngine(session)
    limit = Limits().in_process if in_process is None else in_process << 20
    return HybridEngine(session, in_process=limit)
