"""Where a tree was saved, and what of it is in the files there."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from calitree.calibration.branch import Branch
from calitree.calibration.message import Shelved
from calitree.process.locks import Rank, SharedLock
from calitree.saved.guard.trust import AllowedPlaces
from calitree.saved.manifest import Manifest
from calitree.storage.filesystem import shown
from calitree.storage.table_format import SavedFile, SavedRelation


@dataclass(frozen=True)
class Version:
    """A saved tree by its directory and number."""

    directory: str
    number: int

    def __str__(self) -> str:
        return f"version {self.number} of {shown(self.directory)}"


NO_PLACES = AllowedPlaces()


class SavedLocation:
    """A directory that a tree was saved to, or opened from."""

    def __init__(self, allowed: AllowedPlaces) -> None:
        self.allowed = allowed
        self.manifest: Manifest | None = None
        """The version there that the tree goes on from; None before it is first saved there."""
        self.entries = WeakKeyDictionary[object, SavedRelation | Shelved | SavedFile]()
        """Which tables, messages and segments of logs of the tree are in which files."""


class Saves:
    """All locations of a tree, and the version that was saved or opened last."""

    def __init__(self, last: Version | None = None, allowed: AllowedPlaces | None = None) -> None:
        self.last = last
        self.allowed = NO_PLACES if allowed is None else allowed
        """The places outside of trees from which their relations may be read."""
        self.lock = SharedLock(Rank.SAVES)
        """Held while saving and reloading, not while updating or answering."""
        self._locations: dict[str, SavedLocation] = {}

    def location(self, directory: str) -> SavedLocation:
        """The location of a directory."""
        return self._locations.setdefault(directory, SavedLocation(self.allowed))


def unchanged_since(branch: Branch, saves: Saves) -> Version | None:
    """The version that was saved or opened last, if all relations are still as they are there."""
    with saves.lock:
        manifest = None if saves.last is None else saves.location(saves.last.directory).manifest
        if saves.last is None or manifest is None or manifest.number != saves.last.number:
            return None
        saved = {relation.name: relation.revisions[-1] for relation in manifest.relations}
        return saves.last if saved == branch.head.revisions else None
