"""A join graph and a pivot query in a file, for the command line.

[relations]
sales = "data/sales/*.parquet"        # paths are relative to this file
stores = "data/stores.parquet"

[columns]                             # may be left out: columns derived from others
sales.dear = "price > 100"

[[joins]]
left = "sales"
right = "stores"
on = "store_nbr"                      # or ["k1", "k2"], or {left_column = "right_column"}
                                      # condition = "sales.day >= stores.opened" beside or instead of it
                                      # asof = "day", tolerance = "7 days": the latest at or before

[measures]
n = "count(*)"
revenue = "sum(sales.price)"
employees = { text = "sum(stores.employees)", grain = "stores" }   # each store once

[pivot]                               # may be left out
group_by = ["stores.city"]            # or {name = "month(sales.day)"}
where = "sales.price > 0"
"""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calitree.errors import ExpressionError, ModelError, did_you_mean, shortened
from calitree.join_graph import JoinGraph
from calitree.progress import Progress
from calitree.query.grain import GrainMeasure, measure
from calitree.query.groups import GroupBy, kept_groups
from calitree.storage.filesystem import check_path, expanded, is_url
from calitree.storage.listing import looks_like_a_path
from calitree.wide_table import WideTable

SECTIONS = ("relations", "columns", "joins", "measures", "pivot")
JOIN = ("left", "right", "on", "condition", "asof", "tolerance", "how", "nulls")
PIVOT = ("group_by", "where")

MAX_BYTES = 1 << 20
"""Of a model file."""
MAX_KEY_PARTS = 32
"""Names with dots between them; reading takes the square of their number."""
_LONG_KEY = re.compile(
    rb"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){%d}""" % MAX_KEY_PARTS
)


@dataclass(frozen=True)
class ModelFile:
    """The contents of a model file."""

    path: Path
    relations: Mapping[str, Any]
    joins: tuple[Mapping[str, Any], ...]
    measures: Mapping[str, str | GrainMeasure]
    group_by: GroupBy = ()
    where: str | None = None
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By relation, the derived columns and their definitions."""

    @classmethod
    def read(cls, path: str | Path) -> ModelFile:
        """Read and check a model file; errors name the entry that is wrong."""
        path = Path(path)
        check_path(str(path))
        given = _read(path)
        _only(path, "the file", given, SECTIONS)
        relations = _table(path, given, "relations")
        if not relations:
            raise ModelError(f'{path} names no relation: [relations], then name = "path".')
        joins = given.get("joins", [])
        if not isinstance(joins, list) or not all(isinstance(join, dict) for join in joins):
            raise ModelError(f"{path}: each join is a [[joins]] of its own.")
        for number, join in enumerate(joins, 1):
            _only(path, f"join {number}", join, JOIN)
            for key in JOIN[:2] if {"condition", "asof"} & join.keys() else JOIN[:3]:
                if key not in join:
                    raise ModelError(f"{path}: join {number} does not say {key!r}.")
        measures = {
            name: _measure(path, name, entry)
            for name, entry in _table(path, given, "measures").items()
        }
        pivot = _table(path, given, "pivot")
        _only(path, "[pivot]", pivot, PIVOT)
        group_by = pivot.get("group_by", [])
        if not isinstance(group_by, list | dict):
            raise ModelError(f"{path}: group_by is a list of columns, not {group_by!r}.")
        return cls(
            path=path,
            relations=relations,
            joins=tuple(joins),
            measures=measures or {"n": "count(*)"},
            group_by=kept_groups(group_by),
            where=pivot.get("where"),
            columns=_columns(path, _table(path, given, "columns")),
        )

    def graph(self, engine: Any = None) -> JoinGraph:
        """The relations, derived columns and joins."""
        graph = JoinGraph(engine)
        for name, source in self.relations.items():
            graph.add_relation(name, self._located(name, source))
        for relation, columns in self.columns.items():
            for name, expression in columns.items():
                graph.add_column(relation, name, expression)
        for join in self.joins:
            graph.add_join(**join)
        return graph

    def calibrate(
        self,
        graph: JoinGraph,
        progress: Progress | bool | None = None,
        memory_limit: int | None = None,
    ) -> WideTable:
        """Calibrate what `graph` returns, for the pivot."""
        return graph.calibrate(
            self.measures, self.group_by, self.where, memory_limit=memory_limit, progress=progress
        )

    def _located(self, name: str, source: Any) -> Any:
        """A path relative to the model file; a URL or the name of a Spark table as it stands."""
        if isinstance(source, list) and source:
            return [self._located(name, part) for part in source]
        if not isinstance(source, str) or not source:
            raise ModelError(f"{self.path}: relation {name} is a path or a table, not {source!r}.")
        path = expanded(source)
        beside = self.path.parent / path
        there = os.path.exists(beside)  # noqa: PTH110 - a name may be too long for Path.exists
        if is_url(source) or not (looks_like_a_path(source) or there):
            return source
        # Only the path in the file is a pattern; the name of a directory above may look like one.
        return str(beside if there else Path(glob.escape(str(self.path.parent))) / path)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:  # a path with a NUL character
        raise ModelError(f"Cannot read {shortened(str(path))}: {error}.") from None
    if len(content) > MAX_BYTES:
        raise ModelError(
            f"{path} has more than {MAX_BYTES:,} bytes; a model file is a page or two."
        )
    if _LONG_KEY.search(content):
        raise ModelError(f"{path} has a key with more than {MAX_KEY_PARTS} parts.")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ModelError(f"{path} is nested too deeply.") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise ModelError(f"{path} is not TOML: {error}.") from error


def _table(path: Path, given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = given.get(name, {})
    if not isinstance(section, dict):
        raise ModelError(f"{path}: {name} is a section, [{name}], not {section!r}.")
    return section


def _measure(path: Path, name: str, given: Any) -> str | GrainMeasure:
    """SQL text, or `{ text = "sum(employees)", grain = "stores" }`."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict) or not isinstance(given.get("text"), str):
        raise ModelError(f"{path}: measure {name} is SQL text, not {given!r}.")
    _only(path, f"measure {name}", given, ("text", "grain"))
    try:
        return measure(given["text"], given.get("grain"))
    except ExpressionError as error:
        raise ModelError(f"{path}: measure {name}: {error}") from None


def _columns(path: Path, given: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    for relation, columns in given.items():
        if not isinstance(columns, dict):
            raise ModelError(f'{path}: columns are relation.name = "expression", not {columns!r}.')
        for name, text in columns.items():
            if not isinstance(text, str):
                raise ModelError(f"{path}: column {relation}.{name} is SQL text, not {text!r}.")
    return given


def _only(path: Path, where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known) or f" It may have {', '.join(known)}."
            raise ModelError(f"{path}: {where} has {key!r}, which means nothing.{hint}")
