"""Bodies that are too large or too slow, and clients that go away, through the whole stack."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from lagotto.documents import Vectors
from lagotto.embedders.base import Role
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
    answer = server.post("/v1/retrieve", {"query": "wait", "timeout": 0.2})
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
