"""Functions of text."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import number
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


_SIDES = {"LEADING": "LTRIM", "TRAILING": "RTRIM", "BOTH": "TRIM", "": "TRIM"}


def trim(analysis: Analysis, node: exp.Expr) -> Pair:
    """TRIM of spaces, or of other characters, at one end or both."""
    given = [node.this, node.args.get("expression")]
    arguments = [argument.copy() for argument in given if argument is not None]
    name = _SIDES[str(node.args.get("position") or "").upper()]
    return analysis.normal(exp.Anonymous(this=name, expressions=arguments))


def substring(analysis: Analysis, node: exp.Expr) -> Pair:
    """SUBSTRING from a place on, which may be counted from the end, with a length that may be negative."""
    result = exp.Substring(this=analysis.operand(node.this, Kind.STRING, "SUBSTRING"))
    for key in ("start", "length"):
        bound = node.args.get(key)
        if bound is not None:
            result.set(key, analysis.operand(bound, Kind.INTEGER, "SUBSTRING"))
    if result.args.get("start") is None:
        result.set("start", number(1))
    return result, Kind.STRING


def like(analysis: Analysis, node: exp.Expr) -> Pair:
    """LIKE and ILIKE; the pattern is a constant."""
    pattern = node.expression
    if isinstance(pattern, exp.Null):
        return exp.Null(), Kind.NULL
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise analysis.fail("LIKE takes a quoted pattern")
    text = analysis.operand(node.this, Kind.STRING, "LIKE")
    result = type(node)(this=text, expression=pattern.copy())
    return exp.Not(this=exp.Paren(this=result)) if node.args.get("negate") else result, Kind.BOOLEAN


def escaped(analysis: Analysis, node: exp.Expr) -> Pair:
    """LIKE … ESCAPE, as LIKE if nothing is escaped in the pattern, or else as a regular expression."""
    inner, escape = node.this, node.expression
    literals = (inner.expression, escape)
    if not all(isinstance(part, exp.Literal) and part.is_string for part in literals):
        raise analysis.fail("LIKE takes a quoted pattern, and ESCAPE a quoted character")
    if len(escape.name) > 1:
        raise analysis.fail("ESCAPE takes one character, or none")
    pattern, parts, plain, at = inner.expression.name, [], True, 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape.name:
            at += 1
            if at == len(pattern):
                raise analysis.fail("a pattern of LIKE does not end with the escape character")
            plain = plain and pattern[at] not in "%_"
            parts.append((pattern[at], False))
        else:
            parts.append((char, char in "%_"))
        at += 1
    if plain:
        literal = exp.Literal.string("".join(char for char, _ in parts))
        return analysis.normal(type(inner)(**{**inner.args, "expression": literal}))
    wild = {"%": ".*", "_": "."}
    folded = lower if isinstance(inner, exp.ILike) else str
    regex = "".join(wild[char] if special else _literal(folded(char)) for char, special in parts)
    text = exp.Lower(this=inner.this.copy()) if isinstance(inner, exp.ILike) else inner.this.copy()
    arguments = [text, exp.Literal.string(f"(?s){regex}")]
    match, kind = analysis.normal(exp.Anonymous(this="REGEXP_FULL_MATCH", expressions=arguments))
    return exp.Not(this=match) if inner.args.get("negate") else match, kind


def _literal(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\.^$|?*+()[]{}" else c for c in text)


def pattern_of(node: exp.Expr) -> str:
    """The pattern of LIKE or ILIKE."""
    return str(node.expression.name)
