"""Sums, counts and extremes of up to 128 bits, on random databases, against Python's own integers.

Joins multiply: counts over several relations pass 2^63, and so do products and sums of 64-bit integers, of
unsigned ones and of decimals of many scales. The oracle goes through the tree of joins with integers.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from math import prod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct
from tests.support.engines import engine_named, spark_engine_named

Row = dict[str, Any]
Lift = Callable[[int, Row], int]
Group = tuple[int, int] | None
"""A relation, and the value of its group; None for all rows."""

DATABASES, PARTS = 2000, 8
PRECISE = Context(prec=200)


# -- random databases ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """Relations r0, r1, …, each with a group g and numbers x; all but r0 join an earlier one."""

    schemas: tuple[pa.Schema, ...]
    rows: tuple[list[Row], ...]
    parents: tuple[int, ...]
    """Of r1, r2, ….; the one of ri is joined on ki."""

    def table(self, i: int, rows: list[Row] | None = None) -> pa.Table:
        return pa.Table.from_pylist(self.rows[i] if rows is None else rows, self.schemas[i])

    def calibrate(self, engine: Any, measures: dict[str, str]) -> ct.WideTable:
        graph = ct.JoinGraph(engine)
        for i in range(len(self.rows)):
            graph.add_relation(f"r{i}", self.table(i))
        for child, parent in enumerate(self.parents, start=1):
            graph.add_join(f"r{parent}", f"r{child}", on=f"k{child}")
        return graph.calibrate(measures, progress=False)

    def with_rows(self, i: int, rows: list[Row]) -> Numbers:
        return replace(self, rows=(*self.rows[:i], rows, *self.rows[i + 1 :]))

    def type_of(self, i: int) -> pa.DataType:
        return self.schemas[i].field(f"x{i}").type

    def scale(self, of: Iterable[int]) -> int:
        return sum(getattr(self.type_of(i), "scale", 0) for i in of)

    def whole(self, i: int, row: Row) -> int:
        """The number of a row without its decimal point; 0 for NULL."""
        return unscaled(row[f"x{i}"], self.scale([i]))


def unscaled(value: Any, scale: int) -> int:
    digits = Decimal(value or 0).scaleb(scale, PRECISE)
    assert digits == int(digits)
    return int(digits)


def number_type(rng: random.Random) -> pa.DataType:
    digits, scale = rng.choice((9, 18, 19, 25, 38)), rng.choice((0, 1, 2, 5, 9))
    decimal = pa.decimal128(digits, scale)
    return rng.choice((pa.int64(), pa.int64(), pa.uint64(), pa.int32(), decimal, decimal, decimal))


def number(rng: random.Random, dtype: pa.DataType) -> Any:
    if rng.random() < 0.05:
        return None
    if pa.types.is_decimal(dtype):
        size = rng.randrange(10 ** rng.randint(1, dtype.precision))
        return Decimal(rng.choice((size, -size))).scaleb(-dtype.scale, PRECISE)
    bits = dtype.bit_width - (dtype != pa.uint64())
    size = rng.choice((rng.getrandbits(rng.randint(1, bits)), 2**bits - 1, 0))
    return size if dtype == pa.uint64() else rng.choice((size, -size, -size - 1))


def random_rows(rng: random.Random, schema: pa.Schema, count: int, keys: int) -> list[Row]:
    names = [field.name for field in schema if field.name[0] != "x"]
    (numbers,) = (field for field in schema if field.name[0] == "x")
    return [
        {n: rng.randrange(keys) for n in names} | {numbers.name: number(rng, numbers.type)}
        for _ in range(count)
    ]


def database(rng: random.Random, rows: int, keys: int, count: int) -> Numbers:
    """So many relations, each of so many rows."""
    parents = tuple(rng.randrange(i) for i in range(1, count))
    schemas = []
    for i in range(count):
        joined = [c for c in range(1, count) if i in (c, parents[c - 1])]
        fields = [(f"k{c}", pa.int64()) for c in joined] + [(f"g{i}", pa.int32())]
        schemas.append(pa.schema([*fields, (f"x{i}", number_type(rng))]))
    given = tuple(random_rows(rng, schema, rows, keys) for schema in schemas)
    return Numbers(tuple(schemas), given, parents)


def random_database(rng: random.Random) -> Numbers:
    """Of few rows, or of so many that the number of their combinations passes 2^63."""
    if rng.random() < 0.06:
        return database(rng, rng.randint(130, 160), 1, 9)
    return database(rng, rng.randint(1, 9), rng.randint(1, 3), rng.randint(2, 4))


# -- the oracle ------------------------------------------------------------------------------------


def total(numbers: Numbers, lift: Lift, group: Group = None) -> int:
    """Σ of the product of the lifts of all relations, over the joined rows of a group."""
    sent: dict[int, dict[int, int]] = {}
    for i in reversed(range(len(numbers.rows))):
        children = [c for c, parent in enumerate(numbers.parents, start=1) if parent == i]
        sums: dict[int, int] = defaultdict(int)
        for row in numbers.rows[i]:
            if group is None or group[0] != i or row[f"g{i}"] == group[1]:
                product = lift(i, row) * prod(sent[c].get(row[f"k{c}"], 0) for c in children)
                sums[row[f"k{i}"] if i else 0] += product
        sent[i] = sums
    return sent[0][0]


@dataclass(frozen=True)
class Sum:
    """SUM, or AVG, of the product of the numbers of some relations; COUNT(*) if there are none."""

    of: tuple[int, ...]
    mean: bool = False

    @property
    def text(self) -> str:
        if not self.of:
            return "count(*)"
        return f"{'avg' if self.mean else 'sum'}({' * '.join(f'x{i}' for i in self.of)})"

    def sizes(self, numbers: Numbers) -> int:
        """More than any sum of products on the way can be: exact if it has up to 38 digits."""
        by_relation = [
            sum(max(1, abs(numbers.whole(i, row))) if i in self.of else 1 for row in rows)
            for i, rows in enumerate(numbers.rows)
        ]
        return 10**38 if numbers.scale(self.of) > 38 else prod(by_relation)

    def check(self, numbers: Numbers, group: Group, value: Any, exact: bool) -> None:
        """Equal, or if it is not exact nearly so."""
        present = total(numbers, lambda i, row: i not in self.of or row[f"x{i}"] is not None, group)
        if self.of and not present:
            assert value is None
            return
        scale = numbers.scale(self.of)
        expected = total(
            numbers, lambda i, row: numbers.whole(i, row) if i in self.of else 1, group
        )
        if exact and not self.mean:
            assert not isinstance(value, float)
            assert unscaled(value, scale) == expected
            return
        size = abs(expected)
        if not exact:  # then what cancels leaves noise
            size = total(numbers, lambda i, row: abs(numbers.whole(i, row)) if i in self.of else 1)
        rows = present if self.mean else 1
        error = PRECISE.multiply(Decimal(value), Decimal(rows * 10**scale)) - expected
        assert abs(error) <= Decimal("1e-12") * size


def check_extremes(numbers: Numbers, at: int, group: Group, low: Any, high: Any) -> None:
    known: dict[tuple[Any, ...], int] = {}
    joined = []
    for row in numbers.rows[at]:
        keys = tuple(key for name, key in row.items() if name[0] != "x")
        if keys not in known:
            known[keys] = total(numbers.with_rows(at, [row]), lambda i, row: 1, group)
        if known[keys] and row[f"x{at}"] is not None:
            joined.append(row[f"x{at}"])
    assert (low, high) == ((min(joined), max(joined)) if joined else (None, None))


# -- questions -------------------------------------------------------------------------------------


class Trial:
    """A database, its measures, and a wide table that must agree with it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = random_database(self.rng)
        count = len(self.numbers.rows)
        chosen = [tuple(sorted(self.rng.sample(range(count), n))) for n in (1, 2, min(3, count))]
        self.sums = [Sum(()), *map(Sum, chosen), Sum(chosen[1], mean=True)]
        self.at, self.by = chosen[0][0], self.rng.randrange(count)
        self.exact = self.large = 0
        """How many numbers were exact, and how many of these passed 64 bits."""

    @property
    def measures(self) -> dict[str, str]:
        sums = {f"s{i}": measure.text for i, measure in enumerate(self.sums)}
        return {**sums, "low": f"min(x{self.at})", "high": f"max(x{self.at})"}

    def check(self, wide: ct.WideTable, numbers: Numbers, strict: bool = True) -> None:
        """All measures, in total or by the group of a relation; what fits 38 digits must be exact."""
        group_by: list[str] = []
        asked: list[Group] = [None]
        if self.rng.random() < 0.5:
            group_by, groups = (
                [f"g{self.by}"],
                {row[f"g{self.by}"] for row in numbers.rows[self.by]},
            )
            asked = [(self.by, g) for g in groups if total(numbers, lambda i, r: 1, (self.by, g))]
        fit = [i for i, measure in enumerate(self.sums) if measure.sizes(numbers) < 10**38]
        others = [i for i in range(len(self.sums)) if i not in fit]
        for chosen in (fit, *([i] for i in others)):
            result = wide.query(group_by=group_by, measures=[f"s{i}" for i in chosen])
            assert result.exact or chosen is not fit or not strict
            self.check_sums(result, numbers, asked, chosen)
        self.check_stored(wide, numbers, group_by, asked)

    def check_sums(
        self, result: ct.Result, numbers: Numbers, asked: list[Group], chosen: list[int]
    ) -> None:
        rows = {row.get(f"g{self.by}"): row for row in result.rows()}
        assert len(rows) == len(asked)
        for group in asked:
            for i in chosen:
                value, measure = rows[group and group[1]][f"s{i}"], self.sums[i]
                measure.check(numbers, group, value, result.exact)
                if result.exact and not measure.mean and value is not None:
                    self.exact += 1
                    self.large += abs(unscaled(value, numbers.scale(measure.of))) >= 2**63

    def check_stored(
        self, wide: ct.WideTable, numbers: Numbers, group_by: list[str], asked: list[Group]
    ) -> None:
        """Extremes are stored values, in their own type."""
        result = wide.query(group_by=group_by, measures=["low", "high"])
        own = numbers.type_of(self.at)
        assert result.exact
        assert [result.arrow().schema.field(name).type for name in ("low", "high")] == [own, own]
        rows = {row.get(f"g{self.by}"): row for row in result.rows()}
        for group in asked:
            row = rows[group and group[1]]
            check_extremes(numbers, self.at, group, row["low"], row["high"])

    def changed(self, changed: int) -> tuple[Numbers, pa.Table, pa.Table]:
        """The database after some rows of a relation came and went; these rows."""
        rows = list(self.numbers.rows[changed])
        gone = [rows.pop(self.rng.randrange(len(rows))) for _ in range(min(2, len(rows) - 1))]
        keys = 1 if len(rows) > 100 else 3
        fresh = random_rows(self.rng, self.numbers.schemas[changed], 2, keys)
        after = self.numbers.with_rows(changed, rows + fresh)
        return after, self.numbers.table(changed, fresh), self.numbers.table(changed, gone)

    def check_updates(self, wide: ct.WideTable, strict: bool = True) -> None:
        changed = self.rng.randrange(len(self.numbers.rows))
        name = f"r{changed}"
        after, fresh, gone = self.changed(changed)
        self.check(wide.what_if(insert={name: fresh}, delete={name: gone}), after, strict)
        wide.update(name, insert=fresh, delete=gone)
        self.check(wide, after, strict)
        wide.update(name, insert=gone, delete=fresh)
        self.check(wide, self.numbers, strict)


