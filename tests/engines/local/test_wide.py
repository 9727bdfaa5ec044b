"""Arrays of 128-bit integers, against Python's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calitree.engines.local.annotation import wide
from calitree.engines.local.annotation.values import Value, repeated
from calitree.engines.local.annotation.wide import WIDE_LIMIT

EDGES = [0, 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**19, WIDE_LIMIT - 1]
NUMBERS = st.one_of(
    st.integers(-WIDE_LIMIT + 1, WIDE_LIMIT - 1),
    st.integers(-(2**64), 2**64),
    st.sampled_from(EDGES).flatmap(lambda x: st.sampled_from([x, -x])),
)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20)


def sides(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def or_none(numbers: list[int]) -> list[int] | None:
    """The numbers, if all are less than the limit."""
    return numbers if all(abs(x) < WIDE_LIMIT for x in numbers) else None


def integers(numbers: wide.Array | None) -> list[int] | None:
    return None if numbers is None else wide.to_integers(numbers)


@given(PAIRS)
def test_arithmetic_is_exact_or_told_to_be_too_large(pairs: list[tuple[int, int]]) -> None:
    left, right = sides(pairs)
    a, b = wide.of_integers(left), wide.of_integers(right)
    assert integers(a) == left
    assert integers(wide.multiplied(a, b)) == or_none([x * y for x, y in pairs])
    assert integers(wide.added(a, b)) == or_none([x + y for x, y in pairs])
    assert integers(wide.added(a, b, -1)) == or_none([x - y for x, y in pairs])
    assert wide.bound(a) == max(map(abs, left))
    assert wide.signs(a).tolist() == [(x > 0) - (x < 0) for x in left]
    assert wide.to_doubles(a).tolist() == pytest.approx([float(x) for x in left], rel=3e-16)
    if np.finfo(np.longdouble).nmant > 60:
        near = [float(x) for x in left]
        rests = (wide.to_long_doubles(a) - np.array(near)).astype(float).tolist()
        assert rests == pytest.approx([x - int(y) for x, y in zip(left, near, strict=True)], 1e-2)
    narrow = wide.narrowed(a)
    assert (narrow is None) is any(not -(2**63) <= x < 2**63 for x in left)
    if narrow is not None:
        assert narrow.tolist() == left
        assert integers(wide.widened(narrow)) == left
        assert integers(wide.multiplied(b, narrow)) == or_none([x * y for x, y in pairs])


@given(PAIRS, st.integers(1, 4))
def test_sums_and_extremes_by_group(pairs: list[tuple[int, int]], count: int) -> None:
    numbers = [x for x, _ in pairs]
    groups = np.arange(len(numbers)) * 7 % count
    of = [[x for x, g in zip(numbers, groups, strict=True) if g == k] for k in range(count)]
    sums, again = wide.WideSums(count), wide.WideSums(count)
    assert sums.add(groups, wide.of_integers(numbers))
    assert again.add(groups, wide.of_integers(numbers))
    assert integers(sums.total()) == or_none([sum(part) for part in of])
    sums.merge(again)
    assert integers(sums.total()) == or_none([2 * sum(part) for part in of])
    for largest, choose in ((True, max), (False, min)):
        best, seen = np.zeros(count, wide.WIDE), np.zeros(count, bool)
        wide.improve(best, seen, groups, wide.of_integers(numbers), largest)
        assert seen.tolist() == [bool(part) for part in of]
        pairs_ = zip(wide.to_integers(best), of, strict=True)
        assert all(x == choose(part) for x, part in pairs_ if part)


def test_a_sum_of_many_may_pass_128_bits_on_the_way() -> None:
    numbers = [WIDE_LIMIT - 1] * 1000 + [1 - WIDE_LIMIT] * 999
    sums = wide.WideSums(1)
    assert sums.add(np.zeros(len(numbers), np.int32), wide.of_integers(numbers))
    assert integers(sums.total()) == [WIDE_LIMIT - 1]


def test_what_is_too_large_stays_so_unless_it_is_multiplied_by_zero() -> None:
    product = wide.of_integers([WIDE_LIMIT - 1, WIDE_LIMIT - 1, 5])
    wide.multiply_by(product, np.array([2, 2, 2]))
    assert not wide.is_within(product)
    wide.multiply_by(product, np.array([0, 1, 1]))
    assert not wide.is_within(product)
    assert not wide.WideSums(1).add(np.zeros(3, np.int32), product)
    assert wide.to_integers(product[[0, 2]]) == [0, 10]


@pytest.mark.parametrize("scale", [1, 18, 19, 30, 37, 38])
def test_a_finer_scale(scale: int) -> None:
    value = Value(np.array([3, -7]), scale=0).at_scale(scale)
    assert value.is_integer is (scale < 38)
    if value.is_integer:
        data = wide.to_integers(wide.widened(value.data))
        assert (data, value.scale, value.exact) == ([3 * 10**scale, -7 * 10**scale], scale, True)
    else:
        assert (value.data.tolist(), value.exact) == ([3.0, -7.0], False)


@pytest.mark.parametrize("number", [5, 2**63 - 1, 2**63, WIDE_LIMIT - 1])
def test_a_number_on_every_row(number: int) -> None:
    value = repeated(number, 3)
    assert wide.to_integers(wide.widened(value.data)) == [number] * 3
    assert value.is_wide is (number >= 2**63)
    assert not repeated(WIDE_LIMIT, 2).exact
