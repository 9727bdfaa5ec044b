"""`python -m benchmarks NAME [options] --json FILE`; without a name, the list of names.

Exit status 0: every contestant gave the same answers. 1: some did not. 2: wrong usage. Bars that
are not met are shown and change nothing: a slow machine is no mistake.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.frame import Benchmark, Race, positive
from benchmarks.registry import BENCHMARKS
from calitree.errors import did_you_mean


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(listing())
        return 0
    benchmark = BENCHMARKS.get(given[0])
    if benchmark is None:
        hint = did_you_mean(given[0], BENCHMARKS)
        print(f"There is no benchmark {given[0]!r}.{hint}", file=sys.stderr)
        return 2
    options = parser_of(benchmark).parse_args(given[1:])
    race = Race(options.repeat, Console(stderr=True))
    complete = False
    try:
        benchmark.run(options, race)
        complete = True
    finally:  # hours of results are not thrown away with the last question
        if options.json is not None:
            asked = {name: value for name, value in vars(options).items() if name != "json"}
            report.write(options.json, report.document(benchmark.name, asked, race, complete))
        if race.results:
            width = None if sys.stdout.isatty() else 140
            report.show(benchmark.name, race, Console(width=width))
    return 1 if race.disagreements else 0


def listing() -> str:
    width = max(map(len, BENCHMARKS))
    lines = ["python -m benchmarks NAME [options] --json FILE", ""]
    lines += [
        f"  {name:<{width}}  {benchmark.summary}" for name, benchmark in sorted(BENCHMARKS.items())
    ]
    return "\n".join([*lines, "", "python -m benchmarks NAME --help tells its options."])


def parser_of(benchmark: Benchmark) -> argparse.ArgumentParser:
    """What all benchmarks take, and what this one adds."""
    parser = argparse.ArgumentParser(
        f"python -m benchmarks {benchmark.name}",
        description=benchmark.summary,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--repeat", type=positive, default=5, help="rounds, of which the median counts"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where generated data is kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the result")
    benchmark.options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
