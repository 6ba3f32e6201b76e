"""The part of the contract of stores that is about what a full-text query may ask for.

Chunks of a few short words, conditions of any shape over them: what is found is what
`lagotto.indexes.text_query.holds` says.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lagotto.documents import Document, in_context
from lagotto.filters import And, Eq, matches
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
    holds,
    single_words,
)
from lagotto.stores.base import Store, View
from lagotto.stores.memory import MemoryStore
from lagotto.terms import index_terms
from lagotto.testing.store_samples import DOCUMENTS, EMBEDDER, entries

WORDS = ("a", "ab", "b", "b1", "ц", "цаб", "京")
ODD = ("", "A", "a b", 'a"', "a*", "a.", "(", "\\", "-b", "a\0", "\ud800", "NOT", "terms:a")
"""What can't be a term, and means something to some engine."""

EVERYTHING = 50

NO_WORD, A_WORD = (
    Document(id=name, text=f"{name}.", metadata={"even": True}) for name in ("-", "a")
)
"""Chunks with less than one term on average."""

terms = st.sampled_from(WORDS)
asked = st.sampled_from(WORDS * 2 + ODD)
several = st.lists(asked, max_size=3).map(tuple)
leaves: st.SearchStrategy[Match] = st.one_of(
    several.map(Word), asked.map(Prefix), st.lists(several, max_size=2).map(tuple).map(Phrase)
)


def combined(inner: st.SearchStrategy[Match]) -> st.SearchStrategy[Match]:
    """All, some or none of several conditions."""
    parts = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(parts.map(Every), parts.map(Either), inner.map(Without))


MATCHES: st.SearchStrategy[Match] = st.recursive(leaves, combined, max_leaves=6)
weighed = st.builds(Term, asked, st.sampled_from([0.5, 1.0, 2.0]))
ALTERNATIVES = st.lists(st.lists(weighed, max_size=2).map(tuple), max_size=3).map(tuple)
TEXTS = st.lists(terms, max_size=8).map(" ".join)


@st.composite
def corpora(draw: st.DrawFn) -> list[Document]:
    """Documents of a chunk each, every other one `even`."""
    texts = draw(st.lists(st.tuples(TEXTS, st.none() | terms), min_size=1, max_size=6))
    return [
        Document(id=str(number), text=f"{text}.", title=title, metadata={"even": number % 2 == 0})
        for number, (text, title) in enumerate(texts)
    ]


def terms_of(document: Document) -> list[str]:
    """The index terms of a document of one chunk."""
    return index_terms(in_context(document.title, document.text), document.language)


