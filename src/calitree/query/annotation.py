"""Annotations of bags: one class for each row of the paper's Table 1, and λ and R⁺, which are ours.

An annotation changes the messages sent from its bag and from every bag downstream, and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calitree.engines.api.contraction import Called, Lifted
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.sql.parser import Expression


@dataclass(frozen=True)
class GroupBy:
    """γ_A: keep A in all messages downstream. On any bag that has A."""

    attribute: str

    def __str__(self) -> str:
        return f"γ({self.attribute})"


@dataclass(frozen=True)
class SumOut:
    """Σ_A: marginalise A again; cancels γ_A for the messages downstream. On any bag that has A."""

    attribute: str

    def __str__(self) -> str:
        return f"Σ({self.attribute})"


@dataclass(frozen=True)
class Exclude:
    """R̄: leave relation R out of the join. On the bag R is mapped to."""

    relation: str

    def __str__(self) -> str:
        return f"without {self.relation}"


@dataclass(frozen=True)
class Detach:
    """R̄ of a relation that made columns equal: A is an attribute of its own, in these relations."""

    attribute: str
    relations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.attribute} by itself"


@dataclass(frozen=True)
class Require:
    """R̄ of the preserved side of an outer join: R, of its optional side, has no default row then."""

    relation: str

    def __str__(self) -> str:
        return f"{self.relation} by itself"


@dataclass(frozen=True)
class Augment:
    """R⁺: join relation R, which the tree did not have at first. On the bag R is mapped to."""

    relation: str

    def __str__(self) -> str:
        return f"with {self.relation}"


@dataclass(frozen=True)
class Update:
    """R*_ver: read R at this revision. On the bag R is mapped to."""

    relation: str
    revision: int

    def __str__(self) -> str:
        return f"{self.relation}@{self.revision}"


@dataclass(frozen=True)
class Select:
    """σ: keep the rows that satisfy a predicate. On any bag that has its attributes."""

    predicate: Expression

    def __str__(self) -> str:
        return f"σ({self.predicate})"


@dataclass(frozen=True)
class Lift:
    """λ: annotate the rows of R with these values instead of with `one`. On the bag R is mapped to."""

    relation: str
    semiring: Semiring
    expressions: tuple[Expression, ...]

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return 500 + sum(part.nbytes for part in self.expressions)

    def __str__(self) -> str:
        return f"λ({', '.join(self.texts)})"

    @property
    def texts(self) -> list[str]:
        """What a row contributes, one text a component."""
        return list(map(str, self.expressions))

    def factor(self, at: int, expressions: tuple[Expression, ...]) -> Lifted:
        """What it contributes to a contraction, over the attributes of an input."""
        return Lifted(at, expressions)


@dataclass(frozen=True)
class PythonLift(Lift):
    """λ by a Python function, of which the expressions are the arguments."""

    function: Callable[..., Any]

    @property
    def texts(self) -> list[str]:
        """What a row contributes."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return [f"{name}({', '.join(map(str, self.expressions))})"]

    def factor(self, at: int, expressions: tuple[Expression, ...]) -> Lifted:
        """What it contributes to a contraction, over the attributes of an input."""
        return Called(at, expressions, self.function)


Annotation = GroupBy | SumOut | Exclude | Detach | Require | Augment | Update | Select | Lift


@dataclass(frozen=True)
class Aggregate:
    """The ⊕-sum, over the joined rows, of the ⊗-product of these lifts.

    It is also the key of a column of a message: there the lifts are those of the relations that the
    message sums up, so COUNT columns (no lifts) serve every measure that is lifted elsewhere.

    With a grain, it is summed over the rows of these relations joined with each other, each once for every
    group that it has a part in. Where a message joins none of them, only its keys matter, not how often
    they occur: those of COUNT serve.
    """

    semiring: Semiring
    lifts: frozenset[Lift] = frozenset()
    grain: frozenset[str] = frozenset()
    """The relations whose rows count once; none if each joined row counts."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, with its lifts."""
        return 500 + sum(lift.nbytes for lift in self.lifts)

    def restricted_to(self, relations: frozenset[str]) -> Aggregate:
        """The aggregate that a message of these relations needs a column for."""
        if self.grain and self.grain.isdisjoint(relations):
            return COUNT
        kept = frozenset(lift for lift in self.lifts if lift.relation in relations)
        grain = self.grain & relations
        if grain == relations:  # Each row that is joined counts.
            grain = frozenset()
        if not kept and self.semiring.is_counted:
            return Aggregate(SUM_PRODUCT, grain=grain) if grain else COUNT
        if len(kept) == len(self.lifts) and len(grain) == len(self.grain):
            return self
        return Aggregate(self.semiring, kept, grain)

    @property
    def rows(self) -> Aggregate:
        """The number of rows that it is summed over."""
        return Aggregate(SUM_PRODUCT, grain=self.grain) if self.grain else COUNT

    @property
    def is_count(self) -> bool:
        """Whether it is a number of rows."""
        return not self.lifts and self.semiring == SUM_PRODUCT

    @property
    def is_one(self) -> bool:
        """Whether every group's value is `one`, so that a message needs no column for it."""
        return not self.lifts and self.semiring.idempotent

    def __str__(self) -> str:
        grain = f" at {', '.join(sorted(self.grain))}" if self.grain else ""
        if not self.lifts:
            name = "COUNT" if self.semiring == SUM_PRODUCT else self.semiring.name.upper()
            return f"{name}{grain}"
        factors = sorted(text for lift in self.lifts for text in lift.texts)
        return f"{self.semiring.name.upper()}({' × '.join(factors)}){grain}"


COUNT = Aggregate(SUM_PRODUCT)
