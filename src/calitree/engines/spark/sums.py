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
from dataclasses import replace
from typing import TYPE_CHECKING

from calitree.engines.api.contraction import Column, Input, Output, Stored
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.spark.checkpoints import LOST, result
from calitree.engines.spark.fields import DOUBLE, Field, field_of
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.sql.covariance import is_lost
from calitree.engines.spark.sql.statement import SelectStatement, write_output
from calitree.engines.spark.sql.whole_numbers import LIMITS, SqlWriter
from calitree.engines.spark.table import SparkTable, measure
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
    measure(runtime, {table: {n for n, f in table.fields.items() if f.coded} for table in tables})
    statement = _sum_of(output, plus, minus, ())
    doubles = [part for part in _sums(output) if minus and statement.fields[part].type == DOUBLE]
    covariances = _covariances(output) if minus else []
    if doubles or covariances:
        statement = _sum_of(output, plus, minus, doubles)
    text, fields = statement.text, dict(statement.fields)
    lost = [_is_lost(fields[part], fields.pop(_subtracted(part))) for part in doubles]
    lost += [_is_covariance_lost(column, fields) for column in covariances]
    if rows is not None:
        listed = [field.name for field in fields.values()]
        listed += [f"({' OR '.join(lost)}) AS {LOST}"] if lost else []
        text = f"SELECT {', '.join(listed)} FROM ({text}) WHERE {fields[rows].name} <> 0"

    def computed() -> SparkTable | None:
        frame = runtime.session.sql(text)
        return result(runtime, output, frame, typed(fields, tables, frame), bool(lost))

    by = f" by {', '.join(output.keep)}" if output.keep else ""
    with explained(f"add {', '.join(c.name for c in output.columns) or 'rows'}{by}"):
        (total,) = runtime.run([computed])
    return total


def _sums(output: Output) -> list[str]:
    """The physical columns of its annotations but covariances."""
    return [p for column in output.columns if not column.semiring.values for p in column.parts]


def _covariances(output: Output) -> list[Column]:
    return [column for column in output.columns if column.semiring.values]


def _subtracted(part: str) -> str:
    """The column of how much was subtracted from another; NULL where nothing was.

    For a component of a covariance it is that of the rows which were subtracted.
    """
    name, dot, component = part.partition(".")
    return f"|{name}|{dot}{component}"


def _is_lost(total: Field, subtracted: Field) -> str:
    """Whether a sum is mere rounding error of a difference. To Spark NaN is the greatest number."""
    size, less = f"ABS({total.name})", subtracted.name
    kept = f"{size} >= {less} / 100 AND {size} < DOUBLE('Infinity')"
    return f"({less} IS NOT NULL AND NOT ({kept}))"


def _is_covariance_lost(column: Column, fields: dict[str, Field]) -> str:
    """The same of a covariance; the columns of what was subtracted are taken out of `fields`."""
    less = [fields.pop(_subtracted(part)).name for part in column.parts]
    return is_lost([fields[part].name for part in column.parts], less, column.semiring.values)


def _sum_of(
    output: Output,
    plus: Sequence[SparkTable],
    minus: Sequence[SparkTable],
    doubtful: Sequence[str],
) -> SelectStatement:
    """The statement for the sum, with how much was subtracted from the columns that are doubtful."""
    columns = [replace(column, factors=(Stored(0, column.name),)) for column in output.columns]
    columns += [
        Column(name, SUM_PRODUCT, (Stored(0, name),)) for name in map(_subtracted, doubtful)
    ]
    for column in _covariances(output) if minus else ():
        name = _subtracted(column.name)
        columns.append(Column(name, column.semiring, (Stored(0, name),)))
    union = _union(output, plus, minus, doubtful)
    given = Input(union, {name: name for name in output.keep})
    return write_output([given], Output((0,), (), output.keep, tuple(columns)), utc=True)


