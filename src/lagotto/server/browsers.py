"""What pages of other sites may make a browser do here: open our page, and nothing else.

A browser sends whatever a page asks for, with the network of its user: `<img>` and `<object>` run a
search, and tell the page whether it succeeded. Browsers name the page that asks (Origin), or how it
is related to the server (Sec-Fetch-Site), which no page can change.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagotto.server.problems import Problem, problem_response

FOREIGN = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site. Another port of this machine is the same site, and may be anybody's."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer that does not say otherwise: browsers neither guess its type, nor show it to
pages of other sites, nor keep it for the next user of the machine."""


class BrowserGuard:
    """Refuses what pages of other sites ask for, unless their origin is `allowed`.

    Links may lead to `views`, the addresses of pages that are the same for everybody.
    """

    def __init__(self, app: ASGIApp, *, allowed: Collection[str], views: Collection[str]) -> None:
        self.app = app
        self._allowed = allowed
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app = self.app
        http = HttpRequest(scope)
        if self._is_foreign(http):
            refused = "pages of other sites may not use this server; see --cors-origin"
            app = await problem_response(http, Problem("Forbidden", refused))
        await app(scope, receive, send_with_headers)

    def _is_foreign(self, http: HttpRequest) -> bool:
        origin = http.headers.get("origin")
        if origin in self._allowed:
            return False
        if origin is not None and not _is_own(origin, http.headers.get("host")):
            return True
        return http.headers.get("sec-fetch-site") in FOREIGN and not self._follows_link(http)

    def _follows_link(self, http: HttpRequest) -> bool:
        """Whether a view is to be shown by itself, not in a frame of another page."""
        navigation = http.headers.get("sec-fetch-mode"), http.headers.get("sec-fetch-dest")
        return http.url.path in self._views and navigation == ("navigate", "document")


def _is_own(origin: str, host: str | None) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:  # `http://[`
        return False
