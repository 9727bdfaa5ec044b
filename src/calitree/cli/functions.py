"""The command that lists the scalar functions, from the table that defines them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from calitree.cli.formats import json_line
from calitree.cli.streams import show, show_data
from calitree.errors import QueryError, did_you_mean
from calitree.sql.functions import FAMILIES
from calitree.sql.functions.function import Function

FORMATS = ("table", "json")


@dataclass(frozen=True)
class Listed:
    """What the list tells of one function."""

    family: str
    usage: str
    about: str
    result: str
    nulls: str
    kernel: str | None
    spark: str | None


def listed() -> Iterator[Listed]:
    """All functions that have a spelling."""
    for family, functions in FAMILIES.items():
        for function in functions.values():
            if function.usage:
                yield _listed(family, function)


def _listed(family: str, function: Function) -> Listed:
    strict = function.strict and function.kernel
    return Listed(
        family,
        function.usage,
        function.about,
        result=function.result.value if function.result else "as its arguments",
        nulls="NULL if an argument is NULL" if strict else "its own rule",
        kernel=function.kernel or None,
        spark=function.spark if isinstance(function.spark, str) else None,
    )


def functions(
    search: Annotated[str, typer.Argument(help="Only those in whose lines this stands.")] = "",
    form: Annotated[str, typer.Option("--format", "-f", help="One of table, json.")] = "table",
) -> None:
    """List the functions and operators of SQL texts.

    They mean what they mean in DuckDB, on every engine; docs/semantics.md lists what differs. With
    --format json also the kernel, the rule for NULL, and the text for Spark where it is another.
    """
    if form not in FORMATS:
        raise QueryError(f"There is no format {form!r}.{did_you_mean(form, FORMATS)}")
    chosen = [row for row in listed() if search.lower() in f"{row.usage} {row.about}".lower()]
    if form == "json":
        show_data(json_line([asdict(row) for row in chosen]))
        return
    if not chosen:
        raise QueryError(f"No function is about {search!r}; `calitree functions` lists all.")
    family = None
    for row in chosen:
        if row.family != family:
            show(f"\n{row.family}" if family else row.family)
            family = row.family
        show(f"  {row.usage}\n      {row.about} ({row.result})")
