"""Texts that nobody would write by hand: deep, long, broken, and full of what breaks other programs.

Most begin as a text of `sql_texts`, so that what is left of its meaning can be asked of DuckDB too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from calitree.sql.limits import MAX_CHAIN
from tests.torture.sql_texts import Texts

ODD = (
    *(
        "\0",
        "\ud800",
        "\udfff",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\u00a0",
        "\x07",
        "\x1b[31m",
        "\r",
        "\t",
    ),
    *(
        "\n",
        "😀",
        "é",
        "\ue000",
        "\ue001",
        "ß",
        "ﬁ",
        "＇",
        "；",
        "－",
        "\U0010ffff",
        "\u2028",
        "\\",
    ),
    *(
        "'",
        '"',
        "`",
        "$",
        "$$",
        ";",
        "--",
        "/*",
        "*/",
        "#",
        "@",
        "?",
        ":",
        "::",
        "{",
        "}",
        "[",
        "]",
    ),
    *(
        "(",
        ")",
        ",",
        ".",
        "..",
        "%",
        "^",
        "~",
        "|",
        "||",
        "&",
        "!",
        "=",
        "==",
        "<=>",
        "->",
        "->>",
        ":=",
    ),
)
SOUP = (
    *(
        "and",
        "or",
        "not",
        "is",
        "null",
        "true",
        "in",
        "between",
        "like",
        "ilike",
        "case",
        "when",
        "then",
    ),
    *(
        "else",
        "end",
        "select",
        "from",
        "where",
        "group",
        "by",
        "union",
        "with",
        "as",
        "cast",
        "date",
    ),
    *(
        "interval",
        "extract",
        "distinct",
        "filter",
        "over",
        "exists",
        "any",
        "all",
        "escape",
        "similar",
    ),
    *("to", "glob", "array", "struct", "row", "values", "lambda", "collate", "at", "time", "zone"),
    *("i32", "f64", "s", "b", "d", "ts", "t.i32", "t.", ".s", "1", "0.5", "1e5", "'a'", '"s"', "*"),
    *(
        "+",
        "-",
        "/",
        "=",
        "<",
        ">",
        "(",
        ")",
        ",",
        "::",
        "||",
        "%",
        "^",
        "sum",
        "count",
        "max",
        "abs",
    ),
)
INJECTED = (
    *(
        "; drop table t",
        "'; drop table t; --",
        "1=1) or (1=1",
        ") union select 1 --",
        "1; select 1;",
    ),
    *(
        "(select 1)",
        "(select max(i32) from t) > 1",
        "exists (select 1)",
        "i32 in (select i32 from t)",
    ),
    *(
        "read_csv('/etc/passwd')",
        "getenv('HOME')",
        "pg_sleep(9)",
        "sum(i32) over ()",
        "t.*",
        "*",
        "?",
    ),
    *(
        "$1 = 1",
        ":name = 1",
        "@x",
        "i32 = i32 = i32",
        "1 < i32 < 3",
        "b is",
        "not",
        "case",
        "case end",
    ),
    *(
        "i32 in ()",
        "i32 in (null)",
        "i32 between 1",
        "like 'a'",
        "'a' 'b' = s",
        "s like 'a' escape 'b'",
    ),
    *(
        "/* open",
        "-- only",
        "''",
        '""',
        "'",
        '"',
        "`",
        "",
        " ",
        "()",
        "(())",
        "((i32 > 1)",
        "i32 > 1)",
    ),
    *(
        "lateral",
        "s[1] = 'a'",
        "{'a': 1}.a = 1",
        "[1,2][1] = 1",
        "x -> x",
        "i32 ** 2",
        "i32 // 2 > 1",
    ),
)
NUMBERS = (
    *(
        "1e999999",
        "-1e999999",
        "1e-999999",
        "9" * 20,
        "9" * 39,
        "9" * 400,
        "9" * 5000,
        "0." + "1" * 5000,
    ),
    *(
        "1" + "0" * 38 + ".5",
        "0x10",
        "1_000",
        "1__0",
        "1e",
        "1e+",
        ".5",
        "5.",
        "1.2.3",
        "00001",
        "0b1",
    ),
    *("1e400", "-" * 40 + "1", "- " * 40 + "1", "1e308 * 10", "cast('1e999999999' as double)"),
    *(
        "cast('1e999999999' as int)",
        "round(f64, 999999999)",
        "round(f64, 400)",
        "substring(s, 99999999999)",
    ),
    *(
        "power(f64, 1e308)",
        "i64 * i64 * i64 * i64",
        "substring(s, 1, 9999999999999999999999)",
        "interval 1 day",
    ),
)
TEXTS = (
    *(
        "'" + "a" * 100_000 + "'",
        "'" + "''" * 5000 + "'",
        "'%" * 500 + "'",
        "'\u202eabc'",
        "'a\nb'",
    ),
    *("'\\''", "e'\\x41'", "$$a$$", "x'41'", "u&'\\0041'", "'" + "😀" * 1000 + "'", "lower('İ')"),
)
PATTERNS = (
    "%a" * 30 + "%",
    "%" * 3000,
    "_" * 300,
    "%a%b%" * 20,
    "a" * 5000,
    "(a+)+$",
    "[a-z",
    "\\",
    "%\\%",
)
WRAPPERS = {
    "truth": (
        *("({})", "not {}", "not ({})", "({} or b)", "(c and {})", "({}) is true", "({}) = c"),
        *(
            "case when {} then b else c end",
            "coalesce({}, b)",
            "if({}, b, c)",
            "(b is not null and {})",
        ),
    ),
    "number": (
        *(
            "({})",
            "-{}",
            "- ({})",
            "+({})",
            "abs({})",
            "({} + 1)",
            "(i8 - {})",
            "coalesce({}, i32)",
        ),
        *(
            "case when b then {} end",
            "greatest({}, i16)",
            "cast({} as double)",
            "({} * 2)",
            "({})::double",
        ),
        *(
            "nullif({}, 7)",
            "case {} when 1 then 2 else 3 end",
            "round({})",
            "(({}) / 3)",
            "(({}) % 5)",
        ),
    ),
    "text": (
        *("({})", "lower({})", "trim({})", "({} || s)", "coalesce({}, s2)", "substring({}, 1)"),
        *("case when c then {} else s end", "greatest({}, s)", "nullif({}, 'x')"),
    ),
}
CHAINS = {
    "truth": (" or ", " and ", " or not ", " and b or "),
    "text": (" || ", " || s || "),
}
AROUND = {"truth": "{}", "number": "({}) > 1", "text": "({}) > 'a'"}


class HostileTexts:
    """A source of random hostile conditions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.plain = Texts(seed, shown=False)
        self.grouped: str | None = None
        """The last text in the parentheses that a long sum or product gets, if it is one."""
        self.makers: tuple[Callable[[], str], ...] = (
            *(self.deep, self.deep, self.long, self.long, self.listed, self.mutated, self.mutated),
            *(
                self.mutated,
                self.soup,
                self.injected,
                self.odd_literal,
                self.pattern,
                self.branches,
            ),
        )

    def one(self) -> str:
        """A condition of any form, or what is left of one."""
        self.grouped = None
        text = self.random.choice(self.makers)()
        if self.grouped is None and self.random.random() < 0.15:
            return self.changed(text)
        return text

    def kind(self) -> str:
        return self.random.choice(("truth", "number", "text"))

    def count(self, most: int) -> int:
        """Mostly small, sometimes large."""
        return 1 + int(most * self.random.random() ** 4)

    def deep(self) -> str:
        kind = self.kind()
        text, wrappers = self.plain.of(kind, 1), WRAPPERS[kind]
        one = self.random.choice(wrappers)
        same = self.random.random() < 0.5
        for _ in range(self.count(300)):
            text = (one if same else self.random.choice(wrappers)).replace("{}", text)
        return AROUND[kind].replace("{}", text)

    def long(self) -> str:
        kind = self.kind()
        if kind == "number":
            return self.arithmetic()
        operator = self.random.choice(CHAINS[kind])
        few = [self.plain.of(kind, 1) for _ in range(5)]
        count = self.count(400 if kind == "text" else 1500)
        text = operator.join(self.random.choice(few) for _ in range(count))
        return AROUND[kind].replace("{}", text)

    def arithmetic(self) -> str:
        """A sum or product, whose doubles may be of any size."""
        signs = self.random.choice(("+", "-", "*", "+-"))
        few = [f"({self.plain.of('number', 1)})" for _ in range(5)]
        terms = [
            (signs[at % len(signs)], self.random.choice(few)) for at in range(self.count(1500))
        ]
        self.grouped = AROUND["number"].replace("{}", in_halves(terms))
        return AROUND["number"].replace("{}", from_left(terms))

    def branches(self) -> str:
        whens = [
            f"when {self.plain.of('truth', 1)} then {self.plain.of('number', 0)}"
            for _ in range(self.count(200))
        ]
        return f"case {' '.join(whens)} else 0 end > 1"

    def listed(self) -> str:
        column, make = self.random.choice(
            (
                ("i32", lambda: str(self.random.randrange(-9, 200))),
                (
                    "i64",
                    lambda: str(self.random.choice((0, 1, -1, 2**63 - 1, 2**63, -(2**63), 10**30))),
                ),
                (
                    "f64",
                    lambda: str(
                        self.random.choice((0.5, 1.5, -2.5, 1e16, "0", "1", "1e5", "-0.0"))
                    ),
                ),
                ("dec", lambda: self.random.choice(("1.50", "0", "-1", "2.5", "10.00", "0.001"))),
                ("s", lambda: self.random.choice(("'a'", "'it''s'", "'é'", "'😀'", "''", "'A'"))),
                ("d", lambda: self.random.choice(("'2020-02-29'", "'2021-01-01'", "'1969-12-31'"))),
                ("ts", lambda: self.random.choice(("'2020-02-29 12:30:00'", "'2021-01-01'"))),
            )
        )
        values = [make() for _ in range(self.count(3000))]
        for _ in range(self.random.choice((0, 0, 1, 2))):
            values[self.random.randrange(len(values))] = self.random.choice(
                ("null", "1 + 1", "i32", "'x'", "NULL")
            )
        between = self.random.choice((",", ", ", " ,\n"))
        negated = self.random.choice(("", "", "not "))
        return f"{column} {negated}in ({between.join(values)})"

    def mutated(self) -> str:
        return self.changed(self.plain.condition())

    def changed(self, text: str) -> str:
        """A few characters left out, doubled, exchanged, or others put in."""
        for _ in range(self.random.choice((1, 1, 2, 3, 8))):
            at = self.random.randrange(len(text) + 1)
            to = at + self.random.choice((0, 0, 1, 1, 2, 9))
            new = self.random.choice((*ODD, "", "", text[at:to] * 2, self.random.choice(SOUP)))
            text = text[:at] + new + text[to:]
        return text

    def soup(self) -> str:
        return " ".join(self.random.choice(SOUP) for _ in range(self.count(40)))

    def injected(self) -> str:
        text = self.random.choice(INJECTED)
        return text if self.random.random() < 0.5 else f"{self.plain.condition()} {text}"

    def odd_literal(self) -> str:
        if self.random.random() < 0.5:
            return f"{self.plain.of('number', 0)} {self.random.choice('<>=')} {self.random.choice(NUMBERS)}"
        return f"{self.plain.of('text', 0)} = {self.random.choice(TEXTS)}"

    def pattern(self) -> str:
        return f"s {self.random.choice(('like', 'ilike', 'not like'))} '{self.random.choice(PATTERNS)}'"


