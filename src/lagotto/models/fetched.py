"""The folder of fetched models: one subfolder per model, complete or not there at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from lagotto.documents import Record
from lagotto.errors import WeightsError
from lagotto.models.file_hash import sha256_of
from lagotto.models.folders import models_folder

MANIFEST = "manifest.json"
UNFINISHED = ".fetching"
"""The subfolder for downloads that are not complete."""

State = Literal["present", "missing", "damaged"]


class FileEntry(Record):
    """The size and SHA-256 of a file when it was fetched."""

    size: int = Field(ge=0)
    sha256: str


class Manifest(Record):
    """What a model's folder holds, and where it came from; written when it is complete."""

    name: str
    source: str
    files: Mapping[str, FileEntry]


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model in the folder of fetched models.

    `hashes` are the files that it needs with their published SHA-256: several for a file with
    several builds, none for a file whose hash is not known. Such a file is compared with what was
    fetched.
    """

    name: str
    hashes: Mapping[str, frozenset[str]]

    @property
    def folder(self) -> Path:
        """Its folder, which need not exist."""
        return models_folder() / self.name

    def state(self) -> State:
        """Whether its files are there, by their sizes; `verified` compares hashes."""
        try:
            manifest = self._manifest()
            sizes = {path: (self.folder / path).stat().st_size for path in self.hashes}
        except FileNotFoundError:
            return "damaged" if self.folder.exists() else "missing"
        except (OSError, WeightsError):
            return "damaged"
        recorded = {path: entry.size for path, entry in manifest.files.items()}
        return "present" if sizes.items() <= recorded.items() else "damaged"

    def check_present(self) -> None:
        """Raise the WeightsError that names the command to run, unless the files are there."""
        state = self.state()
        if state != "present":
            raise WeightsError(
                f"{self.name} is {state}: its files are expected in {self.folder}; "
                f"{self._remedy}; nothing is downloaded unless you ask for it"
            )

    def verified(self, path: str) -> Path:
        """The file `path` of the model, after comparing its hash."""
        self.check_present()
        found = hash_of(self.folder / path)
        expected = self.hashes[path] or {self._manifest().files[path].sha256}
        if found not in expected:
            raise WeightsError(
                f"{self.folder / path} is damaged: its SHA-256 is {found}, expected "
                f"{' or '.join(sorted(expected))}; {self._remedy}"
            )
        return self.folder / path

    def is_intact(self) -> bool:
        """Whether all files are there with the right hashes."""
        try:
            for path in self.hashes:
                self.verified(path)
        except WeightsError:
            return False
        return True

    def publish(self, unfinished: Path, *, source: str) -> None:
        """Move a folder with all files to its place, replacing a damaged model there."""
        files = {
            path: FileEntry(
                size=(unfinished / path).stat().st_size, sha256=hash_of(unfinished / path)
            )
            for path in self.hashes
        }
        manifest = Manifest(name=self.name, source=source, files=files)
        (unfinished / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
        for path in (*files, MANIFEST):
            with (unfinished / path).open("r+b") as file:
                os.fsync(file.fileno())
        damaged = unfinished.with_name(unfinished.name + ".damaged")
        if self.folder.exists():
            self.folder.rename(damaged)
        unfinished.rename(self.folder)
        shutil.rmtree(damaged, ignore_errors=True)

    def _manifest(self) -> Manifest:
        path = self.folder / MANIFEST
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except ValidationError as exc:
            raise WeightsError(f"{path} is damaged; {self._remedy}") from exc

    @property
    def _remedy(self) -> str:
        return f"run `lagotto models fetch {self.name}`"


def hash_of(path: Path) -> str:
    """The SHA-256 of a file; WeightsError if it can't be read."""
    try:
        return sha256_of(path)
    except OSError as exc:
        raise WeightsError(f"can't read {path}: {exc}") from exc


@contextmanager
def workplace(name: str, *, source: str) -> Iterator[Path]:
    """A folder for the unfinished files of a model from `source`, with those of the last try.

    Only one process at a time may fetch. The folder stays if the work fails, to be resumed, and
    what other sources left of the same model goes when it succeeds.
    """
    unfinished = models_folder() / UNFINISHED
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise WeightsError(
            f"can't create {unfinished}: {exc}; set LAGOTTO_MODELS to a folder that can be written"
        ) from exc
    folder = unfinished / f"{name}@{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    with _lock(unfinished / "lock.db"):
        folder.mkdir(exist_ok=True)
        yield folder
        for left in unfinished.glob(f"{name}@*"):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """A lock between processes, which ends with its process: a transaction of SQLite."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as exc:
            raise WeightsError(
                f"another process is fetching a model to {path.parents[1]}; "
                "wait for it, and run the command again"
            ) from exc
        yield
