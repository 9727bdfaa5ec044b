"""An answer as the command line writes it: a table to look at, or a file for another program."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calitree.cli.streams import show, show_data
from calitree.errors import QueryError, did_you_mean
from calitree.interrupts import run
from calitree.results.tabular import Tabular
from calitree.storage.filesystem import check_path

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "parquet")


def check_format(form: str, output: Path | None) -> None:
    """Raise an error for an unknown format, before anything is computed."""
    if form not in FORMATS:
        raise QueryError(f"There is no format {form!r}.{did_you_mean(form, FORMATS)}")
    if form == "parquet" and output is None:
        raise QueryError("Parquet goes into a file: say --output FILE.")


def write(result: Tabular, form: str, output: Path | None) -> None:
    """Write an answer to a file, or to standard output."""
    if output is None:
        text = rendered(result, form)
        show(text.removesuffix("\n")) if form == "table" else show_data(text)
        return
    check_path(str(output))
    content = _parquet(result) if form == "parquet" else rendered(result, form).encode()
    try:
        output.write_bytes(content)
    except OSError as error:
        raise QueryError(f"Cannot write {output}: {error.strerror}.") from error


def rendered(result: Tabular, form: str) -> str:
    """An answer in one of the formats that are text."""
    if form == "table":
        return f"{result.text()}\n" if len(result) else f"{result.text()}\n0 rows\n"
    if form == "csv":
        return _csv(result.arrow())
    return "".join(map(json_line, result.rows()))


def json_line(value: Any) -> str:
    """A value as a line of JSON."""
    return json.dumps(_plain(value), ensure_ascii=False, default=str) + "\n"


def _parquet(result: Tabular) -> memoryview:
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    table = result.arrow()
    run(lambda: parquet.write_table(table, sink), table.num_rows)
    return memoryview(sink.getvalue())


def _csv(table: pa.Table) -> str:
    import pyarrow as pa
    from pyarrow import csv

    for at, field in enumerate(table.schema):
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            shown = [_plain(value) for value in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(shown, pa.string()))
    sink = pa.BufferOutputStream()
    run(lambda: csv.write_csv(table, sink), table.num_rows)
    text: str = sink.getvalue().to_pybytes().decode()
    return text


def _plain(value: Any) -> Any:
    """A value as JSON can write it: other types as text, and bytes as hexadecimal digits."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.isoformat() if hasattr(value, "isoformat") else value
