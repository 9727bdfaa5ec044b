"""Outer joins as contractions see them: default rows, and the keys that have a partner.

The optional side of an outer join has one row more, the *default row*, in which everything is NULL. Rows of
the preserved side without a partner are joined with it. So the message of the optional side has an entry for
NULL, and what arrives there is looked up by a key that counts as NULL where the side does not have it
(`contraction.Match`). No row is made for a key that is missing, on either side.

The default row is a row like any other: filters, lifts and groups are evaluated on it as on all others. What
a filter removes has a partner all the same, therefore keys are those of the side without any filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from calitree.calibration.revisions import is_in_process
from calitree.calibration.state import TreeState
from calitree.engines.api.contraction import Contraction, Input, Match, Output, Table
from calitree.engines.api.protocol import Engine, budget_of, updatable
from calitree.engines.api.signed import Linear, summands
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import ColumnName, OuterJoin, Schema
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.process.locks import BriefLock
from calitree.sql.nodes import column, not_null
from calitree.sql.parser import Expression, expression_of

if TYPE_CHECKING:
    import pyarrow as pa


MAX_COMPLETED_ROWS = 1 << 20
"""Rows of a relation that is copied to have its default row among them."""


_COMPLETED: WeakKeyDictionary[Engine, BudgetedCache[Table, Table]] = WeakKeyDictionary()
"""By engine: tables and the same with a default row. All trees of a graph share them, as they do codes."""

_COMPLETED_LOCK = BriefLock()


def _completed_by(engine: Engine) -> BudgetedCache[Table, Table]:
    with _COMPLETED_LOCK:
        if engine not in _COMPLETED:
            _COMPLETED[engine] = BudgetedCache(
                budget_of(engine), "look-ups", attrgetter("nbytes"), weak=True
            )
        return _COMPLETED[engine]


class Answered(NamedTuple):
    """The answer to a question by some columns, and the attribute of each."""

    table: Table
    columns: Mapping[ColumnName, str]


@dataclass(frozen=True)
class OuterJoins:
    """The outer joins of a tree, at one version of its relations."""

    state: TreeState
    schema: Schema

    def match(self, join: OuterJoin) -> Match:
        """By which keys the two sides of a join find each other."""
        block = sorted(join.optional)
        revisions = tuple((name, self.schema.relations[name].revision) for name in block)
        known = self.state.partner_keys.of((join.pairs, revisions), lambda: self._keys(join, block))
        return Match(join.key, known)

    def _keys(self, join: OuterJoin, block: list[str]) -> Table:
        """The keys that the optional side has."""
        inputs = tuple(
            Input(self.schema.relations[name].table, self.schema.columns_of[name]) for name in block
        )
        output = Output(tuple(range(len(block))), key_filters(self.schema, join), join.key, ())
        (keys,) = Linear(Contraction(inputs, (output,)), (None,)).tables(self.state.engine)
        return keys

    def preserved_keys(self, join: OuterJoin, answered: Answered) -> Table:
        """The keys by which rows of the optional side of a full join find a partner.

        `answered` are the rows of the preserved side by the columns that are compared, without a filter.
        """
        inputs = [Input(answered.table, {a: a for a in answered.columns.values()})]
        for name in sorted(join.preserved):
            relation, columns = self.schema.relations[name], self.schema.columns_of[name]
            inputs.append(Input(relation.table, columns))
        output = Output(tuple(range(len(inputs))), (), join.key, ())
        keys = Linear(Contraction(tuple(inputs), (output,)), (None,))
        return keys.tables(self.state.engine)[0]

    def default_row(self, relations: frozenset[str]) -> Input:
        """The default row of one side, with all attributes of its relations."""
        attributes = sorted({a for name in relations for a in self.schema.columns_of[name]})
        names = {attribute: f"c{at}" for at, attribute in enumerate(attributes)}

        def load() -> Table:
            return self._row_of_nulls({names[a]: self._type(relations, a) for a in attributes})

        return Input(self.state.default_rows.of(tuple(attributes), load), names)

    def completed(self, join: OuterJoin) -> Table | None:
        """The one relation of an optional side and its default row as one table, if it is small."""
        if len(join.optional) > 1:
            return None
        (name,) = join.optional
        relation = self.schema.relations[name]
        plus, minus = summands(relation.table)
        if relation.table.rows > MAX_COMPLETED_ROWS or not is_in_process(
            self.state.engine, (*plus, *minus)
        ):
            return None

        def complete() -> Table:
            types = self.state.types_of(relation).by_name
            default = self._row_of_nulls(types)
            return updatable(self.state.engine).settle((*plus, default), minus)

        return _completed_by(self.state.engine).of(relation.table, complete)

    def default_message(self, relations: frozenset[str]) -> Input:
        """The same as a result, which can be sent to where a large relation is."""
        row = self.default_row(relations)
        attributes = tuple(row.attributes)

        def send() -> Table:
            contraction = Contraction((row,), (Output((0,), (), attributes, ()),))
            return self.state.engine.contract(contraction)[0]

        table = self.state.default_rows.of((attributes, "sent"), send)
        return Input(table, {attribute: attribute for attribute in attributes})

    def _row_of_nulls(self, types: Mapping[str, pa.DataType]) -> Table:
        import pyarrow as pa

        nulls = {name: pa.nulls(1, dtype) for name, dtype in types.items()}
        return self.state.engine.load("default row", pa.table(nulls))

    def _type(self, relations: frozenset[str], attribute: str) -> pa.DataType:
        columns = self.schema.attributes[attribute].columns
        relation, name = next(c for c in columns if c[0] in relations)
        return self.state.types_of(self.schema.relations[relation]).by_name[name]


def key_filters(schema: Schema, join: OuterJoin) -> tuple[Expression, ...]:
    """That no part of a key is NULL: such rows of an optional side have no partner."""
    return tuple(
        expression_of(not_null(column(attribute)))
        for attribute, (_, (relation, name)) in zip(join.key, join.pairs, strict=True)
        if name not in schema.relations[relation].table.null_free
    )


def joins_by_edge(tree: Hypertree, schema: Schema) -> dict[frozenset[str], OuterJoin]:
    """The edges of a tree that are outer joins, in whichever direction."""
    edges = {}
    for join in schema.outer:
        preserved, optional = next(iter(join.preserved)), next(iter(join.linked))
        edges[frozenset((tree.home(preserved), tree.home(optional)))] = join
    return edges
