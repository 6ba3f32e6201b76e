"""A base of a stranger: what it names is not connected to or loaded until the user names it."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from lagotto import Document, KnowledgeBase
from lagotto._internal import trust
from lagotto.chunkers.strategies import DocumentChunker
from lagotto.errors import ConfigError
from lagotto.indexes.base import Finding
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder

KEY = "hunter2-hunter2"


class Canary:
    """A server that keeps what it gets, and refuses it."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = listening.getsockname()[1]
        self.received = b""
        self.visits = 0
        self._listening = listening

    def serve(self) -> None:
        while True:
            try:
                visitor, _ = self._listening.accept()
            except OSError:
                return
            self.visits += 1
            with visitor:
                visitor.settimeout(1)
                try:
                    self.received += visitor.recv(65536)
                    visitor.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                except OSError:
                    continue


@pytest.fixture
def canary() -> Iterator[Canary]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Canary(listening)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield server
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has named nothing yet, with keys in the environment."""
    folder = tmp_path / "config"
    monkeypatch.setenv("LAGOTTO_CONFIG", str(folder))
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PINECONE_API_KEY", KEY)
    new_process(monkeypatch)
    return folder


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_named", set())


def base_of_a_stranger(path: Path, **settings: str) -> Path:
    """A base whose file names what the stranger likes."""
    with KnowledgeBase(path, embedder=HashEmbedder()) as kb:
        kb.add(Document(id="dog", text="A dog that finds truffles."))
    with sqlite3.connect(path) as connection:
        for name, value in settings.items():
            connection.execute("DELETE FROM setting WHERE name = ?", (name,))
            connection.execute("INSERT INTO setting (name, value) VALUES (?, ?)", (name, value))
    connection.close()
    return path


def check(path: Path) -> list[Finding]:
    async def run() -> list[Finding]:
        store = SqliteStore(path)
        await store.open()
        try:
            return await store.check()
        finally:
            await store.close()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["qdrant", "pinecone"])
def test_the_index_of_a_strangers_base_is_not_connected_to(
    tmp_path: Path, canary: Canary, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINECONE_CONTROLLER_HOST", f"http://127.0.0.1:{canary.port}")
    address = {
        "qdrant": f"qdrant://127.0.0.1:{canary.port}/?grpc_port={canary.port}",
        "pinecone": "pinecone:chunks",
    }[kind]
    indexes = {"vector_index": address}
    if kind == "qdrant":
        indexes["text_index"] = address
    path = base_of_a_stranger(tmp_path / "kb.db", **indexes)
    with KnowledgeBase(path, embedder=HashEmbedder()) as kb:
        kb.add(Document(id="cat", text="A cat that finds mice."))
        answer = kb.search("truffles")
        assert kb.info().documents == 2
    assert answer.candidates[0].item_id == "dog"
    notes = " ".join(answer.stats.degraded)
    assert address in notes
    assert "LAGOTTO_TRUST" in notes
    problems = [finding for finding in check(path) if finding.level == "problem"]
    assert len(problems) == len(indexes)
    assert all(address in problem.what for problem in problems)
    assert all("LAGOTTO_TRUST" in problem.advice for problem in problems)
    assert canary.visits == 0


def test_a_rebuild_does_not_trust_what_the_base_names(tmp_path: Path, canary: Canary) -> None:
    address = f"qdrant://127.0.0.1:{canary.port}/?grpc_port={canary.port}"
    path = base_of_a_stranger(tmp_path / "kb.db", vector_index=address)
    with KnowledgeBase(path, embedder=HashEmbedder()) as kb:
        kb.rebuild(text_index="qdrant")
        assert "not used" in " ".join(kb.search("truffles").stats.degraded)
        kb.rebuild(text_index="tantivy", vector_index="embedded")
        assert not kb.search("truffles").stats.degraded
    assert canary.visits == 0


def test_naming_the_index_is_trusting_it(
    tmp_path: Path, canary: Canary, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"qdrant://127.0.0.1:{canary.port}/?grpc_port={canary.port}"
    path = base_of_a_stranger(tmp_path / "kb.db", vector_index=address)
    monkeypatch.setenv("LAGOTTO_TRUST", f"'{address}' pinecone:other")
    store = SqliteStore(path, busy_timeout=0.5)
    asyncio.run(_searched(store))
    assert canary.visits
    assert not user.exists()

    monkeypatch.delenv("LAGOTTO_TRUST")
    store = SqliteStore(path, vector_index=address, busy_timeout=0.5)
    asyncio.run(_searched(store))
    assert (user / "trusted").read_text() == f"{address}\n"
    assert stat.S_IMODE((user / "trusted").stat().st_mode) == 0o600

    new_process(monkeypatch)
    before = canary.visits
    asyncio.run(_searched(SqliteStore(path, busy_timeout=0.5)))
    assert canary.visits > before


async def _searched(store: SqliteStore) -> None:
    from lagotto.filters import And

    await store.open()
    try:
        async with store.view(And()):
            pass
    finally:
        await store.close()


def test_the_embedder_of_a_strangers_base_is_not_asked(tmp_path: Path, canary: Canary) -> None:
    spec = f"openai:m?dimension=64&base_url=http://127.0.0.1:{canary.port}/v1"
    path = base_of_a_stranger(tmp_path / "kb.db", embedder=spec, model_id="m")
    with KnowledgeBase(path) as kb:
        assert [document.id for document in kb.documents()] == ["dog"]
        with pytest.raises(ConfigError, match="LAGOTTO_TRUST"):
            kb.search("truffles")
        with pytest.raises(ConfigError, match="LAGOTTO_TRUST"):
            kb.add(Document(text="A cat."))
        with pytest.raises(ConfigError, match="LAGOTTO_TRUST"):
            kb.rebuild()
    assert canary.visits == 0
    with KnowledgeBase(path, embedder=spec) as kb:
        kb.search("truffles")
    assert KEY.encode() in canary.received


def test_the_model_folder_of_a_strangers_base_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    path = base_of_a_stranger(tmp_path / "kb.db", embedder=f"onnx:{folder}", model_id="m")
    with KnowledgeBase(path) as kb, pytest.raises(ConfigError, match="you have not"):
        kb.search("truffles")


def test_the_chunker_of_a_strangers_base_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a package that happens to be installed; the base is searched all the same."""
    theirs = EntryPoint("theirs", f"{__name__}:Theirs", "lagotto.chunkers")
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints([theirs]).select)
    path = tmp_path / "kb.db"
    with KnowledgeBase(path, embedder=HashEmbedder(), chunker="theirs") as base:
        base.add(Document(text="A dog."))
    new_process(monkeypatch)
    with KnowledgeBase(path, embedder=HashEmbedder()) as base:
        base.add(Document(text="An oak."))
    (tmp_path / "config" / "trusted").unlink()
    new_process(monkeypatch)
    with KnowledgeBase(path, embedder=HashEmbedder()) as base:
        assert len(base.retrieve("dog")) == 2
        with pytest.raises(ConfigError, match=r"the chunker theirs .* LAGOTTO_TRUST=theirs"):
            base.add(Document(text="A lake."))


