"""calitree: interactive analytics over the join of many normalised tables, never building that join.

import calitree as ct

g = ct.JoinGraph()
g.add_relation("sales", "sales.parquet")
g.add_relation("stores", stores_frame)
g.add_join("sales", "stores", on="store_nbr")
wide = g.calibrate(measures={"revenue": "sum(sales.price)"})
wide.query(group_by=["stores.city"], where="sales.day >= '2024-01-01'").pandas()
"""

from calitree import saved
from calitree.calibration.planning.plan import Plan
from calitree.engines.api import semiring
from calitree.engines.api.semiring import Semiring
from calitree.engines.spark.session import spark_session
from calitree.errors import (
    CalitreeError,
    EngineError,
    ExpressionError,
    QueryError,
    SavedError,
    SchemaError,
    TreeError,
)
from calitree.join_graph import JoinGraph
from calitree.jointree.hypertree import Bag, Hypertree
from calitree.query.custom import aggregate
from calitree.results.result import Result
from calitree.saved.reader import open_tree as open
from calitree.wide_table import WideTable

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
