"""The directory of a saved tree, on this machine or behind a URL: files that are whole or not there.

Only one operation must be atomic: `create` makes a file of a name that nobody has, all at once. On
this machine it is a link to a file that is complete and on the disk. Elsewhere one PUT of an object is
atomic; that no other writer takes the same name at the same time is sure only where fsspec can create
a file exclusively, so let one process at a time save to a directory of pyarrow's S3, GCS or HDFS.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from calitree.errors import SavedError
from calitree.storage.filesystem import filesystem_of, is_url, reason, shown, url_of


class Directory:
    """Files by their path below the directory, with / between names."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from pyarrow import fs

        self.path = os.fspath(path).rstrip("/") or "/"
        self.system, self.there = filesystem_of(self.path)
        self.is_local = isinstance(self.system, fs.LocalFileSystem)
        if not is_url(self.path):
            self.path = self.there

    def __str__(self) -> str:
        return shown(self.path)

    def below(self, name: str) -> str:
        """The path or URL by which others find a file of this directory."""
        return url_of(self.path).below(name) if is_url(self.path) else f"{self.path}/{name}"

    def exists(self, name: str = "") -> bool:
        from pyarrow import fs

        return (
            self._call(self.system.get_file_info, self._at(name)).type is not fs.FileType.NotFound
        )

    def names(self, below: str) -> set[str]:
        """What is in a directory below this one; nothing if it is not there."""
        from pyarrow import fs

        selector = fs.FileSelector(self._at(below), allow_not_found=True)
        return {each.base_name for each in self._call(self.system.get_file_info, selector)}

    def make(self, *below: str) -> None:
        """Make directories, if they are not there."""
        for name in below:
            self._call(self.system.create_dir, self._at(name), recursive=True)

    def age(self, name: str) -> float:
        """The seconds since a file, or one in a directory, was written to; 0 if nobody knows."""
        from pyarrow import fs

        found = [self._call(self.system.get_file_info, self._at(name))]
        if found[0].type is fs.FileType.Directory:
            inside = fs.FileSelector(self._at(name), allow_not_found=True)
            found += self._call(self.system.get_file_info, inside)
        written = [
            each.mtime.timestamp() if each.mtime is not None else self._written(each.path)
            for each in found
        ]
        return max(0.0, time.time() - max(written))

    def _written(self, at: str) -> float:
        """When a file was written, where pyarrow does not know."""
        from pyarrow import fs

        if isinstance(self.system, fs.PyFileSystem):
            with suppress(Exception):
                return float(self.system.handler.fs.modified(at).timestamp())
        return time.time()

    def read(self, name: str) -> bytes | None:
        """What is in a file; None if there is none."""
        try:
            with self.system.open_input_stream(self._at(name)) as stream:
                found: bytes = stream.read()
                return found
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refused(error) from error

    def copy(self, source: str, name: str) -> None:
        """Copy a file, or a directory of files, from any place to here."""
        from pyarrow import fs

        system, there = filesystem_of(source)
        if system.get_file_info(there).type is fs.FileType.Directory:
            self.make(name)
        self._call(fs.copy_files, there, self._at(name), system, self.system)

    def remove(self, name: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""
        from pyarrow import fs

        at = self._at(name)
        try:
            if self.system.get_file_info(at).type is fs.FileType.Directory:
                self.system.delete_dir(at)
            else:
                self.system.delete_file(at)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self.refused(error) from error

    def sync(self, *names: str) -> None:
        """Wait until these files, or all files of these directories, are on the disk.

        What is not there any more is left to those who look later.
        """
        if not self.is_local:
            return
        paths = [Path(self._at(name)) for name in names]
        inside = [each for path in paths if path.is_dir() for each in path.iterdir()]
        for path in dict.fromkeys((*inside, *paths, *(path.parent for path in paths))):
            with suppress(FileNotFoundError):
                _sync(path)

    def create(self, name: str, content: bytes) -> bool:
        """Make a file with this content, all at once; False if there is one of this name already."""
        return self._create_here(name, content) if self.is_local else self._put(name, content)

    def _create_here(self, name: str, content: bytes) -> bool:
        target = Path(self._at(name))
        whole = target.with_name(f".{uuid4().hex}")
        try:
            with whole.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(whole, target)
            except FileExistsError:
                return False
            except OSError:  # a disk that has no links; there two writers must not meet
                if target.exists():
                    return False
                whole.rename(target)
            _sync(target.parent)
            return True
        except OSError as error:
            raise self.refused(error) from error
        finally:
            whole.unlink(missing_ok=True)

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
        return f"{self.there.rstrip('/')}/{name}" if name else self.there

    def _call(self, call: Any, *given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except OSError as error:
            raise self.refused(error) from error

    def refused(self, error: OSError) -> SavedError:
        """What the file system said, as our error."""
        return SavedError(f"Cannot use {self} as the directory of a saved tree: {reason(error)}.")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
