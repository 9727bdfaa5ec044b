"""Names and values as SQL text."""

from __future__ import annotations

import math
from decimal import Decimal

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.parser import parse_node


def quote(*names: str, dialect: str | None = None) -> str:
    """A name as a quoted identifier, or several with a dot between them.

    >>> quote("sales", "unit price")
    '"sales"."unit price"'
    """
    return ".".join(exp.to_identifier(name, quoted=True).sql(dialect) for name in names)


def column_text(relation: str, column: str) -> str:
    """A column of a relation in SQL, with quotes only where it needs them.

    >>> column_text("sales", "price"), column_text("sales", "unit price")
    ('sales.price', '"sales"."unit price"')
    """
    return name_text(relation, column)


def name_text(*names: str) -> str:
    """A name in SQL, or several with a dot between them, with quotes only where they need them.

    >>> name_text("sales"), name_text("unit prices")
    ('sales', '"unit prices"')
    """
    plain = ".".join(names)
    try:
        node = parse_node(plain)
    except ExpressionError:
        return quote(*names)
    parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    return plain if parts == list(names) else quote(*names)


def literal(value: object) -> str:
    """A value as an SQL literal; what is neither a number nor a boolean is written as a string.

    >>> literal(1.5), literal("it's"), literal(True)
    ('1.5', "'it''s'", 'TRUE')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, bool | int | float | Decimal):
        return str(value).upper()
    return exp.Literal.string(str(value)).sql()
