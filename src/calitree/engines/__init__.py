"""Who computes. An engine has one verb, `contract`, and never sees a tree, a bag or a query.

A contraction joins its inputs (relations and messages) on the attributes they share, keeps the rows
that pass the filters, multiplies annotations with ⊗ and sums them with ⊕ by the attributes kept. A
message is one; the absorption that answers a query is another. All messages wanted from one bag
come in one call, so that an engine may compute them in one scan.

The worked example: Sales(store, price) receives a message from Stores (COUNT by store, restricted
to one city). The total price is

    Contraction(
        inputs=(Input(sales, {"store": "store_nbr", "price": "price"}), Input(message, {"store":
        "store"})), outputs=(
            Output(
                inputs=(0, 1), where=(), keep=(),
                columns=(Column("c0", SUM_PRODUCT, (Lifted(0, (price,)), Stored(1, "c0"))),),
            ),
        ),
    )

NULL never equals NULL in the join; in `keep` NULL is a value like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, cast

from calitree.errors import EngineError, did_you_mean
from calitree.expressions import Expression
from calitree.semiring import Semiring
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp


class Table(Protocol):
    """A relation or a message, wherever it lives."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names, in order, and their kinds."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    @property
    def nbytes(self) -> int:
        """About how much memory it holds."""

    @property
    def exact(self) -> bool:
        """False once an integer or decimal sum had to continue as floating point."""

    @property
    def null_free(self) -> frozenset[str]:
        """Columns known to hold no NULL. Knowing none is always right, knowing some saves work."""


@dataclass(frozen=True)
class Input:
    """A table that takes part in a join, and which of its columns carries which attribute."""

    table: Table
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class Lifted:
    """A factor computed from an input's own row: one expression (over attributes) a component.

    `one` stands where a relation has no lift, so such relations are simply not listed. For sums, a
    NULL lift counts as zero; the measure carries a not-NULL count beside it where that matters.
    """

    input: int
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Stored:
    """A factor that a message carries: the column named `name`, or `name.component` for several."""

    input: int
    name: str


Factor = Lifted | Stored


@dataclass(frozen=True)
class Column:
    """One annotation to compute: the ⊗-product of its factors (`one` if none), summed with ⊕."""

    name: str
    semiring: Semiring
    factors: tuple[Factor, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its physical columns, one a component."""
        return stored_parts(self.name, self.semiring)


def stored_parts(name: str, semiring: Semiring) -> tuple[str, ...]:
    """How a column of several components is laid out in a table."""
    if len(semiring.components) == 1:
        return (name,)
    return tuple(f"{name}.{component}" for component in semiring.components)


@dataclass(frozen=True)
class Output:
    """One table wanted: join `inputs`, filter by `where`, group by `keep`, compute `columns`.

    The result has exactly the groups that have at least one joined row; with nothing to keep it has
    one row, or none if no row was joined. Without columns it is the set of distinct `keep`.
    """

    inputs: tuple[int, ...]
    where: tuple[Expression, ...]
    keep: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Contraction:
    """Everything wanted from one bag at one time. Output tables name kept attributes by their own
    names.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    pattern: tuple[Contraction, int] | None = field(default=None, repr=False)
    """Another one that is the same but for one of its inputs. An engine may use what they share."""

    def having(self, at: int, table: Table) -> Contraction:
        """The same with another table as one of its inputs."""
        inputs = list(self.inputs)
        inputs[at] = Input(table, inputs[at].attributes)
        return Contraction(tuple(inputs), self.outputs, (self, at))


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

    # What updates need. A relation that has changed is a formal sum of tables (`signed.Signed`),
    # which no engine ever sees: contractions are linear, so each part is contracted by itself.

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


class OnSpark(Engine, Protocol):
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


def on_spark(engine: Engine) -> OnSpark | None:
    """The engine, if it is one that speaks Spark."""
    return cast(OnSpark, engine) if hasattr(type(engine), "materialise") else None


NAMES = ("local", "hybrid", "spark", "reference")


def engine_of(engine: Any) -> Engine:
    """An engine from its name, a SparkSession, or itself; None is the best that can run here."""
    if engine is None:
        engine = "hybrid" if find_spec("pyspark") else "local"
    if isinstance(engine, str):
        if engine == "local":
            from calitree.engines.local import LocalEngine

            return LocalEngine()
        if engine == "hybrid":
            from calitree.engines.hybrid import HybridEngine

            return HybridEngine()
        if engine == "reference":
            from calitree.engines.reference import ReferenceEngine

            return ReferenceEngine()
        if engine == "spark":
            from calitree.engines.spark import SparkEngine

            return SparkEngine()
        raise EngineError(f"There is no engine {engine!r}.{did_you_mean(engine, NAMES)}")
    if type(engine).__name__ == "SparkSession":
        from calitree.engines.hybrid import HybridEngine

        return HybridEngine(engine)
    if all(hasattr(engine, verb) for verb in ("load", "contract", "how", "arrow")):
        return cast(Engine, engine)
    raise EngineError(
        f"An engine is one of {', '.join(NAMES)}, a SparkSession or an object with load, contract, "
        f"how and arrow; got {type(engine).__name__}."
    )
