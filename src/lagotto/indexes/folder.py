"""The folder of derived indexes beside a database file: whose it is, and who may change it.

Indexes can be rebuilt, other people's files can't. So the folder carries a marker with the id of
its base, and nothing is deleted that does not lie in a folder with this base's own marker:

- a missing or empty folder, or one that an earlier version wrote (it had no marker, and nothing in
  it but indexes), gets the marker when it is first written to;
- a folder with the marker of another base stays as it is: this base keeps its indexes in
  `NAME.index-ID`, with the first characters of its own id;
- any other folder is an error that names it.

A link in the folder would lead out of it, to files of which the marker says nothing. So links are
never followed: one at any depth is an error that names it, before anything is read, written or
deleted. The folder itself may be one, as on another disk: there the marker decides.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal
from uuid import uuid4

from pydantic import ValidationError

from lagotto import errors
from lagotto._internal.locations import INDEX_MARKER
from lagotto.documents import Record
from lagotto.errors import StoreBusyError, StoreError, StoreFullError, StoreReadOnlyError

LOCK = ".lock"

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@cache
def _ours() -> re.Pattern[str]:
    """What a folder of indexes without a readable marker may hold: earlier versions wrote none."""
    return re.compile(
        r"(text|vectors)-[0-9a-f]{8}(\.[0-9a-f]{8}\.old)?|\.lock(-journal)?|\.DS_Store|"
        r"\.following-(text|vectors)(-journal)?|lagotto\.json|\.lagotto\.json\.[0-9a-f]{8}"
    )


class Marker(Record):
    """Says that a folder holds the indexes of a base, and of which one."""

    format: Literal["lagotto indexes"] = "lagotto indexes"
    version: Literal[1] = 1
    base_id: str


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The folder in which the base `base_id` keeps its indexes; it may not exist yet."""

    path: Path
    base_id: str

    @classmethod
    def beside(cls, file: Path, *, base_id: str) -> IndexFolder:
        """The folder for the base in a file: `NAME.index`, or `NAME.index-ID` if that is taken."""
        usual = usual_folder(file)
        for path in (usual, usual.with_name(f"{usual.name}-{base_id[:8]}")):
            refuse_foreign(path)
            if _owner(path) in (None, base_id):
                return cls(path, base_id)
        raise StoreError(
            f"{usual} and {path} hold the indexes of other bases; move them away, or give "
            f"{file.name} another name"
        )

    @contextmanager
    def lock(self, *, timeout: float, name: str = LOCK) -> Iterator[None]:
        """Hold the lock on all indexes in the folder, or another one; excludes other processes.

        It is a lock on an empty SQLite file, which works everywhere and ends with the process.
        StoreBusyError after `timeout` seconds.
        """
        self.claim()
        with ExitStack() as stack:
            try:
                file = self.path / name
                connection = sqlite3.connect(file, timeout=timeout, isolation_level=None)
                stack.enter_context(closing(connection))
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as exc:
                raise self._lock_error(exc, timeout) from exc
            yield

    def _lock_error(self, exc: sqlite3.DatabaseError, timeout: float) -> StoreError:
        if not isinstance(exc, sqlite3.OperationalError):
            what = f"{self.path / LOCK} is damaged ({exc})"
            return errors.StoreDamagedError(f"{what}; delete this file, which holds no data")
        name = getattr(exc, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return StoreBusyError(
                f"another process has held the indexes in {self.path} for over {timeout:g} "
                "seconds; try again when it has finished"
            )
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            return StoreFullError(f"{self.path} can't be locked: {exc}; free some disk space")
        return StoreReadOnlyError(f"{self.path} can't be locked: {exc}; check its permissions")

    @contextmanager
    def try_lock(self, name: str) -> Iterator[bool]:
        """Hold a lock if it is free, and say whether it was."""
        with ExitStack() as stack:
            free = True
            try:
                stack.enter_context(self.lock(timeout=0, name=name))
            except StoreBusyError:
                free = False
            yield free

    def indexes(self) -> list[Path]:
        """The folders of all indexes; the files of locks are hidden."""
        return sorted(self.path.glob("[!.]*-*"))

    def delete(self, index: Path) -> None:
        """Delete an index; renamed first, since other processes may have its files open."""
        if index.parent != self.path:
            raise StoreError(f"{index} is not an index in {self.path}; it is not deleted")
        self.claim()
        aside = index.with_name(f"{index.name}.{uuid4().hex[:8]}.old")
        with file_errors(index), suppress(FileNotFoundError):
            index.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def refuse_links(self) -> None:
        """Raise if something in the folder is a link, which leads out of it."""
        with file_errors(self.path):
            links = [entry.path for entry in _entries(self.path) if entry.is_symlink()]
        if links:
            raise StoreError(
                f"{min(links)} is a link, which Lagotto did not make and does not follow; delete "
                "the link, and the index is built again"
            )

    def claim(self) -> None:
        """Make sure that the folder exists, carries this base's marker and holds no link."""
        with file_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self.refuse_links()
            owner = _owner(self.path)
            if owner is None:
                refuse_foreign(self.path)
                marker = self.path / f".{INDEX_MARKER}.{uuid4().hex[:8]}"
                write_file(marker, [Marker(base_id=self.base_id).model_dump_json().encode()])
                marker.replace(self.path / INDEX_MARKER)
            elif owner != self.base_id:
                raise StoreError(
                    f"{self.path} now holds the indexes of another base; close this base and "
                    "open it again"
                )


def usual_folder(file: Path) -> Path:
    """Where the indexes of the base in a file are, unless that name is taken."""
    return file.with_name(f"{file.name}.index")


def refuse_foreign(folder: Path) -> None:
    """Raise if a folder holds files that are not ours."""
    if _owner(folder) is not None or not folder.is_dir():
        return
    foreign = sorted(path.name for path in folder.iterdir() if not _ours().fullmatch(path.name))
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise StoreError(
            f"{folder} is where the indexes of {folder.name.partition('.index')[0]} go, but it "
            f"holds files that Lagotto did not write ({foreign[0]}{more}); move the folder away, "
            "or give the base another name"
        )


def other_folders(folder: IndexFolder, file: Path) -> list[Path]:
    """Folders of indexes beside a file that belong to other bases, and remains of deleted ones."""
    usual = usual_folder(file)
    beside = [usual, *usual.parent.glob(f"{usual.name}-*")]
    others = [path for path in beside if _owner(path) not in (None, folder.base_id)]
    return [*others, *usual.parent.glob(f"{usual.name}.*.old")]


def size_of(folder: Path) -> int:
    """Bytes in all files of a folder, of which some may vanish meanwhile."""
    total = 0
    for entry in _entries(folder):
        with suppress(FileNotFoundError):
            total += entry.stat().st_size if entry.is_file() else 0
    return total


def write_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file and sync it."""
    with path.open("wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system supports it."""
    with suppress(PermissionError):  # Windows can't open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything in a folder, at any depth; some of it may vanish meanwhile."""
    folders = [str(folder)]
    while folders:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn errors of the file system into StoreErrors."""
    try:
        yield
    except OSError as exc:
        what = f"{path} can't be written: {exc}"
        if exc.errno in NO_SPACE:
            raise StoreFullError(f"{what}; free some disk space") from exc
        if exc.errno in NO_PERMISSION:
            raise StoreReadOnlyError(f"{what}; check its permissions") from exc
        raise StoreError(what) from exc


def _owner(folder: Path) -> str | None:
    """The base whose marker a folder carries, None without one."""
    try:
        return Marker.model_validate_json((folder / INDEX_MARKER).read_bytes()).base_id
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    except OSError as exc:
        raise StoreReadOnlyError(f"{folder / INDEX_MARKER} can't be read: {exc}") from exc
