"""The laws of every semiring, on every engine, through contractions as the tree asks for them.

Each law is an equation between two ways to contract: partial sums first or last, a message summed
before or after it is joined. Many instances of a law are computed at once, one a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calitree import semiring as known
from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
    Table,
)
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import Semiring
from calitree.engines.registry import engine_of
from calitree.engines.spark import SparkEngine
from calitree.errors import ExpressionError
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse
from calitree.types import kind_of_arrow
from tests.support.engines import LOCAL, engine_named
from tests.support.scale import examples

ROUTE = Semiring(
    "route",
    ("ways", "cost", "width", "open"),
    ("sum", "min", "max", "any"),
    ("l_ways * r_ways", "l_cost + r_cost", "least(l_width, r_width)", "l_open and r_open"),
    (0, None, 0, False),
    (1, 0, 1000, True),
)
"""A user's own: how many ways there are, the cheapest, the widest, and whether any is open."""

SEMIRINGS = {
    "sum": known.SUM_PRODUCT,
    "min": known.MIN,
    "max": known.MAX,
    "bool": known.BOOL,
    "avg": known.AVG,
    "variance": known.VARIANCE,
    "gram": known.gram(("x", "y")),
    "route": ROUTE,
}

Element = tuple[Any, ...]
Triples = Sequence[tuple[Element, Element, Element]]


def elements(semiring: Semiring) -> st.SearchStrategy[Element]:
    """Small whole numbers or truth values, and NULL where that is the zero; zero and one often."""
    parts: list[st.SearchStrategy[Any]] = []
    for component, zero, one in zip(semiring.components, semiring.zero, semiring.one, strict=True):
        values: st.SearchStrategy[Any] = st.integers(-9, 9)
        if isinstance(one, bool):
            values = st.booleans()
        elif component == "width":  # between its zero and its one
            values = st.integers(0, 1000)
        parts.append(st.none() | values if zero is None else values)
    return st.tuples(*parts) | st.sampled_from([semiring.zero, semiring.one])


def triples(semiring: Semiring, least: int = 1) -> st.SearchStrategy[Triples]:
    element = elements(semiring)
    return st.lists(st.tuples(element, element, element), min_size=least, max_size=24)


class Annotated:
    """A relation whose columns are keys and, for each semiring, the components of an element."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        keys: Mapping[str, Sequence[int]],
        columns: Mapping[str, Sequence[Element]],
    ) -> None:
        arrays: dict[str, pa.Array] = {key: pa.array(v, pa.int64()) for key, v in keys.items()}
        for label, values in columns.items():
            semiring = SEMIRINGS[label]
            for i, (component, one) in enumerate(
                zip(semiring.components, semiring.one, strict=True)
            ):
                dtype = pa.bool_() if isinstance(one, bool) else pa.int64()
                arrays[f"{label}_{component}"] = pa.array([v[i] for v in values], dtype)
        data = pa.table(arrays)
        self.kinds = {field.name: kind_of_arrow(field.type) for field in data.schema}
        self.name = name
        attributes = {c: c if c in keys else f"{name}.{c}" for c in data.column_names}
        self.input = Input(engine.load(name, data), {a: c for c, a in attributes.items()})

    def lifted(self, place: int, label: str) -> Lifted:
        """The factor that this relation's columns are, as the input at `place`."""
        return Lifted(
            place, tuple(self._column(f"{label}_{c}") for c in SEMIRINGS[label].components)
        )

    def _column(self, name: str) -> Expression:
        return parse(
            f"{self.name}.{name}",
            lambda table, column: Resolved(f"{table}.{column}", (self.name,), self.kinds[column]),
        )


