"""Trees of strangers: opened, asked, listed, saved and vacuumed, they give an answer or one of our errors.

Whatever they say, nothing outside of their directory is read, written or deleted.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import calitree as ct
from calitree.saved.guard import trust
from tests.torture.guard import guarded
from tests.torture.hostile_manifests import Hostile, mutations, sealed_again, texts

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a POSIX file system"),
    pytest.mark.filterwarnings("ignore::calitree.DamagedWarning"),
]

QUESTIONS: list[dict[str, Any]] = [
    {},
    {"group_by": ["city"], "measures": ["n"]},
    {"where": "units > 1", "measures": {"m": "sum(units * people)"}},
]
SALES = {"store": [1, 2, 2, 3], "units": [1, 10, 100, 1000], "day": [1, 1, 2, 2]}
STORES = {"store": [1, 2, 3], "city": ["Quito", "Cuenca", "Quito"], "town": [1, 2, 1]}


def calibrated(sales: Any = None) -> ct.WideTable:
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", SALES if sales is None else sales)
    graph.add_relation("stores", STORES)
    graph.add_relation("towns", {"town": [1, 2], "people": [3, 5]})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "towns", on="town")
    mean = ct.aggregate(ct.semiring.AVG, {"sales": {"n": "1", "s": "units"}}, final="s / n")
    measures = {"n": "count(*)", "units": "sum(units)", "far": "max(day)", "mean": mean}
    return graph.calibrate(measures)


def updated() -> ct.WideTable:
    wide = calibrated()
    wide.cube(["city", "day"], k=1)
    wide.update("sales", insert=[{"store": 1, "units": 5, "day": 3}])
    wide.query(["city"])
    wide.update("stores", delete="store = 3")
    wide.state.streams["s"] = 4
    return wide


def filtered() -> ct.WideTable:
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", SALES)
    graph.add_relation("stores", STORES)
    graph.add_join("sales", "stores", on="store")
    wide = graph.calibrate({"n": "count(*)"}, group_by=["city"], where="units > 1 and city <> 'x'")
    return wide.augment({"town": [1, 2], "people": [3, 5]}, on="town", name="towns")


class Trees:
    """Some saved trees, a directory beside them that nobody may touch, and one that they may refer to."""

    def __init__(self, root: Path) -> None:
        self.outside, self.data, self.saved = root / "outside", root / "data", root / "saved"
        self.outside.mkdir()
        self.data.mkdir()
        parquet.write_table(pa.table(SALES), self.data / "sales.parquet")
        parquet.write_table(pa.table(SALES), self.outside / "secret.parquet")
        (self.outside / "secret.csv").write_text("store,units,day\n1,2,3\n")
        calibrated().save(self.saved / "plain")
        updated().save(self.saved / "updated")
        filtered().save(self.saved / "filtered")
        calibrated(str(self.data / "sales.parquet")).save(self.saved / "referring", copy_below=0)
        self.answers = {path.name: answers(path) for path in self.saved.iterdir()}

    def manifest(self, name: str) -> Path:
        return self.saved / name / "manifests" / "000000000001.json"

    def worth_stealing(self, port: int) -> list[str]:
        """What a manifest may be answered to name."""
        secret = str(self.outside / "secret.parquet")
        return [
            *(secret, f"file://{secret}", str(self.outside), f"//{secret}", f"/.{secret}"),
            *(str(self.outside / "secret.csv"), "../../../outside/secret.parquet", "/dev/zero"),
            *(f"messages/../../../outside/{n}" for n in ("secret.parquet", "x")),
            *("relations/..", "relations/", "relations/a/b", "relations\\..\\..", "\0", "messages"),
            f"s3://b/x.parquet?endpoint_override=127.0.0.1:{port}&scheme=http",
            *(f"http://127.0.0.1:{port}/x.parquet", f"ftp://127.0.0.1:{port}/x"),
            *(f"local://{secret}", f"memory://x::file://{secret}", f"~{secret}", "parquet.`/x`"),
        ]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return Trees(tmp_path_factory.mktemp("trees"))


def answers(directory: Path, **options: Any) -> list[Any]:
    """Answers to all questions; where there is none, why."""
    wide = ct.open(directory, engine="local", **options)
    given: list[Any] = []
    for question in QUESTIONS:
        try:
            rows = wide.query(**question).rows()
            given.append(sorted(rows, key=str))
        except ct.CalitreeError as error:
            given.append(error)
    return given


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail rather than wait for a pipe."""

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def everything(directory: Path, beside: Path) -> None:
    """All that can be done with a tree; only our errors may come of it."""
    acts: list[Callable[[], object]] = [
        lambda: answers(directory),
        lambda: ct.open(directory, engine="local").save(beside / "copy"),
        lambda: ct.saved.status(directory),
        lambda: ct.open(directory, engine="local").save(directory),
        lambda: ct.saved.vacuum(directory, grace=0),
    ]
    for act in acts:
        with suppress(ct.CalitreeError):
            act()
    shutil.rmtree(beside, ignore_errors=True)


