"""A contraction: the one thing that an engine is asked to compute.

A contraction joins its inputs (relations and messages) on the attributes they share, keeps the rows
that pass the filters, multiplies annotations with ⊗ and sums them with ⊕ by the attributes kept. A
message is one; the absorption that answers a query is another. All messages wanted from one bag
come in one call, so that an engine may compute them in one scan.

The worked example: Sales(store, price) receives a message from Stores (COUNT by store, restricted
to one city). The total price is

    Contraction(
        inputs=(Input(sales, {"store": "store_nbr", "price": "price"}), Input(message, {"store":
        "store"})), outputs=(
            Output(
                inputs=(0, 1), where=(), keep=(),
                columns=(Column("c0", SUM_PRODUCT, (Lifted(0, (price,)), Stored(1, "c0"))),),
            ),
        ),
    )

NULL never equals NULL in the join, but in the key of a `Match`; in `keep` NULL is a value like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from calitree.cache import cached_property
from calitree.engines.api.semiring import Semiring
from calitree.sql.parser import Expression
from calitree.types import Kind


class Table(Protocol):
    """A relation or a message, wherever it lives."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names, in order, and their kinds."""

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Of a relation: columns of its source that it does not have, and why they cannot be used."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    @property
    def nbytes(self) -> int:
        """About how much memory it holds."""

    @property
    def exact(self) -> bool:
        """False once an integer or decimal sum had to continue as floating point."""

    @property
    def null_free(self) -> frozenset[str]:
        """Columns known to hold no NULL. Knowing none is always right, knowing some saves work."""


@dataclass(frozen=True)
class Match:
    """How the rows of a message find their partners across an outer join.

    The attributes in `key` are compared as one. A key that is not among the rows of `known`, or that is
    NULL in part, counts as NULL, both in the message and in what it is joined with; and NULL equals NULL.
    So rows without a partner are joined with the one that stands for none: its key is NULL. Either the
    message or what it is joined with has at most one such row.

    `known` is a result that keeps the key.
    """

    key: tuple[str, ...]
    known: Table


@dataclass(frozen=True)
class Input:
    """A table that takes part in a join, and the column of each of its attributes.

    An annotation of a message may be an attribute too, to be filtered or grouped by: which keys have
    more than one row, say. `derived` are more attributes, to be joined on and kept like the others:
    each is computed, in every row, from those that have a column. A message across an outer join has a
    `match`.
    """

    table: Table
    attributes: Mapping[str, str]
    derived: Mapping[str, Expression] = field(default_factory=dict)
    match: Match | None = None

    def has(self, attribute: str) -> bool:
        """Whether it has an attribute, stored or derived."""
        return attribute in self.attributes or attribute in self.derived

    def kind(self, attribute: str) -> Kind:
        """The kind of one of its attributes."""
        if attribute in self.derived:
            return self.derived[attribute].kind
        return self.table.kinds[self.attributes[attribute]]

    def moved(self, move: Callable[[Table], Table]) -> Input:
        """The same with its tables elsewhere."""
        match = self.match and replace(self.match, known=move(self.match.known))
        return replace(self, table=move(self.table), match=match)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables that take part."""
        return (self.table,) if self.match is None else (self.table, self.match.known)


@dataclass(frozen=True)
class Lifted:
    """A factor computed from an input's own row: one expression (over attributes) a component.

    A relation without a lift contributes `one` and is not listed. For sums, a NULL lift counts as
    zero; a measure for which that matters also counts the values that are not NULL.

    For a `covariance` there is one expression a value: what the row contributes to it. A row where
    one of them is NULL is zero, any other is a single row with these means.
    """

    input: int
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Called(Lifted):
    """A factor that a Python function returns for the values of the expressions.

    Only columns of a `PythonSemiring` have it.
    """

    function: Callable[..., Any]


@dataclass(frozen=True)
class Stored:
    """A factor stored in a message: the column `name`, or `name.component` if it has several."""

    input: int
    name: str


@dataclass(frozen=True)
class Weight:
    """A count stored in a message: so many times the others' product is added.

    It is the element of another semiring for everything that is not lifted; only columns of a
    `covariance` have it, which then need no columns of their own there.
    """

    input: int
    name: str


Factor = Lifted | Stored | Weight


@dataclass(frozen=True)
class Column:
    """An annotation to compute: the ⊗-product of its factors (`one` if none), summed with ⊕."""

    name: str
    semiring: Semiring
    factors: tuple[Factor, ...]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The names of its physical columns, one a component."""
        return stored_parts(self.name, self.semiring)


def stored_parts(name: str, semiring: Semiring) -> tuple[str, ...]:
    """The names of a column's components in a table."""
    return parts_of_column(name, semiring.components)


def parts_of_column(name: str, components: tuple[str, ...]) -> tuple[str, ...]:
    """The names that components of a semiring have in a table, where they are a column."""
    return (name,) if len(components) == 1 else tuple(f"{name}.{part}" for part in components)


@dataclass(frozen=True)
class Output:
    """One table wanted: join `inputs`, filter by `where`, group by `keep`, compute `columns`.

    The result has exactly the groups that have at least one joined row; with nothing to keep it has
    one row, or none if no row was joined. Without columns it is the set of distinct `keep`.
    """

    inputs: tuple[int, ...]
    where: tuple[Expression, ...]
    keep: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Contraction:
    """Everything wanted from one bag at one time.

    The columns of output tables for kept attributes are named after these.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    pattern: tuple[Contraction, int] | None = field(default=None, repr=False)
    """Another contraction and the position of the one input in which it differs from this one.

    An engine may reuse what it has computed for the other.
    """

    def having(self, at: int, table: Table) -> Contraction:
        """The same with another table as one of its inputs."""
        inputs = list(self.inputs)
        inputs[at] = replace(inputs[at], table=table)
        return Contraction(tuple(inputs), self.outputs, (self, at))
