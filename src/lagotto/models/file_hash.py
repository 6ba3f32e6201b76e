"""SHA-256 of model files, computed once per file: hashing 90 MB at every start takes longer than
loading them."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from lagotto.models.folders import own_cache

FOLDER = "hashes"
TICK_NS = 2_000_000_000
"""A file changed less than this before it is hashed may change again within one tick of its time
stamp; its hash is not cached."""


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal; OSError if it can't be read.

    The hash is cached as long as the size, the inode and both time stamps of the file are the same.
    """
    before = path.stat()
    cached = _cached_at(path, before)
    with suppress(OSError, UnicodeDecodeError):
        if len(known := cached.read_text(encoding="ascii")) == 2 * hashlib.sha256().digest_size:
            return known
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if _version(before) == _version(path.stat()) and time.time_ns() - before.st_ctime_ns > TICK_NS:
        with suppress(OSError):  # a cache that can't be written is no reason to fail
            _write(cached, found)
    return found


def _version(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def _cached_at(path: Path, status: os.stat_result) -> Path:
    """The file that holds the hash of this version of `path`."""
    key = repr((os.fspath(path.resolve()), *_version(status)))
    return own_cache() / FOLDER / hashlib.sha256(os.fsencode(key)).hexdigest()[:32]


def _write(target: Path, found: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=target.parent, encoding="ascii", delete=False
    ) as file:
        file.write(found)
    Path(file.name).replace(target)
