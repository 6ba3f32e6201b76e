"""A base with its vectors in Pinecone answers as one with an embedded index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.errors import DegradedError
from lagotto.testing.hash_embedder import HashEmbedder
from tests.servers.pinecone import PineconeServer
from tests.servers.scripted import Reply

DESIGNS = Path(__file__).parents[3] / "docs" / "reference-designs.md"
EXAMPLE = re.compile(r"^```python title=.*?\n(.*?)^```", re.DOTALL | re.MULTILINE)
DOCUMENTS = [
    Document(
        id=str(number),
        text=f"text number {number} of {'oak' if number % 3 else 'hazel'}",
        collection=f"c{number % 4}",
        metadata={"number": number},
    )
    for number in range(40)
]
FILTERS = [None, {"number": {"$gte": 20}}, {"number": {"$in": [1, 2, 3, 5, 8]}}]


@pytest.fixture
def embedder(server: PineconeServer) -> HashEmbedder:
    made = HashEmbedder()
    server.dimension = made.info.dimension
    return made


def answers(kb: KnowledgeBase) -> list[list[tuple[str, float]]]:
    found = [
        kb.retrieve("oak number 7", filters=some, mode="semantic", top_k=9) for some in FILTERS
    ]
    return [[(hit.document_id, hit.score) for hit in hits] for hits in found]


def test_results_are_those_of_an_embedded_base(
    tmp_path: Path, server: PineconeServer, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lagotto.indexes.remote.SCORED_FROM_RECORD", 0)
    choice = f"pinecone:{server.name}"
    with (
        KnowledgeBase(tmp_path / "embedded.db", embedder=embedder) as embedded,
        KnowledgeBase(tmp_path / "remote.db", embedder=embedder, vector_index=choice) as remote,
    ):
        for kb in (embedded, remote):
            kb.add(*DOCUMENTS)
        assert answers(remote) == answers(embedded)
        for kb in (embedded, remote):
            kb.remove("7", collection="c3")
            kb.add(DOCUMENTS[8].model_copy(update={"metadata": {"number": 21}}))
        assert answers(remote) == answers(embedded)
    with KnowledgeBase(tmp_path / "remote.db", embedder=embedder) as again:
        found = answers(again)
        assert again.info().vector_index == choice
    with KnowledgeBase(tmp_path / "embedded.db", embedder=embedder) as embedded:
        assert found == answers(embedded)


def test_a_service_that_is_down_is_a_degradation(
    tmp_path: Path, server: PineconeServer, embedder: HashEmbedder
) -> None:
    with KnowledgeBase(
        tmp_path / "kb.db", embedder=embedder, vector_index=f"pinecone:{server.name}"
    ) as kb:
        kb.add(*DOCUMENTS)
        up = kb.retrieve("oak number 7", mode="semantic", top_k=9)
    refusal = {"error": {"message": "down for maintenance"}}
    with KnowledgeBase(tmp_path / "kb.db", embedder=embedder) as kb:
        server.failures = [Reply(refusal, status=403)] * 500
        down = kb.retrieve("oak number 7", mode="semantic", top_k=9)
        assert [hit.document_id for hit in down] == [hit.document_id for hit in up]
        assert "down for maintenance" in "".join(down.stats.degraded)
        with pytest.raises(DegradedError, match="down for maintenance"):
            kb.retrieve("oak number 7", mode="semantic", top_k=9, strict=True)
        server.failures.clear()


def test_the_example_of_the_design(
    tmp_path: Path,
    server: PineconeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    server.dimension = 384
    (example,) = EXAMPLE.findall(DESIGNS.read_text(encoding="utf-8"))
    assert "pinecone:chunks" in example
    exec(example.replace("pinecone:chunks", f"pinecone:{server.name}"), {})
    assert capsys.readouterr().out == "Doc: doc_1 1 1\n"
