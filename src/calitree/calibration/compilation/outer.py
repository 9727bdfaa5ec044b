"""Outer joins as contractions see them: default rows, and the keys that have a partner.

The optional side of an outer join has one row more, the *default row*, in which everything is NULL. Rows of
the preserved side without a partner are joined with it. So the message of the optional side has an entry for
NULL, and what arrives there is looked up by a key that counts as NULL where the side does not have it
(`contraction.Match`). No row is made for a key that is missing, on either side.

The default row is a row like any other: filters, lifts and groups are evaluated on it as on all others. What
a filter removes has a partner all the same, therefore keys are those of the side without any filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from calitree.jointree.joins.join import ColumnName, OuterJoin
from calitree.jointree.schema import Schema
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.sql.nodes import column, not_null
from calitree.sql.parser import Expression, expression_of

if TYPE_CHECKING:
    import pyarrow as pa


MAX_COMPLETED_ROWS = 1 << 20
"""Rows of a relation that is copied to have its default row among them."""


_COMPLETED: WeakKeyDictionary[Engine, BudgetedCache[Table, Table]] = WeakKeyDictionary()
"""By engine: tables and the same with a default row. All trees of a graph share them, as they do codes."""


def _completed_by(engine: Engine) -> BudgetedCache[Table, Table]:
    """The cache of an engine; of two threads that make it, one is the first."""
    known = _COMPLETED.get(engine)
    if known is None:
        fresh = BudgetedCache[Table, Table](
            budget_of(engine), "look-ups", attrgetter("nbytes"), weak=True
        )
        known = _COMPLETED.setdefault(engine, fresh)
    return known


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
        derived = {a for name in block for a in self.schema.derived_of[name]}
        wanted = derived if len(block) > 1 else derived.intersection(join.key)
        inputs = tuple(self.schema.input_of(name, wanted) for name in block)
        output = Output(tuple(range(len(block))), key_filters(self.schema, join), join.key, ())
        (keys,) = Linear(Contraction(inputs, (output,)), (None,)).tables(self.state.engine)
        return keys

    def preserved_keys(self, join: OuterJoin, answered: Answered) -> Table:
        """The keys by which rows of the optional side of a full join find a partner.

        `answered` are the rows of the preserved side by the columns that are compared, without a filter.
        """
        inputs = [Input(answered.table, {a: a for a in answered.columns.values()})]
        derived = {a for name in join.preserved for a in self.schema.derived_of[name]}
        inputs += [self.schema.input_of(name, derived) for name in sorted(join.preserved)]
        output = Output(tuple(range(len(inputs))), (), join.key, ())
        keys = Linear(Contraction(tuple(inputs), (output,)), (None,))
        return keys.tables(self.state.engine)[0]

    def default_row(self, relations: frozenset[str], inputs: Iterable[Input] = ()) -> Input:
        """The default row of one side, with all attributes of its relations.

        Of those that are derived it has those of `inputs`. Where partners are found they are NULL; all
        others are computed, and may not be.
        """
        attributes = self.schema.attributes
        derived = {a for name in relations for a in self.schema.derived_of[name]}
        stored = sorted(
            a
            for name in relations
            for a in self.schema.columns_of[name]
            if a not in derived or attributes[a].match
        )
        names = {attribute: f"c{at}" for at, attribute in enumerate(dict.fromkeys(stored))}

        def load() -> Table:
            return self._row_of_nulls({c: self._type(relations, a) for a, c in names.items()})

        row = self.state.default_rows.of(tuple(names), load)
        computed = {a: e for given in inputs for a, e in given.derived.items() if a not in names}
        return Input(row, names, computed)

    def completed(self, join: OuterJoin) -> Table | None:
        """The one relation of an optional side and its default row as one table, if it is small."""
        if len(join.optional) > 1:
            return None
        (name,) = join.optional
        relation = self.schema.relations[name]
        if any(column in relation.derived for _, (_, column) in join.pairs):
            return None  # which may not be NULL in a row of NULLs
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
        derived = {a for name in relations for a in self.schema.derived_of[name]}
        row = self.default_row(
            relations, [self.schema.input_of(name, derived) for name in sorted(relations)]
        )
        attributes = (*row.attributes, *row.derived)

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
        from calitree.sql.kernels.casts import null_of

        known = self.schema.attributes[attribute]
        relation, name = next(c for c in known.columns if c[0] in relations)
        types = self.state.types_of(self.schema.relations[relation]).by_name
        return types[name] if name in types else null_of(known.kind).type


def key_filters(schema: Schema, join: OuterJoin) -> tuple[Expression, ...]:
    """That no part of a key is NULL: such rows of an optional side have no partner."""
    return tuple(
        schema.inlined(expression_of(not_null(column(attribute))), join.optional)
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
