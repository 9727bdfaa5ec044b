"""What is printed of a parsed text means the same when it is read again."""

from __future__ import annotations

from pathlib import Path

import pytest

import calitree as ct
from calitree.query.carried.holistic_call import text_of
from calitree.sql.parser import parse_node, typed
from tests.support.expression_cases import TEXTS, resolve


def test_every_text_is_read_again_as_it_was() -> None:
    for text in TEXTS:
        expected = typed(parse_node(text), resolve)
        assert typed(parse_node(text_of(parse_node(text))), resolve) == expected, text


@pytest.mark.parametrize("text", ["(i + 1) // 2 * 3", "i // j // 2", "i // (j // 2)", "-i // 2"])
def test_whole_division(text: str) -> None:
    assert sql_of(text_of(parse_node(text))) == sql_of(text)
    assert "//" in sql_of(text)


def sql_of(text: str) -> str:
    return typed(parse_node(text), resolve).sql


def test_a_saved_column_of_whole_division(tmp_path: Path) -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", {"x": [1, 2, 3, 4, 5]})
    graph.add_column("r", "third", "x // 3")
    wide = graph.calibrate({"n": "count(*)"})
    wide.save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", engine="local")
    assert opened.query(["third"], "x > 1").rows() == wide.query(["third"], "x > 1").rows()
