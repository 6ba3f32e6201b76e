"""The server's own full-text search gives just what its functions give."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import DegradedError, QueryError
from lagotto.filters import And, Eq, Filter, Gte, Or
from lagotto.indexes.text_query import NativeFunction, NativeQuery, TextQuery
from lagotto.prefs import FtsMode, RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.stores.base import Store
from lagotto.stores.postgres import native as native_search
from lagotto.stores.postgres.native import config_of
from lagotto.stores.postgres.store import PostgresStore
from lagotto.terms.languages import NAMES
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import entry
from tests.stores.postgres.schemas import native_of, schema_of, sql

WHOLE = "document"

ENGLISH = ("Trained dogs", "the old oaks", "a truffle's smell", "found truffles", "in deep lakes")
RUSSIAN = (
    "обученные собаки",
    "старые дубы",
    "запах трюфелей",
    "нашли трюфель",
    "в глубоких озёрах",
)

QUERIES: tuple[tuple[FtsMode, str], ...] = (
    ("any", "Which dogs find a truffle in lakes?"),
    ("any", "собаки ищут трюфели"),
    ("any", r"it's C:\dogs 'oak & lake'"),
    ("any", "the of and"),
    ("web", "dogs truffles"),
    ("web", '"old oaks" -lakes'),
    ("web", "dogs or трюфель"),
    ("web", "-dogs"),
    ("web", '"'),
    ("plain", "truffles & dogs!"),
    ("plain", "собака в озере"),
    ("phrase", "found truffles"),
    ("phrase", "старый дуб"),
    ("strict", "dog & (oak | lake)"),
    ("strict", "!dog & truffle:*"),
    ("strict", "found <-> truffles | трюфель <2> дубы"),
    ("strict", "'old oaks' & !lakes:AB"),
)
FUNCTIONS: tuple[NativeFunction, ...] = ("ts_rank", "ts_rank_cd")
READERS = {
    "web": "websearch_to_tsquery",
    "plain": "plainto_tsquery",
    "phrase": "phraseto_tsquery",
    "strict": "to_tsquery",
}


def sentences(pieces: tuple[str, ...], language: str | None, start: int) -> list[Document]:
    """Documents that hold the pieces in several orders and numbers."""
    orders = [pair for pair in product(range(5), repeat=2) if pair[0] != pair[1]]
    return [
        Document(
            id=f"d{start + number:03}",
            language=language,
            metadata={"number": start + number},
            text=". ".join(pieces[place] for place in (*order, *order[: number % 3])),
        )
        for number, order in enumerate(orders)
    ]


DOCUMENTS = [
    *sentences(ENGLISH, "en", 0),
    *sentences(RUSSIAN, "ru-RU", 100),
    *sentences(ENGLISH, None, 200)[:4],
    Document(id="d300", language="ja", metadata={"number": 300}, text="dogs 東京 dogs"),
]


def expected(location: str, query: NativeQuery, where: str = "true") -> dict[str, float]:
    """What a plain query over whole documents says."""
    config = {"en": "english", "ru-RU": "russian"}
    found: dict[str, float] = {}
    with psycopg.connect(location) as connection:
        for language in ("en", "ru-RU", None, "ja"):
            name = Literal(config.get(language or "", "simple"))
            if query.mode == "any":
                words = SQL("replace(plainto_tsquery({}, %(text)s)::text, '&', '|')::tsquery")
            else:
                words = SQL(READERS[query.mode] + "({}, %(text)s)")
            statement = SQL(
                "SELECT id, {rank}(words, query) FROM (SELECT id, metadata, "
                "to_tsvector({config}, text) AS words, {query} AS query FROM document "
                "WHERE language IS NOT DISTINCT FROM %(language)s) AS each "
                "WHERE words @@ query AND {where}"
            ).format(
                rank=Identifier(query.function),
                config=name,
                query=words.format(name),
                where=SQL(where),
            )
            asked = {"text": query.text, "language": language}
            found.update(connection.execute(statement, asked, binary=True).fetchall())
    return found


async def ranked(store: Store, query: NativeQuery, where: Filter | None = None) -> dict[str, float]:
    """What the text leg says, best first."""
    async with store.view(where or And()) as view:
        await native_of(view).prepare(query)
        hits = await view.text(TextQuery((), native=query), k=1_000)
        passages = await view.passages(hits.keys)
        assert np.all(np.diff(hits.scores) <= 0)
        ties = np.diff(hits.keys)[np.diff(hits.scores) == 0]
        assert np.all(ties > 0)
        return {
            passage.document.id: score
            for passage, score in zip(passages, hits.scores.tolist(), strict=True)
        }


@pytest.fixture
async def filled(store: PostgresStore) -> PostgresStore:
    await store.write([await entry(document, chunker_id=WHOLE) for document in DOCUMENTS])
    return store


async def test_scores_are_those_of_the_server(filled: PostgresStore, location: str) -> None:
    matched = 0
    for (mode, text), function in product(QUERIES, FUNCTIONS):
        query = NativeQuery(text, mode, function)
        right = expected(location, query)
        assert await ranked(filled, query) == right, query
        matched += len(right)
    assert matched > 200


@pytest.mark.parametrize("where", [Gte("number", 12), Or(Eq("number", 3), Eq("number", 104))])
@pytest.mark.parametrize("few", [native_search.FEW, 0])
async def test_filters_are_exact(
    filled: PostgresStore,
    location: str,
    where: Filter,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_search, "FEW", few)
    number = "(metadata ->> 'number')::int"
    said = f"{number} >= 12" if isinstance(where, Gte) else f"{number} IN (3, 104)"
    for mode, text in QUERIES:
        query = NativeQuery(text, mode, "ts_rank_cd")
        assert await ranked(filled, query, where) == expected(location, query, said)


async def test_scores_of_given_chunks(filled: PostgresStore, location: str) -> None:
    query = NativeQuery("dogs oaks", "plain", "ts_rank")
    right = expected(location, query)
    async with filled.view(And()) as view:
        (vector,) = await HashEmbedder(dimension=32).embed(["dogs"], role="query")
        everything = await view.semantic(vector, k=1_000)
        await native_of(view).prepare(query)
        scores = await view.text_scores(TextQuery((), native=query), everything.keys)
        names = [passage.document.id for passage in await view.passages(everything.keys)]
    assert 0 < len(right) < len(DOCUMENTS) == len(names)
    assert dict(zip(names, scores.tolist(), strict=True)) == {
        name: right.get(name, 0.0) for name in names
    }


@pytest.mark.parametrize("config", ["en", "en-GB", "english"])
async def test_a_configuration_can_be_chosen(filled: PostgresStore, config: str) -> None:
    """Then the query is read by it alone, and compared with all documents."""
    found = await ranked(filled, NativeQuery("dogs", "web", "ts_rank", config))
    assert set(found) <= {item.id for item in DOCUMENTS if item.language == "en"}
    plain = await ranked(filled, NativeQuery("dogs", "web", "ts_rank", "simple"))
    assert "d300" in plain
    assert not plain.keys() & found.keys()


def test_languages_and_configurations() -> None:
    known = {"simple", "english", "norwegian", *NAMES.values()} - {"estonian"}
    names = ["en_US", "nb", "russian", "simple", None, "ja", "et", "estonian", "", "x'; --"]
    assert [config_of(name, known) for name in names] == [
        "english", "norwegian", "russian", "simple", "simple", "simple", "simple", "simple",
        "simple", "simple",
    ]  # fmt: skip


async def test_the_server_has_these_configurations(location: str) -> None:
    rows = sql(location, "SELECT cfgname FROM pg_ts_config")
    assert {name for (name,) in rows} == {"simple", *NAMES.values()}


async def test_later_writes_are_kept(filled: PostgresStore, location: str) -> None:
    query = NativeQuery("dogs truffles", "any", "ts_rank_cd")
    await ranked(filled, query)
    changed = Document(id="d000", language="en", text="Nothing of that kind.")
    added = Document(id="new", title="Dogs", language="en", text="They like truffles.")
    await filled.write([await entry(item, chunker_id=WHOLE) for item in (changed, added)])
    await filled.delete(Eq("number", 3))
    found = await ranked(filled, query)
    assert "d000" not in found
    assert "d003" not in found
    assert found.pop("new") > 0  # of its title too
    right = expected(location, query)
    right.pop("new")
    assert found == right
    assert {finding.level for finding in await filled.check()} == {"ok"}


async def test_other_rules_for_terms_index_it_again(filled: PostgresStore, location: str) -> None:
    query = NativeQuery("dogs", "any", "ts_rank")
    right = await ranked(filled, query)
    sql(location, "UPDATE setting SET value = 'older' WHERE name = 'text_rules'")
    sql(location, "UPDATE chunk_words SET words = ''")
    await filled.close()
    await filled.open()
    assert await ranked(filled, query) == right


async def test_a_check_finds_what_is_missing(filled: PostgresStore, location: str) -> None:
    query = NativeQuery("dogs", "any", "ts_rank")
    right = await ranked(filled, query)
    sql(location, "DELETE FROM chunk_words WHERE config = 'english'")
    (problem,) = [finding for finding in await filled.check() if finding.level != "ok"]
    assert (problem.level, problem.what.split()[0]) == ("problem", "20")
    assert problem.advice == "run `lagotto rebuild`"  # test_rebuild.py does
    sql(location, "DELETE FROM setting WHERE name = 'native_text'")
    assert await ranked(filled, query) == right
    assert {finding.level for finding in await filled.check()} == {"ok"}


@pytest.mark.usefixtures("filled")
async def test_a_base_that_nobody_asks_has_no_such_index(location: str) -> None:
    assert sql(location, "SELECT to_regclass('chunk_words')") == [(None,)]


async def test_searches_at_once_make_one_index(filled: PostgresStore) -> None:
    query = NativeQuery("dogs", "web", "ts_rank_cd")
    found = await asyncio.gather(*(ranked(filled, query) for _ in range(4)))
    assert found[0]
    assert all(some == found[0] for some in found)


async def test_a_search_that_is_called_off_leaves_the_index(filled: PostgresStore) -> None:
    task = asyncio.create_task(ranked(filled, NativeQuery("dogs", "web", "ts_rank_cd")))
    while filled._native._building is None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    making = filled._native._building
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "english" in await making


async def test_a_long_chunk_is_indexed_by_its_beginning(store: PostgresStore) -> None:
    query = NativeQuery("a1b2c3 zebra", "any", "ts_rank")
    await ranked(store, query)
    words = " ".join(f"a{number}b-c{number}d-{number}" for number in range(1, 16_000))
    long = Document(id="long", language="en", text=f"Zebra. {words} a1b2c3")
    await store.write([await entry(long, chunker_id=WHOLE)])
    assert list(await ranked(store, query)) == ["long"]
    assert await ranked(store, NativeQuery("a1b2c3", "any", "ts_rank")) == {}


@pytest.mark.parametrize("text", ["dog & ( oak", "dog oak", "dog &", "'dog", "dog:x"])
async def test_what_the_server_can_not_read(filled: PostgresStore, text: str) -> None:
    query = NativeQuery(text, "strict", "ts_rank_cd")
    for _ in range(2):  # the first time there is no index yet
        with pytest.raises(QueryError, match="tsquery"):
            await ranked(filled, query)


async def test_any_text_is_a_query(filled: PostgresStore) -> None:
    texts = ("", " ", "\0", "\ud800", "'; DROP TABLE chunk;", "x " * 100_000, "y" * 3_000)
    modes: tuple[FtsMode, ...] = ("any", "web", "plain", "phrase")
    for text, mode in product(texts, modes):
        assert await ranked(filled, NativeQuery(text, mode, "ts_rank_cd")) == {}
    with pytest.raises(QueryError):
        await ranked(filled, NativeQuery("(" * 9_000, "strict", "ts_rank_cd"))


class TestSearches:
    """Through the whole pipeline."""

    @pytest.fixture
    async def base(self, location: str) -> AsyncIterator[AsyncKnowledgeBase]:
        async with knowledge(location) as base:
            await base.add(*DOCUMENTS)
            yield base

    async def test_nothing_is_missing(self, base: AsyncKnowledgeBase, location: str) -> None:
        for text in ("dogs truffles", '"old oaks" -lakes', "трюфель"):
            found = await base.retrieve(text, chunking={"strategy": "precomputed"})
            assert found.degraded == ()
            legs = {hit.document_id: hit.breakdown.text for hit in found}
            right = expected(location, NativeQuery(text, "web", "ts_rank_cd"))
            assert right
            for name, leg in legs.items():
                assert (leg.score if leg and leg.rank else 0) == right.get(name, 0)

    async def test_bundles(self, base: AsyncKnowledgeBase) -> None:
        for strategy in ("late", "mixed", "precomputed"):
            chunking = {"strategy": strategy, "chunker_id": "recursive:32/0"}
            prefs = RetrievalPrefs.preset("aiblox", query_text="dogs", chunking=chunking)
            bundle = await base.retriever.search(RequestContext(), prefs)
            assert bundle.stats.degraded == ()
            assert bundle.candidates[0].rank_text == 1
            assert bundle.evidence

    async def test_late_chunks_are_compared_with_a_threshold_of_their_own(
        self, base: AsyncKnowledgeBase
    ) -> None:
        found = await base.retrieve(
            "dog truffles",
            chunking={"strategy": "late", "chunker_id": "recursive:32/0"},
            fts={"mode": "any"},
            fuzzy={"mode": "always", "over": "chunks", "threshold": 0.4},
            scoring={"w_fuzzy": 1.0, "fill": True},
            top_k=50,
        )
        legs = [hit.breakdown.legs() for hit in found]
        fuzzy = [leg["fuzzy"] for leg in legs]
        assert {leg.rank is not None for leg in fuzzy} == {True, False}
        assert all((leg.score >= 0.4) == (leg.rank is not None) for leg in fuzzy)
        assert all(leg["semantic"].rank for leg in legs)

    async def test_min_rank(self, base: AsyncKnowledgeBase, location: str) -> None:
        right = expected(location, NativeQuery("dogs", "web", "ts_rank_cd"))
        least = sorted(right.values())[-3]
        found = await base.retrieve("dogs", mode="keyword", fts={"min_rank": least}, top_k=50)
        assert {hit.document_id for hit in found} == {
            name for name, score in right.items() if score >= least
        }

    async def test_more_than_our_own_syntax(self, base: AsyncKnowledgeBase) -> None:
        strict: dict[str, Any] = {"mode": "strict"}
        found = await base.retrieve("found <2> oaks", mode="keyword", fts=strict)
        assert found == []
        found = await base.retrieve("found <4> oaks", mode="keyword", fts=strict)
        assert found
        assert all("found truffles. the old oaks" in hit.content for hit in found)

    async def test_a_wrong_query(self, base: AsyncKnowledgeBase) -> None:
        with pytest.raises(QueryError, match="not closed") as caught:
            await base.retrieve("dogs & ( oaks", fts={"mode": "strict"})
        assert caught.value.position == 7


def knowledge(location: str) -> AsyncKnowledgeBase:
    return AsyncKnowledgeBase(location, embedder=HashEmbedder(), chunker="document", prefs="aiblox")


async def test_one_who_may_only_read(location: str, visitor: str) -> None:
    """BM25 as long as there is no index, and the index as soon as somebody else has made it."""
    async with knowledge(location) as base:
        await base.add(*DOCUMENTS)
        sql(location, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema_of(location)} TO guest")
        async with knowledge(visitor) as guest:
            found = await guest.retrieve("dogs truffles")
            (note,) = found.degraded
            assert note.startswith("text: words are ranked by bm25, not by ts_rank_cd (")
            assert found[0].breakdown.text is not None
            with pytest.raises(DegradedError, match="ts_rank_cd"):
                await guest.retrieve("dogs truffles", strict=True)
            right = await base.retrieve("dogs truffles")
            found = await guest.retrieve("dogs truffles")
            assert found.degraded == ()
            assert [hit.breakdown for hit in found] == [hit.breakdown for hit in right]
