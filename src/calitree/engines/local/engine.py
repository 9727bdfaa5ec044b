"""The local engine: contractions over codes in this process, by compiled loops.

Relations stay as they came; an attribute's codes are made when a join, a group or a filter first
needs them. A contraction goes three ways, each a rewriting into the next:

1. relations that share a bag (a cyclic graph) are joined by a worst-case optimal join, once;
2. a large table is *reduced*: one pass over its rows multiplies what arrives and sums it by the few
   attributes that are still needed, for all outputs at once (`reduction`);
3. what is left is small: it is joined by look-ups and summed (`star`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from calitree.cache import LRUCache
from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.local.delta.changes import add, apart
from calitree.engines.local.delta.contributions import MAX_CONTRIBUTING_ROWS, Contributions
from calitree.engines.local.delta.matches import matching, select, settle
from calitree.engines.local.encoding import values as v
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.join.generic_join import GenericJoin
from calitree.engines.local.join.semijoin import semijoin_reduced
from calitree.engines.local.join.star import Star
from calitree.engines.local.scan.reduction import Job, reduce_jobs
from calitree.engines.local.tables.legs import Leg, centre, shared
from calitree.engines.local.tables.picked import Picked
from calitree.engines.local.tables.rows import Rows
from calitree.engines.local.tables.tables import ArrowColumns, Joined, Message, Relation
from calitree.engines.local.vm import parallel
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation
from calitree.types import Kind

LARGE = 20_000
"""Rows from which a table is reduced before it is joined."""

JOINS_KEPT = 8
"""Joins of relations that share a bag, each with what is derived from it."""


class LocalEngine:
    """In-process contraction. One instance belongs to one join graph: its codes are shared by all
    tables. `threads` is the number of processors to use, all of them if it is not given.
    """

    name = "local"

    def __init__(self, threads: int | None = None, large: int = LARGE) -> None:
        self.threads = threads or parallel.available()
        self.large = large
        self.book = Codebook(self.threads)
        self._stars: WeakKeyDictionary[Contraction, list[Star]] = WeakKeyDictionary()
        self._shares: WeakKeyDictionary[Contraction, list[Contributions] | None] = (
            WeakKeyDictionary()
        )
        self._joins = LRUCache[GenericJoin](JOINS_KEPT)
        self._joined = LRUCache[Joined](JOINS_KEPT)

    def load(self, name: str, source: Any) -> Relation:
        from calitree.storage.files import is_parquet
        from calitree.storage.frames import arrow_table, files_of
        from calitree.storage.parquet import ParquetColumns

        files = files_of(source)
        if files is not None and is_parquet(files):
            return Relation(self.book, ParquetColumns(name, files, self.threads))
        return Relation(self.book, ArrowColumns(arrow_table(name, source)))

    def arrow(self, table: Table) -> pa.Table:
        if isinstance(table, Relation):
            return table.columns.table()
        assert isinstance(table, Message)
        columns = {
            name: self.book.dictionary(name).decode(table.codes(name, {name: name}))
            for name in table.attributes
        }
        columns |= {name: v.to_arrow(value) for name, value in table.annotations.items()}
        if not columns:
            return pa.table({"": pa.nulls(table.rows)}).select([])
        return pa.table(columns)

    def origin(self, table: Table) -> Origin:
        from calitree.engines.local.tables.later import origin

        assert isinstance(table, Relation)
        return origin(table)

    def write(self, table: Table, path: str) -> SavedMessage:
        from calitree.engines.local.tables.later import write

        assert isinstance(table, Message)
        return write(table, path)

    def restore(self, saved: SavedMessage | SavedRelation) -> Message | Relation:
        from calitree.engines.local.tables.later import restore

        return restore(self.book, saved, self.threads)

    def how(self, contraction: Contraction) -> str:
        """It has but one way."""
        return ""

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> list[Message]:
        """What depends on keys alone is remembered for a contraction that is asked again."""
        shares = None if contraction.pattern is None else self._shared(contraction)
        if shares is not None:
            return shares
        stars = self._stars.get(contraction)
        if stars is None:
            inputs = contraction.inputs
            legs, leg_of = self._legs(inputs)
            jobs = [self._job(legs, leg_of, output) for output in contraction.outputs]
            jobs = semijoin_reduced(jobs, self.large)
            rest = reduce_jobs(self.book, jobs, self.large, self.threads)
            if all(after is before for after, before in zip(rest, jobs, strict=True)):
                stars = [self._star(job, inputs) for job in jobs]
                self._stars[contraction] = stars
            else:
                return [
                    self._finished(each, inputs, job) for each, job in zip(rest, jobs, strict=True)
                ]
        return [star.sum() for star in stars]

    def _shared(self, contraction: Contraction) -> list[Message] | None:
        """Of some rows of a table, by what each row adds; None if that is not known (yet)."""
        assert contraction.pattern is not None
        whole, at = contraction.pattern
        table, base = contraction.inputs[at].table, whole.inputs[at].table
        if (
            not isinstance(table, Picked)
            or table.base is not base
            or base.rows > MAX_CONTRIBUTING_ROWS
        ):
            return None
        if whole not in self._shares:
            self._shares[whole] = None  # it is worth it the second time
            return None
        found = self._shares[whole]
        if found is None:
            found = self._shares[whole] = self._shares_of(whole, at)
        return [each.sum(table.positions) for each in found] if found else None

    def _shares_of(self, whole: Contraction, at: int) -> list[Contributions]:
        legs, leg_of = self._legs(whole.inputs)
        jobs = [self._job(legs, leg_of, output) for output in whole.outputs]
        base: object = whole.inputs[at].table
        if not all(at in job.legs and job.legs[at].table is base for job in jobs):
            return []  # it is one of several that were joined first
        stars = (self._star(job, whole.inputs) for job in jobs)
        found = [Contributions.of(star, at) for star in stars]
        return [] if None in found else cast(list[Contributions], found)

    # -- updates -----------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        assert isinstance(table, Relation)
        return table.columns.schema

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> Message | None:
        with self.book.lock:
            return add(output, cast(list[Message], plus), cast(list[Message], minus), rows)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> Relation:
        with self.book.lock:
            return settle(cast(list[Relation], plus), cast(list[Relation], minus))

    def select(self, relation: Input, where: Expression) -> Relation:
        return select(cast(Relation, relation.table), relation.attributes, where)

    def matching(self, table: Table, rows: pa.Table) -> Relation:
        with self.book.lock:
            return matching(cast(Relation, table), rows)

    def apart(self, table: Table, keys: Table) -> Message:
        return apart(cast(Message, table), cast(Message, keys))

    def _star(self, job: Job, inputs: Sequence[Input]) -> Star:
        kinds = _kinds(inputs, job.output)
        return Star(self.book, job.legs, job.leg_of, job.output, kinds)

    def _finished(self, rest: Job | Message, inputs: Sequence[Input], job: Job) -> Message:
        if isinstance(rest, Message):
            rest.kinds |= _kinds(inputs, job.output)
            return rest
        return self._star(rest, inputs).sum()

    def _legs(self, inputs: Sequence[Input]) -> tuple[dict[int, Leg], dict[int, int]]:
        """The inputs; relations of one bag joined into one leg."""
        legs = {}
        for i, given in enumerate(inputs):
            if not isinstance(given.table, Rows):
                raise EngineError(f"The local engine cannot read a {type(given.table).__name__}.")
            legs[i] = Leg(given.table, given.attributes)
        relations = {i: leg for i, leg in legs.items() if isinstance(leg.table, Relation)}
        leg_of = {i: i for i in legs}
        if len(relations) > 1:
            first = min(relations)
            legs = {first: self._join(relations)} | {i: legs[i] for i in legs if i not in relations}
            leg_of |= dict.fromkeys(relations, first)
        return legs, leg_of

    def _job(self, legs: Mapping[int, Leg], leg_of: Mapping[int, int], output: Output) -> Job:
        """One output; where no leg meets all the others, all are joined first."""
        own = {leg_of[i]: legs[leg_of[i]] for i in output.inputs}
        if centre(own) is None:
            first = min(own)
            parts = {i: legs[at].part(i) for i, at in leg_of.items() if at in own}
            return Job({first: self._join(parts)}, dict.fromkeys(parts, first), output)
        return Job(own, leg_of, output)

    def _join(self, legs: Mapping[int, Leg]) -> Leg:
        """All combinations of rows that agree on what they share; kept for the next time."""
        key = tuple((leg.table, *leg.names.items()) for leg in legs.values())
        parts = [(leg.table, leg.names) for leg in legs.values()]

        def sort() -> GenericJoin:
            return GenericJoin([leg.tries(shared(legs, i)) for i, leg in legs.items()])

        joined = self._joined.of(key, lambda: Joined(self.book, parts, self._joins.of(key, sort)))
        return Leg(joined, joined.names, {i: at for at, i in enumerate(legs)})


def _kinds(inputs: Sequence[Input], output: Output) -> dict[str, Kind]:
    """The kinds of the attributes that an output keeps."""
    found = {}
    for attribute in output.keep:
        holder = next(inputs[i] for i in output.inputs if attribute in inputs[i].attributes)
        found[attribute] = holder.table.kinds[holder.attributes[attribute]]
    return found
