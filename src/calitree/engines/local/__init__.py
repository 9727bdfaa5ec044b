"""The local engine: contractions over Arrow data in this process, vectorised with NumPy.

Relations stay as Arrow; an attribute's codes are made when a join, a group or a filter first needs
them. A message is codes for its attributes and arrays for its annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.engines import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Table,
    stored_parts,
)
from calitree.engines.local import values as v
from calitree.engines.local.dictionary import Codes, Dictionary
from calitree.engines.local.frame import Array, Frame, group
from calitree.engines.local.values import Value
from calitree.errors import EngineError
from calitree.evaluate import evaluate
from calitree.expressions import Expression
from calitree.semiring import Semiring
from calitree.types import Kind, kind_of_arrow


class Relation:
    """A base relation: an Arrow table, and what has been derived from its columns."""

    exact = True

    def __init__(self, data: pa.Table) -> None:
        self.data = data
        self.kinds = {f.name: kind_of_arrow(f.type) for f in data.schema}
        self.codes: dict[tuple[str, str], Codes] = {}
        self.lifts: dict[tuple[str, tuple[tuple[str, str], ...]], Value] = {}

    @property
    def rows(self) -> int:
        return int(self.data.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    @property
    def null_free(self) -> frozenset[str]:
        return frozenset(n for n in self.kinds if self.data.column(n).null_count == 0)


class Message:
    """A computed table: codes of its attributes, values of its annotations."""

    null_free: frozenset[str] = frozenset()

    def __init__(
        self,
        codes: dict[str, Codes],
        values: dict[str, Value],
        rows: int,
        kinds: Mapping[str, Kind],
    ) -> None:
        self.codes = codes
        self.values = values
        self.rows = rows
        self.kinds = {**kinds, **dict.fromkeys(values, Kind.OTHER)}

    @property
    def nbytes(self) -> int:
        held = sum(codes.nbytes for codes in self.codes.values())
        return int(held) + sum(value.nbytes for value in self.values.values())

    @property
    def exact(self) -> bool:
        return all(value.exact for value in self.values.values())


class LocalEngine:
    """In-process contraction. One instance belongs to one join graph: its dictionaries are shared
    by all tables.
    """

    name = "local"

    def __init__(self) -> None:
        self.dictionaries: dict[str, Dictionary] = {}

    def load(self, name: str, source: Any) -> Relation:
        from calitree.sources import arrow_table

        return Relation(arrow_table(name, source))

    def arrow(self, table: Table) -> pa.Table:
        if isinstance(table, Relation):
            return table.data
        assert isinstance(table, Message)
        columns = {
            name: self.dictionaries[name].decode(codes) for name, codes in table.codes.items()
        }
        columns |= {name: v.to_arrow(value) for name, value in table.values.items()}
        if not columns:
            return pa.table({"": pa.nulls(table.rows)}).select([])
        return pa.table(columns)

    def contract(self, contraction: Contraction) -> list[Message]:
        return [self._output(contraction.inputs, output) for output in contraction.outputs]

    def _output(self, inputs: Sequence[Input], output: Output) -> Message:
        frame, late = self._join(inputs, output)
        for predicate in late:
            values = {a: self.dictionaries[a].decode(frame.codes[a]) for a in predicate.attributes}
            frame.keep(_true(evaluate(predicate.node, values, frame.length)))
        sizes = [len(self.dictionaries[a]) for a in output.keep]
        groups, codes = group([frame.codes[a] for a in output.keep], sizes, frame.length)
        count = len(codes[0]) if codes else min(frame.length, 1)
        found: dict[str, Value] = {}
        for column in output.columns:
            product = self._product(column, inputs, frame)
            for part, plus, value in zip(column.parts, column.semiring.plus, product, strict=True):
                found[part] = _plus(plus, value, groups, count)
        kinds = {a: self._kind(a, inputs, output) for a in output.keep}
        return Message(dict(zip(output.keep, codes, strict=True)), found, count, kinds)

    def _kind(self, attribute: str, inputs: Sequence[Input], output: Output) -> Kind:
        holder = next(inputs[i] for i in output.inputs if attribute in inputs[i].attributes)
        return holder.table.kinds[holder.attributes[attribute]]

    # -- joining ---------------------------------------------------------------------------------

    def _join(self, inputs: Sequence[Input], output: Output) -> tuple[Frame, list[Expression]]:
        """Join the inputs, each filtered first by what concerns it alone; the other predicates are
        left over.
        """
        late = [p for p in output.where if not any(_holds(inputs[i], p) for i in output.inputs)]
        wanted = set(output.keep).union(*(p.attributes for p in late))
        sizes: dict[str, int] = {}
        parts: list[tuple[int, dict[str, Codes], Array | None, int]] = []
        for index in output.inputs:
            given = inputs[index]
            shared = {a for i in output.inputs if i != index for a in inputs[i].attributes}
            names = [a for a in given.attributes if a in shared or a in wanted]
            codes = {a: self._codes(given, a) for a in names}
            mask = self._mask(given, [p for p in output.where if _holds(given, p)])
            parts.append((index, codes, mask, given.table.rows))
        for _, codes, _, _ in parts:
            sizes |= {a: len(self.dictionaries[a]) for a in codes}
        frame = Frame(sizes)
        for index, codes, mask, length in parts:
            if mask is None:
                frame.join(index, codes, length)
                continue
            at = np.flatnonzero(mask)
            frame.join(index, {a: c[at] for a, c in codes.items()}, len(at))
            before = frame.rows[index]
            frame.rows[index] = at if before is None else at[before]
        return frame, late

    def _codes(self, given: Input, attribute: str) -> Codes:
        table = given.table
        if isinstance(table, Message):
            return table.codes[attribute]
        if not isinstance(table, Relation):
            raise EngineError(f"The local engine cannot read a {type(table).__name__}.")
        column = given.attributes[attribute]
        key = (attribute, column)
        if key not in table.codes:
            dictionary = self.dictionaries.setdefault(attribute, Dictionary())
            table.codes[key] = dictionary.encode(table.data.column(column))
        return table.codes[key]

    def _mask(self, given: Input, predicates: Sequence[Expression]) -> Array | None:
        """The rows of an input that pass predicates on its own attributes."""
        mask: Array | None = None
        for predicate in predicates:
            passed = self._passed(given, predicate)
            mask = passed if mask is None else mask & passed
        return mask

    def _passed(self, given: Input, predicate: Expression) -> Array:
        if len(predicate.attributes) == 1:
            (attribute,) = predicate.attributes
            if self._is_encoded(given, attribute):
                values = self.dictionaries[attribute].values
                # One place more, for NULL, which is code -1.
                domain = pa.concat_arrays([values, pa.nulls(1, values.type)])
                passed = _true(evaluate(predicate.node, {attribute: domain}, len(domain)))
                result: Array = passed[self._codes(given, attribute)]
                return result
        columns = {a: self._column(given, a) for a in predicate.attributes}
        return _true(evaluate(predicate.node, columns, given.table.rows))

    def _is_encoded(self, given: Input, attribute: str) -> bool:
        """Whether the codes are there, so that a predicate can be evaluated on the dictionary."""
        if isinstance(given.table, Relation):
            return (attribute, given.attributes[attribute]) in given.table.codes
        return True

    def _column(self, given: Input, attribute: str) -> pa.Array | pa.ChunkedArray:
        if isinstance(given.table, Relation):
            return given.table.data.column(given.attributes[attribute])
        return self.dictionaries[attribute].decode(self._codes(given, attribute))

    # -- annotations -----------------------------------------------------------------------------

    def _product(self, column: Column, inputs: Sequence[Input], frame: Frame) -> list[Value]:
        semiring = column.semiring
        factors = [self._factor(each, semiring, inputs, frame) for each in column.factors]
        if not factors:
            return [_constant(value, frame.length) for value in semiring.one]
        result = factors[0]
        for factor in factors[1:]:
            result = _times(semiring, result, factor, frame.length)
        return result

    def _factor(
        self, factor: Factor, semiring: Semiring, inputs: Sequence[Input], frame: Frame
    ) -> list[Value]:
        given, at = inputs[factor.input], frame.rows[factor.input]
        if isinstance(factor, Lifted):
            found = [self._lift(given, each) for each in factor.expressions]
        else:
            assert isinstance(given.table, Message)
            found = [given.table.values[part] for part in stored_parts(factor.name, semiring)]
        taken = [value.take(at) for value in found]
        return [
            value if zero is None else value.filled(zero)
            for value, zero in zip(taken, semiring.zero, strict=True)
        ]

    def _lift(self, given: Input, expression: Expression) -> Value:
        """A lift on every row of its relation, computed once."""
        table = given.table
        assert isinstance(table, Relation)
        names = tuple(sorted((a, given.attributes[a]) for a in expression.attributes))
        key = (expression.sql, names)
        if key not in table.lifts:
            columns = {a: table.data.column(c) for a, c in names}
            value = v.from_arrow(evaluate(expression.node, columns, table.rows))
            if expression.kind in (Kind.INTEGER, Kind.DECIMAL) and not value.is_integer:
                value = replace(value, exact=False)
            table.lifts[key] = value
        return table.lifts[key]


def _holds(given: Input, predicate: Expression) -> bool:
    return bool(predicate.attributes) and predicate.attributes <= given.attributes.keys()


def _true(array: pa.Array) -> Array:
    """Where a condition is true: neither false nor NULL."""
    result: Array = array.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    return result


def _constant(value: Any, length: int) -> Value:
    if isinstance(value, bool):
        return Value(np.full(length, value))
    return Value(np.full(length, value, np.float64 if isinstance(value, float) else np.int64))


def _times(semiring: Semiring, left: list[Value], right: list[Value], length: int) -> list[Value]:
    """⊗: the built-in ones directly, any other by its expressions."""
    if semiring.is_sum_product:
        return [v.multiply(left[0], right[0])]
    if semiring.times == ("l_v + r_v",):
        return [v.add(left[0], right[0])]
    sides = {f"l_{n}": v.to_arrow(x) for n, x in zip(semiring.components, left, strict=True)}
    sides |= {f"r_{n}": v.to_arrow(x) for n, x in zip(semiring.components, right, strict=True)}
    exact = all(value.exact for value in (*left, *right))
    whole = all(value.is_integer for value in (*left, *right))
    found = [v.from_arrow(evaluate(node, sides, length)) for node in semiring.times_nodes]
    return [replace(x, exact=exact and x.exact and (x.is_integer or not whole)) for x in found]


def _plus(plus: str, value: Value, groups: Array, count: int) -> Value:
    if plus == "sum":
        return v.total(value, groups, count)
    if plus == "any":
        return v.any_of(value, groups, count)
    return v.extreme(value, groups, count, largest=plus == "max")
