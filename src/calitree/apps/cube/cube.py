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
from html import escape
from math import inf

from calitree.application import application
from calitree.apps.cube.estimate import (
    Estimate,
    attribute_of,
    checked_dims,
    checked_k,
    estimate_of,
    lattice_of,
)
from calitree.apps.cube.lattice import Lattice, subsets
from calitree.calibration.calibrate import cube_messages
from calitree.calibration.message import Message
from calitree.errors import QueryError, did_you_mean
from calitree.progress import Progress
from calitree.query.binder import Measures, Question
from calitree.results.having import Selected
from calitree.results.result import Result
from calitree.wide_table import WideTable

Columns = tuple[str, ...]


class Cube:
    """A calibrated tree whose cuboids of up to k + 1 dimensions need no further message.

    Made by `WideTable.cube`. `query` answers any question, `cuboid` one of the cube's own.

    Attributes:
        wide: The wide table.
        dims: The dimensions, as they were written.
        k: How many of them a pivot groups by at most.
        where: The condition of the cube's rows.
        pivots: The group-bys that are calibrated.
        estimated: What all pivots were expected to take.

    >>> cube = wide.cube(["city", "price"], k=1)
    >>> cube.pivots, len(cube.cuboid(["city", "price"]).plan.computed)
    (((), ('city',), ('price',)), 0)
    """

    def __init__(
        self,
        wide: WideTable,
        dims: Mapping[str, str],
        *,
        k: int,
        where: str | None,
        estimated: Estimate,
    ) -> None:
        self.wide, self.k, self.where = wide, k, where
        self.dims: Columns = tuple(dims)
        self.pivots: tuple[Columns, ...] = ()
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
        """Calibrate the pivots of a cube, as `WideTable.cube` does.

        Args:
            wide: The wide table.
            dims: The columns and expressions that are its dimensions.
            k: How many of them a pivot groups by at most.
            where: An SQL condition that selects rows.
            budget: How many bytes its messages may take.
            progress: A function that is told of each step, or whether to show a bar.

        Returns:
            The cube.

        Raises:
            QueryError: A dimension, k or the budget is wrong.

        >>> from calitree import Cube
        >>> Cube.built(wide, ["city"]).dims
        ('city',)
        """
        named = checked_dims(wide, dims, k)
        if budget is not None and (isinstance(budget, bool | str) or not budget > 0):
            raise QueryError(f"A budget is a positive number of bytes; got {budget!r}.")
        lattice = lattice_of(wide, named, k, where)
        cube = cls(wide, named, k=k, where=where, estimated=estimate_of(lattice))
        cube._calibrate(lattice, budget, progress)
        return cube

    def _calibrate(
        self, lattice: Lattice, budget: int | None, progress: Progress | bool | None
    ) -> None:
        """Add pivots while there is room: by what some really take, others may fit."""
        while True:
            room = inf if budget is None else budget - self.bytes
            pivots = {
                tuple(column for column, attribute in self._attributes.items() if attribute in p): p
                for p in lattice.choose(room)
            }
            if not pivots:
                return
            questions = [Question(columns, self.where) for columns in pivots]
            added = self.wide.branch.add_pivots(questions, progress, room)
            lattice.sizes.learn(cube_messages(self.wide.snapshot, added))
            taken = [tuple(question.group_by) for question in added]
            lattice.take([pivots.pop(columns) for columns in taken])
            lattice.refused |= set(pivots.values())
            self.pivots += tuple(taken)

    @staticmethod
    def estimate(
        wide: WideTable, dims: Sequence[str], k: int = 1, *, where: str | None = None
    ) -> Estimate:
        """What a cube would take, without building it.

        Args:
            wide: The wide table.
            dims: The columns and expressions that are its dimensions.
            k: How many of them a pivot groups by at most.
            where: An SQL condition that selects rows.

        Returns:
            How many pivots and messages, and at most how many bytes.

        Raises:
            QueryError: A dimension or k is wrong.

        >>> from calitree import Cube
        >>> Cube.estimate(wide, ["city", "price"], k=2).pivots
        4
        """
        return estimate_of(lattice_of(wide, checked_dims(wide, dims, k), k, where))

    # -- asking ----------------------------------------------------------------------------------

    def query(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Result:
        """Answer any question, as `WideTable.query` does, from the pivots that leave the least to do.

        Args:
            group_by: Columns to group by.
            where: An SQL condition; that of the cube is not implied.
            measures: Names of measures, or `{name: expression}`; None means those of the tree.
            relations: The relations to join, as for `WideTable.query`; None means all.

        Returns:
            The answer.

        Raises:
            QueryError: The question names something that is not there.

        >>> wide.cube(["city"]).query(["city"], where="price < 15").rows()
        [{'city': 'Quito', 'revenue': 10}, {'city': 'Cuenca', 'revenue': 5}]
        """
        return self.wide.query(group_by, where, measures, relations)

    def cuboid(self, columns: Sequence[str], having: str | None = None) -> Result | Selected:
        """The measures by some of the dimensions.

        Args:
            columns: Dimensions, by any name of theirs.
            having: A condition on dimensions and measures that selects groups (an iceberg cuboid).

        Returns:
            The groups.

        Raises:
            QueryError: A column is no dimension of this cube.

        >>> wide.cube(["city"]).cuboid(["city"], having="revenue > 10").rows()
        [{'city': 'Quito', 'revenue': 30}]
        """
        if isinstance(columns, str):
            raise QueryError(f"A cuboid has a list of columns; write cuboid([{columns!r}]).")
        for column in columns:
            attribute = attribute_of(self.wide, column)
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
        """All cuboids of up to k + 1 dimensions, small ones first.

        Args:
            k: One less than the most dimensions; None means the cube's own.
            having: A condition on dimensions and measures that selects groups.

        Returns:
            For each cuboid its columns and its groups, one at a time.

        Raises:
            QueryError: k is no number of dimensions.

        >>> [(columns, len(groups)) for columns, groups in wide.cube(["city"]).cuboids()]
        [((), 1), (('city',), 2)]
        """
        most = min((self.k if k is None else checked_k(k)) + 1, len(self.dims))
        for columns in subsets(self.dims, most):
            yield columns, self.cuboid(columns, having)

    # -- what it takes ---------------------------------------------------------------------------

    @property
    def left_out(self) -> tuple[Columns, ...]:
        """The group-bys for which the budget had no room."""
        return tuple(c for c in subsets(self.dims, self.k) if c not in self.pivots)

    @property
    def messages(self) -> int:
        """How many messages it has beside the tree's own."""
        return len(self._messages())

    @property
    def bytes(self) -> int:
        """The size of these messages."""
        return sum(message.table.nbytes for message in self._messages())

    def _messages(self) -> list[Message]:
        questions = [Question(columns, self.where) for columns in self.pivots]
        return cube_messages(self.wide.snapshot, questions)

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
        return "\n".join(["Cube", *(f"  {name:<{width}}  {fact}" for name, fact in facts.items())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>"
            for name, fact in self._facts().items()
        )
        return f"<table><caption>Cube</caption><tbody>{rows}</tbody></table>"


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
    """Calibrate every pivot that groups by up to `k` of these columns.

    They are kept, refreshed and saved with the tree. Cuboids of up to k + 1 columns then need no further
    message. `Cube.estimate` returns what it would take.

    Args:
        wide: The wide table.
        dims: The dimensions; two columns that are joined are the same one.
        k: How many of them a pivot groups by at most.
        where: An SQL condition that selects rows; that of the tree's pivot is not inherited.
        budget: How many bytes the messages may take; the most useful pivots come first.
        progress: A function that is told of each step; True shows a bar, False none, None a bar in a
            terminal.

    Returns:
        The cube.

    Raises:
        QueryError: A dimension, k or the budget is wrong, or the table is an earlier version or a
            what-if.

    >>> wide.cube(["city", "price"], k=1).cuboid(["city", "price"], having="revenue > 10").rows()
    [{'city': 'Quito', 'price': 20, 'revenue': 20}]
    """
    return Cube.built(wide, dims, k, where=where, budget=budget, progress=progress)
