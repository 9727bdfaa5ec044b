"""Results added and subtracted by Spark, as one query.

It is a GROUP BY over all of them, those that are subtracted with their signs changed:

    SELECT c0, c1 FROM (
        SELECT i0.u0 AS c0, SUM(i0.u1) AS c1
        FROM (SELECT c0 AS u0, c1 AS u1 FROM calitree_1
              UNION ALL SELECT c0 AS u0, (-c1) AS u1 FROM calitree_2) AS i0
        GROUP BY i0.u0)
    WHERE c1 <> 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from calitree.engines.api.contraction import Column, Input, Output, Stored, Table
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.keeping import result
from calitree.engines.spark.numbers import DOUBLE, LIMITS, Field, Writer
from calitree.engines.spark.query import Query, write_query
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.table import SparkTable, field_of, measure
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add(
    runtime: Runtime,
    output: Output,
    plus: Sequence[SparkTable],
    minus: Sequence[SparkTable],
    rows: str | None,
) -> SparkTable | None:
    """The ⊕-sum of results of this output, less those in `minus`; None if digits would be lost."""
    tables = [*plus, *minus]
    measure(runtime, {each: {n for n, f in each.fields.items() if f.coded} for each in tables})
    query = _sum_of(output, plus, minus, ())
    doubles = [part for part in _parts(output) if minus and query.fields[part].type == DOUBLE]
    if doubles:
        query = _sum_of(output, plus, minus, doubles)
    text, fields = query.text, dict(query.fields)
    lost = [_is_lost(fields[part], fields.pop(_subtracted(part))) for part in doubles]
    if rows is not None:
        listed = [each.name for each in fields.values()]
        listed += [f"({' OR '.join(lost)}) AS lost"] if lost else []
        text = f"SELECT {', '.join(listed)} FROM ({text}) WHERE {fields[rows].name} <> 0"

    def computed() -> SparkTable | None:
        frame = runtime.session.sql(text)
        return result(runtime, output, frame, typed(fields, tables, frame), bool(lost))

    by = f" by {', '.join(output.keep)}" if output.keep else ""
    with explained(f"add {', '.join(c.name for c in output.columns) or 'rows'}{by}"):
        (found,) = runtime.run([computed])
    return found


def _parts(output: Output) -> list[str]:
    """The physical columns of its annotations."""
    return [part for column in output.columns for part in column.parts]


def _subtracted(part: str) -> str:
    """The column that tells how much was subtracted from another; NULL where nothing was."""
    return f"|{part}|"


def _is_lost(total: Field, subtracted: Field) -> str:
    """Whether a sum is but the noise of a difference. To Spark NaN is the greatest number."""
    size, less = f"ABS({total.name})", subtracted.name
    kept = f"{size} >= {less} / 100 AND {size} < DOUBLE('Infinity')"
    return f"({less} IS NOT NULL AND NOT ({kept}))"


@dataclass(frozen=True)
class _Union:
    """Results one below the other, as an input of a query."""

    fields: Mapping[str, Field]
    view: str
    known_rows: int
    """How many rows may be summed into one: each result has one of each key."""
    key: frozenset[str] | None = None


def _sum_of(
    output: Output,
    plus: Sequence[SparkTable],
    minus: Sequence[SparkTable],
    doubtful: Sequence[str],
) -> Query:
    """The query for the sum, with how much was subtracted from the columns that are doubtful."""
    columns = [replace(each, factors=(Stored(0, each.name),)) for each in output.columns]
    columns += [
        Column(name, SUM_PRODUCT, (Stored(0, name),)) for name in map(_subtracted, doubtful)
    ]
    union = _union(output, plus, minus, doubtful)
    given = Input(cast(Table, union), {name: name for name in output.keep})
    return write_query([given], Output((0,), (), output.keep, tuple(columns)), utc=True)


def _union(
    output: Output,
    plus: Sequence[SparkTable],
    minus: Sequence[SparkTable],
    doubtful: Sequence[str],
) -> _Union:
    tables = [*plus, *minus]
    fields: dict[str, Field] = {}
    columns: list[list[str]] = []

    def put(name: str, field: Field, texts: list[str]) -> None:
        fields[name] = replace(field, name=f"u{len(columns)}")
        columns.append(texts)

    for name in output.keep:
        every = [table.fields[name] for table in tables]
        put(name, every[0], [each.name for each in every])
    for part in _parts(output):
        field, texts = _alike([table.fields[part] for table in tables])
        signed = [f"(-{text})" for text in texts[len(plus) :]]
        put(part, field, texts[: len(plus)] + signed)
    for part in doubtful:
        sizes = [f"ABS({_double(table.fields[part])})" for table in minus]
        none = [f"CAST(NULL AS {DOUBLE})"] * len(plus)
        put(_subtracted(part), Field("", DOUBLE, Kind.FLOAT), none + sizes)
    selects = []
    for at, table in enumerate(tables):
        # Under other names than before: Spark would drop a projection that changes nothing, and a
        # UNION directly over a checkpoint can fail (it knows constraints on columns that are gone).
        listed = [f"{texts[at]} AS u{i}" for i, texts in enumerate(columns)] or ["TRUE AS u0"]
        selects.append(f"SELECT {', '.join(listed)} FROM {table.view}")
    return _Union(fields, f"({' UNION ALL '.join(selects)})", len(tables))


def _alike(fields: Sequence[Field]) -> tuple[Field, list[str]]:
    """One annotation in several tables: as one type, and how each table's is written in it."""
    exact = all(each.exact for each in fields)
    if all(each.is_whole for each in fields):
        return _alike_whole(fields, exact)
    if all(each.kind.is_number for each in fields):
        return Field("", DOUBLE, Kind.FLOAT, exact=exact), [_double(each) for each in fields]
    return replace(fields[0], exact=exact), [each.name for each in fields]


def _alike_whole(fields: Sequence[Field], exact: bool) -> tuple[Field, list[str]]:
    scale = max(each.scale for each in fields)
    for width, limit in LIMITS.items():
        writer = Writer({}, width, utc=True)
        numbers = [writer.shifted(writer.column(each.name, each), scale) for each in fields]
        if writer.peak <= limit:
            break
    if width == DOUBLE:
        return Field("", DOUBLE, Kind.FLOAT, exact=False), [_double(each) for each in fields]
    kind, bound = Kind.DECIMAL if scale else Kind.INTEGER, max(each.bound for each in numbers)
    field = Field("", width, kind, scale, bound, coded=True, exact=exact)
    return field, [each.text for each in numbers]


def _double(field: Field) -> str:
    text = f"CAST({field.name} AS {DOUBLE})"
    return f"({text} / 1e{field.scale})" if field.coded and field.scale else text


def typed(
    fields: Mapping[str, Field], tables: Sequence[SparkTable], frame: DataFrame
) -> dict[str, Field]:
    """The columns of a union: where the tables' types differ, Spark has chosen one."""
    found = {}
    for name, field in fields.items():
        every = [table.fields[name] for table in tables]
        exact = field.exact and all(each.exact for each in every)
        found[name] = replace(field, exact=exact)
        if field.coded:
            continue
        found[name] = replace(found[name], bound=max(each.bound for each in every))
        if len({each.type for each in every}) > 1:
            made = field_of(field.name, frame.schema[field.name].dataType)
            whole = all(each.kind is Kind.INTEGER for each in every)
            kind = Kind.INTEGER if whole else made.kind
            found[name] = replace(made, kind=kind, exact=exact)
    return found
