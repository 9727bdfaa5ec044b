"""What was seen of a join graph, as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from calitree.cache import cached_property
from calitree.errors import QueryError, cut, did_you_mean
from calitree.results.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow as pa

Severity = Literal["remark", "warning", "error"]
SEVERITIES: tuple[str, ...] = get_args(Severity)
"""From the least to the worst."""

MAX_SHOWN = 40
"""Characters of an example that are shown."""


@dataclass(frozen=True)
class KeyExample:
    """A key, and how many rows have it.

    Attributes:
        key: Its values, one for each column of the join.
        rows: The number of rows that have it.

    Example:
        >>> from calitree import KeyExample
        >>> print(KeyExample(("N725MQ",), 575))
        'N725MQ' (575)
    """

    key: tuple[Any, ...]
    rows: int

    def __str__(self) -> str:
        shown = ", ".join(cut(_shown(value), MAX_SHOWN) for value in self.key)
        return f"{f'({shown})' if len(self.key) > 1 else shown} ({self.rows:,})"


@dataclass(frozen=True)
class EdgeSide:
    """One side of a join.

    Attributes:
        relation: The name of the relation.
        columns: Its columns that are joined.
        rows: How many rows it has.
        keys: How many different keys, NULL aside.
        most_rows: The most rows that one key has.
        repeated_keys: How many keys have more than one row.
        null_rows: How many rows have a NULL in their key, and so no partner.
        orphan_rows: How many rows have no partner, those with a NULL among them.
        orphan_keys: How many keys the other side does not have, NULL aside.
        mean_partners: How many partners a row has on average, of those rows that have any.
        most_partners: The most partners that a row has.

    Example:
        >>> side = graph.check().edges[0].right
        >>> side.relation, side.keys, side.mean_partners, side.most_partners
        ('stores', 2, 1.5, 2)
    """

    relation: str
    columns: tuple[str, ...]
    rows: int
    keys: int
    most_rows: int
    repeated_keys: int
    null_rows: int
    orphan_rows: int
    orphan_keys: int
    mean_partners: float
    most_partners: int

    @property
    def name(self) -> str:
        """The relation and its columns."""
        columns = ", ".join(self.columns)
        return (
            f"{self.relation}.{columns}"
            if len(self.columns) == 1
            else f"{self.relation}({columns})"
        )

    @property
    def orphan_share(self) -> float:
        """Which part of the rows has no partner."""
        return self.orphan_rows / self.rows if self.rows else 0.0

    @property
    def is_unique(self) -> bool:
        """Whether no key has several rows."""
        return self.most_rows <= 1


@dataclass(frozen=True)
class EdgeCheck:
    """A join, and how its two sides meet.

    Attributes:
        join: The join as text.
        how: Which rows it keeps that have no partner: `"inner"`, `"left"`, `"right"` or `"full"`.
        left: One side.
        right: The other.
        matched_keys: How many keys both sides have.
        joined_rows: How many rows the two relations have when they are joined, without other relations and
            without rows that have no partner.

    Example:
        >>> edge = graph.check().edges[0]
        >>> edge.join, edge.matched_keys, edge.joined_rows
        ('sales ⋈ stores on sales.store = stores.id', 2, 3)
    """

    join: str
    how: str
    left: EdgeSide
    right: EdgeSide
    matched_keys: int
    joined_rows: int


@dataclass(frozen=True)
class Finding:
    """Something about a graph that its owner may want to know.

    Attributes:
        severity: `"remark"`: worth knowing; `"warning"`: rows are lost or repeated that are hardly meant
            to be; `"error"`: nothing can come of it.
        kind: What it is, in a word that stays the same: `no-match`, `orphans`, `null-keys`, `repeated-keys`,
            `types`, `spelling`, `empty`, `unjoined`, `not-connected`, `cyclic` or `unusable-column`.
        where: The join, or the relation.
        message: The whole in a sentence.
        rows: How many rows it is about, if it is about rows.
        share: Which part of the relation's rows that is.
        keys: How many different keys these rows have.
        examples: Some of the keys, those with the most rows first.

    Example:
        >>> graph.add_relation("cities", {"city": ["Quito"]})
        >>> graph.add_join("stores", "cities", on="city")
        >>> finding = graph.check().findings[0]
        >>> finding.severity, finding.kind, finding.rows, str(finding.examples[0])
        ('warning', 'orphans', 1, "'Cuenca' (1)")
    """

    severity: Severity
    kind: str
    where: str
    message: str
    rows: int | None = None
    share: float | None = None
    keys: int | None = None
    examples: tuple[KeyExample, ...] = ()

    def __str__(self) -> str:
        listed = f" For example {', '.join(map(str, self.examples))}." if self.examples else ""
        return f"{self.severity:<9}{self.kind}: {self.message}{listed}"


@dataclass(frozen=True, repr=False)
class GraphCheck(Tabular):
    """The outcome of `JoinGraph.check`; it is true if there is nothing worse than a remark.

    As a table it has a row for each finding.

    Attributes:
        edges: The joins with their counts.
        findings: What is wrong or worth knowing, the worst first.

    Example:
        >>> checked = graph.check()
        >>> checked.ok, checked.findings
        (True, ())
        >>> print(checked)
        key          rows  keys  NULL  orphans  orphan keys  partners  most
        sales.store     3     2     0        0            0         1     1
        stores.id       2     2     0        0            0       1.5     2
        Nothing was found.
    """

    edges: tuple[EdgeCheck, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing worse than a remark."""
        return not self.at_least("warning")

    def __bool__(self) -> bool:
        return self.ok

    def at_least(self, severity: str) -> tuple[Finding, ...]:
        """The findings of a severity, and those that are worse.

        Args:
            severity: `"remark"`, `"warning"` or `"error"`.

        Returns:
            Some of `findings`.

        Raises:
            QueryError: There is no such severity.

        Example:
            >>> graph.check().at_least("remark")
            ()
        """
        check_severity(severity)
        least = SEVERITIES.index(severity)
        return tuple(f for f in self.findings if SEVERITIES.index(f.severity) >= least)

    def as_dict(self) -> dict[str, Any]:
        """All of it as dictionaries and lists, such as JSON has.

        Returns:
            `ok`, `edges` and `findings`; keys of examples are the values themselves.

        Example:
            >>> graph.check().as_dict()["edges"][0]["left"]["rows"]
            3
        """
        return {"ok": self.ok, **asdict(self)}

    @cached_property
    def _arrow(self) -> pa.Table:
        import pyarrow as pa

        texts = ("severity", "kind", "where", "message")
        fields = [(name, pa.string()) for name in texts]
        fields += [("rows", pa.int64()), ("share", pa.float64()), ("keys", pa.int64())]
        fields += [("examples", pa.list_(pa.string()))]
        rows = [
            {**f.__dict__, "examples": [str(example) for example in f.examples]}
            for f in self.findings
        ]
        return pa.Table.from_pylist(rows, pa.schema(fields))

    def __str__(self) -> str:
        lines = _edge_lines(self.edges)
        by_place: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_place.setdefault(finding.where, []).append(finding)
        for where, findings in by_place.items():
            lines += ["", where, *(f"  {finding}" for finding in findings)]
        return "\n".join(lines if self.findings else [*lines, "Nothing was found."])

    def __repr__(self) -> str:
        return str(self)


