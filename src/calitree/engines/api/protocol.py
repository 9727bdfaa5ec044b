"""The interface of an engine: `Engine` for queries, and optional capabilities.

`Updatable` is for relations that change, `Persistent` for saved trees, `SparkBacked` for plain SQL on
Spark. An engine without them answers queries all the same. An engine may be used for several join
graphs; if that takes one object for each, it is `PerGraph`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable
from weakref import WeakKeyDictionary

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.errors import EngineError
from calitree.memory.budget import Budget
from calitree.sql.parser import Expression
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

Watch = Callable[[float], None]
"""Called now and then with the fraction of the work that is done, between 0 and 1."""


class Engine(Protocol):
    """What every engine must have: enough to calibrate trees and answer queries."""

    name: str

    def load(self, name: str, source: Any) -> Table:
        """A base relation from an Arrow table, a frame, a path, …; reads no more than the schema."""

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> Sequence[Table]:
        """Compute every output, in order; long work may report its progress to `watch`."""

    def how(self, contraction: Contraction) -> str:
        """Which of its strategies computes this, and why; empty if it has only one.

        Messages that are not computed yet are left out of the inputs.
        """

    def arrow(self, table: Table) -> pa.Table:
        """The whole table in this process; sums of decimals come back as decimals."""


class Updatable(Engine, Protocol):
    """An engine whose relations can change.

    A changed relation is a formal sum of tables (`signed.Signed`). Engines see only its summands:
    contractions are linear, so each one is contracted by itself.
    """

    def schema(self, table: Table) -> pa.Schema:
        """The columns of a relation with their Arrow types."""

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> Table | None:
        """The ⊕-sum of results of this output, less (⊖) those in `minus`, as one result of it.

        A table of `plus` may lack annotations that another one has: it adds their zero.
        `rows` names its column that counts rows; groups where the count is 0 are dropped. It is
        given wherever there is a `minus`, and then every column's semiring has ⊖. None if
        floating-point digits would be lost: a sum is not finite, or is less than a hundredth of
        what was subtracted to get it.
        """

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> Table:
        """The bag difference of the relations in `plus` and those in `minus`, as a relation.

        NULL equals NULL here. All have the same columns.
        """

    def select(self, relation: Input, where: Expression) -> Table:
        """A relation of the rows for which a condition over attributes is true."""

    def matching(self, table: Table, rows: pa.Table) -> Table:
        """The semi-join of a relation with `rows` on all columns of `rows`, as a relation.

        NULL equals NULL here. The columns of `rows` have the types that `schema` returns.
        """

    def apart(self, table: Table, keys: Table) -> Table:
        """The anti-join of a result with `keys` on all columns of `keys`.

        `keys` is a result without annotations that keeps some of the same attributes. NULL equals
        NULL here.
        """


DISTINCT = "distinct"
"""The column in which `CountsDistinct` has its counts."""


@runtime_checkable
class CountsDistinct(Engine, Protocol):
    """An engine that counts distinct values without listing them."""

    def count_distinct(self, contraction: Contraction, value: str) -> Table | None:
        """How many values other than NULL an attribute has, by the other attributes of the only output.

        The result has the groups that have some, and the column `distinct`. None if the engine had to
        list the values for it.
        """


@runtime_checkable
class Persistent(Protocol):
    """An engine whose tables can be saved and come back."""

    def origin(self, table: Table) -> Origin:
        """Where the rows of a relation are stored."""

    def write(self, table: Table, path: str) -> SavedMessage:
        """Write a message to a new file, or directory of files, at this path or URL."""

    def restore(self, saved: SavedMessage | SavedRelation) -> Table:
        """A saved table; nothing of it is read until it is needed."""


@runtime_checkable
class PerGraph(Protocol):
    """An engine that stores something by attribute names, of which every join graph has its own."""

    def for_graph(self) -> Engine:
        """The engine of one more join graph."""


class SparkBacked(Engine, Protocol):
    """An engine that has tables on Spark, and can run plain SQL there."""

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""

    def result_frame(self, table: Table, formulas: Mapping[str, exp.Expr]) -> DataFrame | None:
        """A frame with one column for each formula over the table's columns.

        None if the table is in this process.
        """

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """Whether any of these tables is not in this process."""

    def materialise(self, sql: str, tables: Mapping[str, Table]) -> Table:
        """The result of plain SQL as a table."""

    def query(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        """The answer to plain SQL over `tables`, which it knows by these names."""

    def fix(self, source: DataFrame) -> pa.Table | Table:
        """A snapshot of the rows of a frame: in this process if they are few."""


_BUDGETS: WeakKeyDictionary[Engine, Budget] = WeakKeyDictionary()
"""Those of engines that keep nothing themselves."""


def budget_of(engine: Engine) -> Budget:
    """The budget of all trees on an engine: its own, if it keeps what it derives from tables."""
    own: Budget | None = getattr(engine, "budget", None)
    return _BUDGETS.setdefault(engine, Budget()) if own is None else own


def missing_methods(engine: object, capability: type) -> list[str]:
    """The methods of a capability (one of the protocols above) that an engine lacks."""
    kind = cast(Hashable, type(engine))
    missing = _missing_in_class(kind, capability)
    return [name for name in missing if not hasattr(engine, name)]


@cache
def _missing_in_class(kind: Hashable, capability: type) -> list[str]:
    members = vars(capability).items()
    methods = (name for name, member in members if callable(member) and not name.startswith("_"))
    return [name for name in methods if not callable(getattr(kind, name, None))]


def updatable(engine: Engine) -> Updatable:
    """The engine, if its relations can change."""
    missing = missing_methods(engine, Updatable)
    if missing:
        raise EngineError(
            f"Relations of the {engine.name} engine cannot be updated: it lacks {', '.join(missing)}."
        )
    return cast(Updatable, engine)


def on_spark(engine: Engine) -> SparkBacked | None:
    """The engine, if it is one that can run plain SQL on Spark."""
    return cast(SparkBacked, engine) if hasattr(type(engine), "materialise") else None
