"""The command that lists functions and aggregates, from the tables that define them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from calitree.cli.formats import json_line
from calitree.cli.streams import show, show_data
from calitree.errors import QueryError, did_you_mean
from calitree.query.measure import FUNCTIONS as AGGREGATES
from calitree.sql.functions import ALIASES, FAMILIES
from calitree.sql.functions.function import Function

FORMATS = ("table", "json")


@dataclass(frozen=True)
class Listed:
    """What the list tells of one function."""

    family: str
    usage: str
    about: str
    result: str | None = None
    nulls: str | None = None
    kernel: str | None = None
    spark: str | None = None


def listed() -> Iterator[Listed]:
    """All functions that have a spelling, and all aggregates."""
    for family, functions in FAMILIES.items():
        for key, function in functions.items():
            if function.usage:
                names = (alias.lower() for alias, name in ALIASES.items() if name == key)
                yield _listed(family, function, "".join(f"; also {name}" for name in names))
    for aggregate in AGGREGATES:
        yield Listed("aggregates, of measures", aggregate.usage, aggregate.about)


def _listed(family: str, function: Function, names: str) -> Listed:
    strict = function.strict and function.kernel
    return Listed(
        family,
        function.usage,
        function.about + names,
        result=function.result.value if function.result else "as its arguments",
        nulls="NULL if an argument is NULL" if strict else "its own rule",
        kernel=function.kernel or None,
        spark=function.spark if isinstance(function.spark, str) else None,
    )


def functions(
    search: Annotated[str, typer.Argument(help="Only those in whose lines this stands.")] = "",
    form: Annotated[str, typer.Option("--format", "-f", help="One of table, json.")] = "table",
) -> None:
    """List the functions, operators and aggregates of SQL texts.

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
        result = f" ({row.result})" if row.result else ""
        show(f"  {row.usage}\n      {row.about}{result}")
