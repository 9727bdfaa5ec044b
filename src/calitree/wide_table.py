"""The calibrated junction hypertree: a tree, an engine, and the messages of a pivot query in both
directions.

A query is answered as the paper's §3.4.2 says: its annotations are placed, messages that are in the
store are reused, those that are stale take what has changed, the others — the Steiner tree — are
passed, and the root absorbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

from calitree.applications import Applications
from calitree.calibration.compiler import Run
from calitree.calibration.history import History
from calitree.calibration.planning.plan import Plan
from calitree.calibration.planning.planner import stored_edges
from calitree.calibration.snapshot import Core, Moment, new_behind
from calitree.calibration.store import Store
from calitree.calibration.versions import Change, Changes, Updated, new_version
from calitree.engines.api.protocol import Engine, updatable
from calitree.errors import ConflictError, MissingRelationError, QueryError, UpdateError
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Relation, Schema
from calitree.progress import Progress
from calitree.query.binder import Asked, MeasureLike, Measures, Query
from calitree.results.result import Result
from calitree.saved.manifest import Opened, Saves

if TYPE_CHECKING:
    from calitree.apps.verify.check import Verification
    from calitree.dml import Columns, Updating
    from calitree.join_graph import On
    from calitree.results.diff import Difference
    from calitree.stream import Stream

Mode = Literal["lazy", "eager", "recompute"]
MODES: tuple[Mode, ...] = ("lazy", "eager", "recompute")


class WideTable(Applications):
    """The join of all relations, never built, ready to be asked.

    Made by `JoinGraph.calibrate`. `query` answers, `plan` tells how it would, `verify` checks
    against the join really built. `update` makes the next version, `at` is an earlier one, `what_if`
    one that nobody else sees.
    """

    def __init__(
        self,
        schema: Schema,
        engine: Engine,
        tree: Hypertree,
        *,
        measures: Mapping[str, MeasureLike],
        group_by: Sequence[str] = (),
        where: str | None = None,
        memory_limit: int = 1 << 30,
        maintenance: Mode = "lazy",
        opened: Opened | None = None,
    ) -> None:
        if tree.relations != {r: frozenset(c) for r, c in schema.columns_of.items()}:
            raise QueryError(
                "The tree was made for another join graph; make it anew with g.hypertree()."
            )
        if not measures:
            raise QueryError("Ask for at least one measure.")
        if maintenance not in MODES:
            raise QueryError(f"maintenance is one of {', '.join(MODES)}; got {maintenance!r}.")
        shelved = opened.messages if opened is not None else ()
        self._core = Core(
            engine,
            tree,
            dict(measures),
            Asked(tuple(group_by), where),
            Store(memory_limit, shelved, opened and opened.restore),
            dict(opened.centers) if opened is not None else {},
            None if maintenance == "recompute" else Changes(engine),
        )
        if opened is not None:
            self._core.bound = None if opened.bound is None else dict(opened.bound)
            self._core.streams.update(opened.streams)
        self.maintenance = maintenance
        self.calibration: Plan | None = None
        """How the messages were last brought up to date: `print` tells."""
        self.saved = Saves(opened.version if opened is not None else None)
        """Where this tree was saved, or opened from."""
        self._lock = RLock()
        self._updatings: dict[str, Updating] = {}
        self._now = Moment(self._core, 0, schema)
        self._history = History(self._now)
        self._origin: tuple[WideTable, Moment] | None = None
        """Of a what-if: what it supposes something else of."""
        self._is_past = False
        self._now.pivot  # noqa: B018 - tells what is wrong with the pivot

    @classmethod
    def calibrated(
        cls,
        schema: Schema,
        engine: Engine,
        tree: Hypertree,
        *,
        measures: Mapping[str, MeasureLike],
        group_by: Sequence[str] = (),
        where: str | None = None,
        memory_limit: int = 1 << 30,
        maintenance: Mode = "lazy",
        progress: Progress | bool | None = None,
    ) -> WideTable:
        """A wide table with all its messages passed."""
        wide = cls(
            schema,
            engine,
            tree,
            measures=measures,
            group_by=group_by,
            where=where,
            memory_limit=memory_limit,
            maintenance=maintenance,
        )
        wide.refresh(progress)
        return wide

    @property
    def schema(self) -> Schema:
        """The relations as they are now."""
        return self._now.schema

    @property
    def engine(self) -> Engine:
        return self._core.engine

    @property
    def tree(self) -> Hypertree:
        return self._core.tree

    @property
    def measures(self) -> dict[str, MeasureLike]:
        return self._core.measures

    @property
    def pivot(self) -> Asked:
        """What is asked of the tree at rest: its group-by and filter."""
        return self._core.pivot

    # -- asking ----------------------------------------------------------------------------------

    def query(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Result:
        """Answer a delta query: the same as SQL's on the join, filters and groups included.

        A query says all it wants: the pivot's own group-by and filter are not inherited. `measures`
        are names of the pivot's, or `{name: expression}`; none means all of the pivot's.
        `relations` are those to join.
        """
        asked = Asked(group_by, where, measures, relations)
        try:
            return self._answer(asked)
        except MissingRelationError as error:
            if error.relation in self._core.missing:
                raise
            # Perhaps there is a way without it.
            self._core.missing |= {error.relation}
            self._now.forget_plans()
            return self.query(*asked)

    def _answer(self, asked: Asked) -> Result:
        now, store = self._now, self._core.store
        is_pivot = asked.key == self._core.pivot_key
        if is_pivot:
            adjusted = now.adjusted()
            if adjusted is not None:
                plan, table, done = adjusted
                question = now.question(self._core.pivot)
                return Result(question, plan, {None: done}, self.engine, table)
        prepared = now.prepared(asked, self._is_main)
        store.touch(prepared.reused)
        run = Run(self.engine)
        for call in prepared.sends:
            run.send(call)
        table = run.absorb(prepared.absorb)
        for message in run.found.values():
            store.keep(message)
        if is_pivot:
            now.remember(table)
        measured = {**prepared.refreshing, **run.measured}
        return Result(prepared.question, prepared.plan, measured, self.engine, table)

    def plan(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Plan:
        """How `query` would answer: what it would reuse, refresh and compute."""
        return self._now.plan(Asked(group_by, where, measures, relations))

    def verify(self, queries: Sequence[Mapping[str, object]] | None = None) -> Verification:
        """Ask these queries (or a set made for this tree) also on the join really built, and
        compare.
        """
        from calitree.apps.verify.check import verify

        return verify(self.at(self.version), queries)

    def _query(
        self,
        group_by: Sequence[str],
        where: str | None,
        measures: Measures | None,
        relations: Sequence[str] | None,
    ) -> Query:
        return self._now.question(Asked(group_by, where, measures, relations)).query

    # -- versions --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of this version: 0 at first, one more with each update."""
        return self._now.number

    @property
    def versions(self) -> range:
        """The versions that `at` can still tell."""
        return self._history.numbers

    def update(
        self,
        relation: str,
        insert: Any = None,
        delete: Any = None,
        upsert: Any = None,
        key: Columns | None = None,
    ) -> int:
        """Change the rows of a relation; the number of the new version.

        Rows are an Arrow table, a pandas, polars or Spark frame, a list of dictionaries, or columns
        by name. What to `delete` may also be a condition. Given whole rows, one goes for each that is
        given, and it is an error if one is not there; given some columns only, all rows go that have
        these values. `upsert` puts rows in place of those with the same `key`, which need not be
        named where one join tells the relation's rows apart.

        >>> from calitree import JoinGraph
        >>> g = JoinGraph(engine="reference")
        >>> g.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
        >>> g.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
        >>> g.add_join("sales", "stores", on={"store": "id"})
        >>> wide = g.calibrate({"revenue": "sum(price)"})
        >>> wide.update("sales", insert=[{"store": 2, "price": 7}], delete="price > 15")
        1
        >>> wide.query(["city"]).rows()
        [{'city': 'Quito', 'revenue': 10}, {'city': 'Cuenca', 'revenue': 12}]
        """
        with self._lock:
            self._check_present()
            updating = self._updating(relation)
            change = updating.change(insert, delete, upsert, key)
            return self._apply({updating.name: change})

    def _updating(self, relation: str) -> Updating:
        from calitree.dml import Updating

        found = self.schema.relation(relation)
        known = self._updatings.get(found.name)
        if known is None or known.schema is not self.schema:
            if known is None:
                first = found.table.plus[0] if isinstance(found.table, Updated) else found.table
                types = updatable(self.engine).schema(first)
            else:
                types = known.types
            known = self._updatings[found.name] = Updating(self.engine, self.schema, found, types)
        return known

    def _apply(self, changes: Mapping[str, Change]) -> int:
        changed = {}
        for name, change in changes.items():
            if change:
                old, version = self.schema.relations[name], new_version()
                table = Updated(self.engine, name, old.table, old.version, change, version)
                changed[name] = replace(old, table=table, version=version)
        return self._advance(changed)

    def _advance(self, changed: Mapping[str, Relation]) -> int:
        """The next version, with these relations in place of what they were."""
        if changed:
            self._now = self._now.then(self._history.next, changed)
            self._history.add(self._now)
            if self.maintenance == "eager" and self._is_main:
                self.refresh(progress=False)
        return self._now.number

    def _check_present(self) -> None:
        if self._is_past:
            raise UpdateError(
                f"This is version {self.version} as it was, and stays so. Update the tree it is of, "
                "or suppose a change with what_if."
            )

    def at(self, version: int) -> WideTable:
        """The tree as it was at a version; it stays so whatever is updated."""
        other = self._copy()
        other._now = self._history.moment(version)
        other._is_past = True
        return other

    def _with(self, schema: Schema, tree: Hypertree) -> WideTable:
        """One of its own on a tree that has a bag more. It begins with all messages of this one."""
        other, core = self._copy(), self._core
        other._core = replace(
            core,
            tree=tree,
            store=core.store.branch(),
            centers=dict(core.centers),
            changes=core.changes and Changes(core.engine),
            behind=new_behind(),
            bound=core.bound and dict(core.bound),
            streams={},
        )
        other._lock = RLock()
        other._updatings = {}
        other._now = Moment(other._core, 0, schema)
        other._history = History(other._now)
        other._origin, other._is_past = None, False
        other.saved, other.calibration = Saves(), None
        other._now.pivot  # noqa: B018 - tells what is wrong with the pivot
        return other

    def _copy(self) -> WideTable:
        """One that shares everything, as `copy` would make it, but in a tenth of the time."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def diff(
        self,
        before: int,
        after: int,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Difference:
        """How the answer to a query differs between two versions: the groups that are not the same."""
        from calitree.results.diff import Difference

        asked = Asked(group_by, where, measures, relations)
        return Difference(self.at(before), self.at(after), asked)

    # -- adding ----------------------------------------------------------------------------------

    def augment(self, table: Any, on: On | None = None, name: str | None = None) -> WideTable:
        """A wide table with one more relation, which reuses every message of this one.

        `table` is what `JoinGraph.add_relation` takes. `on` is a column, a list of columns, or
        `{column here: column of the table}`; they may be of several relations. Without it, columns
        join that are named as those which relations here join on. A bare name that this table knows
        goes on to mean what it does here.

        Nothing is computed yet: a query passes what it needs, which is one message where the new
        relation is asked for, and `refresh` passes the rest. Later updates of this table are not seen
        by the new one.

        >>> from calitree import JoinGraph
        >>> g = JoinGraph(engine="reference")
        >>> g.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
        >>> g.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
        >>> g.add_join("sales", "stores", on={"store": "id"})
        >>> wide = g.calibrate({"revenue": "sum(price)"})
        >>> cities = {"city": ["Quito", "Cuenca"], "altitude": [2850, 2560]}
        >>> high = wide.augment(cities, on="city", name="cities")
        >>> high.query(where="altitude > 2600").rows()
        [{'revenue': 30}]
        """
        from calitree.jointree.augment import augmented, joinable

        return augmented(self, joinable(self, table, on, name))

    def keyed(self, columns: Sequence[str]) -> WideTable:
        """A wide table with an empty bag for these columns, which may be of several relations.

        Relations that are added on them later stand beside it, and share the message that arrives
        there.
        """
        from calitree.jointree.augment import keyed

        return keyed(self, columns)

    # -- supposing -------------------------------------------------------------------------------

    def what_if(
        self,
        delete: Mapping[str, Any] | None = None,
        insert: Mapping[str, Any] | None = None,
        update: Mapping[str, Any] | None = None,
    ) -> WideTable:
        """The tree as it would be, for nobody else. Each takes a relation's name and what `update`
        takes for it; `update` takes rows to put in place of those with the same key, or
        `{column: expression}`, or that and a condition.

        It shares all messages with this tree, and can be asked, supposed on and saved like it.
        `commit` makes it true.

        >>> wide.what_if(delete={"items": "family = 'DAIRY'"}).query()     # doctest: +SKIP
        >>> wide.what_if(update={"items": ({"price": "price * 1.1"}, "family = 'DAIRY'")})
        ...                                                                 # doctest: +SKIP
        """
        other = self._copy()
        other._is_past = False
        other._origin = self, self._now
        other._history = History(self._now)
        other._lock = RLock()
        other.saved = Saves()
        if delete:
            other._suppose(delete, lambda each, what: each.deleting(what))
        if update:
            other._suppose(update, lambda each, what: each.updating(what))
        if insert:
            other._suppose(insert, lambda each, what: each.change(what, None, None, None))
        return other

    def _suppose(self, what: Mapping[str, Any], change_of: Any) -> None:
        if not isinstance(what, Mapping):
            raise UpdateError(
                f"A what-if names relations: {{relation: rows or condition}}; got {what!r}."
            )
        changes = {}
        for relation, given in what.items():
            updating = self._updating(relation)
            changes[updating.name] = change_of(updating, given)
        self._apply(changes)

    @property
    def _is_main(self) -> bool:
        """Whether its messages are those of the tree itself, which stay."""
        return self._origin is None and not self._is_past

    def commit(self) -> int:
        """Make a what-if true: the number of the new version of what it was made of."""
        if self._origin is None:
            raise UpdateError("Only a what-if can be committed; this is the tree itself.")
        target, then = self._origin
        with target._lock:
            target._check_present()
            ours = self._now.changed_from(then)
            theirs = target._now.changed_from(then)
            both = sorted(ours.keys() & theirs.keys())
            if both:
                raise ConflictError(
                    f"{', '.join(both)} changed since this was supposed (at version {then.number}; "
                    f"now it is {target.version}). Suppose it again on what is now."
                )
            number = target._advance(ours)
            self._origin = target, target._now
            self._now = target._now
            self._history = History(self._now)
            return number

    # -- keeping fresh ---------------------------------------------------------------------------

    def refresh(
        self, progress: Progress | bool | None = None, background: bool = False
    ) -> Plan | Future[Plan]:
        """Bring every message of the pivot up to date, and tell how.

        Those that were never passed are computed, those that are stale take what has changed. In the
        `background` it returns at once; queries need not wait for it.
        """
        if background:
            pool = ThreadPoolExecutor(1, "calitree-refresh")
            done = pool.submit(self._refresh, False)
            pool.shutdown(wait=False)
            return done
        return self._refresh(progress)

    def _refresh(self, progress: Progress | bool | None) -> Plan:
        self.calibration = self._now.refresh(progress, self._is_main)
        return self.calibration

    def stream(
        self,
        relation: str,
        source: Any,
        *,
        checkpoint: str | PathLike[str] | None = None,
        every: float | None = None,
        change: str | None = None,
    ) -> Stream:
        """Let rows keep coming to a relation; each batch is one version, which queries see whole.

        `source` is a streaming Spark frame, or a directory that Parquet or CSV files are moved into,
        looked at `every` so many seconds. `change` names a column that says of each row whether it
        comes (1, 'insert') or goes (-1, 'delete'). A tree that is saved is saved with each batch, and
        a batch that comes again after a restart is known. `checkpoint` is Spark's; by default it is
        beside the saved tree.

            stream = wide.stream("sales", spark.readStream.schema(schema).parquet("incoming"))
            ...
            stream.stop()
        """
        from calitree.stream import stream

        return stream(self, relation, source, checkpoint=checkpoint, every=every, change=change)

    @property
    def is_calibrated(self) -> bool:
        """Whether the messages of the pivot, and of those of cubes, are all there and up to date, in
        both directions.
        """
        store = self._core.store
        return all(p.edges <= stored_edges(p, store).keys() for p in self._now.pivots)

    def save(self, path: str | PathLike[str] | None = None, copy_below: int = 64 << 20) -> int:
        """Save to a directory, or to the next version of one, and tell the version's number. Without
        a path, that is where it was saved or opened last.

        Messages are written, and what is there already is not written again: of a relation that was
        updated, only the rows that came and went. So are relations that are in this process or have
        no more than `copy_below` bytes; of larger ones it is noted where their rows are.
        `calitree.open` opens the directory, here or elsewhere, and with another engine if wanted.

        If others have saved there since this tree was, it takes over what they changed, as `reload`
        does. It is a `ConflictError` if the same relation has changed on both sides.
        """
        from calitree.saved.writer import save

        return save(self, path, copy_below)

    def reload(self) -> int:
        """Take over what others have saved where this tree was saved or opened last; the number of
        the version that this makes here.

        Relations that changed there are as they are there, and what was updated here stays. It is a
        `ConflictError` if the same relation has changed on both sides.
        """
        from calitree.saved.rebase import reload

        return reload(self)

    def __repr__(self) -> str:
        store = self._core.store
        version = f", version {self.version}" if self.version else ""
        lines = [
            f"WideTable on {self.engine.name}: {len(self.schema.relations)} relations, "
            f"measures {', '.join(self.measures)}{version}",
            f"  {len(store)} messages, {store.pinned_bytes:,} bytes pinned, "
            f"{store.kept_bytes:,} kept",
        ]
        if self.saved.last is not None:
            lines.append(f"  {self.saved.last}")
        return "\n".join(lines)
