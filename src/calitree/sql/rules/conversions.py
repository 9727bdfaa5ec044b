"""CAST."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import cast
from calitree.types import Kind

CASTS = {
    exp.DataType.Type.TINYINT: Kind.INTEGER,
    exp.DataType.Type.SMALLINT: Kind.INTEGER,
    exp.DataType.Type.INT: Kind.INTEGER,
    exp.DataType.Type.BIGINT: Kind.INTEGER,
    exp.DataType.Type.FLOAT: Kind.FLOAT,
    exp.DataType.Type.DOUBLE: Kind.FLOAT,
    exp.DataType.Type.TEXT: Kind.STRING,
    exp.DataType.Type.VARCHAR: Kind.STRING,
    exp.DataType.Type.BOOLEAN: Kind.BOOLEAN,
    exp.DataType.Type.DATE: Kind.DATE,
    exp.DataType.Type.TIMESTAMP: Kind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: Kind.TIMESTAMP,
    exp.DataType.Type.DATETIME: Kind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: Kind.TIMESTAMP_TZ,
}


def _castable(source: Kind, target: Kind) -> bool:
    """Whether SQL dialects agree that there is such a cast (a number of seconds is no timestamp)."""
    if source in (target, Kind.NULL):
        return True
    families = {
        "time" if kind.is_temporal else "number"
        for kind in (source, target)
        if kind.is_number or kind.is_temporal or kind is Kind.BOOLEAN
    }
    others = {source, target} - set(CASTS.values()) - {Kind.DECIMAL}
    return len(families) == 1 and not others


def cast_(analysis: Analysis, node: exp.Expr) -> Pair:
    to = node.args["to"]
    kind = CASTS.get(to.this)
    if kind is None:
        raise analysis.fail(f"casting to {to.sql()} is not supported")
    if node.args.get("default"):
        raise analysis.fail("DEFAULT in a CAST is not supported")
    inner, source = analysis.normal(node.this)
    if not _castable(source, kind):
        raise analysis.fail(f"{source.phrase} cannot be cast to {kind.phrase}")
    result = cast(inner, kind)
    return exp.TryCast(**result.args, safe=True) if isinstance(node, exp.TryCast) else result, kind
