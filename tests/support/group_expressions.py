"""Random expressions to group by, over the columns of random databases."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from tests.support.databases import Database, questions

BY_KIND = {
    "int": (
        "{c} % 3",
        "{c} > 2",
        "{c} + 1",
        "-{c}",
        "abs({c}) * 2",
        "{c} is null",
        "coalesce({c}, 0)",
        "case when {c} > 2 then 'high' when {c} is null then 'none' end",
        "{c} / 2",
    ),
    "float": (
        "floor({c})",
        "round({c}, 0)",
        "{c} > 1.5",
        "{c} / 3",
        "case when {c} > 2 then cast('nan' as double) else {c} end",
        "{c} * 0 - 0",
    ),
    "decimal": ("floor({c})", "{c} * 2", "round({c}, 1)", "{c} < 2.5", "{c} + 1"),
    "string": ("upper({c})", "length({c})", "{c} || 'x'", "substring({c}, 1, 1)", "{c} > 'a'"),
    "date": ("month({c})", "year({c})", "date_trunc('month', {c})", "{c} > '2021-01-30'"),
    "bool": ("not {c}", "{c} is not true", "case when {c} then 1 end"),
}
"""By the kind of a column."""

PAIRS = (
    "{n} > {n2}",
    "{n} + {n2}",
    "coalesce({n}, {n2})",
    "case when {p} then {n} else {n2} end",
    "{n} is null and {n2} is null",
)
"""Over two columns, of one relation or of two."""


def _kind(dtype: Any) -> str:
    text = str(dtype)
    return next(
        kind
        for kind, names in {
            "int": ("int32", "int64"),
            "float": ("double",),
            "decimal": ("decimal",),
            "string": ("string",),
            "date": ("date",),
            "bool": ("bool",),
        }.items()
        if text.startswith(names)
    )


@st.composite
def group_expressions(draw: st.DrawFn, database: Database, among: list[str]) -> str:
    """An expression over one column or two of these relations."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    columns = {
        f"{name}.{field.name}": _kind(field.type)
        for name in among
        for field in database.tables[name].schema
    }
    numbers = [c for c in database.payloads("x", "y", "f", "m") if c.split(".")[0] in among]
    if numbers and draw(st.integers(0, 3)) == 0:
        n, n2 = rng.choice(numbers), rng.choice(numbers)
        return draw(st.sampled_from(PAIRS)).format(n=n, n2=n2, p=f"{n2} > 1")
    column = draw(st.sampled_from(sorted(columns)))
    return draw(st.sampled_from(BY_KIND[columns[column]])).format(c=column)


@st.composite
def questions_by_expressions(
    draw: st.DrawFn, database: Database, exclusions: bool = True
) -> dict[str, Any]:
    """Arguments for `WideTable.query` that group by an expression or two, and perhaps a column."""
    asked = draw(questions(database, exclusions))
    among = asked.get("relations", list(database.tables))
    texts = draw(st.lists(group_expressions(database, among), min_size=1, max_size=2, unique=True))
    asked["group_by"] = [*asked["group_by"][:1], *texts]
    if draw(st.booleans()):
        asked["group_by"] = {f"g{i}": text for i, text in enumerate(asked["group_by"])}
    return asked
