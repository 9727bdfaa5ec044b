"""What `check` tells of a graph: which findings, how severe, in which words."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct
from calitree import Finding, GraphCheck
from calitree.cli.demo import flights_graph, read_flights
from calitree.integrity import check_graph
from calitree.integrity.graph_findings import graph_findings
from calitree.jointree.schema import Schema
from calitree.types import Kind

Tables = dict[str, Any]


def graph_of(tables: Tables, *joins: tuple[str, str, Any], engine: Any = "local") -> ct.JoinGraph:
    graph = ct.JoinGraph(engine)
    for name, table in tables.items():
        graph.add_relation(name, table)
    for left, right, on in joins:
        graph.add_join(left, right, on=on)
    return graph


def check(tables: Tables, *joins: tuple[str, str, Any]) -> GraphCheck:
    return graph_of(tables, *joins).check()


def kinds(checked: GraphCheck) -> list[tuple[str, str]]:
    return [(finding.severity, finding.kind) for finding in checked.findings]


def only(checked: GraphCheck, kind: str) -> Finding:
    (finding,) = (finding for finding in checked.findings if finding.kind == kind)
    return finding


def severities_of_orphans(checked: GraphCheck) -> dict[str, str]:
    """By relation."""
    orphans = (f for f in checked.findings if f.kind == "orphans")
    return {f.message.split(" rows of ")[1].split()[0]: f.severity for f in orphans}


SALES = {"store": [1, 1, 2, 9, 9, None], "price": [1, 2, 3, 4, 5, 6]}
STORES = {"store": [1, 2, 3], "city": ["Quito", "Cuenca", "Loja"]}
SALES_AND_STORES: Tables = {"sales": SALES, "stores": STORES}


def test_a_graph_without_flaws() -> None:
    checked = check({"sales": {"k": [1, 1, 2]}, "stores": {"k": [1, 2]}}, ("sales", "stores", "k"))
    assert checked and checked.ok and checked.findings == () and checked.rows() == []
    assert str(checked).endswith("\nNothing was found.")


def test_orphans_of_the_facts_are_a_warning_and_those_of_a_dimension_a_remark() -> None:
    checked = check(SALES_AND_STORES, ("sales", "stores", "store"))
    assert not checked and not checked.ok
    assert kinds(checked) == [
        ("warning", "orphans"),
        ("warning", "null-keys"),
        ("remark", "orphans"),
    ]
    lost, nulls, unused = checked.findings
    assert (lost.rows, lost.share, lost.keys) == (3, 0.5, 1)
    assert lost.examples == (ct.KeyExample((9,), 2),)
    assert (nulls.rows, nulls.keys) == (1, None)
    assert (unused.rows, unused.keys, [str(e) for e in unused.examples]) == (1, 1, ["3 (1)"])
    assert lost.message == (
        "3 of 6 rows of sales (50.00%) have no partner in stores, and the join loses them; keys that are not "
        "there: 1 of 3; rows with NULL: 1."
    )


@pytest.mark.parametrize("flipped", [False, True])
def test_which_side_is_the_dimension_does_not_depend_on_the_order(flipped: bool) -> None:
    sides = ("stores", "sales") if flipped else ("sales", "stores")
    checked = check(SALES_AND_STORES, (*sides, "store"))
    by_severity = {
        f.severity: f.message.split(" rows of ")[1].split()[0]
        for f in checked.findings
        if f.kind == "orphans"
    }
    assert by_severity == {"warning": "sales", "remark": "stores"}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {"sales": "warning", "stores": "remark"}),
        ("left", {"sales": "remark", "stores": "remark"}),
        ("right", {"sales": "warning", "stores": "remark"}),
        ("full", {"sales": "remark", "stores": "remark"}),
    ],
)
def test_an_orphan_that_an_outer_join_keeps_is_a_remark(how: str, expected: dict[str, str]) -> None:
    graph = graph_of(SALES_AND_STORES, ("sales", "stores", "store"))
    schema = graph.schema
    schema = Schema(
        schema.relations, tuple(replace(j, how=how) for j in schema.joins), schema.attributes
    )
    checked = check_graph(graph.engine, schema, None)
    assert checked.edges[0].how == how
    orphans = [f for f in checked.findings if f.kind == "orphans"]
    assert severities_of_orphans(checked) == expected
    nulls = only(checked, "null-keys")
    assert nulls.severity == expected["sales"]
    kept = [f for f in orphans if "keeps them beside NULL" in f.message]
    assert len(kept) == {"inner": 0, "left": 1, "right": 1, "full": 2}[how]
    assert checked.ok == (how in ("left", "full"))


def test_keys_that_repeat_on_both_sides() -> None:
    tables = {"sales": {"k": [1, 1, 1, 2, 3]}, "rates": {"k": [1, 1, 2, 3]}}
    checked = check(tables, ("sales", "rates", "k"))
    finding = only(checked, "repeated-keys")
    assert finding.severity == "warning" and not checked.ok
    assert (finding.rows, finding.keys, finding.examples) == (2, 1, (ct.KeyExample((1,), 2),))
    assert "a row of sales counts 1.6 times on average, and at most 2 times" in finding.message
    (edge,) = checked.edges
    assert (edge.left.mean_partners, edge.left.most_partners) == (1.6, 2)
    assert (edge.right.mean_partners, edge.right.most_partners) == (2.0, 3)
    assert edge.joined_rows == 8


def test_nothing_matches() -> None:
    checked = check({"a": {"k": [1, 2]}, "b": {"k": [3, 3]}}, ("a", "b", "k"))
    assert kinds(checked) == [("error", "no-match")]
    assert str(checked.findings[0].examples[0]) == "1 (1)"
    assert "there are 3 (2)" in checked.findings[0].message


def test_an_empty_relation() -> None:
    tables = {"a": {"k": [1, 2]}, "b": pa.table({"k": pa.array([], pa.int64())})}
    assert kinds(check(tables, ("a", "b", "k"))) == [("warning", "empty"), ("warning", "orphans")]


@pytest.mark.parametrize(
    ("left", "right", "severity", "reason"),
    [
        (pa.float64(), pa.decimal128(9, 2), "warning", "a decimal such as 0.1 equals no double"),
        (pa.int64(), pa.float64(), "remark", "from 2^53"),
        (pa.float64(), pa.float64(), "remark", "last digits"),
        (pa.null(), pa.int64(), "warning", "without a value"),
        (pa.int32(), pa.int64(), None, ""),
        (pa.int64(), pa.decimal128(9, 0), None, ""),
    ],
)
def test_types(left: pa.DataType, right: pa.DataType, severity: str | None, reason: str) -> None:
    tables = {
        "a": pa.table({"k": pa.array([None] if left == pa.null() else [1], left)}),
        "b": pa.table({"k": pa.array([1], right)}),
    }
    said = [f for f in check(tables, ("a", "b", "k")).findings if f.kind == "types"]
    assert [f.severity for f in said] == ([severity] if severity else [])
    assert all(reason in f.message for f in said)


def test_types_that_no_join_has_yet() -> None:
    from calitree.integrity.edges import flaw_of_types

    assert flaw_of_types(Kind.DATE, Kind.TIMESTAMP) == (
        "warning",
        "a date equals a timestamp at midnight only",
    )
    assert flaw_of_types(Kind.INTEGER, Kind.STRING) is not None
    tables = {"a": {"k": [1]}, "b": {"k": ["1"]}}
    with pytest.raises(ct.SchemaError, match="Cast one of them"):
        graph_of(tables, ("a", "b", "k"))


def test_dates_that_meet_timestamps() -> None:
    times = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 12)]
    tables = {"a": {"k": [datetime.date(2024, 1, 1)]}, "b": {"k": times}}
    checked = check(tables, ("a", "b", "k"))
    assert "a date equals a timestamp at midnight only" in only(checked, "types").message
    assert checked.edges[0].right.orphan_rows == 1


def test_other_spellings() -> None:
    tables = {"a": {"k": ["x", "Ab", " c", "d"]}, "b": {"k": ["x", "aB ", "C", "e"]}}
    finding = only(check(tables, ("a", "b", "k")), "spelling")
    assert finding.severity == "warning"
    assert (finding.keys, finding.rows) == (2, 2)
    assert finding.message.startswith(
        "of 3 keys of a that b does not have, 2 are there with other blanks"
    )


def test_other_spellings_of_composite_keys() -> None:
    tables = {
        "a": {"k": ["A", "b"], "n": [1, 2]},
        "b": {"k": ["a", "B", "q"], "n": [1, 3, 4]},
    }
    finding = only(check(tables, ("a", "b", ["k", "n"])), "spelling")
    assert [e.key for e in finding.examples] == [("A", 1)]


def test_hardly_any_other_spelling_is_a_remark() -> None:
    keys = [f"k{i}" for i in range(30)]
    tables = {"a": {"k": ["x", "Y", *keys]}, "b": {"k": ["x", "y", *(f"{k}b" for k in keys)]}}
    assert only(check(tables, ("a", "b", "k")), "spelling").severity == "remark"


ODD = ["\0A", "It's", "\u2028X", "B" * 2_000, "A\\b${x}", "É\n", "-- C", "/* D"]


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_keys_of_odd_characters(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"a": {"k": ["m", *ODD]}, "b": {"k": ["m", *(f"{key.lower()} " for key in ODD)]}}
    finding = only(graph_of(tables, ("a", "b", "k"), engine=engine).check(), "spelling")
    assert finding.keys == len(ODD) - 2, "all but the one with NUL and the long one"
    monkeypatch.setattr("calitree.integrity.key_counts.MAX_COLLECTED_KEYS", 1)
    few = graph_of(tables, ("a", "b", "k"), engine=engine).check()
    assert [(f.keys, f.examples) for f in few.findings] == [(8, ()), (8, ())], "the least has a NUL"


def test_no_spelling_where_none_is_like_another() -> None:
    tables = {"a": {"k": ["x", "y"]}, "b": {"k": ["x", "z"]}}
    assert "spelling" not in [f.kind for f in check(tables, ("a", "b", "k")).findings]


# -- the graph as a whole --------------------------------------------------------------------------


def test_relations_without_a_join_and_parts() -> None:
    tables = {name: {"k": [1]} for name in "abcd"}
    checked = check(tables, ("a", "b", "k"))
    assert kinds(checked) == [
        ("error", "not-connected"),
        ("error", "unjoined"),
        ("error", "unjoined"),
    ]
    assert "3 parts that no join connects: a, b; c; d" in checked.findings[0].message
    assert [f.where for f in checked.findings] == ["the graph", "c", "d"]


def test_a_single_relation_joins_nothing_and_that_is_well() -> None:
    checked = check({"a": {"k": [1]}})
    assert checked.ok and checked.edges == () and str(checked) == "Nothing was found."


def test_a_graph_without_relations() -> None:
    with pytest.raises(ct.TreeError, match="no relation"):
        ct.JoinGraph("local").check()


def test_columns_that_cannot_be_used() -> None:
    tables = {"a": pa.table({"k": [1], "tags": [["x"]]})}
    finding = only(check(tables), "unusable-column")
    assert finding.severity == "remark" and finding.message.startswith("tags is ")


def triangle(rows: int) -> ct.JoinGraph:
    edges = {"x": list(range(rows)), "y": list(range(rows))}
    joins = [("r", "s", {"y": "x"}), ("s", "t", {"y": "x"}), ("t", "r", {"y": "x"})]
    return graph_of({"r": edges, "s": edges, "t": edges}, *joins)


def test_a_cycle() -> None:
    finding = only(triangle(4).check(), "cyclic")
    assert finding.severity == "remark"
    assert finding.message.endswith("(r, s, t): width 1.5, at most 8 distinct rows.")


def test_a_cycle_of_large_relations_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calitree.integrity.graph_findings.LARGE_BAG_ROWS", 8)
    graph = triangle(4)
    (finding,) = graph_findings(graph.schema, graph.hypertree())
    assert (finding.severity, finding.kind) == ("warning", "cyclic")


# -- the value ---------------------------------------------------------------------------------------


def test_the_text() -> None:
    checked = check(SALES_AND_STORES, ("sales", "stores", "store"))
    assert str(checked).splitlines()[:6] == [
        "key           rows  keys  NULL  orphans  orphan keys  partners  most",
        "sales.store      6     3     1  3 50.0%            1         1     1",
        "stores.store     3     3     0  1 33.3%            1       1.5     2",
        "",
        "sales ⋈ stores on sales.store = stores.store",
        "  warning  orphans: 3 of 6 rows of sales (50.00%) have no partner in stores, and the join loses them; "
        "keys that are not there: 1 of 3; rows with NULL: 1. For example 9 (2).",
    ]
    assert repr(checked) == str(checked)


def test_as_a_table_and_as_dictionaries() -> None:
    checked = check(SALES_AND_STORES, ("sales", "stores", "store"))
    row = checked.rows()[0]
    assert list(row) == [
        "severity",
        "kind",
        "where",
        "message",
        "rows",
        "share",
        "keys",
        "examples",
    ]
    assert row["examples"] == ["9 (2)"]
    assert checked.arrow().num_rows == len(checked) == 3
    assert checked.pandas().shape == (3, 8)
    plain = checked.as_dict()
    assert plain["ok"] is False
    assert plain["edges"][0]["left"]["orphan_rows"] == 3
    assert plain["findings"][0]["examples"] == ({"key": (9,), "rows": 2},)


def test_severities() -> None:
    checked = check(SALES_AND_STORES, ("sales", "stores", "store"))
    assert [len(checked.at_least(s)) for s in ("remark", "warning", "error")] == [3, 2, 0]
    with pytest.raises(ct.QueryError, match=r"no severity 'warn'\. Did you mean warning"):
        checked.at_least("warn")


def test_long_keys_are_cut() -> None:
    assert len(str(ct.KeyExample(("x" * 500, 2), 1))) < 60


def test_progress() -> None:
    steps: list[tuple[int, int, str]] = []
    graph = graph_of(SALES_AND_STORES, ("sales", "stores", "store"))
    graph.check(lambda done, total, what: steps.append((done, total, what)))
    join = "sales ⋈ stores on sales.store = stores.store"
    assert steps == [(0, 3, "keys of sales"), (1, 3, "keys of stores"), (2, 3, join), (3, 3, "")]


# -- of a wide table ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_a_wide_table_is_checked_as_it_is_now(engine: str) -> None:
    graph = graph_of(SALES_AND_STORES, ("sales", "stores", "store"), engine=engine)
    wide = graph.calibrate()
    before = wide.check()
    assert before == graph.check()
    wide.update("stores", insert=[{"store": 9, "city": "Ambato"}], delete="store = 3")
    wide.update("sales", delete="store is null")
    assert wide.check().ok and wide.check().edges[0].joined_rows == 5
    assert wide.at(0).check() == before
    supposed = wide.what_if(delete={"stores": "store = 1"})
    assert only(supposed.check(), "orphans").rows == 2
    wider = wide.augment({"city": ["Quito"], "height": [2850]}, on="city", name="cities")
    assert only(wider.check(), "orphans").rows == 2


def test_each_relation_is_read_once() -> None:
    graph = graph_of(
        {
            "sales": {"a": [1], "b": [1], "c": [1]},
            "x": {"a": [1]},
            "y": {"b": [1]},
            "z": {"c": [1]},
        },
        *(("sales", other, key) for other, key in zip("xyz", "abc", strict=True)),
    )
    relations = [relation.table for relation in graph.schema.relations.values()]
    contract, reads = graph.engine.contract, []

    def counted(contraction: Any, watch: Any = None) -> Any:
        tables = [given.table for given in contraction.inputs]
        reads.extend(table for table in tables if any(table is r for r in relations))
        assert len(contraction.inputs) == 1 or not any(t is r for t in tables for r in relations)
        return contract(contraction, watch)

    graph.engine.contract = counted  # type: ignore[method-assign]
    assert graph.check().ok
    assert len(reads) == 4


# -- flights -----------------------------------------------------------------------------------------


def test_flights() -> None:
    checked = flights_graph(read_flights(), "local", how="inner").check()
    lost = {edge.right.relation: edge.left.orphan_rows for edge in checked.edges}
    assert lost == {"airlines": 0, "airports": 7_602, "planes": 52_606, "weather": 1_556}
    planes = next(edge for edge in checked.edges if edge.right.relation == "planes")
    assert (planes.left.rows, planes.left.null_rows, planes.right.orphan_rows) == (
        336_776,
        2_512,
        0,
    )
    assert (planes.left.most_partners, planes.right.most_partners) == (1, 486)
    (unknown,) = (f for f in checked.findings if f.rows == 52_606)
    assert str(unknown.examples[0]) == "'N725MQ' (575)"