Term = tuple[str, str]
"""An operand, and the sign before it, which counts for nothing where it is the first."""


def from_left(terms: Sequence[Term]) -> str:
    """A chain without parentheses."""
    return " ".join((terms[0][1], *(f"{sign} {term}" for sign, term in terms[1:])))


def in_halves(terms: Sequence[Term]) -> str:
    """A chain as `docs/limits.md` says that it is combined."""
    if len(terms) <= MAX_CHAIN:
        return from_left(terms)
    left, right = terms[: len(terms) // 2], terms[len(terms) // 2 :]
    sign = right[0][0]
    if sign == "-":  # a - b + c is a - (b - c)
        right = [("+" if other == "-" else "-", term) for other, term in right]
    return f"({in_halves(left)}) {sign} ({in_halves(right)})"


NAME_PARTS = (*ODD, "a", "b", "SELECT", "x y", "drop table", "%s", "{0}", "<b>", "ａ", "A" * 50)


def hostile_name(random: Random) -> str:
    """A name for a relation, a column or a measure."""
    name = "".join(random.choice(NAME_PARTS) for _ in range(random.choice((1, 1, 2, 3, 6))))
    return name * (2000 if random.random() < 0.02 else 1)


MODEL = """
[relations]
sales = "sales.parquet"
stores = "stores.parquet"

[[joins]]
left = "sales"
right = "stores"
on = "store"

[measures]
n = "count(*)"
revenue = "sum(sales.price)"

[pivot]
group_by = ["stores.city"]
where = "sales.price > 0"
"""
MODEL_LINES = (
    *("x = " + "[" * 3000 + "]" * 3000, "x = " + "{a=" * 2000 + "1" + "}" * 2000),
    *(".".join("a" * 3000) + " = 1", "[" + ".".join("a" * 3000) + "]", "on = 5", "left = []"),
    *("where = 1", "where = ''", "group_by = 'city'", "group_by = [1]", "group_by = [[]]"),
    *("n = 5", "n = ''", "sales = ''", "sales = []", "sales = {}", "sales = 5", "sales = '.'"),
    *("sales = [['sales.parquet']]", "sales = 'http://127.0.0.1:9/x.parquet'"),
    *("sales = '/etc/passwd'", "on = {store = 'store', city = 'x'}", "on = ['store', 'store']"),
    *("on = []", "[[joins]]", "[joins]", "joins = 1", "x = " + "9" * 6000, "x = 1979-05-27"),
    *("x = inf", "\\u0000 = 1", "x = '''" + "a" * 99999, "left = 'nobody'"),
    *("where = '" + "(" * 500 + "'", "n = 'sum(" + "1+" * 5000 + "1)'"),
    "revenue = 'sum(price * (select 1))'",
)


def hostile_model(random: Random) -> bytes:
    """The text of a model file: a good one, and what was done to it."""
    lines = MODEL.splitlines()
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines) + 1)
        action = random.randrange(4)
        if action == 0 and at < len(lines):
            lines[at] = random.choice(MODEL_LINES)
        elif action == 1:
            lines.insert(at, random.choice(MODEL_LINES))
        elif action == 2 and at < len(lines):
            del lines[at]
        else:
            line = lines[at - 1]
            cut = random.randrange(len(line) + 1)
            lines[at - 1] = line[:cut] + random.choice(ODD) + line[cut:]
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        cut = random.randrange(len(content))
        content = content[:cut] + random.randbytes(3) + content[cut:]
    return content
