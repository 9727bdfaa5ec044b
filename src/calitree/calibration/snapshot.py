"""A tree at one version of its relations: what questions mean there, and where the pivot stands.

The messages are shared by all versions, in one store: their keys tell to which versions they belong.
A snapshot stays as it is, so whoever reads it sees one version, whatever is written meanwhile. What was
worked out of it is beside it, in `cache`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from weakref import ref

from sqlglot import exp

from calitree.cache import LRUCache, cached_property
from calitree.calibration.adjust import Adjustment
from calitree.calibration.compiler import Compiled
from calitree.calibration.planning.placement import Placement, sides_of, with_bindings
from calitree.calibration.projection import Projection
from calitree.calibration.state import REMEMBERED, TreeState
from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output, Table
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.api.signed import Linear
from calitree.jointree.schema import Relation, Schema
from calitree.query.binder import MeasureLike, Query, Question, bind
from calitree.query.measure import Measure, measure_of
from calitree.sql.nodes import cast, kind_of, not_null, number, when
from calitree.sql.parser import expression_of
from calitree.types import Kind


class Bindings(NamedTuple):
    """What questions and measures mean: that depends on which columns have no NULL, so versions that
    agree there share it.
    """

    projections: LRUCache[Projection]
    measures: LRUCache[Measure]

    @classmethod
    def empty(cls) -> Bindings:
        return cls(LRUCache[Projection](REMEMBERED), LRUCache[Measure](REMEMBERED))


class SnapshotCache:
    """What was worked out of a snapshot: compiled plans, the pivot's answer, and what adjusts it."""

    def __init__(self) -> None:
        self.answer: Table | None = None
        """The pivot's."""
        self.adjustments: dict[str, Adjustment | None] = {}
        self._plans: tuple[int, LRUCache[Compiled]] | None = None

    def plans(self, version: int) -> LRUCache[Compiled]:
        """Those made on what the store holds at its `version`. The others may hold messages that are
        evicted, and miss those that are new.
        """
        known = self._plans
        if known is None or known[0] != version:
            self._plans = known = version, LRUCache[Compiled](REMEMBERED)
        return known[1]

    def forget_plans(self) -> None:
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
    bindings: Bindings = field(default_factory=Bindings.empty)
    previous: Previous | None = None
    cache: SnapshotCache = field(default_factory=SnapshotCache)

    def checked(self) -> Snapshot:
        """An error if the pivot asks what the graph does not have."""
        self.pivot  # noqa: B018 - to bind it is to check it
        return self

    def successor(self, number: int, changed: Mapping[str, Relation]) -> Snapshot:
        """The next version, when these relations are others."""
        old, schema = self.schema.relations, self.schema.having(changed)
        if any(old[n].table.null_free != new.table.null_free for n, new in changed.items()):
            return Snapshot(self.state, number, schema)
        if len(changed) > 1:
            return Snapshot(self.state, number, schema, self.bindings)
        (relation,) = changed
        other = Snapshot(self.state, number, schema, self.bindings, Previous(ref(self), relation))
        known = self.cache.adjustments
        if relation in known:  # what arrives at its bag does not depend on it
            other.cache.adjustments[relation] = known[relation]
        return other

    @cached_property
    def versions(self) -> dict[str, int]:
        """The version of each relation."""
        return {name: relation.version for name, relation in self.schema.relations.items()}

    def changed_from(self, other: Snapshot) -> dict[str, Relation]:
        """The relations that are not as they were in another snapshot."""
        then = other.versions
        return {n: each for n, each in self.schema.relations.items() if each.version != then[n]}

    # -- what is asked ---------------------------------------------------------------------------

    def bind(self, question: Question) -> Projection:
        """What a question means here: its query, and how its answer is made."""
        key, known = question.key, self.bindings.projections
        found = known.get(key)
        if found is None:
            query = bind(self.schema, self.state.measures, self._measure, question)
            found = Projection(query)
            known.put(key, found)
        return found

    def _measure(self, given: MeasureLike, joined: tuple[str, ...]) -> Measure:
        """A measure, compiled; most questions ask for the pivot's."""
        return self.bindings.measures.of(
            (given, joined) if isinstance(given, str) else None,
            lambda: measure_of(given, self.schema, joined, self._center),
        )

    def _center(self, relation: str, node: exp.Expr) -> float:
        """The mean of an expression over its own relation.

        Integers are centred by an integer, which keeps their sums exact.
        """
        key = (relation, node.sql())
        centers, engine = self.state.centers, self.state.engine
        if key not in centers:
            total = expression_of(cast(node.copy(), Kind.FLOAT))
            present = expression_of(when(not_null(node), number(1)))
            table = self.schema.relations[relation].table
            columns = tuple(
                Column(name, SUM_PRODUCT, (Lifted(0, (each,)),))
                for name, each in (("total", total), ("present", present))
            )
            one = Input(table, self.schema.columns_of[relation])
            contraction = Contraction((one,), (Output((0,), (), (), columns),))
            (found,) = Linear(contraction, (None,)).tables(engine)
            sums = engine.arrow(found).to_pylist()
            rows = sums[0]["present"] if sums else 0
            mean = sums[0]["total"] / rows if rows else 0.0
            if not math.isfinite(mean):
                mean = 0.0
            centers[key] = float(round(mean)) if kind_of(node) is Kind.INTEGER else mean
        return centers[key]

    # -- where annotations stand -----------------------------------------------------------------

    def placement(self, query: Query) -> Placement:
        """A query's annotations on the tree."""
        tree, known = self.state.tree, self.state.sides
        key = (query.relations, query.aggregates)
        sides = known.get(key)
        if sides is None:
            sides = sides_of(tree, query)
            known.put(key, sides)
        return Placement(tree, query, self.versions, sides)

    @property
    def pivots(self) -> list[Placement]:
        """The pivot, and those of its cubes."""
        return [self.pivot, *map(self.cube_pivot, self.state.cube_pivots)]

    def cube_pivot(self, question: Question) -> Placement:
        """One more pivot; its filters stand where the first one's do."""
        return with_bindings(self.placement(self.bind(question).query), self.pivot)

    @cached_property
    def pivot(self) -> Placement:
        """The pivot's annotations; its filters stand where they stood from the start."""
        placement = self.placement(self.bind(self.state.pivot).query)
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
        """How many rows the relations of a bag have, and its name, which tells apart those with as many."""
        rows = sum(self.schema.rows(r) for r in self.state.tree.bag(bag).relations)
        return rows, bag