class Theirs(DocumentChunker):
    id = "theirs"


def test_a_base_of_ones_own_needs_no_word(
    tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lagotto.embedders import EMBEDDERS

    monkeypatch.setitem(EMBEDDERS._registered, "mine", lambda _: HashEmbedder())
    with KnowledgeBase(tmp_path / "kb.db", embedder="mine:8") as kb:
        kb.add(Document(id="dog", text="A dog that finds truffles."))
    new_process(monkeypatch)
    with KnowledgeBase(tmp_path / "kb.db") as kb:
        assert kb.search("truffles").candidates
    assert (user / "trusted").read_text() == "mine:8\n"


def test_a_configuration_folder_that_cant_be_written(
    tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text("a file where the folder should be")
    trust.trust("qdrant://host")
    assert trust.is_trusted("qdrant://host")
    new_process(monkeypatch)
    assert not trust.is_trusted("qdrant://host")
    monkeypatch.delenv("LAGOTTO_CONFIG")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with _without_home(monkeypatch):
        trust.trust("qdrant://host")
        assert trust.is_trusted("qdrant://host")


@contextmanager
def _without_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", home)
    yield


def test_a_name_with_a_line_break_adds_no_other_name(user: Path) -> None:
    trust.trust("mine:x\nqdrant://evil")
    assert not trust.is_trusted("qdrant://evil")
    assert not user.exists()


@pytest.mark.parametrize("listed", ["'qdrant://host", ""])
def test_a_list_in_the_environment_that_names_nothing(
    listed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGOTTO_TRUST", listed)
    assert not trust.is_trusted("qdrant://host")


def test_the_options_of_the_environment_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_VECTOR_INDEX", "qdrant://host:6333")
    assert trust.is_trusted("qdrant://host:6333")
    assert not trust.is_trusted("qdrant://host:6333/other")
