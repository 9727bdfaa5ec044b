"""Whether a relation has each key once: then whoever joins it by that key is not repeated."""

from __future__ import annotations

from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.contraction import Column, Contraction, Output
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.api.signed import Linear
from calitree.errors import MissingRelationError
from calitree.jointree.schema import Schema

FEW_ROWS = 10_000
"""Of a relation whose keys are counted at once."""


def is_unique(
    snapshot: Snapshot, schema: Schema, relation: str, key: frozenset[str]
) -> bool | None:
    """Whether no key is in two rows; None if that is not known, and not worth finding out."""
    table = schema.relations[relation].table
    known = snapshot.state.cardinalities.get(key)
    if table.rows > FEW_ROWS and (known is None or 2 * known < table.rows):
        return None if known is None else False  # there are two rows a key on average
    at = relation, schema.relations[relation].revision, key

    def count() -> bool:
        attributes = tuple(sorted(key))
        rows = Column("rows", SUM_PRODUCT, ())
        given = schema.input_of(relation, attributes)
        contraction = Contraction((given,), (Output((0,), (), attributes, (rows,)),))
        (keys,) = Linear(contraction, ("rows",)).tables(snapshot.state.engine)
        return keys.rows == table.rows

    try:
        return snapshot.state.unique_keys.of(at, count)
    except MissingRelationError:
        return None
