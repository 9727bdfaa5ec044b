"""What the declared joins mean: SQL's FROM clause, in the order of their declaration.

Each join connects what its two relations have been joined with so far. With `a left b`, `c inner d` and
`b left c` declared, that is `(a LEFT JOIN b) LEFT JOIN (c JOIN d)`. A join between two relations that are
connected already adds its equalities to the ON of the join that has connected them.

Equality rejects NULL, so a row in which a joined relation is NULL finds no partner. Where rows without a
partner are dropped, the joins below that relation drop them too (`_require`): in `(a LEFT JOIN b) JOIN c ON
b.k = c.k` the LEFT JOIN is an inner one. What is left of the outer joins can be computed in any order
(Galindo-Legaria and Rosenthal): each concerns only the two sides of its edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from calitree.errors import SchemaError
from calitree.jointree.joins.join import Join, OuterJoin, Pair

HOWS = ("inner", "left", "right", "full")
_REVERSED = {"inner": "inner", "left": "right", "right": "left", "full": "full"}
_HOW_BY_KEPT = {
    (False, False): "inner",
    (True, False): "left",
    (False, True): "right",
    (True, True): "full",
}
_KEYWORDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


@dataclass(eq=False)
class JoinStep:
    """A join of two sides, each a relation or a step before it.

    `keeps_left` tells that rows of the left side stay if they have no partner.
    """

    left: Operand
    right: Operand
    how: str
    joins: list[Join]
    links: list[tuple[str, str]]
    """The relations of which columns are compared, of either side."""
    pairs: list[Pair]
    relations: frozenset[str] = field(init=False)
    keeps_left: bool = field(init=False)
    keeps_right: bool = field(init=False)

    def __post_init__(self) -> None:
        self.relations = relations_of(self.left) | relations_of(self.right)
        self.keeps_left = self.how in ("left", "full")
        self.keeps_right = self.how in ("right", "full")

    @property
    def has_condition(self) -> bool:
        """Whether it joins by a condition too, which need not reject NULL."""
        return any(join.condition for join in self.joins)

    @property
    def is_inner(self) -> bool:
        """Whether no row stays without a partner."""
        return not self.keeps_left and not self.keeps_right


Operand = str | JoinStep


def relations_of(operand: Operand) -> frozenset[str]:
    """The relations of one side of a join."""
    return frozenset((operand,)) if isinstance(operand, str) else operand.relations


@dataclass(frozen=True)
class JoinClause:
    """The joins in their order, and what they join: one operand if all relations are connected."""

    steps: tuple[JoinStep, ...]
    operands: tuple[Operand, ...]

    def sql(
        self,
        table: Callable[[str], str],
        column: Callable[[str, str], str],
        condition: Callable[[Join], str],
    ) -> str:
        """The clause as SQL, without FROM, given how tables, columns and conditions are written."""

        def text(operand: Operand) -> str:
            if isinstance(operand, str):
                return table(operand)
            right = text(operand.right)
            if isinstance(operand.right, JoinStep):
                right = f"({right})"
            tests = [f"{column(*a)} = {column(*b)}" for a, b in operand.pairs]
            tests += [f"({condition(join)})" for join in operand.joins if join.condition]
            on = " AND ".join(tests)
            return f"{text(operand.left)} {_KEYWORDS[operand.how]} {right} ON {on}"

        first, *others = self.operands
        return text(first) + "".join(
            f" CROSS JOIN {f'({text(other)})' if isinstance(other, JoinStep) else text(other)}"
            for other in others
        )


def from_clause(relations: Iterable[str], joins: Iterable[Join]) -> JoinClause:
    """The FROM clause of these relations and joins, and which of its joins are outer in effect."""
    operand_of: dict[str, Operand] = {name: name for name in relations}
    steps: list[JoinStep] = []
    for join in joins:
        pairs = join.compared
        left, right = operand_of[join.left], operand_of[join.right]
        if left is right:
            _extend(left, join, pairs)
            continue
        links = [(join.left, join.right)] if pairs else []
        step = JoinStep(left, right, how=join.how, joins=[join], links=links, pairs=pairs)
        steps.append(step)
        operand_of |= dict.fromkeys(step.relations, step)
    for step in steps:
        _require_partners(step)
    return JoinClause(tuple(steps), tuple(dict.fromkeys(operand_of.values())))


def effective_hows(relations: Iterable[str], joins: Sequence[Join]) -> list[str]:
    """What each join is in effect: an outer join may drop what a join after it would drop.

    >>> joins = [Join("a", "b", (("k", "k"),), "left"), Join("b", "c", (("j", "j"),))]
    >>> effective_hows("abc", joins)
    ['inner', 'inner']
    """
    step_of = {join: step for step in from_clause(relations, joins).steps for join in step.joins}
    hows = []
    for join in joins:
        step = step_of[join]
        how = _HOW_BY_KEPT[step.keeps_left, step.keeps_right]
        hows.append(how if join.left in relations_of(step.left) else _REVERSED[how])
    return hows


def _extend(operand: Operand, join: Join, pairs: Sequence[Pair]) -> None:
    """Add the equalities of a join to the step that has connected its relations."""
    assert isinstance(operand, JoinStep)
    step: JoinStep = operand
    while True:
        sides = [side for side in (step.left, step.right) if join.left in relations_of(side)]
        if join.right not in relations_of(sides[0]):
            break
        assert isinstance(sides[0], JoinStep)
        step = sides[0]
    forward = join.left in relations_of(step.left)
    how = join.how if forward else _REVERSED[join.how]
    if how != step.how:
        wanted = step.how if forward else _REVERSED[step.how]
        first, second = step.joins[0].left, step.joins[0].right
        raise SchemaError(
            f"{join} closes a cycle: it is part of the {wanted} join that has connected {first} and "
            f"{second}, and cannot be {join.how}. Declare it with how={wanted!r}."
        )
    step.joins.append(join)
    if pairs:
        step.links.append((join.left, join.right) if forward else (join.right, join.left))
    step.pairs += pairs if forward else [(b, a) for a, b in pairs]


def _require_partners(step: JoinStep) -> None:
    """Where rows without a partner are dropped, those are too in which a joined relation is NULL."""
    if not step.keeps_left:
        for relation, _ in step.links:
            _require(step.left, relation)
    if not step.keeps_right:
        for _, relation in step.links:
            _require(step.right, relation)


def _require(operand: Operand, relation: str) -> None:
    """Drop the rows of an operand in which a relation is NULL."""
    if isinstance(operand, str):
        return
    if relation in relations_of(operand.left):
        operand.keeps_right = False
        _require(operand.left, relation)
    else:
        operand.keeps_left = False
        _require(operand.right, relation)
    _require_partners(operand)


def equal_pairs(clause: JoinClause) -> list[Pair]:
    """The columns that inner joins make equal."""
    return [pair for step in clause.steps if step.is_inner for pair in step.pairs]


Blocks = Mapping[str, frozenset[str]]
"""For each relation those that inner joins connect it with, itself included."""


def inner_blocks(clause: JoinClause) -> dict[str, frozenset[str]]:
    """For each relation those that inner joins connect it with, itself included."""
    block_of: dict[str, frozenset[str]] = {}
    for name in frozenset().union(*map(relations_of, clause.operands)):
        block_of[name] = frozenset((name,))
    for step in clause.steps:
        if step.is_inner:
            for a, b in step.links:
                block = block_of[a] | block_of[b]
                block_of |= dict.fromkeys(block, block)
    return block_of


def outer_joins(clause: JoinClause) -> tuple[OuterJoin, ...]:
    """The outer joins, those nearest to the core first: the relations that are NULL in no row, or in fewest.

    Blocks of relations that inner joins connect are the vertices of a tree, outer joins its edges.
    """
    joins: list[_Outward] = []
    for options in _options(clause):
        joins += min(options, key=lambda option: sum(join.is_full for join in option), default=[])
    for join in joins:
        if not join.keeps_preserved:
            (one, _), (other, _) = join.pairs[0]
            raise SchemaError(
                f"A full join of relations that are both the optional side of other joins is not supported: "
                f"{one} is one, for {other}. Declare the full join first, or join one side inner."
            )
    return tuple(join.outer for join in joins)


def are_outer_joins(clause: JoinClause, joins: Iterable[OuterJoin]) -> bool:
    """Whether these are the outer joins of a clause, seen from any core: a full join has no direction."""
    left = {_meaning(join) for join in joins}
    for options in _options(clause):
        seen = [{_meaning(join.outer) for join in option} for option in options if _is_kept(option)]
        if options:
            same = next((option for option in seen if option <= left), None)
            if same is None:
                return False
            left -= same
    return not left


def _meaning(join: OuterJoin) -> tuple[frozenset[Pair], frozenset[str], bool]:
    return frozenset(join.pairs), join.optional, join.is_full


def _is_kept(option: Iterable[_Outward]) -> bool:
    return all(join.keeps_preserved for join in option)


def _options(clause: JoinClause) -> Iterator[list[list[_Outward]]]:
    """For each operand of a clause, its outer joins seen from each block that may be the core."""
    block_of = inner_blocks(clause)
    for operand in clause.operands:
        steps = [s for s in clause.steps if s.relations <= relations_of(operand) and not s.is_inner]
        for step in steps:
            _check_sides(step, block_of)
            _check_conditions(step, clause)
        blocks = dict.fromkeys(block for step in steps for block in _blocks(step, block_of))
        yield [_outward(core, steps, block_of) for core in blocks]


def _check_sides(step: JoinStep, block_of: Blocks) -> None:
    for names in zip(*step.links, strict=True):
        if len({block_of[name] for name in names}) > 1:
            raise SchemaError(
                f"An outer join on columns of {' and '.join(sorted(set(names)))} is not supported: one "
                "of these relations may be NULL where the other is not."
            )


def _check_conditions(outer: JoinStep, clause: JoinClause) -> None:
    """What is NULL for want of a partner must not be joined by a condition: it would be tested there."""
    if outer.keeps_left and outer.keeps_right:
        optional = frozenset().union(*map(relations_of, clause.operands))
    else:
        optional = relations_of(outer.right if outer.keeps_left else outer.left)
    for step in clause.steps:
        if step.has_condition and step.relations <= optional:
            side = (
                "optional side of an outer"
                if step.relations <= outer.relations
                else "graph of a full"
            )
            raise SchemaError(
                f"{step.joins[0]} in the {side} join is not supported: relations can be joined on equal "
                "columns only there."
            )


class _Outward(NamedTuple):
    """An outer join seen from the core."""

    pairs: tuple[Pair, ...]
    optional: frozenset[str]
    keeps_preserved: bool
    is_full: bool

    @property
    def outer(self) -> OuterJoin:
        preserved = frozenset(relation for (relation, _), _ in self.pairs)
        return OuterJoin(preserved, self.optional, self.pairs, self.is_full)


def _outward(core: frozenset[str], outer: Sequence[JoinStep], block_of: Blocks) -> list[_Outward]:
    """The outer joins of one component, from a core outward."""
    reached, left, joins = {core}, list(outer), list[_Outward]()
    while left:
        step = next(s for s in left if reached.intersection(_blocks(s, block_of)))
        left.remove(step)
        one, other = _blocks(step, block_of)
        forward = one in reached
        reached |= {one, other}
        pairs = tuple(step.pairs if forward else [(b, a) for a, b in step.pairs])
        keeps = (step.keeps_left, step.keeps_right)
        ours, theirs = keeps if forward else keeps[::-1]
        joins.append(_Outward(pairs, other if forward else one, ours, theirs))
    return joins


def _blocks(step: JoinStep, block_of: Blocks) -> tuple[frozenset[str], frozenset[str]]:
    """The blocks of its two sides."""
    left, right = step.links[0]
    return block_of[left], block_of[right]
