"""The table of scalar functions is complete: what it names is there."""

from __future__ import annotations

from importlib import import_module

import pytest
from sqlglot import exp

from calitree.sql.functions import FUNCTIONS
from tests.support.expression_cases import TEXTS, expression

KERNELS = {node: row.kernel for node, row in FUNCTIONS.items() if row.kernel}
NO_FUNCTIONS = (exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null)


@pytest.mark.parametrize("node", KERNELS, ids=lambda node: node.__name__)
def test_every_kernel_is_there(node: type[exp.Expr]) -> None:
    module, _, name = KERNELS[node].rpartition(".")
    assert callable(getattr(import_module(f"calitree.sql.kernels.{module}"), name))


@pytest.mark.parametrize("node", KERNELS, ids=lambda node: node.__name__)
def test_operands_are_arguments_of_the_node(node: type[exp.Expr]) -> None:
    assert set(FUNCTIONS[node].operands) <= set(node.arg_types)


def test_every_function_has_a_case_that_all_evaluators_are_compared_on() -> None:
    used = {type(part) for text in TEXTS for part in expression(text).node.bfs()}
    assert set(KERNELS) <= used


def test_canonical_forms_have_no_other_nodes() -> None:
    used = {type(part) for text in TEXTS for part in expression(text).node.bfs()}
    details = {exp.DataType, exp.Var}
    assert used - details - set(NO_FUNCTIONS) <= set(FUNCTIONS)
