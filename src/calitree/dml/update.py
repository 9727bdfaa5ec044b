"""Updates and what-ifs: what is asked for becomes a `Change`, rows to insert and rows to delete.

Rows to delete are looked up at the version that is updated. A row that is not there cannot be deleted:
that is an error, as otherwise it would count as −1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calitree.calibration.branch import Branch
from calitree.calibration.revisions import Change, Rows, count, is_in_process, updated
from calitree.dml.fitting import first_misfit, fitted
from calitree.dml.target import Columns, UpdateTarget
from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.signed import Linear, summands
from calitree.errors import UpdateError
from calitree.grouping import canonical
from calitree.sql.parser import Expression, parse, parse_predicate

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_IN_ERROR = 3
"""How many rows an error message shows."""


def update(
    branch: Branch,
    relation: str,
    *,
    insert: Any = None,
    delete: Any = None,
    upsert: Any = None,
    key: Columns | None = None,
) -> int:
    """Change the rows of a relation; the number of the new version."""
    with branch.lock:
        branch.check_present()
        target = UpdateTarget.of(branch.head, relation)
        change = change_of(target, insert=insert, delete=delete, upsert=upsert, key=key)
        return branch.update({target.name: change})


def suppose(
    branch: Branch,
    *,
    delete: Mapping[str, Any] | None,
    update: Mapping[str, Any] | None,
    insert: Mapping[str, Any] | None,
) -> Branch:
    """A branch of its own on which these changes are made, one after the other."""
    other = branch.fork()
    steps: list[tuple[Mapping[str, Any] | None, Callable[[UpdateTarget, Any], Change]]] = [
        (delete, deletion),
        (update, replacement_or_assignment),
        (insert, lambda target, rows: change_of(target, insert=rows)),
    ]
    for given, change in steps:
        if not given:
            continue
        if not isinstance(given, Mapping):
            raise UpdateError(
                f"A what-if names relations: {{relation: rows or condition}}; got {given!r}."
            )
        targets = [
            (UpdateTarget.of(other.head, relation), what) for relation, what in given.items()
        ]
        other.update({target.name: change(target, what) for target, what in targets})
    return other


def change_of(
    target: UpdateTarget,
    *,
    insert: Any = None,
    delete: Any = None,
    upsert: Any = None,
    key: Columns | None = None,
) -> Change:
    """The rows that an update inserts and deletes: first it deletes, then it upserts, then it inserts."""
    if insert is None and delete is None and upsert is None:
        raise UpdateError(f"{target.name}: say what to insert, delete or upsert.")
    if key is not None and upsert is None:
        raise UpdateError(f"{target.name}: key says which rows to upsert, and there are none.")
    changes = [] if delete is None else [deletion(target, delete)]
    if upsert is not None:
        # Rows that are deleted are not there any more to be replaced.
        rest = _after(target, changes[0]) if changes else target
        changes.append(replacement(rest, upsert, key))
    if insert is not None:
        changes.append(Change((target.read(insert),)))
    inserted = tuple(rows for change in changes for rows in change.inserted if count(rows))
    return Change(inserted, tuple(rows for c in changes for rows in c.deleted if count(rows)))


def _after(target: UpdateTarget, change: Change) -> UpdateTarget:
    """The relation once this has changed."""
    relation = updated(target.engine, target.relation, change)
    return replace(target, relation=relation, schema=target.schema.having({target.name: relation}))


def _deletion(target: UpdateTarget, matching: Callable[[Table], Table]) -> Change:
    """Delete the rows that are selected in each part of a relation.

    Those of parts that were deleted before are inserted again, so that they are not deleted twice.
    """
    plus, minus = (map(matching, parts) for parts in summands(target.relation.table))
    deleted = tuple(rows for rows in plus if rows.rows)
    return Change(tuple(rows for rows in minus if rows.rows), deleted)


# -- deleting -------------------------------------------------------------------------------------


def deletion(target: UpdateTarget, what: Any) -> Change:
    """Delete rows for which a condition is true, that are given whole, or that have these values."""
    if isinstance(what, str):
        return _deletion(target, _selection(target, what))
    rows = target.read(what, some_columns=True, here=True)
    if len(rows.column_names) < len(target.types):
        return _deletion(target, lambda part: target.engine.matching(part, rows))
    return _deletion_of(target, rows)


def _selection(target: UpdateTarget, condition: str) -> Callable[[Table], Table]:
    """The rows of a part for which a condition is true."""
    schema, name = target.schema, target.name
    predicates = [schema.inlined(p, (name,)) for p in parse_predicate(condition, target.resolve)]

    def selected(part: Table) -> Table:
        for predicate in predicates:
            if part.rows:
                part = target.engine.select(schema.input_of(name, table=part), predicate)
        return part

    return selected


def _deletion_of(target: UpdateTarget, rows: pa.Table) -> Change:
    """Delete these rows, one for one; an error if one is not there, or not so often."""
    equal = _deletion(target, lambda part: target.engine.matching(part, rows))
    is_here = is_in_process(target.engine, equal.deleted)
    if is_here and rows.num_rows == equal.went - equal.came == 1:  # nearly always
        return equal
    present: Counter[tuple[Any, ...]] = Counter()
    for tables, sign in ((equal.deleted, 1), (equal.inserted, -1)):
        for table in tables:
            for row, times in _counted(target, target.arrow(table)):
                present[row] += sign * times
    wanted = _counted(target, rows)
    lacking = [(row, times - present[row]) for row, times in wanted if times > present[row]]
    if lacking:
        raise _not_there(target, rows, lacking)
    is_all = is_here and all(present[row] == times for row, times in wanted)
    return equal if is_all else Change(deleted=(rows,))


def _not_there(
    target: UpdateTarget, rows: pa.Table, lacking: Sequence[tuple[tuple[Any, ...], int]]
) -> UpdateError:
    shown = "; ".join(
        ", ".join(f"{name}={value!r}" for name, value in zip(target.types.names, row, strict=True))
        for row, _ in lacking[:ROWS_IN_ERROR]
    )
    missing = sum(times for _, times in lacking)
    return UpdateError(
        f"{target.name}: {missing} of the {rows.num_rows} rows to delete "
        f"{'is' if missing == 1 else 'are'} not there: {shown}"
        f"{'; …' if len(lacking) > ROWS_IN_ERROR else ''}."
    )


def _counted(target: UpdateTarget, rows: pa.Table) -> list[tuple[tuple[Any, ...], int]]:
    columns = [map(_comparable, rows.column(name).to_pylist()) for name in target.types.names]
    return list(Counter(zip(*columns, strict=True)).items())


def _comparable(value: Any) -> Any:
    """Lists as tuples, which can be counted."""
    return tuple(value) if isinstance(value, list) else canonical(value)


# -- replacing ------------------------------------------------------------------------------------


def replacement(target: UpdateTarget, what: Any, key: Columns | None = None) -> Change:
    """Insert rows in place of those that have the same key."""
    rows = target.read(what, here=True)
    columns = _key(target, key)
    keys = rows.select(columns)
    if len(set(zip(*(column.to_pylist() for column in keys.columns), strict=True))) < len(rows):
        raise UpdateError(
            f"{target.name}: several of the rows to put in have the same {', '.join(columns)}."
        )
    gone = _deletion(target, lambda part: target.engine.matching(part, keys))
    return Change((*gone.inserted, rows), gone.deleted)


def _key(target: UpdateTarget, given: Columns | None) -> list[str]:
    if given is not None:
        names = [given] if isinstance(given, str) else list(given)
        if not names:
            raise UpdateError(f"{target.name}: a key has at least one column.")
        return [target.column(name) for name in names]
    unique = [key for key in dict.fromkeys(_join_columns(target)) if _is_unique(target, key)]
    if len(unique) != 1:
        listed = " and ".join(", ".join(key) for key in unique)
        reason = f"both {listed} tell" if unique else "no columns that it joins on tell"
        raise UpdateError(
            f"{target.name}: {reason} its rows apart, so say which rows are replaced: "
            "key='column', or a list of columns."
        )
    return list(unique[0])


def _join_columns(target: UpdateTarget) -> Iterator[tuple[str, ...]]:
    """The columns of each join of the relation, where rows have them all."""
    for join in target.schema.joins:
        sides = zip((join.left, join.right), zip(*join.pairs, strict=True), strict=True)
        for name, columns in sides:
            if name == target.name and target.relation.derived.keys().isdisjoint(columns):
                yield columns


def _is_unique(target: UpdateTarget, columns: Sequence[str]) -> bool:
    attribute_of, table = target.schema.attribute_of, target.relation.table
    names = {attribute_of[target.name, column]: column for column in columns}
    contraction = Contraction((Input(table, names),), (Output((0,), (), tuple(names), ()),))
    (distinct,) = Linear(contraction, (None,)).tables(target.engine)
    return distinct.rows == table.rows


# -- assigning values -----------------------------------------------------------------------------


def replacement_or_assignment(target: UpdateTarget, what: Any) -> Change:
    """What a what-if's `update` takes: rows by their key, or values, for all rows or some."""
    condition = None
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], Mapping):
        what, condition = what
    if isinstance(what, Mapping) and all(isinstance(value, str) for value in what.values()):
        return assignment(target, what, condition)
    return replacement(target, what)


