"""One output of a contraction → one SELECT statement for Spark.

    SELECT i0.c1 AS c0, SUM(CAST(i0.c2 AS BIGINT) * i1.c1) AS c1
    FROM calitree_1 AS i0 JOIN calitree_2 AS i1 ON i0.c0 = i1.c0
    WHERE i0.c3 = 'DAIRY'
    GROUP BY i0.c1

Spark itself reads only the columns that are used, and filters each input before it is joined, so
the text need not say so. It is text, because to build the same plan through DataFrames takes 15 times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import TypeVar

from sqlglot import exp

from calitree.engines.api.contraction import (
    Column,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
    stored_parts,
)
from calitree.engines.api.semiring import Plus, Scalar, literal
from calitree.engines.spark.fields import BIGINT, DOUBLE, Field
from calitree.engines.spark.sql.covariance import CovarianceElement, Z, element_of, lifted
from calitree.engines.spark.sql.from_clause import FromClause, FromItem, named
from calitree.engines.spark.sql.whole_numbers import LIMITS, SqlWriter
from calitree.sql.nodes import kind_of
from calitree.sql.parser import Expression
from calitree.sql.spark_text import all_of
from calitree.types import Kind

Written = TypeVar("Written")

_PLUS: dict[Plus, str] = {"sum": "SUM", "min": "MIN", "max": "MAX", "any": "BOOL_OR"}


@dataclass(frozen=True)
class SelectStatement:
    """SQL text, the columns it gives, and what to measure so that narrower types suffice."""

    text: str
    fields: dict[str, Field]
    to_measure: dict[int, set[str]]
    """By input: the columns whose bounds are needed. The rows of these inputs are needed too."""


def write_output(inputs: Sequence[Input], output: Output, utc: bool) -> SelectStatement:
    """The statement that computes `output`."""
    items = [FromItem.of(inputs, i, utc) for i in output.inputs]
    return _Select(items, output, utc).aggregation()


def write_selection(given: Input, where: Expression, utc: bool) -> SelectStatement:
    """The statement for the rows of one relation that pass a filter."""
    output = Output((0,), (where,), (), ())
    return _Select([FromItem.of([given], 0, utc)], output, utc).selection()


class _Select:
    """The statement for one output, clause by clause."""

    def __init__(self, items: Sequence[FromItem], output: Output, utc: bool) -> None:
        self.tables = FromClause(items)
        self.tables.check_pairs()
        self.output = output
        self.utc = utc
        self.by_index = {item.index: item for item in items}
        self.select: list[str] = []
        self.fields: dict[str, Field] = {}
        self.to_measure: dict[int, set[str]] = {}
        self.measure({column for item in items for column in item.unbounded})

    def aggregation(self) -> SelectStatement:
        keep = [self.tables.holder(name).attribute(name) for name in self.output.keep]
        exact, where = self.where()
        for attribute, text in zip(self.output.keep, keep, strict=True):
            self.add(attribute, self.tables.fields[text], text)
        covariances = [column for column in self.output.columns if column.semiring.values]
        for column in self.output.columns:
            if column not in covariances:
                for part, (text, field) in zip(column.parts, self.column(column), strict=True):
                    self.add(part, replace(field, exact=field.exact and exact), text)
        if keep:
            groups = f" GROUP BY {', '.join(keep)}"
        elif self.output.columns:  # or there would be a row even where no row was joined
            groups = " HAVING COUNT(*) > 0"
        else:
            groups = " LIMIT 1"
        if covariances:
            return self.in_two_passes(covariances, keep, where, groups)
        return self.finished(where + groups)

    def in_two_passes(
        self, columns: Sequence[Column], keep: Sequence[str], where: str, groups: str
    ) -> SelectStatement:
        """The statement with covariances; what it has so far is computed by the first pass."""
        elements = [self.element(column) for column in columns]
        first = list(self.select)
        centres: list[list[str]] = []
        for column, element in zip(columns, elements, strict=True):
            own = [f"c{len(first) + at}" for at in range(column.semiring.values)]
            first += [f"{text} AS {c}" for text, c in zip(element.centres(), own, strict=True)]
            centres.append([f"{Z}.{c}" for c in own])
        hint, tables = self.tables.hint, str(self.tables)
        same = " AND ".join(f"{text} <=> {Z}.c{at}" for at, text in enumerate(keep))
        subquery = f"(SELECT {hint}{', '.join(first)} FROM {tables}{where}{groups}) AS {Z}"
        texts = dict(zip(self.output.keep, keep, strict=True))
        fields, self.fields, self.select = self.fields, {}, []
        for name, field in fields.items():
            texts.setdefault(name, f"ANY_VALUE({Z}.{field.name})")
        for column, element, around in zip(columns, elements, centres, strict=True):
            texts |= zip(column.parts, element.sums(around), strict=True)
        double = Field("", DOUBLE, Kind.FLOAT)
        parts = (part for column in self.output.columns for part in column.parts)
        for name in (*self.output.keep, *parts):
            self.add(name, fields.get(name, double), texts[name])
        joined = f" JOIN {subquery} ON {same}" if keep else f" CROSS JOIN {subquery}"
        return self.finished(joined + where + groups)

    def element(self, column: Column) -> CovarianceElement:
        """The product of a covariance's factors, and its weights."""
        semiring, factors, weights = column.semiring, [], []
        for factor in column.factors:
            item = self.by_index[factor.input]
            if isinstance(factor, Lifted):
                nodes = (self.tables.located(lift, item) for lift in factor.expressions)
                values = [self.fitted(partial(_value, node))[0] for node in nodes]
                factors.append(lifted(values, len(semiring.components)))
            elif isinstance(factor, Stored):
                parts = stored_parts(factor.name, semiring)
                factors.append([item.column(part) for part in parts])
            else:
                weights.append(f"CAST({item.column(factor.name)} AS DOUBLE)")
        return element_of(semiring, factors, weights)

    def selection(self) -> SelectStatement:
        """All columns of the one input, in the rows that pass."""
        exact, where = self.where()
        (item,) = self.tables.items
        for name, field in item.table.fields.items():
            self.add(name, replace(field, exact=field.exact and exact), item.column(name))
        return self.finished(where)

    def finished(self, rest: str) -> SelectStatement:
        listed = ", ".join(self.select) or "TRUE AS c0"
        text = f"SELECT {self.tables.hint}{listed} FROM {self.tables}{rest}"
        # Spark would put the value of a setting there, even inside quotes.
        return SelectStatement(text.replace("${", "\\u0024{"), self.fields, self.to_measure)

    def add(self, name: str, field: Field, text: str) -> None:
        physical = f"c{len(self.select)}"
        self.select.append(f"{text} AS {physical}")
        self.fields[name] = replace(field, name=physical)

    def where(self) -> tuple[bool, str]:
        """The filters, and whether they are computed exactly."""
        exact, texts = True, []
        for condition in self.output.where:
            items = self.tables.items
            able = [item for item in items if condition.attributes <= item.attributes.keys()]
            node = self.tables.located(condition, able[0] if able else None)
            text, writer = self.fitted(methodcaller("plain", node))
            exact = exact and writer.exact
            texts.append("FALSE" if isinstance(node, exp.Null) else f"({text})")
        return exact, f" WHERE {all_of(texts)}" if texts else ""

    # -- annotations -----------------------------------------------------------------------------

    def column(self, column: Column) -> list[tuple[str, Field]]:
        """⊕ of the ⊗-product of the factors, for each component."""
        semiring = column.semiring
        if column.factors:
            factors = [self.factor(column, factor) for factor in column.factors]
            products = semiring.product(factors)
        else:
            products = [_literal(value) for value in semiring.one]
        return [
            self.component(plus, node) for plus, node in zip(semiring.plus, products, strict=True)
        ]

    def factor(self, column: Column, factor: Factor) -> list[exp.Expr]:
        """One expression a component; what is NULL counts as zero, if zero is not NULL itself."""
        semiring, item = column.semiring, self.by_index[factor.input]
        if isinstance(factor, Lifted):
            nodes = [self.tables.located(lift, item) for lift in factor.expressions]
            return [
                node if zero is None or isinstance(node, exp.Literal) else _or(node, zero)
                for node, zero in zip(nodes, semiring.zero, strict=True)
            ]
        names = [item.column(part) for part in stored_parts(factor.name, semiring)]
        return [named(name, self.tables.fields[name].kind) for name in names]

    def component(self, plus: Plus, node: exp.Expr) -> tuple[str, Field]:
        if plus == "sum" and isinstance(node, exp.Literal) and node.name == "1":
            rows = self.tables.rows
            return "COUNT(*)", Field("", BIGINT, Kind.INTEGER, bound=rows, coded=True)
        (text, field), writer = self.fitted(lambda writer: self.summed(writer, plus, node))
        return text, replace(field, exact=writer.exact)

    def summed(self, writer: SqlWriter, plus: Plus, node: exp.Expr) -> tuple[str, Field]:
        """⊕ over the rows, as SQL and as a column of the result."""
        function = _PLUS[plus]
        stored = self.tables.fields.get(node.name) if isinstance(node, exp.Column) else None
        if stored is not None and plus in ("min", "max") and _is_decimal(stored):
            writer.exact = stored.exact
            return f"{function}({node.name})", replace(stored, name="")
        number = writer.whole(node) if plus != "any" else None
        if number is not None:
            if plus == "sum":
                bound = number.bound * self.tables.rows
                number = writer.recorded(number._replace(bound=bound))
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
            columns = node.find_all(exp.Column)
            kinds = [self.tables.fields[column.name].kind for column in columns]
            kind = Kind.FLOAT if Kind.FLOAT in kinds else next(iter(kinds), kind)
        if plus == "sum" or kind.is_number:
            return f"{function}(CAST({text} AS DOUBLE))", Field("", DOUBLE, Kind.FLOAT)
        return f"{function}({text})", Field("", "", kind)

    def fitted(self, write: Callable[[SqlWriter], Written]) -> tuple[Written, SqlWriter]:
        """Write with the narrowest numbers that cannot overflow."""
        for width, limit in LIMITS.items():
            writer = SqlWriter(self.tables.fields, width, self.utc)
            written = write(writer)
            if writer.peak <= limit:
                break
            if width == BIGINT:
                self.measure(writer.used)
        return written, writer

    def measure(self, columns: set[str]) -> None:
        """Note that the bounds of these columns, and the numbers of rows, may save a wider type."""
        for item in self.tables.items if columns else ():
            names = {name for name in item.table.fields if item.column(name) in columns}
            if names or item.table.known_rows is None:
                self.to_measure.setdefault(item.index, set()).update(names)


def _value(node: exp.Expr, writer: SqlWriter) -> tuple[str, bool]:
    """A value, and whether it is an integer that may have more digits than doubles."""
    number = writer.whole(node) if writer.width == BIGINT else None
    return writer.plain(node), number is not None and not number.scale and number.bound >= 2**53


def _is_decimal(field: Field) -> bool:
    """Whether it is compared as it is: a decimal need not become a whole number for it."""
    return field.type.startswith("DECIMAL") and not field.coded


def _literal(value: Scalar) -> exp.Expr:
    """Zero or one; 1.0 is the integer 1 to us, or every count would become a decimal."""
    if isinstance(value, float) and value.is_integer():
        return literal(int(value))
    return literal(value)


def _or(node: exp.Expr, zero: Scalar) -> exp.Expr:
    result = exp.Coalesce(this=node, expressions=[_literal(zero)])
    result.meta["kind"] = kind_of(node)
    return result
