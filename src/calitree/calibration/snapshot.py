"""A tree at one version of its relations: what questions mean there, and where the pivot stands.

The messages are shared by all versions, in one store: their keys tell to which versions they belong. A
snapshot stays as it is, so whoever reads it sees one version, whatever is written meanwhile. Values derived
from it and from the store are beside it, in `cache`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from calitree.cache import cached_property
from calitree.calibration.adjust import Adjustment
from calitree.calibration.compilation.compiler import Compiled
from calitree.calibration.compilation.outer import OuterJoins
from calitree.calibration.planning.placement import (
    Placement,
    Subtrees,
    subtrees_of,
    with_bindings,
)
from calitree.calibration.projection import Projection
from calitree.calibration.state import QUESTIONS_REMEMBERED, TreeState
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Updatable, missing_methods
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.remainder import remaining_schema, remaining_tree, with_columns
from calitree.jointree.schema import Relation, Schema
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.query.binder import MeasureLike, Query, Question, bind
from calitree.query.grain import GrainMeasure
from calitree.query.measure import Measure, measure_of
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa


NBYTES = attrgetter("nbytes")

SMALL_ANSWER_BYTES, MAX_ANSWER_BYTES = 1_000, 1 << 20
"""An answer of the pivot that is so small does not count into the budget; one that is larger is not kept."""


class Bindings(NamedTuple):
    """What questions and measures mean.

    That depends on which columns have no NULL, so versions that agree there share it.
    """

    projections: BudgetedCache[object, Projection]
    measures: BudgetedCache[object, Measure]

    @classmethod
    def empty(cls, budget: Budget) -> Bindings:
        """With nothing bound yet."""
        limit = QUESTIONS_REMEMBERED
        return cls(
            BudgetedCache(budget, "questions", NBYTES, limit=limit),
            BudgetedCache(budget, "measures", NBYTES, limit=limit),
        )


class SnapshotCache:
    """Compiled plans of a snapshot, the pivot's answer, and how to adjust that.

    It has no lock: whoever sets a field sets a value that is right, and the last one stays.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.adjustments: dict[str, Adjustment] = {}
        """By the relation that changes."""
        self._small_answer: Table | None = None
        self._large_answer: BudgetedCache[str, Table] | None = None
        self._plans: tuple[int, BudgetedCache[object, Compiled]] | None = None

    @property
    def answer(self) -> Table | None:
        """The pivot's, if it is kept."""
        if self._large_answer is not None:
            return self._large_answer.get("pivot")
        return self._small_answer

    def keep_answer(self, table: Table) -> None:
        """Keep the pivot's answer. One that is small costs no more than the snapshot itself."""
        nbytes = table.nbytes
        if nbytes <= SMALL_ANSWER_BYTES:
            self._small_answer = table
        elif nbytes <= MAX_ANSWER_BYTES:
            answers = BudgetedCache[str, Table](self.budget, "answers", NBYTES)
            answers.put("pivot", table)
            self._large_answer = answers

    def plans(self, epoch: int) -> BudgetedCache[object, Compiled]:
        """The plans made when the store was at its `epoch`, by the key of their question.

        Others may hold messages that were evicted, and miss those that are new.
        """
        known = self._plans
        if known is None or known[0] != epoch:
            plans = BudgetedCache[object, Compiled](
                self.budget, "plans", NBYTES, limit=QUESTIONS_REMEMBERED
            )
            self._plans = known = epoch, plans
        return known[1]

    def forget_plans(self) -> None:
        """Plan all questions anew."""
        self._plans = None


