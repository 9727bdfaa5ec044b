"""The command that asks a saved tree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from calitree.apps.select.sql import sql
from calitree.cli.formats import check_format, write
from calitree.cli.options import (
    Allow,
    Compare,
    EngineName,
    Format,
    Output,
    Running,
    Share,
    Tree,
    Version,
    chosen_engine,
)
from calitree.cli.questions import beside, groups, measures
from calitree.cli.streams import show
from calitree.errors import QueryError
from calitree.join_graph import open_tree
from calitree.progress import notice
from calitree.wide_table import WideTable

Statement = Annotated[
    str | None, typer.Argument(help="A SELECT, in place of options; `-` for standard input.")
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", "-b", help="A column or expression to group by, or name=EXPRESSION. Repeatable."
    ),
]
Where = Annotated[str | None, typer.Option("--where", "-w", help="An SQL condition.")]
Measure = Annotated[
    list[str] | None,
    typer.Option("--measure", "-m", help="A measure's name, or name=EXPRESSION. Repeatable."),
]
Relation = Annotated[list[str] | None, typer.Option(help="Join only these relations. Repeatable.")]
PlanOnly = Annotated[
    bool, typer.Option("--plan", help="Show what would be reused and computed, only.")
]
LocalMaster = Annotated[str | None, typer.Option(help="Where Spark runs, if it is needed.")]


def query(
    tree: Tree,
    statement: Statement = None,
    by: By = None,
    where: Where = None,
    measure: Measure = None,
    relation: Relation = None,
    compare: Compare = None,
    cumulative: Running = False,
    share: Share = False,
    form: Format = "table",
    output: Output = None,
    plan: PlanOnly = False,
    engine: EngineName = None,
    master: LocalMaster = None,
    version: Version = None,
    allow: Allow = None,
) -> None:
    """Ask a saved tree: groups, filters and measures, or SQL.

    \b
        calitree query tree "SELECT city, MEASURE(revenue) AS r FROM wide GROUP BY 1 ORDER BY r DESC"
        calitree query tree --by stores.city --where "family = 'DAIRY'"
        calitree query tree --by family -m revenue -m "dearest=max(price)"
        calitree query tree --by "month=month(day)" --format csv --output months.csv
        calitree query tree --by "month(day)" --where "year(day) = 2013" --compare "1 year"

    \b
    table    aligned text; fractions have six digits
    csv      with a header; NULL is empty, an empty text is two quotes
    json     an object a line; decimals, dates and times are text
    parquet  with --output only
    """
    check_format(form, output)
    others = (by, where, measure, relation, compare, cumulative, share)
    if statement is not None and any(others):
        raise QueryError("A statement says all that it asks; leave the options for questions out.")
    wide = open_tree(tree, chosen_engine(engine, master, None, None), version, allow=allow)
    if statement is not None:
        _answer(wide, statement, plan, form, output)
        return
    asked: dict[str, Any] = {
        "group_by": groups(by or (), wide.schema),
        "where": where,
        "measures": measures(measure, wide.measures),
        "relations": relation or None,
    }
    if plan:
        show(str(wide.plan(**asked)))
        return
    result = wide.query(**asked)
    write(beside(result, compare, cumulative, share), form, output)
    for warning in wide.plan(**asked).warnings:
        notice(warning)
    if not result.exact:
        notice("sums did not fit 38 digits, and went on as floating point")


def _answer(wide: WideTable, statement: str, plan: bool, form: str, output: Path | None) -> None:
    """Answer a statement."""
    text = sys.stdin.read() if statement == "-" else statement
    if plan:
        show("\n".join(row["plan"] for row in sql(wide, f"EXPLAIN {text}").rows()))
        return
    write(sql(wide, text), form, output)
