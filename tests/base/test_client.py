"""What a base can do, a client can do: the same calls on both, with the same results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.base.client import AsyncClient, Client
from lagotto.base.client import open as open_base
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.context import CitedPassage
from lagotto.documents import Document
from lagotto.errors import (
    CitationError,
    ConfigError,
    DeadlineExceeded,
    FilterError,
    QueryError,
    StoreError,
    StoreUnavailableError,
)
from lagotto.filters import Eq, Gt
from lagotto.prefs import RetrievalPrefs, ScoringPrefs
from lagotto.request_context import RequestContext
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import run
from tests.server.running import DOCUMENTS, Running, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture(scope="module")
def local() -> Iterator[KnowledgeBase]:
    with KnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        base.add(*DOCUMENTS)
        yield base


RRF = RetrievalPrefs(scoring={"blend": "rrf"}, top_k=2, top_k_chunks=1)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("retrieve", ("Which dog finds truffles?",), {}),
    ("retrieve", ("truffles",), {"top_k": 2, "mode": "keyword", "filters": Gt("year", 2020)}),
    ("retrieve", ("truffles",), {"prefs": "oasis", "collection": "b"}),
    ("retrieve", ("truffles",), {"prefs": RRF, "rerank": {"reranker": "overlap"}}),
    ("retrieve", ("truffles",), {"scoring": ScoringPrefs(w_text=0.2), "explain": "candidates"}),
    ("retrieve", ("truffel",), {}),
    ("retrieve", ("",), {}),
    ("retrieve", ("truffles",), {"query_vector": [0.125] * 64}),
    ("search", ("truffles",), {}),
    ("search", ("truffles",), {"prefs": RRF, "filters": {"topic": "dogs"}}),
    ("search", ("truffles",), {"top_k": 1, "prefs": RRF}),
    ("context", ("truffles",), {"max_tokens": 100, "format": "xml"}),
    ("context", ("truffles",), {"prefs": "local-rag", "context": {"cite_by": "id"}}),
    ("context", (), {"queries": ["truffles", "Which dog?"], "max_tokens": 100}),
    ("why_not", ("dog", "oak"), {"top_k": 1}),
    ("why_not", ("dog", "dog"), {}),
    ("why_not", ("dog", "nothing"), {}),
    ("why_not", ("dog", "secret"), {"top_k": 1}),  # in another collection than the default one
    ("documents", (), {}),
    ("documents", (), {"filters": Eq("topic", "dogs"), "collection": "default"}),
    ("get", ("error/4012",), {}),
    ("get", ("secret",), {"collection": "b"}),
    ("get", ("nothing",), {}),
    ("chunks", ("dog",), {}),
    ("chunks", ("nothing",), {}),
    ("resolve", ("default/dog#0-20",), {}),
]


@pytest.mark.parametrize(("verb", "arguments", "options"), CALLS)
def test_same_results(
    client: Client, local: KnowledgeBase, verb: str, arguments: Any, options: dict[str, Any]
) -> None:
    theirs = getattr(client, verb)(*arguments, **options)
    ours = getattr(local, verb)(*arguments, **options)
    assert type(theirs) is type(ours)
    assert theirs == ours
    if verb == "retrieve":
        assert theirs.stats == ours.stats
        assert theirs.candidates == ours.candidates


FAILING: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception]]] = [
    ("retrieve", ("a",), {"top_k": 0}, ConfigError),
    ("retrieve", ("a",), {"nothing": 1}, ConfigError),
    ("retrieve", ("a",), {"filters": {"a": {"$x": 1}}}, FilterError),
    ("retrieve", ("(",), {"fts": {"mode": "strict"}}, QueryError),
    ("retrieve", ("a",), {"context": {"max_tokens": 5}}, ConfigError),
    ("retrieve", ("a",), {"request": RequestContext(timeout=1e-9)}, DeadlineExceeded),
    ("resolve", ("default/nothing#0-9",), {}, CitationError),
    ("resolve", ("default/dog#0-20~00000000",), {}, CitationError),
    ("resolve", ("nonsense",), {}, CitationError),
    ("remove", (), {}, ConfigError),
    ("add", ([Document(id="x", text="y")],), {}, ConfigError),
    ("add", (Document(id="x", text="y"),), {"collection": ""}, ConfigError),
]


@pytest.mark.parametrize(("verb", "arguments", "options", "error"), FAILING)
def test_same_errors(
    client: Client,
    local: KnowledgeBase,
    verb: str,
    arguments: Any,
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    for base in (client, local):
        with pytest.raises(error):
            getattr(base, verb)(*arguments, **options)


def test_same_changes(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "heron.md").write_text("# Heron\n\nIt stands in the reeds.\n")
    (tmp_path / "notes" / "broken.pdf").write_bytes(b"%PDF-1.4 nothing else")
    with (
        serving(documents=[]) as own,
        Client(own.url) as client,
        KnowledgeBase(":memory:", embedder=HashEmbedder()) as local,
    ):
        for base in (client, local):
            report = base.add(
                tmp_path / "notes", Document(id="a", text="A text."), metadata={"year": 2024}
            )
            assert (report.added, len(report.failures)) == (2, 1)
            assert base.add(Document(id="a", text="A text.")).unchanged == 1
            assert base.export_documents(tmp_path / "out.jsonl") == 2
            assert base.remove("a") == ["a"]
            assert base.import_documents(tmp_path / "out.jsonl").added == 1
            assert base.info().documents == 2
        assert client.documents() == local.documents()
        assert isinstance(client.resolve(client.context("reeds").citations[0]), CitedPassage)
        with pytest.raises(ConfigError, match="where its base is"):
            client.sync(tmp_path)
        with pytest.raises(ConfigError, match="where its base is"):
            client.rebuild()


async def test_documents_are_added_without_replacing_others() -> None:
    with serving(documents=[]) as own:
        async with AsyncClient(own.url) as client:
            document = Document(text="An oak.", metadata={"n": 1})
            assert (await client.add_documents([document], replace=False)).added == 1
            assert (await client.add_documents([document], replace=False)).unchanged == 1
            changed = document.model_copy(update={"metadata": {"n": 2}})
            refused = await client.add_documents([changed], replace=False)
            assert [failure.error for failure in refused.failures] == ["ReplaceRefusedError"]
            stored = await client.get(document.id)
            assert stored is not None
            assert stored.metadata == {"n": 1}


def test_both_have_the_same_verbs() -> None:
    def verbs(kind: type) -> dict[str, Any]:
        members = inspect.getmembers(kind, inspect.isfunction)
        return {name: member for name, member in members if not name.startswith("_")}

    ours, theirs = verbs(AsyncKnowledgeBase), verbs(AsyncClient)
    assert set(ours) - {"add_guarded"} == set(theirs)
    assert set(verbs(Client)) == set(verbs(KnowledgeBase))
    for name in set(theirs) - {"sync", "rebuild", "set_synonyms"}:
        assert list(inspect.signature(ours[name]).parameters) == list(
            inspect.signature(theirs[name]).parameters
        ), name


def test_open(server: Running, tmp_path: Path) -> None:
    with open_base(server.url) as base:
        assert isinstance(base, Client)
        assert base.retrieve("dog")[0].document_id == "dog"
        assert [found[0].document_id for found in base.retrieve_many(["dog", "oak"])] == [
            "dog",
            "oak",
        ]
        assert [item.id for item in base.iter_documents(collection="b")] == ["secret"]
    with pytest.raises(StoreError, match="closed"):
        base.retrieve("dog")
    with open_base(tmp_path / "kb.db", embedder=HashEmbedder()) as base:
        assert isinstance(base, KnowledgeBase)
    with pytest.raises(ConfigError, match="embedder: the server"):
        open_base(server.url, embedder="minilm")
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        open_base("http://127.0.0.1:9")


def test_keys_of_clients() -> None:
    with serving() as own:
        secret = own.key(collections=["b"])
        with pytest.raises(StoreError, match="needs a key"), Client(own.url) as client:
            client.retrieve("truffle")
        with Client(own.url, api_key=secret) as client:
            assert [item.id for item in client.documents()] == ["secret"]


def test_commands(server: Running, tmp_path: Path) -> None:
    """Commands take the address of a server."""
    found = run("--kb", server.url, "retrieve", "Which dog finds truffles?", "--json")
    assert found.json["results"][0]["document_id"] == "dog"
    commands: list[tuple[list[str | Path], str]] = [
        (["search", "dog"], "water dog"),
        (["context", "dog"], "water dog"),
        (["info"], "4"),
        (["list"], "Oaks"),
        (["show", "dog"], "water dog"),
        (["export", tmp_path / "out.jsonl"], "4 documents"),
        (["import", tmp_path / "out.jsonl"], "4 unchanged"),
    ]
    for words, said in commands:
        done = run("--kb", server.url, *words)
        assert done.code == 0, done.err
        assert said in done.out + done.err
    (tmp_path / "heron.md").write_text("# Heron\n\nIt stands in the reeds.\n")
    added = run("--kb", server.url, "add", tmp_path / "heron.md", "--collection", "birds")
    assert "1 added" in added.out + added.err
    assert run("--kb", server.url, "remove", "Heron", "--collection", "birds", "--yes").code == 0
    assert run("--kb", "http://127.0.0.1:9", "info").code == 5


@pytest.mark.parametrize(
    "words",
    [
        ["sync", "."],
        ["watch", "."],
        ["rebuild"],
        ["doctor"],
        ["serve"],
        ["keys", "list"],
        ["keys", "create", "--name", "k"],
        ["demo"],
        ["copy", "http://127.0.0.1:9", "copy.db"],
        ["copy", "notes.db", "http://127.0.0.1:9"],
    ],
)
def test_commands_that_work_where_the_base_is(
    server: Running, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    KnowledgeBase("notes.db", embedder=HashEmbedder()).close()
    done = run("--kb", server.url, *words)
    assert done.code == 2
    assert "is a server" in done.err
    assert "where its base is" in done.err
    assert not (tmp_path / "copy.db").exists()