class Previous(NamedTuple):
    """The version before, and the one relation that has changed since."""

    snapshot: ref[Snapshot]
    relation: str


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The relations at one version. `number` tells which, to those who count them."""

    state: TreeState
    number: int
    schema: Schema
    bound_before: Bindings | None = None
    """What questions mean in the version before, if they mean the same here."""
    previous: Previous | None = None

    @cached_property
    def bindings(self) -> Bindings:
        """What questions mean here."""
        return self.bound_before or Bindings.empty(self.state.store.budget)

    @cached_property
    def cache(self) -> SnapshotCache:
        """What was derived from it."""
        return SnapshotCache(self.state.store.budget)

    def checked(self) -> Snapshot:
        """Raise an error if the pivot asks for what the graph does not have."""
        self.pivot  # noqa: B018 - to bind it is to check it
        return self

    def successor(self, number: int, changed: Mapping[str, Relation]) -> Snapshot:
        """The next version, in which these relations are replaced."""
        old, schema = self.schema.relations, self.schema.having(changed)
        if any(old[n].table.null_free != new.table.null_free for n, new in changed.items()):
            return Snapshot(self.state, number, schema)
        if len(changed) > 1:
            return Snapshot(self.state, number, schema, self.bindings)
        (relation,) = changed
        other = Snapshot(self.state, number, schema, self.bindings, Previous(ref(self), relation))
        if relation in self.cache.adjustments:  # what arrives at its bag does not depend on it
            other.cache.adjustments[relation] = self.cache.adjustments[relation]
        return other

    @cached_property
    def revisions(self) -> dict[str, int]:
        """The revision of each relation."""
        return {name: relation.revision for name, relation in self.schema.relations.items()}

    def changed_from(self, other: Snapshot) -> dict[str, Relation]:
        """The relations that are not as they were in another snapshot."""
        then = other.revisions
        return {n: r for n, r in self.schema.relations.items() if r.revision != then[n]}

    # -- what is asked ---------------------------------------------------------------------------

    def bind(self, question: Question, key: object = None) -> Projection:
        """What a question means here: its query, and how its answer is computed. Its key may be given."""
        key = question.key if key is None else key
        return self.bindings.projections.of(key, lambda: self._projection(question))

    def _projection(self, question: Question) -> Projection:
        query = bind(self.schema, self.state.measures, self._measure, question)
        if missing_methods(self.state.engine, Updatable):
            return Projection(query)
        stored = {name: m.stored for name, m in query.measures if m.stored is not None}
        types = {name: self._arrow_type(*column) for name, column in stored.items()}
        for name, attribute in query.group_by:
            dtype = self._unsigned_group(attribute, query.relations)
            if dtype is not None:
                types[name] = dtype
        return Projection(query, types)

    def _unsigned_group(self, attribute: str, relations: Collection[str]) -> pa.DataType | None:
        """The type of a group that engines have as decimals: some column of its class is a uint64."""
        import pyarrow as pa

        known = self.schema.attributes.get(attribute)
        if known is None or known.kind is not Kind.INTEGER:
            return None
        types = {
            relation: self._arrow_type(relation, column)
            for relation, column in known.columns
            if column not in self.schema.relations[relation].derived
        }
        if not any(map(pa.types.is_uint64, types.values())):
            return None
        return next((dtype for name, dtype in types.items() if name in relations), None)

    def _arrow_type(self, relation: str, column: str) -> pa.DataType:
        return self.state.types_of(self.schema.relations[relation]).by_name[column]

    def _measure(self, given: MeasureLike, joined: tuple[str, ...]) -> Measure:
        """A measure, compiled; most questions ask for the pivot's measures."""
        return self.bindings.measures.of(
            (given, joined) if isinstance(given, str | GrainMeasure) else None,
            lambda: measure_of(
                given, remaining_schema(self.schema, joined), joined, self.state.grain
            ),
        )

    # -- where annotations stand -----------------------------------------------------------------

    def schema_of(self, query: Query) -> Schema:
        """The graph of the relations that a query joins, with the columns that it derives."""
        return remaining_schema(self.schema.with_columns(query.derived), query.relations)

    def outer_joins(self, query: Query) -> OuterJoins:
        """The outer joins of the relations that a query joins."""
        return OuterJoins(self.state, self.schema_of(query))

    def placement(self, query: Query) -> Placement:
        """A query's annotations on the tree, or on what is left of it."""

        def on_tree() -> tuple[Hypertree, Subtrees]:
            whole = with_columns(self.state.tree, query.derived)
            tree = remaining_tree(whole, self.schema_of(query))
            return tree, subtrees_of(tree, query)

        key = query.relations, query.aggregates, query.derived
        tree, subtrees = self.state.subtrees.of(key, on_tree)
        return Placement(tree, query, self.revisions, subtrees)

    @property
    def pivots(self) -> list[Placement]:
        """The pivot, and those of cubes."""
        return [self.pivot, *map(self.cube_pivot, self.state.cube_pivots)]

    def cube_pivot(self, question: Question) -> Placement:
        """One more pivot; its filters stand where the first one's do."""
        return with_bindings(self.placement(self.bind(question).query.calibrated), self.pivot)

    @cached_property
    def pivot(self) -> Placement:
        """The pivot's annotations; its filters stand where they stood in the first version."""
        placement = self.placement(self.bind(self.state.pivot).query.calibrated)
        if self.state.bound is None:
            placement = self._bound(placement)
            self.state.bound = {str(p): bag for p, bag in placement.bound.items()}
            return placement
        bound = {
            p: self.state.bound[str(p)] for p in placement.query.where if str(p) in self.state.bound
        }
        return replace(placement, bound=bound) if bound else placement

    def _bound(self, placement: Placement) -> Placement:
        """Each of the pivot's σ on the smallest bag that can apply it to its own rows."""
        for predicate, options in placement.candidates.items():
            able = [bag for bag in options if placement.can_bind(predicate, bag)]
            if able:
                placement = placement.binding(predicate, min(able, key=self.rows_at))
        return placement

    def rows_at(self, bag: str) -> tuple[int, str]:
        """How many rows the relations of a bag have, and its name, which breaks ties."""
        rows = sum(self.schema.rows(r) for r in self.state.tree.bag(bag).relations)
        return rows, bag
