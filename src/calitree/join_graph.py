"""Where a wide table comes from: a join graph that is declared, or a tree that was saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from calitree.calibration.as_of.matches import joined_as_of
from calitree.calibration.branch import Branch
from calitree.calibration.state import Mode
from calitree.engines.api.protocol import Engine
from calitree.engines.registry import engine_of
from calitree.errors import QueryError, SchemaError, TreeError
from calitree.integrity import GraphCheck, check_graph
from calitree.jointree.decompose import join_tree
from calitree.jointree.derived import with_column
from calitree.jointree.given_tree import GivenBags, declared_tree
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.as_of import AsOfRequest, Tolerance
from calitree.jointree.joins.attributes import graph_schema
from calitree.jointree.joins.checks import On, checked_name
from calitree.jointree.joins.declare import (
    JoinRequest,
    clause_text,
    declarations,
    declared_join,
)
from calitree.jointree.joins.join import Join
from calitree.jointree.schema import Relation, Schema, find_relation
from calitree.progress import Progress
from calitree.query.binder import MeasureLike, Question, check_list
from calitree.query.grain import DefaultGrain, default_grain
from calitree.query.groups import GroupBy, kept_groups
from calitree.saved.guard.trust import Allow
from calitree.saved.reader import read_tree
from calitree.wide_table import WideTable


class JoinGraph:
    """Declares relations and joins, to be calibrated.

    Args:
        engine: `"local"`, `"hybrid"`, `"spark"`, `"reference"`, a SparkSession, or an engine object. None is
            hybrid if PySpark is installed, else local.
        grain: `"owner"` if measures count each row of the relations that own their columns once.

    Raises:
        EngineError: There is no such engine.

    Example:
        >>> g = JoinGraph(engine="reference")
        >>> g.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
        >>> g.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
        >>> g.add_join("sales", "stores", on={"store": "id"})
        >>> wide = g.calibrate({"revenue": "sum(price)"})
        >>> wide.query(group_by=["city"]).rows()
        [{'city': 'Quito', 'revenue': 30}, {'city': 'Cuenca', 'revenue': 5}]
    """

    def __init__(self, engine: Any = None, *, grain: DefaultGrain = None) -> None:
        self.engine: Engine = engine_of(engine)
        self.grain = default_grain(grain)
        self._relations: dict[str, Relation] = {}
        self._joins: list[Join] = []

    def add_relation(self, name: str, source: Any) -> None:
        """Add a table.

        Args:
            name: What it is called here; the same table may be added under several names.
            source: An Arrow table, a pandas or polars frame, a dictionary of columns, a Parquet or CSV path
                or glob, and on Spark also a DataFrame or the name of a table.

        Raises:
            SchemaError: The name is taken or is no name, or the source cannot be a relation.
            EngineError: The source cannot be read.

        Example:
            >>> graph.add_relation("cities", {"city": ["Quito"], "people": [2_700_000]})
        """
        checked_name(name, self._relations)
        table = self.engine.load(name, source)
        self._relations[name] = Relation(name, table)

    def add_join(
        self,
        left: str,
        right: str,
        on: On | None = None,
        *,
        how: str = "inner",
        condition: str | None = None,
        asof: On | None = None,
        tolerance: Tolerance | None = None,
        nulls: str = "unequal",
    ) -> None:
        """Join two relations on equal columns, by a condition, or as of a time.

        Args:
            left: The name of a relation.
            right: That of another.
            on: A column that both have, a list of such columns, or `{"left_column": "right_column"}`;
                in place of a column also an expression over columns of its relation.
            how: Which rows stay that have no partner: those of neither relation (`"inner"`), of the left one
                (`"left"`), the right one (`"right"`) or both (`"full"`). Joins mean what they mean in
                SQL, in the order in which they are declared; `from_clause` shows it.
            condition: A condition over columns of the two, as SQL, instead of `on` or beside it, for an
                inner join. Its equalities of columns are taken as if they stood in `on`.
            asof: A column that both have, or `{"left_column": "right_column"}`: of the rows on the right with
                the same values of `on`, each row on the left meets the latest at or before its own time
                (or all that are the latest). The join is inner or left; both are read for it now.
            tolerance: By how much the row on the right may be earlier: a number, for dates and timestamps a
                timedelta or a text such as `"5 minutes"`. Without it, by any time.
            nulls: Whether NULL equals NULL in the columns of `on`: `"equal"`, or as in SQL `"unequal"`.

        Raises:
            SchemaError: A relation or a column is unknown, the columns cannot be equal, the join would
                make two columns of one relation equal, the condition does not compare the two, or the
                join closes a cycle and is not of the kind of the join that it belongs to.
            ExpressionError: The condition does not parse.

        Example:
            >>> graph.add_relation("cities", {"city": ["Quito"], "people": [2_700_000]})
            >>> graph.add_join("stores", "cities", on="city")
            >>> graph.add_relation("sizes", {"size": ["small", "large"], "least": [0, 15]})
            >>> graph.add_join("sales", "sizes", condition="price >= least")
            >>> graph.add_relation("rates", {"store": [1, 1], "from": [5, 15], "rate": [2, 3]})
            >>> graph.add_join("sales", "rates", on="store", asof={"price": "from"}, how="left")
        """
        if asof is not None:
            if condition is not None or nulls != "unequal":
                raise SchemaError("An as-of join has no condition, and NULL meets nothing in it.")
            timed = AsOfRequest(left, right, on, times=asof, tolerance=tolerance, how=how)
            self._relations, self._joins = joined_as_of(
                self.engine, self._relations, self._joins, timed
            )
            return
        if tolerance is not None:
            raise SchemaError("tolerance is said of an as-of join: give asof too.")
        asked = JoinRequest(left, right, on, how=how, condition=condition, nulls=nulls)
        self._relations, join = declared_join(self._relations, self._joins, asked)
        self._joins.append(join)

    def add_column(self, relation: str, name: str, expression: str) -> None:
        """Declare a derived column: from now on it is a column of the relation like any other.

        It is computed where it is needed, also of rows that are inserted later.

        Args:
            relation: The name of a relation.
            name: What the column is called.
            expression: SQL over columns of this relation, derived ones included.

        Raises:
            SchemaError: The name is taken or is no name, or a column is unknown or of another relation.
            ExpressionError: The expression does not parse, is an aggregate, or has no column.

        Example:
            >>> graph.add_column("sales", "dear", "price >= 10")
            >>> graph.calibrate().query(["dear"]).rows()
            [{'dear': True, 'n': 2}, {'dear': False, 'n': 1}]
        """
        known = find_relation(relation, self._relations)
        self._relations[known.name] = with_column(known, name, expression)

    def from_clause(self) -> str:
        """The join of all relations as SQL: what a question is asked about.

        Returns:
            What stands between FROM and WHERE, with the joins in the order of their declaration.

        Raises:
            TreeError: The graph has no relation.

        Example:
            >>> graph.from_clause()
            'sales JOIN stores ON sales.store = stores.id'
        """
        return clause_text(self._relations, self._joins)

    @property
    def schema(self) -> Schema:
        """The graph as declared so far, as a value."""
        return graph_schema(dict(self._relations), self._joins)

    def hypertree(
        self,
        bags: Mapping[str, Sequence[str]] | None = None,
        edges: Iterable[tuple[str, str]] | None = None,
        mapping: Mapping[str, str] | None = None,
        *,
        empty: Mapping[str, Sequence[str]] | None = None,
        redundant: bool = False,
        cross_join: bool = False,
    ) -> Hypertree:
        """The junction hypertree of this graph: computed, or as you give it.

        Each relation has its own bag, but for those that close a cycle: they share bags, chosen so that the
        joins inside stay small. Print the tree to see its bags and how large they can become.

        Args:
            bags: For each bag its name, and a list of relations (all their columns) and columns.
            edges: Pairs of bags that are connected.
            mapping: The bag of a relation, where several could hold it.
            empty: Empty bags to add, each a view of columns that one bag has together.
            redundant: Give relations that close a cycle a bag of their own too, around empty bags. Messages
                are larger then, but one relation can change without joining the others again.
            cross_join: Join the parts of a graph that is not connected: all combinations of their rows.

        Returns:
            The tree, for `calibrate`.

        Raises:
            TreeError: The graph is not connected, or the bags break a property of a junction hypertree.
            SchemaError: A column or a relation is unknown.

        Example:
            >>> graph.hypertree(empty={"view": ["sales.store"]}).neighbours("view")
            ('sales', 'stores')
        """
        given = GivenBags(bags, edges, mapping, empty)
        return declared_tree(self.schema, given, redundant=redundant, cross_join=cross_join)

    def calibrate(
        self,
        measures: Mapping[str, MeasureLike] | None = None,
        group_by: GroupBy = (),
        where: str | None = None,
        *,
        tree: Hypertree | None = None,
        cross_join: bool = False,
        memory_limit: int | None = None,
        maintenance: Mode = "lazy",
        progress: Progress | bool | None = None,
    ) -> WideTable:
        """Compute all messages of the pivot query, in both directions, and keep them.

        Args:
            measures: Aggregates by name, as SQL; `{"n": "count(*)"}` by default.
            group_by: The columns and expressions that the pivot query groups by.
            where: The pivot query's filter, as SQL.
            tree: A tree made by `hypertree`; the computed one by default.
            cross_join: As for `hypertree`, whose tree it is by default.
            memory_limit: Bytes that may be kept to be used again, beside the data: messages, plans, what
                was computed of columns. By default a quarter of the machine's memory, but at least 1 GB.
                Trees of one graph share the largest of their limits; see `WideTable.memory`.
            maintenance: What happens to messages when relations are updated. `"lazy"`: a query refreshes
                those that it needs. `"eager"`: every update refreshes all. `"recompute"`: a query computes
                those that it needs anew.
            progress: A function that is called with (done, total, what), True or False for bars or none;
                None for bars on a terminal.

        Returns:
            The wide table.

        Raises:
            QueryError: An argument is not what it should be, or a question has no meaning here.
            SchemaError: There is no such column.
            ExpressionError: An expression does not parse, or cannot be factorised.
            TreeError: The graph has no relation, or is not connected.

        Example:
            >>> graph.calibrate({"n": "count(*)"}, group_by=["city"]).query(["city"]).rows()
            [{'city': 'Quito', 'n': 2}, {'city': 'Cuenca', 'n': 1}]
        """
        if not isinstance(measures, Mapping | None):
            raise QueryError(f"measures is {{name: expression}}; got {measures!r}.")
        if not isinstance(tree, Hypertree | None):
            raise TreeError(f"A tree is what g.hypertree() makes; got {type(tree).__name__}.")
        check_list("group_by", group_by, "columns")
        branch = Branch.new(
            self.schema,
            self.engine,
            tree if tree is not None else self.hypertree(cross_join=cross_join),
            {"n": "count(*)"} if measures is None else measures,
            Question(kept_groups(group_by), where),
            memory_limit=memory_limit,
            maintenance=maintenance,
            grain=self.grain,
        )
        wide = WideTable(branch)
        wide.refresh(progress)
        return wide

    def check(self, progress: Progress | bool | None = None) -> GraphCheck:
        """Look for keys without a partner, NULL keys, repeated keys and other flaws of the joins.

        Each relation is read once, for the keys of all its joins; nothing is joined.

        Args:
            progress: As for `calibrate`.

        Returns:
            Counts for each join, and findings; `print` shows them.

        Raises:
            TreeError: The graph has no relation.
            EngineError: A relation cannot be read.

        Example:
            >>> graph.check().ok
            True
        """
        schema = self.schema
        tree = None if len(schema.components()) > 1 else join_tree(schema)
        return check_graph(self.engine, schema, tree, progress)

    def __repr__(self) -> str:
        lines = declarations(self._relations, self._joins)
        return "\n".join([f"JoinGraph on {self.engine.name}", *(f"  {line}" for line in lines)])


def open_tree(
    path: str | PathLike[str],
    engine: Any = None,
    version: int | None = None,
    *,
    allow: Allow | None = None,
    memory_limit: int | None = None,
) -> WideTable:
    """Open a tree that `WideTable.save` has saved; in `calitree` it is called `open`.

    What a query needs beyond the saved messages is read from the relations, if they are still where they
    were. Nothing in a saved tree is run as a program. Files and tables outside of it are read only if this
    user has saved the tree on this machine, or allows them here: see docs/security.md.

    Args:
        path: The directory.
        engine: What `JoinGraph` takes, whatever engine the tree was saved from.
        version: The number of an older version; the newest by default.
        allow: Directories, files or URLs outside of the tree, with all that is below them, and names of
            Spark's tables, that may be read although somebody else has saved the tree.
        memory_limit: As for `JoinGraph.calibrate`; by default that of the tree when it was saved, but not
            more than the default of this machine.

    Returns:
        The wide table, as it was saved.

    Raises:
        SavedError: There is no saved tree, or it cannot be read.

    Example:
        >>> g = JoinGraph(engine="local")
        >>> g.add_relation("sales", {"price": [10, 20]})
        >>> version = g.calibrate().save("tree")
        >>> open_tree("tree", engine="local").query().rows()
        [{'n': 2}]
    """
    return WideTable(*read_tree(path, engine_of(engine), version, allow, memory_limit))
