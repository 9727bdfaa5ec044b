"""One join, really built, and the questions that are put to it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from calitree.apps.verify.plain import (
    DuckDB,
    SqlRunner,
    attributes_of,
    grains_of,
    query_sql,
    wide_sql,
)
from calitree.apps.verify.verbatim import Verbatim, scope_sql, verbatim
from calitree.engines.api.contraction import Table
from calitree.errors import EngineError
from calitree.jointree.schema import Schema
from calitree.query.binder import MeasureLike, Query, Question


class JoinAnswer(NamedTuple):
    """What was run on a join, whether in the texts as given, and what came of it."""

    sql: str
    verbatim: bool
    table: pa.Table
    seconds: float


class BuiltJoin:
    """The join of some relations. It is built for the texts of all questions, or for our reading.

    The texts come first. A question that DuckDB cannot run as it stands is put by our reading.
    """

    def __init__(
        self,
        runner: SqlRunner,
        schema: Schema,
        known: Mapping[str, MeasureLike],
        questions: Sequence[Question],
        queries: Sequence[Query],
    ) -> None:
        self.runner, self.schema, self.queries = runner, schema, queries
        self.seconds = 0.0
        """What building it took."""
        self._texts = self._verbatim(known, questions)
        self._answers = [self._in_its_texts(text) for text in self._texts]
        self._has_attributes = False

    def _verbatim(
        self, known: Mapping[str, MeasureLike], questions: Sequence[Question]
    ) -> list[Verbatim | None]:
        """The questions in their texts, for which `wide` is built; None where it cannot be."""
        nothing: list[Verbatim | None] = [None] * len(questions)
        if not isinstance(self.runner, DuckDB):
            return nothing
        texts = [
            # Plain SQL has no grain, so what a text says there is not all that is asked.
            None if grains_of(query) else verbatim(self.schema, question, known)
            for question, query in zip(questions, self.queries, strict=True)
        ]
        names = frozenset().union(*(text.names for text in texts if text is not None))
        scope = scope_sql(self.schema, sorted(self.queries[0].relations), names)
        if scope is None:
            return nothing
        self._build(*scope)
        return texts

    def _build(self, sql: str, tables: Mapping[str, Table]) -> None:
        started = time.perf_counter()
        self.runner.build(sql, tables)
        self.seconds += time.perf_counter() - started

    def _in_its_texts(self, text: Verbatim | None) -> JoinAnswer | None:
        if text is None:
            return None
        try:
            return self._asked(text.sql, True)
        except EngineError:
            return None

    def _asked(self, sql: str, verbatim: bool) -> JoinAnswer:
        started = time.perf_counter()
        table = self.runner.ask(sql)
        return JoinAnswer(sql, verbatim, table, time.perf_counter() - started)

    def answer(self, place: int) -> JoinAnswer:
        """The answer to the question at this place."""
        known = self._answers[place]
        if known is not None:
            return known
        if not self._has_attributes:
            relations = self.queries[0].relations
            attributes = sorted(set().union(*map(attributes_of, self.queries)))
            derived = dict.fromkeys(column for query in self.queries for column in query.derived)
            schema = self.schema.with_columns(derived)
            grains = [grain for query in self.queries for grain in grains_of(query)]
            numbered = sorted(frozenset().union(*grains))
            self._build(*wide_sql(schema, relations, attributes, self.runner.dialect, numbered))
            self._has_attributes = True
        return self._asked(query_sql(self.queries[place], self.runner.dialect), False)