def _union(
    output: Output,
    plus: Sequence[SparkTable],
    minus: Sequence[SparkTable],
    doubtful: Sequence[str],
) -> SparkTable:
    """The UNION ALL of results, with as many rows as may be summed into one: one of each result."""
    tables = [*plus, *minus]
    fields: dict[str, Field] = {}
    columns: list[list[str]] = []

    def put(name: str, field: Field, texts: list[str]) -> None:
        fields[name] = replace(field, name=f"u{len(columns)}")
        columns.append(texts)

    for name in output.keep:
        put(name, tables[0].fields[name], [table.fields[name].name for table in tables])
    for column in output.columns:
        for part, way in zip(column.parts, column.semiring.plus, strict=True):
            field, known = _common([t.fields[part] for t in tables if part in t.fields])
            zero, written = _zero(field, way), iter(known)
            texts = [next(written) if part in table.fields else zero for table in tables]
            sign = "" if way in ("mean", "low") else "-"
            signed = [f"({sign}{text})" for text in texts[len(plus) :]]
            put(part, field, texts[: len(plus)] + signed)
            if column.semiring.values:
                put(_subtracted(part), field, ["0D"] * len(plus) + texts[len(plus) :])
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
    subquery = f"({' UNION ALL '.join(selects)})"
    union = SparkTable(tables[0].runtime, "a union", fields, subquery=subquery)
    union.known_rows = len(tables)
    return union


def _zero(field: Field, way: str) -> str:
    """The zero of ⊕, for a table that lacks an annotation."""
    return "NULL" if way in ("min", "max") else f"CAST(0 AS {field.type})"


def _common(fields: Sequence[Field]) -> tuple[Field, list[str]]:
    """One annotation of several tables: its common type, and each table's written in that."""
    exact = all(field.exact for field in fields)
    if not any(field.coded for field in fields) and len({field.type for field in fields}) == 1:
        return replace(fields[0], exact=exact), [field.name for field in fields]
    if all(field.is_whole for field in fields):
        return _common_whole(fields, exact)
    if all(field.kind.is_number for field in fields):
        return Field("", DOUBLE, Kind.FLOAT, exact=exact), list(map(_double, fields))
    return replace(fields[0], exact=exact), [field.name for field in fields]


def _common_whole(fields: Sequence[Field], exact: bool) -> tuple[Field, list[str]]:
    scale = max(field.scale for field in fields)
    for width, limit in LIMITS.items():
        writer = SqlWriter({}, width, utc=True)
        numbers = [writer.shifted(writer.column(field.name, field), scale) for field in fields]
        if writer.peak <= limit:
            break
    if width == DOUBLE:
        return Field("", DOUBLE, Kind.FLOAT, exact=False), list(map(_double, fields))
    kind, bound = Kind.DECIMAL if scale else Kind.INTEGER, max(n.bound for n in numbers)
    common = Field("", width, kind, scale, bound, coded=True, exact=exact)
    return common, [number.text for number in numbers]


def _double(field: Field) -> str:
    text = f"CAST({field.name} AS {DOUBLE})"
    return f"({text} / 1e{field.scale})" if field.coded and field.scale else text


def typed(
    fields: Mapping[str, Field], tables: Sequence[SparkTable], frame: DataFrame
) -> dict[str, Field]:
    """The columns of a union: where the tables' types differ, Spark has chosen one."""
    columns = {}
    for name, field in fields.items():
        summands = [table.fields[name] for table in tables if name in table.fields]
        exact = field.exact and all(summand.exact for summand in summands)
        columns[name] = replace(field, exact=exact)
        if field.coded:
            continue
        columns[name] = replace(columns[name], bound=max(s.bound for s in summands))
        if len({summand.type for summand in summands}) > 1:
            chosen = field_of(field.name, frame.schema[field.name].dataType)
            integers = all(summand.kind is Kind.INTEGER for summand in summands)
            kind = Kind.INTEGER if integers else chosen.kind
            columns[name] = replace(chosen, kind=kind, exact=exact)
    return columns
