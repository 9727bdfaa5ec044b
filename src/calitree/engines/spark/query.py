"""One output of a contraction → one query for Spark.

    SELECT i0.c1 AS c0, SUM(CAST(i0.c2 AS BIGINT) * i1.c1) AS c1
    FROM calitree_1 AS i0 JOIN calitree_2 AS i1 ON i0.c0 = i1.c0
    WHERE i0.c3 = 'DAIRY'
    GROUP BY i0.c1

Spark itself reads only the columns that are used, and filters each input before it is joined, so
the text need not say so. Text, because to build the same plan through DataFrames takes 15 times as
long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Protocol, TypeVar, cast

from sqlglot import exp

from calitree.engines.api.contraction import Column, Factor, Input, Lifted, Output, stored_parts
from calitree.engines.api.semiring import Plus, Scalar, literal
from calitree.engines.spark.numbers import BIGINT, DOUBLE, LIMITS, Field, Writer
from calitree.errors import EngineError, did_you_mean
from calitree.sql.nodes import kind_of
from calitree.sql.parser import Expression
from calitree.types import Kind

BROADCAST_ROWS = 100_000
"""Inputs known to have no more rows go to every task, so that the largest can stay where it is."""

ENDLESS = 2**62
"""More rows than anyone can enumerate: stands for a number of rows that is not known."""

Made = TypeVar("Made")

_PLUS: dict[Plus, str] = {"sum": "SUM", "min": "MIN", "max": "MAX", "any": "BOOL_OR"}


class Source(Protocol):
    """What a query needs to know of an input's table."""

    @property
    def fields(self) -> Mapping[str, Field]: ...
    @property
    def view(self) -> str: ...
    @property
    def key(self) -> frozenset[str] | None: ...
    @property
    def known_rows(self) -> int | None: ...


@dataclass(frozen=True)
class Place:
    """An input in the join: its position, the table, and where its attributes are."""

    index: int
    table: Source
    attributes: Mapping[str, str]

    @property
    def alias(self) -> str:
        return f"i{self.index}"

    def at(self, attribute: str) -> str:
        return self.of(self.attributes[attribute])

    def of(self, column: str) -> str:
        """How SQL names a column of this input."""
        found = self.table.fields.get(column)
        if found is None:
            hint = did_you_mean(column, self.table.fields)
            raise EngineError(f"An input of the contraction has no column {column!r}.{hint}")
        return f"{self.alias}.{found.name}"


@dataclass
class Query:
    """SQL text, the columns it gives, and what to measure for it to be faster or more exact."""

    text: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    wanted: dict[int, set[str]] = field(default_factory=dict)
    """By input: the columns whose bounds, and the table whose rows, might save a wider type."""


def write_query(inputs: Sequence[Input], output: Output, utc: bool) -> Query:
    """The query that computes `output`."""
    places = [Place(i, cast(Source, inputs[i].table), inputs[i].attributes) for i in output.inputs]
    return _Build(join_order(places), output, utc).query()


def write_selection(given: Input, where: Expression, utc: bool) -> Query:
    """The query for the rows of one relation that pass a filter."""
    place = Place(0, cast(Source, given.table), given.attributes)
    return _Build([place], Output((0,), (where,), (), ()), utc).selection()


def join_order(places: Sequence[Place]) -> list[Place]:
    """Relations first, then messages, but never a product where a join is possible."""
    left = sorted(places, key=lambda place: place.table.key is not None)
    ordered: list[Place] = []
    seen: set[str] = set()
    while left:
        following = next((p for p in left if not seen.isdisjoint(p.attributes)), left[0])
        left.remove(following)
        ordered.append(following)
        seen.update(following.attributes)
    return ordered


def joined_rows(places: Sequence[Place]) -> int:
    """No join of these has more rows: a message whose whole key is given is met at most once."""
    total, seen = 1, set[str]()
    for place in places:
        met = {column for attribute, column in place.attributes.items() if attribute in seen}
        if place.table.key is None or not place.table.key <= met:
            rows = place.table.known_rows
            total *= ENDLESS if rows is None else rows
        seen.update(place.attributes)
    return min(total, ENDLESS)


