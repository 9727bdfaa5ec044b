"""What all versions of a tree share: its engine, its shape, its pivot, its messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from calitree.cache import cached_property
from calitree.calibration.planning.placement import Subtrees
from calitree.calibration.revisions import Changes, Updated
from calitree.calibration.store import Store
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, updatable
from calitree.errors import QueryError
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Relation
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.process.locks import BriefLock
from calitree.query.binder import MeasureLike, Question
from calitree.query.grain import DefaultGrain
from calitree.storage.file_log import FileLog

if TYPE_CHECKING:
    import pyarrow as pa

Mode = Literal["lazy", "eager", "recompute"]
MODES: tuple[Mode, ...] = ("lazy", "eager", "recompute")

NBYTES = attrgetter("nbytes")
QUESTIONS_REMEMBERED = 1_000
"""Questions whose meaning, and plan, each cache keeps."""


class ArrowTypes(NamedTuple):
    """The columns of a relation with their Arrow types: in order, and by name."""

    schema: pa.Schema
    by_name: dict[str, pa.DataType]


@dataclass(eq=False)
class TreeState:
    """What all versions of a tree share.

    Messages of all of them are in one store: their keys tell to which versions they belong. A lock guards
    `missing` and `cube_pivots` where a new value is made of the old one. `arrow_types` only
    grows; two threads may compute the same entry, and the first one stays.
    """

    engine: Engine
    tree: Hypertree
    measures: dict[str, MeasureLike]
    pivot: Question
    """The query it is calibrated for: its group-by and filter."""
    store: Store
    maintenance: Mode = "lazy"
    """The mean of an expression over its relation, from which deviations are summed."""
    missing: frozenset[str] = frozenset()
    """Relations whose rows are not where they were when the tree was saved."""
    bound: dict[object, str] | None = None
    """The bag of each of the pivot's filters, whatever the version."""
    streams: dict[str, int] = field(default_factory=dict)
    """For each stream of Spark, the last batch that is in the tree."""
    read_files: dict[str, FileLog] = field(default_factory=dict)
    """For each relation, the files of file streams whose rows are in the tree."""
    cardinalities: dict[frozenset[str], int] = field(default_factory=dict)
    """How many combinations of values separators had when the tree was last calibrated."""
    cube_pivots: tuple[Question, ...] = ()
    """More pivots, those of cubes: their messages are kept and refreshed as the first one's are."""
    grain: DefaultGrain = None
    """How often rows count in measures that do not say it."""
    arrow_types: dict[str, ArrowTypes] = field(default_factory=dict)
    """The columns of relations, where they were asked for."""

    def __post_init__(self) -> None:
        if not self.measures:
            raise QueryError("Ask for at least one measure.")
        self._changes = Changes(self.engine, self.store.budget)
        self.maintain(self.maintenance)
        self.subtrees = BudgetedCache[object, tuple[Hypertree, Subtrees]](
            self.store.budget,
            "plans",
            lambda known: 600 * sum(1 + len(subtree.columns) for subtree in known[1].values()),
            limit=QUESTIONS_REMEMBERED,
        )
        budget, limit = self.store.budget, QUESTIONS_REMEMBERED
        self.partner_keys = BudgetedCache[object, Table](budget, "plans", NBYTES, limit=limit)
        """The keys of optional sides of outer joins, at some revisions."""
        self.default_rows = BudgetedCache[object, Table](budget, "plans", NBYTES)
        self.unique_keys = BudgetedCache[object, bool](budget, "plans", lambda _: 200, limit=limit)
        """Whether relations, at some revisions, have each key once."""
        self.statements = BudgetedCache[object, Any](
            budget, "questions", lambda _: 4_000, limit=limit
        )
        """What SQL statements ask."""
        self._lock = BriefLock()

    def types_of(self, relation: Relation) -> ArrowTypes:
        """The columns of a relation, which are the same in all versions."""
        types = self.arrow_types.get(relation.name)
        if types is None:  # two threads may compute the same
            table = relation.table
            first = table.plus[0] if isinstance(table, Updated) else table
            columns = updatable(self.engine).schema(first)
            types = ArrowTypes(columns, {field.name: field.type for field in columns})
            self.arrow_types[relation.name] = types
        return types

    def maintain(self, mode: Mode) -> None:
        """Set what happens to messages when relations are updated."""
        if mode not in MODES:
            raise QueryError(f"maintenance is one of {', '.join(MODES)}; got {mode!r}.")
        self.maintenance = mode
        self.changes = None if mode == "recompute" else self._changes
        """What has changed between versions; None if messages are computed anew, not refreshed."""

    @cached_property
    def pivot_key(self) -> object:
        """The key of a question that asks for the pivot itself."""
        return self.pivot.key

    def with_tree(self, tree: Hypertree) -> TreeState:
        """The state of a tree that has a bag more. It begins with all messages of this one."""
        return replace(
            self,
            tree=tree,
            store=self.store.branch(),
            bound=self.bound and dict(self.bound),
            streams={},
            read_files={},
            arrow_types=dict(self.arrow_types),
        )

    def add_pivots(self, pivots: tuple[Question, ...]) -> None:
        """Keep and refresh the messages of these pivots too from now on."""
        with self._lock:
            known = {pivot.key for pivot in self.cube_pivots}
            self.cube_pivots += tuple(pivot for pivot in pivots if pivot.key not in known)

    def set_missing(self, relation: str) -> None:
        """Plan without the rows of a relation from now on, as far as that is possible."""
        with self._lock:
            self.missing |= {relation}

    def set_present(self, relations: Collection[str]) -> None:
        """Plan with the rows of these relations again."""
        with self._lock:
            self.missing = self.missing.difference(relations)
