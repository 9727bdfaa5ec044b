"""What all tests share: Hypothesis profiles, and one Spark session made for tiny data."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark and compiled kernels are slow the first time they are used, which is no fault of an example.
patient = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, so that a change fails by its own fault only; `thorough` explores.
settings.register_profile("default", patient, derandomize=True)
settings.register_profile("thorough", patient)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Of the CPU time of sixty small joins, no optimising compiler and no threads of a collector for
# large heaps save a half, and interpreting queries instead of compiling each saves a fifth more.
TINY = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A Spark in which a query over a few rows takes some tens of milliseconds."""
    from calitree.engines.spark.session import spark_session

    session = spark_session("local[2]", app_name="calitree tests", config=TINY)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> None:
    """What is there by now (modules, thousands of tests) is not looked at in each collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Python changes from one thread to another every microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that need Spark in one process, as each process would start a JVM."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
