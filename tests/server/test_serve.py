from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from lagotto.documents import Document
from lagotto.errors import ConfigError
from lagotto.server import serve
from lagotto.server.keys import ApiKeys
from lagotto.server.serve import check_exposure
from lagotto.server.settings import ServerSettings
from lagotto.stores.registry import create_store
from lagotto.sync_facade import KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import serving
from tests.server.test_tasks import ended


def test_without_keys_only_this_machine(tmp_path: Path) -> None:
    location = str(tmp_path / "kb.db")
    asyncio.run(check_exposure(ServerSettings(location=location)))
    asyncio.run(check_exposure(ServerSettings(location=location, host="::1")))
    exposed = ServerSettings(location=location, host="0.0.0.0")
    with pytest.raises(ConfigError, match=r"keys create --name NAME"):
        asyncio.run(check_exposure(exposed))
    asyncio.run(_create_key(location))
    asyncio.run(check_exposure(exposed))


async def _create_key(location: str) -> str:
    store = create_store(location)
    await store.open()
    secret, _ = await ApiKeys(store.keyed_values).create("first")
    await store.close()
    return secret


def test_slow_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send their headers byte by byte lose the connection, and hold up nobody."""
    monkeypatch.setattr(serve, "HEADER_TIMEOUT", 0.3)
    with serving() as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for client in clients:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert server.http.get("/healthz").status_code == 200
        for client in clients:
            client.settimeout(10)
            assert client.recv(10) == b""
            client.close()
        assert server.http.get("/healthz").status_code == 200
        time.sleep(0.5)
        assert server.http.get("/healthz").status_code == 200


@pytest.mark.slow
def test_two_servers_on_one_base_find_what_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with (
        serving(path) as one,
        serving(path) as two,
        KnowledgeBase(path, embedder=HashEmbedder()) as writer,
    ):
        for number in range(3):
            text = f"Word{number} " * 50 + "end"
            writer.add(Document(id=f"new{number}", text=text))
            written = time.monotonic()
            for server in (one, two):
                body = {"query": f"word{number}", "mode": "keyword"}
                found = server.post("/v1/retrieve", body).json()
                assert f"new{number}" in [hit["document_id"] for hit in found["hits"]]
                assert server.http.get(f"/v1/documents/new{number}").json()["text"] == text
            assert time.monotonic() - written < 5
        sent = one.post("/v1/documents", {"documents": [{"id": "sent", "text": "By a task."}]})
        ended(one.http, sent.json())
        assert two.http.get("/v1/documents/sent").status_code == 200


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("interruptible")
def test_the_command(tmp_path: Path, workers: int) -> None:
    """It starts, answers, logs one line of JSON per request, and ends at SIGTERM."""
    with KnowledgeBase(tmp_path / "kb.db") as kb:
        kb.add(Document(id="dog", text="A water dog finds truffles."))
    port = free_port()
    command = [
        sys.executable, "-m", "lagotto", "--kb", str(tmp_path / "kb.db"), "serve",
        "--port", str(port), "--workers", str(workers),
    ]  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, env=os.environ)
        try:
            answer = _first_answer(port, process)
            assert answer.json()["hits"][0]["document_id"] == "dog"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM)
        finally:
            process.kill()
            process.wait()
    assert '"operation": "retrieve", "status": 200' in log.read_text()
    assert "truffles?" not in log.read_text()


def _first_answer(port: int, process: subprocess.Popen[bytes]) -> httpx.Response:
    for _ in range(200):
        assert process.poll() is None
        try:
            url = f"http://127.0.0.1:{port}/v1/retrieve"
            return httpx.post(url, json={"query": "Which dog finds truffles?"}, timeout=20)
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")
