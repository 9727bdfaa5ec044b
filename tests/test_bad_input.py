"""Wrong uses of the public interface: each has one error, which names the thing and the way out.

The whole text is compared, because the text is what a user has to work with.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import calitree as ct
from calitree import (
    CalitreeError,
    EngineError,
    ExpressionError,
    QueryError,
    SchemaError,
    TreeError,
    WideTable,
)
from calitree.engines.registry import CLASSES
from calitree.storage.frames import ACCEPTED

TABLES = {
    "sales": pa.table(
        {
            "store": [1, 1, 2],
            "day": [datetime.date(2024, 1, d) for d in (1, 2, 3)],
            "price": [10, 20, 5],
            "tag": ["a", "b", "c"],
            "paid": [True, False, None],
        }
    ),
    "stores": pa.table(
        {"store": [1, 2], "city": ["Quito", "Cuenca"], "region": [7, 8], "tag": ["x", "y"]}
    ),
    "regions": pa.table({"id": [7, 8], "country": ["E", "P"], "area": [1.5, 2.5]}),
}
EVERY_COLUMN = "area, city, country, day, id, paid, price, region, store, tag"


def unjoined(engine: Any = "local") -> ct.JoinGraph:
    graph = ct.JoinGraph(engine=engine)
    for name, table in TABLES.items():
        graph.add_relation(name, table)
    return graph


def joined(engine: Any = "local") -> ct.JoinGraph:
    graph = unjoined(engine)
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "regions", on={"region": "id"})
    return graph


def triangle() -> ct.JoinGraph:
    graph = ct.JoinGraph(engine="local")
    for name, columns in {"R": "AB", "S": "BC", "T": "AC"}.items():
        graph.add_relation(name, pa.table({column: [1] for column in columns}))
    graph.add_join("R", "S", on="B")
    graph.add_join("S", "T", on="C")
    graph.add_join("R", "T", on="A")
    return graph


@cache
def wide() -> WideTable:
    return joined().calibrate({"n": "count(*)", "revenue": "sum(price)"})


def measuring(text: Any) -> Callable[[], object]:
    return lambda: joined().calibrate({"m": text})


def where(text: Any) -> Callable[[], object]:
    return lambda: wide().query(where=text)


def tree(**given: Any) -> Callable[[], object]:
    bags = {"a": ["sales"], "b": ["stores"], "c": ["regions"]}
    return lambda: joined().hypertree(**{"bags": bags, **given})


def average(lifts: Any, final: str | None = "s / n") -> Callable[[], object]:
    return lambda: joined().calibrate({"m": ct.aggregate(ct.semiring.AVG, lifts, final)})


def twice_joined() -> None:
    graph = unjoined()
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "stores", on={"price": "store"})


class Case(NamedTuple):
    """A wrong use, and what it is answered with."""

    name: str
    call: Callable[[], object]
    error: type[CalitreeError]
    text: str


ENGINES = [
    Case(
        "unknown engine",
        lambda: ct.JoinGraph(engine="locla"),
        EngineError,
        "There is no engine 'locla'. Did you mean local?",
    ),
    Case(
        "engine of a wrong type",
        lambda: ct.JoinGraph(engine=3),
        EngineError,
        f"An engine is one of {', '.join(CLASSES)}, a SparkSession or an object with a name, load, "
        "contract, how and arrow; got int, which lacks name, load, contract, how, arrow.",
    ),
]

RELATIONS = [
    Case(
        "duplicate relation",
        lambda: unjoined().add_relation("sales", TABLES["sales"]),
        SchemaError,
        "There is a relation 'sales' already. To use one table twice, add it under two names.",
    ),
    Case(
        "relation that differs in case only",
        lambda: unjoined().add_relation("Sales", TABLES["sales"]),
        SchemaError,
        "There is a relation 'sales' already. To use one table twice, add it under two names.",
    ),
    Case(
        "dot in a relation's name",
        lambda: unjoined().add_relation("shop.sales", TABLES["sales"]),
        SchemaError,
        "A relation's name has no dot in it: 'shop.sales'; columns are relation.column.",
    ),
    Case(
        "empty relation name",
        lambda: unjoined().add_relation("", TABLES["sales"]),
        SchemaError,
        "A relation needs a name, got ''.",
    ),
    Case(
        "relation name of a wrong type",
        lambda: unjoined().add_relation(3, TABLES["sales"]),  # type: ignore[arg-type]
        SchemaError,
        "A relation needs a name, got 3.",
    ),
]

SOURCES = [
    Case(
        "missing file",
        lambda: unjoined().add_relation("days", "no_such_file.parquet"),
        SchemaError,
        "No file matches 'no_such_file.parquet' (looked for "
        f"{Path.cwd() / 'no_such_file.parquet'}).",
    ),
    Case(
        "name of a table without Spark",
        lambda: unjoined().add_relation("days", "no_such_table"),
        SchemaError,
        "days: there is no file 'no_such_table', and names of tables are for Spark. A relation is "
        f"{ACCEPTED}.",
    ),
    Case(
        "unsupported source",
        lambda: unjoined().add_relation("days", 3),
        SchemaError,
        f"days: a relation cannot be made of int; it is {ACCEPTED}.",
    ),
    Case(
        "columns of different lengths",
        lambda: unjoined().add_relation("days", {"day": [1, 2], "holiday": [True]}),
        SchemaError,
        "days: the columns differ in length: day has 2, holiday has 1.",
    ),
    Case(
        "column of several types",
        lambda: unjoined().add_relation("days", {"day": [1, "Monday"]}),
        SchemaError,
        "days: 'day' mixes values of several types (int, str); give it one.",
    ),
    Case(
        "table without columns",
        lambda: unjoined().add_relation("days", pa.table({})),
        SchemaError,
        "days has no columns.",
    ),
]

JOINS = [
    Case(
        "unknown relation in a join",
        lambda: unjoined().add_join("salse", "stores", on="store"),
        SchemaError,
        "There is no relation 'salse'. Did you mean sales?",
    ),
    Case(
        "relation of a wrong type in a join",
        lambda: unjoined().add_join(3, "stores", on="store"),  # type: ignore[arg-type]
        SchemaError,
        "There is no relation 3. There are: regions, sales, stores.",
    ),
    Case(
        "unknown column in a join",
        lambda: unjoined().add_join("sales", "stores", on={"store": "stroe"}),
        SchemaError,
        "stores has no column 'stroe'. Did you mean store?",
    ),
    Case(
        "column that only one side has",
        lambda: unjoined().add_join("sales", "regions", on="store"),
        SchemaError,
        "regions has no column 'store'. There are: area, country, id.",
    ),
    Case(
        "column of a wrong type in a join",
        lambda: unjoined().add_join("sales", "stores", on={"store": 3}),  # type: ignore[dict-item]
        SchemaError,
        "stores has no column 3. There are: city, region, store, tag.",
    ),
    Case(
        "self join",
        lambda: unjoined().add_join("sales", "sales", on="store"),
        SchemaError,
        "sales cannot join itself; add its table a second time under another name.",
    ),
    Case(
        "join of different types",
        lambda: unjoined().add_join("sales", "stores", on={"price": "city"}),
        SchemaError,
        "Cannot join sales.price (an integer) with stores.city (a string). Cast one of them in the "
        "source first.",
    ),
    Case(
        "join without columns",
        lambda: unjoined().add_join("sales", "stores"),
        SchemaError,
        "Say on which columns sales and stores join: on='k', ['k1', 'k2'] or a mapping.",
    ),
    Case(
        "join on an empty list",
        lambda: unjoined().add_join("sales", "stores", on=[]),
        SchemaError,
        "The join of sales and stores names no column.",
    ),
    Case(
        "join on a number",
        lambda: unjoined().add_join("sales", "stores", on=3),  # type: ignore[arg-type]
        SchemaError,
        "on is a column, a list of columns or {left: right}; got 3.",
    ),
    Case(
        "a kind of join that there is not",
        lambda: unjoined().add_join("sales", "stores", on="store", how="outer"),
        SchemaError,
        "how is one of inner, left, right, full; got 'outer'.",
    ),
    Case(
        "join by a condition",
        lambda: unjoined().add_join("sales", "stores", condition="sales.price > 3"),
        SchemaError,
        "The condition 'sales.price > 3' does not compare sales with stores. Name columns of both; all "
        "rows of the one meet all of the other in a graph that is not connected, with "
        "calibrate(..., cross_join=True).",
    ),
    Case(
        "as-of join",
        lambda: unjoined().add_join("sales", "stores", on="store", asof="price"),
        SchemaError,
        "stores has no column 'price'. There are: city, region, store, tag.",
    ),
    Case(
        "full as-of join",
        lambda: unjoined().add_join("sales", "stores", asof={"price": "store"}, how="full"),
        SchemaError,
        "An as-of join is inner or left, as it is about rows of sales; got 'full'.",
    ),
    Case(
        "as-of join by text",
        lambda: unjoined().add_join("stores", "sales", asof={"city": "store"}),
        SchemaError,
        "Cannot join stores.city (a string) with sales.store (an integer). Cast one of them in the source "
        "first.",
    ),
    Case(
        "tolerance of a number",
        lambda: unjoined().add_join("sales", "stores", asof={"price": "store"}, tolerance="1 day"),
        SchemaError,
        "tolerance is a number of 0 or more, as sales.price is an integer; got '1 day'.",
    ),
    Case(
        "tolerance without asof",
        lambda: unjoined().add_join("sales", "stores", on="store", tolerance=3),
        SchemaError,
        "tolerance is said of an as-of join: give asof too.",
    ),
    Case(
        "as-of join with a condition",
        lambda: unjoined().add_join("sales", "stores", asof={"price": "store"}, condition="x"),
        SchemaError,
        "An as-of join has no condition, and NULL meets nothing in it.",
    ),
    Case(
        "join that makes two columns of a relation equal",
        twice_joined,
        SchemaError,
        "sales ⋈ stores on sales.price = stores.store would make sales.store and sales.price "
        "equal. If that is not meant, add sales or stores a second time under another name "
        "and join that.",
    ),
]

GRAPHS = [
    Case(
        "empty graph",
        lambda: ct.JoinGraph(engine="local").calibrate(),
        TreeError,
        "The graph has no relation yet; add one with add_relation.",
    ),
    Case(
        "disconnected graph",
        lambda: unjoined().calibrate(),
        TreeError,
        "The join graph is not connected; its parts are: sales; stores; regions. Join them with "
        "add_join, or have all combinations of their rows with cross_join=True.",
    ),
]

TREES = [
    Case(
        "edges without bags",
        lambda: joined().hypertree(edges=[("sales", "stores")]),
        TreeError,
        "edges and mapping describe bags: give bags too.",
    ),
    Case(
        "bags of one's own for the redundant design",
        tree(redundant=True),
        TreeError,
        "redundant=True finds the bags by itself: leave out bags, or write there one bag for each "
        "relation and one that lists only columns.",
    ),
    Case(
        "edges for the redundant design",
        lambda: triangle().hypertree(edges=[("R", "S")], redundant=True),
        TreeError,
        "edges and mapping describe bags: give bags too.",
    ),
    Case(
        "bags that are a list",
        tree(bags=["sales"]),
        TreeError,
        "bags is {name: relations and columns}; got ['sales'].",
    ),
    Case(
        "bag that is one text",
        tree(bags={"a": "sales"}),
        TreeError,
        "Bag a is a list of relations and columns, not one text.",
    ),
    Case(
        "edges of a wrong type",
        tree(edges=3),
        TreeError,
        "edges is a list of pairs of bags; got 3.",
    ),
    Case(
        "edge that is no pair",
        tree(edges=["ab", "bc"]),
        TreeError,
        "An edge is a pair of bags, not 'ab'.",
    ),
    Case(
        "edge to an unknown bag",
        tree(edges=[("a", "b"), ("b", "x")]),
        TreeError,
        "Edge ('b', 'x') ends in 'x', which is no bag. There are: a, b, c.",
    ),
    Case(
        "too few edges",
        tree(edges=[("a", "b")]),
        TreeError,
        "The edges must connect the bags into a tree, but c cannot be reached.",
    ),
    Case(
        "edges that close a cycle",
        tree(edges=[("a", "b"), ("b", "c"), ("c", "a")]),
        TreeError,
        "The edges must connect the bags into a tree, but they close a cycle.",
    ),
    Case(
        "running intersection",
        tree(edges=[("b", "a"), ("a", "c")]),
        TreeError,
        "Running intersection: the bags with stores.region (b, c) are not connected.",
    ),
    Case(
        "relation without a bag",
        tree(bags={"a": ["sales"], "b": ["stores"]}, edges=[("a", "b")]),
        TreeError,
        "Edge coverage: no bag holds relation regions.",
    ),
    Case(
        "relation mapped to no bag",
        tree(edges=[("a", "b"), ("b", "c")], mapping={"sales": "z"}),
        TreeError,
        "sales is mapped to 'z', which is no bag.",
    ),
    Case(
        "relation mapped to a bag that lacks its columns",
        tree(edges=[("a", "b"), ("b", "c")], mapping={"sales": "b"}),
        TreeError,
        "Edge coverage: bag b lacks sales.day of sales.",
    ),
    Case(
        "mapping of an unknown relation",
        tree(edges=[("a", "b"), ("b", "c")], mapping={"slaes": "b"}),
        SchemaError,
        "mapping names an unknown relation 'slaes'. Did you mean sales?",
    ),
    Case(
        "unknown column in a bag",
        tree(bags={"a": ["sales"], "b": ["stores"], "c": ["regions.contry"]}),
        SchemaError,
        "regions has no column 'contry'. Did you mean country?",
    ),
    Case(
        "two bags of one name",
        lambda: joined().hypertree(empty={"sales": ["city"]}),
        TreeError,
        "Two bags are called 'sales'.",
    ),
    Case(
        "empty bag beside nothing",
        lambda: joined().hypertree(empty={"view": ["city", "price"]}),
        TreeError,
        "An empty bag (sales.price, stores.city) must stand beside a bag that has all of these; "
        "none has.",
    ),
    Case(
        "empty bag beside a wrong bag",
        lambda: joined().hypertree().with_empty_bag("view", ["stores.city"], beside="sales"),
        TreeError,
        "An empty bag (stores.city) must stand beside a bag that has all of these; "
        "stores would do.",
    ),
    Case(
        "empty bag without columns",
        lambda: joined().hypertree(empty={"view": []}),
        TreeError,
        "Empty bag view needs at least one column.",
    ),
    Case(
        "empty bag that is one text",
        lambda: joined().hypertree(empty={"view": "city"}),
        TreeError,
        "Empty bag view is a list of columns, not one text.",
    ),
    Case(
        "relation mapped twice",
        lambda: ct.Hypertree(
            (ct.Bag("a", frozenset("x"), ("r",)), ct.Bag("b", frozenset("x"), ("r",))),
            (("a", "b"),),
            {"r": frozenset("x")},
        ),
        TreeError,
        "r is mapped to two bags, a and b; it would be counted twice.",
    ),
    Case(
        "bag of an unknown relation",
        lambda: ct.Hypertree((ct.Bag("a", frozenset("x"), ("s",)),), (), {"r": frozenset("x")}),
        TreeError,
        "Bag a maps an unknown relation 's'. There are: r.",
    ),
    Case(
        "attribute of no relation",
        lambda: ct.Hypertree((ct.Bag("a", frozenset("xy"), ("r",)),), (), {"r": frozenset("x")}),
        TreeError,
        "Vertex coverage: y in bag a is in no relation.",
    ),
    Case(
        "hypertree without a bag",
        lambda: ct.Hypertree((), (), {}),
        TreeError,
        "A hypertree needs at least one bag: add a relation first.",
    ),
    Case(
        "tree of another graph",
        lambda: joined().calibrate(tree=triangle().hypertree(bags={"all": ["R", "S", "T"]})),
        QueryError,
        "The tree was made for another join graph; make it anew with g.hypertree().",
    ),
    Case(
        "tree of a wrong type",
        lambda: joined().calibrate(tree="sales"),  # type: ignore[arg-type]
        TreeError,
        "A tree is what g.hypertree() makes; got str.",
    ),
]

GROUPS = [
    Case(
        "ambiguous column",
        lambda: wide().query(group_by=["tag"]),
        SchemaError,
        "'tag' is ambiguous: it may be sales.tag or stores.tag. Write one of these.",
    ),
    Case(
        "unknown bare column",
        lambda: wide().query(group_by=["citty"]),
        SchemaError,
        "No relation has a column 'citty'. Did you mean city?",
    ),
    Case(
        "unknown column of a relation",
        lambda: wide().query(group_by=["stores.citty"]),
        SchemaError,
        "stores has no column 'citty'. Did you mean city?",
    ),
    Case(
        "column of an unknown relation",
        lambda: wide().query(group_by=["storse.city"]),
        SchemaError,
        "There is no relation 'storse'. Did you mean stores?",
    ),
    Case(
        "group_by as a string",
        lambda: wide().query(group_by="city"),
        QueryError,
        "group_by is a list of columns; write group_by=['city'].",
    ),
    Case(
        "group_by of a pivot as a string",
        lambda: joined().calibrate(group_by="city"),
        QueryError,
        "group_by is a list of columns; write group_by=['city'].",
    ),
    Case(
        "group_by of a pivot as a number",
        lambda: joined().calibrate(group_by=3),  # type: ignore[arg-type]
        QueryError,
        "group_by is a list of columns; got int.",
    ),
    Case(
        "grouped by twice",
        lambda: wide().query(group_by=["city", "city"]),
        QueryError,
        "'city' is grouped by twice.",
    ),
    Case(
        "group_by of a constant",
        lambda: wide().query(group_by=["1 + 1"]),
        QueryError,
        "'1 + 1' has no column whose values make groups.",
    ),
    Case(
        "group_by of an aggregate",
        lambda: wide().query(group_by=["sum(price)"]),
        ExpressionError,
        "In 'SUM(price)': SUM(price) is an aggregate; aggregates belong in measures.",
    ),
    Case(
        "group_by of a text that is cut off",
        lambda: wide().query(group_by=["upper(city"]),
        ExpressionError,
        "Cannot parse 'upper(city': expecting ) at 'city'.",
    ),
    Case(
        "a group without a name",
        lambda: wide().query(group_by={"": "city"}),
        QueryError,
        "'' is no name for a group: it is empty.",
    ),
    Case(
        "group_by of a star",
        lambda: wide().query(group_by=["sales.*"]),
        QueryError,
        "'sales.*' is not a column; write relation.column, or its bare name.",
    ),
    Case(
        "group_by of three parts",
        lambda: wide().query(group_by=["shop.sales.price"]),
        QueryError,
        "'shop.sales.price' is not a column; write relation.column, or its bare name.",
    ),
    Case(
        "group_by of None",
        lambda: wide().query(group_by=None),  # type: ignore[arg-type]
        QueryError,
        "group_by is a list of columns; got NoneType.",
    ),
    Case(
        "group_by that can be read only once",
        lambda: wide().query(group_by=(c for c in ["city"])),  # type: ignore[arg-type]
        QueryError,
        "group_by is a list of columns; got generator.",
    ),
    Case(
        "group_by of a number",
        lambda: wide().query(group_by=[3]),  # type: ignore[list-item]
        QueryError,
        "A column is named by text, got int: 3.",
    ),
    Case(
        "unknown column in the pivot",
        lambda: joined().calibrate(group_by=["foo"]),
        SchemaError,
        f"No relation has a column 'foo'. There are: {EVERY_COLUMN}.",
    ),
]

FILTERS = [
    Case(
        "filter that is a number",
        where("price"),
        ExpressionError,
        "A filter must be true or false, but 'price' is an integer.",
    ),
    Case(
        "filter that is not text",
        where(3),
        ExpressionError,
        "Expected SQL text, got int: 3.",
    ),
    Case(
        "filter on an unknown column",
        where("pirce > 3"),
        SchemaError,
        "No relation has a column 'pirce'. Did you mean price?",
    ),
    Case(
        "text compared with a number",
        where("city = 3"),
        ExpressionError,
        "In 'city = 3': cannot compare city (a string) with 3 (an integer).",
    ),
    Case(
        "date compared with a number",
        where("day > 5"),
        ExpressionError,
        "In 'day > 5': cannot compare day (a date) with 5 (an integer).",
    ),
    Case(
        "text that is no date",
        where("day > 'yesterday'"),
        ExpressionError,
        "In \"day > 'yesterday'\": 'yesterday' is not a date; write 2024-01-31 or 2024-01-31 12:30:00.",
    ),
    Case(
        "number among text",
        where("city in ('Quito', 3)"),
        ExpressionError,
        "In \"city IN ('Quito', 3)\": cannot compare city (a string) with 3 (an integer).",
    ),
    Case(
        "text in arithmetic",
        where("city + 1 > 2"),
        ExpressionError,
        "In 'city + 1 > 2': + needs a number, but city is a string.",
    ),
    Case(
        "number as a condition",
        where("not price"),
        ExpressionError,
        "In 'NOT price': NOT needs a condition, but price is an integer.",
    ),
    Case(
        "branches of different kinds",
        where("case when paid then price else city end = 1"),
        ExpressionError,
        "In 'CASE WHEN paid THEN price ELSE city END = 1': cannot mix an integer and a string.",
    ),
    Case(
        "unknown cast",
        where("cast(city as json) = 1"),
        ExpressionError,
        "In 'CAST(city AS JSON) = 1': casting to JSON is not supported.",
    ),
    Case(
        "cast of a number to a date",
        where("cast(price as date) = day"),
        ExpressionError,
        "In 'CAST(price AS DATE) = day': an integer cannot be cast to a date.",
    ),
    Case(
        "a bin of no width",
        where("bin(price, 0) = 1"),
        ExpressionError,
        "In 'BIN(price, 0) = 1': the width of a bin is more than 0, not 0.",
    ),
    Case(
        "a bin of a column's width",
        where("bin(price, store) = 1"),
        ExpressionError,
        "In 'BIN(price, store) = 1': the width of a bin is a number, not store.",
    ),
    Case(
        "half a bin",
        where("width_bucket(price, 0, 10, 2.5) = 1"),
        ExpressionError,
        "In 'WIDTH_BUCKET(price, 0, 10, 2.5) = 1': WIDTH_BUCKET has a whole number of bins, not 2.5.",
    ),
    Case(
        "bins between equal bounds",
        where("width_bucket(price, 10, 10, 2) = 1"),
        ExpressionError,
        "In 'WIDTH_BUCKET(price, 10, 10, 2) = 1': the bounds of WIDTH_BUCKET are two different numbers.",
    ),
    Case(
        "a dimension of two relations",
        lambda: wide().cube(["price > length(city)"]),
        QueryError,
        "'price > length(city)' is computed from several relations, so no message has its values; take "
        "the columns that it needs as dimensions.",
    ),
    Case(
        "part of a date that is none",
        where("extract(eon from day) = 1"),
        ExpressionError,
        "In 'EXTRACT(EON FROM day) = 1': there is no date part EON; there are YEAR, QUARTER, MONTH, WEEK, "
        "DAY, DOY, DOW, ISODOW, ISOYEAR, HOUR, MINUTE, SECOND, MICROSECOND, DECADE, CENTURY, MILLENNIUM, "
        "YEARWEEK, ERA, MILLISECOND, EPOCH, JULIAN.",
    ),
    Case(
        "unknown function",
        where("foo(price) > 1"),
        ExpressionError,
        "In 'FOO(price) > 1': there is no function foo. `calitree functions` lists all.",
    ),
    Case(
        "aggregate in a filter",
        where("sum(price) > 3"),
        ExpressionError,
        "In 'SUM(price) > 3': SUM(price) is an aggregate; aggregates belong in measures.",
    ),
    Case(
        "window function in a filter",
        where("row_number() over () = 1"),
        ExpressionError,
        "In 'ROW_NUMBER() OVER () = 1': ROW_NUMBER() OVER () is not supported here.",
    ),
    Case(
        "incomplete filter",
        where("price >"),
        ExpressionError,
        "Cannot parse 'price >': something is missing at '>'.",
    ),
    Case(
        "unexpected word",
        where("price > 3 limit 1"),
        ExpressionError,
        "Cannot parse 'price > 3 limit 1': 'limit' is unexpected.",
    ),
    Case(
        "open parenthesis",
        where("(price > 3"),
        ExpressionError,
        "Cannot parse '(price > 3': expecting ) at '3'.",
    ),
    Case(
        "open quote",
        where("city = 'Quito"),
        ExpressionError,
        'Cannot parse "city = \'Quito": a quote or a comment is not closed.',
    ),
    Case(
        "empty filter",
        where(""),
        ExpressionError,
        "Cannot parse '': it is empty.",
    ),
    Case(
        "two statements",
        where("price > 3; drop table sales"),
        ExpressionError,
        "Expected one expression, without a semicolon: 'price > 3; drop table sales'.",
    ),
    Case(
        "whole query as a filter",
        where("select 1"),
        ExpressionError,
        "Expected an expression, not a whole query: 'select 1'.",
    ),
    Case(
        "LIKE with ESCAPE",
        where("city like 'a!%' escape '!!'"),
        ExpressionError,
        "In \"city LIKE 'a!%' ESCAPE '!!'\": ESCAPE takes one character, or none.",
    ),
    Case(
        "IN a query",
        where("store in (select 1)"),
        ExpressionError,
        "In 'store IN (SELECT 1)': IN takes a list of values here, not a query.",
    ),
    Case(
        "IN nothing",
        where("store in ()"),
        ExpressionError,
        "In 'store IN ()': IN needs at least one value.",
    ),
    Case(
        "star in a filter",
        where("sales.* = 1"),
        ExpressionError,
        "In 'sales.* = 1': * stands for no single column.",
    ),
    Case(
        "column of three parts in a filter",
        where("shop.sales.price = 1"),
        ExpressionError,
        "In 'shop.sales.price = 1': write shop.sales.price as relation.column.",
    ),
    Case(
        "parameter in a filter",
        where("price = ?"),
        ExpressionError,
        "In 'price = ?': ? is not supported here.",
    ),
]

MEASURES = [
    Case(
        "no measures at all",
        lambda: joined().calibrate({}),
        QueryError,
        "Ask for at least one measure.",
    ),
    Case(
        "pivot's measures as a list",
        lambda: joined().calibrate(["n"]),  # type: ignore[arg-type]
        QueryError,
        "measures is {name: expression}; got ['n'].",
    ),
    Case(
        "pivot's measures as text",
        lambda: joined().calibrate("count(*)"),  # type: ignore[arg-type]
        QueryError,
        "measures is {name: expression}; got 'count(*)'.",
    ),
    Case(
        "query without measures",
        lambda: wide().query(measures=[]),
        QueryError,
        "Ask for at least one measure.",
    ),
    Case(
        "query's measures as text",
        lambda: wide().query(measures="n"),
        QueryError,
        "measures is a list of names or {name: expression}; got 'n'.",
    ),
    Case(
        "query's measures that can be read only once",
        lambda: wide().query(measures=iter(["n"])),  # type: ignore[arg-type]
        QueryError,
        "measures is a list of names or {name: expression}; got list_iterator.",
    ),
    Case(
        "unknown measure",
        lambda: wide().query(measures=["revenu"]),
        QueryError,
        "There is no measure 'revenu'. Did you mean revenue? A new one is given as "
        "{name: expression}.",
    ),
    Case(
        "measure name of a wrong type",
        lambda: wide().query(measures=[["n"]]),  # type: ignore[list-item]
        QueryError,
        "There is no measure ['n']. There are: n, revenue. A new one is given as "
        "{name: expression}.",
    ),
    Case(
        "measure without a name",
        lambda: joined().calibrate({"": "count(*)"}),
        QueryError,
        "A measure needs a name, got ''.",
    ),
    Case(
        "measure called like a group",
        lambda: wide().query(group_by=["city"], measures={"city": "count(*)"}),
        QueryError,
        "'city' names both a measure and a group-by column; rename the measure.",
    ),
    Case(
        "measure that is not text",
        measuring(3),
        ExpressionError,
        "Expected SQL text, got int: 3.",
    ),
    Case(
        "measure that is a column",
        measuring("price"),
        ExpressionError,
        "In measure 'price': price stands outside of an aggregate; write sum(price) or "
        "group by it.",
    ),
    Case(
        "unknown aggregate",
        measuring("summ(price)"),
        ExpressionError,
        "There is no aggregate summ. Did you mean sum?",
    ),
    Case(
        "window function",
        measuring("sum(price) over (partition by city)"),
        ExpressionError,
        "In measure 'sum(price) over (partition by city)': SUM(price) OVER (PARTITION BY city) is "
        "a window function; a measure has one value a group.",
    ),
    Case(
        "unknown column in a measure",
        measuring("sum(sales.pirce)"),
        SchemaError,
        "sales has no column 'pirce'. Did you mean price?",
    ),
    Case(
        "whole query as a measure",
        measuring("select sum(price)"),
        ExpressionError,
        "Expected an expression, not a whole query: 'select sum(price)'.",
    ),
    Case(
        "two measures in one text",
        measuring("sum(price), count(*)"),
        ExpressionError,
        "Cannot parse 'sum(price), count(*)': ',' is unexpected.",
    ),
]

CUSTOM = [
    Case(
        "several components without final",
        average({"sales": {"n": "1", "s": "price"}}, final=None),
        ExpressionError,
        "Semiring 'avg' has several components: say final= over n, s.",
    ),
    Case(
        "final over an unknown component",
        average({"sales": {"n": "1", "s": "price"}}, final="s / m"),
        ExpressionError,
        "final= may use only n, s, not m.",
    ),
    Case(
        "final that does not parse",
        average({"sales": {"n": "1", "s": "price"}}, final="s /"),
        ExpressionError,
        "Cannot parse 's /': something is missing at '/'.",
    ),
    Case(
        "final with an unknown function",
        average({"sales": {"n": "1", "s": "price"}}, final="foo(s)"),
        ExpressionError,
        "In 'FOO(s)': there is no function foo. `calitree functions` lists all.",
    ),
    Case(
        "lift of an unknown component",
        average({"sales": {"n": "1", "t": "price"}}),
        ExpressionError,
        "Semiring 'avg' has no component 't'. There are: n, s.",
    ),
    Case(
        "lift that lacks a component",
        average({"sales": {"n": "1"}}),
        ExpressionError,
        "The lift of sales says nothing of component 's'.",
    ),
    Case(
        "lift of an unknown relation",
        average({"slaes": {"n": "1", "s": "price"}}),
        SchemaError,
        "There is no relation 'slaes'. Did you mean sales?",
    ),
    Case(
        "lift of another relation's column",
        average({"sales": {"n": "1", "s": "area"}}),
        SchemaError,
        "sales has no column 'area'. There are: day, paid, price, store, tag.",
    ),
    Case(
        "lift of text where a sum is wanted",
        average({"sales": {"n": "1", "s": "tag"}}),
        ExpressionError,
        "Component 's' is a sum, but tag is a string.",
    ),
    Case(
        "lift of a number where a condition is wanted",
        lambda: joined().calibrate({"m": ct.aggregate(ct.semiring.BOOL, {"sales": "price"})}),
        ExpressionError,
        "Component 'v' is a condition, but price is an integer.",
    ),
    Case(
        "lift of a wrong type",
        average({"sales": 3}),
        ExpressionError,
        "The lift of sales is an expression a component; got 3.",
    ),
    Case(
        "two lifts of one relation",
        average({"sales": {"n": "1", "s": "price"}, "Sales": {"n": "1", "s": "price"}}),
        ExpressionError,
        "lifts names sales twice.",
    ),
    Case(
        "lifts of a wrong type",
        average("sales"),
        ExpressionError,
        "lifts is {relation: expression}; got 'sales'.",
    ),
    Case(
        "semiring of a wrong type",
        lambda: ct.aggregate("avg", {}),  # type: ignore[arg-type]
        ExpressionError,
        "aggregate needs a Semiring; got str.",
    ),
]

EXCLUSIONS = [
    Case(
        "no relations",
        lambda: wide().query(relations=[]),
        QueryError,
        "relations=[] leaves nothing to join; name at least one relation.",
    ),
    Case(
        "relations that do not hang together",
        lambda: wide().query(relations=["regions", "sales"]),
        QueryError,
        "No declared joins connect these relations without the ones left out: sales; regions. "
        "Add stores, or declare a join between them with add_join.",
    ),
    Case(
        "unknown relation",
        lambda: wide().query(relations=["sales", "store"]),
        SchemaError,
        "There is no relation 'store'. Did you mean stores?",
    ),
    Case(
        "relation of a wrong type",
        lambda: wide().query(relations=[3]),  # type: ignore[list-item]
        SchemaError,
        "There is no relation 3. There are: regions, sales, stores.",
    ),
    Case(
        "relations as a string",
        lambda: wide().query(relations="sales"),
        QueryError,
        "relations is a list of names; write relations=['sales'].",
    ),
    Case(
        "relations that can be read only once",
        lambda: wide().query(relations=iter(["sales"])),  # type: ignore[arg-type]
        QueryError,
        "relations is a list of names; got list_iterator.",
    ),
    Case(
        "group by a relation left out",
        lambda: wide().query(group_by=["stores.city"], relations=["sales"], measures=["n"]),
        QueryError,
        "stores.city is not available: stores is left out of this query.",
    ),
    Case(
        "bare column of a relation left out",
        lambda: wide().query(where="city = 'Quito'", relations=["sales"], measures=["n"]),
        QueryError,
        "city is not available: stores is left out of this query.",
    ),
    Case(
        "measure of a relation left out",
        lambda: wide().query(relations=["stores", "regions"]),
        QueryError,
        "price is not available: sales is left out of this query.",
    ),
    Case(
        "lift on a relation left out",
        lambda: wide().query(
            measures={"cheapest": ct.aggregate(ct.semiring.MIN, {"sales": "price"})},
            relations=["stores", "regions"],
        ),
        QueryError,
        "Measure 'cheapest' needs sales, which is left out of this query.",
    ),
]

CASES = [
    *ENGINES,
    *RELATIONS,
    *SOURCES,
    *JOINS,
    *GRAPHS,
    *TREES,
    *GROUPS,
    *FILTERS,
    *MEASURES,
    *CUSTOM,
    *EXCLUSIONS,
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_error_says_it(case: Case) -> None:
    with pytest.raises(CalitreeError) as caught:
        case.call()
    assert (type(caught.value), str(caught.value)) == (case.error, case.text)


@pytest.mark.parametrize("argument", ["group_by", "measures", "relations"])
def test_a_number_is_no_list(argument: str) -> None:
    with pytest.raises(QueryError, match=f"^{argument} is a list of .*; got int.$"):
        wide().query(**{argument: 3})  # type: ignore[arg-type]


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


def refused_while_computing(engine: Any) -> None:
    """What only the data can tell is an error of ours on every engine, and names the value."""
    wide = joined(engine).calibrate()
    questions: list[dict[str, Any]] = [
        {"where": "cast(city as int) = 1"},
        {"measures": {"m": "sum(cast(city as double))"}},
    ]
    for question, value in zip(questions, ("Quito|Cuenca", "Quito|Cuenca"), strict=True):
        with pytest.raises(CalitreeError, match=value):
            wide.query(**question).rows()


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_refused_while_computing(engine: str) -> None:
    refused_while_computing(engine)


@pytest.mark.spark
def test_refused_while_computing_on_spark(spark: Any) -> None:
    refused_while_computing(spark)
