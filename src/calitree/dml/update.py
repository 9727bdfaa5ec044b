"""What an update says, as rows that come to a relation and rows that go from it.

Rows to delete are found when the update is made, at the version as it is then. A row that is not there
cannot go: that is an error, as otherwise it would count as −1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calitree.calibration.branch import Branch
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.state import ArrowTypes
from calitree.calibration.versions import Change, Rows, Updated, count, is_arrow, updated
from calitree.dml.rows import Columns, GivenRows
from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Engine, updatable
from calitree.engines.api.signed import Linear, Signed
from calitree.errors import UpdateError
from calitree.jointree.schema import Relation, Schema, find_name
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse, parse_predicate

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 3


def update(
    branch: Branch,
    relation: str,
    insert: Any = None,
    delete: Any = None,
    upsert: Any = None,
    key: Columns | None = None,
) -> int:
    """Change the rows of a relation; the number of the new version."""
    with branch.lock:
        branch.check_present()
        updating = Updating.of(branch.head, relation)
        return branch.update({updating.name: updating.change(insert, delete, upsert, key)})


def suppose(
    branch: Branch,
    delete: Mapping[str, Any] | None,
    update: Mapping[str, Any] | None,
    insert: Mapping[str, Any] | None,
) -> Branch:
    """A branch of its own on which these changes are made, one after the other."""
    other = branch.fork()
    steps: list[tuple[Mapping[str, Any] | None, Callable[[Updating, Any], Change]]] = [
        (delete, Updating.deleting),
        (update, Updating.updating),
        (insert, lambda updating, rows: updating.change(rows, None, None, None)),
    ]
    for given, change_of in steps:
        if not given:
            continue
        if not isinstance(given, Mapping):
            raise UpdateError(
                f"A what-if names relations: {{relation: rows or condition}}; got {given!r}."
            )
        changes = {}
        for relation, what in given.items():
            updating = Updating.of(other.head, relation)
            changes[updating.name] = change_of(updating, what)
        other.update(changes)
    return other


class Updating:
    """One relation at one version, about to change."""

    @classmethod
    def of(cls, snapshot: Snapshot, relation: str) -> Updating:
        """A relation by its name."""
        state, schema = snapshot.state, snapshot.schema
        found = schema.relation(relation)
        if found.name not in state.arrow_types:
            first = found.table.plus[0] if isinstance(found.table, Updated) else found.table
            columns = updatable(state.engine).schema(first)
            by_name = {field.name: field.type for field in columns}
            state.arrow_types[found.name] = ArrowTypes(columns, by_name)
        return cls(state.engine, schema, found, state.arrow_types[found.name])

    def __init__(
        self, engine: Engine, schema: Schema, relation: Relation, types: ArrowTypes
    ) -> None:
        self.engine, self.schema = updatable(engine), schema
        self.relation, self.types = relation, types.schema
        self.given = GivenRows(self.engine, relation, types)
        self.name = relation.name

    def change(self, insert: Any, delete: Any, upsert: Any, key: Columns | None) -> Change:
        """What comes and what goes."""
        if insert is None and delete is None and upsert is None:
            raise UpdateError(f"{self.name}: say what to insert, delete or upsert.")
        if key is not None and upsert is None:
            raise UpdateError(f"{self.name}: key says which rows to upsert, and there are none.")
        came: list[Rows] = []
        went: list[Rows] = []
        if delete is not None:
            change = self.deleting(delete)
            came += change.inserted
            went += change.deleted
        if upsert is not None:
            # What is deleted is not there any more to be replaced.
            rest = self if delete is None else self._after(change)
            change = rest.replacing(upsert, key)
            came += change.inserted
            went += change.deleted
        if insert is not None:
            came.append(self.given.read(insert))
        return Change(tuple(filter(count, came)), tuple(filter(count, went)))

    def _after(self, change: Change) -> Updating:
        """The relation once this has come and gone."""
        here = updated(self.engine, self.relation, change)
        return Updating(self.engine, self.schema.having({self.name: here}), here, self.given.arrow)

    # -- deleting --------------------------------------------------------------------------------

    def deleting(self, what: Any) -> Change:
        """Rows that meet a condition, that are given whole, or that have these values."""
        if isinstance(what, str):
            return self._gone(self._meeting(part, what) for part in self._signs())
        rows = self.given.read(what, some_columns=True, here=True)
        if len(rows.column_names) < len(self.types):
            return self._gone(self.engine.matching(part, rows) for part in self._signs())
        self._check_there(rows)
        return Change(deleted=(rows,))

    def _signs(self) -> Iterable[Table]:
        table = self.relation.table
        return (*table.plus, *table.minus) if isinstance(table, Signed) else (table,)

    def _gone(self, found: Iterable[Table]) -> Change:
        """Rows of the parts that came go; those of the parts that had gone already come again, so
        that they do not go twice.
        """
        tables = list(found)
        table = self.relation.table
        plus = len(table.plus) if isinstance(table, Signed) else 1
        deleted = tuple(each for each in tables[:plus] if each.rows)
        return Change(tuple(each for each in tables[plus:] if each.rows), deleted)

    def _meeting(self, table: Table, condition: str) -> Table:
        for predicate in self._predicates(condition):
            table = self.engine.select(Input(table, self.schema.columns_of[self.name]), predicate)
        return table

    def _predicates(self, condition: str) -> tuple[Expression, ...]:
        return parse_predicate(condition, self._resolved)

    def _resolved(self, table: str | None, name: str) -> Resolved:
        """A column of the relation itself: rows are told by nothing else."""
        if table is not None and find_name(table, (self.name,)) is None:
            raise UpdateError(
                f"{table}.{name} is not a column of {self.name}, whose rows this is about."
            )
        return self.schema.resolve(self.name, self.given.column(name))

    def _check_there(self, rows: pa.Table) -> None:
        """An error if a row to delete is not there, or not so often."""
        there: Counter[tuple[Any, ...]] = Counter()
        table = self.relation.table
        plus, minus = (table.plus, table.minus) if isinstance(table, Signed) else ((table,), ())
        for parts, sign in ((plus, 1), (minus, -1)):
            for part in parts:
                for row, times in self._counted(self._arrow(self.engine.matching(part, rows))):
                    there[row] += sign * times
        wanted = self._counted(rows)
        lacking = [(row, times - there[row]) for row, times in wanted if times > there[row]]
        if lacking:
            shown = "; ".join(
                ", ".join(f"{n}={v!r}" for n, v in zip(self.types.names, row, strict=True))
                for row, _ in lacking[:SHOWN]
            )
            missing = sum(times for _, times in lacking)
            raise UpdateError(
                f"{self.name}: {missing} of the {rows.num_rows} rows to delete "
                f"{'is' if missing == 1 else 'are'} not there: {shown}"
                f"{'; …' if len(lacking) > SHOWN else ''}."
            )

    def _counted(self, rows: pa.Table) -> list[tuple[tuple[Any, ...], int]]:
        columns = [map(_comparable, rows.column(name).to_pylist()) for name in self.types.names]
        return list(Counter(zip(*columns, strict=True)).items())

    # -- replacing -------------------------------------------------------------------------------

    def replacing(self, what: Any, key: Columns | None) -> Change:
        """Rows in place of those that have the same key, or beside them where none has."""
        rows = self.given.read(what, here=True)
        by = self._key(key)
        keys = rows.select(by)
        if len(set(zip(*(column.to_pylist() for column in keys.columns), strict=True))) < len(rows):
            raise UpdateError(
                f"{self.name}: several of the rows to put in have the same {', '.join(by)}."
            )
        gone = self._gone(self.engine.matching(part, keys) for part in self._signs())
        return Change((*gone.inserted, rows), gone.deleted)

    def _key(self, given: Columns | None) -> list[str]:
        if given is not None:
            chosen = [given] if isinstance(given, str) else list(given)
            if not chosen:
                raise UpdateError(f"{self.name}: a key has at least one column.")
            return [self.given.column(name) for name in chosen]
        unique = [columns for columns in self._joined() if self._is_unique(columns)]
        if len(unique) != 1:
            listed = " and ".join(", ".join(columns) for columns in unique)
            found = f"both {listed} tell" if unique else "no columns that it joins on tell"
            raise UpdateError(
                f"{self.name}: {found} its rows apart, so say which rows are replaced: "
                "key='column', or a list of columns."
            )
        return list(unique[0])

    def _joined(self) -> list[tuple[str, ...]]:
        """The columns of each join, each once."""
        found = []
        for join in self.schema.joins:
            if join.left == self.name:
                found.append(tuple(a for a, _ in join.pairs))
            if join.right == self.name:
                found.append(tuple(b for _, b in join.pairs))
        return list(dict.fromkeys(found))

    def _is_unique(self, columns: Sequence[str]) -> bool:
        names = {self.schema.attribute_of[self.name, c]: c for c in columns}
        output = Output((0,), (), tuple(names), ())
        contraction = Contraction((Input(self.relation.table, names),), (output,))
        (found,) = Linear(contraction, (None,)).tables(self.engine)
        return found.rows == self.relation.table.rows

    # -- changing values -------------------------------------------------------------------------

    def setting(self, values: Mapping[str, str], where: str | None) -> Change:
        """Some columns of the rows that meet a condition (or of all) get other values."""
        import pyarrow as pa

        from calitree.sql.evaluator import evaluate

        formulas = {self.given.column(name): self._parsed(text) for name, text in values.items()}
        here = self.schema.columns_of[self.name]
        parts = (p if where is None else self._meeting(p, where) for p in self._signs())
        gone = self._gone(parts)

        def changed(table: Rows) -> pa.Table:
            rows = self._arrow(table)
            old = {attribute: rows.column(column) for attribute, column in here.items()}
            for column, formula in formulas.items():
                found = evaluate(formula.node, old, rows.num_rows)
                at, field = self.types.get_field_index(column), self.types.field(column)
                try:
                    rows = rows.set_column(at, field, found.cast(field.type))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise UpdateError(
                        f"{self.name}.{column} is {field.type} and cannot be {formula}: "
                        f"{str(error).rstrip('.')}."
                    ) from None
            return rows

        came = tuple(changed(each) for each in gone.deleted)
        back = tuple(changed(each) for each in gone.inserted)
        return Change((*gone.inserted, *came), (*gone.deleted, *back))

    def _parsed(self, text: str) -> Expression:
        return parse(text, self._resolved)

    def _arrow(self, rows: Rows) -> pa.Table:
        """Rows in this process, with the types of the relation."""
        found = rows if is_arrow(rows) else self.engine.arrow(rows)
        return found.select(self.types.names).cast(self.types)

    def updating(self, what: Any) -> Change:
        """Rows in place of those with the same key; or other values, for all rows or some."""
        condition = None
        if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], Mapping):
            what, condition = what
        if isinstance(what, Mapping) and all(isinstance(each, str) for each in what.values()):
            return self.setting(what, condition)
        return self.replacing(what, None)


def _comparable(value: Any) -> Any:
    """NaN equals NaN, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return tuple(value) if isinstance(value, list) else value
