"""Recall: from a question to the query of each leg, and the legs asked for candidates.

Every leg scores every candidate exactly, whichever leg found it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector
from lagotto.embedders import Embedder
from lagotto.errors import ConfigError, EmbeddingError, ModelMismatchError, QueryError, StoreError
from lagotto.filters import FilterHint
from lagotto.indexes import text_query
from lagotto.indexes.base import NO_HITS, ChunkKeys, Hits, top_k, union
from lagotto.indexes.text_query import Match, NativeQuery, Phrase, Term, TextQuery
from lagotto.prefs import Distance, QueryType, RetrievalPrefs, ScoringPrefs, SearchRequest
from lagotto.results import LEGS, Leg
from lagotto.retrieval.explain import Diagnostics
from lagotto.retrieval.fusion import Candidates, LegScores, Scores
from lagotto.retrieval.query.expansion import (
    NEAR_ANSWER_WEIGHT,
    Expansion,
    answer_patterns,
    answer_words,
    declarative,
)
from lagotto.retrieval.query.syntax import ParsedQuery, parse_query, weighed, with_synonyms
from lagotto.retrieval.query.types import classify, identifiers, quotations
from lagotto.stores.base import MOST_LANGUAGES, Capabilities, HybridQuery, Scale, View
from lagotto.terms import QueryTerm, compounds, content_terms, query_language, query_terms
from lagotto.terms.languages import (
    UNSTEMMED,
    alphabet_share,
    foreign_language,
    is_language,
    language_named,
    language_of,
)
from lagotto.terms.vocabulary import word_similarity
from lagotto.terms.words import words

Item = TypeVar("Item")
Answer = TypeVar("Answer")

UNFAMILIAR = 0.1
"""The factor of the semantic leg's weight where the embedder can't read the query."""

KNOWN_LETTERS = 0.5
STRANGE, STRANGE_SHARE = 3, 1 / 3
"""An embedder reads a query of its language if at least half of the letters are of alphabets that
it knows, and no more than a third of the content words are strange to it: cut into that many
tokens. Of `Ivermectin is used to treat onchocerciasis` its vector says little: on 400 training
queries of SciFact the rule gains .0009 nDCG@10 [.0000, +.0027], on SQuAD and HotpotQA 0."""

MENTIONING: tuple[QueryType, ...] = ("question", "description")
"""Types of queries that may mention a name or title without asking for what holds it."""

ADDED_WEIGHT = 0.3
"""The weight of a word that only an expansion has, beside one of the query."""


MOST_PARTS = 4
"""The number of quotations and identifiers of a query that are looked up."""

RARE = 20
"""An identifier that more passages hold is a plain word; a quotation always counts."""

DECISIVE = 3
"""An identifier that no more passages hold says which passage is meant, whatever else is asked."""


async def of_each(
    view: View, ask: Callable[[Item], Coroutine[Any, Any, Answer]], items: Iterable[Item]
) -> list[Answer]:
    """The answer of a view for each item, side by side where one by one does not cost less."""
    if view.immediate:
        return [await ask(item) for item in items]
    return list(await asyncio.gather(*map(ask, items)))


@dataclass(frozen=True, slots=True)
class SemanticQuery:
    """A vector of length 1, and the scale of its scores, on which the greater is the nearer.

    That is the cosine, the inner product with the caller's own vector, of this `length`, or
    1 / (1 + l2). Stored vectors have the length 1, so the order is the same on every scale.
    """

    vector: Vector
    length: float = 1.0
    distance: Distance = "cosine"

    async def search(self, view: View, *, k: int) -> Hits:
        hits = await view.semantic(self.vector, k=k)
        return Hits(hits.keys, self.scaled(hits.scores).astype(np.float32))

    async def scores(self, view: View, keys: ChunkKeys) -> Scores:
        return self.scaled(await view.semantic_scores(self.vector, keys))

    def scaled(self, cosines: NDArray[np.floating]) -> Scores:
        scores = cosines.astype(np.float64)
        if self.distance == "cosine":
            return scores
        if self.distance == "ip":
            return scores * self.length
        squared = np.maximum(self.length**2 + 1 - 2 * self.length * scores, 0)
        return 1 / (1 + np.sqrt(squared))


@dataclass(frozen=True, slots=True)
class ExactQuery:
    """Wordings to search for verbatim; a passage scores the share of them that it holds.

    Each comes with all passages that hold it, None if there are more than a few. Whether they are
    `mentioned` in a question that asks for something else, or are themselves what is asked for,
    decides how far they boost the passages that hold them. `decisive` are the passages that hold an
    identifier which hardly any other holds.
    """

    wordings: tuple[tuple[TextQuery, ChunkKeys | None], ...]
    mentioned: bool = False
    decisive: ChunkKeys | None = None

    async def search(self, view: View, *, k: int) -> Hits:
        async def holders(wording: tuple[TextQuery, ChunkKeys | None]) -> ChunkKeys:
            query, few = wording
            return (await view.text(query, k=k)).keys if few is None else few

        lists = await of_each(view, holders, self.wordings)
        keys, counts = np.unique(np.concatenate(lists), return_counts=True)
        scores = (counts / len(self.wordings)).astype(np.float32)
        return top_k(keys, scores, k)

    async def scores(self, view: View, keys: ChunkKeys) -> Scores:
        async def are_holders(wording: tuple[TextQuery, ChunkKeys | None]) -> NDArray[np.bool_]:
            query, few = wording
            return await view.text_scores(query, keys) > 0 if few is None else np.isin(keys, few)

        shares: Scores = np.mean(await of_each(view, are_holders, self.wordings), axis=0)
        return shares

    def score_of(self, text: str, terms: Sequence[str]) -> float:
        wheres = [query.where for query, _ in self.wordings]
        held = [where is not None and text_query.holds(where, terms) for where in wheres]
        return sum(held) / len(held)


async def exact_query(
    view: View, quoted: Sequence[Phrase], identifiers: Sequence[Phrase], *, mentioned: bool
) -> ExactQuery | None:
    """The query for those wordings that occur at all; None if none does.

    A wording that nothing holds would only make the scores of the others smaller. Each is scored
    by its words, of which the best alternative counts.
    """
    queries = []
    for phrase in (*quoted, *identifiers)[:MOST_PARTS]:
        columns = zip_longest(*phrase.variants)
        words = (dict.fromkeys(term for term in column if term) for column in columns)
        queries.append(TextQuery(tuple(tuple(map(Term, word)) for word in words), where=phrase))
    if not queries:
        return None
    hit_lists = await of_each(view, lambda part: view.text(part, k=RARE + 1), queries)
    wordings = [
        (part, hits.keys if len(hits) <= RARE else None)
        for index, (part, hits) in enumerate(zip(queries, hit_lists, strict=True))
        if len(hits) and (index < len(quoted) or len(hits) <= RARE)
    ]
    few = [hits.keys for hits in hit_lists[len(quoted) :] if 0 < len(hits) <= DECISIVE]
    decisive = np.concatenate(few) if few else None
    return ExactQuery(tuple(wordings), mentioned, decisive) if wordings else None


@dataclass(frozen=True, slots=True)
class TrigramTextQuery:
    """Words, compared together, and the least similarity of a text that is found, on a server.

    `near` are words that stand near answers: a text with one of them is a better one.
    """

    words: str
    threshold: float
    near: tuple[str, ...] = ()

    async def search(self, view: View, *, k: int) -> Hits:
        assert view.native is not None
        return await view.native.search_texts(
            self.words, threshold=self.threshold, k=k, near=self.near, bonus=NEAR_ANSWER_WEIGHT
        )

    async def scores(self, view: View, keys: ChunkKeys) -> Scores:
        assert view.native is not None
        scores = await view.native.text_scores(
            self.words, keys, near=self.near, bonus=NEAR_ANSWER_WEIGHT
        )
        return scores.astype(np.float64)

    def score_of(self, text: str, terms: Sequence[str]) -> float:
        alike = word_similarity(self.words, text)
        has_one = not set(words(text)).isdisjoint(self.near)
        return alike + NEAR_ANSWER_WEIGHT * (1 - alike) * has_one


LegQuery = SemanticQuery | TextQuery | TrigramTextQuery | ExactQuery


async def scores_of(query: LegQuery, view: View, keys: ChunkKeys) -> Scores:
    """The exact score of each of `keys` in a leg."""
    if isinstance(query, TextQuery):
        return (await view.text_scores(query, keys)).astype(np.float64)
    return await query.scores(view, keys)


@dataclass(slots=True)
class LegQueries:
    """The query of each leg; a leg that is None does not run.

    `fuzzy` is the full-text query with misspelt words replaced by what they may mean, or the words
    for whole texts; `misspelt` is how much of it was replaced, from 0 to 1.
    """

    semantic: SemanticQuery | None = None
    text: TextQuery | None = None
    fuzzy: TextQuery | TrigramTextQuery | None = None
    exact: ExactQuery | None = None
    misspelt: float = 0.0

    def active(self) -> dict[Leg, LegQuery]:
        return {leg: query for leg in LEGS if (query := getattr(self, leg)) is not None}


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query's type, the query and weight of each leg, and what no result may hold.

    `damping` are factors of the weights, which depend on what the legs find; `reads` is whether
    the embedder knows the language of the query.
    """

    type: QueryType
    legs: LegQueries
    weights: Mapping[Leg, float]
    excluded: Match | None = None
    damping: Mapping[Leg, float] = field(default_factory=dict)
    reads: bool = False

    def with_given_weights(self, scoring: ScoringPrefs) -> QueryPlan:
        """The plan with weights in proportion to those given, whatever fusion makes of these."""
        raw, counted = scoring.weights(self.type, as_given=True), scoring.weights(self.type)
        weights = {
            leg: weight * raw[leg] / counted[leg] if counted[leg] else weight
            for leg, weight in self.weights.items()
        }
        return replace(self, weights=weights)


