"""The files that streams have read, in a saved tree.

Recent entries of a relation's log are in the manifest (`read_files`). Its segments are files of their own
beside those of relations, named by the manifest (`read_segments`) and read when a stream needs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from calitree.errors import SavedError
from calitree.saved.directory import RELATIONS, DataFiles, Directory, name_below
from calitree.saved.location import SavedLocation
from calitree.saved.manifest import Json, checksum
from calitree.storage.digest import FileDigest
from calitree.storage.file_log import Entries, FileLog, Segment
from calitree.storage.table_format import SavedFile


def encoded_logs(logs: Mapping[str, FileLog], files: DataFiles, location: SavedLocation) -> Json:
    """What a manifest says of the logs. Segments that are not in the directory yet are written."""
    segments = {
        relation: [_written(segment, files, location) for segment in log.segments]
        for relation, log in logs.items()
    }
    digests = {name_below(s.path): s.digest for written in segments.values() for s in written}
    return {
        "read_files": {relation: log.recent for relation, log in logs.items()},
        "read_segments": {
            relation: [name_below(segment.path) for segment in written]
            for relation, written in segments.items()
        },
        "segment_digests": {name: asdict(digest) for name, digest in digests.items() if digest},
    }


def _written(segment: Segment, files: DataFiles, location: SavedLocation) -> SavedFile:
    """A segment in a file of the directory."""
    file = location.entries.get(segment)
    if not isinstance(file, SavedFile) or not files.has(file.path):
        path = files.new(RELATIONS, "read-files", ".json")
        content = {"checksum": checksum({**segment.entries}), "files": segment.entries}
        text = json.dumps(content).encode()
        files.directory.create(name_below(path), text)
        file = location.entries[segment] = SavedFile(path, len(text), (), FileDigest.of(text))
    return file


def decoded_logs(tree: Json, directory: Directory, location: SavedLocation) -> dict[str, FileLog]:
    """The logs that `encoded_logs` has described. Segments that this tree has are not loaded again."""
    known = {
        file.path: segment
        for segment, file in location.entries.items()
        if isinstance(file, SavedFile)
    }
    digests = tree.get("segment_digests", {})

    def segment_of(name: str) -> Segment:
        path = directory.below(name)
        segment = known.get(path)
        if not isinstance(segment, Segment):
            digest = FileDigest(**digests[name]) if name in digests else None
            segment = Segment(partial(_loaded, directory, name, digest))
            location.entries[segment] = SavedFile(path, 0, (), digest)
        return segment

    segments = tree.get("read_segments", {})
    return {
        relation: FileLog(tuple(map(segment_of, segments.get(relation, ()))), _entries(recent))
        for relation, recent in tree.get("read_files", {}).items()
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
            raise ValueError("it is not what was written")
        body = json.loads(content)
        if body["checksum"] != checksum(body["files"]):
            raise ValueError("its checksum is wrong")
        return _entries(body["files"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise SavedError(
            f"Which files were read is not known: {directory}/{name} is damaged "
            f"({type(error).__name__}: {error}). Open an older version of the tree."
        ) from error


def _entries(body: Json) -> Entries:
    return {
        directory: {name: stamp and (stamp[0], stamp[1]) for name, stamp in files.items()}
        for directory, files in body.items()
    }
