"""calitree: interactive analytics over the join of many normalised tables, never building that join.

import calitree as ct

g = ct.JoinGraph()
g.add_relation("sales", "sales.parquet")
g.add_relation("stores", stores_frame)
g.add_join("sales", "stores", on="store_nbr")
wide = g.calibrate(measures={"revenue": "sum(sales.price)"})
wide.query(group_by=["stores.city"], where="sales.day >= '2024-01-01'").pandas()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calitree import saved
from calitree.application import application, defer
from calitree.calibration.message import MessageKey
from calitree.calibration.planning.plan import Plan
from calitree.engines.api import semiring
from calitree.engines.api.semiring import Semiring
from calitree.engines.spark.session import spark_session
from calitree.errors import (
    CalitreeError,
    ConflictError,
    EngineError,
    ExpressionError,
    MissingRelationError,
    ModelError,
    QueryError,
    SavedError,
    SchemaError,
    TreeError,
    UpdateError,
)
from calitree.join_graph import JoinGraph
from calitree.join_graph import open_tree as open
from calitree.jointree.augment import Joinable
from calitree.jointree.bag import Bag
from calitree.jointree.hypertree import Hypertree
from calitree.query.binder import Question
from calitree.query.custom import CustomMeasure, aggregate
from calitree.results.diff import Difference
from calitree.results.having import Selected
from calitree.results.result import Result
from calitree.saved import RelationStatus, Status
from calitree.stream import Stream
from calitree.version import __version__
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    from calitree.apps.cube import Cube, Estimate
    from calitree.apps.explain.explanation import Explanation
    from calitree.apps.search import Score, Scored, Search
    from calitree.apps.verify import Check, Verification
    from calitree.results.rollup import Groups

_LATER = {
    "Check": "calitree.apps.verify",
    "Cube": "calitree.apps.cube",
    "Estimate": "calitree.apps.cube",
    "Explanation": "calitree.apps.explain.explanation",
    "Groups": "calitree.results.rollup",
    "Score": "calitree.apps.search",
    "Scored": "calitree.apps.search",
    "Search": "calitree.apps.search",
    "Verification": "calitree.apps.verify",
}
"""Where the others are found, once one of them is wanted."""

defer(
    "calitree.apps",
    ("cube", "explain_change", "linear_regression", "search", "verify", "why"),
)

__all__ = [
    "Bag",
    "CalitreeError",
    "Check",
    "ConflictError",
    "Cube",
    "CustomMeasure",
    "Difference",
    "EngineError",
    "Estimate",
    "Explanation",
    "ExpressionError",
    "Groups",
    "Hypertree",
    "JoinGraph",
    "Joinable",
    "MessageKey",
    "MissingRelationError",
    "ModelError",
    "Plan",
    "QueryError",
    "Question",
    "RelationStatus",
    "Result",
    "SavedError",
    "SchemaError",
    "Score",
    "Scored",
    "Search",
    "Selected",
    "Semiring",
    "Status",
    "Stream",
    "TreeError",
    "UpdateError",
    "Verification",
    "WideTable",
    "__version__",
    "aggregate",
    "application",
    "open",
    "saved",
    "semiring",
    "spark_session",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
