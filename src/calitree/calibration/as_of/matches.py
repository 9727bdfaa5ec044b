"""The matches of as-of joins: which time of the right relation each key and time of the left one meets.

They are a relation of every graph that has such a join, a view of the two others, and change with them: after
an update, only the keys and times that it touches are looked up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from calitree.calibration.revisions import Change, Updated, loaded, updated
from calitree.engines.api.contraction import Column, Contraction, Input, Output, Table
from calitree.engines.api.protocol import Engine, on_spark, updatable
from calitree.engines.api.semiring import COUNT
from calitree.engines.api.signed import Linear, summands
from calitree.jointree.joins.as_of import (
    AsOfRequest,
    declared_as_of,
    joins_of,
    matches_name,
    matches_sql,
)
from calitree.jointree.joins.attributes import check_classes, graph_schema
from calitree.jointree.joins.join import AsOf, Join
from calitree.jointree.schema import Relation, Schema
from calitree.sql.quoting import quote

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = "rows"
"""A column of tables here that counts rows; no attribute is called so, as these have a dot in them."""


def matches_of(engine: Engine, schema: Schema, as_of: AsOf, name: str) -> Relation:
    """The matches of two relations of a graph, as one more relation."""
    sides = {
        as_of.left: _distinct(engine, schema, as_of.left, as_of.left_columns),
        as_of.right: _distinct(engine, schema, as_of.right, as_of.right_columns),
    }
    spark = on_spark(engine)
    if spark is not None and spark.is_on_spark(sides.values()):

        def column(relation: str, name: str) -> str:
            return quote(schema.attribute_of[relation, name], dialect="spark")

        sql = matches_sql(as_of, partial(quote, dialect="spark"), column, "spark")
        return Relation(name, spark.materialise(sql, sides), as_of=as_of)
    left, right = (_arrow(engine, table) for table in sides.values())
    return Relation(name, engine.load(name, _matched(as_of, left, right)), as_of=as_of)


def joined_as_of(
    engine: Engine, relations: Mapping[str, Relation], joins: Sequence[Join], asked: AsOfRequest
) -> tuple[dict[str, Relation], list[Join]]:
    """The relations and joins of a graph, with an as-of join more."""
    known, as_of = declared_as_of(relations, joins, asked)
    name = matches_name(as_of, known)
    known[name] = matches_of(engine, graph_schema(known, joins), as_of, name)
    every = [*joins, *joins_of(as_of, name, asked.how)]
    check_classes(graph_schema(known, every), every[-1])
    return known, every


def with_matches(
    engine: Engine, schema: Schema, changed: Mapping[str, Relation]
) -> dict[str, Relation]:
    """Relations that were updated, and the matches that change with them."""
    now, result = schema.having(changed), dict(changed)
    for name, as_of in schema.matches.items():
        if not as_of.relations.isdisjoint(changed):
            change = _Rematch(engine, now, as_of, name).change(changed)
            if change:
                result[name] = updated(engine, schema.relations[name], change)
    return result


class _Rematch:
    """The search for matches that have changed, given the relations as they are now.

    Tables are in this process. Those of pairs have the columns of the matches but the last one, those of
    keys all but the last two.
    """

    def __init__(self, engine: Engine, schema: Schema, as_of: AsOf, name: str) -> None:
        self.engine, self.schema, self.as_of, self.name = engine, schema, as_of, name
        (first, *_), _ = summands(schema.relations[name].table)
        self.types = updatable(engine).schema(first)
        self.pair, self.keys = as_of.columns[:-1], as_of.columns[:-2]

    def change(self, changed: Mapping[str, Relation]) -> Change:
        """The matches that come and go with changes of the two relations."""
        left, right = (
            self._change_of(changed, name) for name in (self.as_of.left, self.as_of.right)
        )
        came, went = (self._pairs(rows) for rows in left)
        pairs = _union(came, went)
        old = _union(self._matches_like(pairs), self._matches_of_keys(right))
        gone = _minus(went, self._pairs([None], among=went))
        pairs = _minus(_union(old.select(self.pair), came), gone)
        there = self._times(pairs.select(self.keys))
        new = _matched(self.as_of, pairs, there).cast(self.types)
        parts = (_minus(new, old), _minus(old, new))
        inserted, deleted = ((rows,) if rows.num_rows else () for rows in parts)
        return Change(inserted, deleted)

    def _change_of(
        self, changed: Mapping[str, Relation], name: str
    ) -> tuple[Sequence[Table], Sequence[Table]]:
        """The rows that come to a relation, and those that go."""
        if name not in changed:
            return (), ()
        table = changed[name].table
        assert isinstance(table, Updated)
        rows = loaded(self.engine, name, [table.change])
        return rows.plus, rows.minus

    def _pairs(self, parts: Sequence[Table | None], among: pa.Table | None = None) -> pa.Table:
        """Keys and times of the left relation in some of its rows; None stands for all."""
        return self._rows(self.as_of.left, self.as_of.left_columns, parts, among)

    def _times(self, keys: pa.Table) -> pa.Table:
        """Keys and times of the right relation."""
        return self._rows(self.as_of.right, self.as_of.right_columns, [None], keys)

    def _matches_of_keys(self, rows: tuple[Sequence[Table], Sequence[Table]]) -> pa.Table:
        """The matches that rows which come to the right relation, or go from it, can change."""
        parts = (*rows[0], *rows[1])
        columns = self.as_of.right_columns[:-1]
        keys = self._rows(self.as_of.right, columns, parts, None)
        return self._matches_like(keys) if columns or not parts else self._matches_like(None)

    def _matches_like(self, among: pa.Table | None) -> pa.Table:
        return self._rows(self.name, self.as_of.columns, [None], among)

    def _rows(
        self,
        relation: str,
        columns: Sequence[str],
        parts: Sequence[Table | None],
        among: pa.Table | None,
    ) -> pa.Table:
        """Some columns of a relation, each combination once; those on the right with their own types."""
        names = self.as_of.columns[: len(columns)]
        types = self.types.empty_table().select(names).schema
        if not columns or (among is not None and not among.num_rows):
            parts = ()
        tables = [
            _arrow(
                self.engine,
                _distinct(self.engine, self.schema, relation, columns, part=part, among=among),
            )
            for part in parts
        ]
        rows = [table.rename_columns(names) for table in tables]
        if relation != self.as_of.right:
            rows = [table.cast(types) for table in rows]
        return reduce(_union, rows) if rows else types.empty_table()


def _distinct(
    engine: Engine,
    schema: Schema,
    relation: str,
    columns: Sequence[str],
    *,
    part: Table | None = None,
    among: pa.Table | None = None,
) -> Table:
    """Some columns of a relation, or of a part of its rows: each combination once.

    Only rows count whose first columns are `among` some.
    """
    attributes = tuple(schema.attribute_of[relation, column] for column in columns)
    inputs = [schema.input_of(relation, attributes, part)]
    if among is not None and among.num_columns:
        kept = attributes[: among.num_columns]
        columns_there = dict(zip(kept, among.column_names, strict=True))
        given = Input(engine.load("keys", among), columns_there)
        (keys,) = engine.contract(Contraction((given,), (Output((0,), (), kept, ()),)))
        inputs.append(Input(keys, {attribute: attribute for attribute in kept}))
    output = Output(tuple(range(len(inputs))), (), attributes, (Column(ROWS, COUNT, ()),))
    return Linear(Contraction(tuple(inputs), (output,)), [ROWS]).tables(engine)[0]


def _arrow(engine: Engine, table: Table) -> pa.Table:
    """What `_distinct` returns, in this process."""
    return engine.arrow(table).drop_columns([ROWS])


def _matched(as_of: AsOf, left: pa.Table, right: pa.Table) -> pa.Table:
    """The matches, given keys and times of both sides."""
    from calitree.calibration.as_of.search import latest

    left, right = left.drop_null(), right.drop_null()
    at = latest(left, right, as_of.tolerance)
    return left.append_column("", at).rename_columns(as_of.columns)


def _union(first: pa.Table, second: pa.Table) -> pa.Table:
    """The rows of both, each once."""
    import pyarrow as pa

    return pa.concat_tables([first, second]).group_by(first.column_names).aggregate([])


def _minus(first: pa.Table, second: pa.Table) -> pa.Table:
    """The rows of the first that the second does not have; NULL equals NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    both = pa.concat_tables(
        table.append_column("side", pa.repeat(side, table.num_rows))
        for side, table in ((1, first), (2, second))
    )
    sides = both.group_by(first.column_names).aggregate([("side", "max")])
    return sides.filter(pc.equal(sides.column("side_max"), 1)).select(first.column_names)
