"""The part of a manifest that is the tree, as data: joins, attributes, bags, measures, the pivot, streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from calitree.calibration.state import Mode
from calitree.jointree.joins.join import AsOf, Join
from calitree.query.custom.aggregate import CustomMeasure
from calitree.query.grain import GrainMeasure
from calitree.saved.directory import own_name
from calitree.storage.digest import FileDigest
from calitree.storage.file_log import Stamp
from calitree.storage.json_codec import Count
from calitree.types import Kind

OwnName = Annotated[str, own_name]
Pairs = tuple[tuple[str, str], ...]
BagParts = (
    tuple[str, frozenset[str], tuple[str, ...], frozenset[str]]
    | tuple[str, frozenset[str], tuple[str, ...]]
)
"""A bag: its name, its attributes, its relations, and the attributes that were added to it."""


@dataclass(frozen=True)
class SavedTree:
    """What is neither a relation nor a message. Fields with a default were not in the first format."""

    engine: str
    joins: tuple[tuple[str, str, Pairs], ...]
    attributes: tuple[tuple[str, Pairs, Kind], ...]
    bags: tuple[BagParts, ...]
    edges: Pairs
    measures: dict[str, str | GrainMeasure | CustomMeasure]
    group_by: tuple[str, ...] | dict[str, str]
    where: str | None
    memory_limit: Count
    maintenance: Mode = "lazy"
    hows: tuple[Literal["inner", "left", "right", "full"], ...] = ()
    """What each of `joins` is; all are inner if there are none."""
    matches: tuple[str, ...] = ()
    """Those of `attributes` by which outer joins find partners."""
    added: tuple[str, ...] = ()
    columns: tuple[tuple[str, str, str], ...] = ()
    """Derived columns: the relation, the name and the text of each, in the order of their declaration."""
    cubes: tuple[tuple[tuple[str, ...] | dict[str, str], str | None], ...] = field(
        default=(), metadata={"json": "further"}
    )
    """The pivots of cubes: by what they group, and their filter."""
    as_of: dict[str, AsOf] = field(default_factory=dict)
    """As-of joins, by the relations that are their matches."""
    conditions: tuple[tuple[Count, str], ...] = ()
    """Those of joins, each with the number of its join."""
    bound: dict[str, str] | None = None
    grain: Literal["owner"] | None = None
    """How often rows count in measures that do not say it."""
    streams: dict[str, int] = field(default_factory=dict)
    read_files: dict[str, dict[str, dict[str, Stamp | None]]] = field(default_factory=dict)
    read_segments: dict[str, tuple[OwnName, ...]] = field(default_factory=dict)
    segment_digests: dict[str, FileDigest] = field(default_factory=dict)
    lineage: str = ""
    """An id that all versions of one tree have in common."""
    ids: tuple[str, ...] = ()
    """The ids of the last versions that it goes on from, and its own at the end."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What all versions of one tree have in common."""
        bags = tuple((*bag, frozenset()) if len(bag) == 3 else bag for bag in self.bags)
        return (
            self.joins,
            self.hows,
            self.conditions,
            tuple(self.as_of.items()),
            self.attributes,
            bags,
            self.edges,
            self.columns,
        )

    @property
    def first_joins(self) -> tuple[Join, ...]:
        """Those without relations that were added later."""
        joins = self.declared_joins
        return tuple(j for j in joins if not {j.left, j.right}.intersection(self.added))

    @property
    def declared_joins(self) -> tuple[Join, ...]:
        """The joins as they were declared."""
        hows, conditions = self.hows or ("inner",) * len(self.joins), dict(self.conditions)
        return tuple(
            Join(*join, how, conditions.get(number, ""))
            for number, (join, how) in enumerate(zip(self.joins, hows, strict=True))
        )
