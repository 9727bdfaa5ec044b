"""calitree: interactive analytics over the join of many normalised tables, never building that join.

import calitree as ct

g = ct.JoinGraph()
g.add_relation("sales", "sales.parquet")
g.add_relation("stores", stores_frame)
g.add_join("sales", "stores", on="store_nbr")
wide = g.calibrate(measures={"revenue": "sum(sales.price)"})
wide.query(group_by=["stores.city"], where="sales.day >= '2024-01-01'").pandas()
"""

from calitree import saved, semiring
from calitree.calibrated import WideTable
from calitree.custom import aggregate
from calitree.directory import SavedError
from calitree.errors import (
    CalitreeError,
    EngineError,
    ExpressionError,
    QueryError,
    SchemaError,
    TreeError,
)
from calitree.hypertree import Bag, Hypertree
from calitree.joingraph import JoinGraph
from calitree.plan import Plan
from calitree.result import Result
from calitree.saved import open_tree as open
from calitree.semiring import Semiring
from calitree.spark_session import spark_session

__version__ = "0.1.0"

__all__ = [
    "Bag",
    "CalitreeError",
    "EngineError",
    "ExpressionError",
    "Hypertree",
    "JoinGraph",
    "Plan",
    "QueryError",
    "Result",
    "SavedError",
    "SchemaError",
    "Semiring",
    "TreeError",
    "WideTable",
    "aggregate",
    "open",
    "saved",
    "semiring",
    "spark_session",
]
