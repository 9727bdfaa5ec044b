"""Compiling all loops ahead of time, so that no question has to wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.join_graph import JoinGraph


def warm_up() -> Path | None:
    """Ask questions that call every loop with every type of array it may get.

    Returns:
        The directory below which the compiled code is; None if it could not be written anywhere.
    """
    from calitree.engines.local import LocalEngine
    from calitree.process.compiled import directory_in_use

    for large in (0, 1 << 62):
        graph = JoinGraph(LocalEngine(threads=2, large=large))
        for name, table in _tables().items():
            graph.add_relation(name, table)
        graph.add_join("sales", "days", on="day")
        graph.add_join("sales", "shops", on="shop")
        graph.add_join("days", "shops", on="town")
        graph.add_join("sales", "visits", on=["day", "shop", "ticket"])
        wide = graph.calibrate(
            {
                "n": "count(*)",
                "s": "sum(price)",
                "t": "sum(units)",
                "m": "min(price)",
                "g": "sum(guests)",
            },
            memory_limit=0,
            progress=False,
        )
        for _ in range(3):  # an index of rows is built for the second, and used for the third
            wide.query(group_by=["name", "weather"], where="shops.shop = 1")
            wide.query(group_by=["ticket", "guests"])
    _compute_wide_integers()
    _merge_covariances()
    _select_rows()
    _warm_up_texts()
    _look_up_lists()
    _look_up_ranges()
    _hash_values()
    return directory_in_use()


def _compute_wide_integers() -> None:
    """Call every loop over integers of 128 bits; each gets one type of arrays only."""
    from calitree.engines.local.annotation import wide

    numbers, groups = wide.of_integers([1 << 100, 2]), np.zeros(2, np.int64)
    wide.multiplied(numbers, numbers)
    wide.added(numbers, numbers)
    wide.bound(numbers)
    wide.to_doubles(numbers)
    sums = wide.WideSums(1)
    sums.add(groups, numbers)
    sums.merge(wide.WideSums(1))
    wide.improve(numbers.copy(), np.zeros(2, np.bool_), groups, numbers, largest=True)


def _merge_covariances() -> None:
    """Call every loop over covariances, with groups of both types."""
    from calitree.engines.local.annotation.covariances import merged_by

    for dtype in (np.int32, np.int64):
        merged_by(np.ones((4, 2)), np.zeros(2, dtype), 1)


def _look_up_ranges() -> None:
    """Call every loop over ranges, with integers and doubles."""
    from calitree.engines.local.annotation.values import Value
    from calitree.engines.local.theta.comparisons import Ordered
    from calitree.engines.local.theta.ranges import RangeMatches, StabbedMatches, extreme, total
    from calitree.engines.local.theta.sorted_rows import SortedRows

    rows = SortedRows(Ordered(np.arange(2), None), None, 1)
    for writeable in (True, False):  # arrays of Arrow are not
        whole, doubles = np.arange(2), np.ones(2)
        whole.flags.writeable = doubles.flags.writeable = writeable
        ranges = rows.ranges([("<=", Ordered(whole, None))], np.zeros(2, np.int64))
        for matches in (
            RangeMatches(rows.order, [ranges]),
            StabbedMatches(rows.order, ranges, None, 2),
        ):
            total(Value(whole), matches)
            total(Value(doubles), matches)
            extreme(Value(whole), matches, largest=False)


def _select_rows() -> None:
    """Call the loops that list rows, by several ids, and by masks that may be written and that may not."""
    from calitree.engines.local.encoding.spaces import RowIndex
    from calitree.engines.local.scan.distinct import mark_bits
    from calitree.engines.local.scan.scan import rows_of

    RowIndex(np.array([1, 2], np.int32), 3).rows(np.array([1, 2]))

    mask = np.ones(2, np.bool_)
    rows_of(mask)
    mark_bits(np.arange(2), np.arange(2), mask, np.zeros((2, 1), np.uint64))
    mask.flags.writeable = False
    rows_of(mask)


def _warm_up_texts() -> None:
    """Texts that hardly repeat are compared by loops of their own."""
    from calitree.engines.local.annotation.columns import MAX_SMALL

    texts = pa.array([str(i) for i in range(2 * MAX_SMALL)])
    graph = JoinGraph("local")
    graph.add_relation("texts", pa.table({"t": texts, "g": np.arange(len(texts)) % 3}))
    wide = graph.calibrate({"n": "count(*)"}, progress=False)
    wide.query(group_by=["g"], measures={"m": "max(t)"}, where="t LIKE '%12%' AND t < '7'")
    wide.query(measures={"m": "min(t)"})
    for row in range(5):  # an index of values is built for the fourth
        wide.update("texts", delete=[{"t": str(row)}])


def _look_up_lists() -> None:
    """Call every loop that looks for values of a long list: close together, far apart, and texts."""
    from calitree.sql.kernels.membership import ValueSet

    near = pa.array([1, 2])
    for values in (near, pa.array([0, 1 << 40])):
        ValueSet(values, values.type).find(values)
    for dtype in (pa.string(), pa.large_string()):
        ValueSet(near.cast(pa.large_string()), dtype).find(near.cast(dtype))


def _hash_values() -> None:
    """Call the loops that hash integers, and texts of both types."""
    from calitree.sql.kernels.sketches import xxhash

    xxhash.of_integers(np.arange(2))
    for dtype in (pa.string(), pa.large_string()):
        xxhash.of_bytes(pa.array(["a"], dtype))


def _tables() -> dict[str, pa.Table]:
    """A cycle of three, and keys that are encoded in all ways: dense, sparse, with NULL, as text."""
    rows = np.arange(64)
    far: Any = rows * (1 << 40)
    wide = pa.array((rows % 8 * (1 << 27)).astype(np.int32))
    keys = {"day": wide, "shop": rows % 4, "ticket": pa.array(far, mask=rows == 1)}
    return {
        "sales": pa.table({**keys, "price": rows / 2, "units": rows}),
        "visits": pa.table({**keys, "guests": pa.array(rows.astype(np.int32), mask=rows == 2)}),
        "days": pa.table({"day": wide, "town": far % 3, "weather": [str(i % 5) for i in rows]}),
        "shops": pa.table(
            {"shop": rows[:4], "town": far[:4] % 3, "name": [str(i) for i in range(4)]}
        ),
    }
