"""The part of a manifest that is the tree: joins, attributes, bags, measures, the pivot, streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import TreeState
from calitree.calibration.store import Store
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import Semiring
from calitree.errors import SavedError
from calitree.jointree.bag import Bag
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Attribute, Join, Relation, Schema
from calitree.query.binder import MeasureLike, Question
from calitree.query.custom import CustomMeasure
from calitree.saved.manifest import Json
from calitree.types import Kind


def encoded_tree(snapshot: Snapshot) -> Json:
    """All of a tree but its relations, messages and streams."""
    schema, state = snapshot.schema, snapshot.state
    return {
        "engine": state.engine.name,
        "joins": [[join.left, join.right, join.pairs] for join in schema.joins],
        "attributes": [
            [attribute.name, attribute.columns, attribute.kind.value]
            for attribute in schema.attributes.values()
        ],
        "bags": [
            [bag.name, sorted(bag.attributes), bag.relations, sorted(bag.extra)]
            for bag in state.tree.bags
        ],
        "added": [name for name in schema.relations if name in state.tree.added],
        "edges": state.tree.edges,
        "measures": {name: _encoded_measure(name, given) for name, given in state.measures.items()},
        "group_by": list(state.pivot.group_by),
        "where": state.pivot.where,
        "further": [
            [list(pivot.group_by), pivot.where]
            for pivot in state.cube_pivots
            if pivot.measures is None  # a cube's have the tree's own
        ],
        "bound": state.bound,
        "memory_limit": state.store.memory_limit,
        "maintenance": state.maintenance,
    }


def _encoded_measure(name: str, given: MeasureLike) -> Any:
    if isinstance(given, str):
        return given
    if isinstance(given, CustomMeasure):
        return asdict(given)
    raise SavedError(
        f"Measure {name!r} cannot be saved: it is a {type(given).__name__}. Give it as SQL text, or "
        "with calitree.aggregate."
    )


def merge_streams(state: TreeState, tree: Json) -> None:
    """Remember also the batches of Spark that are in another tree."""
    for stream, batch in tree.get("streams", {}).items():
        state.streams[stream] = max(batch, state.streams.get(stream, batch))


def decoded_tree(
    tree: Json, engine: Engine, relations: Mapping[str, Relation], store: Store
) -> Snapshot:
    """The tree that `encoded_tree` has written, with these relations and messages."""
    added = {name: replace(relations[name], added=True) for name in tree.get("added", ())}
    attributes = {
        name: Attribute(name, tuple(map(tuple, columns)), Kind(kind))
        for name, columns, kind in tree["attributes"]
    }
    joins = tuple(Join(a, b, tuple(map(tuple, pairs))) for a, b, pairs in tree["joins"])
    schema = Schema({**relations, **added}, joins, attributes)
    measures = {name: _measure(given) for name, given in tree["measures"].items()}
    pivots = cube_pivots(tree)
    state = TreeState(
        engine,
        _hypertree(schema, tree),
        measures,
        Question(tuple(tree["group_by"]), tree["where"]),
        store,
        maintenance=tree.get("maintenance", "lazy"),
        bound=tree.get("bound"),
        cube_pivots=pivots,
    )
    merge_streams(state, tree)
    return Snapshot(state, 0, schema)


def cube_pivots(tree: Json) -> tuple[Question, ...]:
    """The pivots of cubes that a saved tree has."""
    return tuple(Question(tuple(group_by), where) for group_by, where in tree.get("further", ()))


def _hypertree(schema: Schema, tree: Mapping[str, Any]) -> Hypertree:
    bags = tuple(
        Bag(name, frozenset(attributes), tuple(relations), frozenset(*extra))
        for name, attributes, relations, *extra in tree["bags"]
    )
    edges, added = tuple(map(tuple, tree["edges"])), frozenset(tree.get("added", ()))
    return Hypertree(bags, edges, schema.attributes_of, schema.rows, added)


def _measure(given: Any) -> MeasureLike:
    if isinstance(given, str):
        return given
    parts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given["semiring"].items()
    }
    return CustomMeasure(Semiring(**parts), given["lifts"], given["final"])
