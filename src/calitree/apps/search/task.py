"""The model that tables are searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calitree.apps.regression.linear import LinearRegression, Ridge
from calitree.errors import QueryError
from calitree.wide_table import WideTable

Model = LinearRegression | Ridge


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be predicted, from what, and by which kind of model."""

    wide: WideTable
    model: Model
    target: str
    features: tuple[str, ...]
    where: str | None

    @classmethod
    def of(
        cls, wide: WideTable, model: Any, target: str, features: Sequence[str], where: str | None
    ) -> Task:
        """What `search` was given, checked."""
        if not isinstance(model, LinearRegression | Ridge):
            raise QueryError(
                f"model is a calitree.ml.LinearRegression or Ridge; got {type(model).__name__}."
            )
        if isinstance(features, str):
            raise QueryError(f"features is a list of columns; got {features!r}.")
        return cls(wide, model, target, tuple(features), where)