class TextQueryContract:
    """What `View` promises about words, conditions and exclusions."""

    score_tolerance = 1e-4
    """How far text scores may be from the oracle's, as a share of them."""

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        """An empty store, open."""
        raise NotImplementedError
        yield

    @settings(
        max_examples=30,
        deadline=None,
        suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
    )
    @given(
        corpora(),
        st.lists(st.tuples(ALTERNATIVES, st.none() | MATCHES), max_size=6),
        st.lists(MATCHES, max_size=3),
    )
    @example([NO_WORD, A_WORD], [(((Term("a", 0.5),),), None)], [])
    def test_conditions_mean_the_same_everywhere(
        self,
        documents: list[Document],
        queries: list[tuple[tuple[tuple[Term, ...], ...], Match | None]],
        excluded: list[Match],
    ) -> None:
        asyncio.run(
            self._check_conditions(documents, [TextQuery(*parts) for parts in queries], excluded)
        )

    async def _check_conditions(
        self, documents: list[Document], queries: list[TextQuery], excluded: list[Match]
    ) -> None:
        oracle = MemoryStore()
        async with self.make() as store:
            for each in (oracle, store):
                await each.write(await entries(documents))
            for where in (And(), Eq("even", True)):
                async with store.view(where) as ours, oracle.view(where) as right:
                    allowed = [item for item in documents if matches(where, item)]
                    for query in queries:
                        await self._check_query(ours, right, query, allowed)
                    for match in excluded:
                        rest = [item for item in allowed if not holds(match, terms_of(item))]
                        kept, right_kept = await ours.excluding(match), await right.excluding(match)
                        assert await _everything(kept) == {item.id for item in rest}
                        for query in queries:
                            await self._check_query(kept, right_kept, query, rest)

    async def _check_query(
        self, ours: View, oracle: View, query: TextQuery, allowed: Sequence[Document]
    ) -> None:
        """What is found, with which score, in which order, and what is filled in."""
        hits = await ours.text(query, k=EVERYTHING)
        found = await _names(ours, hits.keys)
        assert set(found) == {item.id for item in allowed if is_asked_for(query, terms_of(item))}
        right = await oracle.text(query, k=EVERYTHING)
        expected = dict(zip(await _names(oracle, right.keys), right.scores, strict=True))
        scores = np.array([expected[name] for name in found], np.float32)
        np.testing.assert_allclose(hits.scores, scores, rtol=self.score_tolerance)
        order = np.lexsort((hits.keys, -hits.scores))
        assert order.tolist() == list(range(len(hits)))
        for k in (1, 2):
            first = await ours.text(query, k=k)
            assert first.keys.tolist() == hits.keys[:k].tolist()
        await _check_fill(ours, query, hits)

    async def test_a_variant_scores_no_more_than_its_word(self) -> None:
        texts = ["tea pots", "tea pot", "tea pot", "tea pot", "tea", "tea"]
        documents = [Document(id=str(n), text=text, title="x") for n, text in enumerate(texts)]
        word = TextQuery(((Term("pots"), Term("pot")),))
        async with self.make() as store:
            await store.write(await entries(documents))
            async with store.view(And()) as view:
                hits = await view.text(word, k=EVERYTHING)
                plain = await view.text(TextQuery(((Term("pots"),),)), k=1)
        # Each holds the word once in 3 terms; 4 of 6 chunks hold it, and mean length is 16 / 6.
        expected = math.log(1 + 2.5 / 4.5) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / (16 / 6)))
        assert hits.scores.tolist() == pytest.approx([expected] * 4, rel=self.score_tolerance)
        assert plain.scores[0] > 2 * expected

    async def test_conditions_may_be_nested_deeply(self) -> None:
        match: Match = Word(("dog",))
        for _ in range(40):
            match = Without(Either((Every((Prefix("x"), Word(("nobody",)))), Without(match))))
        async with self.make() as store:
            await store.write(await entries())
            async with store.view(And()) as view:
                found = await view.text(TextQuery((), match), k=EVERYTHING)
                assert set(await _names(view, found.keys)) == {"dog", "truffle"}

    async def test_rarities_are_exact(self) -> None:
        oracle = MemoryStore()
        terms = ["dog", "truffl", "a", "nowhere", "", "озер", "\ud800"]
        asked = [*single_words(terms), Word(("dog", "озер")), Word(("dog", "nowhere")), Word(())]
        async with self.make() as store:
            for each in (oracle, store):
                await each.write(await entries())
                await each.delete(Eq("document_id", "truffle"))
            for where in (And(), Eq("document_id", "ru")):
                async with store.view(where) as ours, oracle.view(where) as right:
                    assert list(await ours.idf(asked)) == list(await right.idf(asked))
                    assert (await ours.idf([])).shape == (0,)

    async def test_an_empty_store_has_no_conditions_to_meet(self) -> None:
        async with self.make() as store, store.view(And()) as view:
            nothing = await view.excluding(Word(("a",)))
            assert len(await nothing.text(TextQuery((), Every(())), k=5)) == 0
            assert np.isfinite(await view.idf([Word(("a",))])).all()

    async def test_a_view_without_something_leaves_the_first_one_as_it_is(self) -> None:
        async with self.make() as store:
            await store.write(await entries())
            async with store.view(And()) as view:
                everything = await _everything(view)
                less = await view.excluding(Word(("dog",)))
                least = await less.excluding(Word(("connect",)))
                assert await _everything(less) == everything - {"dog", "truffle"}
                assert await _everything(least) == everything - {"dog", "truffle", "code"}
                assert await _everything(view) == everything

    async def test_sources_come_whole(self) -> None:
        names = [(item.collection, item.id) for item in reversed(DOCUMENTS)]
        async with self.make() as store:
            await store.write(await entries())
            async with store.view(Eq("document_id", "ru")) as view:
                asked = [names[0], ("default", "nobody"), *names[1:], ("'", '"')]
                assert await view.sources(asked) == list(reversed(DOCUMENTS))
                assert await view.sources([]) == []


def is_asked_for(query: TextQuery, terms: Sequence[str]) -> bool:
    """Whether a chunk with these terms is found."""
    if query.where is not None:
        return holds(query.where, terms)
    return any(term.text in terms for word in query.words for term in word)


async def _check_fill(view: View, query: TextQuery, hits: Hits) -> None:
    """Scores that are filled in are those that a search gives, and 0 for what it does not find."""
    everything = await _keys(view)
    found = dict(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True))
    filled = await view.text_scores(query, everything)
    expected = [found.get(key, 0.0) for key in everything.tolist()]
    assert filled.tolist() == pytest.approx(expected, rel=1e-5)


async def _keys(view: View) -> ChunkKeys:
    (vector,) = await EMBEDDER.embed(["any"], role="query")
    return (await view.semantic(vector, k=EVERYTHING)).keys


async def _everything(view: View) -> set[str]:
    return set(await _names(view, await _keys(view)))


async def _names(view: View, keys: ChunkKeys) -> list[str]:
    passages = await view.passages(keys)
    assert len(passages) == len(keys)
    return [item.document.id for item in passages]
