"""Operators bind as in DuckDB: random texts without parentheses have the same tree there."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.parser import parse_node

Tree = Any
"""Nested tuples: an operator and its operands. All constants are alike."""

_OURS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "same",
    exp.NullSafeNEQ: "distinct",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
    exp.DPipe: "||",
    exp.Like: "~~",
    exp.ILike: "~~*",
}
_THEIRS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_NOT_DISTINCT_FROM": "same",
    "COMPARE_DISTINCT_FROM": "distinct",
    "CONJUNCTION_AND": "and",
    "CONJUNCTION_OR": "or",
    "OPERATOR_NOT": "not",
    "OPERATOR_IS_NULL": "null",
    "COMPARE_IN": "in",
}


def flat(operator: str, operands: list[Tree]) -> Tree:
    """AND of several, where DuckDB has no order."""
    parts = [p for o in operands for p in (o[1:] if o[0] == operator else (o,))]
    return (operator, *parts)


def ours(node: exp.Expr) -> Tree:
    """The tree of a parsed text."""
    if isinstance(node, exp.Paren):
        return ours(node.this)
    if isinstance(node, exp.Column):
        return ("column", node.name)
    if isinstance(node, exp.Literal | exp.Null | exp.Boolean):
        return ("constant",)
    if isinstance(node, exp.And | exp.Or):
        return flat(type(node).__name__.lower(), [ours(node.left), ours(node.right)])
    if isinstance(node, exp.Not):
        return ("not", ours(node.this))
    if isinstance(node, exp.Neg):
        inner = ours(node.this)
        return inner if inner == ("constant",) else ("-", inner)
    if isinstance(node, exp.Is):
        return ("null" if isinstance(node.expression, exp.Null) else "truth", ours(node.this))
    if isinstance(node, exp.In):
        return ("in", ours(node.this), *map(ours, node.expressions))
    if isinstance(node, exp.Between):
        return ("between", *(ours(node.args[key]) for key in ("this", "low", "high")))
    if isinstance(node, exp.Cast):
        return ("cast", ours(node.this))
    tree = (_OURS[type(node)], ours(node.this), ours(node.expression))
    return ("not", tree) if node.args.get("negate") else tree


def theirs(node: dict[str, Any]) -> Tree:
    """The tree that DuckDB has of a text."""
    kind, name = node["class"], node["type"]
    if kind == "COLUMN_REF":
        return ("column", node["column_names"][-1])
    if kind == "CONSTANT":
        return ("constant",)
    if kind == "CAST":
        return ("cast", theirs(node["child"]))
    if kind == "BETWEEN":
        return ("between", *(theirs(node[key]) for key in ("input", "lower", "upper")))
    if kind == "COMPARISON":
        left, right = theirs(node["left"]), theirs(node["right"])
        cast = {key: value for key, value in node["left"].items() if key != "child"}
        if left[0] == "cast" and "BOOLEAN" in json.dumps(cast) and right == ("constant",):
            truth = ("truth", left[1])  # IS TRUE, as DuckDB has it
            return truth if _THEIRS[name] == "same" else ("not", truth)
        return (_THEIRS[name], left, right)
    operands = [theirs(o.get("expression", o)) for o in node.get("children") or node["arguments"]]
    if kind == "CONJUNCTION":
        return flat(_THEIRS[name], operands)
    if name == "OPERATOR_IS_NOT_NULL":
        return ("not", ("null", *operands))
    if kind == "OPERATOR":
        return (_THEIRS[name], *operands)
    function = node["function_name"]
    if function == "-" and operands == [("constant",)]:
        return operands[0]
    if function.startswith("!"):
        return ("not", (function[1:], *operands))
    return (function, *operands)


class Parser:
    """DuckDB's."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()

    def tree(self, text: str) -> Tree | None:
        """The tree of a text; None if DuckDB refuses it."""
        sql = "SELECT json_serialize_sql(?)"
        parsed = json.loads(self.connection.execute(sql, [f"SELECT {text}"]).fetchall()[0][0])
        if parsed["error"]:
            return None
        return theirs(parsed["statements"][0]["node"]["select_list"][0])


AFTER = ("is null", "is not null", "is true", "is not false", "isnull", "notnull", "in (a, 1)")
AFTER += ("not in (b)", "::int")
BETWEEN_TWO = ("=", "<>", "<", ">=", "and", "or", "+", "-", "*", "/", "%", "||", "like", "not like")
BETWEEN_TWO += ("ilike", "is distinct from", "is not distinct from", "^", "=", "and", "between")
BETWEEN_TWO += ("not between",)


def random_text(random: Random) -> str:
    """Operands and operators, with no thought of what binds."""
    tokens, open_betweens = [], 0
    count = random.randint(2, 6)
    for i in range(count):
        while random.random() < 0.25:
            tokens.append(random.choice(("not", "-")))
        tokens.append(random.choice(("a", "b", "c", "d", "e", "1", "true", "(a = b)", "(not b)")))
        while random.random() < 0.25:
            tokens.append(random.choice(AFTER))
        if i < count - 1:
            closes = open_betweens and random.random() < 0.8
            operator = "and" if closes else random.choice(BETWEEN_TWO)
            open_betweens += -1 if closes else "between" in operator
            tokens.append(operator)
    return " ".join(tokens)


@pytest.mark.parametrize("seed", range(3))
def test_texts_without_parentheses_have_the_tree_that_duckdb_has(seed: int) -> None:
    random, parser, alike = Random(seed), Parser(), 0
    for _ in range(1_000):
        text = random_text(random)
        expected = parser.tree(text)
        try:
            tree = ours(parse_node(text))
        except ExpressionError:
            continue
        assert expected is not None, f"DuckDB refuses {text}"
        assert tree == expected, text
        alike += 1
    assert alike > 250


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("a < b IS NOT TRUE", "NOT (a < b) IS TRUE"),
        ("NOT a = b IS NULL", "NOT (a = b) IS NULL"),
        ("a = b IS DISTINCT FROM c = d", "(a = b) IS DISTINCT FROM (c = d)"),
        ("a IS NULL = b", "(a IS NULL) = b"),
        ("a = NOT b IS NULL", "a = (NOT b IS NULL)"),
        ("a = b IN (1)", "a = (b IN (1))"),
        ("2 ^ 3 ^ 2", "POWER(POWER(2, 3), 2)"),
        ("date '2020-01-31'::text", "CAST(CAST('2020-01-31' AS DATE) AS TEXT)"),
        ("a::int8", "CAST(a AS BIGINT)"),
    ],
)
def test_examples(text: str, meaning: str) -> None:
    assert parse_node(text).sql() == meaning


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = b = c", "do not chain"),
        ("a < b < c", "do not chain"),
        ("a IS DISTINCT FROM b IS DISTINCT FROM c", "do not chain"),
        ("a LIKE 'x' LIKE 'y'", "parentheses are missing"),
        ("a BETWEEN 1 AND 2 BETWEEN 3 AND 4", "parentheses are missing"),
        ("a BETWEEN 1", "AND is missing after BETWEEN"),
        ("a IS 1", "after IS comes NULL"),
        ("a = 1; b = 2", "without a semicolon"),
        ("a = 1;", "without a semicolon"),
        ("a IS NULL + 1", "'+' is unexpected"),
        ("floor(a", "a parenthesis is not closed"),
        ("a > cast(b as int -- )", "a parenthesis is not closed"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason.replace("+", r"\+")):
        parse_node(text)
