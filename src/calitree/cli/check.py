"""The command that checks the joins of a model file."""

from __future__ import annotations

from typing import Annotated

import typer

from calitree.cli.formats import json_line
from calitree.cli.model import ModelFile
from calitree.cli.options import EngineName, InProcess, Master, Model, Remote, chosen_engine
from calitree.cli.streams import show, show_data
from calitree.errors import QueryError, did_you_mean
from calitree.integrity.report import check_severity

FORMATS = ("table", "json")


def check(
    model: Model,
    fail_on: Annotated[
        str, typer.Option(help="The least severity that is a failure: remark, warning or error.")
    ] = "warning",
    form: Annotated[str, typer.Option("--format", "-f", help="One of table, json.")] = "table",
    engine: EngineName = None,
    master: Master = None,
    remote: Remote = None,
    in_process: InProcess = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show nothing; the exit status tells.")
    ] = False,
) -> None:
    """Look for flaws in the joins of a model file.

    For each join: rows and keys that have no partner on the other side, NULL keys, keys that repeat on
    both sides, how many partners a row has, types and spellings that hardly match. Of the whole: relations
    that join nothing, columns that cannot be used, joins that close a cycle. Nothing is joined or saved.

    \b
    remark   worth knowing
    warning  rows are lost or repeated that are hardly meant to be
    error    nothing can come of it

    Exit status 1 if anything is as severe as --fail-on says.
    """
    check_severity(fail_on)
    if form not in FORMATS:
        raise QueryError(f"There is no format {form!r}.{did_you_mean(form, FORMATS)}")
    graph = ModelFile.read(model).graph(chosen_engine(engine, master, remote, in_process))
    checked = graph.check(False if quiet else None)
    if form == "json" and not quiet:
        show_data(json_line(checked.as_dict()))
    elif not quiet:
        show(str(checked))
    if checked.at_least(fail_on):
        raise typer.Exit(1)
