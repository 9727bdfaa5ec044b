"""Asks hostile texts one by one, and says which of them ended wrongly, took long or much memory.

Run as a program (`python -m tests.torture.hostile_run SEED COUNT`) it prints what it found as JSON: so a text
that hangs, or ends the process, is found by whoever started it.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import calitree as ct
from calitree.apps.verify.plain import DEFINITIONS, widened_view
from calitree.cli.model import ModelFile
from calitree.sql.quoting import quote
from tests.support.expression_cases import same
from tests.torture.hostile_functions import HostileFunctions
from tests.torture.hostile_texts import HostileTexts, hostile_model, hostile_name
from tests.torture.sql_data import SMALL, table

MAX_SECONDS, MAX_BYTES = 5.0, 1 << 30
HUNG_AFTER = 120
MAX_NULLIFS = 8
"""DuckDB writes each argument twice, so that of forty inside each other none sees the end."""


LONG = ("0000", "9999", "16777216", "5000", "999,", "a" * 99)
"""Parts of texts that make values so long that only one engine is asked."""


class Run:
    """What hostile texts ended with, on one engine."""

    def __init__(self, seed: int, engine: Any = "local") -> None:
        self.seed = seed
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self.slowest, self.slowest_text, self.longest_message = 0.0, "", 0
        self.data = table(seed, SMALL)
        self.wide = _tree(self.data, engine)
        self.wide.query(where="i32 > 1 and s like 'a%'").rows()

    def fault(self, what: str, text: object) -> None:
        self.faults.append(
            f"seed {self.seed}: {what}: {str(text)[:300]!r} ({len(str(text))} characters)"
        )

    def guarded(self, text: object, ask: Any) -> Any:
        """An answer; None where it is an error of calitree, or a fault."""
        before, began = _peak_from_here(), time.process_time()
        try:
            answer = ask()
        except ct.CalitreeError as error:
            self.outcomes[type(error).__name__] += 1
            self.longest_message = max(self.longest_message, len(str(error)))
            answer = None
        except BaseException as error:  # what else leaves the package is what is looked for
            self.fault(f"{type(error).__name__} {str(error)[:200]}", text)
            answer = None
        seconds = time.process_time() - began
        if seconds > self.slowest:
            self.slowest, self.slowest_text = seconds, str(text)[:300]
        if seconds > MAX_SECONDS:
            self.fault(f"{seconds:.1f} s", text)
        if _peak() - before > MAX_BYTES:
            self.fault("1 GB", text)
        return answer

    # -- conditions ------------------------------------------------------------------------------

    def conditions(self, count: int, duck: bool = True) -> None:
        """Conditions, as `where` and inside a measure; DuckDB says what those that are answered mean."""
        source = HostileTexts(self.seed)
        connections = [_duckdb(self.data, defined) for defined in (True, False)] if duck else []
        for number in range(count):
            text = source.one()
            answer = self.guarded(
                text, lambda text=text: self.wide.query(where=text).rows()[0]["n"]
            )
            if number % 3 == 0:
                measure = f"count(*) filter (where {text}\n)"
                measured = self.guarded(measure, lambda m=measure: self._measured(m))
                if answer is not None and measured is not None and answer != measured:
                    self.fault(f"where={answer}, filter={measured}", text)
            if answer is not None:
                self.outcomes["answered"] += 1
                self._compare(text, source.grouped, answer, connections)

    def _measured(self, measure: str) -> Any:
        return self.wide.query(measures={"m": measure}).rows()[0]["m"]

    def _compare(self, text: str, grouped: str | None, answer: int, connections: list[Any]) -> None:
        if text.count("nullif") > MAX_NULLIFS:
            return
        expected = self._asked(text, connections)
        if grouped is not None and answer not in expected:
            self.outcomes["asked in halves"] += 1
            expected = self._asked(grouped, connections)
        if not expected or answer in expected:
            self.outcomes["same"] += bool(expected)
            return
        self.fault(f"ours {answer}, DuckDB {expected}", text)

    def _asked(self, text: str, connections: list[Any]) -> list[int]:
        """What DuckDB answers, where it does."""
        answers: list[int] = []
        for connection in connections:
            try:
                sql = f"SELECT count(*) FROM t WHERE ({text}\n)"
                answers.append(connection.execute(sql).fetchall()[0][0])
            except (duckdb.Error, UnicodeDecodeError):  # of an error that is cut inside a character
                self.outcomes["refused by DuckDB"] += 1
        return answers

    # -- functions and aggregates ----------------------------------------------------------------

    def functions(self, count: int) -> None:
        """Calls as conditions and as groups, and aggregates; the reference engine says what these are."""
        source, other = HostileFunctions(self.seed), _tree(self.data, "reference")
        connections = [_duckdb(self.data, defined=True)]
        for number in range(count):
            if number % 2:
                measure = source.measure()
                answer = self.guarded(measure, lambda m=measure: [self._measured(m)])
                if answer is not None and not any(huge in measure for huge in LONG):
                    self._compare_measure(measure, answer[0], other)
                continue
            text = source.condition()
            answer = self.guarded(text, lambda t=text: self.wide.query(where=t).rows()[0]["n"])
            if answer is not None:
                self.outcomes["answered"] += 1
                if not any(huge in text for huge in LONG):
                    self._compare(text, None, answer, connections)
            if number % 6 == 0:
                scalar = source.scalar()
                self.guarded(scalar, lambda s=scalar: len(self.wide.query([s]).rows()))

    def _compare_measure(self, measure: str, answer: Any, other: ct.WideTable) -> None:
        self.outcomes["measured"] += 1
        try:
            known = other.query(measures={"m": measure}).rows()[0]["m"]
        except ct.CalitreeError:
            self.outcomes["refused by the reference engine"] += 1
            return
        if not _alike(answer, known):
            self.fault(f"ours {answer!r:.100}, the reference engine's {known!r:.100}", measure)

    def joins(self, count: int) -> None:
        """Grains and as-of joins."""
        source = HostileFunctions(self.seed)
        for _ in range(count):
            given = source.argument(), source.argument(), source.tolerance()
            self.guarded(given, lambda given=given: _of_a_grain(given[0]))
            self.guarded(given, lambda given=given: _as_of(*given))

    # -- names -----------------------------------------------------------------------------------

    def names(self, count: int) -> None:
        """Relations, columns and measures of any name; quoted, each can be asked for."""
        random = Random(self.seed)
        for _ in range(count):
            names = [hostile_name(random) for _ in range(4)]
            if names[1] == names[2]:
                continue
            answer = self.guarded(names, lambda names=names: _named(*names))
            if answer is not None:
                self.outcomes["named"] += 1
                if not same(answer, 6):
                    self.fault(f"named {answer}", names)

    # -- model files -----------------------------------------------------------------------------

    def models(self, count: int) -> None:
        """Files for the command line."""
        random = Random(self.seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.toml")
            sales = pa.table({"store": [1, 1, 2], "price": [10, 20, 5]})
            pq.write_table(sales, Path(folder, "sales.parquet"))
            stores = pa.table({"store": [1, 2], "city": ["Quito", "Cuenca"]})
            pq.write_table(stores, Path(folder, "stores.parquet"))
            for _ in range(count):
                content = hostile_model(random)
                path.write_bytes(content)
                answer = self.guarded(content, lambda: _modelled(path))
                if answer is not None:
                    self.outcomes["modelled"] += 1


def _alike(left: Any, right: Any) -> bool:
    """The same, or lists of which each value is."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_alike, left, right))
    return same(left, right)


