"""Digests of files: no byte that is read goes uncompared, and what is not read is not."""

from __future__ import annotations

import base64
import hashlib
import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import calitree as ct
from calitree.storage import digest as digests
from calitree.storage.digest import (
    DigestingOutput,
    FileDigest,
    VerifiedInput,
    parquet_file,
    read_verified,
    verify,
)
from calitree.storage.table_format import write_parquet

CONTENT = bytes(range(256)) * 5


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "BLOCK_BYTES", 64)


def written(pieces: list[bytes]) -> tuple[bytes, FileDigest]:
    stream = io.BytesIO()
    output = DigestingOutput(stream, 0)
    for piece in pieces:
        output.write(piece)
    assert output.tell() == len(b"".join(pieces))
    return stream.getvalue(), output.digest


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 200, 2_000])
def test_it_does_not_matter_in_what_pieces_a_file_is_written(size: int) -> None:
    pieces = [CONTENT[at : at + size] for at in range(0, len(CONTENT), size)]
    assert written(pieces) == written([CONTENT])
    assert written([*pieces, b""])[0] == CONTENT


def test_every_byte_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content, digest = written([CONTENT])
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        reader = VerifiedInput(str(path), digest)
        reader.seek(at)
        with pytest.raises(ct.DamagedError, match="not what was written in its bytes"):
            reader.read(1)
        for read in (verify, read_verified):
            with pytest.raises(ct.DamagedError):
                read(str(path), digest)
        reader.seek((at + 64) % len(content))
        assert len(reader.read(1)) == 1, "another block is whole"


def test_files_of_earlier_formats_have_other_digests(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    blocks = [CONTENT[at : at + 64] for at in range(0, len(CONTENT), 64)]
    joined = b"".join(hashlib.sha256(block).digest()[:8] for block in blocks)
    digest = FileDigest(len(CONTENT), 64, base64.b64encode(joined).decode())
    assert read_verified(str(path), digest) == CONTENT
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(ct.DamagedError):
        read_verified(str(path), digest)


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content, digest = written([CONTENT])
    path.write_bytes(content)
    file = VerifiedInput(str(path), digest)
    for start in range(0, len(content) + 1, 13):
        for length in (0, 1, 63, 64, 65, 500, -1):
            assert file.seek(start) == start
            stop = len(content) if length < 0 else start + length
            assert bytes(file.read(length)) == content[start:stop]
            assert file.tell() == min(stop, len(content))
    assert file.seek(-5, 2) == len(content) - 5
    assert file.seek(2, 1) == len(content) - 3
    assert bytes(file.read()) == content[-3:]


@pytest.mark.parametrize("other", [b"", CONTENT[:-1], CONTENT + b"x", CONTENT[:64]])
def test_other_sizes(tmp_path: Path, other: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(other)
    _, digest = written([CONTENT])
    with pytest.raises(
        ct.DamagedError, match=rf"it has {len(other):,} bytes, and should have 1,280"
    ):
        VerifiedInput(str(path), digest)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    file = VerifiedInput(str(path), written([CONTENT])[1])
    path.write_bytes(CONTENT[:128])
    assert bytes(file.read(128)) == CONTENT[:128]
    with pytest.raises(ct.DamagedError, match="should have 1,280"):
        file.read(128)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    content, digest = written([])
    assert content == read_verified(str(path), digest) == b""
    assert read_verified(str(path), FileDigest.of(b"")) == b""
    verify(str(path), digest)


def test_large_files_have_larger_blocks() -> None:
    output = DigestingOutput(io.BytesIO(), 64 * digests.MAX_BLOCKS * 2 + 1)
    output.write(CONTENT)
    assert output.digest.block == 256


def damage_column(path: Path, number: int) -> None:
    """Change a byte amid a column's values."""
    chunk = parquet.read_metadata(path).row_group(0).column(number)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start + chunk.total_compressed_size // 2] ^= 4
    path.write_bytes(content)


def test_columns_that_are_not_read_are_not_compared(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    rows = range(20_000)  # pyarrow reads 64 KB from the end for the footer
    table = pa.table({"b": [f"text {i}" for i in rows], "a": [i * i for i in rows]})
    digest = write_parquet(table, path)
    assert parquet_file(path, digest).read() == table
    damage_column(Path(path), 0)
    assert parquet_file(path, digest).read(columns=["a"]) == table.select(["a"])
    with pytest.raises(ct.DamagedError, match=r"a\.parquet is damaged"):
        parquet_file(path, digest).read(columns=["b"])


def test_pages_have_checksums(tmp_path: Path) -> None:
    """Who reads a file without its digest, as Spark does, notices damage in pages."""
    path = tmp_path / "a.parquet"
    write_parquet(pa.table({"a": list(range(500))}), str(path))
    damage_column(path, 0)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        parquet_file(str(path)).read()
