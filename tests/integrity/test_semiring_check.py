"""`check_semiring`: every law is seen to fail where it does, and none where it holds."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

import calitree as ct
from calitree import semiring as known

ALWAYS = (
    "⊕ is commutative",
    "⊕ is associative",
    "zero is neutral",
    "⊗ is commutative",
    "⊗ is associative",
    "one is neutral",
    "zero annihilates",
    "⊗ distributes over ⊕",
)


def data(**given: Any) -> ct.Semiring:
    """(ℝ, +, ×), but for what is given."""
    parts: dict[str, Any] = {
        "components": ("v",),
        "plus": ("sum",),
        "times": ("l_v * r_v",),
        "zero": (0,),
        "one": (1,),
    }
    return ct.Semiring("mine", **{**parts, **given})


def python(**given: Any) -> ct.PythonSemiring:
    """(ℤ, +, ×), but for what is given."""
    parts: dict[str, Any] = {
        "plus": lambda a, b: a + b,
        "times": lambda a, b: a * b,
        "zero": 0,
        "one": 1,
    }
    return ct.python_semiring("mine", **{**parts, **given})


@pytest.mark.parametrize(
    "semiring",
    [
        *(known.SUM_PRODUCT, known.MIN, known.MAX, known.BOOL, known.AVG, known.VARIANCE),
        *(known.gram(("x", "y")), known.covariance(), known.covariance(("sum", "product"))),
    ],
    ids=lambda semiring: semiring.name,
)
def test_those_that_are_built_in(semiring: ct.Semiring) -> None:
    check = ct.check_semiring(semiring, seed=1)
    assert check.ok and bool(check), check
    assert check.counterexamples == ()
    expected = [*ALWAYS, *(["⊖ undoes ⊕"] * semiring.minus)]
    expected += ["⊕ is idempotent"] * semiring.idempotent
    assert list(check.laws) == expected
    assert str(check) == f"{semiring.name}: {len(expected)} laws hold on 200 samples"


def laws(check: ct.SemiringCheck) -> set[str]:
    return {one.law for one in check.counterexamples}


@pytest.mark.parametrize(
    ("semiring", "broken"),
    [
        (data(zero=(1,)), {"zero is neutral", "zero annihilates"}),
        (data(one=(2,)), {"one is neutral"}),
        (data(times=("l_v - r_v",), one=(0,)), {*ALWAYS[3:5], *ALWAYS[6:]}),
        (data(times=("l_v + r_v",), one=(0,)), {"zero annihilates", "⊗ distributes over ⊕"}),
        (data(times=("case when l_v > r_v then l_v else 0 end",)), set(ALWAYS[3:])),
        (data(plus=("max",), zero=(None,)), {"⊗ distributes over ⊕"}),
        (data(plus=("max",), zero=(-1000,)), {"zero annihilates", "⊗ distributes over ⊕"}),
    ],
)
def test_broken_data(semiring: ct.Semiring, broken: set[str]) -> None:
    check = ct.check_semiring(semiring, seed=3)
    assert not check
    assert laws(check) == broken, check
    assert f"{len(broken)} of {len(check.laws)} laws fail" in str(check)


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        ({"plus": lambda a, b: a}, "⊕ is commutative"),
        ({"plus": lambda a, b: abs(a - b)}, "⊕ is associative"),
        ({"zero": 7}, "zero is neutral"),
        ({"times": lambda a, b: a}, "⊗ is commutative"),
        ({"times": lambda a, b: abs(a - b)}, "⊗ is associative"),
        ({"one": 2}, "one is neutral"),
        ({"times": lambda a, b: a + b, "one": 0}, "zero annihilates"),
        ({"plus": max, "zero": -99}, "⊗ distributes over ⊕"),
        ({"idempotent": True}, "⊕ is idempotent"),
    ],
)
def test_broken_python(given: dict[str, Any], broken: str) -> None:
    assert broken in laws(ct.check_semiring(python(**given), [3, 5, -2, 4]))
    assert ct.check_semiring(python(), [3, 5, -2, 4]).ok


def test_minus() -> None:
    """⊖ is that of numbers, so what ⊕ makes no number of cannot be taken away."""
    assert ct.check_semiring(data(minus=True)).ok
    check = ct.check_semiring(data(minus=True), [float("inf"), 1])
    assert "⊖ undoes ⊕" in laws(check)


def test_arguments_that_are_changed() -> None:
    def plus(a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return sorted(a)

    semiring = ct.python_semiring(
        "lists",
        plus,
        lambda a, b: sorted(x + y for x in a for y in b),
        zero=[],
        one=[0],
    )
    check = ct.check_semiring(semiring, lambda random: [random.randint(0, 9)], samples=20)
    assert check.laws == ("arguments are not changed",)  # the others would be tried in vain
    (one,) = check.counterexamples
    (x, y), (x_after, _) = one.values, one.left
    assert x_after == x + y


def test_a_counterexample_is_one() -> None:
    (one,) = ct.check_semiring(data(one=(2,)), [5]).counterexamples
    assert one == ct.Counterexample("one is neutral", "x ⊗ 1 = x", (2,), 4, 2)
    assert str(one) == "one is neutral: x ⊗ 1 = x is 4 = 2 for x = 2"
    (two, *_) = ct.check_semiring(
        ct.Semiring("two", ("a", "b"), ("sum", "min"), ("l_a", "l_b + r_b"), (0, None), (1, 0)),
        [(3, 4)],
    ).counterexamples
    assert two.law == "⊗ is commutative"
    assert two.values == ((1, 0), (3, 4))


def test_the_same_seed_sees_the_same() -> None:
    first, second = (ct.check_semiring(data(one=(2,)), seed=8) for _ in range(2))
    assert first == second


def test_rounding_is_no_fault_and_integers_have_no_bounds() -> None:
    floats = [0.1, 0.2, 0.3, 1e16, -1e16, 1e-16, 3.7, float("nan")]
    sums = ct.check_semiring(known.SUM_PRODUCT, floats[:-1], samples=1000)
    assert laws(sums) <= {"⊖ undoes ⊕"}, sums  # which engines do not use where digits are lost
    assert ct.check_semiring(known.MIN, floats, samples=1000).ok
    assert ct.check_semiring(known.AVG, [(2**62, 2**62), (2**63 - 1, -(2**63))]).ok
    assert ct.check_semiring(known.MAX, [Decimal("1e30"), Decimal("0.01"), 2**62, None]).ok
    tuples = ct.python_semiring(
        "pairs",
        lambda a, b: (a[0] + b[0], {"s": a[1]["s"] + b[1]["s"]}),
        lambda a, b: (a[0] * b[0], {"s": a[0] * b[1]["s"] + a[1]["s"] * b[0]}),
        zero=(0, {"s": 0.0}),
        one=(1, {"s": 0.0}),
    )
    assert ct.check_semiring(tuples, lambda random: (random.random(), {"s": random.random()})).ok


def test_a_domain_is_given_by_values() -> None:
    """The widest way: no width is less than 0, or more than 1000."""
    width = data(plus=("max",), times=("least(l_v, r_v)",), zero=(0,), one=(1000,))
    assert "zero is neutral" in laws(ct.check_semiring(width))
    assert ct.check_semiring(width, lambda random: random.randint(0, 1000)).ok
    assert ct.check_semiring(width, range(0, 1001, 50)).samples == 200
    assert ct.check_semiring(width, [5, 7]).samples == 4**3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ct.check_semiring("min"), "check_semiring needs a Semiring; got str."),  # type: ignore[arg-type]
        (lambda: ct.check_semiring(known.MIN, samples=0), "samples is a number of at least 1"),
        (lambda: ct.check_semiring(known.MIN, []), "values is a list of elements"),
        (lambda: ct.check_semiring(known.MIN, "abc"), "values is a list of elements"),
        (lambda: ct.check_semiring(known.MIN, 3), "values is a list of elements"),  # type: ignore[arg-type]
        (lambda: ct.check_semiring(known.AVG, [3]), r"An element of semiring 'avg' is \(n, s\)"),
        (lambda: ct.check_semiring(known.AVG, [(1, 2, 3)]), r"is \(n, s\); got \(1, 2, 3\)"),
        (lambda: ct.check_semiring(python()), "give some of them as values="),
        (lambda: ct.check_semiring(python(), ["a", "b"]), r"plus\(.*'a'\) raised TypeError"),
        (lambda: ct.check_semiring(known.SUM_PRODUCT, ["a"]), "cannot be computed for"),
    ],
)
def test_bad_input(call: Any, text: str) -> None:
    with pytest.raises(ct.ExpressionError, match=text):
        call()


def test_random_elements_are_of_the_given_generator() -> None:
    seen: list[int] = []

    def draw(random: Random) -> int:
        seen.append(random.randint(0, 5))
        return seen[-1]

    assert ct.check_semiring(python(), draw, samples=50).samples == 50
    assert 50 < len(seen) < 150  # the others are zero and one
