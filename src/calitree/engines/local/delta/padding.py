"""Results that lack annotations which others have: they get the zero of ⊕ there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calitree.engines.api.contraction import Output
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.tables.tables import EncodedMessage


def padded(output: Output, tables: Sequence[EncodedMessage]) -> Sequence[EncodedMessage]:
    """The tables, all with the annotations of the output. Each is in one of them at least."""
    ways = {
        part: way
        for column in output.columns
        for part, way in zip(column.parts, column.semiring.plus, strict=True)
    }
    if all(part in table.annotations for table in tables for part in ways):
        return tables
    known = {name: value for table in tables for name, value in table.annotations.items()}
    result = []
    for table in tables:
        values = {
            part: table.annotations[part]
            if part in table.annotations
            else _zero(known[part], table.rows, way)
            for part, way in ways.items()
        }
        codes = {name: table.codes(name, {name: name}) for name in output.keep}
        message = EncodedMessage(table.book, codes, values, table.rows, table.kinds)
        message.inherit(table)
        result.append(message)
    return result


def _zero(like: Value, rows: int, way: str) -> Value:
    valid = np.zeros(rows, bool) if way in ("min", "max") else None
    return Value(np.zeros(rows, like.data.dtype), valid, scale=like.scale, labels=like.labels)
