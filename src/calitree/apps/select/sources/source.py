"""The FROM clause of a block: which relations of the graph it joins, and that it joins them as the graph does.

What is compared is what the joins mean: the columns that inner joins make equal, and the outer joins that are
left after simplification. So the joins may be in any order, with the tables separated by commas and the
equalities in WHERE. An equality that the graph does not have is a filter like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sqlglot import exp

from calitree.apps.select.grammar import own_parts, refused
from calitree.apps.select.sources.joins import Matching
from calitree.apps.select.sources.semi_joins import with_semi_joins
from calitree.apps.select.sources.tables import tables_of
from calitree.errors import CalitreeError, did_you_mean
from calitree.jointree.joins.join import ColumnName, Join, Pair
from calitree.jointree.schema import Relation, Schema, find_name
from calitree.sql.analysis import Resolved
from calitree.sql.nodes import quoted_sql, sql_text
from calitree.sql.parser import conjuncts, typed

WIDE = "wide"
"""What the join of all relations is called."""


class GraphSource(NamedTuple):
    """What a block is about."""

    relations: tuple[str, ...] | None
    """Those that are joined; None for all of the graph."""
    filters: list[exp.Expr]
    """The conditions of the block that are no joins of the graph."""
    grain: tuple[str, ...] = ()
    """The relations whose rows count once, as others are there for EXISTS; none if each joined row counts."""
    optional: Mapping[str, tuple[exp.Expr, ...]] = MappingProxyType({})
    """Conditions on rows of relations that are the optional side of an outer join, which has them."""


def source_of(select: exp.Select, schema: Schema, others: Collection[str]) -> GraphSource | None:
    """What a block joins of the graph; None if it has no table, or only `others`.

    Its columns are then written with the names of relations, or with none.

    Raises:
        StatementError: It joins what the graph does not join, or joins it otherwise.
    """
    outside = with_semi_joins(select, schema, others)
    tables = tables_of(select)
    own = [t for t in tables if isinstance(t, exp.Table) and not _is(t, others)]
    if not own:
        return None
    if len(own) < len(tables) or (len(own) > 1 and any(_is_wide(t, schema) for t in own)):
        other = next(t for t in tables if t not in own or _is_wide(t, schema))
        raise refused(
            "tables",
            f"{quoted_sql(other)} cannot be joined with tables of the graph; ask for those by themselves, "
            "in a query in FROM or in WITH.",
            other,
        )
    if _is_wide(own[0], schema):
        named = {name.lower(): name for name in schema.relations if name not in schema.matches}
        _qualify(select, {**named, own[0].alias_or_name.lower(): None})
        where = select.args.get("where")
        return GraphSource(None, [] if where is None else list(conjuncts(where.this)))
    return _Reader(schema, select).source(own, outside)


def _qualify(select: exp.Select, names: Mapping[str, str | None]) -> None:
    """Write the columns of a block with the names of their relations."""
    for node in own_parts(select):
        if isinstance(node, exp.Column) and node.table:
            if node.table.lower() not in names:
                hint = did_you_mean(node.table, names)
                raise refused("tables", f"FROM has no table {node.table!r}.{hint}", node)
            relation = names[node.table.lower()]
            table = None if relation is None else exp.to_identifier(relation, quoted=True)
            node.set("table", table)


def _is(table: exp.Table, names: Collection[str]) -> bool:
    """Whether a table is called by one of these names, which are in small letters."""
    return table.name.lower() in names and not table.args.get("db")


def _is_wide(table: exp.Expr, schema: Schema) -> bool:
    if not isinstance(table, exp.Table) or find_name(table.name, schema.relations) is not None:
        return False
    return _is(table, (WIDE,))


class _Reader:
    """Reads the joins of one block."""

    def __init__(self, schema: Schema, select: exp.Select) -> None:
        self.schema, self.select = schema, select
        self.names: dict[str, str] = {}
        """In small letters, the relation of each table."""
        self.joins: list[Join] = []
        self.filters: list[exp.Expr] = []
        self.optional: dict[str, tuple[exp.Expr, ...]] = {}

    def source(self, tables: Sequence[exp.Table], outside: int) -> GraphSource:
        """The block's tables, matched with the graph; the first of them are `outside` of EXISTS."""
        for table in tables:
            self._name(table)
        grain = tuple(self.names.values())[:outside]
        _qualify(self.select, self.names)
        self.names = {name.lower(): name for name in self.names.values()} | self.names
        begin = self.select.args["from_"].this
        joined = self._read(begin)
        for join in self.select.args.get("joins") or []:
            joined |= self._joined(joined, join)
        relations = tuple(n for n in self.schema.relations if n in self.names.values())
        where = self.select.args.get("where")
        conditions = [] if where is None else list(conjuncts(where.this))
        self._check_filters()
        filters = Matching(self.schema, relations, self).filters([*self.filters, *conditions])
        return GraphSource(relations, filters, grain, self.optional)

    def _check_filters(self) -> None:
        """An error if a condition of an inner join is below a join that keeps rows which fail it."""
        keeps = any(join.how in ("right", "full") for join in self.joins)
        nested = self.select.args["from_"].find(exp.Join) or any(
            join.this.find(exp.Join) for join in self.select.args.get("joins") or []
        )
        if self.filters and (keeps or (nested and any(join.how != "inner" for join in self.joins))):
            raise refused(
                "joins",
                "A condition of an inner join stands below an outer join here; put it into WHERE if that is "
                "meant.",
                self.filters[0],
            )

    def _name(self, table: exp.Table) -> None:
        known = [name for name in self.schema.relations if name not in self.schema.matches]
        relation = (find_name(table.alias, known) if table.alias else None) or find_name(
            table.name, known
        )
        if relation is None:
            hint = did_you_mean(table.name, [*known, WIDE])
            raise refused(
                "tables", f"There is no table {table.name or sql_text(table)!r}.{hint}", table
            )
        name = table.alias_or_name.lower()
        if name in self.names or relation in self.names.values():
            raise refused(
                "tables",
                f"{relation} is joined twice. Add its table to the graph under a second name, and call it so.",
                table,
            )
        self.names[name] = relation

    def _read(self, node: exp.Expr) -> set[str]:
        """The relations of an operand of a join, whose own joins are read."""
        table = node.this if isinstance(node, exp.Subquery) else node
        joined = {self.names[table.alias_or_name.lower()]}
        for join in table.args.get("joins") or []:
            joined |= self._joined(joined, join)
        return joined

    def _joined(self, left: set[str], join: exp.Join) -> set[str]:
        """The relations that a join adds; what it compares is noted."""
        right = self._read(join.this)
        how = (join.side or "inner").lower()
        if join.method or join.kind in ("SEMI", "ANTI", "POSITIONAL"):
            raise refused(
                "joins", f"A {join.method or join.kind} join of tables is not answered.", join
            )
        pairs, rest = self._pairs(left, right, join)
        if how == "inner":
            self.filters += rest
        elif rest or not pairs:
            self._set_optional(how, right, rest if pairs else [join])
        self.joins += [Join(a, b, ((x, y),), how) for (a, x), (b, y) in pairs]
        return right

    def _set_optional(self, how: str, right: set[str], conditions: list[exp.Expr]) -> None:
        """Conditions on the optional side of a left join: only rows for which they hold are partners."""
        used = {self.column(c)[0] for node in conditions for c in node.find_all(exp.Column)}
        is_join = isinstance(conditions[0], exp.Join)
        if how != "left" or is_join or used != right or len(right) > 1:
            raise refused(
                "joins",
                f"The {how} join of {' and '.join(sorted(right))} has a condition that is neither an equality "
                "of columns of both sides nor about its optional side.",
                conditions[0],
            )
        self.optional[next(iter(right))] = tuple(conditions)

    def _pairs(
        self, left: set[str], right: set[str], join: exp.Join
    ) -> tuple[list[Pair], list[exp.Expr]]:
        """The columns that a join compares, and its other conditions."""
        pairs: list[Pair] = []
        rest: list[exp.Expr] = []
        for name in join.args.get("using") or []:
            sides = [self._having(names, name) for names in (left, right)]
            pairs.append((sides[0], sides[1]))
        on = join.args.get("on")
        for node in [] if on is None else conjuncts(on):
            pair = self.pair(node)
            if (
                pair is None
                or {pair[0][0], pair[1][0]} <= right
                or {pair[0][0], pair[1][0]} <= left
            ):
                rest.append(node)
            elif pair[0][0] in left:
                pairs.append(pair)
            else:
                pairs.append((pair[1], pair[0]))
        return pairs, rest

    def _having(self, names: set[str], name: exp.Expr) -> ColumnName:
        for relation in sorted(names):
            column = find_name(name.name, self.schema.relations[relation].columns)
            if column is not None:
                return relation, column
        raise refused("columns", f"No table before has a column {name.name!r}.", name)

    def pair(self, node: exp.Expr) -> Pair | None:
        """The two columns of different relations that a condition makes equal; None if it does not."""
        if not isinstance(node, exp.EQ):
            return None
        sides = [self._column(side.unnest()) for side in (node.left, node.right)]
        first, second = sides
        if first is None or second is None or first[0] == second[0]:
            return None
        return first, second

    def _column(self, node: exp.Expr) -> ColumnName | None:
        """The column that a side of an equality is, derived ones of joins on expressions included."""
        if isinstance(node, exp.Column):
            return self.column(node)
        owned = {self.column(column) for column in node.find_all(exp.Column)}
        relations = {relation for relation, _ in owned}
        if len(relations) != 1 or node.find(exp.Query):
            return None
        relation = self.schema.relations[relations.pop()]
        return _derived_column(self.schema, relation, node, self)

    def column(self, node: exp.Column) -> ColumnName:
        """The column of a relation that a name stands for."""
        schema, table = self.schema, node.table
        if table:
            owner = self.names.get(table.lower())
            if owner is None:
                hint = did_you_mean(table, self.names)
                raise refused("tables", f"FROM has no table {table!r}.{hint}", node)
            owners = [owner]
        else:
            owners = sorted(
                name
                for name in set(self.names.values())
                if find_name(node.name, schema.relations[name].columns) is not None
            )
        if len(owners) > 1:
            options = " or ".join(f"{name}.{node.name}" for name in owners)
            raise refused("columns", f"{node.name!r} is ambiguous: it may be {options}.", node)
        column = find_name(node.name, schema.relations[owners[0]].columns) if owners else None
        if column is None:
            columns = (c for name in self.names.values() for c in schema.relations[name].columns)
            hint = did_you_mean(node.name, columns)
            raise refused("columns", f"No table of FROM has a column {node.name!r}.{hint}", node)
        return owners[0], column


def _derived_column(
    schema: Schema, relation: Relation, node: exp.Expr, reader: _Reader
) -> ColumnName | None:
    """The derived column that an expression over one relation is."""

    def resolve(table: str | None, name: str) -> Resolved:
        at = reader.column(exp.column(name, table=table))
        return schema.resolve(*at, (relation.name,))

    try:
        expression = typed(node.copy(), resolve)
    except CalitreeError:
        return None
    columns = schema.columns_of[relation.name]
    for name, definition in relation.derived.items():
        own = {column.name for column in definition.node.find_all(exp.Column)}
        if (
            own == {columns[a] for a in expression.attributes}
            and definition.text == expression.text
        ):
            return relation.name, name
    return None
