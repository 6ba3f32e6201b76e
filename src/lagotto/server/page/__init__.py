"""The page for people: static files that call the API of the server that they come from.

They hold no data and need no key; the page asks for one where the API does. One HTML file shows all
its views.
"""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import resources
from typing import NamedTuple

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


class Asset(NamedTuple):
    """A file of the page."""

    data: bytes
    media_type: str
    tag: str


def load_assets() -> dict[str, Asset]:
    assets: dict[str, Asset] = {}
    for file in (resources.files(__name__) / "assets").iterdir():
        kind = MEDIA_TYPES.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            data = file.read_bytes()
            tag = hashlib.sha256(data).hexdigest()[:16]
            assets[file.name] = Asset(data, kind, f'"{tag}"')
    return assets


def routes() -> list[Route]:
    assets = load_assets()
    view = partial(_send, assets.pop("index.html"))
    files = {f"{ASSETS}/{name}": partial(_send, asset) for name, asset in assets.items()}
    return [Route(path, send) for path, send in {**dict.fromkeys(VIEWS, view), **files}.items()]


async def _send(asset: Asset, http: HttpRequest) -> Response:
    http.scope["operation"] = "page"
    headers = {**HEADERS, "ETag": asset.tag}
    if http.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.data, headers=headers, media_type=asset.media_type)
