"""The table of scalar functions is complete: what it names is there."""

from __future__ import annotations

from importlib import import_module

import pytest
from sqlglot import exp

from calitree.sql.functions import FUNCTIONS
from calitree.sql.nodes import key_of
from calitree.sql.rules.sketches import BUCKET, CELL
from tests.support.expression_cases import TEXTS, expression

KERNELS = {key: row.kernel for key, row in FUNCTIONS.items() if row.kernel}
NO_FUNCTIONS = (exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null)


CLASSES = [key for key in KERNELS if not isinstance(key, str)]


@pytest.mark.parametrize("key", KERNELS, ids=str)
def test_every_kernel_is_there(key: type[exp.Expr] | str) -> None:
    module, _, name = KERNELS[key].rpartition(".")
    assert callable(getattr(import_module(f"calitree.sql.kernels.{module}"), name))


@pytest.mark.parametrize("node", CLASSES, ids=str)
def test_operands_are_arguments_of_the_node(node: type[exp.Expr]) -> None:
    assert set(FUNCTIONS[node].operands) <= set(node.arg_types)


def test_every_function_has_a_case_that_all_evaluators_are_compared_on() -> None:
    used = {key_of(part) for text in TEXTS for part in expression(text).node.bfs()}
    unwritten = {CELL, BUCKET}  # tests/sql/test_sketches.py compares these
    assert set(KERNELS) <= used | unwritten


def test_canonical_forms_have_no_other_nodes() -> None:
    used = {key_of(part) for text in TEXTS for part in expression(text).node.bfs()}
    details = {exp.DataType, exp.Var}
    assert used - details - set(NO_FUNCTIONS) <= set(FUNCTIONS)