@dataclass(eq=False)
class QueryPlanner:
    """Plans one query for one view."""

    view: View
    request: SearchRequest
    embedder: Embedder
    capabilities: Capabilities
    diagnostics: Diagnostics
    expansion: Expansion | None = None

    def __post_init__(self) -> None:
        self._prefs = prefs = self.request.preferences
        view, can, diagnostics = self.view, self.capabilities, self.diagnostics
        for leg, why in view.degraded:
            diagnostics.note(leg, why)
        for problem in view.filter_notes:
            diagnostics.note("filter", problem, is_hint=isinstance(problem, FilterHint))
        config = prefs.fts.config if prefs.mode != "semantic" else None
        self._languages = query_languages(config, view.languages, diagnostics)
        self._native = native_query(prefs, can, self._languages)
        if config is not None and not is_language(config) and self._native is None:
            # Only a server that ranks knows other configurations.
            raise ConfigError(
                f"fts.config: {config!r} is no language; name one as english or en, or {UNSTEMMED} "
                "for none. A text search configuration of a PostgreSQL server is for bases on that "
                f"server, with fts.rank_func ts_rank or ts_rank_cd (it is {prefs.fts.rank_func})"
            )
        self._parsed, self._refused = self._read()
        self._related: tuple[tuple[Term, ...], ...] = ()
        self._synonyms: dict[str, tuple[str, ...]] = {}
        collection = prefs.collection or self.request.context.collection
        for name, synonyms in view.synonyms.items() if prefs.mode != "semantic" else ():
            if collection in (None, name):
                self._synonyms |= synonyms.find(self._parsed.text, self._languages)
        if self._synonyms:
            diagnostics.synonyms = self._synonyms
            count = len(self._parsed.words)
            self._parsed = with_synonyms(self._parsed, self._synonyms, self._languages)
            self._related = self._parsed.words[count:]
        # Operators and what the query rejects mean nothing to an embedder.
        self._query = self._parsed.text if self._parsed.has_text else prefs.query_text
        self._type = classify(self._query, self._languages).type
        self._weights = prefs.scoring.weights(self._type)
        self._semantic, self._text = self._sides()
        self._answers = prefs.expansion.answers
        known = [tag for tag in view.languages if tag]
        all_known = known and len(known) != MOST_LANGUAGES and None not in view.languages
        if all_known and (foreign := foreign_language(self._query, known)):
            documents = f"documents are in {', '.join(known)}"
            problem = f"it seems to be {foreign}, and {documents}"
            diagnostics.note("query", problem, is_hint=True)

    def _read(self) -> tuple[ParsedQuery, QueryError | None]:
        """The query by our own syntax, or its words and the error where a server may know more."""
        query, fts, languages = self._prefs.query_text, self._prefs.fts, self._languages
        scored = self._prefs.mode != "semantic" or not self.capabilities.semantic
        try:
            return parse_query(query, fts.mode, languages, scored=scored), None
        except QueryError as exc:
            if self._native is None:
                raise
            return parse_query(_OPERATORS.sub(" ", query), "any", languages), exc

    def _sides(self) -> tuple[bool, bool]:
        """Whether the semantic and the word legs run: as asked for, as far as the store can."""
        mode, weights, can = self._prefs.mode, self._weights, self.capabilities
        note = self.diagnostics.note
        semantic = mode != "keyword" and weights["semantic"] > 0
        text = mode != "semantic" and any(weights[leg] > 0 for leg in ("text", "fuzzy", "exact"))
        if text and not can.text:
            note("text", "this store has no full-text index; only vectors count")
            return can.semantic, False
        if semantic and not can.semantic:
            note("semantic", "this store has no vectors; only words count")
            return False, can.text
        if text and self._prefs.fts.rank_func not in can.rank_functions:
            ranked = f"words are ranked by {can.rank_functions[0]} in this store"
            note("text", f"{ranked}, not by {self._prefs.fts.rank_func}")
        return semantic, text

    async def plan(self) -> QueryPlan:
        legs = LegQueries()
        if self._text and self._weights["text"]:
            words = self._parsed.words + self._added()
            if self._answers:
                words += answer_patterns(self._query, self._languages)
            legs.text = TextQuery(words, self._parsed.where, await self._served())
        if self._text and self.capabilities.fuzzy and self._weights["fuzzy"]:
            await self._fuzzy(legs)
        if self._text and self._prefs.fts.mode == "any" and self._weights["exact"]:
            legs.exact = await exact_query(
                self.view,
                quotations(self._query, self._languages),
                identifiers(self._query, self._languages),
                mentioned=self._type in MENTIONING,
            )
        if self._semantic:
            await self._meaning(legs)
        excluded = self._parsed.excluded if self.capabilities.text else None
        reads = self._text and self._reads
        return QueryPlan(self._type, legs, self._adapted(legs), excluded, reads=reads)

    def _added(self) -> tuple[tuple[Term, ...], ...]:
        """The words that only the expansion has, with less weight."""
        if (expansion := self.expansion) is None:
            return ()
        present = {term.text for word in self._parsed.words for term in word}
        words = content_words(" ".join((*expansion.queries, *expansion.passages)), self._languages)
        return expansion.terms + tuple(
            tuple(Term(variant, ADDED_WEIGHT) for variant in word.variants)
            for word in words
            if present.isdisjoint(word.variants)
        )

    async def _served(self) -> NativeQuery | None:
        """The query, once the server is ready for it; None, and a note, if it can't be.

        A query that the server refuses as well is a QueryError: our own, which says where.
        """
        if self._native is None or self.view.native is None:
            return None
        try:
            await self.view.native.prepare(self._native)
        except (QueryError, StoreError) as exc:
            if self._refused is not None:
                raise self._refused from exc
            if isinstance(exc, QueryError):
                raise
            note = f"words are ranked by bm25, not by {self._native.function} ({exc})"
            self.diagnostics.note("text", note, cause=exc)
            return None
        return self._native

    async def _fuzzy(self, legs: LegQueries) -> None:
        mode, words = self._prefs.fuzzy.mode, self._content
        if mode == "off" or not words:
            return
        if mode == "always":
            legs.fuzzy = await self._similar(words)
            return
        # What the embedder has whole, or has synonyms, is a word, even if no document holds it.
        meant, pieces = self._meant, zip(words, self._pieces, strict=True)
        doubtful = [word for word, count in pieces if count > 1 and word.variants[0] not in meant]
        corrections = await self.view.corrections([word.variants[0] for word in doubtful])
        pairs = zip(doubtful, corrections, strict=True)
        corrected = {word: terms for word, terms in pairs if terms}
        if not corrected:
            return
        certainty = sum(max(term.weight for term in terms) for terms in corrected.values())
        legs.misspelt = certainty / len(words)
        self.diagnostics.corrections |= {
            word.word: tuple(term.text for term in terms) for word, terms in corrected.items()
        }
        query_words = [
            corrected.get(word) or meant.get(word.variants[0]) or weighed(word.variants, word.count)
            for word in words
        ]
        query_words += self._related
        names = Counter(compounds(self._query)).items()  # in the spelling of the query
        query = TextQuery((*query_words, *(weighed((name,), times) for name, times in names)))
        legs.fuzzy = self._conditioned(query, corrected)

    @cached_property
    def _meant(self) -> dict[str, tuple[Term, ...]]:
        """Words of the query that are no misspellings, for they have synonyms; with these."""
        if not self._synonyms:
            return {}
        spelt = {
            word.variants[0]
            for name in self._synonyms
            for word in query_terms(name, self._languages)
        }
        return {word[0].text: word for word in self._parsed.words if word[0].text in spelt}

    async def _similar(self, words: Sequence[QueryTerm]) -> TextQuery | TrigramTextQuery:
        """The words compared with whole texts, or with the index terms."""
        fuzzy, syntax, native = self._prefs.fuzzy, self._prefs.fts.mode, self.view.native
        if fuzzy.over == "chunks":
            if syntax != "any":
                problem = f"whole texts can't be compared under the conditions of fts.mode {syntax}"
            elif native is None:
                problem = "this store can't compare words with whole texts"
            elif not await native.comparable():
                problem = "there is too much text to compare all of it"
            else:
                near = answer_words(self._query) if self._answers else ()
                plain = " ".join(word.word for word in words)
                return TrigramTextQuery(plain, fuzzy.threshold, near)
            self.diagnostics.note("fuzzy", f"{problem}; words are compared with index terms")
        roots = [word.variants[0] for word in words]
        matches = await self.view.similar(roots, threshold=fuzzy.threshold)
        similar = {word: terms for word, terms in zip(words, matches, strict=True) if terms}
        added = answer_patterns(self._query, self._languages) if self._answers else ()
        return self._conditioned(TextQuery((*similar.values(), *added)), similar)

    def _conditioned(
        self, query: TextQuery, alternatives: Mapping[QueryTerm, tuple[Term, ...]]
    ) -> TextQuery:
        """The query under the condition of its syntax, with the terms found for its words."""
        if self._parsed.where is None:
            return query
        texts = {
            variant: [term.text for term in terms]
            for word, terms in alternatives.items()
            for variant in word.variants
        }
        return replace(query, where=text_query.substituted(self._parsed.where, texts))

    async def _meaning(self, legs: LegQueries) -> None:
        if not self._prefs.vector.embed_query and self.request.vector is None:
            raise ConfigError("vector.embed_query is off; pass the query's vector as query_vector=")
        try:
            vector = await self._embedded()
        except EmbeddingError as exc:
            if not self._text:
                raise
            note = f"the query could not be embedded, only words count ({exc})"
            self.diagnostics.note("semantic", note, cause=exc)
        else:
            unit, length = _unit(vector, self.embedder.info.dimension)
            legs.semantic = SemanticQuery(unit, length, self._prefs.vector.distance)

    async def _embedded(self) -> Vector:
        """The query's vector; with an expansion the mean of the vectors of all its texts.

        A vector that was passed stands for the query itself.
        """
        vector, expansion = self.request.vector, self.expansion
        if vector is not None and not (expansion and self._prefs.vector.embed_query):
            return vector
        queries = [self._query] if vector is None else []
        queries += expansion.queries if expansion else ()
        if vector is None and self._answers:
            queries += filter(None, [declarative(self._query)])
        rows = [] if vector is None else [_unit(vector, self.embedder.info.dimension)[0]]
        if queries:
            rows += list(await self.embedder.embed(queries, role="query"))
        if expansion and expansion.passages:
            rows += list(await self.embedder.embed(list(expansion.passages), role="document"))
        if len(rows) == 1:
            return rows[0] if vector is None else vector
        mean: Vector = np.mean(rows, axis=0)
        return mean / np.linalg.norm(mean)

    @property
    def _reads(self) -> bool:
        info = self.embedder.info
        language = language_of(query_language(self._query, self._languages))
        if info.languages and language not in info.languages:
            return False
        strange = sum(count >= STRANGE for count in self._pieces)
        letters = alphabet_share(self._query, info.alphabets)
        return letters >= KNOWN_LETTERS and strange <= STRANGE_SHARE * len(self._pieces)

    @cached_property
    def _pieces(self) -> list[int]:
        return self.embedder.tokenizer.count([word.word for word in self._content])

    @cached_property
    def _content(self) -> list[QueryTerm]:
        return content_words(self._query, self._languages)

    def _adapted(self, legs: LegQueries) -> Mapping[Leg, float]:
        """The weights as asked for, reduced for a leg that this query does not suit.

        Vectors say little of an alphabet that the embedder never learned. Where words are
        misspelt, the fuzzy leg stands in for the text leg, whose words it has too, and counts for
        more the more of them there are: a vector of misspelt words says little as well.
        """
        weights = dict(self._weights)
        if self._prefs.scoring.adapt:
            known = alphabet_share(self._query, self.embedder.info.alphabets)
            weights["semantic"] *= max(known, UNFAMILIAR)
            if legs.misspelt:
                weights["text"] = 0.0
                weights["fuzzy"] *= 1 + legs.misspelt
        if legs.exact and self._prefs.scoring.w_exact is None:
            others = [leg for leg in legs.active() if leg != "exact"]
            weights["exact"] = sum(weights[leg] for leg in others) or 1.0
        return weights


