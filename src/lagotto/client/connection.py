"""The connection of a client: requests, answers, and problems as the errors that they stand for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lagotto import errors
from lagotto.errors import ConfigError, LagottoError, StoreError
from lagotto.locations import mask_location
from lagotto.request_context import RequestContext, cancel_scope

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "LAGOTTO_API_KEY"

FROM_SERVER: Mapping[str, type[LagottoError]] = {
    "BadRequest": ConfigError,
    "InvalidRequest": ConfigError,
    "UnsupportedMediaType": ConfigError,
    "ContentTooLarge": ConfigError,
    "TooManyRequests": errors.StoreBusyError,
    "Unavailable": errors.StoreUnavailableError,
    "Timeout": errors.DeadlineExceeded,
}
"""The errors that problems of the server are; those named like an error are that one."""


class Connection:
    """Requests to the server at `url`, with a key; it is opened by the first one."""

    def __init__(self, url: str, *, api_key: str | None, timeout: float) -> None:
        self.location = mask_location(url.rstrip("/"))
        self._url = url.rstrip("/")
        self._key = api_key or os.environ.get(KEY_VARIABLE)
        self._timeout = timeout
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close it; closing again has no effect."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def ask(
        self,
        path: str,
        body: object,
        request: RequestContext | None = None,
        *,
        missing: bool = False,
    ) -> Any:
        """The answer to a body of JSON, within the deadline of a request."""
        context = request or RequestContext()
        async with cancel_scope(context):
            return await self.request("POST", path, json=body, missing=missing)

    async def request(
        self, method: str, path: str, *, missing: bool = False, **content: Any
    ) -> Any:
        """The JSON of an answer; None for NotFound if something may be missing."""
        import httpx

        if self._http is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._http = httpx.AsyncClient(headers=headers, timeout=self._timeout)
        try:
            answer = await self._http.request(method, self._url + path, **content)
            found = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            reason = str(exc) or type(exc).__name__
            raise errors.StoreUnavailableError(
                f"{self.location} does not answer: {reason}"
            ) from exc
        except ValueError as exc:
            raise StoreError(f"{self.location} is no server of Lagotto: no JSON at {path}") from exc
        if answer.is_success:
            return found
        if answer.status_code == 404 and missing:
            return None
        raise _error(found, self.location)


def _error(problem: Any, location: str) -> LagottoError:
    """The error that a problem of the server stands for."""
    name, detail = str(problem.get("error")), str(problem.get("detail"))
    named: type[LagottoError] = getattr(errors, name, StoreError)
    kind = FROM_SERVER.get(name, named)
    error = kind.__new__(kind)
    message = (
        detail if issubclass(kind, ConfigError | errors.QueryError) else f"{location}: {detail}"
    )
    Exception.__init__(error, message)  # some errors are made of parts that a problem has not
    return error
