"""The codes that all tables of one join graph share: a dictionary an attribute, a space a set."""

from __future__ import annotations

from threading import RLock

from calitree.engines.local.encoding.dictionary import Dictionary
from calitree.engines.local.encoding.spaces import Nothing, Pairs, Single, Space


class Codebook:
    """Dictionaries and id spaces, made when first asked for. Growing one is done under `lock`."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.lock = RLock()
        self._dictionaries: dict[str, Dictionary] = {}
        self._spaces: dict[tuple[str, ...], Space] = {(): Nothing()}

    @property
    def values(self) -> int:
        """How many values all dictionaries hold."""
        return sum(each.size for each in self._dictionaries.values())

    def dictionary(self, attribute: str) -> Dictionary:
        found = self._dictionaries.get(attribute)
        if found is None:
            found = self._dictionaries.setdefault(attribute, Dictionary(self.threads))
        return found

    def space(self, attributes: tuple[str, ...]) -> Space:
        """The space of these attributes, which are in order."""
        if attributes not in self._spaces:
            *rest, last = attributes
            single = Single(last, self.dictionary(last))
            made: Space = single
            if rest:
                made = Pairs(self.space(tuple(rest)), single, self.threads)
            self._spaces[attributes] = made
        return self._spaces[attributes]
