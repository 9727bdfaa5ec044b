"""Proof that nothing outside of a directory was touched: files that tell, and a port that listens.

The kernel reports whoever opens, reads, writes, lists, moves or deletes there (inotify), whatever language they
are written in; to ask for a file's size or time is not reported.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WATCHED = 0x1 | 0x2 | 0x4 | 0x20 | 0xC0 | 0x100 | 0x200 | 0x400 | 0x800
"""Access, modify, attributes, open, move, create, delete, delete itself, move itself."""
HEADER = struct.Struct("iIII")


class Guard:
    """Watches directories, and listens at a port of this machine."""

    def __init__(self, *directories: Path) -> None:
        assert sys.platform == "linux"
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for directory in directories:
            for path in (directory, *filter(Path.is_dir, directory.rglob("*"))):
                watch = libc.inotify_add_watch(self._handle, os.fsencode(path), WATCHED)
                assert watch >= 0, os.strerror(ctypes.get_errno())
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def events(self) -> list[str]:
        """What was touched since it was last asked for."""
        touched = []
        try:
            while data := os.read(self._handle, 1 << 16):
                while data:
                    _, mask, _, length = HEADER.unpack_from(data)
                    name = data[HEADER.size : HEADER.size + length].rstrip(b"\0").decode()
                    touched.append(f"{mask:x} {name or '.'}")
                    data = data[HEADER.size + length :]
        except BlockingIOError:
            pass
        try:
            self._socket.accept()[0].close()
            touched.append("a connection")
        except BlockingIOError:
            pass
        return touched

    def close(self) -> None:
        """Watch no longer."""
        os.close(self._handle)
        self._socket.close()


@contextmanager
def guarded(*directories: Path) -> Iterator[Guard]:
    """A guard that must have nothing to tell at the end."""
    guard = Guard(*directories)
    try:
        yield guard
        assert guard.events() == []
    finally:
        guard.close()
