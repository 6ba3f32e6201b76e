from __future__ import annotations

import asyncio
import gc
import logging
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.errors import ConfigError, UnknownNameError
from lagotto.server import serve
from lagotto.server.access import ApiKeys
from lagotto.server.serve import check_base, listening
from lagotto.server.settings import ServerSettings
from lagotto.stores.registry import create_store
from tests.server.running import Running, serving, wait_until
from tests.server.server_process import server_process


def test_without_keys_only_this_machine(tmp_path: Path) -> None:
    location = str(tmp_path / "kb.db")
    asyncio.run(check_base(ServerSettings(location=location)))
    asyncio.run(check_base(ServerSettings(location=location, host="::1")))
    exposed = ServerSettings(location=location, host="0.0.0.0")
    with pytest.raises(ConfigError, match=r"keys create --name NAME"):
        asyncio.run(check_base(exposed))
    asyncio.run(_of_keys(location, lambda keys: keys.create("first")))
    asyncio.run(check_base(exposed))
    asyncio.run(_of_keys(location, lambda keys: keys.revoke("first")))
    with pytest.raises(ConfigError, match=r"this base has no active key"):
        asyncio.run(check_base(exposed))


async def _of_keys(location: str, change: Callable[[ApiKeys], Awaitable[object]]) -> None:
    store = create_store(location)
    await store.open()
    await change(ApiKeys(store.keyed_values))
    await store.close()


def test_slowloris_with_headers_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send their headers byte by byte lose the connection, and hold up nobody."""
    monkeypatch.setattr(serve, "HEADER_TIMEOUT", 1.0)  # enough for those who do not dawdle
    with serving() as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for client in clients:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert server.http.get("/healthz").status_code == 200
        for client in clients:
            client.settimeout(60)
            assert client.recv(10) == b""
            client.close()
        assert server.http.get("/healthz").status_code == 200


SIZE = 8_000_000
LARGE = Document(id="large", text="A lagotto digs.", metadata={"scan": "x" * SIZE})


def unread(server: Running) -> socket.socket:
    """A connection that has asked for 8 MB and reads nothing of them."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", server.port))
    client.sendall(b"GET /v1/documents/large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return client


def is_cut_off(client: socket.socket) -> bool:
    """Whether the connection ends before the answer does."""
    received = 0
    with suppress(ConnectionResetError):
        while part := client.recv(1_000_000):
            received += len(part)
            if received > SIZE:
                return False
    return True


def test_clients_that_do_not_read_lose_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "UNREAD_TIMEOUT", 0.5)
    waiting = serve.LimitedH11Protocol._unread
    with serving(documents=[LARGE]) as server, unread(server) as client:
        wait_until(lambda: len(waiting) == 1)
        wait_until(lambda: not waiting)
        assert is_cut_off(client)
        assert server.http.get("/v1/documents/large").json()["metadata"] == LARGE.metadata


