"""A server that is down, refuses access or is too old; secrets stay secret."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

import grpc
import pytest
from qdrant_client import QdrantClient

from lagotto import AsyncKnowledgeBase
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.indexes.qdrant.client import API_KEY, CHANNEL, QdrantServer, parse_address
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import TEXT_INDEXES, IndexSite
from lagotto.indexes.text_query import Word
from lagotto.testing.indexes import caught_up, sample_log
from tests.servers.qdrant import cluster_address, free_ports, missing, qdrant_cluster

SECRET = "hunter2-hunter2"
PINGS = {"grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"}


class Failure(grpc.RpcError):
    """An error of the transport."""

    def __init__(self, status: grpc.StatusCode, details: str) -> None:
        self._status, self._details = status, details

    def code(self) -> grpc.StatusCode:
        return self._status

    def details(self) -> str:
        return self._details


class Question:
    """Notes the nodes that are asked; fails so many `times`, always for None."""

    def __init__(
        self,
        status: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
        details: str = "gone",
        *,
        times: int | None = None,
    ) -> None:
        self.failure = Failure(status, details)
        self.times = times
        self.asked: list[object] = []

    def __call__(self, node: object) -> str:
        self.asked.append(node)
        if self.times is None or len(self.asked) <= self.times:
            raise self.failure
        return "answer"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> QdrantServer:
    """A server that is never connected to."""
    made = QdrantServer(parse_address("qdrant://localhost"), timeout=0.5)
    monkeypatch.setattr(made, "_connected", lambda node: node)
    return made


def test_a_connection_that_another_thread_closes(qdrant_address: str) -> None:
    """gRPC raises a ValueError, which would pass for damage to the record."""
    server = QdrantServer(parse_address(qdrant_address), timeout=5)

    def closed_meanwhile(client: QdrantClient) -> object:
        server.close()
        return client.get_collections()

    with pytest.raises(IndexUnavailableError, match="was closed"):
        server.ask(closed_meanwhile)
    with pytest.raises(ValueError, match="ours"):
        server.ask(lambda _: int("ours"))
    server.close()


def test_a_server_that_is_not_there() -> None:
    port, grpc_port = free_ports(2)
    site = IndexSite("b" * 32, 0.3, address=f"qdrant://127.0.0.1:{port}/?grpc_port={grpc_port}")
    index = QdrantTextIndex(site)
    started = time.monotonic()
    with pytest.raises(IndexUnavailableError, match=f"127.0.0.1:{port} does not answer"):
        index.refresh()
    assert time.monotonic() - started < 60
    with pytest.raises(IndexUnavailableError):
        index.catch_up(sample_log())
    assert index.latest(sample_log()) is None
    finding = index.check(sample_log())
    assert finding.level == "problem"
    assert "does not answer" in finding.what
    index.close()


@pytest.mark.server
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
async def test_a_server_that_dies_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    log = sample_log()
    with qdrant_cluster(settings={"SERVICE__API_KEY": SECRET}) as (node,):
        site = IndexSite("b" * 32, 5.0, address=node.address())
        stranger = QdrantTextIndex(site)
        with pytest.raises(IndexUnavailableError, match=f"refuses access.*{API_KEY}"):
            stranger.refresh()
        stranger.close()
        monkeypatch.setenv(API_KEY, SECRET)
        index = QdrantTextIndex(site)
        snapshot = caught_up(index, log)
        node.kill()
        with pytest.raises(IndexUnavailableError, match="does not answer") as caught:
            await snapshot.frequencies([Word(("dog",))])
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        node.start()
        refresh_soon(index)
        again = index.latest(log)
        assert again is not None
        assert await again.frequencies([Word(("dog",))]) == [2]
        index.close()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_node_that_hangs_is_left_long_before_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in CHANNEL.keys() & PINGS:
        monkeypatch.setitem(CHANNEL, name, 500)
    with qdrant_cluster() as first, qdrant_cluster() as second:
        server = QdrantServer(parse_address(cluster_address([*first, *second])), timeout=300)
        server.ask(lambda client: client.get_collections())
        hanging = first[0].process_id
        os.kill(hanging, signal.SIGSTOP)
        try:
            started = time.monotonic()
            server.ask(lambda client: client.get_collections())
            assert time.monotonic() - started < 60
        finally:
            os.kill(hanging, signal.SIGCONT)
        server.close()


def refresh_soon(index: QdrantTextIndex) -> None:
    """Refresh once the connection is there again."""
    last = time.monotonic() + 60
    while True:
        try:
            return index.refresh()
        except IndexUnavailableError:
            assert time.monotonic() < last
            time.sleep(0.05)


def test_nodes_are_asked_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    server = QdrantServer(parse_address("qdrant://one,two,three"), timeout=60)
    monkeypatch.setattr(server, "_connected", lambda node: node)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("another node may answer at once"))
    asked: list[object] = []
    down = {0, 1}

    def question(node: object) -> object:
        asked.append(node)
        if node in down:
            raise Failure(grpc.StatusCode.UNAVAILABLE, "gone")
        return node

    assert server.ask(question) == 2
    assert server.ask(question) == 2  # where it was answered
    assert asked == [0, 1, 2, 2]
    down = {2}
    assert server.ask(question, seconds=1) == 0

    wrong = Question(grpc.StatusCode.INVALID_ARGUMENT, "wrong")
    with pytest.raises(IndexUnavailableError, match="refused a request"):
        server.ask(wrong)
    assert wrong.asked == [0]


def test_searches_ask_one_node_after_none_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    server = QdrantServer(parse_address("qdrant://one,two,three"), timeout=60)
    monkeypatch.setattr(server, "_connected", lambda node: node)
    question = Question()
    for _ in range(3):
        with pytest.raises(IndexUnavailableError, match="qdrant://one:6333,two:6333,three:6333"):
            server.ask(question, seconds=0)
    assert question.asked == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("name", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"])
def test_transient_errors_are_retried(
    server: QdrantServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "timeout", 60.0)
    question = Question(grpc.StatusCode[name], "later", times=2)
    assert server.ask(question) == "answer"
    assert len(question.asked) == 3


def test_retries_end_with_the_time_of_the_search(server: QdrantServer) -> None:
    for seconds, least, most in ((0.0, 1, 1), (None, 2, 999)):
        question = Question()
        with pytest.raises(IndexUnavailableError, match="gone"):
            server.ask(question, seconds=seconds)
        assert least <= len(question.asked) <= most


def test_searches_do_not_wait_for_a_server_that_is_down(server: QdrantServer) -> None:
    """A follower has time."""
    brief, patient = server.ask_briefly, server.ask
    for ask, least, most in ((brief, 2, 999), (brief, 1, 1), (patient, 2, 999)):
        question = Question()
        with pytest.raises(IndexUnavailableError):
            ask(question)
        assert least <= len(question.asked) <= most


def test_what_a_server_refuses_is_not_retried(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(API_KEY, SECRET)
    caplog.set_level(logging.DEBUG)
    question = Question(grpc.StatusCode.INVALID_ARGUMENT, f"bad request with {SECRET}")
    with pytest.raises(IndexUnavailableError, match=r"bad request with \*\*\*") as caught:
        server.ask(question)
    assert len(question.asked) == 1
    assert SECRET not in str(caught.value) + repr(caught.value) + caplog.text


@pytest.mark.parametrize("version", ["1.12.4", "0.9", "what"])
def test_a_server_that_is_too_old(version: str) -> None:
    server = QdrantServer(parse_address("qdrant://localhost"), timeout=1)
    with pytest.raises(IndexUnavailableError, match=f"version {version}; upgrade it to"):
        server._check_version(version)
    server._check_version("1.16.3")
    server._check_version("2.0.0-dev")


def test_without_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("lagotto.indexes.qdrant")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(ConfigError, match=r"lagotto\[qdrant\]"):
        TEXT_INDEXES.get("qdrant")
    with pytest.raises(ConfigError, match=r"lagotto\[qdrant\]"):
        AsyncKnowledgeBase(tmp_path / "kb.db", vector_index="qdrant://localhost")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["qdrant://localhost:port", "qdrant://localhost/?shard=2"])
def test_a_vector_index_is_checked_before_anything_is_embedded(
    address: str, tmp_path: Path
) -> None:
    """The index itself is made when the dimension is known, which would be too late."""
    with pytest.raises(ConfigError, match="qdrant address"):
        AsyncKnowledgeBase(tmp_path / "kb.db", vector_index=address)
    assert not list(tmp_path.iterdir())
