"""A statement, taken apart: what each SELECT over the graph asks of the tree, and what is left of it.

Every SELECT over the graph becomes one over a table with its answer. CTEs, queries in FROM, UNION and scalar
sub-queries need no case of their own: what is left is a statement over tables, which DuckDB runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.apps.select.block import Direct, SelectBlock, names_of
from calitree.apps.select.grammar import own_parts, refused
from calitree.apps.select.parameters import literal_of
from calitree.apps.select.rewriting import AnswerRewriter, OverAnswers
from calitree.apps.select.sources.merging import lists_rows, with_merged
from calitree.apps.select.sources.source import source_of
from calitree.jointree.schema import Schema
from calitree.query.binder import MeasureLike

if TYPE_CHECKING:
    import pyarrow as pa

MAX_VALUES = 1_000_000
"""Of a query in WHERE, which is answered first."""

Answered = Callable[[exp.Query], "pa.Table"]
"""Answers a query by itself."""


class Statement:
    """Takes one statement apart.

    Queries in WHERE are answered on the way, as their values are part of a question.
    """

    def __init__(
        self, schema: Schema, known: Mapping[str, MeasureLike], answered: Answered
    ) -> None:
        self.schema, self.known, self.answered = schema, known, answered
        self.asked: dict[str, OverAnswers] = {}
        """By the names of the tables that have the answers."""
        self.blocks: list[SelectBlock] = []

    def direct(self, query: exp.Query) -> Direct | None:
        """The statement as one question, if that is all it is."""
        if not isinstance(query, exp.Select) or query.args.get("with_") is not None:
            return None
        if any(part is not query and isinstance(part, exp.Query) for part in query.walk()):
            return None  # those in WHERE are answered first, and may be others next time
        block = self._block(with_merged(query.copy()), ())
        return None if block is None else block.direct()

    def rewritten(self, query: exp.Query, tables: Collection[str] = ()) -> exp.Query:
        """What is left of a query, in which these tables may be named besides."""
        names = set(tables)
        with_ = query.args.get("with_")
        if with_ is not None:
            self._rewrite_ctes(query, with_, names)
        if isinstance(query, exp.Select):
            return self._select(query, names)
        if isinstance(query, exp.SetOperation):
            for side in ("this", "expression"):
                query.set(side, self.rewritten(query.args[side], names))
        elif isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query):
            query.set("this", self.rewritten(query.this, names))
        return query

    def _rewrite_ctes(self, query: exp.Query, with_: exp.With, names: set[str]) -> None:
        """Rewrite the queries of WITH; one that only lists rows is put where it is named."""
        for cte in list(with_.expressions):
            name = cte.alias.lower()
            if lists_rows(cte.this) and not with_.args.get("recursive"):
                for table in list(query.find_all(exp.Table)):
                    if table.name.lower() == name and not table.args.get("db"):
                        alias = exp.TableAlias(
                            this=exp.to_identifier(table.alias_or_name),
                            columns=cte.args["alias"].columns,
                        )
                        table.replace(exp.Subquery(this=cte.this.copy(), alias=alias))
                cte.pop()
                continue
            if with_.args.get("recursive"):
                names.add(name)
            cte.set("this", self.rewritten(cte.this, names))
            names.add(name)
        if not with_.expressions:
            query.set("with_", None)

    def _select(self, query: exp.Select, names: Collection[str]) -> exp.Select:
        block = self._block(with_merged(query), names)
        if block is None:
            rest = query
        else:
            name = f"answer {len(self.asked)}"
            self.asked[name] = over = AnswerRewriter(block).over(name)
            rest = over.select
            if query.args.get("with_") is not None:
                rest.set("with_", query.args["with_"])
        for part in list(own_parts(rest)):
            if part is not rest and isinstance(part, exp.Query) and part.parent is not None:
                part.replace(self.rewritten(part, names))
        return rest

    def _block(self, select: exp.Select, names: Collection[str]) -> SelectBlock | None:
        """A SELECT over the graph; None if it is about other tables."""
        columns = names_of(select)
        source = source_of(select, self.schema, (*names, *self.asked))
        if source is None:
            return None
        filters = [self._without_queries(node, names) for node in source.filters]
        self.blocks.append(
            SelectBlock(self.schema, self.known, select, source._replace(filters=filters), columns)
        )
        return self.blocks[-1]

    def _without_queries(self, condition: exp.Expr, names: Collection[str]) -> exp.Expr:
        """A condition of WHERE with values in place of its queries."""
        whole = exp.Paren(this=condition.copy())  # so that all parts have a parent
        for part in list(own_parts(whole)):
            if not isinstance(part, exp.Query):
                continue
            parent = part.parent
            inner = part.this if isinstance(part, exp.Subquery) else part
            if isinstance(parent, exp.In | exp.Exists) and lists_rows(inner):
                inner.set("distinct", exp.Distinct())  # how often a value is there does not matter
            values = self._values(part, names)
            if isinstance(parent, exp.Exists):
                parent.replace(exp.true() if values else exp.false())
            elif isinstance(parent, exp.In) and not values:
                parent.replace(exp.false())
            elif isinstance(parent, exp.In):
                parent.set("query", None)
                parent.set("expressions", [literal_of(value, "A value") for value in values])
            elif len(values) > 1:
                raise refused("queries", "A query in a condition has several rows.", part)
            else:
                part.replace(exp.paren(literal_of(values[0] if values else None, "A value")))
        result: exp.Expr = whole.this
        return result

    def _values(self, query: exp.Query, names: Collection[str]) -> list[Any]:
        """The values of a query of one column."""
        for table in query.find_all(exp.Table):
            if table.name.lower() in names:
                raise refused("queries", "A query in WHERE cannot read those of WITH.", table)
        answer = self.answered(query.copy())
        if answer.num_columns != 1:
            raise refused("queries", "A query in a condition has one column.", query)
        if answer.num_rows > MAX_VALUES:
            raise refused("queries", f"A query in a condition has over {MAX_VALUES:,} rows.", query)
        return list(answer.column(0).to_pylist())
