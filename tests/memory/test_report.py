"""`WideTable.memory`: what is told is what NumPy and Arrow say, and it never passes the limit."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.memory.budget import ENTRY_BYTES

ROWS = 5_000


def sales() -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "store": random.integers(0, 10, ROWS),
            "price": random.integers(1, 100, ROWS),
            "weight": random.random(ROWS),
            "note": [f"note {i}" for i in range(ROWS)],
        }
    )


def shop(source: Any = None, **options: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", sales() if source is None else source)
    graph.add_relation("stores", {"store": range(10), "city": [f"c{i % 3}" for i in range(10)]})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"n": "count(*)"}, progress=False, **options)


def kept(wide: ct.WideTable, kind: str) -> tuple[int, int]:
    """How many there are of a kind, and their bytes without those of entries."""
    held = [holding for holding in wide.memory().kept if holding.kind == kind]
    if not held:
        return 0, 0
    return held[0].count, held[0].nbytes - ENTRY_BYTES * held[0].count


def test_a_lift_counts_with_its_array() -> None:
    wide = shop()
    assert kept(wide, "lifts") == (0, 0)
    wide.query(measures={"s": "sum(price * 2)"})
    assert kept(wide, "lifts") == (1, 8 * ROWS)
    wide.query(measures={"s": "sum(weight * 2)"})
    assert kept(wide, "lifts") == (2, 16 * ROWS)
    wide.query(measures={"s": "sum(weight * 2)"})
    assert kept(wide, "lifts") == (2, 16 * ROWS)


def test_codes_count_four_bytes_a_row() -> None:
    wide = shop()
    assert kept(wide, "codes")[1] >= 4 * ROWS + 4 * 10
    before = kept(wide, "codes")[1]
    wide.query(["note"])
    assert kept(wide, "codes")[1] - before >= 4 * ROWS


def test_a_column_that_is_read_for_a_filter_counts(tmp_path: Path) -> None:
    path = tmp_path / "sales.parquet"
    pq.write_table(sales(), path)
    wide = shop(str(path))
    wide.query(where="weight > 0.5")
    count, nbytes = kept(wide, "columns")
    assert count == 1 and 8 * ROWS <= nbytes <= 8 * ROWS + ROWS // 8  # a bit for NULL
    assert kept(wide, "filters") == (1, ROWS // 8)
    assert wide.memory().data[0] == ct.Holding(
        "relations", 2, sum(r.table.nbytes for r in wide.schema.relations.values())
    )


def test_a_file_is_read_again_where_there_is_no_room(tmp_path: Path) -> None:
    path = tmp_path / "sales.parquet"
    pq.write_table(sales(), path)
    wide = shop(str(path), memory_limit=20_000)
    for least in (0.25, 0.5, 0.25):
        weights = sales().column("weight").to_numpy()
        assert wide.query(where=f"weight > {least}").rows() == [{"n": int((weights > least).sum())}]
        assert kept(wide, "columns") == (0, 0) and wide.memory().kept_bytes <= 20_000


def test_what_is_kept_goes_with_its_relation() -> None:
    wide = shop()
    wide.query(measures={"s": "sum(price * 2)"})
    budget = wide.state.store.budget
    assert budget.nbytes > 8 * ROWS
    del wide
    gc.collect()
    assert sum(holding.nbytes for holding in budget.holdings) == 0


def test_trees_of_one_graph_share_a_budget_of_the_largest_limit() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("sales", sales())
    small = graph.calibrate(memory_limit=1_000, progress=False)
    large = graph.calibrate(memory_limit=1 << 20, progress=False)
    large.query(measures={"s": "sum(price * 2)"})
    assert small.memory() == large.memory() and small.memory().limit == 1 << 20
    del large
    gc.collect()
    assert small.memory().limit == 1_000
    small.query(measures={"s": "sum(price * 3)"})
    assert small.memory().kept_bytes <= 1_000


def test_graphs_do_not_share_one() -> None:
    ours, theirs = shop(memory_limit=1 << 20), shop(memory_limit=1 << 21)
    assert (ours.memory().limit, theirs.memory().limit) == (1 << 20, 1 << 21)


def test_what_ifs_and_augmented_trees_count_a_message_once() -> None:
    wide = shop()
    wide.query(["city"], where="price > 50")
    count = kept(wide, "messages")[0]
    assert count == 1
    other = wide.augment({"city": ["c0"], "high": [True]}, on="city", name="cities")
    assert kept(other, "messages")[0] == count
    supposed = wide.what_if(delete={"sales": "price > 90"})
    assert supposed.memory().limit == wide.memory().limit


def test_a_saved_tree_has_its_limit_and_may_be_given_another(tmp_path: Path) -> None:
    shop(memory_limit=1 << 20).save(tmp_path / "tree")
    assert ct.open(tmp_path / "tree", "local").memory().limit == 1 << 20
    opened = ct.open(tmp_path / "tree", "local", memory_limit=7)
    assert opened.memory().limit == 7 and opened.query().rows() == [{"n": ROWS}]


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_it_prints_who_holds_what(engine: str) -> None:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("sales", {"price": [10, 20, 5]})
    wide = graph.calibrate(memory_limit=2_000_000)
    wide.query(where="price > 5")
    lines = str(wide.memory()).splitlines()
    assert lines[0].startswith("kept ") and lines[0].endswith(" of 2.0 MB")
    assert any(line.split()[0] == "questions" for line in lines)
    assert any(line.split()[0] == "relations" for line in lines)
    assert wide.memory().data_bytes == sum(holding.nbytes for holding in wide.memory().data)
