"""How much memory a piece of work needs at its peak, told by a process that does nothing else."""

from __future__ import annotations

import gc
import multiprocessing
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.questions import MEASURES, star_graph

USED = {
    "sales": ["date", "store", "item", "unit_sales"],
    "oil": ["date"],
    "holiday": ["date"],
    "transactions": ["date", "store"],
    "stores": ["store"],
    "items": ["item"],
}
"""The columns that the pivot reads."""


@dataclass(frozen=True)
class Peak:
    """Resident bytes of a process: before the work, and at most."""

    before: int
    peak: int

    @property
    def bytes(self) -> int:
        return self.peak - self.before


def resident_peak(process: int | str = "self") -> int:
    """The most memory that this process (or, on Linux, another) has had, in bytes.

    Linux's `ru_maxrss` would do, if a new program did not inherit its parent's.
    """
    status = Path(f"/proc/{process}/status")
    if status.exists():
        match = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        if match:
            return int(match[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_of_calibration(files: Mapping[str, Path]) -> Peak:
    """From Parquet to a calibrated tree on the local engine, in a new process."""
    return in_new_process(_calibrate, dict(files))


def in_new_process(work: Callable[[dict[str, Path]], Peak], files: dict[str, Path]) -> Peak:
    """`work` must be a function of a module: the other process imports it."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, files).result()


def _calibrate(files: dict[str, Path]) -> Peak:
    # Once on little, so that libraries and compiled code are in memory before the count begins.
    small = {name: pq.ParquetFile(path).schema_arrow.empty_table() for name, path in files.items()}
    star_graph(small, "local").calibrate(MEASURES, progress=False)
    gc.collect()
    before = resident_peak()
    wide = star_graph(files, "local").calibrate(MEASURES, progress=False)
    assert wide.is_calibrated
    return Peak(before, resident_peak())


def used_bytes(files: Mapping[str, Path]) -> int:
    """The size of the used columns as Arrow, by their types: none holds text or NULLs."""
    total = 0
    for name, columns in USED.items():
        file = pq.ParquetFile(files[name])
        width = sum(_width(file.schema_arrow.field(column).type) for column in columns)
        total += width * file.metadata.num_rows
    return total


def _width(dtype: pa.DataType) -> int:
    return int(dtype.bit_width) // 8
