"""Functions of text."""

from __future__ import annotations

from sqlglot import exp

from calitree.errors import cut
from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import integer_of
from calitree.types import Kind

SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What TRIM removes: every character that Unicode calls a space; tabs and line ends are none."""


PAIRED = (
    "ßŉǰΐΰևẖẗẘẙẚὐὒὔὖᾀᾁᾂᾃᾄᾅᾆᾇᾈᾉᾊᾋᾌᾍᾎᾏᾐᾑᾒᾓᾔᾕᾖᾗᾘᾙᾚᾛᾜᾝᾞᾟᾠᾡᾢᾣᾤᾥᾦᾧᾨᾩᾪᾫᾬᾭᾮᾯᾲᾳᾴᾶᾷᾼ"
    "ῂῃῄῆῇῌῒΐῖῗῢΰῤῦῧῲῳῴῶῷῼﬀﬁﬂﬃﬄﬅﬆﬓﬔﬕﬖﬗ"
)
"""Letters of which Unicode makes two or three in upper case. UPPER makes one letter of one."""
SINGLE_UPPER = {char: char.title() if len(char.title()) == 1 else char for char in PAIRED}
SINGLE_UPPER["ß"] = "ẞ"
SINGLE_LOWER = {"İ": "i"}
"""The same in lower case. Besides, a Σ at the end of a word is a σ as any other."""


def upper(text: str) -> str:
    """UPPER of a Python string."""
    return "".join(SINGLE_UPPER.get(char) or char.upper() for char in text)


def lower(text: str) -> str:
    """LOWER of a Python string."""
    return "".join(SINGLE_LOWER.get(char) or char.lower() for char in text)


def trim(analysis: Analysis, node: exp.Expr) -> Pair:
    """TRIM of spaces at both ends."""
    if node.args.get("expression"):
        raise analysis.fail("TRIM takes one argument; it removes spaces")
    return exp.Trim(this=analysis.operand(node.this, Kind.STRING, "TRIM")), Kind.STRING


def substring(analysis: Analysis, node: exp.Expr) -> Pair:
    """SUBSTRING; its start and its length are constants."""
    result = exp.Substring(this=analysis.operand(node.this, Kind.STRING, "SUBSTRING"))
    for key in ("start", "length"):
        bound = node.args.get(key)
        if bound is not None:
            if not (isinstance(bound, exp.Literal) and bound.is_int and int(bound.name) > 0):
                raise analysis.fail("SUBSTRING takes positive whole numbers")
            if int(bound.name) >= 1 << 31:
                raise analysis.fail(f"no text has {cut(bound.name)} characters")
            result.set(key, bound.copy())
    return result, Kind.STRING


def start_of(node: exp.Expr) -> int:
    """Where a SUBSTRING starts; the first character is 1."""
    return integer_of(node, "start") or 1


def length_of(node: exp.Expr) -> int | None:
    """How many characters a SUBSTRING has at most; None for all."""
    return integer_of(node, "length")


def like(analysis: Analysis, node: exp.Expr) -> Pair:
    """LIKE and ILIKE; the pattern is a constant."""
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise analysis.fail("LIKE takes a quoted pattern")
    text = analysis.operand(node.this, Kind.STRING, "LIKE")
    result = type(node)(this=text, expression=pattern.copy())
    return exp.Not(this=exp.Paren(this=result)) if node.args.get("negate") else result, Kind.BOOLEAN


def pattern_of(node: exp.Expr) -> str:
    """The pattern of LIKE or ILIKE."""
    return str(node.expression.name)
