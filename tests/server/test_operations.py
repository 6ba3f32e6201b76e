from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from lagotto.server import app
from lagotto.server.operations import Mounted
from lagotto.server.problems import HANDLERS
from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState, state_of
from tests.server.running import serving


def test_what_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application beside the operations: its life, its way to the base, its metrics."""
    lived: list[str] = []

    async def greet(http: Request) -> PlainTextResponse:
        http.scope["operation"] = "greet"
        base = state_of(http).scoped_to(await state_of(http).authenticate(http), http)
        return PlainTextResponse(f"{len(await base.documents())} documents")

    @asynccontextmanager
    async def running(state: ServerState) -> AsyncIterator[None]:
        lived.append(state.settings.location)
        yield
        lived.append("end")

    def mounting(settings: ServerSettings) -> Mounted:
        inner = Starlette(routes=[Route("/greet", greet)], exception_handlers=HANDLERS)
        return Mounted([Mount("/inner", app=inner)], running)

    monkeypatch.setattr(app, "MOUNTS", (mounting, lambda _: None))
    with serving() as server:
        answer = server.http.get("/inner/greet")
        assert answer.text == "4 documents"
        assert answer.headers["x-request-id"]
        assert lived == [":memory:"]
        assert 'operation="greet",status="200"' in server.http.get("/metrics").text
        server.call(server.state.keys.create("first"))
        assert server.http.get("/inner/greet").status_code == 401
    assert lived == [":memory:", "end"]
