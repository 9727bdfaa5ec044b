"""Trees that older versions of calitree have saved can be opened, asked and saved again.

Those in `trees/` are of format 3, written before the package was laid out anew: one as calibrated, one with
a pivot of its own, one updated twice with a cube, and one with a relation added.
"""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import calitree as ct
from tests.support.engines import LOCAL, engine_named

TREES = Path(__file__).parent / "trees"

BY_CITY: dict[str, list[dict[str, Any]]] = {
    "plain": [
        {"city": "Cuenca", "n": 2, "revenue": Decimal("7.25"), "mean": 4.0, "top": Decimal("7.25")},
        {
            "city": "Quito",
            "n": 2,
            "revenue": Decimal("30.50"),
            "mean": 2.0,
            "top": Decimal("20.00"),
        },
        {"city": None, "n": 1, "revenue": Decimal("3.00"), "mean": 0.5, "top": Decimal("3.00")},
    ],
    "updated": [
        {
            "city": "Cuenca",
            "n": 3,
            "revenue": Decimal("14.25"),
            "mean": 3.5,
            "top": Decimal("7.25"),
        },
        {"city": "Loja", "n": 1, "revenue": Decimal("3.00"), "mean": 0.5, "top": Decimal("3.00")},
        {
            "city": "Quito",
            "n": 1,
            "revenue": Decimal("10.50"),
            "mean": 1.5,
            "top": Decimal("10.50"),
        },
    ],
}
BY_CITY["pivot"] = BY_CITY["plain"]
BY_CITY["augmented"] = [row for row in BY_CITY["plain"] if row["city"] is not None]
MEASURES = ["n", "revenue", "mean", "top"]


def by_city(wide: ct.WideTable) -> list[dict[str, Any]]:
    rows = wide.query(["city"], measures=MEASURES).rows()
    return sorted(rows, key=lambda row: (row["city"] is None, row["city"]))


@pytest.mark.parametrize("engine", LOCAL)
@pytest.mark.parametrize("tree", BY_CITY)
def test_it_answers(tree: str, engine: str) -> None:
    wide = ct.open(TREES / tree, engine=engine_named(engine))
    assert not wide.query(["city"], measures=MEASURES).plan.computed
    assert not wide.is_calibrated  # the spread has another annotation now
    wide.refresh()
    assert wide.is_calibrated
    assert wide.plan(wide.pivot.group_by, wide.pivot.where).computed == ()
    assert by_city(wide) == BY_CITY[tree]
    assert wide.verify()


@pytest.mark.parametrize("tree", BY_CITY)
def test_it_answers_on_spark(tree: str, spark: Any) -> None:
    assert by_city(ct.open(TREES / tree, engine=spark)) == BY_CITY[tree]


@pytest.mark.parametrize("tree", BY_CITY)
def test_it_goes_on(tree: str, tmp_path: Path) -> None:
    shutil.copytree(TREES / tree, tmp_path / "tree")
    wide = ct.open(tmp_path / "tree", engine="local")
    before = len(list((tmp_path / "tree" / "messages").iterdir()))
    number = wide.save()
    assert len(list((tmp_path / "tree" / "messages").iterdir())) == before, "what is there stays"
    wide.update("stores", delete="city = 'Quito'")
    assert wide.save() == number + 1
    expected = [row for row in BY_CITY[tree] if row["city"] != "Quito"]
    assert by_city(ct.open(tmp_path / "tree", engine="local")) == expected


def test_earlier_versions_are_there_too() -> None:
    assert ct.saved.status(TREES / "updated").versions == (1, 2, 3)
    first = ct.open(TREES / "updated", engine="local", version=1)
    assert by_city(first) == BY_CITY["plain"]
    cuboids = first.query(["city", "family"], measures=["n"])
    assert cuboids.plan.computed == (), "its cube is saved"