def assignment(target: UpdateTarget, values: Mapping[str, str], where: str | None) -> Change:
    """Give columns other values, in the rows for which a condition is true (or in all)."""
    formulas = {
        target.column(name): target.schema.inlined(parse(text, target.resolve), (target.name,))
        for name, text in values.items()
    }
    old = _deletion(target, _selection(target, where) if where is not None else lambda part: part)
    new = [_assigned(target, rows, formulas) for rows in old.deleted]
    deleted_before = [_assigned(target, rows, formulas) for rows in old.inserted]
    return Change((*old.inserted, *new), (*old.deleted, *deleted_before))


def _assigned(target: UpdateTarget, part: Rows, formulas: Mapping[str, Expression]) -> pa.Table:
    from calitree.sql.evaluator import evaluate

    rows, types = target.arrow(part), target.types
    columns = target.schema.input_of(target.name).attributes
    old = {attribute: rows.column(column) for attribute, column in columns.items()}
    for column, formula in formulas.items():
        values = evaluate(formula.node, old, rows.num_rows)
        field = types.field(column)
        new = fitted(values, field.type)
        if new is None:
            value = first_misfit(values, field.type)
            raise UpdateError(
                f"{target.name}.{column} is {field.type} and cannot be {formula}, which is "
                f"{values.type}: {value!r} does not fit. Cast it."
            )
        rows = rows.set_column(types.get_field_index(column), field, new)
    return rows