class Laws:
    """Both sides of every law, for every key and every semiring of a batch of elements."""

    def __init__(self, engine: Engine, batch: Mapping[str, Triples]) -> None:
        self.engine = engine
        self.batch = batch
        self.size = min(len(elements) for elements in batch.values())

    def element(self, label: str, key: int, which: str) -> Element:
        semiring = SEMIRINGS[label]
        if which == "-x":
            return (
                tuple(-part for part in self.batch[label][key][0])
                if semiring.minus
                else semiring.zero
            )
        fixed = {"0": semiring.zero, "1": semiring.one}
        return fixed[which] if which in fixed else self.batch[label][key]["xyz".index(which)]

    def relation(self, name: str, rows: Sequence[str], **groups: Sequence[int]) -> Annotated:
        """For each key these elements, one a row; `groups` are further keys of the rows."""
        keys = {"k": [k for k in range(self.size) for _ in rows]}
        keys |= {group: list(values) * self.size for group, values in groups.items()}
        columns = {
            label: [self.element(label, k, which) for k in range(self.size) for which in rows]
            for label in self.batch
        }
        return Annotated(self.engine, name, keys, columns)

    def contract(
        self,
        inputs: Sequence[Input],
        keep: tuple[str, ...],
        columns: Mapping[str, Callable[[str], tuple[Factor, ...]]],
    ) -> Table:
        """One output with these columns for each semiring, called `column:semiring`."""
        output = Output(
            tuple(range(len(inputs))),
            (),
            keep,
            tuple(
                Column(f"{name}:{label}", SEMIRINGS[label], factors(label))
                for name, factors in columns.items()
                for label in self.batch
            ),
        )
        return self.engine.contract(Contraction(tuple(inputs), (output,)))[0]

    def values(self, table: Table) -> dict[str, dict[str, dict[int, Element]]]:
        """column → semiring → key → element."""
        rows = self.engine.arrow(table).to_pylist()
        columns: dict[str, dict[str, dict[int, Element]]] = {}
        names = {name.partition(".")[0] for name in table.kinds if ":" in name}
        for name in names:
            column, _, label = name.partition(":")
            parts = Column(name, SEMIRINGS[label], ()).parts
            columns.setdefault(column, {})[label] = {
                row["k"]: tuple(row[part] for part in parts) for row in rows
            }
        return columns

    def equal(self, law: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> None:
        for label in self.batch:
            assert left[label].keys() == set(range(self.size)), (law, label)
            assert left[label] == right[label], f"{law} fails in {label} on {self.engine.name}"

    def constant(self, which: str) -> dict[str, dict[int, Element]]:
        return {
            label: {k: self.element(label, k, which) for k in range(self.size)}
            for label in self.batch
        }

    def check(self) -> None:
        self.check_sums()
        self.check_products()

    def check_sums(self) -> None:
        """⊕ by key, in one go and by way of partial sums."""

        def total(relation: Annotated, *keep: str) -> Table:
            return self.contract(
                [relation.input], keep or ("k",), {"v": lambda label: (relation.lifted(0, label),)}
            )

        def again(message: Table) -> dict[str, Any]:
            there = Input(message, {"k": "k"})
            stored = {"v": lambda label: (Stored(0, f"v:{label}"),)}
            return self.values(self.contract([there], ("k",), stored))["v"]

        three = self.relation("three", "xyz", left=(0, 0, 1), right=(0, 1, 1))
        whole = self.values(total(three))["v"]
        self.equal("(x ⊕ y) ⊕ z", again(total(three, "k", "left")), whole)
        self.equal("x ⊕ (y ⊕ z)", again(total(three, "k", "right")), whole)
        self.equal("z ⊕ y ⊕ x", self.values(total(self.relation("back", "zyx")))["v"], whole)
        with_zero = self.values(total(self.relation("neutral", "x0")))["v"]
        self.equal("x ⊕ 0 = x", with_zero, self.constant("x"))
        gone = self.values(total(self.relation("gone", ["x", "-x"])))["v"]
        expected = {
            label: self.constant("0" if SEMIRINGS[label].minus else "x")[label]
            for label in self.batch
        }
        self.equal("x ⊕ (-x) = 0", gone, expected)

    def check_products(self) -> None:
        """⊗ along a join by key, and its distribution over ⊕."""
        x, y, z = (self.relation(name, name) for name in "xyz")
        zero, one, pair = (
            self.relation("zero", "0"),
            self.relation("one", "1"),
            self.relation("pair", "yz"),
        )
        places = {"x": (0, x), "y": (1, y), "z": (2, z), "0": (3, zero), "1": (4, one)}

        def factors(word: str) -> Callable[[str], tuple[Factor, ...]]:
            return lambda label: tuple(places[w][1].lifted(places[w][0], label) for w in word)

        products = ("x", "xy", "yx", "xyz", "x1", "1x", "x0", "0x", "")
        flat = self.values(
            self.contract(
                [relation.input for _, relation in places.values()],
                ("k",),
                {word: factors(word) for word in products},
            )
        )
        self.equal("x", flat["x"], self.constant("x"))
        self.equal("x ⊗ y = y ⊗ x", flat["xy"], flat["yx"])
        self.equal("x ⊗ 1 = x", flat["x1"], flat["x"])
        self.equal("1 ⊗ x = x", flat["1x"], flat["x"])
        self.equal("x ⊗ 0 = 0", flat["x0"], self.constant("0"))
        self.equal("0 ⊗ x = 0", flat["0x"], self.constant("0"))
        self.equal("no factor is 1", flat[""], self.constant("1"))

        def times(message: Table) -> dict[str, Any]:
            there = Input(message, {"k": "k"})
            both = {"v": lambda label: (x.lifted(0, label), Stored(1, f"m:{label}"))}
            return self.values(self.contract([x.input, there], ("k",), both))["v"]

        y_times_z = self.contract(
            [y.input, z.input],
            ("k",),
            {"m": lambda label: (y.lifted(0, label), z.lifted(1, label))},
        )
        self.equal("x ⊗ (y ⊗ z) = (x ⊗ y) ⊗ z", times(y_times_z), flat["xyz"])
        y_plus_z = self.contract(
            [pair.input], ("k",), {"m": lambda label: (pair.lifted(0, label),)}
        )
        apart = self.contract(
            [x.input, pair.input],
            ("k",),
            {"v": lambda label: (x.lifted(0, label), pair.lifted(1, label))},
        )
        self.equal("x ⊗ (y ⊕ z) = x ⊗ y ⊕ x ⊗ z", times(y_plus_z), self.values(apart)["v"])


@pytest.mark.parametrize("label", SEMIRINGS)
@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_laws(engine: str, label: str) -> None:
    @settings(max_examples=examples(15))
    @given(batch=triples(SEMIRINGS[label]))
    def run(batch: Triples) -> None:
        Laws(engine_of(engine_named(engine)), {label: batch}).check()

    run()


@pytest.mark.spark
def test_laws_on_spark(spark: Any) -> None:
    engine = SparkEngine(spark)

    # The first example is always the simplest, all zeros; the second is a mixture.
    @settings(max_examples=examples(2))
    @given(batch=st.fixed_dictionaries({k: triples(s, least=24) for k, s in SEMIRINGS.items()}))
    def run(batch: dict[str, Triples]) -> None:
        Laws(engine, batch).check()

    run()


ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 2), st.integers(-20, 20)), min_size=1, max_size=8
)
GRAM = SEMIRINGS["gram"]