@pytest.mark.parametrize("part", range(PARTS))
def test_sums_equal_those_of_integers_of_any_size(part: int, tmp_path: Path) -> None:
    exact = large = 0
    for turn, seed in enumerate(range(part, DATABASES, PARTS)):
        trial = Trial(seed)
        engine = engine_named("local" if seed % 3 else "local, scanning")
        wide = trial.numbers.calibrate(engine, trial.measures)
        trial.check(wide, trial.numbers)
        if turn % 10 == 0:
            trial.check_updates(wide)
        if turn % 40 == 0:
            wide.save(tmp_path / str(seed))
            trial.check(ct.open(tmp_path / str(seed), engine="local"), trial.numbers)
        exact, large = exact + trial.exact, large + trial.large
    assert exact > 800
    assert large > exact / 3


@pytest.mark.parametrize("seed", range(3000, 3020))
def test_the_reference_is_right_too(seed: int) -> None:
    trial = Trial(seed)
    wide = database_of_few(trial).calibrate("reference", trial.measures)
    trial.check(wide, trial.numbers)


def database_of_few(trial: Trial) -> Numbers:
    """Of at most four rows a relation: the reference tries all combinations."""
    rows = tuple(rows[:4] for rows in trial.numbers.rows[:4])
    trial.numbers = replace(trial.numbers, rows=(*rows, *(r[:1] for r in trial.numbers.rows[4:])))
    return trial.numbers


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark", "hybrid, files", "hybrid, SQL"])
def test_spark_agrees(name: str, spark: Any, tmp_path: Path) -> None:
    """It goes by bounds, so that a sum may be a double that would just have fitted."""
    large = 0
    for seed in (4000, 4001):
        trial = Trial(seed)
        engine = spark_engine_named(name, spark, tmp_path)
        wide = trial.numbers.calibrate(engine, trial.measures)
        trial.check(wide, trial.numbers, strict=False)
        trial.check_updates(wide, strict=False)
        large += trial.large
    assert large


@pytest.mark.spark
def test_a_saved_tree_of_large_sums_goes_from_engine_to_engine(spark: Any, tmp_path: Path) -> None:
    trial = Trial(4001)
    wide = trial.numbers.calibrate("local", trial.measures)
    wide.save(tmp_path / "a")
    there = ct.open(tmp_path / "a", engine=spark_engine_named("spark", spark, tmp_path))
    trial.check(there, trial.numbers, strict=False)
    there.save(tmp_path / "b")
    trial.check(ct.open(tmp_path / "b", engine="local"), trial.numbers, strict=False)
