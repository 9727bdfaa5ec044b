"""Published databases with known counts, if a folder of them is named by CALITREE_REAL_DATA.

Each is a folder of Parquet files, one a table: chinook, lego_2017, sakila.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import calitree as ct

FOLDER = os.environ.get("CALITREE_REAL_DATA")

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not FOLDER, reason="CALITREE_REAL_DATA names no folder"),
]

Joins = list[tuple[str, str, object]]

CHINOOK: Joins = [
    ("track", "playlisttrack", "TrackId"),
    ("track", "invoiceline", "TrackId"),
    ("invoiceline", "invoice", "InvoiceId"),
]
CHINOOK_ALL: Joins = [
    *CHINOOK,
    ("track", "album", "AlbumId"),
    ("album", "artist", "ArtistId"),
    ("track", "genre", "GenreId"),
    ("track", "mediatype", "MediaTypeId"),
    ("playlisttrack", "playlist", "PlaylistId"),
    ("invoice", "customer", "CustomerId"),
    ("customer", "employee", {"SupportRepId": "EmployeeId"}),
]
LEGO: Joins = [
    ("inventory_parts", "inventories", {"inventory_id": "id"}),
    ("inventory_parts", "parts", "part_num"),
    ("inventory_parts", "colors", {"color_id": "id"}),
    ("inventories", "sets", "set_num"),
    ("sets", "themes", {"theme_id": "id"}),
    ("parts", "part_categories", {"part_cat_id": "id"}),
]
SAKILA: Joins = [
    ("film", "film_actor", "film_id"),
    ("film", "inventory", "film_id"),
    ("inventory", "rental", "inventory_id"),
    ("rental", "payment", "rental_id"),
    ("film_actor", "actor", "actor_id"),
    ("film", "language", "language_id"),
]


def graph(database: str, joins: Joins) -> ct.JoinGraph:
    join_graph = ct.JoinGraph(engine="local")
    for name in dict.fromkeys(name for left, right, _ in joins for name in (left, right)):
        join_graph.add_relation(name, Path(str(FOLDER)) / database / f"{name}.parquet")
    for left, right, on in joins:
        join_graph.add_join(left, right, on=on)  # type: ignore[arg-type]
    return join_graph


def test_chinook() -> None:
    assert graph("chinook", CHINOOK).calibrate().query().rows() == [{"n": 5572}]
    measures = {
        "n": "count(*)",
        "billed": "sum(invoiceline.UnitPrice * Quantity)",
        "longest": "max(Milliseconds)",
        "spread": "stddev(Bytes)",
        "first": "min(artist.Name)",
    }
    checked = graph("chinook", CHINOOK_ALL).calibrate(measures).verify()
    assert checked.ok, str(checked)


def test_lego() -> None:
    wide = graph("lego_2017", LEGO).calibrate({"n": "count(*)", "q": "sum(quantity)"})
    assert wide.query().rows() == [{"n": 580_069, "q": 1_928_811}]
    checked = wide.verify()
    assert checked.ok, str(checked)


def test_lego_many_to_many() -> None:
    """Every pair of inventory lines with the same part and colour: 144 million rows, never built."""
    pairs = ct.JoinGraph(engine="local")
    path = Path(str(FOLDER)) / "lego_2017" / "inventory_parts.parquet"
    pairs.add_relation("a", path)
    pairs.add_relation("b", path)
    pairs.add_join("a", "b", on=["part_num", "color_id"])
    assert pairs.calibrate().query().rows() == [{"n": 144_068_405}]


def test_sakila() -> None:
    wide = graph("sakila", SAKILA).calibrate({"n": "count(*)", "paid": "sum(amount)"})
    assert (
        wide.query(relations=["film", "film_actor", "inventory", "rental", "payment"]).rows()[0][
            "n"
        ]
        == 88_003
    )
    checked = wide.verify()
    assert checked.ok, str(checked)
