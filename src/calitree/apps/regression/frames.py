"""Rows given to a fitted model: the columns of a frame as numbers, or as the effects of levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.apps.regression.gram import Array
from calitree.apps.regression.solution import Solution
from calitree.errors import QueryError, SchemaError, did_you_mean
from calitree.jointree.schema import find_name
from calitree.storage.frames import arrow_table
from calitree.types import kind_of_arrow


def table_of(frame: Any) -> pa.Table:
    """A frame of any library as an Arrow table."""
    return arrow_table("The frame", frame)


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column by its name as the model has it, or without its relation."""
    for candidate in (name, name.rpartition(".")[2]):
        column = find_name(candidate, table.column_names)
        if column is not None:
            return table.column(column)
    hint = did_you_mean(name, table.column_names)
    raise SchemaError(f"The frame has no column {name!r}.{hint}")


def numbers_of(table: pa.Table, name: str) -> Array:
    """A column as doubles; NULL is NaN."""
    column = column_of(table, name)
    kind = kind_of_arrow(column.type)
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    elif not (kind.is_number or pa.types.is_null(column.type)):
        raise QueryError(f"{name} is {kind.phrase} in the frame, but a number in the model.")
    return np.asarray(pc.cast(column, pa.float64(), safe=False), dtype=np.float64)


def effects_of(table: pa.Table, name: str, effects: Mapping[Any, float]) -> Array:
    """For each row the effect of its level: none if the model does not know it; NaN if it is NULL."""
    column = column_of(table, name)
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    levels = pa.array(list(effects)) if effects else pa.array([], column.type)
    ours, theirs = kind_of_arrow(levels.type), kind_of_arrow(column.type)
    if not ours.meets(theirs):
        raise QueryError(
            f"{name} is {theirs.phrase} in the frame, but its levels in the model are of kind "
            f"{ours.value}."
        )
    if ours is not theirs:
        levels = pc.cast(levels, pa.float64())
        column = pc.cast(column, pa.float64())
    elif levels.type != column.type:
        column = pc.cast(column, levels.type)
    values = np.array([*effects.values(), 0.0])
    at = pc.index_in(column, value_set=levels, skip_nulls=True)
    codes = np.asarray(pc.fill_null(at, len(effects)), dtype=np.int64)
    return np.where(np.asarray(pc.is_null(column), dtype=bool), np.nan, values[codes])


def predictions(solution: Solution, table: pa.Table) -> Array:
    """The prediction for each row; NaN where a feature is missing."""
    predicted = np.full(table.num_rows, solution.base)
    for name, slope in solution.slopes.items():
        predicted += slope * (numbers_of(table, name) - solution.centres[name])
    for name, effects in solution.effects.items():
        predicted += effects_of(table, name, effects)
    return predicted + solution.origin


def r2_of(solution: Solution, table: pa.Table, target: str) -> float:
    """The part of the target's variance that a model explains, over the rows where nothing is missing."""
    y, predicted = numbers_of(table, target), predictions(solution, table)
    known = np.isfinite(y) & np.isfinite(predicted)
    y, predicted = y[known], predicted[known]
    if not len(y):
        raise QueryError("There is no row to score.")
    if len(y) < 2:
        return math.nan
    spread, square = np.sum((y - y.mean()) ** 2), np.sum((y - predicted) ** 2)
    if y.min() == y.max():  # then what is left of the spread is the rounding of the mean
        return 1.0 if square == 0 else 0.0
    return float(1 - square / spread)
