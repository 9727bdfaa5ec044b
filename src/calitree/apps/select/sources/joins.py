"""The joins of a block against those of the graph, and what of its conditions they leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from sqlglot import exp

from calitree.apps.select.grammar import refused
from calitree.errors import SchemaError, StatementError
from calitree.jointree.joins.checks import classes_of_pairs
from calitree.jointree.joins.conditions import join_conditions
from calitree.jointree.joins.declare import clause_text
from calitree.jointree.joins.from_clause import (
    JoinClause,
    are_outer_joins,
    equal_pairs,
    from_clause,
    outer_joins,
)
from calitree.jointree.joins.join import ColumnName, Join, OuterJoin, Pair
from calitree.jointree.remainder import remaining_joins, remaining_schema
from calitree.jointree.schema import Schema
from calitree.sql.analysis import Resolved
from calitree.sql.parser import conjuncts, typed


class Reading(Protocol):
    """What was read in a FROM clause."""

    joins: list[Join]
    select: exp.Select

    def pair(self, node: exp.Expr) -> Pair | None:
        """The two columns of different relations that a condition makes equal; None if it does not."""

    def column(self, node: exp.Column) -> ColumnName:
        """The column of a relation that a name stands for."""


class Matching:
    """The joins of a block against those of the graph."""

    def __init__(self, schema: Schema, relations: tuple[str, ...], reader: Reading) -> None:
        self.schema, self.relations, self.reader = schema, relations, reader
        clause, added = remaining_joins(schema, frozenset(relations))
        self.equal = [*equal_pairs(clause), *(pair for join in added for pair in join.compared)]
        self.outer = outer_joins(clause)
        self.class_of = self._classes(self.equal)

    def _classes(self, pairs: Iterable[Pair]) -> dict[ColumnName, int]:
        columns = [
            (name, c) for name in self.relations for c in self.schema.relations[name].columns
        ]
        return {c: at for at, part in enumerate(classes_of_pairs(columns, pairs)) for c in part}

    def filters(self, conditions: list[exp.Expr]) -> list[exp.Expr]:
        """The conditions of the block that are no joins of the graph; an error if a join is not there."""
        written = self._clause()
        equal, filters = equal_pairs(written), list[exp.Expr]()
        wanted = [(pair, _equality(pair)) for pair in equal]
        for node in conditions:
            pair = self.reader.pair(node)
            if pair is None:
                filters.append(node)
                common = map(self.reader.pair, _common(node))
                equal += [pair for pair in common if pair is not None]
            else:
                equal.append(pair)
                wanted.append((pair, node))
        inner = [join for join in self.outer if _is_within(join, equal)]
        partners = {frozenset(pair) for join in inner for pair in join.pairs}
        filters += [
            node
            for pair, node in wanted
            if not self._is_joined(pair) and frozenset(pair) not in partners
        ]
        filters += [has_partner for join in inner for has_partner in _with_partner(join)]
        classes = self._classes(equal)
        for one, other in self.equal:
            if classes[one] != classes[other]:
                raise self._other_joins(
                    f"The graph joins {one[0]} and {other[0]} on {_text(one)} = {_text(other)}, and the "
                    "query does not."
                )
        self._check_outer(written, [join for join in self.outer if join not in inner])
        return self._without_conditions(filters)

    def _clause(self) -> JoinClause:
        try:
            return from_clause(self.relations, self.reader.joins)
        except SchemaError as error:
            raise self._other_joins(str(error)) from None

    def _is_joined(self, pair: Pair) -> bool:
        return self.class_of[pair[0]] == self.class_of[pair[1]]

    def _check_outer(self, written: JoinClause, expected: list[OuterJoin]) -> None:
        """An error if the outer joins that are written are not these."""
        try:
            same = are_outer_joins(written, expected)
        except SchemaError as error:
            raise self._other_joins(str(error)) from None
        if not same:
            raise self._other_joins("The outer joins of the query are others than the graph's.")

    def _without_conditions(self, filters: list[exp.Expr]) -> list[exp.Expr]:
        """The filters without the conditions by which the graph joins relations."""
        schema = remaining_schema(self.schema, self.relations)
        due = dict.fromkeys(join_conditions(schema, self.relations))
        if not due:
            return filters

        def resolve(table: str | None, name: str) -> Resolved:
            at = self.reader.column(exp.column(name, table=table))
            return schema.resolve(*at, self.relations)

        kept = []
        for node in filters:
            expression = typed(node.copy(), resolve)
            if expression in due:
                del due[expression]
            else:
                kept.append(node)
        for missing in due:
            raise self._other_joins(f"The graph joins by {missing}, and the query does not.")
        return kept

    def _other_joins(self, text: str) -> StatementError:
        among = {name: self.schema.relations[name] for name in self.relations}
        joins = self.schema.declared_joins(frozenset(self.relations))
        nearest = clause_text(among, [join for join in self.schema.joins if join in joins])
        return refused("joins", f"{text} The graph has FROM {nearest}.", self.reader.select)


def _common(node: exp.Expr) -> list[exp.Expr]:
    """What holds in all alternatives of a condition: (a AND b) OR (a AND c) implies a."""
    if not isinstance(node.unnest(), exp.Or):
        return []
    first, *others = (list(conjuncts(branch)) for branch in node.unnest().flatten())
    return [part for part in first if all(part in other for other in others)]


def _equality(pair: Pair) -> exp.Expr:
    one, other = (exp.column(name, table=relation, quoted=True) for relation, name in pair)
    return exp.EQ(this=one, expression=other)


def _is_within(join: OuterJoin, equal: Iterable[Pair]) -> bool:
    """Whether all that an outer join compares is made equal."""
    known = {frozenset(pair) for pair in equal}
    return all(frozenset(pair) in known for pair in join.pairs)


def _with_partner(join: OuterJoin) -> Iterator[exp.Expr]:
    """That a row of an outer join has a partner, as it has in an inner one: keys are not NULL."""
    for column in join.pairs[0] if join.is_full else join.pairs[0][1:]:
        relation, name = column
        test = exp.Is(this=exp.column(name, table=relation, quoted=True), expression=exp.Null())
        yield exp.Not(this=test)


def _text(column: ColumnName) -> str:
    return ".".join(column)
