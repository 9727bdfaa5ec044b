"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import calitree
from tests.support.docstrings import namespace

MODULES = [
    name
    for _, name, package in pkgutil.walk_packages(calitree.__path__, "calitree.")
    if not package and name != "calitree.__main__"
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for example in finder.find(importlib.import_module(name)):
        if example.examples:
            example.globs.update(namespace())
            runner.run(example)
    assert runner.failures == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = [
        t for name in MODULES for t in finder.find(importlib.import_module(name)) if t.examples
    ]
    assert len(examples) >= 5
