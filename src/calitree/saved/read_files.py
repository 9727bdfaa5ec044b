"""The files that streams have read, in a saved tree.

Recent entries of a relation's log are in the manifest (`read_files`). Its segments are files of their own
beside those of relations, named by the manifest (`read_segments`) and read when a stream needs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

from calitree.errors import SavedError
from calitree.saved.directory import RELATIONS, DataFiles, Directory, name_below
from calitree.saved.location import SavedLocation
from calitree.saved.manifest import Json, checksum
from calitree.storage.file_log import Entries, FileLog, Segment


def encoded_logs(logs: Mapping[str, FileLog], files: DataFiles, location: SavedLocation) -> Json:
    """What a manifest says of the logs. Segments that are not in the directory yet are written."""
    return {
        "read_files": {relation: log.recent for relation, log in logs.items()},
        "read_segments": {
            relation: [_written(segment, files, location) for segment in log.segments]
            for relation, log in logs.items()
        },
    }


def _written(segment: Segment, files: DataFiles, location: SavedLocation) -> str:
    """The name of a segment below the directory."""
    path = location.entries.get(segment)
    if not isinstance(path, str) or not files.has(path):
        path = files.new(RELATIONS, "read-files", ".json")
        content = {"checksum": checksum({**segment.entries}), "files": segment.entries}
        files.directory.create(name_below(path), json.dumps(content).encode())
        location.entries[segment] = path
    return name_below(path)


def decoded_logs(tree: Json, directory: Directory, location: SavedLocation) -> dict[str, FileLog]:
    """The logs that `encoded_logs` has described. Segments that this tree has are not loaded again."""
    known = {path: segment for segment, path in location.entries.items() if isinstance(path, str)}

    def segment_of(name: str) -> Segment:
        path = directory.below(name)
        segment = known.get(path)
        if not isinstance(segment, Segment):
            segment = Segment(partial(_loaded, directory, name))
            location.entries[segment] = path
        return segment

    segments = tree.get("read_segments", {})
    return {
        relation: FileLog(tuple(map(segment_of, segments.get(relation, ()))), _entries(recent))
        for relation, recent in tree.get("read_files", {}).items()
    }


def _loaded(directory: Directory, name: str) -> Entries:
    content = directory.read(name)
    if content is None:
        raise SavedError(
            f"Which files were read is not known: {directory}/{name} is not there any more. Open the "
            "tree again, or take over its newest version with reload."
        )
    try:
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
