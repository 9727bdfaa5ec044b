"""`verify` finds what is wrong, and the demo tells it by its exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.apps.verify.plain import joined_sql
from calitree.cli import demo
from calitree.cli.main import app
from calitree.engines.local.annotation import values
from calitree.sql.parser import parse_node
from tests.test_join_graph import nations


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_right_answers_agree(engine: str) -> None:
    checked = (
        nations(engine)
        .calibrate({"n": "count(*)", "s": "sum(price)", "m": "max(n2.name)"})
        .verify()
    )
    assert checked.ok and checked
    assert len(checked.checks) > 10
    assert str(checked).count("agrees") == len(checked.checks)


def spoil(wide: ct.WideTable) -> None:
    """Make the numbers of all messages wrong."""
    for message in wide.state.store.pinned:
        table: Any = message.table
        for name, old in list(table.annotations.items()):
            table.annotations[name] = values.Value(old.data * 2, old.valid, scale=old.scale)


def test_a_wrong_message_is_found() -> None:
    wide = nations().calibrate()
    spoil(wide)
    checked = wide.verify()
    assert not checked.ok and not checked
    assert "in the join" in str(checked)


def test_the_join_is_built_by_the_declared_joins_alone() -> None:
    """a.t = c.t holds through b, so not without it; d is joined twice."""
    graph = ct.JoinGraph("reference")
    rows = {"t": [1, 1, 2, None], "k": [1, 2, 1, 1]}
    graph.add_relation("a", rows)
    graph.add_relation("b", {"t": [1, 2]})
    graph.add_relation("d", {"k": [1, 1]})
    graph.add_relation("c", rows)
    for left, right, column in ("abt", "cbt", "ack", "cdk", "adk"):
        graph.add_join(left, right, on=column)
    text = joined_sql(graph.schema, {name: name for name in "adc"}, "duckdb")
    assert text == (
        'FROM "a" JOIN "c" ON "a"."k" = "c"."k" JOIN "d" ON "c"."k" = "d"."k" AND "a"."k" = "d"."k"'
    )
    checked = graph.calibrate().verify([{"relations": ["a", "c"]}, {"relations": ["a", "b", "c"]}])
    assert checked.ok
    assert [check.result.rows() for check in checked.checks] == [[{"n": 10}], [{"n": 3}]]


def test_a_wrong_reading_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB is given the texts themselves: what we read in them does not matter to it."""
    wide = nations("local").calibrate()
    question = {"where": "price = 10 is null"}
    (check,) = wide.verify([question]).checks
    assert check.verbatim and not check.difference and "(price = 10 is null\n)" in check.sql

    def misread(text: str) -> Any:
        return parse_node(text.replace("price = 10 is null", "price = 10 is not null"))

    monkeypatch.setattr("calitree.sql.parser.parse_node", misread)
    (check,) = nations("local").calibrate().verify([question]).checks
    assert check.verbatim and "in the join" in check.difference


def test_texts_run_as_they_are() -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("t", {"unit price": [1, 2, None], "F": [0.5, 1.5, 2.5], "k": [1, 1, 2]})
    graph.add_relation("U", {"k": [1, 2], "City": ["x", "y"]})
    graph.add_join("t", "U", on="k")
    wide = graph.calibrate({"n": "count(*)", "s": 'sum("unit price") -- of all'})
    checked = wide.verify(
        [
            {"group_by": ["t.unit price", "city"]},
            {"group_by": ["u.k", '"City"'], "where": "F / (k - 1) is null -- or not"},
            {"measures": {"n": "sum(t.f * K) filter (where City = 'x')"}},
            {"relations": ["t"], "where": "T.F in (0.5, 1.5)"},
        ]
    )
    assert checked.ok and all(check.verbatim for check in checked.checks)
    assert "by DuckDB, which was asked all questions in the texts as given" in str(checked)


