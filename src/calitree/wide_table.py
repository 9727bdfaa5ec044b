"""The wide table: the join of all relations, never materialised, that can be queried.

A façade. A `Branch` has the versions, each an immutable `Snapshot`, over what they all share
(`TreeState`); the work is done by functions of these. Applications are added to it by those who have
them (see `calitree.application`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from typing import Any, ClassVar

from calitree.calibration.planning.plan import Plan
from calitree.dml import suppose, update
from calitree.dml.target import Columns
from calitree.jointree.augment import augmented, joinable, keyed
from calitree.jointree.joins.checks import On
from calitree.progress import Progress
from calitree.query.binder import Measures, Question
from calitree.query.groups import GroupBy
from calitree.results.diff import Difference
from calitree.saved.location import Saves
from calitree.saved.rebase import reload
from calitree.saved.writer import COPY_BELOW, save
from calitree.stream import Intake, Stream, stream
from calitree.tree_view import TreeView


class WideTable(TreeView):
    """The join of all relations, never materialised, that can be queried.

    `JoinGraph.calibrate` makes one, and `calitree.open` opens one that was saved.

    Example:
        >>> from calitree import JoinGraph
        >>> graph = JoinGraph(engine="local")
        >>> graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
        >>> graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
        >>> graph.add_join("sales", "stores", on={"store": "id"})
        >>> wide = graph.calibrate({"revenue": "sum(price)"})
        >>> wide.query(["city"]).rows()
        [{'city': 'Quito', 'revenue': 30}, {'city': 'Cuenca', 'revenue': 5}]
    """

    # Applications, which `calitree.apps` adds.
    cube: ClassVar[Callable[..., Any]]
    explain_change: ClassVar[Callable[..., Any]]
    linear_regression: ClassVar[Callable[..., Any]]
    search: ClassVar[Callable[..., Any]]
    verify: ClassVar[Callable[..., Any]]
    why: ClassVar[Callable[..., Any]]

    def update(
        self,
        relation: str,
        insert: Any = None,
        delete: Any = None,
        upsert: Any = None,
        key: Columns | None = None,
    ) -> int:
        """Change the rows of a relation.

        Rows are an Arrow table, a pandas, polars or Spark frame, a list of dictionaries, or columns by
        name. They are deleted first, then upserted, then inserted.

        Args:
            relation: The name of the relation.
            insert: Rows to insert.
            delete: A condition in SQL, or rows. One row is deleted for each that is given whole; given
                some columns only, all rows that have these values.
            upsert: Rows to put in place of those with the same key.
            key: The columns that tell rows apart; by default those of the one join that does.

        Returns:
            The number of the new version.

        Raises:
            UpdateError: If a row to delete is not there, rows do not fit the relation, or this is an
                earlier version.

        Example:
            >>> wide.update("sales", insert=[{"store": 2, "price": 7}], delete="price > 15")
            1
            >>> wide.query(["city"]).rows()
            [{'city': 'Quito', 'revenue': 10}, {'city': 'Cuenca', 'revenue': 12}]
        """
        return update(self.branch, relation, insert=insert, delete=delete, upsert=upsert, key=key)

    def at(self, version: int) -> WideTable:
        """Return the tree as it was at a version; updates do not change it.

        Args:
            version: One of `versions`.

        Returns:
            A wide table that shares all messages with this one.

        Raises:
            UpdateError: If there is no such version, or not any more.

        Example:
            >>> wide.update("sales", delete="price > 15")
            1
            >>> wide.at(0).query().rows(), wide.query().rows()
            ([{'revenue': 35}], [{'revenue': 15}])
        """
        return WideTable(self.branch.at(version), self.saved)

    def diff(
        self,
        before: int,
        after: int,
        group_by: GroupBy = (),
        where: str | None = None,
        measures: Measures | None = None,
        *,
        relations: Sequence[str] | None = None,
    ) -> Difference:
        """Compare the answers to a query at two versions.

        Args:
            before: The number of a version.
            after: The number of another.
            group_by: As for `query`.
            where: As for `query`.
            measures: As for `query`.
            relations: As for `query`.

        Returns:
            The groups that are not the same.

        Raises:
            UpdateError: If there is no such version.
            QueryError: As `query` does.

        Example:
            >>> wide.update("sales", delete="price > 15")
            1
            >>> wide.diff(0, 1, group_by=["city"]).rows()
            [{'city': 'Quito', 'revenue_before': 30, 'revenue_after': 10, 'revenue_change': -20}]
        """
        then, now = self.at(before), self.at(after)
        question = Question(group_by, where, measures, relations)
        return Difference(lambda asked: (then.ask(asked), now.ask(asked)), question)

    def augment(self, table: Any, on: On | None = None, name: str | None = None) -> WideTable:
        """Join one more relation, and reuse every message of this tree.

        Nothing is computed yet: a query passes the messages that it needs. Updates of this table do
        not reach the new one.

        Args:
            table: What `JoinGraph.add_relation` takes, or a `Joinable`.
            on: A column, a list of columns, or `{column here: column of the table}`; they may be of
                several relations. By default the columns named as those that relations here join on. A
                bare name joins all relations that have it, `relation.column` that one.
            name: The name of the new relation.

        Returns:
            A wide table with the new relation. Names that this table knows mean what they do here.

        Raises:
            SchemaError: If the table cannot be joined so.

        Example:
            >>> cities = {"city": ["Quito", "Cuenca"], "altitude": [2850, 2560]}
            >>> wide.augment(cities, on="city", name="cities").query(where="altitude > 2600").rows()
            [{'revenue': 30}]
        """
        added = joinable(self.schema, self.engine, table, on, name)
        return WideTable(self.branch.extended(*augmented(self.schema, self.tree, added)))

    def keyed(self, columns: Sequence[str]) -> WideTable:
        """Add an empty bag for columns, which may be of several relations.

        Relations that are augmented on them afterwards share the message to this bag.

        Args:
            columns: The columns of the bag.

        Returns:
            A wide table with the bag.

        Raises:
            SchemaError: If there is no such column.

        Example:
            >>> len(wide.keyed(["store", "city"]).tree.bags)
            3
        """
        return WideTable(self.branch.extended(self.schema, keyed(self.schema, self.tree, columns)))

    def what_if(
        self,
        delete: Mapping[str, Any] | None = None,
        insert: Mapping[str, Any] | None = None,
        update: Mapping[str, Any] | None = None,
    ) -> WideTable:
        """Return the tree as it would be after changes, which nobody else sees.

        Args:
            delete: `{relation: what to delete}`, as `update` takes it.
            insert: `{relation: rows}`.
            update: `{relation: rows}` to put in place of those with the same key; or
                `{relation: {column: expression}}`, or `{relation: ({column: expression}, condition)}`.

        Returns:
            A wide table that shares all messages with this one. `commit` makes its changes to this one.

        Raises:
            UpdateError: As `update` does.

        Example:
            >>> cheaper = wide.what_if(update={"sales": ({"price": "price - 1"}, "store = 1")})
            >>> cheaper.query().rows()
            [{'revenue': 33}]
        """
        return WideTable(suppose(self.branch, delete=delete, update=update, insert=insert))

    def commit(self) -> int:
        """Make the changes of a what-if to the tree that it was made of.

        Returns:
            The number of the new version of that tree.

        Raises:
            UpdateError: If this is no what-if.
            ConflictError: If a relation has changed in both.

        Example:
            >>> wide.what_if(delete={"sales": "price > 15"}).commit()
            1
        """
        return self.branch.commit()

    def refresh(
        self, progress: Progress | bool | None = None, background: bool = False
    ) -> Plan | Future[Plan]:
        """Bring all messages of the pivot up to date.

        Args:
            progress: Whether to show progress, or what to call with it.
            background: Whether to return at once. Queries need not wait for it.

        Returns:
            Which messages were refreshed and computed; in the background, its future.

        Raises:
            EngineError: If a message cannot be computed.

        Example:
            >>> wide.update("sales", delete="price > 15")
            1
            >>> wide.refresh().computed
            ()
        """
        if not background:
            return self.branch.refresh(progress)
        pool = ThreadPoolExecutor(1, "calitree-refresh")
        done = pool.submit(self.branch.refresh, False)
        pool.shutdown(wait=False)
        return done

    def stream(
        self,
        relation: str,
        source: Any,
        *,
        checkpoint: str | PathLike[str] | None = None,
        every: float | None = None,
        change: str | None = None,
    ) -> Stream:
        """Start a stream of rows into a relation; each batch is one version.

        A saved tree is saved with each batch. A batch that is delivered again is recognised.

        Args:
            relation: The name of the relation.
            source: A streaming Spark frame, or a directory into which Parquet or CSV files are moved.
                A file is known by its name for as long as it is in the directory, so give new files
                new names; it may be removed once it was read.
            checkpoint: Spark's; by default it is beside the saved tree.
            every: The seconds between two batches, or two listings of the directory.
            change: A column that says whether to insert a row (1, 'insert') or delete it (-1,
                'delete').

        Returns:
            The running stream.

        Raises:
            UpdateError: If the source is neither, or this is an earlier version or a what-if.

        Example:
            >>> from pathlib import Path
            >>> Path("incoming").mkdir()
            >>> wide.stream("sales", "incoming", every=0.5).stop()
        """
        intake = Intake(self.branch, self.saved, relation, change)
        return stream(intake, source, checkpoint, every)

    def save(self, path: str | PathLike[str] | None = None, copy_below: int = COPY_BELOW) -> int:
        """Save the tree to a directory, as its next version.

        What is there already is not written again: of a relation that was updated, only the rows that
        changed are. What others have saved there since is taken over, as `reload` does.

        Args:
            path: A directory or URL; by default where the tree was saved or opened last.
            copy_below: The bytes up to which a relation that is in files is copied; of larger ones it
                is noted where their rows are.

        Returns:
            The number of the saved version.

        Raises:
            SavedError: If the directory cannot be written to, or the tree cannot be saved.
            ConflictError: If a relation has changed both there and here.

        Example:
            >>> wide.save("tree")
            1
            >>> import calitree
            >>> calitree.open("tree", engine="local").query().rows()
            [{'revenue': 35}]
        """
        if self.branch.is_past:  # it does not come from where the tree is by now
            self.saved = Saves(self.saved.last, self.saved.allowed)
        return save(self.branch, self.saved, path, copy_below)

    def reload(self) -> int:
        """Take over what others have saved where this tree was saved or opened last.

        Relations that changed there are as they are there, and what was updated here stays.

        Returns:
            The number of the version that this makes here.

        Raises:
            SavedError: If the tree was neither saved nor opened.
            ConflictError: If a relation has changed both there and here.

        Example:
            >>> wide.save("shared")
            1
            >>> wide.reload()
            0
        """
        return reload(self.branch, self.saved)
