"""The benchmarks there are. A new one is a file with a `BENCHMARK` and a line here."""

from __future__ import annotations

from benchmarks import (
    augment,
    chain,
    cube,
    deletes,
    distinct,
    grain,
    growth,
    joins,
    latency,
    lazy,
    spark_growth,
    spark_star,
    star,
    statements,
    stream,
    text,
    tpcds,
    triangle,
    triangle_updates,
    whatif,
    why,
)
from benchmarks.frame import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        *(star, latency, growth, triangle, spark_star, spark_growth, chain, tpcds),
        *(whatif, lazy, stream, triangle_updates, cube, why, augment, text, joins),
        *(deletes, distinct, grain, statements),
    )
}
