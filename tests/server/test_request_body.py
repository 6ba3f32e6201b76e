"""Bodies that are too large or too slow, and clients that go away, through the whole stack."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest

from lagotto._internal import concurrency
from lagotto.documents import Span, Vectors
from lagotto.embedders.base import Role
from lagotto.retrieval.documents import Highlighter
from lagotto.server import operations
from lagotto.server.endpoints import search
from lagotto.server.middleware import RequestLog
from lagotto.server.request_body import SearchBody
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import Running, serving, wait_until


class WaitingEmbedder(HashEmbedder):
    """Never embeds the query `wait`, and notes that it was asked to, and that it was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.cancelled = threading.Event()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if "wait" in texts:
            self.entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return await super().embed(texts, role=role)


EMBEDDER = WaitingEmbedder()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(
        embedder=EMBEDDER, max_body=2_000, max_upload=9_000, concurrency=1, queue=1
    ) as running:
        yield running


@pytest.fixture(scope="module")
def impatient() -> Iterator[Running]:
    with serving(body_timeout=0.3) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh() -> None:
    EMBEDDER.entered.clear()
    EMBEDDER.cancelled.clear()


def request(body: bytes, *, length: int | None = None, path: str = "/v1/retrieve") -> bytes:
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + body


def connected(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


WAIT = json.dumps({"query": "wait"}).encode()


@pytest.mark.parametrize("path", ["/v1/retrieve", "/v1/search", "/v1/context"])
def test_a_client_that_disconnects_cancels_the_search(server: Running, path: str) -> None:
    with connected(server) as client:
        client.sendall(request(WAIT, path=path))
        assert EMBEDDER.entered.wait(60)
        assert not EMBEDDER.cancelled.is_set()
    assert EMBEDDER.cancelled.wait(60)
    assert server.post("/v1/retrieve", {"query": "dog"}).status_code == 200


def test_a_deadline_cancels_the_search(server: Running) -> None:
    """Which would never end."""
    answer = server.post("/v1/retrieve", {"query": "wait", "timeout": 2})
    assert (answer.status_code, answer.json()["error"]) == (504, "DeadlineExceeded")
    assert EMBEDDER.cancelled.wait(60)


def test_too_many_requests(server: Running) -> None:
    """One works, one waits; the third is sent away, and the second gets its turn."""
    with connected(server) as first, connected(server) as second:
        first.sendall(request(WAIT))
        assert EMBEDDER.entered.wait(60)
        second.sendall(request(b'{"query": "dog"}'))
        wait_until(lambda: server.state.gate.waiting == 1)
        refused = server.post("/v1/retrieve", {"query": "dog"})
        assert (refused.status_code, refused.json()["error"]) == (429, "TooManyRequests")
        assert refused.headers["retry-after"] == "1"
        assert server.http.get("/healthz").status_code == 200
        first.close()
        assert second.recv(100).startswith(b"HTTP/1.1 200")


def test_oversized_bodies(server: Running) -> None:
    declared = server.http.post(
        "/v1/retrieve", content=b" " * 5_000, headers={"Content-Type": "application/json"}
    )
    assert (declared.status_code, declared.json()["error"]) == (413, "ContentTooLarge")

    def parts() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 100

    streamed = server.http.post(
        "/v1/retrieve", content=parts(), headers={"Content-Type": "application/json"}
    )
    assert streamed.status_code == 413


def test_oversized_uploads(server: Running) -> None:
    """As a form and as JSON, with the length declared and without."""
    form = server.http.build_request(
        "POST", "/v1/documents", files={"file": ("a.txt", b"text " * 4_000)}
    )
    content, kind = form.read(), form.headers["content-type"]
    body = json.dumps({"documents": [{"text": "text " * 4_000}]}).encode()
    for data, media_type in ((content, kind), (body, "application/json")):
        for sent in (data, (data[at : at + 1_000] for at in range(0, len(data), 1_000))):
            answer = server.http.post(
                "/v1/documents", content=sent, headers={"Content-Type": media_type}
            )
            assert (answer.status_code, answer.json()["error"]) == (413, "ContentTooLarge")
    assert server.http.get("/v1/tasks").json()["tasks"] == []


def test_slowloris_with_a_body_that_stops(impatient: Running) -> None:
    with connected(impatient) as client:
        client.sendall(request(b"{", length=100))
        assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_slowloris_with_a_body_byte_by_byte(impatient: Running) -> None:
    """Each byte comes in time, the whole does not."""
    with connected(impatient) as client:
        client.sendall(request(b"{", length=100_000))
        client.settimeout(0.05)
        answer = b""
        until = time.monotonic() + 60
        while not answer and time.monotonic() < until:
            client.sendall(b" ")
            with suppress(TimeoutError):
                answer = client.recv(100)
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_deadline_ends_what_comes_after_the_search(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has a thread of its own, so others are answered meanwhile."""
    inner, calls = Highlighter.spans, list[bool]()

    def spans(self: Highlighter, text: str, *, language: str | None = None) -> tuple[Span, ...]:
        stop = concurrency._stop.get()
        calls.append(server.http.get("/healthz").status_code == 200)
        assert stop is not None
        assert stop.wait(60)
        return inner(self, text, language=language)

    monkeypatch.setattr(Highlighter, "spans", spans)
    answer = httpx.post(
        f"{server.url}/v1/retrieve",
        json={"query": "dog", "highlight": True, "timeout": 3},
        timeout=60,
    )
    assert (answer.status_code, answer.json()["error"]) == (504, "DeadlineExceeded")
    assert calls == [True]


def test_no_more_than_some_characters_are_highlighted(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "HIGHLIGHTED", 20)
    body = {"query": "truffles", "highlight": True, "top_k": 4, "collection": "default"}
    first, *rest = server.post("/v1/retrieve", body).json()["hits"]
    assert first["content"][:8] == "Truffles"
    assert first["highlights"] == [[0, 8]]
    assert not any(hit["highlights"] for hit in rest)


@pytest.mark.parametrize("path", ["/v1/retrieve", "/v1/documents/remove"])
def test_filters_of_too_many_conditions(path: str) -> None:
    with serving(max_conditions=3) as running:
        for count, status in ((3, 200), (4, 422)):
            filters = {"$or": [{"year": 1900 + number} for number in range(count)]}
            asked = {"filters": filters} | ({"query": "dog"} if "retrieve" in path else {})
            answer = running.post(path, asked)
            assert answer.status_code == status
        (wrong,) = answer.json()["errors"]
        assert wrong["pointer"] == "/filters"
        assert "more than 3 conditions" in wrong["detail"]


def test_a_request_is_wide_if_it_is_large_or_asks_for_many(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    inner = server.state.gate.slot

    def place(client: str, *, wide: bool) -> Any:
        assert client == "127.0.0.1"
        asked.append(wide)
        return inner(client, wide=wide)

    monkeypatch.setattr(server.state.gate, "slot", place)
    for more in ({}, {"top_k": 100}, {"top_k": 101}, {"rerank": {"candidates": 500}}):
        server.post("/v1/retrieve", {"query": "dog", **more})
    server.post("/v1/search", {"query": "dog", "top_k_items": 200})
    monkeypatch.setattr(operations, "WIDE_BYTES", 50)
    server.post("/v1/retrieve", {"query": "dog" * 20})
    server.http.get("/v1/retrieve", params={"q": "dog" * 20})
    server.http.get("/v1/retrieve", params={"q": "dog"})
    for numbers in (64, 63):  # a vector of the base is as wide as it has to be, no other list is
        server.post("/v1/retrieve", {"query": "dog", "query_vector": [0.1] * numbers})
    assert asked == [False, False, True, True, True, True, True, False, False, True]


async def test_a_request_that_the_end_of_the_server_cancels_is_answered() -> None:
    sent: list[dict[str, Any]] = []
    entered = asyncio.Event()

    async def app(*_: object) -> None:
        entered.set()
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nobody reads")

    scope = {"type": "http", "headers": [], "method": "GET", "state": {}}
    answering = asyncio.create_task(RequestLog(app)(scope, receive, send))
    await entered.wait()
    answering.cancel()
    await answering
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["error"] == "Unavailable"


@pytest.mark.parametrize(("values", "in_the_loop"), [(10, True), (200, False)])
def test_large_bodies_are_read_in_a_thread(
    server: Running, values: int, in_the_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the server answers others."""
    read = SearchBody.model_validate_json
    threads: list[threading.Thread] = []

    def noticed(data: bytes) -> SearchBody:
        threads.append(threading.current_thread())
        return read(data)

    monkeypatch.setattr(SearchBody, "model_validate_json", noticed)
    monkeypatch.setattr(operations, "LARGE_BODY", 500)
    body = {"query": "dog", "filters": {"n": {"$in": list(range(values))}}}
    assert server.post("/v1/search", body).status_code == 200
    loop = server.call(running_in())
    assert [thread is loop for thread in threads] == [in_the_loop]


async def running_in() -> threading.Thread:
    return threading.current_thread()
