"""The page for people: static files that call the API of the server that they come from.

They hold no data and need no key; the page asks for one where the API does. One HTML file shows all
its views.
"""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import resources
from pathlib import PurePath

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

VIEWS = ("/", "/context", "/document", "/documents")
"""Addresses that the page shows views at; the rest of their state is the query string."""

ASSETS = "/assets"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # even a mistake of ours could not turn text of a document into markup
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # ask each time; the answer is 304 until the file changes
}

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def load_assets() -> dict[str, bytes]:
    files = (resources.files(__name__) / "assets").iterdir()
    return {
        file.name: file.read_bytes() for file in files if PurePath(file.name).suffix in MEDIA_TYPES
    }


def routes() -> list[Route]:
    routes = []
    for name, data in load_assets().items():
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        send = partial(_send, data, MEDIA_TYPES[PurePath(name).suffix], tag)
        paths = VIEWS if name == "index.html" else (f"{ASSETS}/{name}",)
        routes += [Route(path, send) for path in paths]
    return routes


async def _send(data: bytes, media_type: str, tag: str, http: HttpRequest) -> Response:
    http.scope["operation"] = "page"
    headers = {**HEADERS, "ETag": tag}
    if http.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=media_type)