def test_unread_answers_take_a_limited_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that waits the longest goes; a client that reads in time loses nothing."""
    waiting = serve.LimitedH11Protocol._unread
    with serving(documents=[LARGE]) as server, ExitStack() as stack:
        first = stack.enter_context(unread(server))
        wait_until(lambda: len(waiting) == 1)
        (oldest,) = waiting
        size = oldest.transport.get_write_buffer_size()
        monkeypatch.setattr(serve, "MOST_UNREAD", 2.5 * size)
        others = [stack.enter_context(unread(server)) for _ in range(2)]
        wait_until(lambda: oldest not in waiting)
        assert [is_cut_off(client) for client in (first, *others)] == [True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("interruptible")
def test_the_command(tmp_path: Path, workers: int) -> None:
    """It starts, answers, logs one line of JSON per request, and ends at SIGTERM."""
    with KnowledgeBase(tmp_path / "kb.db") as kb:
        kb.add(Document(id="dog", text="A water dog finds truffles."))
    command = [
        sys.executable, "-m", "lagotto", "--kb", str(tmp_path / "kb.db"), "serve",
        "--port", "0", "--workers", str(workers),
    ]  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            wait_until(lambda: b"\n" in log.read_bytes() or process.poll() is not None, seconds=120)
            announced = re.match(r"serving at (http://127.0.0.1:\d+), ", log.read_text())
            assert announced is not None
            answer = _first_answer(announced[1], process)
            assert answer.json()["hits"][0]["document_id"] == "dog"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM)
        finally:
            process.kill()
    assert '"operation": "retrieve", "status": 200' in log.read_text()
    assert "truffles?" not in log.read_text()


def _first_answer(url: str, process: subprocess.Popen[bytes]) -> httpx.Response:
    until = time.monotonic() + 120
    while True:
        assert process.poll() is None
        try:
            body = {"query": "Which dog finds truffles?"}
            return httpx.post(f"{url}/v1/retrieve", json=body, timeout=120)
        except httpx.TransportError:
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)


@pytest.mark.slow
def test_shutdown_answers_what_has_begun_and_ends_streams(tmp_path: Path) -> None:
    with server_process(str(tmp_path / "kb.db")) as (http, process), ThreadPoolExecutor() as pool:
        url = http.base_url

        def begin(path: str, query: str) -> Future[httpx.Response]:
            return pool.submit(httpx.post, f"{url}{path}", json={"query": query}, timeout=120)

        def in_progress() -> int:
            found = re.search(r"lagotto_requests_in_progress{.*} (\d+)", http.get("/metrics").text)
            return int(found[1]) if found else 0

        stream = begin("/v1/search/stream", "wait for ever")
        search = begin("/v1/retrieve", "wait for the end")
        wait_until(lambda: in_progress() == 2)
        process.send_signal(signal.SIGTERM)
        assert search.result().json()["hits"] == []
        assert (stream.result().status_code, stream.result().text) == (200, "")
        assert process.wait(60) in (0, -signal.SIGTERM)


def test_what_is_answered_is_sent_at_once(tmp_path: Path) -> None:
    with listening(ServerSettings(location=str(tmp_path / "kb.db"), port=0)) as bound:
        assert bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_is_announced_with_the_port_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    ran: list[int] = []

    def run(_: object, sockets: list[socket.socket]) -> None:
        ran.append(sockets[0].getsockname()[1])

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.delenv(serve.VARIABLE, raising=False)
    said: list[str] = []
    serve.serve(
        ServerSettings(location=str(tmp_path / "kb.db"), host=host, port=0), announce=said.append
    )
    shown = f"[{host}]" if ":" in host else host
    assert ran[0] > 0
    assert said == [f"http://{shown}:{ran[0]}"]


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = ServerSettings(location=str(tmp_path / "kb.db"), port=port)
        with pytest.raises(ConfigError, match=rf"can't listen at 127.0.0.1, port {port}: .*in use"):
            serve.serve(taken, announce=said.append)
    assert not said


@pytest.mark.parametrize("wrong", [{"embedder": "nonsense"}, {"preset": "nonsense"}])
def test_what_it_could_not_answer_with_is_an_error_at_once(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    said: list[str] = []
    with pytest.raises(UnknownNameError, match="nonsense"):
        serve.serve(ServerSettings(location=str(tmp_path / "kb.db"), **wrong), announce=said.append)
    assert not said


def test_collecting_garbage_holds_up_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server starts with, its modules and the model, is not looked through again."""
    settings = ServerSettings(location=str(tmp_path / "kb.db"))
    monkeypatch.setenv(serve.VARIABLE, settings.model_dump_json())
    monkeypatch.setattr(serve, "LOGGER", logging.Logger("own"))
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    try:
        with TestClient(serve.app_of_environment()):
            assert len(gc.get_objects()) < 10_000 < gc.get_freeze_count()
            assert gc.get_threshold()[2] >= 100 * thresholds[2]
            assert sys.getswitchinterval() < interval
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
