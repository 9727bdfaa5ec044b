"""Measures at a grain: saved trees, model files, `verify`, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import calitree as ct
from calitree.cli.model import ModelFile
from tests.calibration.test_parts import two_legs


def test_saved_and_opened(tmp_path: Path) -> None:
    wide = two_legs("local")
    wide.save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", engine="local")
    assert opened.measures == wide.measures
    assert sorted(opened.query(["city"]).rows(), key=str) == sorted(
        wide.query(["city"]).rows(), key=str
    )
    assert opened.query(measures=["n", "employees"]).plan.computed == ()
    shown = ct.saved.status(tmp_path / "tree").measures
    assert shown["employees"] == "sum(employees) at grain stores"


def test_a_graphs_default_is_saved(tmp_path: Path) -> None:
    graph = ct.JoinGraph(engine="local", grain="owner")
    graph.add_relation("a", {"k": [1, 1], "x": [2, 3]})
    graph.add_relation("b", {"k": [1, 1], "y": [5, 7]})
    graph.add_join("a", "b", on="k")
    wide = graph.calibrate({"x": "sum(x)"})
    wide.save(tmp_path / "tree")
    for tree in (wide, ct.open(tmp_path / "tree", engine="local")):
        assert tree.query(measures={"x": "sum(x)", "y": "sum(y)"}).rows() == [{"x": 5, "y": 12}]
        wide_reading = {"x": ct.measure("sum(x)")}
        assert tree.query(measures=wide_reading).rows() == [{"x": 10}]


def test_verified_with_numbered_rows() -> None:
    checked = two_legs("local").verify()
    assert checked.ok
    assert "row of stores" in checked.checks[0].sql


def test_in_a_model_file(tmp_path: Path) -> None:
    wide = two_legs("local")
    for name, relation in wide.schema.relations.items():
        parquet.write_table(wide.engine.arrow(relation.table), tmp_path / f"{name}.parquet")
    model = tmp_path / "model.toml"
    model.write_text(
        """
        [relations]
        stores = "stores.parquet"
        sales = "sales.parquet"
        [[joins]]
        left = "stores"
        right = "sales"
        on = {id = "store"}
        [measures]
        n = "count(*)"
        employees = { text = "sum(employees)", grain = "stores" }
        """
    )
    given = ModelFile.read(model)
    assert given.calibrate(given.graph("local")).query().rows() == [{"n": 4, "employees": 30}]
    model.write_text(model.read_text().replace('"stores" }', "1 }"))
    with pytest.raises(ct.ModelError, match="measure employees: grain is a relation"):
        ModelFile.read(model)


def test_plans_warn_of_what_is_repeated() -> None:
    wide = two_legs("local")
    (warning,) = wide.plan(measures={"e": "avg(employees)", "n": "count(*)"}).warnings
    assert warning.startswith("e counts rows of stores as often as sales repeats them")
    assert wide.plan(measures=["employees"]).warnings == ()
    assert wide.plan(measures={"p": "sum(price)"}, relations=["sales", "stores"]).warnings == ()


def test_inflation() -> None:
    wide = two_legs("local")
    asked = {"p": "sum(price)", "city": "min(city)", "e": wide.measures["employees"]}
    inflation = wide.query(measures=asked).inflation
    assert inflation == {"p": 37 / 26, "city": None, "e": 80 / 30}
    filtered = {"q": "sum(price) filter (where city = 'Quito')"}  # of which sales alone cannot tell
    assert wide.query(measures=filtered).inflation == {"q": None}


@pytest.mark.parametrize(
    ("text", "grain", "reason"),
    [
        ("sum(price)", "stores", "price is computed from sales.*Add sales to the grain"),
        ("count(*)", "shops", "no relation 'shops'.*stores"),
        ("sum(employees) filter (where price > 5)", "stores", "filter with where="),
    ],
)
def test_refusals(text: str, grain: Any, reason: str) -> None:
    wide = two_legs("local")
    with pytest.raises(ct.CalitreeError, match=reason):
        wide.query(measures={"m": ct.measure(text, grain=grain)})


def test_conditions_across_a_grain_of_several_relations_are_refused() -> None:
    """They would need rows of both told apart; when this works, the page should say so."""
    wide = two_legs("local")
    both = ct.measure("sum(price * employees)", grain=["sales", "stores"])
    with pytest.raises(ct.QueryError, match="would repeat rows of sales and stores"):
        wide.query(measures={"m": both}, where="kind < city or price > 5")


def test_what_is_between_the_relations_of_a_grain() -> None:
    """A store that is there once repeats no pair of a sale and a visit; a bridge may."""
    wide = two_legs("local")
    pairs = ct.measure("count(*)", grain=["sales", "visits"])
    assert wide.query(measures={"pairs": pairs}).rows() == [{"pairs": 6}]
    wide.update("stores", insert=[{"id": 1, "city": "Q", "employees": 1}])
    with pytest.raises(ct.QueryError, match=r"joined through stores.*add stores to the grain"):
        wide.query(measures={"pairs": pairs})


def test_extremes_leave_out_what_has_no_row_of_the_grain() -> None:
    """How often a row counts does not matter to them; whether it counts does."""
    graph = ct.JoinGraph("local")
    graph.add_relation("stores", {"id": [1, 2], "size": [10, 20]})
    graph.add_relation("visits", {"store": [1, 1], "guests": [3, None]})
    graph.add_join("stores", "visits", on={"id": "store"}, how="left")
    wide = graph.calibrate()
    most = {
        "plain": ct.measure("max(guests)", grain="visits"),
        "most": ct.measure("max(coalesce(guests, 5))", grain="visits"),
        "values": ct.measure("count(distinct coalesce(guests, 5))", grain="visits"),
        "wide": "max(coalesce(guests, 5))",
    }
    assert sorted(wide.query(["id"], measures=most).rows(), key=lambda row: row["id"]) == [
        {"id": 1, "plain": 3, "most": 5, "values": 2, "wide": 5},
        {"id": 2, "plain": None, "most": None, "values": 0, "wide": 5},
    ]
    folded = {"middle": ct.measure("median(size)", grain="stores")}
    folded |= {"guests": ct.measure("list(guests)", grain="visits")}
    asked = [{"group_by": groups, "measures": m} for groups in ([], ["id"]) for m in (most, folded)]
    checked = wide.verify([*asked, {"group_by": ["id"], "measures": {"most": most["most"]}}])
    assert checked.ok, str(checked)
    both = ct.measure("max(size)", grain=["stores", "visits"])
    with pytest.raises(ct.QueryError, match="are joined by an outer join"):
        wide.query(["id"], measures={"most": both})