def moments(pairs: Sequence[tuple[int, int]]) -> Element:
    """What gram(("x", "y")) says of rows that are really there."""
    return (
        len(pairs),
        sum(x for x, _ in pairs),
        sum(y for _, y in pairs),
        sum(x * x for x, _ in pairs),
        sum(x * y for x, y in pairs),
        sum(y * y for _, y in pairs),
    )


def check_moments(
    engine: Engine, left: list[tuple[int | None, int]], right: list[tuple[int | None, int]]
) -> None:
    """Two relations, each lifted by its own column; the second is summed before it is joined."""
    assert GRAM.components == ("n", "s_x", "s_y", "q_x_x", "q_x_y", "q_y_y")
    a = Annotated(
        engine,
        "a",
        {"k": [k for k, _ in left]},
        {"gram": [(1, x, 0, x * x, 0, 0) for _, x in left]},
    )
    b = Annotated(
        engine,
        "b",
        {"k": [k for k, _ in right]},
        {"gram": [(1, 0, y, 0, 0, y * y) for _, y in right]},
    )
    summed = Column("m", GRAM, (b.lifted(0, "gram"),))
    message = engine.contract(Contraction((b.input,), (Output((0,), (), ("k",), (summed,)),)))[0]
    column = Column("v", GRAM, (a.lifted(0, "gram"), Stored(1, "m")))
    both = Contraction(
        (a.input, Input(message, {"k": "k"})),
        (Output((0, 1), (), ("k",), (column,)), Output((0, 1), (), (), (column,))),
    )
    joined = [(k, x, y) for (k, x), (j, y) in product(left, right) if k is not None and k == j]
    by_key, total = (engine.arrow(table).to_pylist() for table in engine.contract(both))
    assert {row["k"]: tuple(row[part] for part in column.parts) for row in by_key} == {
        key: moments([(x, y) for k, x, y in joined if k == key]) for key, _, _ in joined
    }
    assert [tuple(row[part] for part in column.parts) for row in total] == (
        [moments([(x, y) for _, x, y in joined])] if joined else []
    )


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_gram_is_the_moments_of_the_join(engine: str) -> None:
    @settings(max_examples=examples(50))
    @given(left=ROWS, right=ROWS)
    def run(left: list[tuple[int | None, int]], right: list[tuple[int | None, int]]) -> None:
        check_moments(engine_of(engine_named(engine)), left, right)

    run()


