"""The browser design: vectors and trigrams, merged by reciprocal ranks. Preset `local-rag`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from sqlalchemy import create_engine, inspect, make_url

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.rebuild import RebuildProgress
from lagotto.documents import Document, iso
from lagotto.embedders import create_embedder
from lagotto.errors import DegradedError
from lagotto.prefs import Mode, RetrievalPrefs
from lagotto.results import Leg, RetrievalResult
from lagotto.retrieval.fusion import fuse
from lagotto.retrieval.query.expansion import declarative
from lagotto.stores.postgres import vector_index
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.tables import ChunkRow, EmbeddingRow
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.terms import keywords, word_similarity
from lagotto.testing.hash_embedder import HashEmbedder
from tests.bases import base_of
from tests.conformance.lists import DOCUMENTS, candidates, named
from tests.rerankers.tiny_cross_encoder import make_cross_encoder

VECTORS = "SELECT chunk.id, model_id, {size} FROM embedding JOIN chunk ON chunk.key = chunk_key"
SCANS = (
    "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE schemaname = current_schema() "
    "AND indexrelname IN ('embedding_graph_0', 'chunk_text_trigrams')"
)
TRIGRAMS = (
    "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() "
    "AND indexname = 'chunk_text_trigrams'"
)
Vectors = list[tuple[str, str, int]]
"""Of each vector its chunk, its model and its dimension."""

EMBEDDER = HashEmbedder(dimension=64)
LOCAL = RetrievalPrefs.preset("local-rag")
QUESTION = "When was Stargate Atlantis cancelled?"
STOPS = Document(id="stops", text="When was it, and when was it not? It was when it was.")


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with base_of(*DOCUMENTS, embedder=EMBEDDER, prefs="local-rag") as base:
        yield base


@pytest.fixture
async def on_server(location: str) -> AsyncIterator[AsyncKnowledgeBase]:
    """The same on PostgreSQL, where whole texts are compared."""
    async with base_of(*DOCUMENTS, location=location, embedder=EMBEDDER, prefs="local-rag") as base:
        yield base


def trigrams_of(found: Iterable[RetrievalResult]) -> dict[str, float]:
    """The score by trigrams of each document that has one."""
    legs = {hit.document_id: hit.breakdown.fuzzy for hit in found}
    return {name: leg.score for name, leg in legs.items() if leg is not None}


async def test_vectors_and_trigrams(base: AsyncKnowledgeBase) -> None:
    """local-rag 1: both ways find the answer, also for misspelt words."""
    for query in (QUESTION, "Stargte Atlntis cancled"):
        found = await base.retrieve(query)
        assert found[0].document_id == "series"
        assert set(found[0].breakdown.legs()) == {"semantic", "fuzzy"}


def test_embedding_model() -> None:
    """local-rag 2: all-MiniLM-L6-v2 with 384 dimensions, on this machine."""
    info = create_embedder("minilm").info
    assert info.dimension == 384
    assert "all-MiniLM-L6-v2" in info.model_id


async def test_embeddings_are_of_meaning() -> None:
    """local-rag 2: a cat is nearer to a kitten than to a tax."""
    embedder = create_embedder("minilm")
    cat, kitten, tax = await embedder.embed(["a cat", "a kitten", "a tax"], role="document")
    await embedder.close()
    assert float(cat @ kitten) > float(cat @ tax) + 0.2


async def test_vector_score_is_the_cosine(base: AsyncKnowledgeBase) -> None:
    """local-rag 3: 1 - cosine distance."""
    (query,) = await EMBEDDER.embed([QUESTION], role="query")
    found = await base.retrieve(QUESTION, min_score=0)
    texts = [f"{hit.document_title}\n\n{hit.content}" for hit in found]
    rows = await EMBEDDER.embed(texts, role="document")
    for hit, row in zip(found, rows, strict=True):
        distance = 1 - float(row @ query)
        assert hit.breakdown.semantic is not None
        assert hit.breakdown.semantic.score == pytest.approx(1 - distance, abs=1e-5)


async def test_trigram_threshold(base: AsyncKnowledgeBase) -> None:
    """local-rag 4: word similarity, 0.3 by default; a higher threshold finds less."""
    assert LOCAL.fuzzy.threshold == 0.3
    assert word_similarity("word", "two words") == pytest.approx(0.8)  # the example of pg_trgm
    assert word_similarity("atlntis", "stargate atlantis was cancelled") >= 0.3
    assert await base.retrieve("atlntis", mode="keyword", min_score=0)
    strict = {"mode": "always", "threshold": 0.9}
    assert not await base.retrieve("atlntis", mode="keyword", min_score=0, fuzzy=strict)


@pytest.mark.parametrize("language", ["en", None])
async def test_trigrams_of_whole_texts(on_server: AsyncKnowledgeBase, language: str | None) -> None:
    """local-rag 4 and 5: word_similarity(keywords, text) for texts with keywords <% text.

    stargate, atlantis and cancelled have 9, 9 and 10 trigrams, 28 in all. The text of `series` has
    all of them in a stretch with the 4 of "was": 28 / 32. That of `other` has atlantis: 9 / 28.
    Stop words go before, also if nobody says the language: with them, the text of `stops` would
    have the 5 and 4 trigrams of "when" and "was", of 37.
    """
    documents = (*DOCUMENTS, STOPS)
    await on_server.add(*(item.model_copy(update={"language": language}) for item in documents))
    found = await on_server.retrieve(QUESTION, mode="keyword", min_score=0)
    misspelt = await on_server.retrieve("Stargte Atlntis cancled")
    assert found.degraded == ()
    assert trigrams_of(found) == pytest.approx({"series": 28 / 32, "other": 9 / 28})
    assert misspelt[0].document_id == "series"
    assert set(misspelt[0].breakdown.legs()) == {"semantic", "fuzzy"}


async def test_stores_without_trigrams_of_texts_compare_terms(base: AsyncKnowledgeBase) -> None:
    """local-rag 4: what is compared instead is said."""
    assert LOCAL.fuzzy.over == "chunks"
    found = await base.retrieve(QUESTION, mode="keyword")
    assert found[0].document_id == "series"
    (note,) = found.degraded
    assert "compared with index terms" in note
    assert not (await base.retrieve(QUESTION, fuzzy={"over": "terms"})).degraded


async def test_keyword_extraction(base: AsyncKnowledgeBase) -> None:
    """local-rag 5: stop words go, the rest in lower case; trigrams are those of what is left."""
    assert keywords(QUESTION, ["en"]) == ["stargate", "atlantis", "cancelled"]
    english = [document.model_copy(update={"language": "en"}) for document in DOCUMENTS]
    await base.add(*english)

    async def trigrams(query: str) -> dict[str, float]:
        return trigrams_of(await base.retrieve(query, mode="keyword", min_score=0))

    expected = await trigrams("stargate atlantis cancelled")
    assert set(expected) == {"series", "other"}
    assert await trigrams(QUESTION) == expected
    assert await trigrams("STARGATE, the ATLANTIS: was it cancelled?") == expected
    assert await trigrams("stargate atlantis") != expected


def test_reciprocal_ranks_with_weighted_trigrams() -> None:
    """local-rag 6: 1 / (60 + rank) by vectors, 1.5 / (60 + rank) by trigrams, ranks from 1.

    a is first by vectors only: 1/61. b is second by vectors and first by trigrams:
    1/62 + 1.5/61 = 0.0407192...
    """
    found = candidates(semantic="ab", fuzzy="bc")
    fused = fuse(found, LOCAL.scoring.weights(), LOCAL.scoring)
    raw = named(fused.raw, found)
    assert raw["a"] == pytest.approx(1 / 61)
    assert raw["b"] == pytest.approx(1 / 62 + 1.5 / 61)
    assert raw["b"] == pytest.approx(0.0407192)
    assert raw["c"] == pytest.approx(1.5 / 62)
    assert named(fused.scores, found)["b"] == pytest.approx(0.0407192 / (2.5 / 61), abs=1e-6)


async def test_configuration(base: AsyncKnowledgeBase) -> None:
    """local-rag 7: ten of each method, hybrid score at least 0.3, k = 60."""
    await base.add(*(Document(id=f"d{n:02}", text=f"Stargate, part {n}.") for n in range(30)))
    prefs = LOCAL.replace(min_score=0, debug=True)
    for mode, leg in (("semantic", "semantic"), ("keyword", "fuzzy")):
        found = await base.retrieve("stargate", prefs=prefs.replace(mode=mode))
        assert found.stats.counts["candidate_chunks"] == len(found) == 10
        ranks = [getattr(hit.breakdown, leg).rank for hit in found]
        assert sorted(ranks)[0] == 1
        weight = {"semantic": 1.0, "fuzzy": 1.5}[leg]
        for hit, rank in zip(found, ranks, strict=True):
            assert hit.breakdown.fused == pytest.approx(weight / (60 + rank))
    everything = await base.retrieve("stargate", top_k=20, min_score=0)
    found = await base.retrieve("stargate", top_k=20)
    assert found == [hit for hit in everything if hit.score >= 0.3] != []


async def test_schema(tmp_path: Path) -> None:
    """local-rag 8: a vector belongs to a chunk and a model, and goes with its chunk.

    It has the time at which it was made.
    """
    table = EmbeddingRow.__table__
    assert [column.name for column in table.primary_key] == ["chunk_key", "model_id"]
    (foreign,) = table.foreign_keys
    assert foreign.column is ChunkRow.__table__.c.key
    assert foreign.ondelete == "CASCADE"
    async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=EMBEDDER) as base:
        earlier = iso(datetime.now(UTC))
        await base.add(*DOCUMENTS)
        with closing(sqlite3.connect(tmp_path / "kb.db")) as file:
            times = [time for (time,) in file.execute("SELECT created_at FROM embedding")]
            assert len(times) == len(DOCUMENTS)
            assert earlier <= min(times) <= max(times) <= iso(datetime.now(UTC))
            await base.remove(*(document.id for document in DOCUMENTS))
            assert file.execute("SELECT count(*) FROM embedding").fetchone() == (0,)


async def test_schema_on_a_server(location: str) -> None:
    """local-rag 8: created_at TIMESTAMPTZ DEFAULT now() NOT NULL, and a dimension per model.

    Several models share the table, so the dimension is a CHECK of each, not that of the column.
    """
    columns = (
        "SELECT column_name, data_type, is_nullable, column_default FROM "
        "information_schema.columns WHERE table_name = 'embedding' AND "
        "table_schema = current_schema()"
    )
    keys = (
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = 'embedding'::regclass AND contype = %s"
    )
    add = "INSERT INTO embedding (chunk_key, model_id, vector) SELECT key, %s, %s FROM chunk"
    async with AsyncKnowledgeBase(location, embedder=EMBEDDER) as base:
        earlier = datetime.now(UTC)
        await base.add(*DOCUMENTS)
        with psycopg.connect(location, autocommit=True) as server:
            found = {name: rest for name, *rest in server.execute(columns)}
            assert found["created_at"] == ["timestamp with time zone", "NO", "now()"]
            assert found["model_id"][:2] == ["text", "NO"]
            assert found["vector"][:2] == ["USER-DEFINED", "NO"]
            assert server.execute(keys, ("p",)).fetchall() == [
                ("PRIMARY KEY (chunk_key, model_id)",)
            ]
            ((foreign,),) = server.execute(keys, ("f",))
            assert foreign.endswith("REFERENCES chunk(key) ON DELETE CASCADE")
            times = [time for (time,) in server.execute("SELECT created_at FROM embedding")]
            assert len(times) == len(DOCUMENTS)
            assert earlier <= min(times) <= max(times) <= datetime.now(UTC)
            server.execute(add, ("other", "[1,2,3]"))
            server.execute("DELETE FROM embedding WHERE model_id = 'other'")
            server.execute("DELETE FROM embedding")
            with pytest.raises(psycopg.errors.CheckViolation, match="dimension_of_"):
                server.execute(add, ("hash", "[1,2,3]"))
            await base.remove(*(document.id for document in DOCUMENTS))
            assert server.execute("SELECT count(*) FROM embedding").fetchone() == (0,)


class TestModelsSideBySide:
    """local-rag 8: while a base is rebuilt with another model, a chunk has a vector of each.

    They are in the same table; searches see those of the current generation.
    """

    async def test_in_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "kb.db"

        def vectors() -> Vectors:
            with closing(sqlite3.connect(path)) as connection:
                return connection.execute(VECTORS.format(size="length(vector) / 4")).fetchall()

        await self._check(path, vectors)

    async def test_on_a_server(self, location: str) -> None:
        with psycopg.connect(location, autocommit=True) as connection:
            statement = VECTORS.format(size="vector_dims(vector)")
            await self._check(location, lambda: connection.execute(statement).fetchall())

    @staticmethod
    async def _check(location: str | Path, vectors: Callable[[], Vectors]) -> None:
        other = HashEmbedder(model_id="other", dimension=32)
        seen: list[Vectors] = []

        def progress(done: RebuildProgress) -> None:
            if done.done == len(DOCUMENTS) and not seen:
                seen.append(vectors())

        async with base_of(*DOCUMENTS, location=location, embedder=EMBEDDER) as base:
            await base.rebuild(embedder=other, progress=progress)
            assert (await base.info()).model_id == "other"
        assert {model for _, model, _ in vectors()} == {"other"}
        present, following = (
            [row for row in seen[0] if row[1] == model] for model in ("hash", "other")
        )
        assert {chunk for chunk, _, _ in present} == {chunk for chunk, _, _ in following}
        assert len(present) == len(following) == len(DOCUMENTS)
        assert all(size == 64 for *_, size in present)
        assert all(size == 32 for *_, size in following)


class TestIndexesServeBothSearches:
    """local-rag 9: neither search looks at every row by itself."""

    SERVED: tuple[tuple[Mode, str, str], ...] = (
        ("semantic", "embedding_graph_0", "seqscan"),
        ("keyword", "chunk_text_trigrams", "indexscan"),
    )

    async def test_in_a_file(self, tmp_path: Path) -> None:
        """Texts and vectors that are lost behind the indexes' back are found all the same."""
        path = tmp_path / "kb.db"
        async with base_of(*DOCUMENTS, location=path, embedder=EMBEDDER, prefs="local-rag") as base:
            settings: dict[str, Any] = {"fuzzy": {"over": "terms"}, "min_score": 0}
            expected = [
                await base.retrieve(QUESTION, mode=mode, **settings) for mode, *_ in self.SERVED
            ]
            with closing(sqlite3.connect(path)) as file, file:
                file.execute("DELETE FROM embedding")
                file.execute("INSERT INTO chunk_text SELECT key, 'lost' FROM chunk")
            found = [
                await base.retrieve(QUESTION, mode=mode, **settings) for mode, *_ in self.SERVED
            ]
        assert [len(hits) for hits in found] == [5, 2]
        assert {hit.content for hits in found for hit in hits} == {"lost"}
        for hits, former in zip(found, expected, strict=True):
            assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in former]
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in former])

    async def test_on_a_server(self, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server counts the scans of its indexes: a search by vectors uses HNSW, one by
        trigrams GIN, which the first such search makes. Small tables are read as a whole unless
        that is forbidden.
        """
        monkeypatch.setattr(vector_index, "GRAPH_FROM", 20)
        words = [f"{chr(97 + n % 26)}{n}x{n * n}" for n in range(2400)]
        others = [" ".join(words[n : n + 12]) for n in range(0, 2400, 12)]
        async with self._base(location) as base:
            await base.add(*DOCUMENTS, *(Document(text=text) for text in others))
            with psycopg.connect(location) as connection:
                assert connection.execute(TRIGRAMS).fetchall() == []
                first = await base.retrieve(QUESTION, mode="keyword")
                ((definition,),) = connection.execute(TRIGRAMS).fetchall()
        assert definition.endswith("USING gin (text gin_trgm_ops)")
        with psycopg.connect(location, autocommit=True) as connection:
            connection.execute("ANALYZE chunk_text, chunk, embedding")
            for mode, index, forbidden in self.SERVED:
                before = self._scans(connection)
                async with self._base(location, "seqscan", forbidden) as base:
                    found = await base.retrieve(QUESTION, mode=mode)
                    assert found.degraded == first.degraded == ()
                    assert mode == "semantic" or trigrams_of(found) == trigrams_of(first)
                for _ in range(100):  # until the server has ended the session
                    after = self._scans(connection)
                    if after != before:
                        break
                    await asyncio.sleep(0.05)
                assert {name for name in after if after[name] > before[name]} == {index}

    @staticmethod
    def _base(location: str, *forbidden: str) -> AsyncKnowledgeBase:
        """The base, in sessions that scan in other ways."""
        url = make_url(location)
        without = [f"-cenable_{name}=off" for name in forbidden]
        options = " ".join([str(url.query["options"]), *without])
        url = url.update_query_dict({"options": options})
        location = url.render_as_string(hide_password=False)
        return AsyncKnowledgeBase(location, embedder=EMBEDDER, prefs="local-rag")

    @staticmethod
    def _scans(connection: psycopg.Connection) -> dict[str, int]:
        """How often each index has been scanned in sessions that have ended."""
        connection.execute("SELECT pg_stat_clear_snapshot()")
        return dict(connection.execute(SCANS).fetchall())


async def test_migrations_run_on_open(tmp_path: Path) -> None:
    """local-rag 10: a base knows the version of its tables, and opening brings it up to date."""
    store = SqliteStore(tmp_path / "kb.db")
    await store.open()
    await store.close()
    engine = create_engine(f"sqlite:///{tmp_path / 'kb.db'}")
    with engine.connect() as connection:
        version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        assert "embedding" in inspect(connection).get_table_names()
    engine.dispose()
    assert int(version) == SCHEMA_VERSION


async def test_question_and_answer_are_worded_differently() -> None:
    """local-rag 11: names that many texts share don't push the answer down."""
    names = [
        Document(
            id=f"atlantis{n}", text=f"Stargate Atlantis, episode {n}. When Atlantis was found."
        )
        for n in range(8)
    ]
    answer = Document(id="answer", text="The series Stargate Atlantis was cancelled in 2008.")
    async with base_of(*names, answer, embedder=EMBEDDER, prefs="local-rag") as base:
        by_meaning = await base.retrieve(QUESTION, mode="semantic")
        by_words = await base.retrieve(QUESTION, mode="keyword")
        both = await base.retrieve(QUESTION, prefs=RetrievalPrefs())
    assert by_meaning[0].document_id != "answer"
    assert by_words[0].document_id == "answer"
    assert both[0].document_id == "answer"


async def test_query_expansion() -> None:
    """local-rag 12: a question as the statement that would answer it, and words of such answers.

    Both texts have the words of the question, and are as long; one goes on as an answer to "when".
    """
    statement = declarative(QUESTION)
    assert statement is not None
    assert "Stargate Atlantis was cancelled" in statement
    texts = {
        "a": "Stargate Atlantis cancelled; fans cried.",
        "b": "Stargate Atlantis cancelled; January.",
    }
    documents = [Document(id=name, text=text, language="en") for name, text in texts.items()]
    async with base_of(*documents, embedder=EMBEDDER) as base:
        plain, expanded = [
            await base.retrieve(QUESTION, mode="keyword", expansion={"answers": answers})
            for answers in (False, True)
        ]
    scores = [
        {hit.document_id: hit.breakdown.text.score for hit in found if hit.breakdown.text}
        for found in (plain, expanded)
    ]
    assert scores[1]["a"] == pytest.approx(scores[0]["a"])
    assert scores[1]["b"] > scores[0]["b"]


async def test_cross_encoder_has_its_slot(base: AsyncKnowledgeBase, tmp_path: Path) -> None:
    """local-rag 13: a model reads query and passage together, and its log-odds decide.

    The tiny model adds 1 for each "red" of the passage, -2 for "dog" and 0.25 for any other word.
    """
    texts = {"red red red": 3.0, "red cat": 1.25, "red dog": -1.0}
    await base.remove(*(document.id for document in DOCUMENTS))
    await base.add(*(Document(id=text, text=text) for text in texts))
    model = f"cross-encoder:{make_cross_encoder(tmp_path / 'tiny')}"
    found = await base.retrieve("dog or red", min_score=0, rerank={"reranker": model})
    assert {hit.document_id: hit.breakdown.rerank for hit in found} == texts
    odds = np.array(list(texts.values()))
    assert [hit.score for hit in found] == pytest.approx(1 / (1 + np.exp(-odds)))
    assert [hit.document_id for hit in found] == list(texts)


async def test_weights_per_query_type(base: AsyncKnowledgeBase) -> None:
    """local-rag 14: other weights for questions than for keywords."""
    by_type = {"question": {"w_vec": 0.0, "w_fuzzy": 1.0}}
    for query, legs in ((QUESTION, {"fuzzy"}), ("Stargate Atlantis", {"semantic", "fuzzy"})):
        found = await base.retrieve(query, scoring={"by_type": by_type}, min_score=0)
        assert set(found[0].breakdown.legs()) == legs
    heavy = {"question": {"w_vec": 5.0, "w_fuzzy": 0.1}}
    for query, vector, fuzzy in ((QUESTION, 5.0, 0.1), ("Stargate Atlantis", 1.0, 1.5)):
        (first, *_) = await base.retrieve(query, scoring={"by_type": heavy}, min_score=0)
        parts = first.breakdown.legs()
        ranks = parts["semantic"].rank or 0, parts["fuzzy"].rank or 0
        assert first.breakdown.fused == pytest.approx(
            vector / (60 + ranks[0]) + fuzzy / (60 + ranks[1])
        )


async def test_full_text_as_a_third_signal(base: AsyncKnowledgeBase) -> None:
    """local-rag 15: BM25 beside vectors and trigrams."""
    found = await base.retrieve(QUESTION, scoring={"w_text": 1.0})
    assert set(found[0].breakdown.legs()) == {"semantic", "text", "fuzzy"}
    shares = [said.contribution for said in found[0].breakdown.legs().values()]
    assert found[0].score == pytest.approx(np.sum(shares))


async def test_all_scores_by_hand(on_server: AsyncKnowledgeBase, location: str) -> None:
    """local-rag 4, 6 and 15: on PostgreSQL, word_similarity as the server computes it, and RRF.

    With a weight, the server's own full text is a third leg.
    """
    found = await on_server.retrieve(QUESTION, min_score=0)
    third = await on_server.retrieve(
        QUESTION, scoring={"w_text": 1.0}, fts={"rank_func": "ts_rank_cd"}, min_score=0
    )
    nothing = await on_server.retrieve(QUESTION, fuzzy={"threshold": 0.9}, mode="keyword")
    with psycopg.connect(location) as server:
        rows = server.execute(
            "SELECT text, word_similarity('stargate atlantis cancelled', text) FROM chunk_text"
        ).fetchall()
    similar = {text: score for text, score in rows if score >= 0.3}
    assert {hit.content: hit.breakdown.fuzzy.score for hit in found if hit.breakdown.fuzzy} == (
        pytest.approx(similar)
    )
    for hit in found:
        assert hit.breakdown.semantic is not None
        fused = 1 / (60 + (hit.breakdown.semantic.rank or 0))
        if hit.breakdown.fuzzy is not None:
            fused += 1.5 / (60 + (hit.breakdown.fuzzy.rank or 0))
        assert hit.breakdown.fused == pytest.approx(fused)
    assert set(third[0].breakdown.legs()) == {"semantic", "text", "fuzzy"}
    assert third.degraded == ()
    assert nothing == []


async def test_query_of_stop_words(base: AsyncKnowledgeBase) -> None:
    """local-rag 5: if nothing else is left, the stop words themselves are compared."""
    await base.add(Document(id="stop", text="To be or not to be.", language="en"))
    found = await base.retrieve("to be or not to be", mode="keyword", min_score=0)
    assert found[0].document_id == "stop"


class TestThreshold:
    """local-rag 7: on the scale of the score, the threshold of 0.3 cuts.

    Ten of each list, weights 1 and 1.5: 1 is 2.5 / 61 = 0.04098, first in both lists; 0 is
    1 / 70 = 0.01429, the last one by vectors alone.
    """

    async def test_nonsense_is_cut(self, base: AsyncKnowledgeBase) -> None:
        """No word is like any: vectors alone can give (1/61 - 1/70) / (2.5/61 - 1/70) = 0.0789."""
        nonsense = "xqzzy wvutq jjkkp"
        assert await base.retrieve(nonsense) == []
        everything = await base.retrieve(nonsense, min_score=0)
        assert len(everything) == len(DOCUMENTS)
        best = (1 / 61 - 1 / 70) / (2.5 / 61 - 1 / 70)
        assert everything[0].score == pytest.approx(best)
        assert best == pytest.approx(0.0789, abs=1e-4)

    async def test_answer_is_not_cut(self, base: AsyncKnowledgeBase) -> None:
        """Both lists have it; what only the vectors have of the other documents is cut."""
        found = await base.retrieve(QUESTION)
        everything = await base.retrieve(QUESTION, min_score=0)
        assert [hit.document_id for hit in found] == ["series", "other"]
        assert len(everything) == len(DOCUMENTS)
        third = everything[2].breakdown
        assert third.semantic is not None
        assert third.semantic.rank == 3
        low, high = 1 / 70, 2.5 / 61
        assert third.fused == pytest.approx(1 / 63)
        assert third.fused_ends == pytest.approx((low, high))
        assert everything[2].score == pytest.approx((1 / 63 - low) / (high - low))

    async def test_explained(self, base: AsyncKnowledgeBase) -> None:
        (first, *_) = await base.retrieve(QUESTION)
        said = first.explain().splitlines()
        assert said[-1].strip() == (
            "fused 1.0000 (formula 0.0410, on a scale from 0.0143 to 0.0410)"
        )
        for hit in await base.retrieve(QUESTION, min_score=0):
            legs = hit.breakdown.legs().values()
            assert hit.score == pytest.approx(sum(leg.contribution for leg in legs))
            for leg in legs:
                assert leg.contribution == pytest.approx(leg.weight * leg.normalised)


class TestSyntax:
    """local-rag 4: trigrams run in every syntax of queries, under its conditions."""

    TERMS = RetrievalPrefs.preset("local-rag", fuzzy={"over": "terms"}, min_score=0, strict=True)

    @pytest.mark.parametrize(
        ("mode", "query", "expected"),
        [
            ("any", "Stargte Atlntis", {"series", "other"}),
            ("web", "Stargte Atlntis", {"series"}),
            ("web", "Atlntis -stargate", {"other"}),
            ("web", "platto or seasns", {"series", "other"}),
            ("web", '"Stargte Atlntis"', {"series"}),
            ("plain", "Atlntis, seea!", {"other"}),
            ("phrase", "Stargte Atlntis", {"series"}),
            ("phrase", "Atlntis Stargte", set()),
            ("strict", "atlntis & !platto", {"series", "other"}),
            ("strict", "atlntis & !plato", {"series"}),
        ],
    )
    async def test_conditions_hold_for_similar_words(
        self, base: AsyncKnowledgeBase, mode: str, query: str, expected: set[str]
    ) -> None:
        found = await base.retrieve(query, prefs=self.TERMS, mode="keyword", fts={"mode": mode})
        assert {hit.document_id for hit in found} == expected
        assert all(hit.breakdown.fuzzy is not None for hit in found)

    @pytest.mark.parametrize("mode", ["web", "plain"])
    async def test_corrections(self, base: AsyncKnowledgeBase, mode: str) -> None:
        """The default settings: a misspelt word is corrected, in its condition too."""
        found = await base.retrieve(
            "Stargte cancelled",
            prefs=RetrievalPrefs(strict=True),
            mode="keyword",
            fts={"mode": mode},
        )
        assert [hit.document_id for hit in found] == ["series"]
        assert found[0].breakdown.fuzzy is not None

    async def test_whole_texts_have_no_conditions(self, on_server: AsyncKnowledgeBase) -> None:
        """What is compared instead is said, and is an error in a strict search."""
        found = await on_server.retrieve("Stargte Atlntis", mode="keyword", fts={"mode": "web"})
        assert [hit.document_id for hit in found] == ["series"]
        (note,) = found.degraded
        assert "under the conditions of fts.mode web" in note
        with pytest.raises(DegradedError, match=r"fts\.mode web"):
            await on_server.retrieve("Stargte", fts={"mode": "web"}, strict=True)


ANSWERED = [
    ("When was the bridge opened?", "the bridge was opened in december", "december"),
    ("Why was the bridge closed?", "the bridge was closed because of ice", "because"),
    ("Why did the bridge fall?", "the bridge had to fall because of ice", "because"),
    ("What is a bridge?", "a bridge is known as a crossing", "known"),
    ("How is a bridge built?", "a bridge is built by using steel", "using"),
    ("How do I cross a bridge?", "one can cross a bridge by using feet", "using"),
]
"""Questions, sentences that answer them, and the words in these that are typical of answers."""


class TestAnswerPatterns:
    """local-rag 12: with `expansion.answers`, the query is reformulated as its answer may begin."""

    @staticmethod
    async def asked(question: str, answer: str, **settings: Any) -> tuple[RetrievalResult, ...]:
        """The hits of the answer: of the question, of its expansion, and of the typical word."""
        others = ("on a bridge one was", "who opened, closed or built is not said here")
        documents = [Document(id="answer", text=answer, language="en")]
        documents += [
            Document(id=f"other{n}", text=text, language="en") for n, text in enumerate(others)
        ]
        async with base_of(*documents, embedder=EMBEDDER, prefs="local-rag") as base:
            found = [
                await base.retrieve(question, min_score=0, expansion={"answers": on}, **settings)
                for on in (False, True)
            ]
        return tuple(next(hit for hit in hits if hit.document_id == "answer") for hits in found)

    @pytest.mark.parametrize(("question", "answer", "word"), ANSWERED)
    async def test_vectors(self, question: str, answer: str, word: str) -> None:
        """The vector is the mean of those of the question and of the statement: nearer."""
        plain, expanded = await self.asked(question, answer, mode="semantic")
        statement = declarative(question)
        assert statement is not None
        rows = await EMBEDDER.embed([question, statement], role="query")
        (text,) = await EMBEDDER.embed([answer], role="document")
        mean = rows.sum(axis=0) / np.linalg.norm(rows.sum(axis=0))
        assert plain.breakdown.semantic is not None
        assert expanded.breakdown.semantic is not None
        assert plain.breakdown.semantic.score == pytest.approx(float(rows[0] @ text), abs=1e-5)
        assert expanded.breakdown.semantic.score == pytest.approx(float(mean @ text), abs=1e-5)

    @pytest.mark.parametrize("leg", ["text", "fuzzy"])
    @pytest.mark.parametrize(("question", "answer", "word"), ANSWERED)
    async def test_words(self, question: str, answer: str, word: str, leg: Leg) -> None:
        """A word that is typical of such answers adds a fifth of what it would score itself."""
        settings: dict[str, Any] = {"mode": "keyword", "scoring": {"w_text": 1.0}}
        plain, expanded = await self.asked(question, answer, **settings)
        alone, _ = await self.asked(word, answer, fuzzy={"threshold": 1.0}, **settings)
        gained = expanded.breakdown.legs()[leg].score - plain.breakdown.legs()[leg].score
        assert gained > 0
        assert gained == pytest.approx(0.2 * alone.breakdown.legs()["text"].score, rel=1e-4)

    @pytest.mark.parametrize("strategy", ["precomputed", "late"])
    async def test_trigrams_of_whole_texts(self, location: str, strategy: str) -> None:
        """Both texts are as like the words: 28 / 32. That with a month gets a fifth of the rest.

        The texts have "was" in between; "year" stands in the title alone, which is not compared.
        """
        with_month = "Stargate Atlantis was cancelled, in December they said."
        texts = {"a": "Stargate Atlantis was cancelled, and so they said.", "b": with_month}
        documents = [
            Document(id=name, title="Year", text=text, language="en")
            for name, text in texts.items()
        ]
        prefs = LOCAL.replace(mode="keyword", min_score=0, chunking={"strategy": strategy})
        async with base_of(*documents, location=location, embedder=EMBEDDER, prefs=prefs) as base:
            plain, expanded = [
                await base.retrieve(QUESTION, expansion={"answers": on}) for on in (False, True)
            ]
        assert plain.degraded == expanded.degraded == ()
        assert trigrams_of(plain) == pytest.approx({"a": 28 / 32, "b": 28 / 32})
        assert trigrams_of(expanded) == pytest.approx({"a": 28 / 32, "b": 28 / 32 + 0.2 * 4 / 32})
        assert expanded[0].document_id == "b"


async def test_keywords_of_documents_without_language(base: AsyncKnowledgeBase) -> None:
    """local-rag 5: stop words go before similar terms are looked for: "when" finds nothing."""
    await base.add(STOPS)
    found = await base.retrieve(QUESTION, mode="keyword", fuzzy={"over": "terms"}, min_score=0)
    assert {hit.document_id for hit in found} == {"series", "other"}
