"""The generic join against a join written down as one would define it, and against DuckDB."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calitree.engines.local.join.generic_join import GenericJoin, variable_order
from calitree.engines.local.join.trie import Codes, Tries, trie
from calitree.errors import EngineError
from tests.support.scale import examples

Relation = Mapping[str, Codes]

module = sys.modules[GenericJoin.__module__]


def codes(*values: int) -> Codes:
    return np.array(values, np.int32)


def by_definition(relations: Sequence[Relation]) -> Counter[tuple[int, ...]]:
    """Every row of each with every row of those before, if they agree and nothing is NULL."""
    names = Counter(name for relation in relations for name in relation)
    partial: list[tuple[dict[str, int], tuple[int, ...]]] = [({}, ())]
    for relation in relations:
        longer = []
        for bound, rows in partial:
            for row in range(len(next(iter(relation.values())))):
                here = {n: int(c[row]) for n, c in relation.items() if names[n] > 1}
                if all(code and bound.get(n, code) == code for n, code in here.items()):
                    longer.append((bound | here, (*rows, row)))
        partial = longer
    return Counter(rows for _, rows in partial)


def joined(relations: Sequence[Relation | Tries], threads: int = 1) -> Counter[tuple[int, ...]]:
    columns = GenericJoin(relations).rows(threads)
    assert len(columns) == len(relations)
    assert all(rows.dtype == np.int32 and rows.flags.c_contiguous for rows in columns)
    return Counter(zip(*(rows.tolist() for rows in columns), strict=True))


@st.composite
def databases(draw: st.DrawFn) -> list[Relation]:
    """Two to five relations of few rows and fewer values: NULLs, repeated rows, empty tables, parts
    that nothing connects, attributes that nobody shares, and codes that are far apart.
    """
    codes_there = draw(
        st.sampled_from([(0, 1, 2, 3), (1, 1, 1, 2), (0, 5, 2_000_000_000, 2**31 - 1), (1, 2)])
    )
    relations = []
    for _ in range(draw(st.integers(2, 5))):
        names = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True))
        rows = draw(st.integers(0, 6))
        column = st.lists(st.sampled_from(codes_there), min_size=rows, max_size=rows)
        relations.append({name: codes(*draw(column)) for name in names})
    return relations


@settings(max_examples=examples(300), deadline=None)
@given(databases())
def test_the_join_is_as_defined(relations: list[Relation]) -> None:
    expected = by_definition(relations)
    assert joined(relations) == expected
    assert GenericJoin(relations).count(1) == expected.total()


@settings(max_examples=examples(100), deadline=None)
@given(databases(), st.integers(1, 3))
def test_threads_and_small_blocks_change_nothing(relations: list[Relation], threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PARALLEL_ENTRIES", 0)
        patch.setattr(module, "FIRST_BLOCK_ROWS", 1)
        patch.setattr(module, "MAX_BLOCK_ROWS", 3)
        rows = GenericJoin(relations).rows(threads)
        assert GenericJoin(relations).count(threads) == len(rows[0])
    for ours, alone in zip(rows, GenericJoin(relations).rows(1), strict=True):
        assert np.array_equal(ours, alone), "the order of the rows is the same too"


# -- larger ones, where ranges are marked, searched and split ---------------------------------------

SHAPES = {
    "triangle": ("ab", "bc", "ca"),
    "square": ("ab", "bc", "cd", "da"),
    "clique": tuple("".join(pair) for pair in combinations("abcd", 2)),
    "wide": ("abc", "bcd", "ad"),
    "path": ("ab", "bc", "cd"),
    "same": ("ab", "ab", "ab"),
    "star": ("a", "ab", "abc", "c"),
}


def skewed(names: str, rows: int, values: int, rng: np.random.Generator) -> Relation:
    """A few codes are everywhere, most are rare, and some rows repeat or have a NULL."""
    return {
        name: np.minimum(values, (values * rng.random(rows) ** 3).astype(np.int32))
        for name in names
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("values", [8, 40, 2000])
def test_duckdb_finds_the_same(shape: str, values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARALLEL_ENTRIES", 100)
    rng = np.random.default_rng([len(shape), values])
    sizes = {8: (20, 30), 40: (100, 400), 2000: (300, 3000)}[values]
    relations = [skewed(names, int(rng.integers(*sizes)), values, rng) for names in SHAPES[shape]]
    rows = GenericJoin(relations).rows()
    assert len(rows[0]) == GenericJoin(relations).count()
    with duckdb.connect() as connection:
        holders: dict[str, list[str]] = {}
        for r, relation in enumerate(relations):
            table = pa.table({**relation, "row": np.arange(len(next(iter(relation.values()))))})
            connection.register(f"r{r}", table)
            for name in relation:
                holders.setdefault(name, []).append(f"r{r}.{name}")
        equal = [f"{first} = {other}" for first, *others in holders.values() for other in others]
        there = [f"{every[0]} <> 0" for every in holders.values() if len(every) > 1]
        columns = ", ".join(f"r{r}.row" for r in range(len(relations)))
        tables = ", ".join(f"r{r}" for r in range(len(relations)))
        sql = f"SELECT {columns} FROM {tables} WHERE {' AND '.join(equal + there)}"
        expected = connection.sql(sql).to_arrow_table()
    assert _sorted(rows) == _sorted([column.to_numpy() for column in expected.columns])


def _sorted(columns: Sequence[Any]) -> Any:
    return np.stack(columns)[:, np.lexsort(columns)].tolist()


def test_of_the_unbalanced_triangle_only_the_result_is_built() -> None:
    """R and T meet in 10⁸ rows, all three in 10⁴."""
    ones, many = np.ones(10_000, np.int32), np.arange(1, 10_001, dtype=np.int32)
    left, right = (many - 1) // 100 + 1, (many - 1) % 100 + 1
    relations = [{"a": ones, "b": many}, {"b": left, "c": right}, {"a": ones, "c": many}]
    rows = GenericJoin(relations).rows()
    assert np.array_equal(np.sort(rows[1]), many - 1)
    assert np.array_equal(many[rows[0]], left[rows[1]])
    assert np.array_equal(many[rows[2]], right[rows[1]])


# -- one by one ------------------------------------------------------------------------------------


def test_parts_without_a_common_attribute_are_crossed() -> None:
    relations = [{"a": codes(1, 2)}, {"b": codes(3, 3)}, {"a": codes(2, 0)}, {"b": codes(3)}]
    assert joined(relations) == Counter({(1, 0, 0, 0): 1, (1, 1, 0, 0): 1})


def test_a_relation_without_attributes_has_its_rows() -> None:
    relations = [Tries({}, rows=2), Tries({"a": codes(1)}), Tries({"a": codes(1, 1)})]
    assert joined(relations) == Counter({(r, 0, t): 1 for r in (0, 1) for t in (0, 1)})
    assert GenericJoin(relations).count() == 4


def test_null_in_an_attribute_that_nobody_shares_does_not_matter() -> None:
    assert joined([{"a": codes(1), "x": codes(0)}, {"a": codes(1)}]) == Counter({(0, 0): 1})


def test_more_rows_than_32_bits_are_counted() -> None:
    same = {"a": np.ones(2000, np.int32)}
    assert GenericJoin([same] * 3).count() == 8_000_000_000


@pytest.mark.parametrize("join", [GenericJoin.rows, GenericJoin.count])
def test_more_rows_than_64_bits_are_refused(join: Any) -> None:
    same = {"a": np.ones(6000, np.int32)}
    with pytest.raises(EngineError, match="more than 4,611,686,018,427,387,904 rows"):
        join(GenericJoin([same] * 5))


def test_who_keeps_the_tries_sorts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_by: list[int] = []

    def counted(columns: Sequence[Codes]) -> Any:
        sorted_by.append(len(columns))
        return trie(columns)

    monkeypatch.setattr(sys.modules[Tries.__module__], "trie", counted)
    edges = codes(1, 1, 2, 3), codes(2, 3, 3, 1)
    kept = [Tries(dict(zip(names, edges, strict=True))) for names in SHAPES["triangle"]]
    first = joined(kept)
    assert sorted_by == [2, 2, 2]
    assert joined(kept) == first == Counter([(0, 2, 3), (2, 3, 0), (3, 0, 2)])
    assert sorted_by == [2, 2, 2]


def test_a_trie_has_every_prefix_once() -> None:
    sorted_rows = trie([codes(2, 1, 2, 0, 1, 2), codes(7, 7, 5, 5, 0, 7)])
    assert [level.values.tolist() for level in sorted_rows.levels] == [[1, 2], [7, 5, 7]]
    assert [level.starts.tolist() for level in sorted_rows.levels] == [[0, 1, 3], [0, 1, 2, 4]]
    assert [level.max_fanout for level in sorted_rows.levels] == [2, 2]
    assert sorted_rows.rows.tolist() == [1, 2, 0, 5]
    assert not sorted_rows.unique


# -- the order of the variables --------------------------------------------------------------------


def test_the_variable_with_the_fewest_values_is_first() -> None:
    r, s, t = {"a": 1, "b": 10_000}, {"b": 100, "c": 100}, {"a": 1, "c": 10_000}
    assert variable_order([r, s, t], [10_000] * 3)[0] == "a"


def test_what_is_known_from_those_before_comes_next() -> None:
    """Of a key that is bound there is one row: `y` has the more values, and then only one."""
    orders, stores, days = {"k": 50, "x": 60}, {"k": 50, "y": 900}, {"x": 60, "y": 900}
    assert variable_order([orders, stores, days], [50 * 60, 50, 54_000])[:2] == ("k", "y")


def test_variables_follow_the_relations() -> None:
    """A small variable far away would be paired with all values of the first."""
    path = [{"a": 5, "b": 90}, {"b": 90, "c": 80}, {"c": 80, "d": 6}]
    assert variable_order(path, [100] * 3) == ("a", "b", "c", "d")