def test_a_question_without_a_text_that_duckdb_runs_is_put_by_our_reading() -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("city", {"city": ["x", "y"], "k": [1, 2]})
    graph.add_relation("t", {"k": [1, 1, 2], "v": [1, 2, 3]})
    graph.add_join("t", "city", on="k")
    wide = graph.calibrate({"n": "count(*)"})
    checked = wide.verify([{"where": "city = 'x' and city.k = 1"}, {"measures": {"s": "sum(v)"}}])
    assert checked.ok and not checked.checks[0].verbatim
    assert "(by our reading of it)" in str(checked.checks[0])
    assert "which was asked 0 of 2 questions" in str(checked)


def test_the_command(tmp_path: Path) -> None:
    wide = nations("local").calibrate()
    wide.save(str(tmp_path / "tree"))
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "tree"), "--engine", "local"])
    assert done.exit_code == 0, done.output
    assert "in the texts as given" in done.output and "agrees" in done.output


def test_compare_sees_every_kind_of_difference() -> None:
    def table(**columns: Any) -> Any:
        import pyarrow as pa

        return pa.table(columns)

    same = table(k=[1, None], v=[1.0, 2.0])
    assert compare(same, table(k=[None, 1], v=[2.0, 1.0 + 1e-13]), 1) == ""
    assert "only in the join" in compare(table(k=[1], v=[1.0]), same, 1)
    assert "only in ours" in compare(same, table(k=[1], v=[1.0]), 1)
    assert "v is 2.0" in compare(same, table(k=[1, None], v=[1.0, 2.1]), 1)
    assert "v is None" in compare(table(v=[None]), table(v=[0]), 0)
    assert "2 times" in compare(table(k=[1, 1], v=[1, 1]), table(k=[1], v=[1]), 1)


def test_the_demo_locally() -> None:
    console = Console(width=140, record=True, quiet=True)
    assert demo.run("local", console)
    done = CliRunner().invoke(app, ["demo", "--engine", "local"])
    assert done.exit_code == 0, done.output
    assert "Every answer agrees" in done.output and "336,776" in done.output
    assert done.output.count(" yes ") == len(demo.QUESTIONS) == 9


def test_the_demo_fails_if_an_answer_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrate = ct.JoinGraph.calibrate

    def wrong(self: ct.JoinGraph, *args: Any, **kwargs: Any) -> ct.WideTable:
        wide = calibrate(self, *args, **kwargs)
        spoil(wide)
        return wide

    monkeypatch.setattr(ct.JoinGraph, "calibrate", wrong)
    done = CliRunner().invoke(app, ["demo", "--engine", "local"])
    assert done.exit_code == 1
    assert "SOME ANSWERS DIFFER" in done.output


def test_the_command_line_explains_itself() -> None:
    runner = CliRunner()
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output == f"calitree {ct.__version__}\n"
    assert runner.invoke(app, ["nonsense"]).exit_code == 2


@pytest.mark.spark
def test_the_demo_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the demo, on every fiftieth flight: this session interprets queries."""
    write = demo.write_flights

    def some(directory: Path) -> dict[str, str]:
        paths = write(directory)
        flights = pq.read_table(paths["flights"])
        pq.write_table(flights.take(list(range(0, len(flights), 50))), paths["flights"])
        return paths

    monkeypatch.setattr(demo, "write_flights", some)
    assert demo.run(spark, Console(width=140, quiet=True))


def test_a_filter_by_a_column_that_is_true_or_null() -> None:
    """DuckDB 2.0 loses it beside a distinct count, unless its statistics are not propagated."""
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {"paid": [True, None], "price": [3.0, 4.0]})
    asked = {"prices": "count(distinct sales.price)", "total": "sum(sales.price)"}
    checked = graph.calibrate(asked).verify([{"where": "sales.paid"}])
    assert checked.ok, str(checked)
    assert checked.checks[0].result.rows() == [{"prices": 1, "total": 3.0}]
