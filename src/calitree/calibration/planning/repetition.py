"""Measures that count rows of a relation more than once, since the join repeats them: told with a plan."""

from __future__ import annotations

from sqlglot import exp

from calitree.calibration.planning.uniqueness import is_unique
from calitree.calibration.snapshot import Snapshot
from calitree.query.aggregates import EXTREMES
from calitree.query.binder import Query
from calitree.query.grain import owning_relations
from calitree.query.measure import Measure


def warnings_of(snapshot: Snapshot, query: Query) -> tuple[str, ...]:
    """For each measure whose rows the join repeats, what repeats them, and how each would count once."""
    warnings = []
    for name, measure in query.measures:
        for relations in _summed(measure):
            repeating = _repeating(snapshot, query, relations)
            if repeating is not None:
                names = sorted(relations)
                grain = repr(names[0]) if len(names) == 1 else repr(names)
                warnings.append(
                    f"{name} counts rows of {' and '.join(names)} as often as {repeating} repeats them; "
                    f"measure(…, grain={grain}) counts each once"
                )
                break
    return tuple(warnings)


def _summed(measure: Measure) -> list[frozenset[str]]:
    """The relations whose columns each of its calls sums, if all joined rows count."""
    if measure.plain is None or measure.grains:
        return []
    calls = measure.plain.find_all(exp.AggFunc)
    sums = (call for call in calls if not isinstance(call, (exp.Count, *EXTREMES)))
    return [owning_relations([call]) for call in sums]


def _repeating(snapshot: Snapshot, query: Query, summed: frozenset[str]) -> str | None:
    """A relation that has several rows for one that is summed, if one is known."""
    schema, placement = snapshot.schema_of(query), snapshot.placement(query)
    tree, joined = placement.tree, placement.query.relations
    relations = {bag.name: [name for name in bag.relations if name in joined] for bag in tree.bags}
    reached = {tree.home(name) for name in summed}
    waiting = sorted(reached)
    while waiting:
        bag = waiting.pop()
        for other in tree.neighbours(bag):
            if other in reached or len(relations[bag]) != 1 or len(relations[other]) != 1:
                continue
            (name,) = relations[other]
            key = tree.relations[relations[bag][0]] & tree.relations[name]
            if is_unique(snapshot, schema, name, key) is False:
                return name
            reached.add(other)
            waiting.append(other)
    return None
