"""What is true, false or NULL."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import combined, double, kind_of, marked, paren, quoted_sql, sql_text
from calitree.sql.parsing.literal_lists import LiteralList, list_of
from calitree.types import Kind


def comparison(analysis: Analysis, node: exp.Binary) -> Pair:
    """=, <>, <, <=, >, >= and IS [NOT] DISTINCT FROM."""
    left, right = analysis.alike(analysis.normal(node.left), analysis.normal(node.right))
    return type(node)(this=paren(left), expression=paren(right)), Kind.BOOLEAN


def is_(analysis: Analysis, node: exp.Expr) -> Pair:
    """IS NULL, IS TRUE and IS FALSE."""
    inner, kind = analysis.normal(node.this)
    if isinstance(node.expression, exp.Boolean) and kind not in (Kind.BOOLEAN, Kind.NULL):
        raise analysis.fail(f"IS {quoted_sql(node.expression)} needs a condition")
    if not isinstance(node.expression, exp.Boolean | exp.Null):
        raise analysis.fail(f"{quoted_sql(node)} is not supported here")
    return exp.Is(this=paren(inner), expression=node.expression.copy()), Kind.BOOLEAN


def truth_of(node: exp.Expr) -> bool | None:
    """What IS compares with; None for NULL."""
    return None if isinstance(node.expression, exp.Null) else bool(node.expression.this)


def in_(analysis: Analysis, node: exp.Expr) -> Pair:
    """IN a list, of which every value is kept once, in one order."""
    if node.args.get("query") or node.args.get("unnest"):
        raise analysis.fail("IN takes a list of values here, not a query")
    if not node.expressions:
        raise analysis.fail("IN needs at least one value")
    if isinstance(node.this.unnest(), exp.Tuple) or _is_row(node.this):
        return _tuple_in(analysis, node)
    this = analysis.normal(node.this)
    listed = list_of(node)
    given: Iterable[exp.Expr] = node.expressions
    if listed is not None:
        this, compared = _with_list(analysis, this, listed)
        if compared is not None:
            return exp.In(this=paren(this[0]), expressions=[compared.node]), Kind.BOOLEAN
        given = listed.literals
    values = [analysis.normal(value) for value in given]
    for value in values:  # a date, or quoted text, among timestamps becomes one
        needle = analysis.alike(this, value)[0]
        this = needle, kind_of(needle)
    if any(kind is Kind.FLOAT for _, kind in values) and this[1].is_number:
        this = double(*this), Kind.FLOAT  # all are compared as doubles if one is
    items = [analysis.alike(this, value)[1] for value in values]
    by_text = {sql_text(item): item for item in items}
    ordered = [by_text[text] for text in sorted(by_text)]
    return exp.In(this=paren(this[0]), expressions=ordered), Kind.BOOLEAN


def _is_row(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"


def _tuple_in(analysis: Analysis, node: exp.Expr) -> Pair:
    """(a, b) IN ((1, 2), …): never NULL, as fields are compared by IS NOT DISTINCT FROM, as in DuckDB."""
    needles = [analysis.normal(field) for field in node.this.unnest().expressions]
    rows = []
    for row in node.expressions:
        fields = row.unnest().expressions
        if not isinstance(row.unnest(), exp.Tuple) and not _is_row(row):
            raise analysis.fail(f"{quoted_sql(row)} is no tuple of {len(needles)} values")
        if len(fields) != len(needles):
            raise analysis.fail(f"{quoted_sql(row)} does not have {len(needles)} values")
        pairs = [
            analysis.alike(a, analysis.normal(b)) for a, b in zip(needles, fields, strict=True)
        ]
        same = [
            marked(exp.NullSafeEQ(this=paren(a.copy()), expression=paren(b)), Kind.BOOLEAN)
            for a, b in pairs
        ]
        rows.append(combined(exp.And, same) if len(same) > 1 else same[0])
    by_text = {sql_text(row): row for row in rows}
    ordered = [by_text[text] for text in sorted(by_text)]
    return combined(exp.Or, ordered) if len(ordered) > 1 else ordered[0], Kind.BOOLEAN


def _with_list(
    analysis: Analysis, this: Pair, listed: LiteralList
) -> tuple[Pair, LiteralList | None]:
    """What is looked for in a long list, and the list in its kind if no value needs a node."""
    first = next(listed.literals)
    needle = analysis.alike(this, (first, kind_of(first)))[0]
    this = needle, kind_of(needle)
    if listed.kind is Kind.FLOAT and this[1].is_number:
        this = double(*this), Kind.FLOAT
    return this, listed.as_kind(this[1])


def between(analysis: Analysis, node: exp.Expr) -> Pair:
    """BETWEEN as two comparisons."""
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return analysis.normal(exp.And(this=low, expression=high))
