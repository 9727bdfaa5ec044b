"""The command line: a thin layer over the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from calitree.result import Result

app = typer.Typer(
    help="Interactive analytics over the join of many tables, without ever building that join.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

FORMATS = ("table", "csv", "json", "parquet")
ENGINE = "Who computes: hybrid, spark or local; hybrid if Spark is installed."


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from calitree import __version__

        typer.echo(f"calitree {__version__}")
        raise typer.Exit


@app.command()
def demo(
    engine: Annotated[
        str, typer.Option(help="Who computes: hybrid, spark, local or reference.")
    ] = "hybrid",
) -> None:
    """Calibrate a year of New York flights, ask eight delta queries, and check each answer.

    Exit status 1 if any answer differs from that of the join really built.
    """
    from calitree.demo import run

    if not run(engine):
        raise typer.Exit(1)


@app.command()
def calibrate(
    model: Annotated[
        Path, typer.Argument(help="A TOML file of relations, joins and measures.", dir_okay=False)
    ],
    out: Annotated[str, typer.Option(help="The directory (or URL) to save the tree in.")],
    engine: Annotated[str | None, typer.Option(help=ENGINE)] = None,
    master: Annotated[
        str | None, typer.Option(help="Where Spark runs, such as local[4] or spark://host:7077.")
    ] = None,
    remote: Annotated[
        str | None, typer.Option(help="A Spark Connect server, such as sc://host.")
    ] = None,
    in_process: Annotated[
        int | None,
        typer.Option(help="Megabytes of a relation that are still read by this process."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Calibrate the tree of a model file and save it.

    \b
        [relations]
        sales = "sales/*.parquet"
        stores = "stores.parquet"
        [[joins]]
        left = "sales"
        right = "stores"
        on = "store_nbr"
        [measures]
        n = "count(*)"
        revenue = "sum(sales.price)"
    """
    from calitree.model import Model

    chosen = _engine(engine, master, remote, in_process)
    wide = Model.read(model).calibrate(chosen, progress=False if quiet else None)
    version = wide.save(out)
    if not quiet:
        typer.echo(str(wide.calibration), err=True)
        typer.echo(f"Saved to {out}, version {version}.", err=True)


@app.command()
def query(
    tree: Annotated[str, typer.Argument(help="The directory (or URL) of a saved tree.")],
    by: Annotated[
        list[str] | None, typer.Option("--by", "-b", help="A column to group by. Repeatable.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", "-w", help="An SQL condition.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="A measure's name, or name=EXPRESSION. Repeatable."),
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Join only these relations. Repeatable.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", "-f", help=f"One of {', '.join(FORMATS)}.")
    ] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be reused and computed, only.")
    ] = False,
    engine: Annotated[str | None, typer.Option(help=ENGINE)] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs, if it is needed.")] = None,
    version: Annotated[int | None, typer.Option(help="An older version of the tree.")] = None,
) -> None:
    """Ask a saved tree: other groups, filters and measures than it was calibrated for."""
    from calitree import open as open_tree
    from calitree.errors import QueryError, did_you_mean

    if form not in FORMATS:
        raise QueryError(f"There is no format {form!r}.{did_you_mean(form, FORMATS)}")
    if form == "parquet" and output is None:
        raise QueryError("Parquet goes into a file: say --output FILE.")
    wide = open_tree(tree, _engine(engine, master, None, None), version)
    asked: dict[str, Any] = {
        "group_by": by or (),
        "where": where,
        "measures": _measures(measure, wide.measures),
        "relations": relation or None,
    }
    if plan:
        typer.echo(str(wide.plan(**asked)))
        return
    _write(wide.query(**asked), form, output)


@app.command()
def status(
    tree: Annotated[str, typer.Argument(help="The directory (or URL) of a saved tree.")],
    version: Annotated[int | None, typer.Option(help="An older version of the tree.")] = None,
) -> None:
    """Tell what a saved tree holds: its measures, messages and relations, and what is missing."""
    from calitree.saved import status as status_of

    typer.echo(str(status_of(tree, version)))


@app.command()
def tidy(
    tree: Annotated[str, typer.Argument(help="The directory (or URL) of a saved tree.")],
    keep: Annotated[int, typer.Option(help="How many of the newest versions to keep.")] = 1,
) -> None:
    """Delete the older versions of a saved tree, and what writers left that were killed."""
    from calitree.saved import tidy as tidy_up

    for name in tidy_up(tree, keep):
        typer.echo(f"deleted {name}")


@app.command()
def warm_up() -> None:
    """Compile the local engine for this machine now, not when it is first used.

    This takes some ten seconds, once for each version; if nothing is left to compile, a second or two.
    """
    from calitree.warm import warm_up as compile_all

    compile_all()


def _engine(
    name: str | None, master: str | None, remote: str | None, in_process: int | None
) -> Any:
    """What JoinGraph takes; a master or server makes a session there."""
    if master is None and remote is None and in_process is None:
        return name
    from calitree.engines.hybrid import HybridEngine
    from calitree.engines.routes import Limits
    from calitree.engines.spark import SparkEngine
    from calitree.errors import EngineError
    from calitree.spark_session import LOCAL, spark_session

    if name not in (None, "hybrid", "spark"):
        raise EngineError(f"--master, --remote and --in-process are not for the {name} engine.")
    session = None
    if master is not None or remote is not None:
        session = spark_session(master or LOCAL, remote=remote)
    if name == "spark":
        return SparkEngine(session)
    limit = Limits().in_process if in_process is None else in_process << 20
    return HybridEngine(session, in_process=limit)


def _measures(given: list[str] | None, known: Any) -> Any:
    """Names of the tree's own measures and new ones, in the order they were given."""
    if not given:
        return None
    if not any("=" in each for each in given):
        return given
    found = {}
    for each in given:
        name, mark, text = each.partition("=")
        found[name.strip()] = text.strip() if mark else known.get(name, name)
    return found


def _write(result: Result, form: str, output: Path | None) -> None:
    table = result.arrow()
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, output)
        return
    if form == "csv":
        import pyarrow as pa
        from pyarrow import csv

        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink)
        text = sink.getvalue().to_pybytes().decode()
    elif form == "json":
        import json

        text = "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())
    else:
        text = f"{result.text()}\n"
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def main() -> None:
    """Run the command line; our own errors are one line on standard error, not a traceback."""
    from calitree.errors import CalitreeError

    try:
        app()
    except CalitreeError as error:
        typer.echo(f"calitree: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("calitree: interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
