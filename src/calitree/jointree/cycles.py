"""The cyclic core of a join graph, and ways to cut it into bags.

What is left when all ears are taken off (GYO reduction) is the core. Eliminating its attributes one
after another gives a tree decomposition; which is best depends on the order, and finding the best
order is NP-hard. So there are several, each greedy in its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

Attributes = frozenset[str]
Cut = tuple[Attributes, ...]
Neighbours = dict[str, set[str]]
Rule = Callable[[str, Neighbours], float]

MAX_TIE_ORDERS = 8
"""In how many orders of the attributes ties are broken, for each rule."""


def cyclic_core(relations: Mapping[str, Attributes]) -> dict[str, Attributes]:
    """What GYO reduction cannot remove: nothing if the graph is acyclic.

    An attribute that only one relation has is dropped, and so is a relation whose attributes
    another has; again, until nothing changes.
    """
    left = dict(relations)
    changed = True
    while changed:
        changed = False
        for name in list(left):
            others = [left[other] for other in left if other != name]
            shared = left[name] & frozenset().union(*others)
            if shared != left[name]:
                left[name], changed = shared, True
            if any(shared <= other for other in others):
                del left[name]
                changed = True
    return left if len(left) > 1 else {}


def cuts(core: Mapping[str, Attributes], bits: Mapping[str, float]) -> list[Cut]:
    """Tree decompositions of the core: the attributes of each bag, none inside another.

    `bits` says how many values each attribute has at most, as a logarithm. Every rule is tried with
    ties falling to one attribute after another. One bag for all is no candidate of its own: it
    holds no less than the bags inside it would, and leaves no message to reuse.
    """
    names = [a for a in bits if any(a in held for held in core.values())]
    near: Neighbours = {a: set() for a in names}
    for held in core.values():
        for a, b in combinations(held, 2):
            near[a].add(b)
            near[b].add(a)

    def fewest_new_edges(a: str, left: Neighbours) -> float:
        return sum(c not in left[b] for b, c in combinations(left[a], 2))

    def fewest_neighbours(a: str, left: Neighbours) -> float:
        return len(left[a])

    def fewest_values(a: str, left: Neighbours) -> float:
        return round(sum(bits[b] for b in sorted((a, *left[a]))), 9)

    rules = (fewest_new_edges, fewest_neighbours, fewest_values)
    orders = [names[i:] + names[:i] for i in range(min(len(names), MAX_TIE_ORDERS))]
    distinct: dict[frozenset[Attributes], Cut] = {}
    for cut in (eliminate(near, rule, order) for rule in rules for order in orders):
        distinct.setdefault(frozenset(cut), cut)
    return list(distinct.values())


def eliminate(near: Neighbours, rule: Rule, order: Sequence[str]) -> Cut:
    """The bags that come of eliminating one attribute after another, the rule's least first.

    An attribute and its neighbours are a bag, and from then on the neighbours are each other's.
    Ties go to the first in `order`.
    """
    left = {a: set(near[a]) for a in order}
    bags = []
    while left:
        chosen = min(left, key=lambda a: rule(a, left))
        around = left.pop(chosen)
        bags.append(frozenset((chosen, *around)))
        for other in around:
            left[other] |= around
            left[other] -= {chosen, other}
    return tuple(bag for bag in bags if not any(bag < other for other in bags))
