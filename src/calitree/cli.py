"""The command line: a thin layer over the package."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="Interactive analytics over the join of many tables, without ever building that join.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    engine: Annotated[str, typer.Option(help="Who computes: spark, local or reference.")] = "spark",
) -> None:
    """Calibrate a year of New York flights, ask eight delta queries, and check each answer.

    Exit status 1 if any answer differs from that of the join really built.
    """
    from calitree.demo import run

    if not run(engine):
        raise typer.Exit(1)


@app.command()
def warm_up() -> None:
    """Compile the local engine for this machine now, not when it is first used.

    This takes some ten seconds, once for each version; if nothing is left to compile, a second or two.
    """
    from calitree.warm import warm_up as compile_all

    compile_all()


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
