"""Timestamps in a Spark session whose time zone is not UTC.

Everywhere in calitree a timestamp with time zone is read in UTC. Spark reads it in the session's
zone, and that setting belongs to whoever created the session. So expressions that depend on it are
rewritten to use microseconds since 1970. Local times would not do, as one hour of each autumn is
ambiguous.
"""

from __future__ import annotations

from datetime import timedelta

from sqlglot import exp

from calitree.errors import EngineError
from calitree.sql.nodes import kind_of, marked
from calitree.sql.rules.conversions import CASTS
from calitree.sql.scalar_casts import to_timestamp
from calitree.sql.spark import to_spark
from calitree.types import Kind

UTC = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "Universal", "Zulu"})
"""Names of time zones in which nothing need be rewritten."""

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_HAS_ZONE = r"':[0-9.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)\\s*$'"


def as_in_utc(node: exp.Expr) -> exp.Expr:
    """`node`, rewritten so that every session gives what one in UTC gives for it."""
    root = exp.Paren(this=node)
    for part in reversed(list(root.this.walk())):
        if isinstance(part, exp.Extract) and kind_of(part.expression) is Kind.TIMESTAMP_TZ:
            part.set("expression", _naive(part.expression))
        elif isinstance(part, exp.TimestampTrunc):
            part.replace(_truncated(part))
        elif isinstance(part, exp.Cast):
            part.replace(_cast(part))
    rewritten: exp.Expr = root.this
    return rewritten


def _naive(node: exp.Expr) -> exp.Expr:
    """A timestamp with time zone as the time of day in UTC."""
    text = f"TIMESTAMPADD(MICROSECOND, UNIX_MICROS({to_spark(node)}), {_EPOCH})"
    return marked(exp.var(text), Kind.TIMESTAMP)


def _zoned(naive: str) -> exp.Expr:
    """A time of day in UTC as a timestamp with time zone."""
    text = f"TIMESTAMP_MICROS(TIMESTAMPDIFF(MICROSECOND, {_EPOCH}, {naive}))"
    return marked(exp.var(text), Kind.TIMESTAMP_TZ)


def _truncated(node: exp.TimestampTrunc) -> exp.Expr:
    """Spark's DATE_TRUNC goes through the session's zone even for timestamps that have none."""
    zoned = kind_of(node.this) is Kind.TIMESTAMP_TZ
    at = to_spark(_naive(node.this) if zoned else node.this)
    unit, day = node.text("unit").upper(), f"CAST({at} AS DATE)"
    if unit not in ("DAY", "HOUR", "MINUTE", "SECOND"):
        day = f"TRUNC({day}, '{unit}')"
    text = f"CAST({day} AS TIMESTAMP_NTZ)"
    if unit == "HOUR":
        text = f"TIMESTAMPADD(HOUR, HOUR({at}), {text})"
    elif unit in ("MINUTE", "SECOND"):
        text = f"TIMESTAMPADD(MINUTE, 60 * HOUR({at}) + MINUTE({at}), {text})"
        text = f"TIMESTAMPADD(SECOND, SECOND({at}), {text})" if unit == "SECOND" else text
    return _zoned(text) if zoned else marked(exp.var(text), Kind.TIMESTAMP)


def _cast(node: exp.Cast) -> exp.Expr:
    source, target = kind_of(node.this), CASTS[node.args["to"].this]
    if source is Kind.TIMESTAMP_TZ and target in (Kind.DATE, Kind.TIMESTAMP, Kind.STRING):
        naive = _naive(node.this)
        if target is Kind.STRING:
            return marked(exp.var(f"CONCAT(CAST({naive.name} AS STRING), '+00')"), target)
        node.set("this", naive)
    elif target is Kind.TIMESTAMP_TZ and source in (Kind.DATE, Kind.TIMESTAMP):
        return _zoned(f"CAST({to_spark(node.this)} AS TIMESTAMP_NTZ)")
    elif target is Kind.TIMESTAMP_TZ and source is Kind.STRING:
        return _parsed(node)
    return node


def _parsed(node: exp.Cast) -> exp.Expr:
    """Text as a timestamp with time zone: in UTC unless it says otherwise."""
    if isinstance(node.this, exp.Literal):
        try:
            at = to_timestamp(node.this.name, zone=True)
        except ValueError:
            if isinstance(node, exp.TryCast):
                return marked(exp.var("CAST(NULL AS TIMESTAMP)"), Kind.TIMESTAMP_TZ)
            raise EngineError(f"{node.this.name!r} is not a timestamp.") from None
        micros = (at - to_timestamp("1970-01-01", zone=True)) // _MICROSECOND
        return marked(exp.var(f"TIMESTAMP_MICROS({micros}L)"), Kind.TIMESTAMP_TZ)
    text, local = to_spark(node.this), node.copy()
    local.set("to", exp.DataType.build("TIMESTAMPNTZ"))
    chosen = (
        f"CASE WHEN {text} RLIKE {_HAS_ZONE} THEN {to_spark(node)}"
        f" ELSE {_zoned(to_spark(local)).name} END"
    )
    return marked(exp.var(chosen), Kind.TIMESTAMP_TZ)
