"""The command line, a thin layer over the package."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from calitree.apps.verify import Verification
from calitree.cli.check import check
from calitree.cli.functions import functions
from calitree.cli.model import ModelFile
from calitree.cli.options import (
    Allow,
    EngineName,
    Grace,
    InProcess,
    Master,
    MemoryLimit,
    Model,
    Remote,
    Tree,
    Version,
    chosen_engine,
)
from calitree.cli.query import query
from calitree.cli.streams import arguments, failed, prepare, show, tell
from calitree.engines.spark.session.startup import warm_up as archive_classes
from calitree.errors import CalitreeError
from calitree.join_graph import open_tree
from calitree.progress import notice
from calitree.saved import fsck as check_files
from calitree.saved import status as status_of
from calitree.saved import vacuum as vacuum_tree
from calitree.saved.directory import Directory
from calitree.saved.manifest import MANIFESTS
from calitree.version import __version__


class Commands(TyperGroup):
    """All commands: our own errors are one line on standard error, not a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except CalitreeError as error:
            if ctx.params.get("trace"):
                tell(traceback.format_exc())
            notice(str(error))
            raise typer.Exit(2) from error
        except OSError as error:
            if ctx.params.get("trace"):
                tell(traceback.format_exc())
            raise typer.Exit(failed(error)) from error
        except KeyboardInterrupt as error:
            notice("interrupted")
            raise typer.Exit(130) from error


app = typer.Typer(
    cls=Commands,
    help="Interactive analytics over the join of many tables, without ever building that join.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # in rich's, [relations] would be a colour
    context_settings={"max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Tell of an error also where it came from, in full.")
    ] = False,
) -> None:
    """Options that come before the command."""
    if version:
        show(f"calitree {__version__}")
        raise typer.Exit


@app.command()
def demo(
    engine: Annotated[
        str, typer.Option(help="Who computes: hybrid, spark, local or reference.")
    ] = "hybrid",
) -> None:
    """Calibrate a year of flights, ask nine delta queries, check them.

    Exit status 1 if any answer differs from that of the join really built.
    """
    from calitree.cli.demo import run

    if not run(engine):
        raise typer.Exit(1)


@app.command()
def calibrate(
    model: Model,
    out: Annotated[str, typer.Option(help="The directory (or URL) to save the tree in.")],
    engine: EngineName = None,
    master: Master = None,
    remote: Remote = None,
    in_process: InProcess = None,
    memory_limit: MemoryLimit = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Calibrate the tree of a model file and save it.

    What a cluster needs is in docs/cluster.md.

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
    given = ModelFile.read(model)
    graph = given.graph(chosen_engine(engine, master, remote, in_process))
    # Where nothing can be saved, that is better known before long work than after it.
    Directory(out).make(MANIFESTS)
    limit = None if memory_limit is None else memory_limit << 20
    wide = given.calibrate(graph, False if quiet else None, limit)
    version = wide.save(out)
    if not quiet:
        tell(str(wide.calibration))
        tell(f"Saved to {out}, version {version}.")


app.command()(check)
app.command()(functions)
app.command()(query)


@app.command()
def verify(
    tree: Tree, engine: EngineName = None, version: Version = None, allow: Allow = None
) -> None:
    """Ask a saved tree, and the join really built, and compare.

    It says who built the join, and whether it was asked in the texts as given. Exit status 1 if any
    answer differs.
    """
    checked: Verification = open_tree(tree, engine, version, allow=allow).verify()
    show(str(checked))
    if not checked.ok:
        raise typer.Exit(1)


@app.command()
def status(
    tree: Tree,
    version: Version = None,
    allow: Allow = None,
) -> None:
    """Tell what a saved tree holds, and which relations are missing."""
    show(str(status_of(tree, version, allow=allow)))


@app.command()
def fsck(
    tree: Tree,
    all_versions: Annotated[
        bool, typer.Option("--all", help="Check the files of all versions, not of the newest only.")
    ] = False,
    allow: Allow = None,
) -> None:
    """Compare all files of a saved tree with what was written.

    Nothing is changed. Exit status 1 if a file is damaged or missing.
    """
    checked = check_files(tree, all_versions, allow=allow)
    show(str(checked))
    if not checked.ok:
        raise typer.Exit(1)


@app.command()
def vacuum(
    tree: Tree,
    keep: Annotated[int, typer.Option(help="How many of the newest versions to keep.")] = 1,
    grace: Grace = 60,
) -> None:
    """Drop older versions of a saved tree, and files that none needs.

    Who has a version open that is dropped may still read its files for the grace period; a later
    vacuum deletes them. Writers that were killed leave files of no version, and writers at work are
    about to name theirs: with --grace 0 nobody should be saving meanwhile, or reading older versions.
    """
    for name in vacuum_tree(tree, keep, grace):
        show(f"deleted {name}")


@app.command()
def warm_up(
    spark: Annotated[
        bool,
        typer.Option(
            "--spark", help="Also let Spark start in half the time: 200 MB of cache, Java 25."
        ),
    ] = False,
) -> None:
    """Compile the local engine now, not when it is first used.

    This takes some ten seconds, once for each version; if nothing is left to compile, a second or two.
    """
    from calitree.cli.warm import warm_up as compile_all

    place = compile_all()
    if place is None:
        notice("no directory for compiled code can be written to; set NUMBA_CACHE_DIR to one")
        raise typer.Exit(1)
    tell(f"Compiled code is below {place}")
    if spark:
        tell(f"Spark starts from {archive_classes()}")


def main() -> None:
    """Run the command line."""
    # What libraries log as an error they also raise; of Ctrl-C, py4j would log two tracebacks.
    logging.disable(logging.ERROR)
    prepare()
    try:
        app(arguments())
    except OSError as error:  # of --help, say
        sys.exit(failed(error))


if __name__ == "__main__":
    main()
