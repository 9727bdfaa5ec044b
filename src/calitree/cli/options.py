"""Options of commands, of which several have most."""

from __future__ import annotations

from typing import Annotated

import typer

ENGINE = "Who computes: hybrid, spark or local; hybrid if PySpark is installed, else local."

Tree = Annotated[str, typer.Argument(help="The directory (or URL) of a saved tree.")]
EngineName = Annotated[str | None, typer.Option(help=ENGINE)]
Version = Annotated[int | None, typer.Option(help="An older version of the tree.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="A directory or URL outside of the tree, or a Spark table, that may be read although "
        "somebody else has saved the tree. Repeatable."
    ),
]
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
