"""What it takes to be an engine: one verb, `contract`, and a few more for updates, saved trees and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

Watch = Callable[[float], None]
"""Called now and then with the part of the work that is done, between 0 and 1."""


class Engine(Protocol):
    """What it takes to be an engine."""

    name: str

    def load(self, name: str, source: Any) -> Table:
        """Take a source (Arrow table, frame, path, …) as a base relation; cheap, reads the schema
        only.
        """

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> Sequence[Table]:
        """Compute every output, in order. Long work may tell `watch` how far it has come."""

    def how(self, contraction: Contraction) -> str:
        """In which way it computes this, and why; nothing if it has but one. Messages that are not
        there yet are left out of the inputs.
        """

    def arrow(self, table: Table) -> pa.Table:
        """The whole table in this process; sums of decimals come back as decimals."""


class Updatable(Engine, Protocol):
    """An engine whose relations can change.

    A relation that has changed is a formal sum of tables (`signed.Signed`), which no engine ever sees:
    contractions are linear, so each part is contracted by itself.
    """

    def schema(self, table: Table) -> pa.Schema:
        """The columns of a relation with their Arrow types."""

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> Table | None:
        """The ⊕-sum of results of this output, less (⊖) those in `minus`, as one result of it.

        `rows` names its column that counts rows; groups where that comes to 0 are gone. It is given
        wherever there is a `minus`, and then every column's semiring has ⊖. None if floating-point
        digits would be lost: a sum is not finite, or is less than a hundredth of what was
        subtracted to get it.
        """

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> Table:
        """A relation of all rows of the relations in `plus` less those in `minus`, one for one.

        NULL is a value here like any other. All have the same columns.
        """

    def select(self, relation: Input, where: Expression) -> Table:
        """A relation of the rows for which a condition over attributes is true."""

    def matching(self, table: Table, rows: pa.Table) -> Table:
        """A relation of the rows that equal some row of `rows` on all columns which that has.

        NULL equals NULL here. The columns of `rows` have the types that `schema` tells.
        """

    def apart(self, table: Table, keys: Table) -> Table:
        """A result without its rows whose attributes agree with some row of `keys`, a result
        without columns that keeps some of the same attributes. NULL agrees with NULL.
        """


@runtime_checkable
class Persistent(Protocol):
    """An engine whose tables can be saved and come back."""

    def origin(self, table: Table) -> Origin:
        """Where the rows of a relation come from."""

    def write(self, table: Table, path: str) -> SavedMessage:
        """Write a message to a new file, or directory of files, at this path or URL."""

    def restore(self, saved: SavedMessage | SavedRelation) -> Table:
        """The table, of which nothing is read until it is needed."""


class SparkBacked(Engine, Protocol):
    """An engine that has tables on Spark, and can run plain SQL there."""

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""

    def result_frame(self, table: Table, formulas: Mapping[str, exp.Expr]) -> DataFrame | None:
        """A frame with one column for each formula over the table's columns; None if the table is
        in this process.
        """

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """Whether any of these is not in this process."""

    def materialise(self, sql: str, tables: Mapping[str, Table]) -> Table:
        """The result of plain SQL as a table."""

    def query(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        """The answer to plain SQL over `tables` by these names."""

    def fix(self, source: DataFrame) -> pa.Table | Table:
        """The rows of a frame as they are now: in this process if they are few."""


def on_spark(engine: Engine) -> SparkBacked | None:
    """The engine, if it is one that speaks Spark."""
    return cast(SparkBacked, engine) if hasattr(type(engine), "materialise") else None


UPDATES = ("schema", "add", "settle", "select", "matching", "apart")


def updatable(engine: Engine) -> Updatable:
    """The engine, if its relations can change."""
    lacking = _lacking(type(engine))
    if lacking:
        raise EngineError(
            f"Relations of the {engine.name} engine cannot be updated: it lacks {', '.join(lacking)}."
        )
    return cast(Updatable, engine)


@cache
def _lacking(engine: type) -> tuple[str, ...]:
    return tuple(verb for verb in UPDATES if not hasattr(engine, verb))
