"""The hybrid engine: what is small is computed in this process, what is large on Spark.

    graph = JoinGraph()                                    # the default where PySpark is installed
    graph.add_relation("sales", "data/sales/*.parquet")   # large: read by Spark's tasks
    graph.add_relation("stores", stores_frame)             # small: here
    graph.add_relation("items", "catalogue.items")        # a Spark table: comes here if it is small

A table is either in this process or on Spark. Messages are small, so they are collected, and a question
that needs no large relation never calls Spark. A table above a limit stays on Spark and is never
collected. Spark is started when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.hybrid.driver import SPLIT_ROWS, Tasks, TaskScan
from calitree.engines.hybrid.routing import Limits, Location, Route, Strategy, route_of
from calitree.engines.hybrid.selection import matching, select
from calitree.engines.hybrid.transfer import Transfers
from calitree.engines.local import LocalEngine
from calitree.engines.spark import SparkEngine
from calitree.engines.spark.jobs import calls_spark
from calitree.engines.spark.table import SparkTable
from calitree.errors import EngineError
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.sql.parser import Expression
from calitree.storage.files import is_parquet
from calitree.storage.filesystem import filesystem_of
from calitree.storage.frames import files_of
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

DEFAULTS = Limits()

BY_SQL = "too large to come home, so by Spark SQL"
"""What a plan says of messages that tasks did not return."""


ROUTE_BYTES = 2_000
"""A route, and the contraction with its inputs fetched."""


def _count_distinct(engine: HybridEngine, contraction: Contraction, value: str) -> Table | None:
    """The number of distinct values by group, if all inputs are here and one pass can tell."""
    near, route = engine._routed(contraction)
    here = route.strategy is Strategy.LOCAL
    return engine.local.count_distinct(near, value) if here else None


class HybridEngine:
    """The `Engine` protocol over a local engine and Spark, with every capability.

    Args:
        session: the Spark session; without one, the active one is used, or one is started.
        in_process: bytes up to which a relation is held in this process. A relation that is given
            as an object of this process is here in any case.
        broadcast: bytes of messages that are sent along with Spark's tasks.
        collect: bytes up to which a message or a result is collected from Spark.

    >>> HybridEngine().load("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]}).rows
    2
    """

    name = "hybrid"

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        in_process: int = DEFAULTS.in_process,
        broadcast: int = DEFAULTS.broadcast,
        collect: int = DEFAULTS.collect,
    ) -> None:
        self.limits = Limits(in_process, broadcast, collect)
        self.spark = SparkEngine(session)
        self._has_graph = False
        self._reset(SPLIT_ROWS)

    def _reset(self, split_rows: int) -> None:
        self.local = LocalEngine()
        self.budget: Budget = self.local.budget
        """What all that is kept in this process counts into."""
        self.tasks = Tasks(self.local, self.spark.runtime.jobs, self.limits.collect, split_rows)
        self.transfers = Transfers(self.local, self.spark, self.limits)
        self._routes = BudgetedCache[Contraction, tuple[Contraction | None, Route]](
            self.budget, "prepared", lambda _: ROUTE_BYTES, weak=True
        )
        """The route of each contraction, and the contraction with small tables fetched. That is None
        if it is the same one: a value that refers to its key would never be dropped.
        """
        self._too_large = WeakKeyDictionary[Table, set[tuple[str, ...]]]()
        """By relation: the attributes kept by those of its messages that were too large to collect."""

    def for_graph(self) -> HybridEngine:
        """The engine of one more join graph: this one for the first, then copies on the same Spark.

        The codes of a local engine belong to the attributes of one graph.
        """
        with self.spark.runtime.lock:
            if not self._has_graph:
                self._has_graph = True
                return self
        engine = copy(self)
        engine._reset(self.tasks.split)
        return engine

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""
        return self.spark.session

    # -- Engine ----------------------------------------------------------------------------------

    def load(self, name: str, source: Any) -> Table:
        """Frames and tables of Spark, and large files that are not Parquet, go to Spark."""
        files = files_of(source)
        if files is None:
            on_spark = isinstance(source, str) or hasattr(source, "sparkSession")
        else:
            on_spark = not is_parquet(files) and _size(files) > self.limits.in_process
        return self.spark.load(name, source) if on_spark else self.local.load(name, source)

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> list[Table]:
        """Compute it here if all inputs are here; else in Spark's tasks, or by Spark SQL."""
        near, route = self._routed(contraction)
        if route.strategy is Strategy.LOCAL:
            return list(self.local.contract(near))
        if route.scanned is None:
            return self._by_sql(near, watch)
        scan = TaskScan(near, route.scanned)
        if route.strategy is Strategy.LOCAL_PRUNED:
            return list(self.local.contract(scan.in_process(self.local)))
        tables = self._in_tasks(scan, watch)
        large = sum(output.keep in self._too_large[scan.table] for output in near.outputs)
        if large and BY_SQL not in route.why:
            why = f"{route.why}; {large} of {len(tables)} {BY_SQL}"
            moved = None if near is contraction else near
            self._routes.put(contraction, (moved, replace(route, why=why)))
        return tables

    count_distinct = _count_distinct

    def how(self, contraction: Contraction) -> str:
        """Where this is computed, and why."""
        return str(self._routed(contraction)[1])

    def arrow(self, table: Table) -> pa.Table:
        """The whole table in this process, unless it is larger than may be collected."""
        if not isinstance(table, SparkTable):
            return self.local.arrow(table)
        if table.nbytes > self.limits.collect:
            raise EngineError(
                f"This has {table.rows:,} rows, some {table.nbytes >> 20:,} MB: more than the "
                f"{self.limits.collect >> 20:,} MB that may come to this process. Take it with "
                ".spark(), or raise the limit: JoinGraph(HybridEngine(collect=...))."
            )
        return self.spark.arrow(table)

    # -- Updatable -------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        """The columns of a relation with their Arrow types."""
        return self._engine_of(table).schema(table)

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> Table | None:
        """The ⊕-sum of results less those in `minus`; None if digits would be lost."""
        engine, (plus, minus) = self.transfers.colocated(plus, minus)
        total = engine.add(output, plus, minus, rows)
        return None if total is None else self.transfers.fetch_result(total)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> Table:
        """The bag difference of relations; on Spark it is computed when it is used."""
        engine, (plus, minus) = self.transfers.colocated(plus, minus)
        return engine.settle(plus, minus)

    def select(self, relation: Input, where: Expression) -> Table:
        """The rows for which a condition is true."""
        return select(self.transfers, relation, where)

    def matching(self, table: Table, rows: pa.Table) -> Table:
        """The semi-join of a relation with `rows`."""
        return matching(self.transfers, table, rows)

    def apart(self, table: Table, keys: Table) -> Table:
        """The anti-join of a result with `keys`."""
        engine, ((table,), (keys,)) = self.transfers.colocated([table], [keys])
        return self.transfers.fetch_result(engine.apart(table, keys))

    # -- Persistent ------------------------------------------------------------------------------

    def origin(self, table: Table) -> Origin:
        """Where the rows of a relation are stored."""
        return self._engine_of(table).origin(table)

    def write(self, table: Table, path: str) -> SavedMessage:
        """Write a message to new files."""
        return self._engine_of(table).write(table, path)

    def restore(self, saved: SavedMessage | SavedRelation) -> Table:
        """A saved table: here, unless only Spark can read it or it is too large."""
        if isinstance(saved, SavedMessage):
            on_spark = saved.nbytes > self.limits.collect
        else:
            files = [file.path for file in saved.source.files]
            large = saved.nbytes > self.limits.in_process and not is_parquet(files)
            on_spark = saved.source.place == "table" or large
        return self.spark.restore(saved) if on_spark else self.local.restore(saved)

    def _engine_of(self, table: Table) -> SparkEngine | LocalEngine:
        return self.spark if isinstance(table, SparkTable) else self.local

    # -- SparkBacked -----------------------------------------------------------------------------

    def result_frame(self, table: Table, formulas: Mapping[str, exp.Expr]) -> DataFrame | None:
        """A frame with one column for each formula, if the table is on Spark."""
        return self.spark.result_frame(table, formulas) if isinstance(table, SparkTable) else None

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """Whether any of these tables is not in this process."""
        return self.transfers.is_on_spark(tables)

    def materialise(self, sql: str, tables: Mapping[str, Table]) -> SparkTable:
        """The result of plain SQL as a table on Spark."""
        return self.spark.materialise(sql, self._sent(tables))

    def query(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        """The answer of Spark to plain SQL over `tables`."""
        return self.spark.query(sql, self._sent(tables))

    def fix(self, source: DataFrame) -> pa.Table | Table:
        """A snapshot of the rows of a frame: in this process if they are few, else on Spark."""
        table = self.spark.fix(source)
        return self.arrow(table) if table.nbytes <= self.limits.collect else table

    def _sent(self, tables: Mapping[str, Table]) -> dict[str, SparkTable]:
        return {name: self.transfers.send(table) for name, table in tables.items()}

    # -- choosing a route ------------------------------------------------------------------------

    def _routed(self, contraction: Contraction) -> tuple[Contraction, Route]:
        """The contraction with small tables fetched, and its route; memoised."""
        known = self._routes.get(contraction)
        if known is None:
            inputs = tuple(given.moved(self.transfers.fetch_small) for given in contraction.inputs)
            pairs = zip(
                (table for near in inputs for table in near.tables),
                (table for given in contraction.inputs for table in given.tables),
                strict=True,
            )
            moved = None
            if any(near is not given for near, given in pairs):
                moved = Contraction(inputs, contraction.outputs)
            known = moved, self._route(moved or contraction)
            self._routes.put(contraction, known)
        moved, route = known
        return moved or contraction, route

    def _route(self, contraction: Contraction) -> Route:
        inputs = [self.transfers.stats(given.table) for given in contraction.inputs]
        inputs += [
            self.transfers.stats(t) for given in contraction.inputs for t in given.tables[1:]
        ]
        remote = [at for at, given in enumerate(inputs) if given.location is not Location.LOCAL]
        columns = len(TaskScan(contraction, remote[0]).attributes) if remote else 0
        route = route_of(inputs, len(contraction.outputs), columns, self.limits)
        if route.strategy is not Strategy.TASKS_ON_FILES:
            return route
        scan = TaskScan(contraction, remote[0])
        row_groups, files = scan.row_groups, scan.files
        if not row_groups.skipped_rows:
            return route
        nbytes = row_groups.rows / files.rows * files.decoded_bytes
        fits = nbytes <= self.limits.in_process
        strategy = Strategy.LOCAL_PRUNED if fits else route.strategy
        why = f"{row_groups} of {files.name}, {row_groups.rows:,} rows"
        return replace(route, strategy=strategy, why=why)

    # -- computing on Spark ----------------------------------------------------------------------

    @calls_spark
    def _in_tasks(self, scan: TaskScan, watch: Watch | None) -> list[Table]:
        """All outputs in one pass, but for those that are known to be too large for it."""
        outputs = scan.contraction.outputs
        too_large = self._too_large.setdefault(scan.table, set())
        tried = tuple(output for output in outputs if output.keep not in too_large)
        tables: dict[Output, Table] = {}
        if tried:
            smaller = TaskScan(replace(scan.contraction, outputs=tried), scan.relation)
            messages = self.tasks.contract(self.session, smaller, watch)
            tables = {o: m for o, m in zip(tried, messages, strict=True) if m is not None}
            too_large.update(output.keep for output in tried if output not in tables)
        rest = tuple(output for output in outputs if output not in tables)
        if rest:
            by_sql = self._by_sql(replace(scan.contraction, outputs=rest), watch)
            tables |= zip(rest, by_sql, strict=True)
        return [tables[output] for output in outputs]

    @calls_spark
    def _by_sql(self, contraction: Contraction, watch: Watch | None) -> list[Table]:
        """One query an output; small results are collected."""
        used = {at for output in contraction.outputs for at in output.inputs}
        inputs = tuple(
            given.moved(self.transfers.send) if at in used else given
            for at, given in enumerate(contraction.inputs)
        )
        results = self.spark.contract(Contraction(inputs, contraction.outputs), watch)
        return [self.transfers.fetch_result(table) for table in results]


def _size(files: Iterable[str]) -> int:
    infos = (system.get_file_info(path) for system, path in map(filesystem_of, files))
    return sum(info.size or 0 for info in infos)
