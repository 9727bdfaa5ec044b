"""The directory of a saved tree, on this machine or at a URL: files that are whole or not there.

Only one operation must be atomic: `create` makes a file of a name that nobody has, all at once. On
this machine it is a link to a file that is complete and on the disk. Elsewhere one PUT of an object is
atomic; that no other writer takes the same name at the same time is sure only where fsspec can create
a file exclusively, so let one process at a time save to a directory of pyarrow's S3, GCS or HDFS.

Everything that is read, written or deleted by its name is below the directory. The directory itself may be a
link that the user has given; below it no link is followed.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from calitree.errors import SavedError
from calitree.saved.guard import local_files as local
from calitree.storage.filesystem import filesystem_of, is_url, reason, shown, url_of
from calitree.storage.json_codec import MAX_BYTES

MESSAGES, RELATIONS = "messages", "relations"
"""The directories of data files below that of the tree."""

_OWN_NAME = re.compile(rf"(?:{MESSAGES}|{RELATIONS})/[A-Za-z0-9_][A-Za-z0-9_.=-]{{0,200}}", re.A)


class Directory:
    """A directory; its files are named by their path below it, with / between names."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from pyarrow import fs

        self.path = os.fspath(path).rstrip("/") or "/"
        self.system, self.root = filesystem_of(self.path)
        self.is_local = isinstance(self.system, fs.LocalFileSystem)
        if not is_url(self.path):
            self.path = self.root

    def __str__(self) -> str:
        return shown(self.path)

    def below(self, name: str) -> str:
        """The path or URL by which others can read a file of this directory."""
        return url_of(self.path).below(name) if is_url(self.path) else f"{self.path}/{name}"

    def exists(self, name: str = "") -> bool:
        """Whether the directory is there, or a file in it."""
        from pyarrow import fs

        info = self._call(self.system.get_file_info, self._at(name))
        return bool(info.type is not fs.FileType.NotFound)

    def names(self, below: str) -> set[str]:
        """The names in a directory below this one; empty if it is not there."""
        from pyarrow import fs

        if self.is_local:
            return set(self._call(local.names, self._at(below)))
        selector = fs.FileSelector(self._at(below), allow_not_found=True)
        return {info.base_name for info in self._call(self.system.get_file_info, selector)}

    def make(self, *below: str) -> None:
        """Make directories, if they are not there; on this machine they are then on the disk."""
        for name in below:
            if self.is_local:
                self._call(local.make, self._at(name))
            else:
                self._call(self.system.create_dir, self._at(name), recursive=True)

    def age(self, name: str) -> float:
        """The seconds since a file, or one in a directory, was written to; 0 if that is not known."""
        from pyarrow import fs

        if self.is_local:
            return max(0.0, time.time() - float(self._call(local.written, self._at(name))))
        infos = [self._call(self.system.get_file_info, self._at(name))]
        if infos[0].type is fs.FileType.Directory:
            inside = fs.FileSelector(self._at(name), allow_not_found=True)
            infos += self._call(self.system.get_file_info, inside)
        written = [
            self._modified(info.path) if info.mtime is None else info.mtime.timestamp()
            for info in infos
        ]
        return max(0.0, time.time() - max(written))

    def _modified(self, at: str) -> float:
        """When a file was written, where pyarrow does not know; now if nobody does."""
        from pyarrow import fs

        if isinstance(self.system, fs.PyFileSystem):
            with suppress(Exception):
                return float(self.system.handler.fs.modified(at).timestamp())
        return time.time()

    def read(self, name: str) -> bytes | None:
        """The content of a file, of one byte more than is allowed at most; None if there is none."""
        try:
            if self.is_local:
                return local.read(self._at(name), MAX_BYTES + 1)
            with self.system.open_input_stream(self._at(name)) as stream:
                content: bytes = stream.read(MAX_BYTES + 1)
                return content
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refused(error) from error

    def copy(self, source: str, name: str) -> None:
        """Copy a file, or a directory of files, of another saved tree to here."""
        from pyarrow import fs

        system, path = filesystem_of(source)
        if system.get_file_info(path).type is fs.FileType.Directory:
            self.make(name)
        self._call(fs.copy_files, path, self._at(name), system, self.system)

    def move(self, name: str, to: str) -> None:
        """Give a file another name; its age begins anew."""
        try:
            if self.is_local:
                local.move(self._at(name), self._at(to))
            else:
                self.system.move(self._at(name), self._at(to))
        except FileNotFoundError:
            pass  # somebody else has moved it
        except OSError as error:
            raise self.refused(error) from error

    def remove(self, name: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there; of a link the link alone."""
        from pyarrow import fs

        at = self._at(name)
        try:
            if self.is_local:
                local.remove(at)
            elif self.system.get_file_info(at).type is fs.FileType.Directory:
                self.system.delete_dir(at)
            else:
                self.system.delete_file(at)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self.refused(error) from error

    def sync(self, *names: str) -> None:
        """Wait until these files, or all files of these directories, are on the disk.

        Files that are not there any more are skipped: the caller looks for them afterwards.
        """
        if not self.is_local:
            return
        paths = [Path(self._at(name)) for name in names]
        inside = [file for path in paths if path.is_dir() for file in path.iterdir()]
        for path in dict.fromkeys((*inside, *paths, *(path.parent for path in paths))):
            with suppress(FileNotFoundError):
                local.sync(path)

    def create(self, name: str, content: bytes) -> bool:
        """Make a file with this content, all at once; False if there is one of this name already."""
        if self.is_local:
            return bool(self._call(local.create, self._at(name), content))
        return self._put(name, content)

    def _put(self, name: str, content: bytes) -> bool:
        from pyarrow import fs

        at = self._at(name)
        if isinstance(self.system, fs.PyFileSystem):
            try:
                with self.system.handler.fs.open(at, "xb") as file:
                    file.write(content)
                return True
            except FileExistsError:
                return False
            except (ValueError, NotImplementedError):
                pass  # it cannot create exclusively
        if self.exists(name):
            return False
        with self._call(self.system.open_output_stream, at) as stream:
            stream.write(content)
        return True

    def _at(self, name: str) -> str:
        """The path of a file, by its name below this directory: no link leads elsewhere on the way."""
        if name and self.is_local:
            self._call(local.check_parent, f"{self.root.rstrip('/')}/{name}", name.count("/"))
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def _call(self, call: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except OSError as error:
            raise self.refused(error) from error

    def refused(self, error: OSError) -> SavedError:
        """What the file system said, as our error."""
        return SavedError(f"Cannot use {self} as the directory of a saved tree: {reason(error)}.")


class DataFiles:
    """The data files of a tree: those that are `present`, and those that this save has `written`."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.present: set[str] = set()
        self.written: list[str] = []

    def list(self) -> set[str]:
        """See which files are present by now."""
        self.present = data_files(self.directory)
        return self.present

    def new(self, below: str, name: str, ending: str = ".parquet") -> str:
        """The path of a new file."""
        self.written.append(f"{below}/{name}-{uuid4().hex[:12]}{ending}")
        self.present.add(self.written[-1])
        return self.directory.below(self.written[-1])

    def has(self, path: str) -> bool:
        """Whether a file is in the directory; others may have vacuumed it away."""
        return self.owns(path) and name_below(path) in self.present

    def owns(self, path: str) -> bool:
        """Whether a path is one of this directory, present or not."""
        return self.directory.below(name_below(path)) == path


def data_files(directory: Directory) -> set[str]:
    """The names of all files but manifests."""
    return {f"{below}/{name}" for below in (MESSAGES, RELATIONS) for name in directory.names(below)}


def own_name(name: str) -> str:
    """The check of a data file's name below the directory: that of a directory of ours, and one name."""
    if _OWN_NAME.fullmatch(name) is None:
        raise ValueError(f"is {name[:80]!r}, which is no name of a file in a saved tree")
    return name


def name_below(path: str) -> str:
    """The name of a file of ours below the directory: our own names need no escaping in a URL."""
    return "/".join(path.split("?")[0].split("/")[-2:])
