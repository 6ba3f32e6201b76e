"""Hashes of model files are computed once per version of a file."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from lagotto.errors import WeightsError
from lagotto.models import files
from lagotto.models.files import sha256_of

PAST = time.time() - 60


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own; files count as old at once, since no test can set the change time."""
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "TICK_NS", -1)
    return tmp_path / "cache" / files.FOLDER


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_the_hash_of_the_content(tmp_path: Path) -> None:
    file = written(tmp_path / "model", b"weights")
    assert sha256_of(file) == hashlib.sha256(b"weights").hexdigest()
    assert sha256_of(file) == hashlib.sha256(b"weights").hexdigest()


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, cache: Path) -> None:
    file = written(tmp_path / "model", b"weights")
    sha256_of(file)
    (kept,) = cache.iterdir()
    kept.write_text("0" * 64)
    assert sha256_of(file) == "0" * 64


def test_a_change_that_keeps_size_and_modification_time_is_seen(tmp_path: Path) -> None:
    file = written(tmp_path / "model", b"weights")
    os.utime(file, (PAST, PAST))
    sha256_of(file)
    time.sleep(0.02)  # ticks of the file system's clock
    written(file, b"WEIGHTS")
    os.utime(file, (PAST, PAST))
    assert sha256_of(file) == hashlib.sha256(b"WEIGHTS").hexdigest()


def test_a_fresh_file_is_not_cached(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TICK_NS", 10**12)
    sha256_of(written(tmp_path / "model", b"weights"))
    assert not cache.exists()


def test_a_damaged_or_unwritable_cache_does_no_harm(tmp_path: Path, cache: Path) -> None:
    file = written(tmp_path / "model", b"weights")
    sha256_of(file)
    (kept,) = cache.iterdir()
    kept.write_bytes(b"\xff")
    assert sha256_of(file) == hashlib.sha256(b"weights").hexdigest()
    kept.unlink()
    cache.rmdir()
    cache.write_text("a file where the folder should be")
    assert sha256_of(file) == hashlib.sha256(b"weights").hexdigest()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="can't read"):
        sha256_of(tmp_path / "model")
