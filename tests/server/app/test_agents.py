from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from lagotto.documents import Document
from lagotto.filters import Eq
from lagotto.mcp.quotation import LEAST_TOKENS, estimate
from lagotto.server import app
from mcp import Client
from tests.mcp.asking import MODES, Never, text_of
from tests.server.running import DOCUMENTS, Running, bearer, serving
from tests.server.test_request_body import WaitingEmbedder

LONG = Document(id="long", title="Собаки", text="Трюфели растут под дубом.\n" * 2_000)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(documents=[*DOCUMENTS, LONG]) as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with serving() as running:
        yield running


@asynccontextmanager
async def connected(
    server: Running, *, mode: str = "auto", key: str | None = None
) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=bearer(key), timeout=30) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", MODES)
async def test_over_http(server: Running, mode: str) -> None:
    async with connected(server, mode=mode) as client:
        assert '"default" (4), "b" (1)' in (client.instructions or "")
        assert len((await client.list_tools()).tools) == 8
        calls = (client.call_tool("context", {"query": f"truffles {n}"}) for n in range(50))
        answers = [text_of(answer) for answer in await asyncio.gather(*calls)]
        assert all("key=default/oak#0-44~a6e6c296" in answer for answer in answers)
        (contents,) = (await client.read_resource("lagotto://documents/b/secret")).contents
        assert "> The truffle plan" in getattr(contents, "text", "")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("budget", [LEAST_TOKENS, 4_000, 20_000])
async def test_the_budget_is_that_of_the_wire(server: Running, mode: str, budget: int) -> None:
    sent: list[bytes] = []

    async def note(response: httpx2.Response) -> None:
        sent.append(await response.aread())

    async with httpx2.AsyncClient(event_hooks={"response": [note]}) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            for name, named in (("read", {"id": "long"}), ("context", {"query": "трюфели дуб"})):
                sent.clear()
                await client.call_tool(name, {**named, "max_tokens": budget})
                (message,) = [json.loads(body) for body in sent if b'"content"' in body]
                size = estimate(json.dumps(message, ensure_ascii=False))
                assert size <= min(budget, 9_000)
                assert budget < 9_000 or name == "context" or size > 8_000


async def test_a_key_is_needed_where_there_are_keys(guarded: Running) -> None:
    key = guarded.key()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = guarded.http.post("/mcp", json=call, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"] == "Unauthorized"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert guarded.http.get("/mcp").status_code == 405
    evil = headers | bearer(key) | {"Origin": "https://evil.example"}
    assert guarded.http.post("/mcp", json=call, headers=evil).status_code == 403
    async with connected(guarded, key=key) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "search" in names
        assert not {"add", "remove"} & set(names)
        with pytest.raises(MCPError, match="there is no tool 'remove'"):
            await client.call_tool("remove", {"ids": ["dog"]})


@pytest.mark.parametrize("mode", MODES)
async def test_the_filter_of_a_key_holds_for_every_tool(guarded: Running, mode: str) -> None:
    """What the key does not see does not exist."""
    key = guarded.key("read", "write", collections=["default"],
                  filters=Eq("topic", "dogs"))  # fmt: skip
    async with connected(guarded, mode=mode, key=key) as client:
        assert '1 documents in the collections "default" (1)' in (client.instructions or "")
        for name, arguments in (
            ("search", {"query": "truffles oak plan error"}),
            ("search", {"query": "oak", "filters": {"$or": [{"topic": "trees"}, {"year": 2021}]}}),
            ("search", {"query": "plan", "collection": "b"}),
            ("context", {"query": "truffles oak plan error"}),
            ("collections", {}),
        ):
            answer = text_of(await client.call_tool(name, arguments))
            assert not any(word in answer for word in ("oak#", "secret", "4012", '"b"', "tenant"))
        for hidden in ("oak", "default/oak#0-44", "b/secret", "default/error%2F4012"):
            for name in ("fetch", "read", "outline"):
                refused = await client.call_tool(name, {"id": hidden})
                assert refused.is_error
                assert "there is no document" in text_of(refused)
            with pytest.raises(MCPError, match="there is no document"):
                await client.read_resource(f"lagotto://documents/{hidden}")
        listed = (await client.list_resources()).resources
        assert [each.uri for each in listed] == ["lagotto://documents/default/dog"]
        gone = await client.call_tool("remove", {"ids": ["oak", "b/secret"]})
        assert text_of(gone).startswith("removed 0 of 2")
        refused = await client.call_tool("add", {"text": "x", "metadata": {"topic": "trees"}})
        assert refused.is_error
        assert "would not be visible to this key" in text_of(refused)
        added = await client.call_tool("add", {"text": "A spaniel.", "metadata": {"topic": "dogs"}})
        name = text_of(added).removeprefix("added: id=")
        changed = {"text": "A spaniel.", "metadata": {"topic": "dogs", "year": 1}}
        again = text_of(await client.call_tool("add", changed))
        assert again == f"it was there already, and keeps its metadata: id={name}"
        assert text_of(await client.call_tool("remove", {"ids": [name]})) == "removed 1 of 1"
    assert guarded.call(guarded.state.base.get("oak")) is not None


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_goes_away_ends_its_call(
    server: Running, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = Never()
    monkeypatch.setattr(server.state.base, "answer", never)
    async with connected(server, mode=mode) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "search", {"query": "x"})
        await never.started.wait()
        tasks.cancel_scope.cancel()
    await asyncio.wait_for(never.cancelled.wait(), 60)


async def test_too_many_calls_are_told_to_come_back() -> None:
    embedder = WaitingEmbedder()
    with serving(embedder=embedder, concurrency=1, queue=0) as busy:
        async with connected(busy) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "search", {"query": "wait"})
            assert await asyncio.to_thread(embedder.entered.wait, 60)
            for name, arguments in (("search", {"query": "oak"}), ("collections", {})):
                refused = await client.call_tool(name, arguments)
                assert refused.is_error
                assert "try again later" in text_of(refused)
            tasks.cancel_scope.cancel()
        assert await asyncio.to_thread(embedder.cancelled.wait, 60)


async def test_only_mcp_and_read_only() -> None:
    with serving(only_mcp=True, mcp_write=False) as running:
        assert running.http.get("/healthz").status_code == 200
        assert running.post("/v1/retrieve", {"query": "oak"}).status_code == 404
        async with connected(running) as client:
            assert len((await client.list_tools()).tools) == 6


def test_large_bodies_and_what_is_no_message(server: Running) -> None:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    large = b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": "' + b"x" * 1_100_000
    assert server.http.post("/mcp", content=large, headers=headers).status_code == 413
    for body in (b"", b"[]", b"{", b"null", b"\xff"):
        assert server.http.post("/mcp", content=body, headers=headers).status_code == 400


def test_without_the_package(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "find_spec", lambda _: None)
    answer = server.post("/mcp", {})
    assert answer.status_code == 404
    assert "pip install 'lagotto[mcp]'" in answer.json()["detail"]


async def test_calls_are_logged_and_counted(server: Running) -> None:
    async with connected(server) as client:
        await client.call_tool("collections", {})
    assert 'operation="mcp",status="200"' in server.http.get("/metrics").text
