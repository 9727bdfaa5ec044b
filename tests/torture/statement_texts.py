"""Random SQL statements over the tables of `tests/apps/select`: valid ones, and ones that were broken."""

from __future__ import annotations

import random

COLUMNS = ("city", "family", "store", "weight", "month(day)", "price > 10", "upper(family)", "qty")
AGGREGATES = (
    "count(*)",
    "sum(price)",
    "avg(price)",
    "min(price)",
    "max(family)",
    "count(city)",
    "sum(price * weight)",
    "sum(qty) FILTER (WHERE family = 'DAIRY')",
    "count(DISTINCT family)",
    "round(avg(qty), 2)",
    "sum(price) / count(*)",
    "coalesce(sum(price), 0) + 1",
    "median(price)",
)
CONDITIONS = (
    "family = 'DAIRY'",
    "price > 5",
    "city IS NULL",
    "city LIKE '%o%'",
    "qty IN (1, 2, 9)",
    "weight BETWEEN 2 AND 3",
    "NOT (price < 9 OR family <> 'EGGS')",
    "day >= DATE '2020-02-01'",
    "price < weight * 5",
    "price > (SELECT avg(price) FROM wide)",
    "family IN (SELECT family FROM wide GROUP BY family HAVING count(*) > 9)",
)
SOURCES = (
    "wide",
    "wide AS w",
    "sales LEFT JOIN stores ON store = id JOIN items USING (item)",
    "sales f JOIN items i ON f.item = i.item LEFT JOIN stores s ON s.id = f.store",
    "sales JOIN stores ON store = id, items WHERE sales.item = items.item",
)
JUNK = (
    *(
        "(",
        ")",
        ",",
        "'",
        "SELECT",
        "FROM",
        "GROUP BY",
        "1",
        "NULL",
        "*",
        "--",
        "/*",
        "wide",
        "OVER ()",
    ),
    *("\0", "é", ";", "$x", "::", "IN"),
)


def block(rng: random.Random) -> str:
    """A SELECT with groups and aggregates."""
    groups = rng.sample(COLUMNS, rng.randint(0, 2))
    measures = rng.sample(AGGREGATES, rng.randint(1, 3))
    items = [f"{text} AS c{i}" for i, text in enumerate([*groups, *measures])]
    source = rng.choice(SOURCES)
    text = f"SELECT {', '.join(items)} FROM {source}"
    conditions = rng.sample(CONDITIONS, rng.choice((0, 0, 1, 2)))
    if conditions:
        text += (" AND " if " WHERE " in source else " WHERE ") + " AND ".join(conditions)
    if groups:
        listed = [str(i + 1) for i in range(len(groups))]
        shape = rng.randint(0, 5)
        if shape == 0:
            text += f" GROUP BY ROLLUP ({', '.join(groups)})"
        elif shape == 1:
            text += f" GROUP BY CUBE ({', '.join(groups)})"
        else:
            text += f" GROUP BY {', '.join(groups if shape == 2 else listed)}"
    if rng.random() < 0.3:
        text += f" HAVING {rng.choice(('count(*) > 3', 'sum(price) > 20', 'min(qty) = 1'))}"
    return text


def statement(rng: random.Random) -> str:
    """A valid statement. Rows are in a given order only where all columns are sorted by."""
    shape = rng.randint(0, 5)
    text = block(rng)
    if shape == 0:
        return f"WITH q AS ({text}) SELECT * FROM q WHERE c0 IS NOT NULL"
    if shape == 1:
        return f"SELECT count(*), max(c0) FROM ({text}) AS t"
    if shape == 2:
        return f"{text} ORDER BY ALL LIMIT {rng.randint(0, 4)}"
    if shape == 3:
        return f"SELECT c0 FROM ({text}) AS t UNION ALL SELECT c0 FROM ({text}) AS u"
    return text


def broken(rng: random.Random) -> str:
    """A statement of which tokens were dropped, doubled, exchanged or put in."""
    tokens = statement(rng).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split(" ")
    for _ in range(rng.randint(1, 3)):
        at, way = rng.randrange(len(tokens)), rng.randint(0, 3)
        if way == 0:
            del tokens[at]
            if not tokens:
                return ""
        elif way == 1:
            tokens.insert(at, tokens[at])
        elif way == 2:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            tokens.insert(at, rng.choice(JUNK))
    return " ".join(tokens)
