"""Rows supposed away again and again: what each row adds to the pivot's answer is known then."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calitree.apps.verify.check import compare
from calitree.engines.local import LocalEngine
from tests.support.databases import databases, join_size, questions
from tests.support.engines import LOCAL, engine_named
from tests.support.oracle import MAX_JOIN
from tests.support.scale import examples

USED: list[int] = []


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def check(data: st.DataObject) -> None:
    database = data.draw(databases(max_relations=4), label="database")
    assume(join_size(database) <= MAX_JOIN)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    engine: Any = engine_named(data.draw(st.sampled_from(LOCAL), label="engine"))
    ours = database.graph(engine).calibrate(**pivot)
    theirs = database.graph("reference").calibrate(**pivot, maintenance="recompute")
    asked = {"group_by": pivot["group_by"], "where": pivot.get("where")}
    ours.query(**asked)
    name = data.draw(st.sampled_from(sorted(database.tables)), label="relation")
    table = database.tables[name]
    column = data.draw(st.sampled_from(table.column_names), label="column")
    assume(len(table.column_names) > 1 and table.num_rows)
    for at in data.draw(st.lists(st.integers(0, table.num_rows - 1), min_size=4, max_size=4)):
        gone = {name: table.slice(at, 2).select([column])}
        result = ours.what_if(delete=gone).query(**asked)
        expected = theirs.what_if(delete=gone).query(**asked)
        difference = compare(result.arrow(), expected.arrow(), len(pivot["group_by"]))
        assert not difference, f"{gone}: {difference}\n{result.plan}"
    assert isinstance(ours.engine, LocalEngine)
    USED.append(sum(bool(known) for _, known in ours.engine._prepared.contributions.items()))


def test_as_the_reference_computes_it() -> None:
    USED.clear()
    check()
    assert sum(map(bool, USED)) > len(USED) / 4, "what each row adds is hardly ever used"
