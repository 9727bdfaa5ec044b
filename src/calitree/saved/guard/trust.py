"""Which files outside of a saved tree may be read: those that its opener has named.

A manifest says where large relations are. Whoever has written it could name any file of its reader, or a server
of their own. So such a place is used only if

- the user who opens the tree has saved it there: it has a *seal*, which only they can make, or
- they allow it: `calitree.open(tree, allow="/data")`.

A seal is a keyed hash of the place. The key is a file in the user's data directory; it is in no tree.
That a directory belongs to the user says nothing: so does everything that they have downloaded.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path
from urllib.parse import unquote

from calitree.errors import SavedError
from calitree.storage.filesystem import is_url, local_path, shown, url_of
from calitree.storage.table_format import SavedRelation, Source

Allow = str | PathLike[str] | Iterable[str | PathLike[str]]
"""Directories, files or URLs, with all that is below them, and names of Spark's tables."""

KEY_BYTES = 32

_WHOLE = re.compile(r"/|[A-Za-z]:[\\/]|[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a path begins that does not depend on the working directory: here, on Windows, at a URL."""


class AllowedPlaces:
    """The places outside of a tree that its opener allows."""

    def __init__(self, allow: Allow | None = None) -> None:
        if allow is None:
            given: list[str | PathLike[str]] = []
        elif isinstance(allow, str | PathLike):
            given = [allow]
        else:
            given = list(allow)
        if not all(isinstance(place, str | PathLike) and os.fspath(place) for place in given):
            raise SavedError(f"allow is a place or a list of places; got {allow!r}.")
        self.places = tuple(str(os.fspath(place)) for place in given)

    def readable(self, relation: SavedRelation) -> SavedRelation:
        """The relation as an engine may see it: nowhere, if its rows are in a place that is not allowed."""
        source = relation.source
        if source.place not in ("files", "table") or self._trusts(source):
            return relation
        where = source.table if source.place == "table" else source.files[0].path
        reason = (
            f"they are outside of the tree, in {shown(where)}, which was not saved by you on this machine: "
            "if you trust it, open the tree with allow= and that place"
        )
        return replace(relation, source=Source("nowhere", reason=reason))

    def _trusts(self, source: Source) -> bool:
        if source.seal and hmac.compare_digest(source.seal.encode(), seal_of(source).encode()):
            return True
        if source.place == "table":
            return source.table in self.places
        return all(any(_is_below(file.path, p) for p in self.places) for file in source.files)


def sealed(source: Source) -> Source:
    """A source that this user knows again; only for what they have named, or allowed, themselves."""
    return replace(source, seal=seal_of(source)) if source.place in ("files", "table") else source


def seal_of(source: Source) -> str:
    """The seal of a place, by this user's key."""
    place = json.dumps([source.place, source.table, [file.path for file in source.files]])
    return hmac.new(_key(), place.encode(), "sha256").hexdigest()


def outside_path(path: str) -> str:
    """The check of a path outside of a tree: it is whole, and goes down only."""
    parts = unquote(path).replace("\\", "/").split("/")
    chained = is_url(path) and "::" in path  # fsspec would go through one file system to the next
    if _WHOLE.match(path) is None or ".." in parts or "\0" in path or chained:
        raise ValueError(f"is {path[:80]!r}, which is no whole path of a file")
    return path


def _is_below(path: str, place: str) -> bool:
    """Whether a file is in a place. Links are followed first, as they would be when it is read."""
    here, there = local_path(path), local_path(place)
    if here is not None and there is not None:
        with suppress(OSError, RuntimeError, ValueError):
            return Path(here).resolve().is_relative_to(Path(there).expanduser().resolve())
        return False
    if not is_url(path) or not is_url(place):
        return False
    url, above = url_of(path), url_of(place)
    if (url.scheme, url.query) != (above.scheme, above.query):
        return False
    if not above.host and not above.path.strip("/"):
        return True
    below = url.path.startswith(above.path.rstrip("/") + "/") or url.path == above.path
    return url.host == above.host and below


# -- the key --------------------------------------------------------------------------------------


@cache
def _key() -> bytes:
    """This user's key; one of this process alone where none can be kept."""
    with suppress(OSError, RuntimeError, ValueError):
        return _stored_key(_data_directory() / "seal.key")
    return secrets.token_bytes(KEY_BYTES)


def _data_directory() -> Path:
    root = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not root.is_absolute():  # then the XDG specification has it ignored
        root = Path("~/.local/share").expanduser()
    directory = root / "calitree"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _stored_key(path: Path) -> bytes:
    if not os.path.lexists(path):
        new = path.with_name(f".{secrets.token_hex(8)}")
        try:
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
            with suppress(FileExistsError):  # another process was faster
                os.link(new, path)
        finally:
            new.unlink(missing_ok=True)
    status = path.lstat()
    others = os.name != "nt" and (status.st_uid != os.getuid() or status.st_mode & 0o077)
    if others or not stat.S_ISREG(status.st_mode):
        raise ValueError("others may know this key")
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError("this is no key")
    return key
