"""The queries of TPC-H, run on an engine; and the page that lists them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.tpcds_data import generator
from calitree import JoinGraph
from tests.support.tpch.one_question import ONE_QUESTION
from tests.support.tpch.several_questions import SEVERAL_QUESTIONS
from tests.support.tpch.steps import SECOND_NAMES, Asked, Step
from tests.support.tpch.texts import OFFICIAL

SCALE = "0.05"
"""At less, some queries are about nothing."""

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
ASKED: dict[int, Asked] = dict(sorted((ONE_QUESTION | SEVERAL_QUESTIONS).items()))

Row = dict[str, Any]


def generate(directory: Path, scale: str = SCALE) -> None:
    """All tables as files."""
    command = [generator(), "tpch", "parquet", "--scale-factor", scale, "--quiet"]
    subprocess.run([*command, "--output-dir", str(directory)], check=True)


def connect(directory: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB, with the tables as views."""
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{directory}/{name}.parquet'")
    return connection


def expected(sql: duckdb.DuckDBPyConnection, text: str) -> list[Row]:
    """What DuckDB answers."""
    answer = sql.execute(text)
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def answers(number: int, directory: Path, engine: Any) -> Iterator[tuple[str, list[Row]]]:
    """For each step, what DuckDB is asked, and what the tree answers; the last one in order."""
    asked, before = ASKED[number], dict[str, Any]()
    for step in asked.steps:
        result = answer(step, directory, engine, before)
        if step is asked.steps[-1]:
            yield OFFICIAL[number], ordered(result.rows(), asked)
        else:
            before[step.name] = result.arrow()
            yield step.sql, result.rows()


def answer(step: Step, directory: Path, engine: Any, before: Mapping[str, Any]) -> Any:
    graph = JoinGraph(engine)
    for name in step.relations:
        path = directory / f"{SECOND_NAMES.get(name, name)}.parquet"
        graph.add_relation(name, before[name] if name in before else str(path))
    for join in step.joins:
        graph.add_join(join.left, join.right, join.on, how=join.how, condition=join.condition)
    wide = graph.calibrate(step.measures, progress=False)
    result = wide.query(step.group_by, step.where)
    return result if step.having is None else result.having(step.having)


def ordered(rows: list[Row], asked: Asked) -> list[Row]:
    """Rows in the order that the query asks for, and no more than it limits them to."""
    for column in reversed(asked.order):
        rows = sorted(rows, key=lambda row: row[column.lstrip("-")], reverse=column[0] == "-")
    return rows[: asked.limit]


def page_table() -> list[str]:
    """The lines of the table in `docs/tpch.md`."""
    lines = ["| query | held | joined | asked | how |", "| --- | --- | --- | --- | --- |"]
    for number, asked in ASKED.items():
        steps = len(asked.steps)
        held = "in one question" if steps == 1 else f"in {steps} questions"
        joined = dict.fromkeys(map(_joined, asked.steps))
        texts = "; ".join(map(_text, asked.steps))
        lines.append(f"| Q{number} | {held} | {'; '.join(joined)} | {texts} | {asked.how} |")
    return lines


def _joined(step: Step) -> str:
    left = {join.right for join in step.joins if join.how == "left"}
    first, *others = step.relations
    return first + "".join(f" {'⟕' if name in left else '⋈'} {name}" for name in others)


def _text(step: Step) -> str:
    measures = ", ".join(f"`{text}`" for text in step.measures.values())
    groups = ", ".join(f"`{text}`" for text in step.group_by.values())
    having = f" having `{step.having}`" if step.having else ""
    return f"{f'*{step.name}*: ' if step.name else ''}{measures}{groups and ' by '}{groups}{having}"
