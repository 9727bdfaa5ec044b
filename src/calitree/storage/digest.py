"""Digests of files, by which their bytes are known to be those that were written.

They are computed while a file is written: one of each of its blocks. Whoever reads some bytes reads the blocks
that they are in, and compares their digests before anybody sees the bytes. So what is not read is not hashed,
and no byte goes unnoticed: checksums of Parquet's pages cover neither the headers of pages nor the footer, and
a file that was swapped with another has right ones.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, TypeAlias
from zlib import crc32

from calitree.cache import cached_property
from calitree.errors import DamagedError
from calitree.storage.filesystem import is_url, opened, reason, shown
from calitree.storage.json_codec import Count

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

Content: TypeAlias = bytes | memoryview

BLOCK_BYTES = 1 << 16
"""Of a block, if a file has not too many of them. A column begins and ends amid one, which is read too."""

MAX_BLOCKS = 4_096
"""About how many blocks a file has at most: their digests are in the manifest."""

HashName: TypeAlias = Literal["sha256", "crc32"]


def _sha256(content: Content) -> bytes:
    return hashlib.sha256(content, usedforsecurity=False).digest()[:8]


def _crc32(content: Content, before: int = 0) -> bytes:
    return crc32(content, before).to_bytes(4, "big")


HASHES: dict[HashName, tuple[int, Callable[[Content], bytes]]] = {
    "sha256": (8, _sha256),
    "crc32": (4, _crc32),
}
"""How many bytes the digest of a block has, and what computes it."""

PIECE_BYTES = 16 << 20
"""Read at a time where a file is only compared."""


def _positive(value: int) -> int:
    if not 0 < value < 1 << 63:
        raise ValueError("is no size of a block")
    return value


def _base64(text: str) -> str:
    base64.b64decode(text, validate=True)
    return text


@dataclass(frozen=True)
class FileDigest:
    """The size of a file, that of its blocks, and their digests one after the other in base 64."""

    size: Count
    block: Annotated[int, _positive]
    blocks: Annotated[str, _base64]
    hash: HashName = "sha256"

    @classmethod
    def of(cls, content: bytes) -> FileDigest:
        """That of a file with this content, in one block."""
        return cls.of_block(len(content), _sha256(content))

    @classmethod
    def of_block(cls, size: int, digest: bytes) -> FileDigest:
        """That of a file of one block with this SHA-256, or what it begins with."""
        return cls(size, max(1, size), base64.b64encode(digest[: HASHES["sha256"][0]]).decode())

    @cached_property
    def _digests(self) -> bytes:
        return base64.b64decode(self.blocks)

    def check(self, path: str, content: Content, start: int = 0) -> None:
        """An error if these are not the bytes from `start`, where a block begins, to the end of one."""
        nbytes, digest_of = HASHES[self.hash]
        for at, block in enumerate(_blocks(content, self.block), start // self.block):
            if digest_of(block) != self._digests[at * nbytes : (at + 1) * nbytes]:
                first = at * self.block
                where = f" in its bytes {first:,} to {first + len(block):,}"
                where = where if self.size > self.block else ""
                raise DamagedError(shown(path), f"it is not what was written{where}")

    def check_size(self, path: str, size: int) -> None:
        """An error if a file of this size is another."""
        if size != self.size:
            raise DamagedError(shown(path), self.wrong_size(size))

    def wrong_size(self, size: int) -> str:
        """What is wrong with a file of another size."""
        return f"it has {size:,} bytes, and should have {self.size:,}"


def _blocks(content: Content, size: int) -> Iterator[memoryview]:
    """At least one, which may be empty."""
    whole = memoryview(content)
    for start in range(0, max(1, len(whole)), size):
        yield whole[start : start + size]


class DigestingOutput:
    """A new file whose digest is computed while it is written; a Python file to pyarrow.

    CRC-32 tells of accidents as surely as a longer digest does in practice, and takes less than half the time.
    """

    closed = False

    def __init__(self, stream: BinaryIO | pa.NativeFile, nbytes: int) -> None:
        self._stream, self._size, self._digests = stream, 0, bytearray()
        self._block = BLOCK_BYTES
        while self._block * MAX_BLOCKS < nbytes:
            self._block *= 2
        self._crc, self._room = 0, self._block

    def write(self, content: Content) -> int:
        """Write these bytes."""
        rest = memoryview(content).cast("B")
        written = len(rest)
        self._stream.write(content)
        self._size += written
        while len(rest) >= self._room:
            self._crc = crc32(rest[: self._room], self._crc)
            rest = rest[self._room :]
            self._end_block()
        self._crc = crc32(rest, self._crc)
        self._room -= len(rest)
        return written

    def _end_block(self) -> None:
        self._digests += _crc32(b"", self._crc)
        self._crc, self._room = 0, self._block

    def tell(self) -> int:
        """How many bytes were written."""
        return self._size

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._stream.flush()

    def close(self) -> None:
        """Nothing more is written; the stream is closed by who opened it."""
        self.closed = True

    @property
    def digest(self) -> FileDigest:
        """The digest of all that was written."""
        if self._room < self._block or not self._size:
            self._end_block()
        blocks = base64.b64encode(self._digests).decode()
        return FileDigest(self._size, self._block, blocks, "crc32")


class VerifiedInput:
    """A file of which every byte is compared with a digest before it is read; a Python file to pyarrow."""

    closed = False

    def __init__(self, path: str, digest: FileDigest) -> None:
        self.path, self.digest, self._at = path, digest, 0
        self._file = _opened(path)
        digest.check_size(path, self._file.size())

    def read(self, nbytes: int = -1) -> Content:
        """The next bytes, out of the blocks that they are in."""
        size, block = self.digest.size, self.digest.block
        start, stop = self._at, size if nbytes < 0 else min(self._at + nbytes, size)
        if start >= stop:
            return b""
        begin, end = start // block * block, min(-(-stop // block) * block, size)
        self._file.seek(begin)
        content = memoryview(self._file.read_buffer(end - begin))
        self.digest.check_size(self.path, size - (end - begin) + len(content))
        self.digest.check(self.path, content, begin)
        self._at = stop
        return content[start - begin : stop - begin]

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go on reading elsewhere."""
        self._at = offset + (0, self._at, self.digest.size)[whence]
        return self._at

    def tell(self) -> int:
        """Where the next bytes are."""
        return self._at

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()


