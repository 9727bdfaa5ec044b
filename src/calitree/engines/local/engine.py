"""The local engine: contractions over codes in this process, by compiled loops.

Relations stay as they came; an attribute is encoded when a join, a group or a filter first needs its
codes. A contraction goes through three steps, each of which rewrites it for the next:

1. relations that share a bag (a cyclic graph) are joined by a worst-case optimal join, once;
2. a large table is *reduced*: one pass over its rows multiplies what arrives and sums it by the few
   attributes that are still needed, for all outputs at once (`reduction`);
3. what is left is small: it is joined by look-ups and summed (`star`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, cast
from weakref import WeakSet, ref

import pyarrow as pa

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.local.annotation import values as v
from calitree.engines.local.delta.changes import add, apart
from calitree.engines.local.delta.contributions import MAX_CONTRIBUTING_ROWS, Contributions
from calitree.engines.local.delta.matches import matching, select, settle
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.eviction import using_codes
from calitree.engines.local.join.generic_join import GenericJoin
from calitree.engines.local.join.semijoin import semijoin_reduced
from calitree.engines.local.join.star import Star
from calitree.engines.local.prepared import Prepared
from calitree.engines.local.scan.distinct import count_distinct
from calitree.engines.local.scan.reduction import Job, reduce_jobs
from calitree.engines.local.tables.encoded import EncodedTable
from calitree.engines.local.tables.joined import Joined
from calitree.engines.local.tables.legs import Leg, centre, shared
from calitree.engines.local.tables.selection import SelectedRelation
from calitree.engines.local.tables.tables import (
    ArrowColumns,
    EncodedMessage,
    EncodedRelation,
)
from calitree.engines.local.theta.theta import Blocks, without_conditions
from calitree.engines.local.vm import parallel
from calitree.errors import EngineError
from calitree.memory.budget import Budget
from calitree.sql.parser import Expression
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation
from calitree.types import Kind

MIN_REDUCED_ROWS = 20_000
"""From so many rows on a table is reduced before it is joined."""


class LocalEngine:
    """In-process contraction.

    All tables of a join graph share their codes, so there is one instance for each graph: see
    `for_graph`.
    """

    name = "local"

    def __init__(self, threads: int | None = None, large: int = MIN_REDUCED_ROWS) -> None:
        """Create an engine.

        Args:
            threads: How many processors to use; all of them if it is not given.
            large: From how many rows on a table is reduced before it is joined.
        """
        self.threads = threads or parallel.available()
        self.large = large
        self._has_graph = False
        self._clear()

    def _clear(self) -> None:
        self.book = Codebook(self.threads)
        self._prepared = Prepared(self.book)
        self.book.eviction.derived = ref(self._prepared)
        self._summed: WeakSet[Contraction] = WeakSet()
        """Contractions of which some rows were summed before."""

    @property
    def budget(self) -> Budget:
        """What all that is kept counts into."""
        return self.book.budget

    def for_graph(self) -> LocalEngine:
        """The engine of one more join graph: this one for the first, then copies with codes of their own.

        Attributes of two graphs may have the same name and different types.
        """
        with self.book.lock:
            if not self._has_graph:
                self._has_graph = True
                return self
        engine = copy(self)
        engine._clear()
        return engine

    def load(self, name: str, source: Any) -> EncodedRelation:
        """A source as a base relation; of Parquet files only the schema is read."""
        from calitree.storage.files import is_parquet
        from calitree.storage.frames import files_of, relation_rows
        from calitree.storage.parquet import ParquetColumns

        files = files_of(source)
        if files is not None and is_parquet(files):
            return EncodedRelation(self.book, ParquetColumns(name, files, self.threads))
        return EncodedRelation(self.book, ArrowColumns(*relation_rows(name, source)))

    def arrow(self, table: Table) -> pa.Table:
        """The whole table, decoded."""
        if isinstance(table, EncodedRelation):
            return table.columns.table()
        assert isinstance(table, EncodedMessage)
        columns = {name: table.values(name, {name: name}) for name in table.attributes}
        columns |= {name: v.to_arrow(value) for name, value in table.annotations.items()}
        if not columns:
            return pa.table({"": pa.nulls(table.rows)}).select([])
        return pa.table(columns)

    def origin(self, table: Table) -> Origin:
        """Where the rows of a relation are."""
        from calitree.engines.local.tables.lazy import origin

        assert isinstance(table, EncodedRelation)
        return origin(table)

    def write(self, table: Table, path: str) -> SavedMessage:
        """Write a message to a file, in the form that all engines read."""
        from calitree.engines.local.tables.lazy import write

        assert isinstance(table, EncodedMessage)
        return write(table, path)

    def restore(self, saved: SavedMessage | SavedRelation) -> EncodedMessage | EncodedRelation:
        """A saved table, of which nothing is read yet."""
        from calitree.engines.local.tables.lazy import restore

        return restore(self.book, saved, self.threads)

    def how(self, contraction: Contraction) -> str:
        """Nothing: there is only one way."""
        return ""

    def contract(
        self, contraction: Contraction, watch: Watch | None = None
    ) -> list[EncodedMessage]:
        """Compute every output. What depends on keys alone is kept for when it is asked again."""
        eviction = self.book.eviction
        if eviction.spares(contraction):
            return self._contracted(contraction)
        with eviction.use():
            return self._contracted(contraction)

    def _contracted(self, contraction: Contraction) -> list[EncodedMessage]:
        messages = None if contraction.pattern is None else self._of_some_rows(contraction)
        if messages is not None:
            return messages
        stars = self._prepared.stars.get(contraction)
        if stars is None:
            inputs = contraction.inputs
            legs, leg_of = self._legs(inputs)
            parts = [
                without_conditions(self._job(legs, leg_of, out)) for out in contraction.outputs
            ]
            jobs = [job for job in parts if isinstance(job, Job)]
            if len(jobs) < len(parts):
                return [self._added(job, inputs) for job in parts]
            jobs = semijoin_reduced(jobs, self.large)
            rest = reduce_jobs(self.book, jobs, self.large, self.threads)
            if all(after is before for after, before in zip(rest, jobs, strict=True)):
                stars = [self._star(job, inputs) for job in jobs]
                self._prepared.stars.put(contraction, stars)
            else:
                return [
                    self._finished(left, inputs, job) for left, job in zip(rest, jobs, strict=True)
                ]
        return [star.sum() for star in stars]

    @using_codes
    def count_distinct(self, contraction: Contraction, value: str) -> EncodedMessage | None:
        """The number of distinct values by group, if one pass over a large table can tell."""
        legs, leg_of = self._legs(contraction.inputs)
        (output,) = contraction.outputs
        job = without_conditions(self._job(legs, leg_of, output))
        if not isinstance(job, Job):
            return None
        (job,) = semijoin_reduced([job], self.large)
        message = count_distinct(self.book, job, value, self.large, self.threads)
        if message is not None:
            keep = tuple(name for name in output.keep if name != value)
            message.kinds |= _kinds(contraction.inputs, replace(output, keep=keep))
        return message

    def _of_some_rows(self, contraction: Contraction) -> list[EncodedMessage] | None:
        """A contraction of selected rows, by what each row adds; None if that is not known (yet)."""
        assert contraction.pattern is not None
        whole, at = contraction.pattern
        table, base = contraction.inputs[at].table, whole.inputs[at].table
        if (
            not isinstance(table, SelectedRelation)
            or table.base is not base
            or base.rows > MAX_CONTRIBUTING_ROWS
        ):
            return None
        if whole not in self._summed:
            self._summed.add(whole)  # it is worth it the second time
            return None
        contributions = self._prepared.contributions.of(
            whole, lambda: self._contributions_of(whole, at)
        )
        return [output.sum(table.positions) for output in contributions] if contributions else None

    def _contributions_of(self, whole: Contraction, at: int) -> list[Contributions]:
        legs, leg_of = self._legs(whole.inputs)
        jobs = [self._job(legs, leg_of, output) for output in whole.outputs]
        base: object = whole.inputs[at].table
        if not all(at in job.legs and job.legs[at].table is base for job in jobs):
            return []  # it is one of several that were joined first
        stars = (self._star(job, whole.inputs) for job in jobs)
        contributions = [Contributions.of(star, at) for star in stars]
        return [] if None in contributions else cast(list[Contributions], contributions)

    # -- updates: codes grow under the codebook's lock, which encoding takes by itself. Rows are looked
    # up by codes of stored columns alone, whose dictionaries stay.

    def schema(self, table: Table) -> pa.Schema:
        """The columns of a relation with their Arrow types."""
        assert isinstance(table, EncodedRelation)
        return table.columns.schema

    @using_codes
    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> EncodedMessage | None:
        """The sum of results of an output, less those of `minus`; None if digits would be lost."""
        return add(output, cast(Any, plus), cast(Any, minus), rows)

    @using_codes
    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> EncodedRelation:
        """A relation of all rows of `plus` less those of `minus`, one for one."""
        with self.book.lock:
            return settle(cast(Any, plus), cast(Any, minus))

    def select(self, relation: Input, where: Expression) -> EncodedRelation:
        """The rows for which a condition is true."""
        return select(cast(EncodedRelation, relation.table), relation.attributes, where)

    def matching(self, table: Table, rows: pa.Table) -> EncodedRelation:
        """The rows that equal some row of `rows` on its columns."""
        # Whether a code stands for one value depends on the dictionary's type, which must not change.
        with self.book.lock:
            return matching(cast(EncodedRelation, table), rows)

    @using_codes
    def apart(self, table: Table, keys: Table) -> EncodedMessage:
        """The rows of a message that do not agree with any of `keys` on its attributes."""
        return apart(cast(EncodedMessage, table), cast(EncodedMessage, keys))

    def _star(self, job: Job, inputs: Sequence[Input]) -> Star:
        kinds = _kinds(inputs, job.output)
        return Star(self.book, job.legs, job.leg_of, job.output, kinds)

    def _finished(
        self, rest: Job | EncodedMessage, inputs: Sequence[Input], job: Job
    ) -> EncodedMessage:
        if isinstance(rest, EncodedMessage):
            rest.kinds |= _kinds(inputs, job.output)
            return rest
        return self._star(rest, inputs).sum()

    def _added(self, job: Job | Blocks, inputs: Sequence[Input]) -> EncodedMessage:
        """The result of a job, or the sum of those of its parts."""
        if isinstance(job, Job):
            (rest,) = reduce_jobs(self.book, [job], self.large, self.threads)
            return self._finished(rest, inputs, job)
        parts = (part() for part in job)
        outputs, results = zip(
            *((part.output, self._added(without_conditions(part), inputs)) for part in parts),
            strict=True,
        )
        total = add(outputs[0], results, [], None)
        assert total is not None  # as nothing is subtracted
        return total

    def _legs(self, inputs: Sequence[Input]) -> tuple[dict[int, Leg], dict[int, int]]:
        """The inputs; relations of one bag joined into one leg."""
        legs = {}
        for i, given in enumerate(inputs):
            if not isinstance(given.table, EncodedTable):
                raise EngineError(f"The local engine cannot read a {type(given.table).__name__}.")
            leg = Leg(given.table, given.table.names_of(given), match=given.match)
            legs[i] = leg if leg.has_unmatched else replace(leg, match=None)
        relations = {i: leg for i, leg in legs.items() if isinstance(leg.table, EncodedRelation)}
        leg_of = {i: i for i in legs}
        if len(relations) > 1:
            first = min(relations)
            legs = {first: self._join(relations)} | {i: legs[i] for i in legs if i not in relations}
            leg_of |= dict.fromkeys(relations, first)
        return legs, leg_of

    def _job(self, legs: Mapping[int, Leg], leg_of: Mapping[int, int], output: Output) -> Job:
        """One output; where no leg shares attributes with all others, all are joined first."""
        own = {leg_of[i]: legs[leg_of[i]] for i in output.inputs}
        if centre(own) is None:
            matched = {at: leg for at, leg in own.items() if leg.match is not None}
            first = min(own.keys() - matched.keys())
            parts = {
                i: legs[at].part(i) for i, at in leg_of.items() if at in own.keys() - matched.keys()
            }
            places = dict.fromkeys(parts, first) | {at: at for at in matched}
            return Job({first: self._join(parts), **matched}, places, output)
        return Job(own, leg_of, output)

    def _join(self, legs: Mapping[int, Leg]) -> Leg:
        """All combinations of rows that agree on the attributes they share; the last ones are kept."""
        key = tuple((leg.table, *leg.names.items()) for leg in legs.values())
        parts = [(leg.table, leg.names) for leg in legs.values()]

        def sort() -> GenericJoin:
            return GenericJoin([leg.tries(shared(legs, i)) for i, leg in legs.items()])

        def join() -> Joined:
            grown = partial(self._prepared.joined.put, key)
            return Joined(self.book, parts, self._prepared.joins.of(key, sort), grown)

        joined = self._prepared.joined.of(key, join)
        return Leg(joined, joined.names, {i: at for at, i in enumerate(legs)})


def _kinds(inputs: Sequence[Input], output: Output) -> dict[str, Kind]:
    """The kinds of the attributes that an output keeps."""
    kinds = {}
    for attribute in output.keep:
        holder = next(inputs[i] for i in output.inputs if inputs[i].has(attribute))
        kinds[attribute] = holder.kind(attribute)
    return kinds