def _tree(data: pa.Table, engine: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("t", data)
    return graph.calibrate({"n": "count(*)"})


def _named(relation: str, column: str, key: str, measure: str) -> Any:
    graph = ct.JoinGraph("local")
    graph.add_relation(relation, {key: [1, 2], column: [2, 4]})
    graph.add_relation("other", {key: [1, 2]})
    graph.add_join(relation, "other", on=key)
    wide = graph.calibrate({measure: f"sum({quote(relation, column)})"})
    wide.query(group_by=[f"{relation}.{key}"]).rows()
    return wide.query(where=f"{quote(column)} > 0").rows()[0][measure]


def _pair() -> ct.JoinGraph:
    graph = ct.JoinGraph("local")
    graph.add_relation("t", {"k": [1, 1, 2], "at": [1, 2, 3]})
    graph.add_relation("u", {"k": [1, 2, 2], "at": [1, 1, 2], "x": [5, 6, 7]})
    return graph


def _of_a_grain(grain: Any) -> Any:
    graph = _pair()
    graph.add_join("t", "u", on="k")
    measure = ct.measure("sum(x)", grain=grain)
    return graph.calibrate({"m": measure}).query(["t.k"]).rows()


def _as_of(times: Any, key: Any, tolerance: Any) -> Any:
    graph = _pair()
    on = "k" if isinstance(key, int) else key
    graph.add_join("t", "u", on=on, asof=times, tolerance=tolerance, how="left")
    return graph.calibrate({"m": "sum(x)"}).query().rows()


def _modelled(path: Path) -> Any:
    model = ModelFile.read(path)
    return model.calibrate(model.graph("local")).query().rows()


def _duckdb(data: pa.Table, defined: bool) -> Any:
    connection = duckdb.connect(config={"enable_external_access": "false"})
    connection.register("t here", data)
    connection.execute(DEFINITIONS[0])
    if not defined:
        connection.execute(DEFINITIONS[1])
        connection.execute('CREATE VIEW t AS FROM "t here"')
        return connection
    for definition in DEFINITIONS[1:]:
        connection.execute(definition)
    connection.execute(widened_view("t", '"t here"', data.schema))
    return connection


def _peak() -> int:
    """The most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _peak_from_here() -> int:
    """The same, of which Linux forgets what was before: DuckDB's is not held against a later text."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def main() -> None:
    """Ask so many texts, of which a third are functions, a tenth joins, a tenth names and a tenth files."""
    seed, count = map(int, sys.argv[1:3])
    faulthandler.dump_traceback_later(HUNG_AFTER + count, exit=True)
    run = Run(seed)
    run.conditions(count - count // 3 - 3 * (count // 10))
    run.functions(count // 3)
    run.joins(count // 10)
    run.names(count // 10)
    run.models(count // 10)
    result = {"outcomes": run.outcomes, "faults": run.faults, "slowest": run.slowest}
    slowest = {"slowest_text": run.slowest_text, "message": run.longest_message}
    print(json.dumps({**result, **slowest}))


if __name__ == "__main__":
    main()
