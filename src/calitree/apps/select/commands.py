"""Statements that are no queries: EXPLAIN, SHOW and DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from calitree.apps.select.grammar import refused_at
from calitree.apps.select.sources.source import WIDE
from calitree.calibration.planning.plan import Plan
from calitree.errors import shortened
from calitree.jointree.schema import Schema, find_name
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa

Explain = Callable[[str, bool], Plan]
"""The plan of a statement, which is run or not."""
Command = Callable[[WideTable, Explain], "pa.Table"]

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\s+(.*)", re.IGNORECASE | re.DOTALL)
_SHOW = re.compile(r"\s*show\s+(\w+)\s*;?\s*", re.IGNORECASE)
_DESCRIBE = re.compile(r"\s*(?:describe|desc)\s+(\"[^\"]+\"|\w+)\s*;?\s*", re.IGNORECASE)


def _listed(names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    titles, values = list(names), list(rows)
    columns = zip(*values, strict=True) if values else ([] for _ in titles)
    return pa.table(dict(zip(titles, map(list, columns), strict=True)))


def command_of(text: object) -> Command | None:
    """What a text commands; None if it is a query."""
    if not isinstance(text, str):
        return None
    explain = _EXPLAIN.fullmatch(text)
    if explain is not None:
        # What is explained stays where it stands, so that errors tell that.
        before = re.sub(r"\S", " ", text[: explain.start(2)])
        return partial(_explain, before + explain[2], explain[1] is not None)
    show = _SHOW.fullmatch(text)
    if show is not None:
        return partial(_show, show)
    describe = _DESCRIBE.fullmatch(text)
    return None if describe is None else partial(_describe, describe)


def _explain(text: str, run: bool, wide: WideTable, explain: Explain) -> pa.Table:
    return _listed(["plan"], [(line,) for line in str(explain(text, run)).splitlines()])


def _show(given: re.Match[str], wide: WideTable, explain: Explain) -> pa.Table:
    schema, what = wide.schema, given[1].lower()
    if what == "tables":
        rows = [(name, schema.rows(name)) for name in _relations(schema)]
        return _listed(["name", "rows"], [*rows, (WIDE, None)])
    if what == "measures":
        texts = (getattr(given, "text", given) for given in wide.measures.values())
        return _listed(["name", "measure"], zip(wide.measures, map(str, texts), strict=True))
    wrong = f"SHOW is of TABLES or MEASURES; got {shortened(what)}."
    raise refused_at("statement", wrong, given.string, given.start(1))


def _describe(given: re.Match[str], wide: WideTable, explain: Explain) -> pa.Table:
    schema, table = wide.schema, given[1].strip('"')
    relation = find_name(table, _relations(schema))
    if relation is None and table.lower() != WIDE:
        missing = f"There is no table {shortened(table)}."
        raise refused_at("tables", missing, given.string, given.start(1))
    return _listed(
        ["table", "column", "type"],
        [
            (name, column, kind.value)
            for name in (_relations(schema) if relation is None else [relation])
            for column, kind in schema.relations[name].columns.items()
        ],
    )


def _relations(schema: Schema) -> list[str]:
    return [name for name in schema.relations if name not in schema.matches]
