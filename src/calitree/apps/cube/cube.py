"""Data cubes over the join, which is never built (paper §4.1).

A cube of some dimensions is a calibrated tree with more pivots: all group-bys of up to `k` dimensions, or
as many of them as a budget allows. Cuboids of up to k + 1 dimensions then need no further message; larger
ones need few. Nothing else is stored, so any other question can be asked too, and answers follow updates.

    cube = wide.cube(["stores.city", "items.family", "sales.month"], k=1)
    cube.cuboid(["city", "family"], having="n >= 10")
    for columns, result in cube.cuboids(): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations

from calitree.application import application
from calitree.apps.cube.lattice import Lattice
from calitree.apps.cube.sizes import Carried, Sizes
from calitree.calibration.calibrate import cube_messages
from calitree.calibration.message import Message
from calitree.errors import QueryError, did_you_mean
from calitree.progress import Progress
from calitree.query.binder import Measures, Question
from calitree.results.having import Selected
from calitree.results.result import Result
from calitree.wide_table import WideTable

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """What a cube would take beside the tree's own messages: at most so many bytes."""

    pivots: int
    messages: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.pivots:,} pivots, {self.messages:,} messages, at most {self.bytes:,} bytes"


class Cube:
    """Made by `WideTable.cube`. `query` answers any question, `cuboid` one of the cube's own.

    `pivots` are the group-bys that are calibrated, `left_out` those for which the budget had no room,
    and `estimated` is what all of them were expected to take.
    """

    def __init__(
        self,
        wide: WideTable,
        dims: Mapping[str, str],
        k: int,
        where: str | None,
        pivots: Sequence[Columns],
        estimated: Estimate,
    ) -> None:
        self.wide, self.k, self.where = wide, k, where
        self.dims: Columns = tuple(dims)
        self.pivots = tuple(pivots)
        self.estimated = estimated
        self._attributes = dict(dims)

    @classmethod
    def built(
        cls,
        wide: WideTable,
        dims: Sequence[str],
        k: int = 1,
        *,
        where: str | None = None,
        budget: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Cube:
        """Calibrate the pivots of a cube; see `cube`."""
        named = _dims(wide, dims, k)
        if budget is not None and (isinstance(budget, bool | str) or not budget > 0):
            raise QueryError(f"A budget is a positive number of bytes; got {budget!r}.")
        lattice = Lattice(Sizes(wide, named, where), tuple(named.values()), k)
        estimated = _estimate(lattice)
        names = {attribute: column for column, attribute in named.items()}

        def columns(pivot: Carried) -> Columns:
            return tuple(names[each] for each in named.values() if each in pivot)

        def asked(pivots: Sequence[Carried]) -> list[Question]:
            return [Question(columns(pivot), where) for pivot in pivots]

        while True:
            used = sum(m.table.nbytes for m in cube_messages(wide.snapshot, asked(lattice.taken)))
            room = float("inf") if budget is None else budget - used
            chosen = lattice.choose(room)
            if not chosen:
                break
            added = {
                each.group_by for each in wide.branch.add_pivots(asked(chosen), progress, room)
            }
            fits = [pivot for pivot in chosen if columns(pivot) in added]
            lattice.refused |= set(chosen) - set(fits)
            # By what they really take, there may be room for more.
            lattice.sizes.learn(cube_messages(wide.snapshot, asked(fits)))
            lattice.take(fits)
        return cls(wide, named, k, where, [columns(each) for each in lattice.taken], estimated)

    @staticmethod
    def estimate(
        wide: WideTable, dims: Sequence[str], k: int = 1, *, where: str | None = None
    ) -> Estimate:
        """What a cube would take, without building it."""
        named = _dims(wide, dims, k)
        return _estimate(Lattice(Sizes(wide, named, where), tuple(named.values()), k))

    # -- asking ----------------------------------------------------------------------------------

    def query(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Result:
        """Answer any question, as `WideTable.query` does: from the messages of whichever pivots leave
        the least to do.
        """
        return self.wide.query(group_by, where, measures, relations)

    def cuboid(self, columns: Sequence[str], having: str | None = None) -> Result | Selected:
        """The measures by some of the dimensions; with `having`, only the groups for which a condition
        on dimensions and measures is true (an iceberg cuboid).
        """
        if isinstance(columns, str):
            raise QueryError(f"A cuboid has a list of columns; write cuboid([{columns!r}]).")
        for column in columns:
            attribute = self.wide.schema.column(column).attribute
            if attribute not in self._attributes.values():
                hint = did_you_mean(column, self.dims)
                raise QueryError(
                    f"{column} is no dimension of this cube.{hint} `query` answers any question."
                )
        result = self.query(list(columns), self.where)
        return result if having is None else result.having(having)

    def cuboids(
        self, k: int | None = None, having: str | None = None
    ) -> Iterator[tuple[Columns, Result | Selected]]:
        """All cuboids of up to k + 1 dimensions, small ones first; `k` is the cube's own if it is not
        given.
        """
        most = min((self.k if k is None else _checked(k)) + 1, len(self.dims))
        for size in range(most + 1):
            for columns in combinations(self.dims, size):
                yield columns, self.cuboid(columns, having)

    # -- what it takes ---------------------------------------------------------------------------

    @property
    def left_out(self) -> tuple[Columns, ...]:
        every = (c for size in range(self.k + 1) for c in combinations(self.dims, size))
        return tuple(columns for columns in every if columns not in self.pivots)

    @property
    def messages(self) -> int:
        """How many messages it has beside the tree's own."""
        return len(self._messages())

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(message.table.nbytes for message in self._messages())

    def _messages(self) -> list[Message]:
        return cube_messages(
            self.wide.snapshot, [Question(each, self.where) for each in self.pivots]
        )

    def _facts(self) -> dict[str, str]:
        facts = {"dimensions": ", ".join(self.dims), "k": str(self.k)}
        if self.where is not None:
            facts["where"] = self.where
        out = f", {len(self.left_out):,} left out" if self.left_out else ""
        facts["pivots"] = f"{len(self.pivots):,}{out}"
        facts["messages"] = f"{self.messages:,}"
        facts["bytes"] = f"{self.bytes:,} (estimated: {self.estimated.bytes:,})"
        return facts

    def __repr__(self) -> str:
        facts = self._facts()
        width = max(map(len, facts))
        return "\n".join(["Cube", *(f"  {name:<{width}}  {each}" for name, each in facts.items())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(each)}</td></tr>"
            for name, each in self._facts().items()
        )
        return f"<table><caption>Cube</caption><tbody>{rows}</tbody></table>"


def _dims(wide: WideTable, dims: Sequence[str], k: int) -> dict[str, str]:
    """The dimensions as written, with their attributes, checked."""
    if isinstance(dims, str) or not isinstance(dims, Sequence):
        raise QueryError(f"The dimensions of a cube are a list of columns; got {dims!r}.")
    found: dict[str, str] = {}
    for column in dims:
        attribute = wide.schema.column(column).attribute
        for other, known in found.items():
            if known == attribute:
                same = f"twice: {column}" if other == column else f"both as {other} and as {column}"
                raise QueryError(f"A dimension is named {same}. Name it once.")
        found[column] = attribute
    if _checked(k) > len(found):
        raise QueryError(f"A pivot cannot group by {k} of {len(found)} dimensions; lower k.")
    return found


def _checked(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise QueryError(f"k is how many dimensions a pivot groups by, 0 or more; got {k!r}.")
    return k


def _estimate(lattice: Lattice) -> Estimate:
    every = [m for m in lattice.messages(lattice.pivots) if not lattice.sizes.is_own(m)]
    return Estimate(len(lattice.pivots), len(every), round(lattice.bytes(every)))


@application
def cube(
    wide: WideTable,
    dims: Sequence[str],
    k: int = 1,
    *,
    where: str | None = None,
    budget: int | None = None,
    progress: Progress | bool | None = None,
) -> Cube:
    """Calibrate every pivot that groups by up to `k` of these columns, or as many of them as fit
    a budget of bytes, the most useful first. They are kept, refreshed and saved with the tree.

    Cuboids of up to k + 1 columns then need no further message. Two columns that are joined are
    the same dimension. A cube with `where` is one of the rows for which that holds; as questions
    do, it says all it wants and inherits nothing from the tree's pivot. What it would take,
    `calitree.apps.cube.cube.Cube.estimate` tells.

    >>> from calitree import JoinGraph
    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"store": [1, 1, 2, 2], "month": [1, 2, 1, 1]})
    >>> g.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    >>> g.add_join("sales", "stores", on={"store": "id"})
    >>> cube = g.calibrate({"n": "count(*)"}).cube(["city", "month"], k=1)
    >>> cube.cuboid(["city", "month"], having="n > 1").rows()
    [{'city': 'Cuenca', 'month': 1, 'n': 2}]
    >>> len(cube.cuboid(["city", "month"]).plan.computed)
    0
    """
    return Cube.built(wide, dims, k, where=where, budget=budget, progress=progress)
