"""The files that streams have read, in a saved tree.

Recent entries of a relation's log are in the manifest (`read_files`). Its segments are files of their own
beside those of relations, named by the manifest (`read_segments`) and read when a stream needs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from calitree.errors import SavedError
from calitree.saved.directory import RELATIONS, DataFiles, Directory, name_below
from calitree.saved.location import SavedLocation
from calitree.saved.manifest import checksum
from calitree.saved.tree_record import SavedTree
from calitree.storage.digest import FileDigest
from calitree.storage.file_log import Entries, FileLog, Segment, Stamp
from calitree.storage.filesystem import reason
from calitree.storage.json_codec import MAX_BYTES, MalformedError, decode, parse
from calitree.storage.table_format import SavedFile


@dataclass(frozen=True)
class SavedSegment:
    """A segment in its file."""

    checksum: str
    files: dict[str, dict[str, Stamp | None]]


def with_logs(
    tree: SavedTree, logs: Mapping[str, FileLog], files: DataFiles, location: SavedLocation
) -> SavedTree:
    """What a manifest says of a tree and its logs. Segments that are not in the directory yet are written."""
    segments = {
        relation: [_written(segment, files, location) for segment in log.segments]
        for relation, log in logs.items()
    }
    digests = {name_below(s.path): s.digest for written in segments.values() for s in written}
    return replace(
        tree,
        read_files={relation: _entries(log.recent) for relation, log in logs.items()},
        read_segments={
            relation: tuple(name_below(segment.path) for segment in written)
            for relation, written in segments.items()
        },
        segment_digests={name: digest for name, digest in digests.items() if digest},
    )


def _written(segment: Segment, files: DataFiles, location: SavedLocation) -> SavedFile:
    """A segment in a file of the directory."""
    file = location.entries.get(segment)
    if not isinstance(file, SavedFile) or not files.has(file.path):
        path = files.new(RELATIONS, "read-files", ".json")
        content = {"checksum": checksum({**segment.entries}), "files": segment.entries}
        text = json.dumps(content).encode()
        if len(text) > MAX_BYTES:
            raise SavedError(
                f"Streams have read too many files: their names would take {len(text):,} bytes in a "
                f"file, and at most {MAX_BYTES:,} are read again. Let them read from new directories."
            )
        files.directory.create(name_below(path), text)
        file = location.entries[segment] = SavedFile(path, len(text), (), FileDigest.of(text))
    return file


def decoded_logs(
    tree: SavedTree, directory: Directory, location: SavedLocation
) -> dict[str, FileLog]:
    """The logs that `with_logs` has described. Segments that this tree has are not loaded again."""
    known = {
        file.path: segment
        for segment, file in location.entries.items()
        if isinstance(file, SavedFile)
    }

    def segment_of(name: str) -> Segment:
        path = directory.below(name)
        segment = known.get(path)
        if not isinstance(segment, Segment):
            digest = tree.segment_digests.get(name)
            segment = Segment(partial(_loaded, directory, name, digest))
            location.entries[segment] = SavedFile(path, 0, (), digest)
        return segment

    return {
        relation: FileLog(tuple(map(segment_of, tree.read_segments.get(relation, ()))), recent)
        for relation, recent in tree.read_files.items()
    }


def _loaded(directory: Directory, name: str, digest: FileDigest | None) -> Entries:
    content = directory.read(name)
    if content is None:
        raise SavedError(
            f"Which files were read is not known: {directory}/{name} is not there any more. Open the "
            "tree again, or take over its newest version with reload."
        )
    try:
        if digest not in (None, FileDigest.of(content)):
            raise MalformedError("it is not what was written")
        body = parse(content)
        segment = decode(SavedSegment, body)
        if segment.checksum != checksum(body["files"]):
            raise MalformedError("its checksum is wrong")
        return segment.files
    except (ValueError, RecursionError) as error:
        raise SavedError(
            f"Which files were read is not known: {directory}/{name} is damaged: {reason(error)}. "
            "Open an older version of the tree."
        ) from error


def _entries(recent: Entries) -> dict[str, dict[str, Stamp | None]]:
    return {directory: dict(files) for directory, files in recent.items()}
