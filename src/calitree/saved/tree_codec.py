"""From a tree to the part of a manifest that is the tree, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import TreeState
from calitree.calibration.store import Store
from calitree.engines.api.protocol import Engine
from calitree.errors import SavedError
from calitree.jointree.bag import Bag
from calitree.jointree.derived import defined
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.attributes import keyed_joins
from calitree.jointree.schema import Attribute, Relation, Schema
from calitree.query.binder import MeasureLike, Question
from calitree.query.custom.aggregate import CustomMeasure
from calitree.query.custom.python_measure import PythonMeasure
from calitree.query.grain import GrainMeasure
from calitree.query.groups import kept_groups
from calitree.saved.tree_record import SavedTree
from calitree.sql.parser import Expression
from calitree.types import Kind


def encoded_tree(snapshot: Snapshot) -> SavedTree:
    """All of a tree but its relations, messages and streams."""
    schema, state = snapshot.schema, snapshot.state
    return SavedTree(
        engine=state.engine.name,
        joins=tuple((join.left, join.right, join.pairs) for join in schema.joins),
        hows=cast(Any, tuple(join.how for join in schema.joins) if schema.has_outer else ()),
        as_of=dict(schema.matches),
        matches=tuple(a.name for a in schema.attributes.values() if a.match),
        conditions=tuple(
            (i, join.condition) for i, join in enumerate(schema.joins) if join.condition
        ),
        attributes=tuple(
            (attribute.name, attribute.columns, attribute.kind)
            for attribute in schema.attributes.values()
        ),
        bags=tuple((bag.name, bag.attributes, bag.relations, bag.extra) for bag in state.tree.bags),
        added=tuple(name for name in schema.relations if name in state.tree.added),
        edges=state.tree.edges,
        measures={name: _measure(name, given) for name, given in state.measures.items()},
        group_by=kept_groups(state.pivot.group_by),
        where=state.pivot.where,
        columns=tuple(
            (relation.name, name, definition.text)
            for relation in schema.relations.values()
            for name, definition in relation.derived.items()
        ),
        cubes=tuple(
            (kept_groups(pivot.group_by), pivot.where)
            for pivot in state.cube_pivots
            if pivot.measures is None  # a cube's have the tree's own
        ),
        bound=cast("dict[str, str] | None", state.bound),
        memory_limit=state.store.memory_limit,
        maintenance=state.maintenance,
        grain=state.grain,
    )


def _measure(name: str, given: MeasureLike) -> str | GrainMeasure | CustomMeasure:
    if isinstance(given, str | GrainMeasure | CustomMeasure):
        return given
    if isinstance(given, PythonMeasure):
        raise SavedError(
            f"Measure {name!r} is in the Python semiring {given.semiring.name!r}, and functions cannot be "
            "saved. Calibrate without it, and ask for it of the opened tree, as a measure of a query."
        )
    raise SavedError(
        f"Measure {name!r} cannot be saved: it is a {type(given).__name__}. Give it as SQL text, or "
        "with calitree.aggregate."
    )


def merge_streams(state: TreeState, tree: SavedTree) -> None:
    """Remember also the batches of Spark that are in another tree."""
    for stream, batch in tree.streams.items():
        state.streams[stream] = max(batch, state.streams.get(stream, batch))


def decoded_tree(
    tree: SavedTree, engine: Engine, relations: Mapping[str, Relation], store: Store
) -> Snapshot:
    """The tree that `encoded_tree` has written, with these relations and messages."""
    derived = derived_columns(tree, {name: r.table.kinds for name, r in relations.items()})
    relations = {
        name: replace(relation, derived=derived[name], as_of=tree.as_of.get(name))
        for name, relation in relations.items()
    }
    added = {name: replace(relations[name], added=True) for name in tree.added}
    attributes = {
        name: Attribute(name, columns, kind, name in tree.matches)
        for name, columns, kind in tree.attributes
    }
    outer = keyed_joins(tree.first_joins, attributes)
    schema = Schema({**relations, **added}, tree.declared_joins, attributes, outer)
    state = TreeState(
        engine,
        hypertree(tree, schema.attributes_of, schema.rows),
        dict(tree.measures),
        Question(tree.group_by, tree.where),
        store,
        maintenance=tree.maintenance,
        bound=cast("dict[object, str] | None", tree.bound),
        cube_pivots=cube_pivots(tree),
        grain=tree.grain,
    )
    merge_streams(state, tree)
    return Snapshot(state, 0, schema)


def derived_columns(
    tree: SavedTree, kinds: Mapping[str, Mapping[str, Kind]]
) -> dict[str, dict[str, Expression]]:
    """The derived columns of each relation, given the kinds of its stored ones."""
    derived: dict[str, dict[str, Expression]] = {name: {} for name in kinds}
    for relation, name, text in tree.columns:
        if relation not in kinds or name in kinds[relation]:
            raise SavedError(f"{relation}.{name} cannot be a derived column.")
        own = derived[relation]
        own[name] = defined(relation, kinds[relation], own, text)
    return derived


def cube_pivots(tree: SavedTree) -> tuple[Question, ...]:
    """The pivots of cubes that a saved tree has."""
    return tuple(Question(group_by, where) for group_by, where in tree.cubes)


def hypertree(
    tree: SavedTree,
    attributes_of: Mapping[str, frozenset[str]],
    rows: Callable[[str], int] | None = None,
) -> Hypertree:
    """The bags and edges of a saved tree, given the attributes of its relations."""
    bags = tuple(
        Bag(name, attributes, relations, *extra)
        for name, attributes, relations, *extra in tree.bags
    )
    return Hypertree(bags, tree.edges, attributes_of, rows, frozenset(tree.added))
