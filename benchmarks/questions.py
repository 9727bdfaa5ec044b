"""Questions on the star, each in two forms: for a calibrated tree, and as SQL on the plain join.

The messages of a tree are written as SQL too, so that another engine can be asked for the same ones
in the way that is best for it: from one relation and the messages before it, not from the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from benchmarks.compare import Answer, Answers
from benchmarks.data import JOINS, RELATIONS
from calitree import Hypertree, JoinGraph, Result, WideTable
from calitree.query.annotation import COUNT, Aggregate

MEASURES = {"n": "count(*)", "units": "sum(sales.unit_sales)"}


def keeping_no_messages(wide: WideTable) -> WideTable:
    """A tree that keeps no message of one question for the next, but all else that it keeps."""
    wide.state.store.memory_limit = 0
    return wide


@dataclass(frozen=True)
class Question:
    """What `WideTable.query` takes, under a name to report it by."""

    name: str
    group_by: tuple[str, ...] = ()
    where: str | None = None
    measures: tuple[tuple[str, str], ...] | None = None
    relations: tuple[str, ...] = RELATIONS

    def ask(self, wide: WideTable) -> Result:
        return wide.query(
            group_by=self.group_by,
            where=self.where,
            measures=None if self.measures is None else dict(self.measures),
            relations=None if self.relations == RELATIONS else self.relations,
        )

    @property
    def sql(self) -> str:
        measures = MEASURES.items() if self.measures is None else self.measures
        selected = [*self.group_by, *(f"{text} AS {name}" for name, text in measures)]
        joins = [
            f"JOIN {r} USING ({', '.join(on)})" for r, on in JOINS.items() if r in self.relations
        ]
        parts = [f"SELECT {', '.join(selected)} FROM sales", *joins]
        if self.where:
            parts.append(f"WHERE {self.where}")
        if self.group_by:
            parts.append(f"GROUP BY {', '.join(self.group_by)}")
        return " ".join(parts)

    def answers(self, table: pa.Table) -> Answers:
        return {self.name: Answer(table, len(self.group_by))}


TOTAL = Question("total")
ONE_PER_DIMENSION = (
    Question("by price", ("oil.price",)),
    Question("by holiday", ("holiday.type",)),
    Question("by transactions", ("transactions.transactions",)),
    Question("by city", ("stores.city",)),
    Question("by family", ("items.family",)),
)


def star_graph(sources: Mapping[str, Path | Any], engine: Any) -> JoinGraph:
    """The star over files, Arrow tables or Spark frames."""
    graph = JoinGraph(engine=engine)
    for name in RELATIONS:
        source = sources[name]
        graph.add_relation(name, str(source) if isinstance(source, Path) else source)
    for name, columns in JOINS.items():
        graph.add_join("sales", name, on=columns)
    return graph


def message_name(source: str, target: str) -> str:
    return f"{source}_to_{target}"


def message_queries(tree: Hypertree) -> Iterator[tuple[str, str]]:
    """The pivot's messages in both directions: the name of a table and the query that makes it."""
    upward = tree.upward("sales")
    for source, target in [*upward, *((v, u) for u, v in reversed(upward))]:
        keys = separator(tree, source, target)
        incoming = [n for n in tree.neighbours(source) if n != target]
        counts = {n: f"{message_name(n, source)}.n" for n in incoming}
        joins = [
            f"JOIN {message_name(n, source)} USING ({', '.join(separator(tree, n, source))})"
            for n in incoming
        ]
        product = " * ".join(counts.values())
        n = f"CAST(sum({product}) AS BIGINT)" if incoming else "count(*)"
        columns = [*(f"{source}.{key}" for key in keys), f"{n} AS n"]
        if "sales" in tree.subtree(source, target):
            units = _units(source, counts, tree)
            columns.append(f"sum({units}) AS units")
        select = f"SELECT {', '.join(columns)} FROM {source} {' '.join(joins)}"
        by = ", ".join(f"{source}.{key}" for key in keys)
        yield message_name(source, target), f"{select} GROUP BY {by}"


def _units(source: str, counts: Mapping[str, str], tree: Hypertree) -> str:
    """Where the units come from, times how often everything else repeats them."""
    if source == "sales":
        return " * ".join(["sales.unit_sales", *counts.values()])
    near = next(n for n in counts if "sales" in tree.subtree(n, source))
    others = [count for n, count in counts.items() if n != near]
    return " * ".join([f"{message_name(near, source)}.units", *others])


def separator(tree: Hypertree, source: str, target: str) -> list[str]:
    """The columns that two neighbours share; in the star they have the same names in both."""
    shared = tree.bag(source).attributes & tree.bag(target).attributes
    return sorted(attribute.split(".")[1] for attribute in shared)


def messages_of(wide: WideTable) -> Answers:
    """All messages that a calibrated tree keeps, in the form of `message_queries`."""
    answers: dict[str, Answer] = {}
    for message in wide.state.store.pinned:
        source, target = message.key.source, message.key.target
        table = wide.engine.arrow(message.table)
        keys = {name.split(".")[1]: name for name in table.column_names if "." in name}
        lifted = [name for aggregate, name in message.columns.items() if _is_units(aggregate)]
        order = [*(keys[k] for k in separator(wide.tree, source, target)), message.columns[COUNT]]
        answers[message_name(source, target)] = Answer(table.select(order + lifted), len(keys))
    return answers


def _is_units(aggregate: Aggregate) -> bool:
    """Whether it sums a column as it stands, and does not count where it is not NULL."""
    lifted = [expression.node for lift in aggregate.lifts for expression in lift.expressions]
    return len(lifted) == 1 and isinstance(lifted[0], exp.Column)


def together(questions: Sequence[Question], tables: Sequence[pa.Table]) -> Answers:
    """The answers to several questions as one."""
    answers: dict[str, Answer] = {}
    for question, table in zip(questions, tables, strict=True):
        answers |= question.answers(table)
    return answers
