"""Bases with indexes on a Qdrant server, as users have them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.errors import ConfigError, DegradedError
from lagotto.testing.hash_embedder import HashEmbedder
from tests.servers.qdrant import QdrantNode, missing, qdrant_cluster

pytestmark = pytest.mark.slow

INDEXES = Path(__file__).parents[3] / "docs" / "indexes.md"
EXAMPLE = re.compile(r"^```python title=.*?\n(.*?)^```", re.DOTALL | re.MULTILINE)
OFF = {"mode": "off"}


def documents(count: int, *, first: int = 0) -> list[Document]:
    return [
        Document(id=f"d{n}", text=f"unique{n}x truffle topic{n % 3}", metadata={"n": n})
        for n in range(first, first + count)
    ]


@contextmanager
def opened(path: Path, address: str | None = None) -> Iterator[KnowledgeBase]:
    indexes = {"vector_index": address, "text_index": "qdrant" if address else None}
    with KnowledgeBase(path, embedder=HashEmbedder(dimension=16), **indexes) as base:  # type: ignore[arg-type]
        yield base


def found(base: KnowledgeBase, word: str) -> list[str]:
    hits = base.retrieve(word, mode="keyword", fuzzy=OFF)
    assert hits.degraded == ()
    return [hit.document_id for hit in hits]


@pytest.fixture
def node() -> Iterator[QdrantNode]:
    """A server that a test may kill."""
    if reason := missing():
        pytest.skip(reason)
    with qdrant_cluster() as (server,):
        yield server


def test_the_example_of_the_docs(
    tmp_path: Path,
    qdrant_address: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = EXAMPLE.findall(INDEXES.read_text(encoding="utf-8"))
    assert "qdrant://localhost:6333" in example
    exec(example.replace("qdrant://localhost:6333", qdrant_address), {})
    assert capsys.readouterr().out == "lagotto ['qdrant', 'qdrant']\n"


def test_a_writer_finds_its_own_writes(tmp_path: Path, qdrant_address: str) -> None:
    with opened(tmp_path / "kb.db", qdrant_address) as base:
        base.add(*documents(30))
        base.add(*documents(1, first=30))
        assert found(base, "unique30x") == ["d30"]
        base.remove("d3")
        assert found(base, "unique3x") == []
        changed = documents(1)[0].model_copy(update={"metadata": {"n": 1_000}})
        base.add(changed)
        hits = base.retrieve("truffle", filters={"n": {"$gte": 1_000}}, top_k=5)
        assert [hit.document_id for hit in hits] == ["d0"]


def test_a_base_remembers_its_indexes(tmp_path: Path, qdrant_address: str) -> None:
    path = tmp_path / "kb.db"
    with opened(path, qdrant_address) as base:
        base.add(*documents(3))
    with opened(path) as base:
        info = base.info()
        assert (info.text_index, info.vector_index) == (qdrant_address, qdrant_address)
        assert found(base, "unique1x") == ["d1"]
    with (
        pytest.raises(ConfigError, match="rebuild --vector-index embedded"),
        KnowledgeBase(path, embedder=HashEmbedder(dimension=16), vector_index="embedded"),
    ):
        pass


def test_to_the_server_and_back_again(tmp_path: Path, qdrant_address: str) -> None:
    with opened(tmp_path / "kb.db") as base:
        base.add(*documents(20))
        before = base.retrieve("truffle topic1", top_k=9)
        base.rebuild(vector_index=qdrant_address, text_index=qdrant_address)
        assert [index.kind for index in base.info().indexes] == ["qdrant", "qdrant"]
        there = base.retrieve("truffle topic1", top_k=9)
        base.rebuild(vector_index="embedded", text_index="tantivy")
        assert [index.kind for index in base.info().indexes] == ["tantivy", "embedded"]
        again = base.retrieve("truffle topic1", top_k=9)
    for other in (there, again):
        assert [hit.document_id for hit in other] == [hit.document_id for hit in before]
        scores = [hit.score for hit in before]
        assert [hit.score for hit in other] == pytest.approx(scores, rel=1e-3)


def test_two_copies_of_a_base_do_not_share_an_index(tmp_path: Path, qdrant_address: str) -> None:
    with opened(tmp_path / "one.db", qdrant_address) as one:
        one.add(*documents(300))
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    with opened(tmp_path / "one.db") as one, opened(tmp_path / "two.db") as two:
        one.add(*documents(300, first=1_000))
        two.add(*documents(300, first=2_000))
        for base, ours, theirs in ((one, 1_005, 2_005), (two, 2_005, 1_005), (one, 1_005, 2_005)):
            assert found(base, f"unique{ours}x") == [f"d{ours}"]
            assert found(base, f"unique{theirs}x") == []


def test_a_server_that_is_down_is_a_degradation(tmp_path: Path, node: QdrantNode) -> None:
    with opened(tmp_path / "kb.db", node.address()) as base:
        base.add(*documents(20))
        before = base.retrieve("truffle topic1", top_k=9)
        assert before.degraded == ()
        node.kill()
        base.add(*documents(1, first=50))
        down = base.retrieve("unique50x", top_k=1)
        assert down[0].document_id == "d50"
        semantic, text = sorted(down.degraded)
        unused = "index can't be used, so chunks are searched"
        assert semantic.startswith(f"semantic: the vector {unused}")
        assert text.startswith(f"text: the text {unused}")
        with pytest.raises(DegradedError):
            base.retrieve("truffle", strict=True)
        node.start()
        _wait_until_used(base)
        base.run(base.base._record.update_indexes())
        assert found(base, "unique50x") == ["d50"]
        levels = {finding.level for finding in base.run(base.base._record.check())}
        assert levels <= {"ok", "note"}


def _wait_until_used(base: KnowledgeBase) -> None:
    """A server that did not answer is left alone for a while."""
    deadline = monotonic() + 60
    while base.retrieve("truffle").degraded:
        assert monotonic() < deadline
        sleep(0.2)
