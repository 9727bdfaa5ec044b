"""Proposition 1 as a property: equal keys, equal messages; an annotation changes exactly the keys
downstream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calitree.calibration.branch import Branch
from calitree.calibration.planning.placement import Placement
from calitree.engines.api.contraction import stored_parts
from calitree.query.annotation import Exclude, GroupBy, Select, Update
from calitree.query.binder import Question
from calitree.wide_table import WideTable
from tests.support.databases import Database, databases, join_size, questions
from tests.support.scale import examples


def wide_table(database: Database, engine: str = "reference", **pivot: Any) -> WideTable:
    graph = database.graph(engine)
    given = pivot.pop("measures", {"n": "count(*)"})
    tree = graph.hypertree()
    return WideTable(Branch.new(graph.schema, graph.engine, tree, given, Question(**pivot)))


def placement_of(wide: WideTable, **asked: Any) -> Placement:
    return wide.snapshot.placement(wide.snapshot.bind(Question(**asked)).query)


def contents(wide: WideTable) -> dict[Any, Any]:
    """Every message's rows by key, each column under the aggregate it holds."""
    rows_by_key = {}
    for message in wide.state.store.pinned:
        rows = wide.engine.arrow(message.table).to_pylist()
        parts = {str(a): stored_parts(name, a.semiring) for a, name in message.columns.items()}
        names = {name for listed in parts.values() for name in listed}
        rows_by_key[message.key] = {
            aggregate: sorted(
                (
                    tuple(str(v) for k, v in row.items() if k not in names),
                    *(rounded(row[name]) for name in listed),
                )
                for row in rows
            )
            for aggregate, listed in parts.items()
        }
    return rows_by_key


def rounded(value: Any) -> Any:
    return round(value, 6) + 0.0 if isinstance(value, float) else value


def test_equal_keys_have_equal_messages() -> None:
    """Two pivots over one database: where a key and an aggregate agree, the columns are equal."""
    compared = []

    @settings(max_examples=examples(150), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        database = data.draw(databases(max_relations=5, max_rows=15))
        assume(join_size(database) <= 3_000)
        tables = []
        for _ in range(2):
            wide = wide_table(database, **data.draw(questions(database, exclusions=False)))
            wide.refresh()
            tables.append(contents(wide))
        for key in tables[0].keys() & tables[1].keys():
            for aggregate in tables[0][key].keys() & tables[1][key].keys():
                assert tables[0][key][aggregate] == tables[1][key][aggregate], key
                compared.append(len(tables[0][key][aggregate]))

    run()
    assert sum(rows > 0 for rows in compared) > 100


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_each_annotation_changes_exactly_the_keys_downstream(data: st.DataObject) -> None:
    database = data.draw(databases(max_relations=7, max_rows=3))
    wide = wide_table(database)
    tree, plain = wide.tree, placement_of(wide)
    column = data.draw(st.sampled_from(database.columns()))
    attribute = wide.schema.column(column).attribute
    holders = tree.holders((attribute,))

    grouped = placement_of(wide, group_by=[column])
    filtered = placement_of(wide, where=f"{column} is not null")
    bag = data.draw(st.sampled_from(sorted(holders)))
    bound = filtered.binding(filtered.query.where[0], bag)
    lifted = placement_of(wide, measures={"m": f"count({column})"})
    home = tree.home(column.split(".")[0])
    for u, v in tree.directed:
        side = tree.subtree(u, v)
        plain_key = plain.keys[u, v]
        # γ and a free σ are on the source's side of an edge once no bag on the other side has the attribute.
        assert (grouped.keys[u, v] != plain_key) == (holders <= side)
        assert (filtered.keys[u, v] != plain_key) == (holders <= side)
        # A bound σ is on the source's side of every edge that leads away from its bag.
        assert (bound.keys[u, v] != plain_key) == (bag in side)
        # λ changes columns, never rows, and only downstream of its relation.
        assert lifted.keys[u, v] == plain_key
        new = set(lifted.subtrees[u, v].columns) - set(plain.subtrees[u, v].columns)
        lifts = {lift for a in lifted.query.aggregates for lift in a.lifts}
        assert bool(new) == (bool(lifts) and home in side)
    assert any(
        isinstance(a, GroupBy) for key in grouped.keys.values() for a in key.annotations
    ) == any(holders <= tree.subtree(u, v) for u, v in tree.directed)
    assert all(isinstance(a, Select) for key in bound.keys.values() for a in key.annotations)


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_leaving_out_or_updating_a_relation_changes_exactly_the_keys_downstream(
    data: st.DataObject,
) -> None:
    database = data.draw(databases(max_relations=7, max_rows=3))
    wide = wide_table(database)
    name = data.draw(st.sampled_from(sorted(database.tables)))
    rest = [other for other in database.tables if other != name]
    assume(len(wide.schema.components(rest)) == 1)
    without = placement_of(wide, relations=rest)
    assume(not without.tree.detached)
    plain = placement_of(wide)
    updated = replace(plain, revisions={**plain.revisions, name: 3})
    for u, v in wide.tree.directed:
        downstream = wide.tree.home(name) in wide.tree.subtree(u, v)
        assert (without.keys[u, v] != plain.keys[u, v]) == downstream
        assert (Exclude(name) in without.keys[u, v].annotations) == downstream
        assert (updated.keys[u, v] != plain.keys[u, v]) == downstream
        assert (Update(name, 3) in updated.keys[u, v].annotations) == downstream