# -- manifests ------------------------------------------------------------------------------------

MEANING = ("measures", "where", "group_by", "further", "columns", "bound", "changes", "table")
"""What a tree says of itself: who changes it there has another tree, with other answers."""


def try_mutations(trees: Trees, number: int, seed: int, among: str = "") -> Counter[str]:
    """Open and ask trees with hostile manifests; what came of them."""
    outcomes: Counter[str] = Counter()
    scratch = trees.saved.parent / "scratch"
    for name, right in trees.answers.items():
        original = json.loads(trees.manifest(name).read_text())
        with guarded(trees.outside) as guard, within(600):
            every = mutations(original, seed, trees.worth_stealing(guard.port), among)
            shutil.copytree(trees.saved / name, scratch)
            for i, hostile in enumerate(islice(every, number)):
                (scratch / "manifests" / "000000000001.json").write_text(hostile.text)
                try:
                    outcomes[outcome(scratch, hostile, right)] += 1
                    if i % 10 == 0:
                        everything(scratch, scratch.parent / "beside")
                        shutil.rmtree(scratch)
                        shutil.copytree(trees.saved / name, scratch)
                    assert guard.events() == []
                except BaseException:
                    (trees.saved.parent / "hostile.json").write_text(hostile.text)
                    print(name, i, hostile.changed)
                    raise
            shutil.rmtree(scratch)
    return outcomes


def outcome(directory: Path, hostile: Hostile, right: list[Any]) -> str:
    """What comes of a manifest: an error when it is opened, errors or answers when it is asked."""
    try:
        given = answers(directory)
    except ct.SavedError:
        return "refused"
    answered = [answer for answer in given if not isinstance(answer, ct.CalitreeError)]
    wrong = [a for a, b in zip(given, right, strict=True) if a in answered and a != b]
    if wrong:
        changed = {name for path, _ in hostile.changed for name in path}
        assert changed & set(MEANING), (wrong, right)
        return "another tree"
    return "right" if answered else "answers nothing"


def test_hostile_manifests(trees: Trees) -> None:
    outcomes = try_mutations(trees, 60, seed=1)
    assert outcomes["refused"] > 100 and outcomes["right"] > 10, outcomes


@pytest.mark.slow
def test_many_hostile_manifests(trees: Trees) -> None:
    outcomes = try_mutations(trees, 1_000, seed=2)
    print(outcomes)
    assert outcomes["refused"] > 1_000, outcomes


def test_files_that_are_no_manifest(trees: Trees, tmp_path: Path) -> None:
    shutil.copytree(trees.saved / "plain", tmp_path / "tree")
    original = json.loads(trees.manifest("plain").read_text())
    for text in texts(original):
        (tmp_path / "tree" / "manifests" / "000000000001.json").write_bytes(text)
        for act in (ct.open, ct.saved.status, ct.saved.vacuum):
            with pytest.raises(ct.SavedError, match=r"is damaged|has format"):
                act(tmp_path / "tree")


def test_a_manifest_is_of_limited_size(
    trees: Trees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trees.saved / "plain", tmp_path / "tree")
    for module in ("calitree.saved.directory", "calitree.storage.json_codec"):
        monkeypatch.setattr(f"{module}.MAX_BYTES", 1_000)
    with pytest.raises(ct.SavedError, match="at most 1,000 are read"):
        ct.open(tmp_path / "tree", engine="local")
    monkeypatch.setattr("calitree.saved.manifest.MAX_BYTES", 1_000)
    with pytest.raises(ct.SavedError, match="at most 1,000 are read again"):
        calibrated().save(tmp_path / "other")


