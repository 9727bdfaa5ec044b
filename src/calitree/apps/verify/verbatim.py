"""Questions as SQL in the texts that they were given in, and the table on which these texts run.

The table `wide` has a struct for every relation, so that `sales.price` is a field of one, and a column
for every name that stands without its relation. Nothing of what a text means is ours: DuckDB parses it,
and only the names of its columns are looked up here, so that the table need not have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from calitree.apps.verify.plain import column_sql, joined_sql
from calitree.engines.api.contraction import Table
from calitree.errors import CalitreeError, ExpressionError
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema, find_column
from calitree.query.binder import MeasureLike, Question
from calitree.query.groups import named_groups
from calitree.query.measure import Measure
from calitree.sql.parser import parse_node
from calitree.sql.quoting import quote

WrittenName = tuple[str | None, str]
"""A column as a text names it: its relation, if that is given, and its name."""


class Verbatim(NamedTuple):
    """A question as SQL over `wide`, and the columns that its texts name."""

    sql: str
    names: frozenset[WrittenName]


def verbatim(
    schema: Schema, question: Question, known: Mapping[str, MeasureLike]
) -> Verbatim | None:
    """The question in its own texts; None if a measure has none, or there are several answers to it."""
    texts = _measure_texts(question, known)
    if texts is None or any(map(_is_one_of_several, texts)):
        return None
    columns = [_group_text(schema, text) for _, text in named_groups(question.group_by)]
    names = set[WrittenName]().union(*(used for used, _ in columns))
    for text in (*texts, *([question.where] if question.where is not None else [])):
        names |= names_in(text)
    chosen = [f"{text} AS {quote(f'{i} of wide')}" for i, (_, text) in enumerate(columns)]
    chosen += [
        f"{_whole(text)} AS {quote(f'{len(columns) + i} of wide')}" for i, text in enumerate(texts)
    ]
    sql = f"SELECT {', '.join(chosen)} FROM wide"
    if question.where is not None:
        sql += f" WHERE {_whole(question.where)}"
    if columns:
        sql += f" GROUP BY {', '.join(str(i + 1) for i in range(len(columns)))}"
    return Verbatim(sql, frozenset(names))


def _whole(text: str) -> str:
    """A text as one operand; it may end with a comment."""
    return f"({text}\n)"


def _measure_texts(question: Question, known: Mapping[str, MeasureLike]) -> list[str] | None:
    asked = question.measures
    if asked is None:
        chosen: Iterable[MeasureLike] = known.values()
    else:
        chosen = asked.values() if isinstance(asked, Mapping) else [known[name] for name in asked]
    texts = [given.text if isinstance(given, Measure) else given for given in chosen]
    own = [text for text in texts if isinstance(text, str)]
    return own if len(own) == len(texts) else None


_OF_ORDER = (exp.Mode, exp.ArgMin, exp.ArgMax, exp.ArrayAgg, exp.GroupConcat)
"""Aggregates that take the first of several values, or list them as they come."""


_APPROXIMATE = (exp.ApproxDistinct, exp.ApproxQuantile)
"""Aggregates whose exact values our reading asks for."""


def _is_one_of_several(text: str) -> bool:
    """Whether DuckDB's answer is one of several: approximate, or by an order that our reading has."""
    node = parse_node(text)
    if node.find(*_APPROXIMATE):
        return True
    return any(call.find(exp.Order) is None for call in node.find_all(*_OF_ORDER))


def names_in(text: str) -> set[WrittenName]:
    """The columns that a text names."""
    columns = parse_node(text).find_all(exp.Column)
    return {(c.table or None, c.name) for c in columns if not isinstance(c.this, exp.Star)}


def _group_text(schema: Schema, text: str) -> tuple[set[WrittenName], str]:
    """What is grouped by: the columns it names, and as SQL. A column alone need not be quoted."""
    table, dot, name = text.partition(".")
    relation = schema.relations.get(table)
    if dot and relation is not None and name in relation.columns:
        return {(table, name)}, quote(table, name)
    if any(text in relation.columns for relation in schema.relations.values()):
        return {(None, text)}, quote(text)
    try:
        return names_in(text), _whole(text)
    except ExpressionError:
        return {(table, name)}, quote(table, name)


def scope_sql(
    schema: Schema, relations: Sequence[str], names: Iterable[WrittenName]
) -> tuple[str, dict[str, Table]] | None:
    """The join in which texts may name these columns, and the tables it reads.

    None if two names would be one, as DuckDB does not tell upper from lower case.
    """
    aliases = {
        name: f"r{i}" for i, name in enumerate(n for n in schema.relations if n in relations)
    }
    schema = remaining_schema(schema, tuple(aliases))
    sources: dict[tuple[str, str], str] = {}
    for table, name in names:
        try:
            owner = schema.resolve(table, name, aliases).owners[0]
        except CalitreeError:
            return None
        column = find_column(name, schema.relations[owner])
        source = column_sql(schema, aliases, (owner, column), "duckdb")
        field = ("" if table is None else owner.lower(), name.lower())
        if sources.setdefault(field, source) != source:
            return None
    relations_named = {relation for relation, _ in sources if relation}
    if any(("", relation) in sources for relation in relations_named):
        return None
    chosen = [
        f"{source} AS {quote(c)}" for (relation, c), source in sources.items() if not relation
    ]
    for named in sorted(relations_named):
        fields = [f"{quote(c)} := {source}" for (r, c), source in sources.items() if r == named]
        chosen.append(f"struct_pack({', '.join(fields)}) AS {quote(named)}")
    sql = f"SELECT {', '.join(chosen) or '1 AS one'} {joined_sql(schema, aliases, 'duckdb')}"
    return sql, {alias: schema.relations[name].table for name, alias in aliases.items()}
