"""Downloads from a model hub, in the file layout of the Hugging Face hub.

Used only by `lagotto models fetch`: no search and no embedder ever downloads anything.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from lagotto.errors import ConfigError, WeightsError
from lagotto.models.http import RETRIED, RetryPolicy, without_credentials

if TYPE_CHECKING:
    import httpx

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