OWN = [
    ("relations", 0, "source", "files", 0, "path"),
    ("relations", 0, "changes", 0, "came", "path"),
    ("messages", 0, "table", "path"),
    ("read_segments", "sales"),
]


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path[0]))
def test_own_files_have_plain_names(path: tuple[Any, ...], trees: Trees, tmp_path: Path) -> None:
    shutil.copytree(trees.saved / "updated", tmp_path / "tree")
    original = json.loads(trees.manifest("updated").read_text())
    with guarded(trees.outside) as guard:
        for evil in trees.worth_stealing(guard.port):
            content = json.loads(json.dumps(original))
            owner = content
            for name in path[:-1]:
                owner = owner[name]
            owner[path[-1]] = [evil] if path[0] == "read_segments" else evil
            manifest = tmp_path / "tree" / "manifests" / "000000000001.json"
            manifest.write_text(sealed_again(content))
            for act in (ct.open, ct.saved.status, ct.saved.vacuum):
                with pytest.raises(ct.SavedError, match="no name of a file in a saved tree"):
                    act(tmp_path / "tree")


# -- links and other things that are no files -----------------------------------------------------


def as_link(path: Path, outside: Path) -> None:
    shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name)


def as_pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_directory(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()
    shutil.copy(outside / "secret.parquet", outside / "linked.parquet")
    (path / "part.parquet").symlink_to(outside / "linked.parquet")


def as_device(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def as_socket(path: Path, outside: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # paths of sockets are short
        server.bind(path.name)
        os.chdir(here)


@pytest.mark.parametrize("become", [as_link, as_pipe, as_directory, as_device, as_socket])
@pytest.mark.parametrize("part", ["manifests", "messages", "relations"])
def test_files_that_are_none(
    part: str, become: Callable[[Path, Path], None], trees: Trees, tmp_path: Path
) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    shutil.copytree(trees.saved / "plain", tree)
    shutil.copytree(trees.outside, outside)
    for file in (tree / part).iterdir():
        become(file, outside)
    before = sorted(outside.iterdir())
    with guarded(outside), within(60):
        given: list[Any] = []
        with suppress(ct.SavedError):
            given = answers(tree)
        for answer, right in zip(given, trees.answers["plain"], strict=False):
            assert isinstance(answer, ct.SavedError) or answer == right
        everything(tree, tmp_path / "beside")
    assert sorted(outside.iterdir()) == before


@pytest.mark.parametrize("part", ["manifests", "messages", "relations"])
def test_directories_that_are_links(part: str, trees: Trees, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    shutil.copytree(trees.saved / "plain", tree)
    outside.mkdir()
    as_link(tree / part, outside)
    before = sorted(outside.rglob("*"))
    with guarded(outside), within(60):
        with pytest.raises(ct.SavedError, match="is a link"):
            if part == "manifests":
                ct.open(tree, engine="local")
            else:
                calibrated().save(tree)
        with pytest.raises(ct.SavedError, match="is a link"):
            ct.saved.vacuum(tree, grace=0)
        everything(tree, tmp_path / "beside")
    assert sorted(outside.rglob("*")) == before


def test_vacuum_deletes_links_and_not_what_they_lead_to(trees: Trees, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    shutil.copytree(trees.saved / "plain", tree)
    shutil.copytree(trees.outside, outside)
    (tree / "messages" / "link.parquet").symlink_to(outside)
    (tree / "relations" / "dir.parquet").mkdir()
    (tree / "relations" / "dir.parquet" / "link").symlink_to(outside)
    (tree / "manifests" / ".link").symlink_to(outside / "secret.csv")
    with guarded(outside):
        assert ct.saved.vacuum(tree, grace=0) == [
            "manifests/.link",
            "messages/link.parquet",
            "relations/dir.parquet",
        ]
    assert sorted(path.name for path in outside.iterdir()) == ["secret.csv", "secret.parquet"]


def test_the_directory_itself_may_be_a_link(trees: Trees, tmp_path: Path) -> None:
    shutil.copytree(trees.saved / "plain", tmp_path / "tree")
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    assert answers(tmp_path / "link") == trees.answers["plain"]
    ct.open(tmp_path / "link", engine="local").save()
    assert ct.saved.vacuum(tmp_path / "link") == ["manifests/000000000001.json"]


# -- files outside --------------------------------------------------------------------------------


def strangers(trees: Trees, directory: Path, *files: str, **source: Any) -> Path:
    """A tree whose sales are in other files than those that it was saved with."""
    shutil.copytree(trees.saved / "referring", directory)
    manifest = directory / "manifests" / "000000000001.json"
    content = json.loads(manifest.read_text())
    described = content["relations"][0]["source"]
    assert described["place"] == "files"
    if files:
        stamps = [Path(f if Path(f).is_file() else "/").stat() for f in files]
        described["files"] = [
            {"path": f, "size": s.st_size, "stamp": [s.st_mtime_ns, s.st_size]}
            for f, s in zip(files, stamps, strict=True)
        ]
    described.update(source)
    manifest.write_text(sealed_again(content))
    return directory


def refused(given: list[Any]) -> bool:
    """Whether what needs the rows is refused, and what does not is answered."""
    assert given[0] == [{"n": 4, "units": 1111, "far": 2, "mean": 277.75}]
    return isinstance(given[2], ct.SavedError) and "allow=" in str(given[2])


def test_ones_own_references_open(trees: Trees, tmp_path: Path) -> None:
    shutil.copytree(trees.saved / "referring", tmp_path / "moved")
    assert answers(tmp_path / "moved") == trees.answers["referring"]
    assert trees.answers["referring"] == trees.answers["plain"]


def test_references_of_strangers_are_not_read(trees: Trees, tmp_path: Path) -> None:
    with guarded(trees.outside) as guard:
        for i, evil in enumerate(trees.worth_stealing(guard.port)):
            tree = strangers(trees, tmp_path / f"{i}", evil)
            try:
                assert refused(answers(tree)), evil
                assert "allow=" in str(ct.saved.status(tree))
                ct.open(tree, engine="local").save(tmp_path / f"{i} elsewhere")
                assert isinstance(answers(tmp_path / f"{i} elsewhere")[2], ct.SavedError)
                ct.open(tree, engine="local").save(tree)
                assert refused(answers(tree)), "saving it does not make it ours"
            except ct.SavedError as error:
                assert "no whole path" in str(error)
            everything(tree, tmp_path / "beside")


@pytest.mark.parametrize("seal", ["", "0" * 64, "é"])
def test_a_seal_cannot_be_made_up(seal: str, trees: Trees, tmp_path: Path) -> None:
    tree = strangers(trees, tmp_path / "tree", seal=seal)
    assert refused(answers(tree))
    assert answers(tree, allow=trees.data) == trees.answers["plain"]


def test_what_is_allowed_is_read(trees: Trees, tmp_path: Path) -> None:
    secret = str(trees.outside / "secret.parquet")
    tree = strangers(trees, tmp_path / "tree", secret)
    right = trees.answers["plain"]
    for place in (secret, str(trees.outside), trees.outside, ["/x", trees.outside], "/"):
        assert answers(tree, allow=place) == right
    for place in ("/x", str(trees.outside)[:-1], "s3://", f"{secret}/x", [], ()):
        assert refused(answers(tree, allow=place))
    relation = ct.saved.status(tree, allow=trees.outside).relations[0]
    assert relation.problem is None
    with pytest.raises(ct.SavedError, match="allow is a place or a list of places"):
        ct.open(tree, engine="local", allow=[1])
    # Who has allowed it and saves it has named it themselves.
    ct.open(tree, engine="local", allow=trees.outside).save(tmp_path / "mine", copy_below=0)
    assert answers(tmp_path / "mine") == right


def test_links_do_not_lead_out_of_what_is_allowed(trees: Trees, tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "link.parquet").symlink_to(trees.outside / "secret.parquet")
    tree = strangers(trees, tmp_path / "tree", str(tmp_path / "allowed" / "link.parquet"))
    with guarded(trees.outside):
        assert refused(answers(tree, allow=tmp_path / "allowed"))


def test_another_user_has_another_key(
    trees: Trees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trees.saved / "referring", tmp_path / "tree")
    monkeypatch.setattr(trust, "_key", lambda: b"another")
    assert refused(answers(tmp_path / "tree"))
    assert answers(tmp_path / "tree", allow=trees.data) == trees.answers["plain"]


@pytest.mark.parametrize(
    ("url", "allow", "expected"),
    [
        ("s3://b/data/x.parquet", "s3://b/data", True),
        ("s3://b/data/x.parquet", "s3://b/data/", True),
        ("s3a://b/data/x.parquet", "s3://b", True),
        ("s3://b/data/x.parquet", "s3://", True),
        ("s3://b/database/x.parquet", "s3://b/data", False),
        ("s3://c/data/x.parquet", "s3://b", False),
        ("s3://b/x.parquet?endpoint_override=evil:9000", "s3://b", False),
        ("s3://b/x.parquet?endpoint_override=evil:9000", "s3://", False),
        ("s3://b/x?endpoint_override=own:9000", "s3://b?endpoint_override=own:9000", True),
        ("https://b/data/x.parquet", "s3://b/data", False),
        ("file:///data/x.parquet", "/data", True),
        ("/data/x.parquet", "file:///data", True),
        ("s3://b/data/x.parquet", "/", False),
    ],
)
def test_urls_are_allowed_by_what_they_begin_with(url: str, allow: str, expected: bool) -> None:
    assert trust._is_below(url, allow) is expected


# -- the key --------------------------------------------------------------------------------------


def test_the_key_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    key = trust._key.__wrapped__()
    file = tmp_path / "calitree" / "seal.key"
    assert file.read_bytes() == key and file.stat().st_mode & 0o777 == 0o600
    assert trust._key.__wrapped__() == key
    file.chmod(0o644)
    assert trust._key.__wrapped__() != key, "others may have read it"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert trust._key.__wrapped__() != trust._key.__wrapped__(), "one of the process alone"
    monkeypatch.setenv("XDG_DATA_HOME", "/proc")  # where nothing can be written
    assert len(trust._key.__wrapped__()) == trust.KEY_BYTES


# -- parts that contradict each other -------------------------------------------------------------

CONTRADICTIONS: list[tuple[str, Any, str]] = [
    ("relations.0.name", "stores", "stores"),
    ("relations.0.kinds", {"store": "integer"}, "other columns than its schema"),
    ("relations.0.kinds.store", "string", "not what its columns make"),
    ("relations.0.schema", "AAAA", "wrong types of columns"),
    ("relations.0.null_free", ["x"], "columns that it does not have"),
    ("relations.0.rows", -1, "is no count"),
    ("relations.0.version", -1, "is no count"),
    ("relations.0.changes.0.old", 5, "do not follow each other"),
    ("relations.0.source.files", [], "with 0 files"),
    ("relations.0.source", {"place": "table"}, "has no name"),
    ("relations.0.source.place", "anywhere", "not one of"),
    ("joins.0.0", "sale", "which is not there"),
    ("joins.0.2.0.1", "stor", "which is not there"),
    ("joins", [], "not those that its joins make"),
    ("attributes.0.1.0.1", "units", "not those that its joins make"),
    ("attributes.0.2", "string", "not what its columns make"),
    ("bags.0.0", "stores", "Two bags"),
    ("bags.0.2", [], "no bag holds"),
    ("bags.0.1", [], "lacks"),
    ("edges", [], "connect the bags"),
    ("edges", [["sales", "stores"], ["stores", "sales"]], "connect the bags"),
    ("edges.0", ["sales", "nowhere"], "no bag"),
    ("added", ["x"], "no relation 'x'"),
    ("measures", {}, "at least one measure"),
    ("measures.n", "count(", "In 'count\\('|does not parse|count\\("),
    ("measures.n", "sum(nothing)", "No relation has a column"),
    ("measures.mean.final", "x / n", "may use only"),
    ("measures.mean.semiring.times", ["1"], "one entry for each component"),
    ("measures.mean.semiring.one", [2**70, 0], "at most 64 bits"),
    ("measures.mean.lifts", {"x": "1"}, "no relation 'x'"),
    ("where", "units >", "units >"),
    ("where", "1; drop table sales", "drop"),
    ("group_by", ["x"], "x"),
    ("bound", {"units > 1": "x"}, "no bag 'x'"),
    ("maintenance", "now", "not one of"),
    ("memory_limit", -1, "is no count"),
    ("messages.0.digest", "0" * 32, "a key that is not its own"),
    ("messages.0.text", "{}", "a key that is not its own"),
    ("messages.0.table.columns.0.name", "c9", "columns? of one name|lacks|attributes"),
    ("messages.0.table.columns", [], "lacks the column|keeps other attributes"),
    ("read_files", {"x": {}}, "no relation 'x'"),
    ("streams", {"s": "1"}, "streams.s is a text"),
]


@pytest.mark.parametrize(("path", "value", "message"), CONTRADICTIONS)
def test_parts_that_contradict_each_other(
    path: str, value: Any, message: str, trees: Trees, tmp_path: Path
) -> None:
    shutil.copytree(trees.saved / "updated", tmp_path / "tree")
    content = json.loads(trees.manifest("updated").read_text())
    *above, name = (int(part) if part.isdigit() else part for part in path.split("."))
    owner: Any = content
    for part in above:
        owner = owner[part]
    owner[name] = value
    manifest = tmp_path / "tree" / "manifests" / "000000000001.json"
    manifest.write_text(sealed_again(content))
    with pytest.raises(ct.SavedError, match=message):
        ct.open(tmp_path / "tree", engine="local")


# -- nothing is run -------------------------------------------------------------------------------

LISTENER = """
import sys
import calitree as ct

def ask(directory):
    wide = ct.open(directory, engine="local")
    for question in ({}, {"group_by": ["city"]}, {"where": "units > 1", "measures": {"m": "sum(units)"}}):
        try:
            wide.query(**question).rows()
        except ct.CalitreeError:
            pass

ask(sys.argv[1])  # which imports and compiles what is needed
events = []
RUNNING = ("exec", "compile", "import", "pickle.find_class", "marshal.loads", "os.system",
           "subprocess.Popen", "os.exec", "os.posix_spawn", "ctypes.dlopen", "code.__new__")
sys.addaudithook(lambda event, arguments: events.append((event, arguments)) if event in RUNNING else None)
for directory in sys.argv[2:]:
    try:
        ask(directory)
    except ct.CalitreeError:
        pass
assert not events, events
"""


def with_extension_type(trees: Trees, directory: Path) -> Path:
    """A tree whose schemas and files have a type that pyarrow once unpickled."""

    class Run:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {directory}/run",)

    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Run()),
    }
    shutil.copytree(trees.saved / "plain", directory)
    manifest = directory / "manifests" / "000000000001.json"
    content = json.loads(manifest.read_text())
    for described in content["relations"]:
        file = directory / described["source"]["files"][0]["path"]
        table = parquet.read_table(file)
        schema = pa.schema([field.with_metadata(metadata) for field in table.schema])
        described["schema"] = base64.b64encode(schema.serialize()).decode()
        parquet.write_table(table.cast(schema), file)
    manifest.write_text(sealed_again(content))
    return directory


def test_opening_imports_and_runs_nothing(trees: Trees, tmp_path: Path) -> None:
    extended = with_extension_type(trees, tmp_path / "extended")
    done = subprocess.run(
        [sys.executable, "-c", LISTENER, *map(str, [trees.saved / "plain"] * 2), str(extended)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not (extended / "run").exists()


NAMES = (
    'x"; DROP TABLE y; --',
    "x'; COPY (SELECT 1) TO 'o'; --",
    "`x`; y",
    "$$",
    "{x}",
    "%s",
)


def test_texts_and_names_are_not_statements(trees: Trees, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with guarded(trees.outside):
        for i, name in enumerate(NAMES):
            graph = ct.JoinGraph("local")
            graph.add_relation(name, {name: [1, 2], "units": [1, 10]})
            graph.add_relation("other", {"k": [1, 2, 2]})
            graph.add_join(name, "other", on={name: "k"})
            graph.calibrate({name: "sum(units)"}).save(tmp_path / f"{i}")
            opened = ct.open(tmp_path / f"{i}", engine="local")
            assert opened.query().rows() == [{name: 21}]
            assert opened.verify()
    assert not Path("o").exists()


@pytest.mark.spark
def test_a_table_is_no_path(trees: Trees, tmp_path: Path, spark: Any) -> None:
    secret = trees.outside / "secret.parquet"
    tables = [
        f"parquet.`{secret}`",
        f"file://{secret}",
        str(secret),
        "x; DROP TABLE y",
        "(SELECT 1)",
    ]
    with guarded(trees.outside):
        for i, table in enumerate(tables):
            tree = strangers(trees, tmp_path / f"{i}", place="table", files=[], table=table)
            for allow in ((), table):
                wide = ct.open(tree, engine=spark, allow=allow)
                with pytest.raises(
                    ct.SavedError, match="allow=" if not allow else "no Spark table"
                ):
                    wide.query(**QUESTIONS[2])


@pytest.mark.spark
def test_names_are_not_statements_on_spark(tmp_path: Path, spark: Any) -> None:
    graph = ct.JoinGraph("local")
    for name in NAMES[:3]:
        graph.add_relation(name, {name: [1, 2], f"units {name}": [1, 10]})
    graph.add_join(NAMES[0], NAMES[1], on={NAMES[0]: NAMES[1]})
    graph.add_join(NAMES[1], NAMES[2], on={NAMES[1]: NAMES[2]})
    graph.calibrate({"n": "count(*)"}).save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", engine=spark)
    assert opened.query([f"units {NAMES[0]}"]).rows() == [
        {f"units {NAMES[0]}": 1, "n": 1},
        {f"units {NAMES[0]}": 10, "n": 1},
    ]
