"""The wide table: the join of all relations, never built, ready to be asked.

A façade. A `Branch` has the versions, each a `Snapshot` that stays as it is, over what they all share
(`TreeState`); the work is done by functions of these. Applications are added to it by those who have
them (see `calitree.application`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from typing import Any, ClassVar

from calitree.calibration.branch import Branch
from calitree.calibration.calibrate import is_calibrated
from calitree.calibration.executor import answer, plan
from calitree.calibration.planning.plan import Plan
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import Mode, TreeState
from calitree.dml import suppose, update
from calitree.dml.target import Columns
from calitree.engines.api.protocol import Engine
from calitree.jointree.augment import augmented, joinable, keyed
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins import On
from calitree.jointree.schema import Schema
from calitree.progress import Progress
from calitree.query.binder import MeasureLike, Measures, Question
from calitree.results.diff import Difference
from calitree.results.result import Result
from calitree.saved.location import Saves
from calitree.saved.rebase import reload
from calitree.saved.writer import COPY_BELOW, save
from calitree.stream import Intake, Stream, stream


class WideTable:
    """The join of all relations, never built, ready to be asked.

    Made by `JoinGraph.calibrate`. `query` answers, `plan` tells how it would, `verify` checks
    against the join really built. `update` makes the next version, `at` is an earlier one, `what_if`
    one that nobody else sees.
    """

    # What `calitree.apps` adds; `help(WideTable.cube)` tells.
    cube: ClassVar[Callable[..., Any]]
    explain_change: ClassVar[Callable[..., Any]]
    linear_regression: ClassVar[Callable[..., Any]]
    search: ClassVar[Callable[..., Any]]
    verify: ClassVar[Callable[..., Any]]
    why: ClassVar[Callable[..., Any]]

    def __init__(self, branch: Branch, saved: Saves | None = None) -> None:
        self.branch = branch
        """Its versions."""
        self.saved = Saves() if saved is None else saved
        """Where it was saved, or opened from."""

    @property
    def snapshot(self) -> Snapshot:
        """The version that is asked."""
        return self.branch.head

    @property
    def state(self) -> TreeState:
        """What all versions share: the engine, the tree, the messages."""
        return self.branch.state

    @property
    def schema(self) -> Schema:
        """The relations as they are now."""
        return self.snapshot.schema

    @property
    def engine(self) -> Engine:
        """Who computes."""
        return self.state.engine

    @property
    def tree(self) -> Hypertree:
        """The junction hypertree."""
        return self.state.tree

    @property
    def measures(self) -> dict[str, MeasureLike]:
        """The measures that can be asked for by name."""
        return self.state.measures

    @property
    def pivot(self) -> Question:
        """What is asked of the tree at rest: its group-by and filter."""
        return self.state.pivot

    @property
    def maintenance(self) -> Mode:
        """What happens to messages when relations are updated; see `JoinGraph.calibrate`."""
        return self.state.maintenance

    @maintenance.setter
    def maintenance(self, mode: Mode) -> None:
        self.state.maintain(mode)

    @property
    def calibration(self) -> Plan | None:
        """How the messages were last brought up to date: `print` tells."""
        return self.branch.calibration

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
        return self.ask(Question(group_by, where, measures, relations))

    def ask(self, question: Question) -> Result:
        """Answer a question that is there as a value; see `query`."""
        branch = self.branch
        return Result(branch.state.engine, answer(branch.head, question, branch.is_main))

    def plan(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Plan:
        """How `query` would answer: what it would reuse, refresh and compute."""
        return plan(self.snapshot, Question(group_by, where, measures, relations))

    # -- versions --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of this version: 0 at first, one more with each update."""
        return self.snapshot.number

    @property
    def versions(self) -> range:
        """The versions that `at` can still tell."""
        return self.branch.versions

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
        return update(self.branch, relation, insert=insert, delete=delete, upsert=upsert, key=key)

    def at(self, version: int) -> WideTable:
        """The tree as it was at a version; it stays so whatever is updated."""
        return WideTable(self.branch.at(version), self.saved)

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
        then, now = self.at(before), self.at(after)
        question = Question(group_by, where, measures, relations)
        return Difference(lambda asked: (then.ask(asked), now.ask(asked)), question)

    # -- adding ----------------------------------------------------------------------------------

    def augment(self, table: Any, on: On | None = None, name: str | None = None) -> WideTable:
        """A wide table with one more relation, which reuses every message of this one.

        `table` is what `JoinGraph.add_relation` takes, or a `Joinable`. `on` is a column, a list of columns, or
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
        added = joinable(self.schema, self.engine, table, on, name)
        return WideTable(self.branch.extended(*augmented(self.schema, self.tree, added)))

    def keyed(self, columns: Sequence[str]) -> WideTable:
        """A wide table with an empty bag for these columns, which may be of several relations.

        Relations that are added on them later stand beside it, and share the message that arrives
        there.
        """
        tree = keyed(self.schema, self.tree, columns)
        return WideTable(self.branch.extended(self.schema, tree))

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
        return WideTable(suppose(self.branch, delete=delete, update=update, insert=insert))

    def commit(self) -> int:
        """Make a what-if true: the number of the new version of what it was made of."""
        return self.branch.commit()

    # -- keeping fresh ---------------------------------------------------------------------------

    def refresh(
        self, progress: Progress | bool | None = None, background: bool = False
    ) -> Plan | Future[Plan]:
        """Bring every message of the pivot up to date, and tell how.

        Those that were never passed are computed, those that are stale take what has changed. In the
        `background` it returns at once; queries need not wait for it.
        """
        if not background:
            return self.branch.refresh(progress)
        pool = ThreadPoolExecutor(1, "calitree-refresh")
        done = pool.submit(self.branch.refresh, False)
        pool.shutdown(wait=False)
        return done

    @property
    def is_calibrated(self) -> bool:
        """Whether the messages of the pivot, and of those of cubes, are all there and up to date, in
        both directions.
        """
        return is_calibrated(self.snapshot)

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
        intake = Intake(self.branch, self.saved, relation, change)
        return stream(intake, source, checkpoint, every)

    # -- saving ----------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str] | None = None, copy_below: int = COPY_BELOW) -> int:
        """Save to a directory, or to the next version of one, and tell the version's number. Without
        a path, that is where it was saved or opened last.

        Messages are written, and what is there already is not written again: of a relation that was
        updated, only the rows that came and went. So are relations that are in this process or have
        no more than `copy_below` bytes; of larger ones it is noted where their rows are.
        `calitree.open` opens the directory, here or elsewhere, and with another engine if wanted.

        If others have saved there since this tree was, it takes over what they changed, as `reload`
        does. It is a `ConflictError` if the same relation has changed on both sides.
        """
        if self.branch.is_past:  # it does not come from where the tree is by now
            self.saved = Saves(self.saved.last)
        return save(self.branch, self.saved, path, copy_below)

    def reload(self) -> int:
        """Take over what others have saved where this tree was saved or opened last; the number of
        the version that this makes here.

        Relations that changed there are as they are there, and what was updated here stays. It is a
        `ConflictError` if the same relation has changed on both sides.
        """
        return reload(self.branch, self.saved)

    def __repr__(self) -> str:
        store = self.state.store
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
