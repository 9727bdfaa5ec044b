"""The hybrid engine behind a Spark Connect server whose Python has no calitree."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import calitree as ct
from calitree.engines.hybrid import HybridEngine
from calitree.errors import EngineError
from tests.support.cluster import (
    AT_HOME,
    MEASURES,
    OF_THE_FACT,
    bare_python,
    connect_server,
    differences,
    finish,
    star,
    start,
    write_star,
)

pytestmark = pytest.mark.xdist_group("cluster")

MAX_LOCAL_BYTES = 100_000
"""Bytes above which a relation is read by tasks: so are the sales, and nothing else."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    python = bare_python(directory)
    cache = directory / "cache"
    with connect_server(directory, PYSPARK_PYTHON=str(python), XDG_CACHE_HOME=str(cache)) as url:
        yield url


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_star(tmp_path_factory.mktemp("sales"), rows=60_000, files=12))


def ask(remote: str, directory: str) -> dict[str, Any]:
    """All questions, and one that fails; runs in a process of its own, as sessions do not mix."""
    session = ct.spark_session(remote=remote)
    path = list(sys.path)
    engine = HybridEngine(session, in_process=MAX_LOCAL_BYTES)
    wide = star(directory, engine).calibrate(MEASURES)
    answers: dict[str, Any] = {"wrong": differences(directory, wide, AT_HOME + OF_THE_FACT)}
    try:
        wide.query(where="CAST(label AS INT) > 3")
    except EngineError as error:
        answers["error"] = str(error)
    again = star(directory, HybridEngine(session, in_process=MAX_LOCAL_BYTES)).calibrate(
        {"n": "count(*)"}
    )
    answers["again"] = again.query().rows() == wide.query(measures=["n"]).rows()
    return {**answers, "path is as it was": sys.path == path, "kind": type(session).__module__}


def test_answers_over_connect(server: str, sales: str) -> None:
    answers = finish(start(ask, server, sales))
    error = answers.pop("error")
    assert answers == {
        "wrong": [],
        "again": True,
        "path is as it was": True,
        "kind": "pyspark.sql.connect.session",
    }
    assert re.fullmatch(
        r"Spark could not compute messages from sales \(12 splits\): In CAST\(label AS INT\) > 3: "
        r"'l\d+' is not a valid integer; TRY_CAST would give NULL instead\. \(reading .*\)",
        error,
    )
