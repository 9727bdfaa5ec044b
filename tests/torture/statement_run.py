"""Many random statements: `python -m tests.torture.statement_run SEED COUNT`. Prints faults and counts."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

import duckdb

import calitree as ct
from tests.apps.select.test_statements import assert_same, duck, tree
from tests.torture.statement_texts import broken, statement


def main(seed: int, count: int) -> None:
    rng, outcomes, slowest = random.Random(seed), Counter[str](), 0.0
    for at in range(count):
        text = statement(rng) if at % 4 == 0 else broken(rng)
        began = time.perf_counter()
        try:
            ours = tree("local").sql(text).arrow()
        except ct.CalitreeError as error:
            outcomes[type(error).__name__ + " " + getattr(error, "reason", "")] += 1
            if getattr(error, "line", None) is None:
                outcomes["without a place"] += 1
                print("WITHOUT A PLACE", text, repr(error), sep="\n  ")
            if at % 4 == 0:
                print("REFUSED", text, error, sep="\n  ")
            continue
        except BaseException as error:
            outcomes["foreign"] += 1
            print("FOREIGN", text, repr(error), sep="\n  ")
            continue
        finally:
            slowest = max(slowest, time.perf_counter() - began)
        try:
            theirs = duck().sql(text).to_arrow_table()
        except duckdb.Error:
            outcomes["answered by us alone"] += 1
            continue
        try:
            assert_same(text, ours, theirs)
            outcomes["same"] += 1
        except AssertionError as error:
            outcomes["other"] += 1
            print("OTHER", text, error, sep="\n  ")
    print(dict(outcomes), f"slowest {slowest:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
