"""Formal sums of tables, and contractions of them.

A relation that has changed is its rows at first, and those that came, less those that went; so is the
change of a message. A contraction is linear in each of its inputs: to contract such a sum is to
contract its parts, and to add and subtract what comes out. Parts are ordinary tables, so that no
engine ever meets a row that is there a negative number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from calitree.engines.api.contraction import Contraction, Output, Table
from calitree.engines.api.protocol import Engine, Watch, updatable
from calitree.types import Kind


class Signed:
    """The tables of `plus`, less those of `minus`: all of the same columns."""

    def __init__(self, plus: Sequence[Table], minus: Sequence[Table] = ()) -> None:
        self._plus, self._minus = tuple(plus), tuple(minus)
        self._settled: Table | None = None

    @property
    def plus(self) -> tuple[Table, ...]:
        return self._plus

    @property
    def minus(self) -> tuple[Table, ...]:
        return self._minus

    @property
    def kinds(self) -> Mapping[str, Kind]:
        every = (*self.plus, *self.minus)
        return every[0].kinds if every else {}

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.plus) - sum(each.rows for each in self.minus)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (*self.plus, *self.minus))

    @property
    def exact(self) -> bool:
        return all(each.exact for each in (*self.plus, *self.minus))

    @property
    def null_free(self) -> frozenset[str]:
        every = [each.null_free for each in self.plus]
        return reduce(frozenset.intersection, every) if every else frozenset()

    def settled(self, engine: Engine) -> Table:
        """The rows that are left, as one table."""
        if self._settled is None:
            self._settled = updatable(engine).settle(self.plus, self.minus)
        return self._settled


def settled(engine: Engine, table: Table) -> Table:
    """A table that every verb of the engine takes."""
    return table.settled(engine) if isinstance(table, Signed) else table


@dataclass(frozen=True)
class Term:
    """A contraction of parts: the outputs that it computes, by their places, and their sign."""

    contraction: Contraction
    outputs: tuple[int, ...]
    negative: bool


class Linear:
    """A contraction whose inputs may be formal sums; its terms are made once and kept.

    `rows` names, for each output, its column that counts rows, if there is one. Without it, or in a
    semiring without ⊖, rows that went are taken from those that were there before anything is
    computed.
    """

    def __init__(self, contraction: Contraction, rows: Sequence[str | None]) -> None:
        self.contraction, self.rows = contraction, tuple(rows)
        self._signed = {
            at: each.table
            for at, each in enumerate(contraction.inputs)
            if isinstance(each.table, Signed)
        }
        self._terms: list[Term] | None = None

    def tables(self, engine: Engine, watch: Watch | None = None) -> Sequence[Table]:
        """Every output as one table."""
        if not self._signed:
            return engine.contract(self.contraction, watch)
        return [
            self._together(engine, at, each) for at, each in enumerate(self.sums(engine, watch))
        ]

    def sums(self, engine: Engine, watch: Watch | None = None) -> list[Signed]:
        """Every output as a formal sum."""
        if self._terms is None:
            self._terms = list(self._expanded(engine))
        plus: list[list[Table]] = [[] for _ in self.rows]
        minus: list[list[Table]] = [[] for _ in self.rows]
        for term in self._terms:
            tables = engine.contract(term.contraction, watch)
            for at, table in zip(term.outputs, tables, strict=True):
                (minus if term.negative else plus)[at].append(table)
        return [Signed(*each) for each in zip(plus, minus, strict=True)]

    def how(self, engine: Engine) -> str:
        """In which way the largest part of it is computed."""
        if not self._signed:
            return engine.how(self.contraction)
        if self._terms:
            return engine.how(self._terms[0].contraction)
        first = {at: (*each.plus, *each.minus)[0] for at, each in self._signed.items()}
        return engine.how(self._contraction(first, self.contraction.outputs))

    def _together(self, engine: Engine, at: int, sums: Signed) -> Table:
        output = self.contraction.outputs[at]
        found = add(engine, output, sums, self.rows[at])
        if found is None:  # too many digits would be lost; without ⊖ none are
            return engine.contract(self._contraction(self._all_settled(engine), [output]))[0]
        return found

    def _expanded(self, engine: Engine) -> Iterable[Term]:
        groups: dict[tuple[frozenset[int], bool], list[int]] = {}
        for at, output in enumerate(self.contraction.outputs):
            used = frozenset(self._signed) & frozenset(output.inputs)
            subtracts = any(self._signed[i].minus for i in used)
            settles = subtracts and not can_subtract(output, self.rows[at])
            groups.setdefault((used, settles), []).append(at)
        for (used, settles), places in groups.items():
            outputs = [self.contraction.outputs[at] for at in places]
            if settles:
                settled_inputs = self._all_settled(engine)
                yield Term(self._contraction(settled_inputs, outputs), tuple(places), False)
                continue
            order = sorted(used)
            parts = [
                [(t, False) for t in self._signed[i].plus]
                + [(t, True) for t in self._signed[i].minus]
                for i in order
            ]
            for chosen in product(*parts):
                tables = {i: table for i, (table, _) in zip(order, chosen, strict=True)}
                negative = sum(sign for _, sign in chosen) % 2 == 1
                yield Term(self._contraction(tables, outputs), tuple(places), negative)

    def _all_settled(self, engine: Engine) -> dict[int, Table]:
        return {at: each.settled(engine) for at, each in self._signed.items()}

    def _contraction(self, tables: Mapping[int, Table], outputs: Sequence[Output]) -> Contraction:
        inputs = tuple(
            replace(each, table=tables[at]) if at in tables else each
            for at, each in enumerate(self.contraction.inputs)
        )
        return Contraction(inputs, tuple(outputs))


def can_subtract(output: Output, rows: str | None) -> bool:
    """Whether results of this output can be subtracted from each other."""
    return rows is not None and all(column.semiring.minus for column in output.columns)


def add(engine: Engine, output: Output, sums: Signed, rows: str | None) -> Table | None:
    """A formal sum of results as one result; None if digits would be lost."""
    if len(sums.plus) == 1 and not sums.minus:
        return sums.plus[0]
    return updatable(engine).add(output, sums.plus, sums.minus, rows)
