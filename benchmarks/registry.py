"""The benchmarks there are. A new one is a file with a `BENCHMARK` and a line here."""

from __future__ import annotations

from benchmarks import growth, latency, star, triangle
from benchmarks.frame import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    each.name: each
    for each in (star.BENCHMARK, latency.BENCHMARK, growth.BENCHMARK, triangle.BENCHMARK)
}