@pytest.mark.spark
def test_gram_is_the_moments_of_the_join_on_spark(spark: Any) -> None:
    engine = SparkEngine(spark)

    @settings(max_examples=examples(4))
    @given(left=ROWS, right=ROWS)
    def run(left: list[tuple[int | None, int]], right: list[tuple[int | None, int]]) -> None:
        check_moments(engine, left, right)

    run()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(
            {"plus": ("sum", "sum")},
            "Semiring 'mine': components, plus, times, zero and one must have one entry for each "
            "component (v).",
            id="plus for another number of components",
        ),
        pytest.param(
            {"zero": ()},
            "Semiring 'mine': components, plus, times, zero and one must have one entry for each "
            "component (v).",
            id="no zero",
        ),
        pytest.param(
            {"components": (), "plus": (), "times": (), "zero": (), "one": ()},
            "Semiring 'mine': components, plus, times, zero and one must have one entry for each "
            "component (there is none).",
            id="no component",
        ),
        pytest.param(
            {"plus": ("avg",)},
            "Semiring 'mine': ⊕ must be sum, min, max or any, not 'avg'.",
            id="unknown plus",
        ),
        pytest.param(
            {"times": ("l_v * r_w",)},
            "Semiring 'mine': ⊗ 'l_v * r_w' may use only l_v, r_v.",
            id="unknown name in times",
        ),
        pytest.param(
            {"times": ("l_v * ",)},
            "Semiring 'mine', ⊗: Cannot parse 'l_v * ': something is missing at '*'.",
            id="times that does not parse",
        ),
        pytest.param(
            {"plus": ("min",), "minus": True},
            "Semiring 'mine': only sums can be subtracted, so ⊖ needs ⊕ to be sum.",
            id="minus of a minimum",
        ),
    ],
)
def test_a_wrong_semiring_cannot_exist(given: dict[str, Any], text: str) -> None:
    right: dict[str, Any] = {
        "name": "mine",
        "components": ("v",),
        "plus": ("sum",),
        "times": ("l_v * r_v",),
        "zero": (0,),
        "one": (1,),
    }
    assert Semiring(**right).components == ("v",)
    with pytest.raises(ExpressionError) as caught:
        Semiring(**{**right, **given})
    assert str(caught.value) == text


@pytest.mark.parametrize(("semiring", "idempotent"), [(known.MIN, True), (known.AVG, False)])
def test_idempotence(semiring: Semiring, idempotent: bool) -> None:
    """x ⊕ x = x is what lets a message leave `one` out."""
    assert semiring.idempotent is idempotent
    assert ROUTE.idempotent is False