def content_words(query: str, languages: Sequence[str | None]) -> list[QueryTerm]:
    """The content words of `query`, with their stems in `languages`."""
    return content_terms(query_terms(query, languages))


def _unit(vector: Vector, dimension: int) -> tuple[Vector, float]:
    """A caller's vector scaled to the norm 1, and the norm that it had."""
    values = np.asarray(vector, dtype=np.float32)
    if values.shape != (dimension,):
        raise ModelMismatchError(
            f"the query vector has the shape {values.shape}, but the vectors of this base have the "
            f"dimension {dimension}; embed the query with the base's model"
        )
    length = float(np.linalg.norm(values))
    if not np.isfinite(length) or length == 0:
        raise ConfigError(
            f"the norm of the query vector is {length}; pass a vector with a finite norm above 0"
        )
    return (values if abs(length - 1) < 1e-6 else values / np.float32(length)), length


def query_languages(
    config: str | None, languages: Sequence[str | None], notes: Diagnostics
) -> Sequence[str | None]:
    """The languages in which a query is stemmed: the one asked for, or those of the base.

    `languages` are those that documents are indexed in. Words stemmed in another one would match
    none of them, so that is noted, and the base's own are taken.
    """
    if config is None or not is_language(config):
        return languages
    wanted = language_named(config)
    known = [tag for tag in languages if tag]
    indexed = known or languages  # documents of unknown language are indexed as the first one
    if not indexed or wanted in map(language_of, indexed):
        return [wanted]
    named = ", ".join(tag or UNSTEMMED for tag in indexed)
    notes.note("text", f"no document is indexed as {config}, the fts.config; as {named} instead")
    return languages


