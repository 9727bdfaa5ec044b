"""ModelFile files: what they say, where their paths lead, and what is wrong in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calitree as ct
from calitree.cli.model import ModelFile
from calitree.errors import ModelError
from tests.support import shop

RELATIONS = '[relations]\nsales = "data/sales"\nstores = "data/stores.csv"\n'
JOIN = '[[joins]]\nleft = "sales"\nright = "stores"\non = {store = "id"}\n'


def rows(file: Path, **question: Any) -> list[dict[str, Any]]:
    model = ModelFile.read(file)
    return model.calibrate(model.graph("local")).query(**question).rows()


def test_a_model_says_what_the_calls_would(tmp_path: Path) -> None:
    model = ModelFile.read(shop.write(tmp_path))
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", str(tmp_path / "data/sales/*.parquet"))
    graph.add_relation("stores", str(tmp_path / "data/stores.csv"))
    graph.add_join("sales", "stores", on={"store": "id"})
    assert repr(model.graph("local")) == repr(graph)
    wide = model.calibrate(model.graph("local"))
    assert wide.measures == {"n": "count(*)", "revenue": "sum(price)"}
    assert wide.query().rows() == [{"n": 4, "revenue": 75}]
    assert wide.verify().ok


def test_a_join_may_have_a_condition(tmp_path: Path) -> None:
    text = JOIN.replace("on = ", 'condition = "price > 6 and store >= id" # ')
    shop.write(tmp_path)
    file = tmp_path / "theta.toml"
    file.write_text(RELATIONS + text)
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", str(tmp_path / "data/sales/*.parquet"))
    graph.add_relation("stores", str(tmp_path / "data/stores.csv"))
    graph.add_join("sales", "stores", condition="price > 6 and store >= id")
    assert rows(file) == graph.calibrate().query().rows()


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = shop.write(tmp_path / "models [1]")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    expected = [{"n": 4, "revenue": 75}]
    assert rows(file) == expected
    assert rows(Path("..") / "models [1]" / "model.toml") == expected
    monkeypatch.chdir(file.parent)
    assert rows(Path("model.toml")) == expected


@pytest.mark.parametrize(
    "sales",
    [
        '"data/sales"',
        '["data/sales/0.parquet", "data/sales/1.parquet"]',
        '"{here}/data/sales/?.parquet"',
        '"file://{here}/data/sales/*.parquet"',
        '"~/data/sales"',
    ],
)
def test_ways_to_name_files(sales: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source = sales.replace("{here}", str(tmp_path))
    file = shop.write(tmp_path, shop.MODEL.replace('"data/sales/*.parquet"', source))
    assert rows(file) == [{"n": 4, "revenue": 75}]


def test_a_single_word_is_a_file_beside_or_a_table(tmp_path: Path) -> None:
    file = shop.write(tmp_path, '[relations]\nsales = "sales"\n')
    assert ModelFile.read(file)._located("sales", "sales") == "sales"
    (tmp_path / "sales").mkdir()
    assert ModelFile.read(file)._located("sales", "sales") == str(tmp_path / "sales")
    assert ModelFile.read(file)._located("sales", "s3://bucket/x") == "s3://bucket/x"


def test_what_may_be_left_out(tmp_path: Path) -> None:
    file = shop.write(tmp_path, '[relations]\nsales = "data/sales"\n')
    assert rows(file) == [{"n": 5}]


def test_the_pivot(tmp_path: Path) -> None:
    pivot = '[pivot]\ngroup_by = ["city"]\nwhere = "price > 5"\n'
    model = ModelFile.read(shop.write(tmp_path, RELATIONS + JOIN + pivot))
    wide = model.calibrate(model.graph("local"))
    assert wide.pivot[:2] == (("city",), "price > 5")
    assert wide.plan(group_by=["city"], where="price > 5").computed == ()


def test_derived_columns_and_named_groups(tmp_path: Path) -> None:
    columns = '[columns]\nsales.dear = "price > 15"\nstores.capital = "city = \'Quito\'"\n'
    pivot = '[pivot]\ngroup_by = {dear = "dear", initial = "left(city, 1)"}\n'
    file = shop.write(tmp_path, RELATIONS + columns + JOIN + pivot)
    model = ModelFile.read(file)
    wide = model.calibrate(model.graph("local"))
    assert wide.plan(group_by={"dear": "dear", "initial": "left(city, 1)"}).computed == ()
    asked = {"group_by": ["dear", "capital"]}
    assert wide.query(**asked).columns == ["dear", "capital", "n"]
    assert wide.verify([asked]).ok


def test_what_editors_leave_before_the_text(tmp_path: Path) -> None:
    file = shop.write(tmp_path)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert rows(file) == [{"n": 4, "revenue": 75}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ' names no relation: [relations], then name = "path".'),
        (
            "[relations\n",
            " is not TOML: Expected ']' at the end of a table declaration (at line 1, column 11).",
        ),
        ("relations = 5\n", ": relations is a section, [relations], not 5."),
        (
            '[relation]\nsales = "x"\n',
            ": the file has 'relation', which means nothing. Did you mean relations?",
        ),
        (
            "[views]\n",
            ": the file has 'views', which means nothing. There are: columns, joins, measures, pivot, "
            "relations.",
        ),
        ("[relations]\nsales = 5\n", ": relation sales is a path or a table, not 5."),
        ("[relations]\nsales = []\n", ": relation sales is a path or a table, not []."),
        ('[relations]\nsales = ""\n', ": relation sales is a path or a table, not ''."),
        ("joins = 5\n" + RELATIONS, ": each join is a [[joins]] of its own."),
        ('[joins]\nleft = "a"\n' + RELATIONS, ": each join is a [[joins]] of its own."),
        (
            RELATIONS + '[[joins]]\nleft = "sales"\nright = "stores"\n',
            ": join 1 does not say 'on'.",
        ),
        (
            RELATIONS + JOIN + '[[joins]]\nlefts = "sales"\n',
            ": join 2 has 'lefts', which means nothing. Did you mean left?",
        ),
        (RELATIONS + JOIN + "[measures]\nn = 5\n", ": measure n is SQL text, not 5."),
        (
            RELATIONS + JOIN + "[pivot]\nwher = 'x'\n",
            ": [pivot] has 'wher', which means nothing. Did you mean where?",
        ),
        (
            RELATIONS + "[columns]\ndear = 'price > 15'\n",
            ": columns are relation.name = \"expression\", not 'price > 15'.",
        ),
        (
            RELATIONS + "[columns]\nsales.dear = 15\n",
            ": column sales.dear is SQL text, not 15.",
        ),
        (
            RELATIONS + JOIN + "[pivot]\ngroup_by = 'city'\n",
            ": group_by is a list of columns, not 'city'.",
        ),
    ],
)
def test_what_is_wrong_in_a_file(text: str, message: str, tmp_path: Path) -> None:
    file = shop.write(tmp_path, text)
    with pytest.raises(ModelError) as caught:
        rows(file)
    assert str(caught.value) == f"{file}{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RELATIONS, "The join graph is not connected; its parts are: sales; stores."),
        (RELATIONS + JOIN.replace('"stores"', '"store"'), "no relation 'store'. Did you"),
        (RELATIONS + JOIN.replace('"id"', '"ident"'), "stores has no column 'ident'."),
        (RELATIONS + JOIN.replace('{store = "id"}', "5"), "on is a column, a list of columns or"),
        (RELATIONS + JOIN + "[measures]\nm = 'sum(pric)'\n", "column 'pric'. Did you mean price?"),
        (RELATIONS + JOIN + "[pivot]\nwhere = 5\n", "Expected SQL text, got int: 5."),
        (RELATIONS + JOIN + "[pivot]\ngroup_by = [5]\n", "A column is named by text, got int: 5."),
        ('[relations]\nsales = "data/nope*.parquet"\n', "No file matches"),
    ],
)
def test_what_is_wrong_in_what_it_says(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ct.CalitreeError) as caught:
        rows(shop.write(tmp_path, text))
    assert message in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        ModelFile.read(tmp_path / "nope.toml")
    assert str(caught.value) == f"Cannot read {tmp_path}/nope.toml: No such file or directory."
    file = tmp_path / "latin.toml"
    file.write_bytes('[relations]\nx = "é"\n'.encode("latin-1"))
    with pytest.raises(ModelError, match=r"latin.toml is not TOML: 'utf-8' codec"):
        ModelFile.read(file)
