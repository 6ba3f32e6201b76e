from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tantivy import Index, SchemaBuilder

from lagotto.errors import IndexDamagedError, StoreBusyError
from lagotto.indexes.base import LogPosition
from lagotto.indexes.tantivy.index import (
    SEGMENT_FILES,
    Announcement,
    TantivyMeta,
    TantivyWriter,
    check_files,
)
from lagotto.indexes.tantivy.search import scoring_query, tantivy_errors
from lagotto.indexes.text_query import Term, TextQuery
from tests.child_process import child, said, tell
from tests.indexes.tantivy.written import search, write

pytestmark = pytest.mark.slow

ALL = TextQuery(((Term("all"),),))


def sample(folder: Path) -> TantivyWriter:
    index = TantivyWriter(folder)
    write(index, 0, 1, added=[(key, ["all", f"t{key}"]) for key in range(300)])
    write(index, 1, 2, removed=[5])
    return index


def only_files_of_its_segments(folder: Path) -> bool:
    known = {"meta.json", "stamp.json"}
    known |= {name for each in TantivyMeta.read(folder).segments for name in each.files}
    return {path.name for path in folder.iterdir() if path.name[0] != "."} <= known


WRITING = """
import sys
from pathlib import Path
from lagotto.indexes.tantivy.index import TantivyWriter
from tests.indexes.tantivy.written import write

index = TantivyWriter(Path(sys.argv[1]))
while True:
    now, seq = index.snapshot.position.seq, index.snapshot.position.seq + 1
    added = [(seq, ["all", f"t{seq}"])]
    write(index, now, seq, added=added, removed=[seq - 3])
    print(seq, flush=True)
"""


def test_the_position_is_true_after_kill(tmp_path: Path) -> None:
    acknowledged = 0
    for attempt in range(5):
        with child(WRITING, tmp_path) as process:
            for _ in range(attempt + 1):
                acknowledged = int(said(process))
            threading.Event().wait(0.01 * attempt)  # die at different points of the next apply
        index = TantivyWriter(tmp_path)
        assert index.snapshot.position.seq >= acknowledged
        live = range(max(1, index.snapshot.position.seq - 2), index.snapshot.position.seq + 1)
        assert sorted(search(index.snapshot, ALL, 99).keys.tolist()) == list(live)
        assert set(index.snapshot.vocabulary()) == {"all", *(f"t{key}" for key in live)}
    write(index, index.snapshot.position.seq, 999, added=[(999, ["all"])])
    assert only_files_of_its_segments(tmp_path)


def test_what_a_killed_writer_left_is_not_in_the_way(tmp_path: Path) -> None:
    sample(tmp_path)
    meta = TantivyMeta.read(tmp_path)
    # removing a key takes one operation, the commit the next one
    left = meta.segments[0].segment_id.replace("-", "") + f".{meta.opstamp + 1}.del"
    (tmp_path / left).write_bytes(b"half written")
    managed = tmp_path / ".managed.json"
    managed.write_text(json.dumps([*json.loads(managed.read_text()), left]))
    index = TantivyWriter(tmp_path)
    write(index, 2, 3, removed=[1])
    check_files(tmp_path)
    assert (index.snapshot.position.seq, len(search(index.snapshot, ALL, 999))) == (3, 298)


def test_an_announcement_alone_promises_nothing(tmp_path: Path) -> None:
    sample(tmp_path)
    now = TantivyMeta.read(tmp_path).opstamp
    before, after = LogPosition(2, 0), LogPosition(3, 0)
    Announcement(base=now, before=before, after=after).write(tmp_path)
    assert TantivyWriter(tmp_path).snapshot.position.seq == 2
    Announcement(base=now - 1, before=before, after=after).write(tmp_path)
    assert TantivyWriter(tmp_path).snapshot.position.seq == 3


@pytest.mark.parametrize("writers", [1, 2])
def test_old_segments_are_merged_and_cleared_away(tmp_path: Path, writers: int) -> None:
    indexes = [TantivyWriter(tmp_path) for _ in range(writers)]
    for seq in range(1, 20):
        index = indexes[seq % writers]
        write(index, seq - 1, seq, added=[(seq, ["all"]), (77, ["all"])])
    assert len(search(index.snapshot, ALL, 99)) == 20
    assert len(TantivyMeta.read(tmp_path).segments) < 10
    assert only_files_of_its_segments(tmp_path)


HOLDING = """
import sys
from tantivy import Index

writer = Index.open(sys.argv[1]).writer()
print("held", flush=True)
sys.stdin.readline()
writer.wait_merging_threads()
"""


