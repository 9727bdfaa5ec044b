"""An engine made of two: what is small is computed in this process, what is large on Spark.

    graph = JoinGraph()                                    # the default where PySpark is installed
    graph.add_relation("sales", "data/sales/*.parquet")   # large: read by Spark's tasks
    graph.add_relation("stores", stores_frame)             # small: here
    graph.add_relation("items", "catalogue.items")        # a Spark table: comes here if it is small

A table is either in this process or on Spark. Messages are small, so they come home, and a question
that needs no large relation never calls Spark. What is larger than a limit stays on Spark, and is
never collected. Spark is started when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.hybrid import updates as changes
from calitree.engines.hybrid.driver import Scan, Tasks
from calitree.engines.hybrid.routing import Limits, Part, Place, Route, Way, route_of
from calitree.engines.hybrid.transfer import from_spark, to_spark
from calitree.engines.local import LocalEngine
from calitree.engines.local.tables.lazy import LazyColumns
from calitree.engines.local.tables.tables import EncodedMessage, EncodedRelation
from calitree.engines.spark import SparkEngine
from calitree.engines.spark.table import SparkTable
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.storage.files import is_parquet
from calitree.storage.filesystem import filesystem_of
from calitree.storage.frames import files_of
from calitree.storage.parquet import ParquetColumns
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

DEFAULTS = Limits()

BY_SQL = "too large to come home, so by Spark SQL"
"""What a plan says of messages that tasks did not send."""


class HybridEngine:
    """The `Engine` protocol over a local engine and Spark.

    `in_process` is how many bytes a relation may have to be held here (what is given as an object
    of this process is here in any case), `broadcast` how many bytes of messages go along with
    tasks, `collect` how many bytes a message or result may have to come home.
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
        self.local = LocalEngine()
        self.spark = SparkEngine(session)
        self.tasks = Tasks(self.local, self.spark.runtime.jobs, collect)
        self._brought = WeakKeyDictionary[SparkTable, EncodedRelation | EncodedMessage]()
        self._sent = WeakKeyDictionary[EncodedRelation | EncodedMessage, SparkTable]()
        self._routes = WeakKeyDictionary[Contraction, tuple[Contraction | None, Route]]()
        """The way each contraction goes, and what it is with all that is small at home, if that is
        another one: what holds its own key would never go.
        """
        self._too_large = WeakKeyDictionary[Table, set[tuple[str, ...]]]()
        """By relation: what its messages are by that turned out too large to come home."""

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""
        return self.spark.session

    # -- the protocol ----------------------------------------------------------------------------

    def load(self, name: str, source: Any) -> EncodedRelation | SparkTable:
        if getattr(source, "sparkSession", None) is not None:
            return self.spark.load(name, source)
        files = files_of(source)
        if files is None:
            if isinstance(source, str):
                return self.spark.load(name, source)
        elif not is_parquet(files) and _size(files) > self.limits.in_process:
            return self.spark.load(name, source)
        return self.local.load(name, source)

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> list[Table]:
        """Here if everything is; else in Spark's tasks if they can, and by Spark SQL if not."""
        near, route = self._routed(contraction)
        if route.way is Way.HERE:
            return list(self.local.contract(near))
        if route.scanned is None:
            return self._by_sql(near, watch)
        scan = Scan(near, route.scanned)
        if route.way is Way.SELECTED:
            return list(self.local.contract(scan.here(self.local)))
        made = self._in_tasks(scan, watch)
        large = sum(output.keep in self._too_large[scan.table] for output in near.outputs)
        if large and BY_SQL not in route.why:
            why = f"{route.why}; {large} of {len(made)} {BY_SQL}"
            moved = None if near is contraction else near
            self._routes[contraction] = moved, replace(route, why=why)
        return made

    def how(self, contraction: Contraction) -> str:
        """Where this is computed, and why."""
        return str(self._routed(contraction)[1])

    def arrow(self, table: Table) -> pa.Table:
        if not isinstance(table, SparkTable):
            return self.local.arrow(table)
        if table.nbytes > self.limits.collect:
            raise EngineError(
                f"This has {table.rows:,} rows, some {table.nbytes >> 20:,} MB: more than the "
                f"{self.limits.collect >> 20:,} MB that may come to this process. Take it with "
                ".spark(), or raise the limit: JoinGraph(HybridEngine(collect=...))."
            )
        return self.spark.arrow(table)

    # -- updates ---------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        return self._of(table).schema(table)

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> Table | None:
        return changes.add(self, output, plus, minus, rows)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> Table:
        return changes.settle(self, plus, minus)

    def select(self, relation: Input, where: Expression) -> Table:
        return changes.select(self, relation, where)

    def matching(self, table: Table, rows: pa.Table) -> Table:
        return changes.matching(self, table, rows)

    def apart(self, table: Table, keys: Table) -> Table:
        return changes.apart(self, table, keys)

    def fix(self, source: DataFrame) -> pa.Table | Table:
        """The rows that a frame has now: in this process if they are few, else on Spark."""
        return changes.fix(self, source)

    # -- saved trees -----------------------------------------------------------------------------

    def origin(self, table: Table) -> Origin:
        return self._of(table).origin(table)

    def write(self, table: Table, path: str) -> SavedMessage:
        return self._of(table).write(table, path)

    def restore(self, saved: SavedMessage | SavedRelation) -> Table:
        """Here, but for what only Spark can read or is too large."""
        if isinstance(saved, SavedMessage):
            on_spark = saved.nbytes > self.limits.collect
        else:
            files = [file.path for file in saved.source.files]
            large = saved.nbytes > self.limits.in_process and not is_parquet(files)
            on_spark = saved.source.place == "table" or large
        return self.spark.restore(saved) if on_spark else self.local.restore(saved)

    def _of(self, table: Table) -> SparkEngine | LocalEngine:
        return self.spark if isinstance(table, SparkTable) else self.local

    # -- for those who speak Spark ---------------------------------------------------------------

    def result_frame(self, table: Table, formulas: Mapping[str, exp.Expr]) -> DataFrame | None:
        """A frame with one column for each formula, if the table is on Spark."""
        return self.spark.result_frame(table, formulas) if isinstance(table, SparkTable) else None

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """Whether any of these is not in this process."""
        return any(self._part(table).place is not Place.HERE for table in tables)

    def materialise(self, sql: str, tables: Mapping[str, Table]) -> SparkTable:
        """The result of plain SQL as a table on Spark."""
        return self.spark.materialise(sql, {n: self.there(table) for n, table in tables.items()})

    def query(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        """The answer to plain SQL over `tables`, by Spark."""
        return self.spark.query(sql, {n: self.there(table) for n, table in tables.items()})

    # -- where things are ------------------------------------------------------------------------

    def _routed(self, contraction: Contraction) -> tuple[Contraction, Route]:
        """The contraction with all that is small at home, and the way it goes."""
        known = self._routes.get(contraction)
        if known is None:
            inputs = [replace(each, table=self.nearest(each.table)) for each in contraction.inputs]
            parts = [self._part(each.table) for each in inputs]
            moved = any(
                a.table is not b.table for a, b in zip(inputs, contraction.inputs, strict=True)
            )
            near = Contraction(tuple(inputs), contraction.outputs) if moved else contraction
            away = [at for at, part in enumerate(parts) if part.place is not Place.HERE]
            columns = len(Scan(near, away[0]).attributes) if away else 0
            route = route_of(parts, len(contraction.outputs), columns, self.limits)
            if route.way is Way.SPLITS:
                route = self._selected(near, route)
            self._routes[contraction] = near if moved else None, route
            return near, route
        moved_there, route = known
        return moved_there or contraction, route

    def _selected(self, contraction: Contraction, route: Route) -> Route:
        """If filters leave so few row groups that they fit here, they need no Spark."""
        assert route.scanned is not None
        scan = Scan(contraction, route.scanned)
        chosen = scan.chosen
        if not chosen.skipped_rows:
            return route
        why = f"{chosen} of {scan.columns.name}, {chosen.rows:,} rows"
        part = chosen.rows / scan.columns.rows * scan.columns.decoded_bytes
        way = Way.SELECTED if part <= self.limits.in_process else Way.SPLITS
        return replace(route, way=way, why=why)

    def nearest(self, table: Table) -> Table:
        """The table in this process, if it is or can be; else where it is."""
        if not isinstance(table, SparkTable):
            return table
        relation = table.key is None
        if table.nbytes > (self.limits.in_process if relation else self.limits.collect):
            return table
        if table not in self._brought:
            self._brought[table] = self._brought_home(table)
        return self._brought[table]

    def home(self, table: SparkTable) -> Table:
        """What Spark has computed, in this process if it is not too large."""
        return self._brought_home(table) if table.nbytes <= self.limits.collect else table

    def _brought_home(self, table: SparkTable) -> EncodedRelation | EncodedMessage:
        return from_spark(self.local.book, table, table.collected())

    def _part(self, table: Table) -> Part:
        if isinstance(table, SparkTable):
            return Part(Place.SPARK, table.key is None, table.label, table.rows, table.nbytes)
        if not isinstance(table, EncodedRelation):
            return Part(Place.HERE, False, "a message here", table.rows, table.nbytes)
        columns = table.columns
        if isinstance(columns, ParquetColumns | LazyColumns):
            size = columns.decoded_bytes
            copied = isinstance(columns, LazyColumns) and columns.is_copied
            place = Place.FILES if size > self.limits.in_process and not copied else Place.HERE
            return Part(place, True, columns.name, columns.rows, size)
        return Part(Place.HERE, True, "a relation here", table.rows, table.nbytes)

    def there(self, table: Table) -> SparkTable:
        """The table on Spark."""
        if isinstance(table, SparkTable):
            return table
        assert isinstance(table, EncodedRelation | EncodedMessage)
        if table not in self._sent:
            self._sent[table] = to_spark(self.spark, table)
        return self._sent[table]

    # -- computing -------------------------------------------------------------------------------

    def _in_tasks(self, scan: Scan, watch: Watch | None) -> list[Table]:
        """All outputs in one pass, but for those that are known to be too large for it."""
        outputs = scan.contraction.outputs
        beyond = self._too_large.setdefault(scan.table, set())
        tried = [output for output in outputs if output.keep not in beyond]
        found: dict[Output, EncodedMessage] = {}
        if tried:
            fewer = Scan(replace(scan.contraction, outputs=tuple(tried)), scan.relation)
            made = self.tasks.contract(self.session, fewer, watch)
            found = {o: m for o, m in zip(tried, made, strict=True) if m is not None}
            beyond.update(output.keep for output in tried if output not in found)
        rest = tuple(output for output in outputs if output not in found)
        by_sql: dict[Output, Table] = {}
        if rest:
            made_there = self._by_sql(replace(scan.contraction, outputs=rest), watch)
            by_sql = dict(zip(rest, made_there, strict=True))
        return [found[each] if each in found else by_sql[each] for each in outputs]

    def _by_sql(self, contraction: Contraction, watch: Watch | None) -> list[Table]:
        """One query an output; what is small comes home."""
        used = {at for output in contraction.outputs for at in output.inputs}
        inputs = tuple(
            Input(self.there(each.table), each.attributes) if at in used else each
            for at, each in enumerate(contraction.inputs)
        )
        made = self.spark.contract(Contraction(inputs, contraction.outputs), watch)
        return [self.home(table) for table in made]


def _size(files: Iterable[str]) -> int:
    found = (system.get_file_info(path) for system, path in map(filesystem_of, files))
    return sum(each.size or 0 for each in found)