_OPERATORS = re.compile(r"<(?:-|\d+)>|:[A-Da-d*]+|[&|!()'\"\\]")


def native_query(
    prefs: RetrievalPrefs, can: Capabilities, languages: Sequence[str | None]
) -> NativeQuery | None:
    """The query for the server, None if BM25 ranks."""
    fts = prefs.fts
    if fts.rank_func == "bm25" or fts.rank_func not in can.rank_functions:
        return None
    served = fts.config is not None and (
        not is_language(fts.config) or list(languages) == [language_named(fts.config)]
    )
    return NativeQuery(prefs.query_text, fts.mode, fts.rank_func, fts.config if served else None)


BOOSTED_RANK = 3
"""The rank to which a wording that is merely mentioned boosts the best passage that holds it."""

AHEAD = 1e-6
"""How far the score of a passage that is boosted to the first rank is above that of the others."""


def boost(
    candidates: Candidates, weights: Mapping[Leg, float], rest: Scores, exact: ExactQuery
) -> tuple[Candidates, float]:
    """The exact leg, and just the weight that boosts the best holder to its rank.

    That is the first if it holds an identifier that hardly any other passage holds, else
    `BOOSTED_RANK`. `rest` are the scores without that leg. Where a holder has that rank already,
    the leg has no weight and nothing changes; else only the best one gets anything: what it lacks.
    """
    leg = candidates.legs["exact"]
    holders, wanted_rank = holders_of(candidates, exact)
    best = rest[holders].max()
    others = sum(weights[name] for name in candidates.legs if name != "exact")
    if wanted_rank == 1:
        wanted = rest[~holders].max(initial=0.0) + AHEAD
    else:
        wanted = np.sort(rest)[-min(wanted_rank, len(rest))]
    chosen = holders & (rest == best)
    boosted = LegScores(chosen.astype(np.float64), np.where(chosen, leg.ranks, 0))
    legs = {**candidates.legs, "exact": boosted}
    lacking = max(0.0, float(wanted - best)) * others
    return replace(candidates, legs=legs), lacking