def test_a_writer_beside_ours_is_not_damage(tmp_path: Path) -> None:
    index = sample(tmp_path)
    with child(HOLDING, tmp_path) as process:
        assert said(process) == "held"
        with pytest.raises(StoreBusyError, match="another writer holds"):
            write(index, 2, 3, removed=[1])
        tell(process)
    write(index, 2, 3, added=[(900, ["all"])], removed=[1])
    assert index.snapshot.position.seq == 3
    assert len(search(index.snapshot, ALL, 999)) == 299


def test_readers_see_whole_commits(tmp_path: Path) -> None:
    writer = TantivyWriter(tmp_path)
    write(writer, 0, 1, added=[(key, ["all", "v1"]) for key in range(5)])
    reader = TantivyWriter(tmp_path)
    done = threading.Event()
    seen: list[tuple[int, int, list[str]]] = []

    def read() -> None:
        while not done.is_set():
            reader.reload_if_changed()
            state = reader.snapshot
            seen.append((state.position.seq, len(search(state, ALL, 99)), state.vocabulary()))

    reading = threading.Thread(target=read)
    reading.start()
    for seq in range(2, 15):
        added = [(key, ["all", f"v{seq}"]) for key in range(5)]
        write(writer, seq - 1, seq, added=added)
    done.set()
    reading.join()
    assert seen
    for seq, count, (first, version) in seen:
        assert (count, first) == (5, "all")
        assert int(version[1:]) >= seq
    assert [seq for seq, _, _ in seen] == sorted(seq for seq, _, _ in seen)


def use(folder: Path) -> None:
    index = TantivyWriter(folder)
    search(index.snapshot, ALL, 10)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize(
    "kind", ["meta.json", "stamp.json", *(f"*.{kind}" for kind in sorted({*SEGMENT_FILES, "del"}))]
)
def test_damage_is_found(tmp_path: Path, kind: str, damage: Callable[[Path], object]) -> None:
    sample(tmp_path)
    (path,) = tmp_path.glob(kind)
    damage(path)
    with pytest.raises(IndexDamagedError, match=tmp_path.name):
        use(tmp_path)


@pytest.mark.parametrize(
    "harm",
    [lambda folder: (folder / "meta.json").write_text("{}"), shutil.rmtree],
    ids=["damaged", "wiped"],
)
def test_damage_is_found_while_it_is_open(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    index = sample(tmp_path)
    harm(tmp_path)
    with pytest.raises(IndexDamagedError):
        index.reload_if_changed()
    with pytest.raises(IndexDamagedError):
        write(index, 2, 3, removed=[1])
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert TantivyWriter(tmp_path).snapshot.position.seq == 0


def test_another_schema_is_damage(tmp_path: Path) -> None:
    builder = SchemaBuilder()
    builder.add_text_field("body")
    Index(builder.build(), str(tmp_path))
    with pytest.raises(IndexDamagedError, match="schema"):
        TantivyWriter(tmp_path)


def test_another_format_is_damage(tmp_path: Path) -> None:
    sample(tmp_path)
    (tmp_path / "stamp.json").write_text('{"format":2,"base":0,"before":0,"after":0}')
    with pytest.raises(IndexDamagedError, match="format"):
        TantivyWriter(tmp_path)


def test_a_panic_is_damage(tmp_path: Path) -> None:
    searcher = sample(tmp_path).snapshot.searcher
    with pytest.raises(IndexDamagedError, match="Limit"), tantivy_errors(tmp_path):
        searcher.search(scoring_query(ALL), 0)


FILLING = """
import resource, sys
from pathlib import Path
from lagotto.errors import StoreFullError
from lagotto.indexes.tantivy.index import TantivyWriter
from tests.indexes.tantivy.written import write

index = TantivyWriter(Path(sys.argv[1]))
added = [(key, ["all", *(f"w{key}_{number}" for number in range(50))]) for key in range(500)]
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    write(index, 2, 7, added=added)
except StoreFullError:
    print("full", index.snapshot.position.seq, flush=True)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(index, 2, 7, added=added)
print("written", index.snapshot.position.seq, flush=True)
"""


def test_no_room_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    sample(tmp_path)
    with child(FILLING, tmp_path) as process:
        assert said(process) == "full 2"
        assert len(search(TantivyWriter(tmp_path).snapshot, ALL, 999)) == 299
        tell(process)
        assert said(process) == "written 7"
    assert len(search(TantivyWriter(tmp_path).snapshot, ALL, 999)) == 500
