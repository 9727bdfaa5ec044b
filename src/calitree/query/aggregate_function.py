"""What is known of an aggregate beside its rule: how it is written, and what it gives."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Rule = TypeVar("Rule")


class AggregateFunction(NamedTuple, Generic[Rule]):
    """An aggregate of measures, a row of one of the tables that define them."""

    usage: str
    """How it is written, as in `quantile_cont(x, q)`."""
    about: str
    """What it gives, in one line."""
    rule: Rule
    """What a call of it means."""

    @property
    def name(self) -> str:
        """Its name, as users write it."""
        return self.usage.partition("(")[0]
