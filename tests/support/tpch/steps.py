"""A query of TPC-H as questions to trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from calitree.query.binder import MeasureLike

SECOND_NAMES = {"n1": "nation", "n2": "nation"}
"""Tables that one query joins twice."""


@dataclass(frozen=True)
class Join:
    """A declared join: of two relations, on equal columns or expressions, or by a condition."""

    left: str
    right: str
    on: Mapping[str, str] | None = None
    how: str = "inner"
    condition: str | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A question, over tables and answers to the steps before it.

    Attributes:
        measures: By the name that the query gives them.
        group_by: The same.
        joins: Those declared.
        relation: The only relation, if nothing is joined.
        where: The filter.
        having: What is left of the answer.
        name: That of the relation that the answer is in later steps.
        sql: What DuckDB is asked, if it is not the query itself.
    """

    measures: Mapping[str, MeasureLike]
    group_by: Mapping[str, str] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    relation: str = ""
    where: str | None = None
    having: str | None = None
    name: str = ""
    sql: str = ""

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of all relations, in the order of the joins."""
        sides = (side for join in self.joins for side in (join.left, join.right))
        return tuple(dict.fromkeys(sides)) or (self.relation,)


@dataclass(frozen=True)
class Asked:
    """What is asked for a query.

    Attributes:
        how: What of it is worth knowing, in a few words.
        steps: The questions; the last one's answer is the query's.
        order: The query's ORDER BY, which is not asked: columns, those that begin with - descending.
        limit: Nor is its LIMIT.
    """

    how: str
    steps: tuple[Step, ...]
    order: tuple[str, ...] = ()
    limit: int | None = None


def on(text: str, how: str = "inner") -> Join:
    """A join written as `a.x = b.y`."""
    (left, ours), (right, theirs) = (side.split(".") for side in text.split(" = "))
    return Join(left, right, {ours: theirs}, how)


def named(*columns: str) -> dict[str, str]:
    """Groups that are called as their columns are."""
    return {column: column for column in columns}


VOLUME = "l_extendedprice * (1 - l_discount)"
ORDERS = on("lineitem.l_orderkey = orders.o_orderkey")
CUSTOMERS = on("orders.o_custkey = customer.c_custkey")
PARTS = on("lineitem.l_partkey = part.p_partkey")
SUPPLIERS = on("lineitem.l_suppkey = supplier.s_suppkey")
PARTS_SUPPLIED = on("partsupp.ps_partkey = part.p_partkey")
SUPPLIES = on("partsupp.ps_suppkey = supplier.s_suppkey")
NATIONS = on("supplier.s_nationkey = nation.n_nationkey")
REGIONS = on("nation.n_regionkey = region.r_regionkey")