def _opened(path: str) -> pa.NativeFile:
    import pyarrow as pa

    source = opened(path)
    return pa.OSFile(source) if isinstance(source, str) else source


def read_verified(path: str, digest: FileDigest | None) -> bytes:
    """All bytes of a file, compared with its digest if that is known."""
    with _reading(path), _opened(path) as file:
        size = file.size()
        if digest is not None:
            digest.check_size(path, size)
        content: bytes = file.read(size)
    if digest is not None:
        digest.check(path, content)
    return content


def verify(path: str, digest: FileDigest) -> None:
    """An error if a file is not what was written; it is read in pieces."""
    piece = digest.block * max(1, PIECE_BYTES // digest.block)
    with _reading(path), closing(VerifiedInput(path, digest)) as file:
        while file.read(piece):
            pass


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DamagedError(shown(path), "it is not there") from None
    except OSError as error:
        raise DamagedError(shown(path), reason(error)) from error


def parquet_file(path: str, digest: FileDigest | None = None) -> ParquetFile:
    """A Parquet file that is compared with its digest; if none is known, with the checksums of its pages."""
    import pyarrow as pa
    from pyarrow import parquet

    # From a URL few, large pieces are requested.
    pre_buffer = is_url(path)
    if digest is None:
        source = opened(path)
        return parquet.ParquetFile(source, pre_buffer=pre_buffer, page_checksum_verification=True)
    source = pa.PythonFile(VerifiedInput(path, digest), mode="r")
    return parquet.ParquetFile(source, pre_buffer=pre_buffer)
