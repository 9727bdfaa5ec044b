"""The read side of a wide table: what its tree consists of, and queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from calitree.calibration.branch import Branch
from calitree.calibration.calibrate import is_calibrated
from calitree.calibration.executor import answer, plan
from calitree.calibration.planning.plan import Plan
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import Mode, TreeState
from calitree.engines.api.protocol import Engine, on_spark
from calitree.engines.registry import CLASSES, engine_of
from calitree.errors import STACK_USED_UP, QueryError, unpicklable
from calitree.integrity import GraphCheck, check_graph
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Schema
from calitree.memory.report import Holding, Memory
from calitree.progress import Progress
from calitree.query.binder import MeasureLike, Measures, Question
from calitree.query.groups import GroupBy
from calitree.results.asked import Asked
from calitree.results.result import Result
from calitree.saved.location import Saves, unchanged_since
from calitree.saved.reader import read_tree


def _opened(kind: type[TreeView], directory: str, version: int, engine: str) -> TreeView:
    """A tree that was pickled."""
    return kind(*read_tree(directory, engine_of(engine), version))


class TreeView:
    """A tree that can be queried, at the newest version of a branch."""

    def __init__(self, branch: Branch, saved: Saves | None = None) -> None:
        self.branch = branch
        """Its versions."""
        self.saved = Saves() if saved is None else saved
        """Where it was saved, or opened from."""

    def __reduce__(self) -> tuple[Any, ...]:
        """A tree is pickled as where it was saved, and opened there again."""
        version = unchanged_since(self.branch, self.saved)
        if version is None or self.engine.name not in CLASSES:
            raise unpicklable("A tree that was not saved, or was updated since,")
        return _opened, (type(self), version.directory, version.number, self.engine.name)

    def __copy__(self) -> Self:
        return type(self)(self.branch, self.saved)

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
        """The relations as they are now.

        Example:
            >>> list(wide.schema.relations)
            ['sales', 'stores']
        """
        return self.snapshot.schema

    @property
    def engine(self) -> Engine:
        """The engine that computes."""
        return self.state.engine

    @property
    def tree(self) -> Hypertree:
        """The junction hypertree."""
        return self.state.tree

    @property
    def measures(self) -> dict[str, MeasureLike]:
        """The measures that can be asked for by name.

        Example:
            >>> wide.measures
            {'revenue': 'sum(price)'}
        """
        return self.state.measures

    @property
    def pivot(self) -> Question:
        """The group-by and filter that the tree was calibrated for."""
        return self.state.pivot

    @property
    def maintenance(self) -> Mode:
        """What happens to messages when relations are updated; see `JoinGraph.calibrate`.

        Example:
            >>> wide.maintenance = "eager"
            >>> wide.maintenance
            'eager'
        """
        return self.state.maintenance

    @maintenance.setter
    def maintenance(self, mode: Mode) -> None:
        self.state.maintain(mode)

    @property
    def calibration(self) -> Plan | None:
        """How the messages were last brought up to date; `print` shows it."""
        return self.branch.calibration

    @property
    def is_calibrated(self) -> bool:
        """Whether all messages of the pivot, and of cubes, are there and up to date, in both directions.

        Example:
            >>> wide.is_calibrated
            True
        """
        return is_calibrated(self.snapshot)

    @property
    def version(self) -> int:
        """The number of this version: 0 at first, one more with each update."""
        return self.snapshot.number

    @property
    def versions(self) -> range:
        """The numbers of the versions that `WideTable.at` can return.

        Example:
            >>> wide.update("sales", delete="price > 15")
            1
            >>> list(wide.versions)
            [0, 1]
        """
        return self.branch.versions

    def memory(self) -> Memory:
        """Tell who holds what in memory.

        Whatever is kept to be used again counts into one budget, that of all trees on this engine, of the
        largest `memory_limit` among them.

        Returns:
            What is kept, by kind, and what the data itself takes; `print` shows it.

        Example:
            >>> [holding.kind for holding in wide.memory().data]
            ['relations', 'messages of pivots', 'dictionaries']
        """
        store, spark = self.state.store, on_spark(self.engine)
        tables = [
            relation.table
            for relation in self.schema.relations.values()
            if spark is None or not spark.is_on_spark((relation.table,))
        ]
        data = [
            Holding("relations", len(tables), sum(table.nbytes for table in tables)),
            Holding("messages of pivots", len(store.pinned), store.pinned_bytes),
        ]
        budget = store.budget
        budget.trim()
        return Memory(budget.limit, budget.holdings, (*data, *budget.data()))

    def check(self, progress: Progress | bool | None = None) -> GraphCheck:
        """Look for flaws of the joins, as `JoinGraph.check` does, in the relations as they are now.

        Args:
            progress: As for `JoinGraph.calibrate`.

        Returns:
            Counts for each join, and findings; `print` shows them.

        Raises:
            EngineError: A relation cannot be read.

        Example:
            >>> version = wide.update("stores", delete="city = 'Quito'")
            >>> [(finding.kind, finding.rows) for finding in wide.check().findings]
            [('orphans', 2)]
        """
        return check_graph(self.engine, self.schema, self.tree, progress)

    def query(
        self,
        group_by: GroupBy = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Result:
        """Answer a query on the join, as SQL would.

        The group-by and filter of the pivot are not inherited.

        Args:
            group_by: Columns (`city`, `stores.city`) and expressions (`month(day)`), in a list or as
                `{name: expression}`. Columns of the result are called as they are written, or by name.
            where: A condition in SQL.
            measures: Names of the pivot's measures, or `{name: expression}`; by default all of the
                pivot's.
            relations: The relations to join; by default all. Joined is what is declared between these
                by `JoinGraph.add_join`: columns that are equal only through a relation left out may
                differ, and are then written as `relation.column`. Declare `a.t = c.t` too if that is to
                hold without b, which both join.

        Returns:
            The answer; it is converted when it is first read.

        Raises:
            QueryError: If the query names what is not there, or cannot be answered; also if no declared
                joins connect the relations.
            ExpressionError: If an expression cannot be parsed or typed.

        Example:
            >>> wide.query(where="city = 'Quito'", measures={"n": "count(*)"}).rows()
            [{'n': 2}]
        """
        return self.ask(Question(group_by, where, measures, relations))

    def ask(self, question: Question) -> Result:
        """Answer a question that is given as one value.

        Args:
            question: The arguments of `query`.

        Returns:
            The answer.

        Raises:
            QueryError: As `query` does.

        Example:
            >>> from calitree import Question
            >>> wide.ask(Question(group_by=["store"])).rows()
            [{'store': 1, 'revenue': 30}, {'store': 2, 'revenue': 5}]
        """
        head, is_main = self.branch.head, self.branch.is_main

        def ask(asked: Question) -> Result:
            answered = answer(head, asked, is_main)
            return Result(head.state.engine, answered, Asked(head, asked, ask))

        try:
            return ask(question)
        except RecursionError:
            raise QueryError(STACK_USED_UP) from None

    def plan(
        self,
        group_by: GroupBy = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Plan:
        """Plan a query without running it.

        Args:
            group_by: As for `query`.
            where: As for `query`.
            measures: As for `query`.
            relations: As for `query`.

        Returns:
            Which messages `query` would reuse, refresh and compute; `print` shows it.

        Raises:
            QueryError: As `query` does.

        Example:
            >>> print(wide.plan(["city"]))
            root stores   reused 1 of 1 messages
            reuse   sales→stores
            absorb  stores         keep stores.city
        """
        return plan(self.snapshot, Question(group_by, where, measures, relations))

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