def holders_of(candidates: Candidates, exact: ExactQuery) -> tuple[NDArray[np.bool_], int]:
    """Which candidates a mentioned wording boosts the best of, and to which rank."""
    holders = candidates.legs["exact"].scores > 0
    if exact.decisive is not None:
        decisive = holders & np.isin(candidates.keys, exact.decisive)
        if decisive.any():
            return decisive, 1
    return holders, BOOSTED_RANK


def listed(hits: Hits, keys: ChunkKeys, *, rest: NDArray[np.float32] | None = None) -> LegScores:
    """A leg's scores and ranks for all of `keys`: its own list, and `rest` for the others.

    A score that is not known is NaN.
    """
    scores = np.full(len(keys), np.nan) if rest is None else rest.astype(np.float64)
    ranks = np.zeros(len(keys), np.int64)
    rows = np.searchsorted(keys, hits.keys)
    scores[rows] = hits.scores
    # Equal scores have equal ranks: their order in the list is that in which they came in.
    ranks[rows] = 1 + np.searchsorted(-hits.scores, -hits.scores)
    return LegScores(scores, ranks)


@dataclass(slots=True)
class Recall:
    """One query's legs on one view; with the `weights` of fusion they may become a single query.

    `floor` is the cosine of unrelated texts, `passages` how many are to be read, None for all.
    """

    view: View
    legs: LegQueries
    prefs: RetrievalPrefs
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    weights: Mapping[Leg, float] | None = None
    floor: float = 0.0
    passages: int | None = None

    async def candidates(self, *, depth: int) -> Candidates:
        """The best `depth` chunks of each leg, with the score of every leg for each of them.

        A leg that fails is noted and left out, unless it was the only one.
        """
        with self.diagnostics.stage("recall"):
            if (both := await self._single_query(depth)) is not None:
                return both
            fill, queries = self.prefs.scoring.fill, self.legs.active()
            semantic = self.legs.semantic if fill and self.view.native is not None else None
            outcomes: dict[Leg, Hits | StoreError] = dict.fromkeys(queries, NO_HITS)
            if semantic is None and not self.view.immediate:
                searches = (self._search(query, depth) for query in queries.values())
                outcomes = dict(zip(queries, await asyncio.gather(*searches), strict=True))
            else:
                for leg, query in queries.items():
                    if query is not semantic:
                        outcomes[leg] = await self._search(query, depth)
            cosines: Hits | None = None
            if semantic is not None:
                # On one connection legs come one after another. With the words first, the server is
                # asked for their cosines together with the nearest vectors: a round trip less.
                keys = union([hits.keys for hits in outcomes.values() if isinstance(hits, Hits)])
                outcomes["semantic"], scores = await asyncio.gather(
                    self._search(semantic, depth), self.view.semantic_scores(semantic.vector, keys)
                )
                cosines = Hits(keys, scores)
            lists = self._usable(outcomes)
            keys = union([hits.keys for hits in lists.values()])
            legs = {leg: listed(hits, keys) for leg, hits in lists.items()}
            if fill:
                await of_each(
                    self.view, lambda leg: self._fill(queries[leg], legs[leg], keys, cosines), legs
                )
            return Candidates(keys, legs, depth)

    async def _single_query(self, depth: int) -> Candidates | None:
        """Both legs in one query, None if they have to be asked one by one.

        That is so unless there are no others, the store can do so, and the scale of a score can be
        computed for each by itself.
        """
        native, legs, prefs, scoring = self.view.native, self.legs, self.prefs, self.prefs.scoring
        semantic, text = legs.semantic, legs.text
        if native is None or self.weights is None or legs.active().keys() != {"semantic", "text"}:
            return None
        weights = self.weights["semantic"], self.weights["text"]
        scale = "rrf" if scoring.blend == "rrf" else scoring.normalize
        if semantic is None or text is None or min(weights) <= 0 or scale not in get_args(Scale):
            return None
        if semantic.distance != "cosine" or prefs.strategy == "legs":
            return None
        query = HybridQuery(
            vector=semantic.vector,
            text=text,
            depth=depth,
            fill=scoring.fill,
            least=(prefs.vector.min_score, prefs.fts.min_rank),
            scale=cast("Scale", scale),
            weights=weights,
            rrf_k=scoring.rrf_k,
            floor=self.floor,
            passages=2 * depth if self.passages is None else self.passages,
            anyway=prefs.strategy == "statement",
        )
        if (hits := await native.hybrid(query)) is None:
            return None
        both: dict[Leg, LegScores] = {
            "semantic": listed(hits.semantic, hits.keys, rest=hits.semantic_scores),
            "text": listed(hits.text, hits.keys, rest=hits.text_scores),
        }
        return Candidates(hits.keys, both, depth)

    def _usable(self, outcomes: Mapping[Leg, Hits | StoreError]) -> dict[Leg, Hits]:
        """What the legs found that did not fail, without hits below their thresholds."""
        least = least_scores(self.prefs)
        failed = [outcome for outcome in outcomes.values() if isinstance(outcome, StoreError)]
        if failed and len(failed) == len(outcomes):
            raise failed[0]
        usable: dict[Leg, Hits] = {}
        for leg, outcome in outcomes.items():
            if isinstance(outcome, StoreError):
                note = f"the leg failed and is left out ({outcome})"
                self.diagnostics.note(leg, note, cause=outcome)
            else:
                threshold = least.get(leg)
                usable[leg] = outcome if threshold is None else outcome[outcome.scores >= threshold]
        return usable

    async def _search(self, query: LegQuery, depth: int) -> Hits | StoreError:
        try:
            if isinstance(query, TextQuery):
                return await self.view.text(query, k=depth)
            return await query.search(self.view, k=depth)
        except StoreError as error:
            return error

    async def _fill(
        self, query: LegQuery, known: LegScores, keys: ChunkKeys, cosines: Hits | None
    ) -> None:
        missing = np.flatnonzero(known.ranks == 0)
        if isinstance(query, SemanticQuery) and cosines is not None:
            scores = cosines.scores_of(keys[missing], ascending=True)
            known.scores[missing] = query.scaled(scores)
        elif len(missing):
            known.scores[missing] = await scores_of(query, self.view, keys[missing])


def least_scores(prefs: RetrievalPrefs) -> dict[Leg, float | None]:
    """The thresholds of legs on their own scales."""
    return {"semantic": prefs.vector.min_score, "text": prefs.fts.min_rank}