class _Build:
    """The query for one output, part by part."""

    def __init__(self, places: Sequence[Place], output: Output, utc: bool) -> None:
        self.places = places
        self.output = output
        self.utc = utc
        self.rows = joined_rows(places)
        self.by_index = {place.index: place for place in places}
        self.fields = {
            f"{place.alias}.{each.name}": each
            for place in places
            for each in place.table.fields.values()
        }
        self.result = Query()

    def query(self) -> Query:
        keep = [self.holder(attribute).at(attribute) for attribute in self.output.keep]
        exact, where = self.where()
        select: dict[str, str] = {}
        for attribute, text in zip(self.output.keep, keep, strict=True):
            self.add(attribute, self.fields[text], text, select)
        for column in self.output.columns:
            for part, (text, made) in zip(column.parts, self.column(column), strict=True):
                self.add(part, replace(made, exact=made.exact and exact), text, select)
        listed = ", ".join(f"{text} AS {name}" for name, text in select.items())
        text = f"SELECT {self.hint()}{listed or 'TRUE AS c0'} FROM {self.joins()}{where}"
        if keep:
            text += f" GROUP BY {', '.join(keep)}"
        elif self.output.columns:  # or there would be a row even where no row was joined
            text += " HAVING COUNT(*) > 0"
        else:
            text += " LIMIT 1"
        return self.finished(text)

    def selection(self) -> Query:
        """All columns of the one input, in the rows that pass."""
        exact, where = self.where()
        select: dict[str, str] = {}
        for name, each in self.places[0].table.fields.items():
            made = replace(each, exact=each.exact and exact)
            self.add(name, made, self.places[0].of(name), select)
        listed = ", ".join(f"{text} AS {name}" for name, text in select.items())
        return self.finished(f"SELECT {listed} FROM {self.joins()}{where}")

    def finished(self, text: str) -> Query:
        # Spark would put the value of a setting there, even inside quotes.
        self.result.text = text.replace("${", "\\u0024{")
        return self.result

    def add(self, name: str, made: Field, text: str, select: dict[str, str]) -> None:
        physical = f"c{len(select)}"
        select[physical] = text
        self.result.fields[name] = replace(made, name=physical)

    # -- the join --------------------------------------------------------------------------------

    def holder(self, attribute: str) -> Place:
        for place in self.places:
            if attribute in place.attributes:
                return place
        known = {each for place in self.places for each in place.attributes}
        raise EngineError(
            f"No input of the contraction has {attribute!r}.{did_you_mean(attribute, known)}"
        )

    def joins(self) -> str:
        text = ""
        seen: dict[str, str] = {}
        for place in self.places:
            table = f"{place.table.view} AS {place.alias}"
            here = {attribute: place.at(attribute) for attribute in place.attributes}
            same = [f"{seen[a]} = {column}" for a, column in here.items() if a in seen]
            if same:
                text += f" JOIN {table} ON {' AND '.join(same)}"
            else:
                text += f" CROSS JOIN {table}" if text else table
            seen = here | seen
        return text or "(SELECT 1)"  # the product of no inputs is one row

    def hint(self) -> str:
        """Small inputs go to the tasks; if all are small, the largest is where they go to."""
        rows = {p.alias: p.table.known_rows for p in self.places}
        sizes = {alias: ENDLESS if n is None else n for alias, n in rows.items()}
        largest = max(sizes, key=lambda alias: sizes[alias], default=None)
        small = [a for a, size in sizes.items() if a != largest and size <= BROADCAST_ROWS]
        return f"/*+ BROADCAST({', '.join(small)}) */ " if small else ""

    def where(self) -> tuple[bool, str]:
        """The filters, and whether they are computed exactly."""
        exact, texts = True, []
        for condition in self.output.where:
            able = [p for p in self.places if condition.attributes <= p.attributes.keys()]
            node = self.located(condition, able[0] if able else None)
            text, writer = self.fitted(methodcaller("plain", node))
            exact = exact and writer.exact
            texts.append("FALSE" if isinstance(node, exp.Null) else f"({text})")
        return exact, f" WHERE {' AND '.join(texts)}" if texts else ""

    def located(self, expression: Expression, place: Place | None) -> exp.Expr:
        """The expression with columns named as in SQL: those of `place`, or else of any input."""

        def swap(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            name = (place or self.holder(node.name)).at(node.name)
            return _named(name, self.fields[name].kind)

        return expression.node.copy().transform(swap)

    # -- annotations -----------------------------------------------------------------------------

    def column(self, column: Column) -> list[tuple[str, Field]]:
        """⊕ of the ⊗-product of the factors, for each component."""
        semiring = column.semiring
        if column.factors:
            products = semiring.product([self.factor(column, each) for each in column.factors])
        else:
            products = [_literal(value) for value in semiring.one]
        return [
            self.component(plus, node) for plus, node in zip(semiring.plus, products, strict=True)
        ]

    def factor(self, column: Column, factor: Factor) -> list[exp.Expr]:
        """One expression a component; what is NULL counts as zero, if zero is not NULL itself."""
        semiring, place = column.semiring, self.by_index[factor.input]
        if isinstance(factor, Lifted):
            nodes = [self.located(each, place) for each in factor.expressions]
            return [
                node if zero is None or isinstance(node, exp.Literal) else _or(node, zero)
                for node, zero in zip(nodes, semiring.zero, strict=True)
            ]
        names = [place.of(part) for part in stored_parts(factor.name, semiring)]
        return [_named(name, self.fields[name].kind) for name in names]

    def component(self, plus: Plus, node: exp.Expr) -> tuple[str, Field]:
        if plus == "sum" and isinstance(node, exp.Literal) and node.name == "1":
            return "COUNT(*)", Field("", BIGINT, Kind.INTEGER, bound=self.rows, coded=True)
        (text, made), writer = self.fitted(lambda writer: self.summed(writer, plus, node))
        return text, replace(made, exact=writer.exact)

    def summed(self, writer: Writer, plus: Plus, node: exp.Expr) -> tuple[str, Field]:
        """⊕ over the rows, as SQL and as a column of the result."""
        function = _PLUS[plus]
        number = writer.whole(node) if plus != "any" else None
        if number is not None:
            if plus == "sum":
                number = writer.reached(number._replace(bound=number.bound * self.rows))
            text, scale = f"{function}({number.text})", number.scale
            if writer.width == DOUBLE:
                return f"{text} / 1e{scale}", Field("", DOUBLE, Kind.FLOAT)
            kind = Kind.DECIMAL if scale else Kind.INTEGER
            return text, Field("", writer.width, kind, scale, number.bound, coded=True)
        text = writer.plain(node)
        if plus == "any":
            return f"{function}({text})", Field("", "BOOLEAN", Kind.BOOLEAN)
        kind = kind_of(node)
        if kind is Kind.OTHER:  # a product; no kind but numbers mixes with another
            kinds = [self.fields[each.name].kind for each in node.find_all(exp.Column)]
            kind = Kind.FLOAT if Kind.FLOAT in kinds else next(iter(kinds), kind)
        if plus == "sum" or kind.is_number:
            return f"{function}(CAST({text} AS DOUBLE))", Field("", DOUBLE, Kind.FLOAT)
        return f"{function}({text})", Field("", "", kind)

    def fitted(self, write: Callable[[Writer], Made]) -> tuple[Made, Writer]:
        """Write with the narrowest numbers that cannot overflow."""
        for width, limit in LIMITS.items():
            writer = Writer(self.fields, width, self.utc)
            made = write(writer)
            if writer.peak <= limit:
                break
            if width == BIGINT:
                self.want(writer.used)
        return made, writer

    def want(self, columns: set[str]) -> None:
        """Knowing how large these are, and how many rows there are, might save a wider type."""
        for place in self.places:
            names = {name for name, each in place.table.fields.items() if place.of(name) in columns}
            if names or place.table.known_rows is None:
                self.result.wanted.setdefault(place.index, set()).update(names)


def _named(name: str, kind: Kind) -> exp.Expr:
    node = exp.Column(this=exp.to_identifier(name, quoted=False))
    node.meta["kind"] = kind
    return node


def _literal(value: Scalar) -> exp.Expr:
    """Zero or one; 1.0 is the integer 1 to us, or every count would become a decimal."""
    if isinstance(value, float) and value.is_integer():
        return literal(int(value))
    return literal(value)


def _or(node: exp.Expr, zero: Scalar) -> exp.Expr:
    result = exp.Coalesce(this=node, expressions=[_literal(zero)])
    result.meta["kind"] = kind_of(node)
    return result
