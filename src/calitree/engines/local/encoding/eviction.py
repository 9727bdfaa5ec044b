"""Dictionaries of expressions go when they take much room, unless a message has codes of theirs.

Relations need the dictionaries of their columns for good. Those of expressions that were grouped by, or
carried to be folded, would pile up. They can be made again, but codes mean nothing without the dictionary
that gave them. So a dictionary goes only

- while nobody works with codes: who does has a `Use`;
- if no message has its attribute, whoever may hold that message: a store, a plan, a result;
- after all that tables and engines have derived of its codes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary, ref

from calitree.engines.api.contraction import Contraction, Lifted
from calitree.interrupts import uninterrupted
from calitree.memory.budget import Budget
from calitree.process.locks import Rank, SharedLock

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound="WithBook")

BUDGET_SHARE = 8
"""They may take one part in so many of the memory budget."""

ATTRIBUTE_BYTES = 3_000
"""A dictionary or an id space with its key, beside its values."""


SPARED_BY = "spared by"
"""Under which a contraction has the eviction that does not concern it."""


class Sized(Protocol):
    """A dictionary, or an id space."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""


class Coded(Protocol):
    """A table that keeps codes, and what it has derived from them."""

    def forget(self, attributes: Collection[str]) -> set[str]:
        """Drop what was derived from codes of these; the columns of which there still is something."""

    def keep_computed(self, columns: Collection[str]) -> None:
        """Forget how columns other than these are computed."""


class Derived(Protocol):
    """What is kept of several tables."""

    def clear(self) -> None:
        """Forget all of it."""


class WithAttributes(Protocol):
    """A message, which has codes of its attributes."""

    attributes: tuple[str, ...]


class WithBook(Protocol):
    """An engine that encodes values."""

    book: Any


class Use:
    """As long as it is there, codes keep their meaning.

    It ends with whoever holds it, so that it cannot be left behind by an interrupt.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


class Eviction:
    """Who uses codes, and which dictionaries and id spaces may go."""

    def __init__(
        self,
        budget: Budget,
        dictionaries: MutableMapping[str, Any],
        spaces: MutableMapping[tuple[str, ...], Any],
    ) -> None:
        self.stored: set[str] = set()
        """Attributes that are a column of some relation."""
        self.derived: ref[Derived] | None = None
        """What an engine has derived from the codes of several tables."""
        self._budget, self._dictionaries, self._spaces = budget, dictionaries, spaces
        self._uses = WeakSet[Use]()
        self._messages = WeakValueDictionary[int, WithAttributes]()
        self._tables = WeakValueDictionary[int, Coded]()
        self._lock = SharedLock(Rank.CODEBOOK)
        self._checked, self._bytes, self._left = (0, 0), 0, 0

    def note_message(self, message: WithAttributes) -> None:
        """Keep the dictionaries of a message for as long as it is there; those of columns stay anyway."""
        if not self.stored.issuperset(message.attributes):
            self._messages[id(message)] = message

    def note_codes(self, table: Coded) -> None:
        """Have a table forget codes whose dictionary goes."""
        self._tables[id(table)] = table

    def spares(self, contraction: Contraction) -> bool:
        """Whether all codes that a contraction reads are of columns of relations, whose dictionaries stay.

        That is kept with the contraction, which may be asked for again and again.
        """
        known = vars(contraction)
        if known.get(SPARED_BY) is not self:
            if any(given.derived for given in contraction.inputs):
                return False
            if not self.stored.issuperset(_coded(contraction)):
                return False
            known[SPARED_BY] = self
        return True

    def use(self) -> Use:
        """What is held while working with codes; before, what takes too much room may go."""
        with self._lock:
            if self._is_too_much() and not self._uses:
                self._evict()
            use = Use()
            self._uses.add(use)
        return use

    def _is_too_much(self) -> bool:
        """Whether those of expressions take too much room; of each only what it had when it was new."""
        dictionaries, spaces = self._checked
        if len(self._dictionaries) != dictionaries or len(self._spaces) != spaces:
            known = len(self._dictionaries), len(self._spaces)
            new: list[tuple[tuple[str, ...], Sized]] = list(self._spaces.items())[spaces:]
            new += [((a,), d) for a, d in list(self._dictionaries.items())[dictionaries:]]
            self._bytes += sum(
                ATTRIBUTE_BYTES + part.nbytes
                for names, part in new
                if not self.stored.issuperset(names)
            )
            self._checked = known
        return self._bytes > max(self._budget.limit // BUDGET_SHARE, 2 * self._left)

    @uninterrupted()
    def _evict(self) -> None:
        needed = set(self.stored)
        for reference in self._messages.valuerefs():
            message = reference()
            if message is not None:
                needed.update(message.attributes)
        gone = set(self._dictionaries) - needed
        derived = None if self.derived is None else self.derived()
        if derived is not None:
            derived.clear()
        known = [reference() for reference in self._tables.valuerefs()]
        tables = [table for table in known if table is not None]
        columns = set[str]().union(*(table.forget(gone) for table in tables))
        for table in tables:
            table.keep_computed(columns)
        for attributes in list(self._spaces):
            if not gone.isdisjoint(attributes):
                del self._spaces[attributes]
        for name in gone:
            del self._dictionaries[name]
        self._checked, self._bytes, self._left = (0, 0), 0, 0
        self._is_too_much()
        self._left = self._bytes


def _coded(contraction: Contraction) -> set[str]:
    """The attributes that are joined, grouped or filtered by, or lifted: extremes of texts have codes too."""
    inputs = contraction.inputs
    joined = {
        name
        for at, given in enumerate(inputs)
        for name in given.attributes
        if any(name in other.attributes for other in inputs[:at])
    }
    for output in contraction.outputs:
        joined.update(output.keep, *(predicate.attributes for predicate in output.where))
        for factor in (factor for column in output.columns for factor in column.factors):
            if isinstance(factor, Lifted):
                joined.update(*(expression.attributes for expression in factor.expressions))
    return joined.union(*(given.match.key for given in inputs if given.match is not None))


def using_codes(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """A method of an engine, in which codes keep their meaning."""

    @wraps(method)
    def run(engine: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with engine.book.eviction.use():
            return method(engine, *args, **kwargs)

    return run
