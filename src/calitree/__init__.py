"""Aggregates over the join of many tables, by calibrated junction hypertrees, without building the join.

A `JoinGraph` is declared by its relations and joins. Calibrating it passes messages over a tree of the
relations and gives a `WideTable`, which answers group-bys, filters and new measures from these
messages, and stays correct under updates.

>>> import calitree as ct
>>> graph = ct.JoinGraph(engine="reference")
>>> graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
>>> graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
>>> graph.add_join("sales", "stores", on={"store": "id"})
>>> wide = graph.calibrate(measures={"revenue": "sum(sales.price)"})
>>> wide.query(group_by=["city"], where="price >= 10").rows()
[{'city': 'Quito', 'revenue': 30}]

Instead of dictionaries, relations are Arrow tables, pandas, Polars or Spark frames, or names of files.

What is exported:

* `JoinGraph`, `WideTable`, `open`: a graph declared, a tree calibrated, a saved tree opened;
* `Result`, `Groups`, `Selected`, `PeriodComparison`, `Cumulative`, `Shares`, `Difference`, `Plan`,
  `MessageKey`: what comes back;
* `measure`, `GrainMeasure`: measures that count each row of a relation once;
* `aggregate`, `CustomMeasure`, `Semiring`, `semiring`: measures beyond SQL's aggregates;
* `python_semiring`, `PythonSemiring`, `PythonMeasure`: those that SQL cannot add or multiply;
* `check_semiring`, `SemiringCheck`, `Counterexample`: the laws of a semiring, tried;
* `Question`, `Bag`, `Hypertree`, `Joinable`: questions, trees and relations to add as values;
* `GraphCheck`, `EdgeCheck`, `EdgeSide`, `Finding`, `KeyExample`: how the joins of a graph meet;
* `Memory`, `Holding`: who holds what in memory;
* `saved`, `Status`, `RelationStatus`, `Stream`: saved trees, and rows that keep coming;
* `Cube`, `Estimate`, `Explanation`, `Search`, `Score`, `Scored`, `Verification`, `Check`: results of the
  applications, which are methods of `WideTable`; `application` adds another;
* `spark_session`: a local Spark session; `calitree.ml` has estimators;
* `CalitreeError` and the errors derived from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calitree import saved
from calitree.application import application, defer
from calitree.calibration.message import MessageKey
from calitree.calibration.planning.plan import Plan
from calitree.engines.api import semiring
from calitree.engines.api.python_semiring import PythonSemiring, python_semiring
from calitree.engines.api.semiring import Semiring
from calitree.engines.spark.session import spark_session
from calitree.errors import (
    CalitreeError,
    ConflictError,
    DamagedError,
    DamagedRelationError,
    DamagedWarning,
    EngineError,
    ExpressionError,
    MissingRelationError,
    MixedRelationsError,
    ModelError,
    QueryError,
    SavedError,
    SchemaError,
    StatementError,
    TreeError,
    UpdateError,
)
from calitree.integrity import EdgeCheck, EdgeSide, Finding, GraphCheck, KeyExample
from calitree.integrity.semiring_check import Counterexample, SemiringCheck, check_semiring
from calitree.join_graph import JoinGraph
from calitree.join_graph import open_tree as open
from calitree.jointree.augment import Joinable
from calitree.jointree.bag import Bag
from calitree.jointree.hypertree import Hypertree
from calitree.memory.report import Holding, Memory
from calitree.query.binder import Question
from calitree.query.custom.aggregate import CustomMeasure, aggregate
from calitree.query.custom.python_measure import PythonMeasure
from calitree.query.grain import GrainMeasure, measure
from calitree.results.diff import Difference
from calitree.results.having import Selected
from calitree.results.result import Result
from calitree.saved import FileCheck, Fsck, RelationStatus, Status
from calitree.stream import Stream
from calitree.version import __version__
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    from calitree.apps.cube import Cube, Estimate
    from calitree.apps.explain.explanation import Explanation
    from calitree.apps.search import Score, Scored, Search
    from calitree.apps.select import SqlResult
    from calitree.apps.verify import Check, Verification
    from calitree.results.compare import PeriodComparison
    from calitree.results.rollup import Groups
    from calitree.results.running import Cumulative
    from calitree.results.share import Shares

_LAZY = {
    "Check": "calitree.apps.verify",
    "Cube": "calitree.apps.cube",
    "Cumulative": "calitree.results.running",
    "Estimate": "calitree.apps.cube",
    "Explanation": "calitree.apps.explain.explanation",
    "Groups": "calitree.results.rollup",
    "PeriodComparison": "calitree.results.compare",
    "Score": "calitree.apps.search",
    "Scored": "calitree.apps.search",
    "Search": "calitree.apps.search",
    "Shares": "calitree.results.share",
    "SqlResult": "calitree.apps.select",
    "Verification": "calitree.apps.verify",
}
"""The modules of names that are imported when first used."""

defer(
    "calitree.apps",
    ("cube", "explain_change", "linear_regression", "search", "sql", "verify", "why"),
)

__all__ = [
    "Bag",
    "CalitreeError",
    "Check",
    "ConflictError",
    "Counterexample",
    "Cube",
    "Cumulative",
    "CustomMeasure",
    "DamagedError",
    "DamagedRelationError",
    "DamagedWarning",
    "Difference",
    "EdgeCheck",
    "EdgeSide",
    "EngineError",
    "Estimate",
    "Explanation",
    "ExpressionError",
    "FileCheck",
    "Finding",
    "Fsck",
    "GrainMeasure",
    "GraphCheck",
    "Groups",
    "Holding",
    "Hypertree",
    "JoinGraph",
    "Joinable",
    "KeyExample",
    "Memory",
    "MessageKey",
    "MissingRelationError",
    "MixedRelationsError",
    "ModelError",
    "PeriodComparison",
    "Plan",
    "PythonMeasure",
    "PythonSemiring",
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
    "SemiringCheck",
    "Shares",
    "SqlResult",
    "StatementError",
    "Status",
    "Stream",
    "TreeError",
    "UpdateError",
    "Verification",
    "WideTable",
    "__version__",
    "aggregate",
    "application",
    "check_semiring",
    "measure",
    "open",
    "python_semiring",
    "saved",
    "semiring",
    "spark_session",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
