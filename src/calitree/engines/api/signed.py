"""Formal sums of tables, and contractions of them.

A relation that has changed is its first rows plus those inserted, less those deleted; so is the change
of a message. A contraction is linear in each of its inputs: to contract such a sum is to contract its
summands, and to add and subtract the results. Summands are ordinary tables, so no engine needs rows
with negative multiplicities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from calitree.engines.api import python_contraction
from calitree.engines.api.contraction import Contraction, Output, Table
from calitree.engines.api.protocol import Engine, Watch, updatable
from calitree.engines.api.python_contraction import contract, how
from calitree.types import Kind


class Signed:
    """The tables in `plus` less those in `minus`; all have the same columns."""

    def __init__(self, plus: Sequence[Table], minus: Sequence[Table] = ()) -> None:
        self._plus, self._minus = tuple(plus), tuple(minus)
        self._settled: Table | None = None

    @property
    def plus(self) -> tuple[Table, ...]:
        """The tables that are added."""
        return self._plus

    @property
    def minus(self) -> tuple[Table, ...]:
        """The tables that are subtracted."""
        return self._minus

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names, in order, and their kinds."""
        tables = (*self.plus, *self.minus)
        return tables[0].kinds if tables else {}

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Columns that cannot be used."""
        return self.plus[0].unsupported if self.plus else {}

    @property
    def rows(self) -> int:
        """How many rows are left."""
        return sum(table.rows for table in self.plus) - sum(table.rows for table in self.minus)

    @property
    def nbytes(self) -> int:
        """About how much memory all tables hold."""
        return sum(table.nbytes for table in (*self.plus, *self.minus))

    @property
    def exact(self) -> bool:
        """Whether all tables are exact."""
        return all(table.exact for table in (*self.plus, *self.minus))

    @property
    def null_free(self) -> frozenset[str]:
        """Columns known to hold no NULL."""
        columns = [table.null_free for table in self.plus]
        return reduce(frozenset.intersection, columns) if columns else frozenset()

    def settled(self, engine: Engine) -> Table:
        """The rows that are left, as one table; two threads may both compute it."""
        if self._settled is None:
            self._settled = updatable(engine).settle(self.plus, self.minus)
        return self._settled


def summands(table: Table) -> tuple[tuple[Table, ...], tuple[Table, ...]]:
    """The tables that make up one: those that are added, and those that are subtracted."""
    return (table.plus, table.minus) if isinstance(table, Signed) else ((table,), ())


def settled(engine: Engine, table: Table) -> Table:
    """The table, or if it is a formal sum the rows that are left: what every engine accepts."""
    return table.settled(engine) if isinstance(table, Signed) else table


@dataclass(frozen=True)
class Term:
    """A contraction of summands: which outputs it computes, by their positions, and its sign."""

    contraction: Contraction
    outputs: tuple[int, ...]
    negative: bool


class Linear:
    """A contraction whose inputs may be formal sums; its terms are memoised.

    `rows` names, for each output, its column that counts rows, if there is one. Without it, or in a
    semiring without ⊖, deleted rows are removed from the inputs before anything is computed. What `default`
    computes, with a default row in place of relations, is added to every output.
    """

    def __init__(
        self,
        contraction: Contraction,
        rows: Sequence[str | None],
        default: Linear | None = None,
    ) -> None:
        self.contraction, self.rows, self.default = contraction, tuple(rows), default
        self._signed = {
            at: given.table
            for at, given in enumerate(contraction.inputs)
            if isinstance(given.table, Signed)
        }
        self._terms: list[Term] | None = None

    @property
    def plain(self) -> Contraction | None:
        """The contraction, if no input is a formal sum or across an outer join, and nothing is added."""
        matched = any(given.match is not None for given in self.contraction.inputs)
        return None if self._signed or self.default is not None or matched else self.contraction

    def tables(self, engine: Engine, watch: Watch | None = None) -> Sequence[Table]:
        """Every output as one table."""
        if not self._signed and self.default is None:
            return contract(engine, self.contraction, watch)
        return [self._added(engine, at, sums) for at, sums in enumerate(self.sums(engine, watch))]

    def sums(self, engine: Engine, watch: Watch | None = None) -> list[Signed]:
        """Every output as a formal sum."""
        if self._terms is None:
            self._terms = list(self._expanded(engine))
        plus: list[list[Table]] = [[] for _ in self.rows]
        minus: list[list[Table]] = [[] for _ in self.rows]
        for term in self._terms:
            tables = contract(engine, term.contraction, watch)
            for at, table in zip(term.outputs, tables, strict=True):
                (minus if term.negative else plus)[at].append(table)
        if self.default is not None:
            for at, added in enumerate(self.default.sums(engine)):
                plus[at] += added.plus
                minus[at] += added.minus
        return list(map(Signed, plus, minus))

    def how(self, engine: Engine) -> str:
        """The engine's strategy for the first term, which is the largest."""
        if not self._signed:
            return how(engine, self.contraction)
        if self._terms:
            return how(engine, self._terms[0].contraction)
        first = {at: (*table.plus, *table.minus)[0] for at, table in self._signed.items()}
        return how(engine, self._contraction(first, self.contraction.outputs))

    def _added(self, engine: Engine, at: int, sums: Signed) -> Table:
        output = self.contraction.outputs[at]
        total = add(engine, output, sums, self.rows[at])
        if total is not None:
            return total
        # Too many digits would be lost; without ⊖ none are.
        (table,) = contract(engine, self._contraction(self._all_settled(engine), [output]))
        if self.default is None:
            return table
        both = [table, self.default.tables(engine)[at]]
        added = python_contraction.add(engine, output, both, (), None)
        assert added is not None
        return added

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
        return {at: table.settled(engine) for at, table in self._signed.items()}

    def _contraction(self, tables: Mapping[int, Table], outputs: Sequence[Output]) -> Contraction:
        inputs = tuple(
            replace(given, table=tables[at]) if at in tables else given
            for at, given in enumerate(self.contraction.inputs)
        )
        return Contraction(inputs, tuple(outputs))


def can_subtract(output: Output, rows: str | None) -> bool:
    """Whether results of this output can be subtracted from each other."""
    return rows is not None and all(column.semiring.minus for column in output.columns)


def add(engine: Engine, output: Output, sums: Signed, rows: str | None) -> Table | None:
    """A formal sum of results as one result; None if digits would be lost."""
    if len(sums.plus) == 1 and not sums.minus:
        return sums.plus[0]
    return python_contraction.add(engine, output, sums.plus, sums.minus, rows)
