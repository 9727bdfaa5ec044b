"""Names as quoted SQL identifiers."""

from __future__ import annotations

from sqlglot import exp


def quote(name: str) -> str:
    """A name of a relation or a column in double quotes.

    >>> quote('the "best" price')
    '"the ""best"" price"'
    """
    return exp.to_identifier(name, quoted=True).sql()
