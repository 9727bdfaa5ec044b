"""Distinct values counted where they are: the carried table, contracted once more."""

from __future__ import annotations

from calitree.calibration.projection import Projection
from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output, Table
from calitree.engines.api.protocol import DISTINCT, Engine
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.sql.nodes import column, marked, not_null, number, when
from calitree.sql.parser import expression_of


def distinct_values(engine: Engine, projection: Projection, carried: Table) -> Table:
    """How many values other than NULL the last group has in each of the others.

    `carried` is the answer to the question of this projection: each combination once.
    """
    *groups, value = dict.fromkeys(attribute for _, attribute in projection.query.group_by)
    given = Input(carried, {name: name for name in (*groups, value)})
    known = marked(column(value), carried.kinds[value])
    counted = expression_of(when(not_null(known), number(1)))
    columns = (Column(DISTINCT, SUM_PRODUCT, (Lifted(0, (counted,)),)),)
    return engine.contract(Contraction((given,), (Output((0,), (), tuple(groups), columns),)))[0]
