"""A client for JSON services over HTTP, with retries."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError

from lagotto.documents import Record, in_utc
from lagotto.errors import LagottoError

if TYPE_CHECKING:
    import httpx

_CREDENTIALS = re.compile(r"//[^/]*@")

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP statuses that are worth another try."""

OPENAI_URL = "https://api.openai.com/v1"


def without_credentials(url: str) -> str:
    """`url` without user name and password, to be shown."""
    return _CREDENTIALS.sub("//", url)


class RetryPolicy(Record):
    """How often to try a request, its timeout, and the pauses between tries, in seconds.

    Pauses start at `pause` and double up to `longest_pause`, with jitter. A Retry-After header of
    the service is respected, unless it exceeds `longest_pause`: then the request fails.
    """

    tries: int = Field(default=6, ge=1)
    timeout: float = Field(default=60.0, gt=0)
    pause: float = Field(default=0.5, ge=0)
    longest_pause: float = Field(default=60.0, ge=0)

    def wait(self, failures: int) -> float:
        """Seconds to wait after `failures` failed tries."""
        longest: float = min(self.pause * 2.0 ** (failures - 1), self.longest_pause)
        return longest * random.uniform(0.5, 1.0)


class IndexedItem(BaseModel):
    """What an answer says of one text, by the index of the text in the request."""

    index: int = Field(strict=True)


Item = TypeVar("Item", bound=IndexedItem)


@dataclass(repr=False)
class JsonService:
    """A client for the JSON service at `base_url`, with at most `connections` connections.

    It connects on first use. `api_key` is sent as a bearer token; error messages show neither it
    nor a password in the URL. Errors are raised as `failure`, an error class that takes the HTTP
    `status`, if the service answered.
    """

    base_url: str
    api_key: str | None
    retry: RetryPolicy
    connections: int
    failure: Callable[..., LagottoError]
    _client: httpx.AsyncClient | None = None

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")

    @classmethod
    def openai(cls, base_url: str | None, *, api_key: str | None, **settings: Any) -> Self:
        """A service with OpenAI's API; OPENAI_BASE_URL and OPENAI_API_KEY are the defaults."""
        return cls(
            base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL,
            api_key=api_key or os.environ.get("OPENAI_API_KEY"),
            **settings,
        )

    @property
    def address(self) -> str:
        return without_credentials(self.base_url)

    async def post(self, path: str, payload: object) -> object:
        """POST `payload` and return the JSON of the answer, retrying as the policy says.

        The error has the service's own message; a missing key is one before the first request.
        """
        if self.base_url == OPENAI_URL and not self.api_key:
            raise self.failure(
                f"{OPENAI_URL} needs a key; set OPENAI_API_KEY, or name another service with "
                "OPENAI_BASE_URL"
            )
        failures = 0
        while True:
            try:
                return await self._post_once(path, payload)
            except RetryableError as problem:
                failures += 1
                wait = problem.retry_after
                if wait is None:
                    wait = self.retry.wait(failures)
                if failures == self.retry.tries or wait > self.retry.longest_pause:
                    delay = f"; it asks to wait {wait:.0f} s" if problem.retry_after else ""
                    raise self.failure(
                        f"{problem} (try {failures} of {self.retry.tries}{delay})",
                        status=problem.status,
                    ) from problem.__cause__
            await asyncio.sleep(wait)

    async def post_for_items(
        self,
        path: str,
        payload: Mapping[str, Any],
        read: Callable[[object], list[Item]],
        *,
        count: int,
        least: int,
        noun: str,
    ) -> list[Item]:
        """POST `count` texts; `read` finds items in the answer: `least` of them, none twice."""
        answer = await self.post(path, payload)
        try:
            items = read(answer)
        except ValidationError as exc:
            first = exc.errors()[0]
            field = ".".join(map(str, first["loc"])) or "answer"
            raise self.failure(
                f"the answer of {payload['model']} is not a list of {noun} ({field}: "
                f"{first['msg']}): {json.dumps(answer)[:200]}"
            ) from exc
        indexes = {item.index for item in items}
        if not least <= len(indexes) == len(items) or not indexes <= set(range(count)):
            raise self.failure(
                f"{payload['model']} got {count} texts and answered with {len(items)} {noun}, for "
                f"the indexes {sorted(item.index for item in items)[:20]}"
            )
        return items

    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client:
            await client.aclose()

    async def _post_once(self, path: str, payload: object) -> object:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {self.api_key}"} if self.api_key else {},
                timeout=httpx.Timeout(self.retry.timeout, pool=None),
                limits=httpx.Limits(max_connections=self.connections),
            )
        url = self.address + path
        try:
            response = await self._client.post(self.base_url + path, json=payload)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            raise self.failure(f"{url} is not a valid URL: {exc}") from exc
        except httpx.TransportError as exc:
            reason = str(exc) or type(exc).__name__
            raise RetryableError(f"no answer from {url}: {self._without_key(reason)}") from exc
        status = response.status_code
        if not response.is_success:
            problem = f"{url} answered {status}: {self._without_key(_message(response))}"
            if status in RETRIED:
                raise RetryableError(problem, response=response)
            raise self.failure(problem, status=status)
        try:
            return response.json()
        except ValueError as exc:
            text = self._without_key(response.text[:200])
            raise self.failure(
                f"{url} did not answer with JSON: {text!r}; check the URL", status=status
            ) from exc

    def _without_key(self, text: str) -> str:
        return text.replace(self.api_key, "***") if self.api_key else text


class RetryableError(Exception):
    def __init__(self, message: str, *, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.status = response.status_code if response else None
        self.retry_after = _retry_after(response.headers.get("retry-after")) if response else None


def _retry_after(value: str | None) -> float | None:
    """Parse a Retry-After header, which holds seconds or a date, to seconds."""
    if not value:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        moment = in_utc(parsedate_to_datetime(value))
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None


def _message(response: httpx.Response) -> str:
    """The error message in the body of a response, in any of the usual forms."""
    try:
        body = response.json()
    except ValueError:
        return response.text[:500] or response.reason_phrase
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("message", error.get("detail", error))
    return str(error)[:500]


def runs(costs: Sequence[int], *, room: int, most: int | None = None) -> Iterator[range]:
    """Ranges of at most `most` consecutive items that fit in `room`; a larger item is alone."""
    start = used = 0
    for index, cost in enumerate(costs):
        if index > start and (used + cost > room or index - start == most):
            yield range(start, index)
            start, used = index, 0
        used += cost
    if costs:
        yield range(start, len(costs))
