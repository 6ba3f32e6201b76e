from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lagotto.errors import IndexDamagedError
from lagotto.indexes.base import START, LogPosition
from lagotto.indexes.vectors import files
from lagotto.indexes.vectors.files import Generation
from lagotto.indexes.vectors.index import VectorMatrix
from lagotto.indexes.vectors.rows import BLOCK_BYTES, rows_per_block
from lagotto.indexes.vectors.sketch import Tuning
from tests.indexes.vectors.made import is_whole, keys_of, load, made, unit_vectors

FILES = ["checksums.u32", "frame.f32", "keys.i64", "meta.json", "rows.f32", "sketch.u64"]


@pytest.mark.parametrize("size", [0, 1, 100, 101, 300])
def test_what_is_saved_is_loaded(tmp_path: Path, size: int) -> None:
    index = made(size)
    index.save(tmp_path, LogPosition(size, 0))
    loaded = load(tmp_path)
    assert is_whole(loaded, sizes={size})
    for query in unit_vectors(1, count=5, dimension=16):
        expected = index.snapshot.search(query, 10)
        assert loaded.snapshot.search(query, 10).keys.tolist() == expected.keys.tolist()
        assert loaded.snapshot.search(query, 10).scores.tolist() == expected.scores.tolist()


def test_where_nothing_was_saved_nothing_is_loaded(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        loaded = load(folder)
        assert loaded.saved == START
        assert len(loaded.snapshot) == 0


def test_saving_leaves_one_generation_with_its_files(saved: Path) -> None:
    made(200).save(saved, LogPosition(200, 0))
    (generation,) = saved.iterdir()
    assert generation.name == "00000002"
    assert sorted(path.name for path in generation.iterdir()) == FILES
    assert is_whole(load(saved), sizes={200})


def test_files_are_on_the_disk_before_they_are_the_newest_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        files,
        "sync_folder",
        lambda folder: synced.append((folder.name, sorted(path.name for path in folder.iterdir()))),
    )
    made(200).save(tmp_path, LogPosition(200, 0))
    assert synced == [(f"00000001{files.PART}", FILES), (tmp_path.name, ["00000001"])]


def test_an_index_goes_on_after_saving(saved: Path) -> None:
    index = load(saved)
    query = unit_vectors(5, count=1, dimension=16)
    index.add(keys_of(1000), query)
    index.remove(keys_of(0))
    index.save(saved, LogPosition(7, 0))
    index.add(keys_of(1001), query)
    assert index.snapshot.search(query[0], 2).keys.tolist() == [1000, 1001]
    assert len(index.snapshot) == 301
    assert index.saved == LogPosition(7, 0)


def test_a_reader_keeps_the_generation_that_it_has_open(saved: Path) -> None:
    reader = load(saved)
    for size in (200, 150):
        made(size).save(saved, LogPosition(size, 0))
    assert is_whole(reader, sizes={300})


def test_a_generation_that_is_replaced_while_it_is_opened(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = files.read_generation

    def too_late(path: Path, *, model_id: str, dimension: int) -> Generation:
        if path.name == "00000001":
            made(200).save(saved, LogPosition(200, 0))
        return read(path, model_id=model_id, dimension=dimension)

    monkeypatch.setattr(files, "read_generation", too_late)
    assert is_whole(load(saved), sizes={200})


def test_rows_are_mapped_and_cannot_be_changed(saved: Path) -> None:
    index = load(saved)
    with pytest.raises(ValueError, match="read-only"):
        index.snapshot.base.rows[0] = 0


def flip_bit(path: Path, *, at: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def read_whole(folder: Path, *, dimension: int = 16) -> None:
    """Load an index, and use all its rows."""
    index = load(folder, dimension=dimension)
    index.snapshot.base.verify()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        lambda path: path.write_bytes(path.read_bytes()[::-1]),
        flip_bit,
    ],
    ids=["missing", "empty", "cut off", "too long", "never filled", "reversed", "a bit"],
)
def test_damage_is_noticed(saved: Path, name: str, harm: Callable[[Path], object]) -> None:
    harm(saved / "00000001" / name)
    with pytest.raises(IndexDamagedError, match="00000001"):
        read_whole(saved)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """5 MB of rows, without a sketch."""
    index = VectorMatrix("m", dimension=256, tuning=Tuning(exact_rows=10_000))
    index.add(np.arange(5000), unit_vectors(0, count=5000, dimension=256))
    index.save(tmp_path / "large", LogPosition(1, 0))
    return tmp_path / "large"


@pytest.mark.parametrize("at", [0.0, 0.013, 0.31, 0.777, 1.0])
def test_a_flipped_bit_anywhere_in_many_rows_is_noticed_by_a_search(large: Path, at: float) -> None:
    flip_bit(large / "00000001" / "rows.f32", at=at)
    index = load(large, dimension=256)
    with pytest.raises(IndexDamagedError, match=r"rows\.f32 is damaged: wrong checksum"):
        index.snapshot.search(unit_vectors(1, count=1, dimension=256)[0], 5)


def test_only_the_blocks_that_are_read_are_compared(large: Path) -> None:
    flip_bit(large / "00000001" / "rows.f32", at=1.0)
    index = load(large, dimension=256)
    query = unit_vectors(0, count=5000, dimension=256)[7]
    assert index.snapshot.search(query, 1, allowed=np.arange(100)).keys.tolist() == [7]
    assert index.snapshot.scores(query, keys_of(7))[0] == pytest.approx(1)
    with pytest.raises(IndexDamagedError):
        index.snapshot.scores(query, keys_of(4999))
    with pytest.raises(IndexDamagedError):
        index.snapshot.search(query, 1)


def test_damaged_rows_are_not_saved_with_a_new_checksum(large: Path) -> None:
    flip_bit(large / "00000001" / "rows.f32", at=0.4)
    index = load(large, dimension=256)
    with pytest.raises(IndexDamagedError):
        index.save(large, LogPosition(2, 0))
    assert [path.name for path in large.iterdir()] == ["00000001"]


@pytest.mark.parametrize("dimension", [1, 3, 16, 384, 4096, 20_000])
def test_a_block_is_a_power_of_two_of_rows(dimension: int) -> None:
    count = rows_per_block(dimension)
    assert count & (count - 1) == 0
    assert count == 1 or BLOCK_BYTES // 2 < 4 * dimension * count <= BLOCK_BYTES


def test_another_model_dimension_or_version_is_refused(saved: Path) -> None:
    with pytest.raises(IndexDamagedError, match=r"vectors of m \(16 numbers\), not of n \(16\)"):
        load(saved, model_id="n")
    with pytest.raises(IndexDamagedError, match="not of m"):
        load(saved, dimension=8)
    meta = saved / "00000001" / "meta.json"
    whole = meta.read_text()
    for version in ("2", "4"):
        meta.write_text(whole.replace('"version":3', f'"version":{version}'))
        with pytest.raises(IndexDamagedError, match="version"):
            load(saved)


def test_if_the_newest_is_damaged_an_older_one_is_used(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "00000001", tmp_path / "kept")
    made(200).save(saved, LogPosition(200, 0))
    (tmp_path / "kept").rename(saved / "00000001")
    (saved / "00000002" / "rows.f32").unlink()
    assert is_whole(load(saved), sizes={300})


def test_other_files_in_the_folder_do_not_matter(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    (saved / "00000009.part").mkdir()
    assert is_whole(load(saved), sizes={300})
    made(200).save(saved, LogPosition(200, 0))
    assert sorted(path.name for path in saved.iterdir()) == ["00000002", "notes.txt"]