def check_severity(severity: str) -> None:
    """Raise an error for what is no severity."""
    if severity not in SEVERITIES:
        hint = did_you_mean(severity, SEVERITIES)
        raise QueryError(f"There is no severity {severity!r}.{hint}")


TITLES: tuple[str, ...] = (
    "key",
    "rows",
    "keys",
    "NULL",
    "orphans",
    "orphan keys",
    "partners",
    "most",
)


def _edge_lines(edges: tuple[EdgeCheck, ...]) -> list[str]:
    """A line for each side of each join, in columns."""
    cells = [TITLES]
    for edge in edges:
        for side, kept in ((edge.left, ("left", "full")), (edge.right, ("right", "full"))):
            share = f" {side.orphan_share:.1%}" if side.orphan_rows else ""
            note = " kept" if side.orphan_rows and edge.how in kept else ""
            cells.append(
                (
                    side.name,
                    *(f"{number:,}" for number in (side.rows, side.keys, side.null_rows)),
                    f"{side.orphan_rows:,}{share}{note}",
                    f"{side.orphan_keys:,}",
                    f"{side.mean_partners:.3g}",
                    f"{side.most_partners:,}",
                )
            )
    if len(cells) == 1:
        return []
    widths = [max(len(row[i]) for row in cells) for i in range(len(TITLES))]
    return [
        "  ".join(
            f"{c:<{w}}" if not i else f"{c:>{w}}"
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | bytes) else str(value)
