"""Answers and saved trees pickle; what belongs to a process says so."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import pickletools
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import calitree as ct
from calitree.errors import DamagedError

MEASURES = {"revenue": "sum(price)", "mean": "avg(price)", "dearest": "max(price)"}
PICKLERS: list[Callable[[Any], bytes]] = [pickle.dumps, cloudpickle.dumps]


def graph(engine: str) -> ct.JoinGraph:
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return graph


@pytest.fixture(params=["local", "reference", pytest.param("spark", marks=pytest.mark.spark)])
def wide(request: pytest.FixtureRequest) -> ct.WideTable:
    if request.param == "spark":
        request.getfixturevalue("spark")
    return graph(request.param).calibrate(MEASURES)


def values(wide: ct.WideTable) -> dict[str, Any]:
    """Everything that comes back from a tree and is a value."""
    result = wide.query(["city"], where="price < 15")
    read = wide.query(["city"])
    assert len(read.groups.rows()) == len(read.having("revenue > 6").rows()) + 1
    return {
        "result": result,
        "total": wide.query(),
        "read": read,
        "selected": read.having("revenue > 6"),
        "groups": read.groups,
        "others": read.groups.without(),
        "rolled up": read.groups.by([]),
        "plan": result.plan,
        "planned": wide.plan(["city"]),
        "query": result.query,
        "key": wide.plan(["city"]).reused[0],
        "question": ct.Question(["city"]),
        "verification": wide.verify(),
    }


def shown(value: Any) -> Any:
    return value.rows() if hasattr(value, "rows") else str(value)


@pytest.mark.parametrize("dumps", PICKLERS)
def test_what_comes_back_pickles(wide: ct.WideTable, dumps: Callable[[Any], bytes]) -> None:
    for name, value in values(wide).items():
        other = pickle.loads(dumps(value))
        assert shown(other) == shown(value), name
        assert type(other) is type(value)
        assert shown(copy.copy(value)) == shown(copy.deepcopy(value)) == shown(value)


def test_an_answer_can_do_elsewhere_what_it_can_here(wide: ct.WideTable) -> None:
    result = wide.query(["city"])
    other = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result))))
    assert other.arrow().equals(result.arrow())
    assert (other.columns, other.kinds, other.exact) == (result.columns, result.kinds, result.exact)
    assert (len(other), repr(other), str(other.plan)) == (2, repr(result), str(result.plan))
    assert other.having("revenue > 6").rows() == result.having("revenue > 6").rows()
    assert other.groups.by([]).rows() == wide.query().rows()
    assert other.frame() is None


def test_a_comparison_of_versions(tmp_path: Path) -> None:
    wide = graph("local").calibrate(MEASURES)
    wide.update("sales", insert=[{"store": 2, "price": 7}])
    difference = wide.diff(0, 1, ["city"])
    other = pickle.loads(pickle.dumps(difference))
    assert other.rows() == difference.rows()
    with pytest.raises(ct.QueryError, match="where the tree is"):
        other.query([])
    assert copy.copy(difference).query([]).rows()


def test_a_saved_tree_pickles_until_it_changes(tmp_path: Path) -> None:
    wide = graph("local").calibrate(MEASURES)
    refused = "A tree that was not saved, or was updated since, belongs to this process"
    with pytest.raises(ct.CalitreeError, match=refused):
        pickle.dumps(wide)
    wide.save(tmp_path / "tree")
    written = pickle.dumps(wide)
    assert len(written) < 1000, "it is where it was saved, not what is in it"
    other = pickle.loads(written)
    assert other.query(["city"]).rows() == wide.query(["city"]).rows()
    assert pickle.loads(pickle.dumps(other)).version == other.version
    assert copy.deepcopy(wide).query().rows() == wide.query().rows()
    wide.update("sales", insert=[{"store": 2, "price": 7}])
    for changed in (wide, wide.what_if(delete={"sales": "price = 7"})):
        for attempt in (pickle.dumps, cloudpickle.dumps, copy.deepcopy):
            with pytest.raises(ct.CalitreeError, match=refused):
                attempt(changed)
    assert copy.copy(wide).query().rows() == wide.query().rows(), "another name of the same tree"
    wide.save()
    newer, older = pickle.loads(pickle.dumps(wide)), pickle.loads(written)
    assert newer.query().rows() == wide.query().rows()
    assert older.query().rows()[0]["revenue"] == 35, "that version, not the newest"


def test_what_has_a_tree_pickles_as_the_tree_does(tmp_path: Path) -> None:
    wide = graph("local").calibrate(MEASURES)
    wide.save(tmp_path / "tree")
    cube = wide.cube(["city"], 1)
    why = wide.why("avg(price)", "city = 'Quito'", attributes=["price"])
    assert pickle.loads(pickle.dumps(cube)).dims == cube.dims
    assert pickle.loads(pickle.dumps(why)).rows() == why.rows()
    wide.update("sales", delete="price = 5")
    with pytest.raises(ct.CalitreeError, match="belongs to this process"):
        pickle.dumps(cube)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_belongs_to_a_process_is_refused(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    declared = graph(engine)
    wide = declared.calibrate(MEASURES)
    (tmp_path / "incoming").mkdir()
    with wide.stream("sales", tmp_path / "incoming") as stream:
        for thing in (declared, wide, wide.engine, wide.tree, wide.schema, stream):
            for attempt in (pickle.dumps, cloudpickle.dumps, copy.deepcopy):
                with pytest.raises(ct.CalitreeError, match="belongs to this process"):
                    attempt(thing)


def test_every_error_pickles() -> None:
    def kinds(base: type[ct.CalitreeError]) -> list[type[ct.CalitreeError]]:
        return [base, *(kind for sub in base.__subclasses__() for kind in kinds(sub))]

    known: dict[str, Any] = {"damage": DamagedError("messages/c0.parquet", "it is empty")}
    for kind in kinds(ct.CalitreeError):
        error = kind(*(known.get(name, "some text") for name in signature(kind).parameters))
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(other), str(other)) == (kind, str(error))
            assert other.__dict__ == error.__dict__


def test_a_pickle_names_only_what_it_is_made_of(tmp_path: Path) -> None:
    """Nothing in it is a function of the operating system, nor code."""
    wide = graph("local").calibrate(MEASURES)
    wide.save(tmp_path / "tree")
    for value in (wide, wide.query(["city"]), wide.query(["city"]).groups):
        # With protocol 0 every class and function stands in the text by its module and name.
        for operation, given, _ in pickletools.genops(pickle.dumps(value, 0)):
            if operation.name == "GLOBAL":
                package = str(given).split(" ")[0].partition(".")[0]
                known = (
                    "calitree",
                    "pyarrow",
                    "numpy",
                    "sqlglot",
                    "_codecs",
                    "copy_reg",
                    "copyreg",
                )
                assert package in known or given in BUILTINS, given


BUILTINS = {
    f"__builtin__ {name}"
    for name in ("bytearray", "frozenset", "getattr", "object", "set", "tuple")
}


def ask(wide: ct.WideTable, result: ct.Result) -> tuple[Any, Any, ct.Result]:
    """What a worker process does."""
    return wide.query(["city"]).rows(), result.rows(), wide.query()


def fail(_: int) -> None:
    raise ct.MissingRelationError("sales", "it is gone")


def test_workers_get_and_return_them(tmp_path: Path) -> None:
    wide = graph("local").calibrate(MEASURES)
    wide.save(tmp_path / "tree")
    result = wide.query(["city"])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        asked, sent, returned = pool.apply(ask, (wide, result))
        with pytest.raises(ct.MissingRelationError, match="sales"):
            pool.apply(fail, (0,))
    assert asked == sent == result.rows()
    assert returned.rows() == wide.query().rows()
