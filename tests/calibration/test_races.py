"""What another thread does between a check and what follows from it, done at that point."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct
from calitree.calibration import executor
from calitree.calibration.branch import Branch
from calitree.calibration.planning.plan import Planned
from calitree.calibration.revisions import Change, Updated
from calitree.calibration.snapshot import Snapshot
from calitree.jointree.augment import joinable
from calitree.query.binder import Question


def shop() -> ct.WideTable:
    graph = ct.JoinGraph("reference")
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return graph.calibrate({"revenue": "sum(price)"})


def test_a_what_if_is_compared_with_the_version_that_it_began_with() -> None:
    """If it were compared with the next one, committing it would undo that one's changes."""
    wide = shop()
    first = wide.snapshot
    wide.update("sales", insert=[{"store": 2, "price": 7}])

    class Changing(Branch):
        """Its head is another one whenever it is read."""

        heads = iter((first, wide.snapshot))
        head = property(lambda self: next(self.heads), lambda self, snapshot: None)  # type: ignore[assignment]

    fork = Changing(first).fork()
    assert fork.fork_point is not None
    assert fork.fork_point.snapshot is fork.head is first


def test_a_what_if_that_is_changed_is_not_committed_meanwhile() -> None:
    wide = shop()
    supposed = wide.what_if(delete={"sales": "price = 5"})
    committing = Thread(target=supposed.commit)
    with supposed.branch.lock:
        committing.start()
        committing.join(0.2)
        assert committing.is_alive() and wide.version == 0
    committing.join()
    assert wide.version == 1


def test_a_plan_is_not_kept_for_messages_that_came_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may hold messages that were evicted, which would stay in memory."""
    wide, plan_query = shop(), executor.plan_query
    question = Question(("city",))

    def planned_while_a_message_goes(snapshot: Snapshot, question: Question) -> Planned:
        planned = plan_query(snapshot, question)
        wide.state.store.epoch += 1
        return planned

    monkeypatch.setattr(executor, "plan_query", planned_while_a_message_goes)
    assert not wide.ask(question).plan.computed
    plans = wide.snapshot.cache.plans(wide.state.store.epoch)
    assert plans.get(question.key) is None


def test_a_version_before_that_is_dropped_while_it_is_read() -> None:
    class Dropping(Updated):
        """Another thread loads its parts and drops the version before, once they were seen missing."""

        @property
        def _parts(self) -> None:  # type: ignore[override]
            if hasattr(self, "length"):
                self.before = None

        @_parts.setter
        def _parts(self, parts: Any) -> None: ...

    wide = shop()
    relation = wide.schema.relations["sales"]
    change = Change((pa.table({"store": [2], "price": [7]}),))
    before = Dropping(wide.engine, "sales", relation.table, change, old=0, revision=1)
    now = Updated(wide.engine, "sales", before, change, old=1, revision=2)
    assert sum(part.rows for part in now.plus) == now.rows == 5


@pytest.mark.usefixtures("frequent_switches")
def test_no_two_tables_of_one_name_have_the_same_attributes() -> None:
    """An engine would take their columns for the same."""
    wide = shop()

    def prefix(_: int) -> str:
        table = {"id": [1], "size": [9]}
        return joinable(wide.schema, wide.engine, table, {"stores.id": "id"}, "sizes").prefix

    with ThreadPoolExecutor(8) as pool:
        prefixes = list(pool.map(prefix, range(2_000)))
    assert len(set(prefixes)) == len(prefixes)
