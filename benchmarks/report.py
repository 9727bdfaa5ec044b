"""What a run leaves behind: a file to be read by programs, a table to be read by people.

`python -m benchmarks.report FILE…` makes of such files the tables in RESULTS.md.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.frame import Race
from calitree.engines.spark.session.jvm import ensure_java, probe
from calitree.errors import EngineError

LIBRARIES = ("pyspark", "duckdb", "pyarrow", "numpy", "numba", "pandas", "polars", "scikit-learn")


def machine() -> dict[str, Any]:
    """Where it ran, without saying whose it is."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str | None]:
    """Of calitree, of all that it is compared with or runs on; None for what is not installed."""
    versions: dict[str, str | None] = {"calitree": importlib.import_module("calitree").__version__}
    for name in LIBRARIES:
        versions[name] = None
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    versions["java"] = _java() if versions["pyspark"] else None
    return versions


def _java() -> str | None:
    try:
        java = probe(ensure_java() / "bin" / "java")
    except EngineError:
        return None
    return str(java.major) if java else None


def document(name: str, options: Mapping[str, Any], race: Race, complete: bool) -> dict[str, Any]:
    """The content of the result file. `complete` is false where the run was cut short."""
    plain = {
        key: str(value) if isinstance(value, Path) else value for key, value in options.items()
    }
    return {
        "benchmark": name,
        "complete": complete,
        "machine": machine(),
        "versions": versions(),
        "options": plain,
        "results": race.results,
        "disagreements": race.disagreements,
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, default=str) + "\n")


def show(name: str, race: Race, console: Console) -> None:
    """The table, then the disagreements."""
    table = Table(title=f"{name}: medians of {race.repeat} rounds", title_justify="left")
    for title in ("question", "ours", "against", "theirs", "ratio", "bar", "answers"):
        numeric = title in ("ours", "theirs", "ratio")
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for result in race.results:
        table.add_row(
            result["name"],
            _shown_seconds(result),
            result["against"] or "",
            duration(result["against_seconds"]),
            f"{result['ratio']:,.2f}×" if result["ratio"] is not None else "",
            ", ".join(_bars(result["bars"])),
            {True: "agree", False: "[red]DIFFER[/]", None: ""}[result.get("agree")],
        )
    console.print(table)
    for wrong in race.disagreements:
        console.print(f"[red]{wrong['name']}[/]: {wrong['between']} differ: {wrong['difference']}")


def markdown(content: Mapping[str, Any]) -> str:
    """The results of a file as a table for RESULTS.md, what was lost marked."""
    lines = [
        "| question | ours | against | theirs | ratio | bar |",
        "| --- | ---: | --- | ---: | ---: | --- |",
    ]
    for result in content["results"]:
        ratio = result["ratio"]
        lost = ratio is not None and ratio < 1
        cells = (
            result["name"],
            _shown_seconds(result),
            result["against"] or "",
            duration(result["against_seconds"]),
            "" if ratio is None else f"**{ratio:.2f}**" if lost else f"{ratio:,.2f}",
            ", ".join(_bars(result["bars"], "")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown_seconds(result: Mapping[str, Any]) -> str:
    """The time, or of what has none the field that its bar is about."""
    if result["seconds"] is not None:
        return duration(result["seconds"])
    return ", ".join(f"{result[bar['field']]:.3g}" for bar in result["bars"])


def _bars(bars: Iterable[Mapping[str, Any]], colour: str = "yellow") -> Iterable[str]:
    for bar in bars:
        sign, limit = ("≥", bar["at_least"]) if "at_least" in bar else ("≤", bar["at_most"])
        if bar["field"] == "seconds":
            text = f"{sign} {duration(limit)}"
        else:
            text = f"{sign} {round(limit, 2):,g}×"
        missed = f"[{colour}]not met[/]" if colour else "not met"
        yield f"{text} {'met' if bar['met'] else missed}"


def duration(seconds: float | None) -> str:
    """Three digits in a unit that suits them.

    >>> duration(0.0000345), duration(0.0123), duration(2.5)
    ('34.5 µs', '12.3 ms', '2.5 s')
    """
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


if __name__ == "__main__":
    for file in sys.argv[1:]:
        print(f"{markdown(json.loads(Path(file).read_text()))}\n")
