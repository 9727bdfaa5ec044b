"""How an answer differs between two versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.errors import QueryError
from calitree.grouping import canonical
from calitree.query.binder import Measures, Question
from calitree.query.groups import GroupBy
from calitree.results.changes import changes, is_number
from calitree.results.result import Result
from calitree.results.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow as pa

Ask = Callable[[Question], tuple[Result, Result]]
"""Answers a question at both versions."""


class Difference(Tabular):
    """The groups whose measures are not the same at two versions, each measure before and after.

    Made by `WideTable.diff`. A measure `n` gives the columns `n_before` and `n_after`, and if it is a
    number `n_change`. A group that was not there before, or is not after, has NULL on that side; counts
    and sums then change from or to 0, and other measures by NULL.

    Attributes:
        before: The answer at the first version.
        after: The answer at the second version.

    >>> second = wide.update("sales", insert=[{"store": 2, "price": 7}])
    >>> wide.diff(0, second, ["city"]).rows()
    [{'city': 'Cuenca', 'revenue_before': 5, 'revenue_after': 12, 'revenue_change': 7}]
    """

    def __init__(self, ask: Ask, question: Question) -> None:
        self._ask = ask
        self.before, self.after = ask(question)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ask": _ask_elsewhere}

    def query(
        self,
        group_by: GroupBy = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Difference:
        """Compare the answers to another question at the same two versions.

        Args:
            group_by: Columns and expressions to group by, as for `WideTable.query`.
            where: An SQL condition.
            measures: Names of measures, or `{name: expression}`; None means those of the tree.
            relations: The relations to join, as for `WideTable.query`; None means all.

        Returns:
            The groups that differ.

        Raises:
            QueryError: The question names something that is not there.

        >>> second = wide.update("sales", insert=[{"store": 2, "price": 7}])
        >>> wide.diff(0, second).query(measures={"n": "count(*)"}).rows()
        [{'n_before': 3, 'n_after': 4, 'n_change': 1}]
        """
        return Difference(self._ask, Question(group_by, where, measures, relations))

    @cached_property
    def _arrow(self) -> pa.Table:
        import pyarrow as pa

        from calitree.sql.kernels.values import MAX_DIGITS, common_type

        keys = [text for text, _ in self.before.query.group_by]
        measures = dict(self.before.query.measures)
        tables = self.before.arrow(), self.after.arrow()
        old, new = (_by_key(table, keys, table.to_pylist()) for table in tables)
        changed = [
            key
            for key in dict.fromkeys((*old, *new))
            if key not in old or key not in new or not _same(old[key], new[key], measures)
        ]
        columns: dict[str, Any] = {}
        for at, name in enumerate(keys):
            values = [(old.get(key) or new[key])[name] for key in changed]
            columns[name] = pa.array(values, tables[0].schema.field(at).type)
        for name, measure in measures.items():
            old_type, new_type = (table.schema.field(name).type for table in tables)
            dtype = common_type(old_type, new_type, digits=MAX_DIGITS)
            sides = []
            for table in tables:
                # An exact number may be a floating-point one on the other side.
                cells = table.column(name).cast(dtype, safe=False).to_pylist()
                by_key = _by_key(table, keys, cells)
                sides.append([by_key.get(key) for key in changed])
            columns[f"{name}_before"] = pa.array(sides[0], dtype)
            columns[f"{name}_after"] = pa.array(sides[1], dtype)
            if is_number(dtype):
                columns[f"{name}_change"] = changes(measure, sides, dtype)
        return pa.table(columns)


def _ask_elsewhere(question: Question) -> tuple[Result, Result]:
    raise QueryError(
        "This comparison was pickled, without the tree: compare other groups where the tree is."
    )


def _by_key(
    table: pa.Table, keys: Sequence[str], values: Sequence[Any]
) -> dict[tuple[Any, ...], Any]:
    """Values, one for each row of a table, by the row's group."""
    groups = (tuple(map(canonical, row.values())) for row in table.select(keys).to_pylist())
    return dict(zip(groups, values, strict=True))


def _same(old: dict[str, Any], new: dict[str, Any], names: Iterable[str]) -> bool:
    # As tuples, since NaN is not equal to itself, but there is only one here.
    before, after = (tuple(canonical(row[name]) for name in names) for row in (old, new))
    return before == after
