"""The query plan: from a question to the query of each leg."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Vector
from lagotto.embedders import Embedder
from lagotto.errors import ConfigError, EmbeddingError, ModelMismatchError, QueryError, StoreError
from lagotto.indexes.text_query import Match, NativeQuery, Term, TextQuery, substituted
from lagotto.prefs import QueryType, RankFunction, RetrievalPrefs, ScoringPrefs
from lagotto.results import Leg
from lagotto.retrieval.explain import Diagnostics
from lagotto.retrieval.query.expansion import Expansion, answer_patterns, answer_words, declarative
from lagotto.retrieval.query.syntax import ParsedQuery, parse_query, weighed
from lagotto.retrieval.query.types import classify, identifiers, quotations
from lagotto.retrieval.recall import LegQueries, TrigramTextQuery, exact_query, trigram_text_query
from lagotto.stores.base import Capabilities, View
from lagotto.terms import QueryTerm, compounds, content_terms, query_terms
from lagotto.terms.languages import (
    UNSTEMMED,
    alphabet_share,
    is_language,
    language_named,
    language_of,
)

UNFAMILIAR = 0.1
"""The factor of the semantic leg's weight where the embedder can't read the query."""

MENTIONING: tuple[QueryType, ...] = ("question", "description")
"""Types of queries that may mention a name or title without asking for what holds it."""

ADDED_WEIGHT = 0.3
"""The weight of a word that only an expansion has, beside one of the query."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query's type, the query and weight of each leg, and what no result may hold.

    `damping` are factors of the weights, which depend on what the legs find.
    """

    type: QueryType
    legs: LegQueries
    weights: Mapping[Leg, float]
    excluded: Match | None = None
    damping: Mapping[Leg, float] = field(default_factory=dict)

    def damped_weights(self) -> dict[Leg, float]:
        """The weights times their factors."""
        return {leg: weight * self.damping.get(leg, 1.0) for leg, weight in self.weights.items()}

    def with_given_weights(self, scoring: ScoringPrefs) -> QueryPlan:
        """The plan with weights in proportion to those given, whatever fusion makes of these."""
        given, counted = scoring.given_weights(self.type), scoring.weights(self.type)
        weights = {
            leg: weight * given[leg] / counted[leg] if counted[leg] else weight
            for leg, weight in self.weights.items()
        }
        return replace(self, weights=weights)


class QueryPlanner:
    """Plans one query for one view."""

    def __init__(
        self,
        view: View,
        prefs: RetrievalPrefs,
        *,
        embedder: Embedder,
        capabilities: Capabilities,
        diagnostics: Diagnostics,
    ) -> None:
        self._view = view
        self._prefs = prefs
        self._embedder = embedder
        self._diagnostics = diagnostics
        for leg, why in view.degraded:
            diagnostics.note(leg, why)
        for problem in view.filter_notes:
            diagnostics.note("filter", problem)
        config = prefs.fts.config if prefs.mode != "semantic" else None
        check_config(config, prefs.fts.rank_func, capabilities)
        self._languages = query_languages(config, view.languages, diagnostics)
        self._native = NativeText(prefs, capabilities, self._languages)
        self._parsed = self._native.parsed
        # Operators and what the query rejects mean nothing to an embedder.
        self._query = self._parsed.text if self._parsed.has_text else prefs.query_text
        self._type = classify(self._query, self._languages).type
        self._weights = prefs.scoring.weights(self._type)
        self._semantic, self._text = self._sides(capabilities)
        self._can = capabilities
        self._answers = prefs.expansion.answers

    def _sides(self, can: Capabilities) -> tuple[bool, bool]:
        """Whether the semantic and the word legs run: as asked for, as far as the store can."""
        mode, weights = self._prefs.mode, self._weights
        semantic = mode != "keyword" and weights["semantic"] > 0
        text = mode != "semantic" and any(weights[leg] > 0 for leg in ("text", "fuzzy", "exact"))
        if text and not can.text:
            self._diagnostics.note("text", "this store has no full-text index; only vectors count")
            return can.semantic, False
        if semantic and not can.semantic:
            self._diagnostics.note("semantic", "this store has no vectors; only words count")
            return False, can.text
        if text and self._prefs.fts.rank_func not in can.rank_functions:
            ranked = f"words are ranked by {can.rank_functions[0]} in this store"
            self._diagnostics.note("text", f"{ranked}, not by {self._prefs.fts.rank_func}")
        return semantic, text

    async def plan(
        self, *, vector: Vector | None = None, expansion: Expansion | None = None
    ) -> QueryPlan:
        """The plan; `vector` is the query's, if there is one already."""
        legs = await self._words(expansion) if self._text else LegQueries()
        if self._semantic:
            legs = await self._meaning(legs, vector, expansion)
        excluded = self._parsed.excluded if self._can.text else None
        return QueryPlan(self._type, legs, self._adapted(legs), excluded)

    async def _words(self, expansion: Expansion | None) -> LegQueries:
        query, fts, parsed = self._query, self._prefs.fts, self._parsed
        legs = LegQueries()
        if self._weights["text"]:
            added = _added(expansion, self._languages, known=parsed.words)
            if self._answers:
                added += answer_patterns(query, self._languages)
            native = await self._native.prepared(self._view, self._diagnostics)
            legs = replace(legs, text=TextQuery(parsed.words + added, parsed.where, native))
        if self._can.fuzzy and self._weights["fuzzy"]:
            fuzzy, misspelt = await self._fuzzy(content_words(query, self._languages))
            legs = replace(legs, fuzzy=fuzzy, misspelt=misspelt)
        if fts.mode == "any" and self._weights["exact"]:
            exact = await exact_query(
                self._view,
                quotations(query, self._languages),
                identifiers(query, self._languages),
                mentioned=self._type in MENTIONING,
            )
            legs = replace(legs, exact=exact)
        return legs

    async def _fuzzy(
        self, words: Sequence[QueryTerm]
    ) -> tuple[TextQuery | TrigramTextQuery | None, float]:
        fuzzy = self._prefs.fuzzy
        if fuzzy.mode == "off" or not words:
            return None, 0.0
        if fuzzy.mode == "always" and fuzzy.over == "chunks":
            plain, syntax = [word.word for word in words], self._prefs.fts.mode
            near = answer_words(self._query) if self._answers else ()
            alike = await trigram_text_query(
                self._view, plain, fuzzy, syntax, self._diagnostics, near=near
            )
            if alike is not None:
                return alike, 0.0
        if fuzzy.mode == "always":
            roots = [word.variants[0] for word in words]
            found = await self._view.similar(roots, threshold=fuzzy.threshold)
            similar = {word: terms for word, terms in zip(words, found, strict=True) if terms}
            added = answer_patterns(self._query, self._languages) if self._answers else ()
            return self._conditioned(TextQuery((*similar.values(), *added)), similar), 0.0
        corrected, share = await correct(self._view, words, self._embedder.tokenizer)
        if not corrected:
            return None, 0.0
        self._diagnostics.corrections |= {
            word.word: tuple(term.text for term in terms) for word, terms in corrected.items()
        }
        query = TextQuery(
            tuple(corrected.get(word) or weighed(word.variants, word.count) for word in words)
        )
        return self._conditioned(_with_compounds(query, self._query), corrected), share

    def _conditioned(
        self, query: TextQuery, found: Mapping[QueryTerm, tuple[Term, ...]]
    ) -> TextQuery:
        """The query under the condition of its syntax, with the terms found for its words."""
        if self._parsed.where is None:
            return query
        texts = {
            variant: [term.text for term in terms]
            for word, terms in found.items()
            for variant in word.variants
        }
        return replace(query, where=substituted(self._parsed.where, texts))

    async def _meaning(
        self, legs: LegQueries, vector: Vector | None, expansion: Expansion | None
    ) -> LegQueries:
        if not self._prefs.vector.embed_query and vector is None:
            raise ConfigError("vector.embed_query is off; pass the query's vector as query_vector=")
        try:
            vector = await self._embedded(vector, expansion)
        except EmbeddingError as exc:
            if not self._text:
                raise
            note = f"the query could not be embedded, only words count ({exc})"
            self._diagnostics.note("semantic", note, cause=exc)
            return legs
        unit, length = _unit(vector, self._embedder.info.dimension)
        return replace(legs, semantic=unit, length=length)

    async def _embedded(self, vector: Vector | None, expansion: Expansion | None) -> Vector:
        """The query's vector; with an expansion the mean of the vectors of all its texts.

        A vector that was passed stands for the query itself.
        """
        if vector is not None and not (expansion and self._prefs.vector.embed_query):
            return vector
        queries = [self._query] if vector is None else []
        queries += expansion.queries if expansion else ()
        if vector is None and self._answers:
            queries += filter(None, [declarative(self._query)])
        rows = [] if vector is None else [_unit(vector, self._embedder.info.dimension)[0]]
        if queries:
            rows += list(await self._embedder.embed(queries, role="query"))
        if expansion and expansion.passages:
            rows += list(await self._embedder.embed(list(expansion.passages), role="document"))
        if len(rows) == 1:
            return rows[0] if vector is None else vector
        mean: Vector = np.mean(rows, axis=0)
        return mean / np.linalg.norm(mean)

    def _adapted(self, legs: LegQueries) -> Mapping[Leg, float]:
        """The weights as asked for, reduced for a leg that this query does not suit.

        Vectors say little of an alphabet that the embedder never learned. Where words are
        misspelt, the fuzzy leg stands in for the text leg, whose words it has too, and counts for
        more the more of them there are: a vector of misspelt words says little as well.
        """
        weights = dict(self._weights)
        if self._prefs.scoring.adapt:
            known = alphabet_share(self._query, self._embedder.info.alphabets)
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


async def correct(
    view: View, words: Sequence[QueryTerm], tokenizer: Tokenizer
) -> tuple[dict[QueryTerm, tuple[Term, ...]], float]:
    """Corrections of misspelt words, and the share of the query that was misspelt.

    A word that the embedder's tokenizer has whole is a word, even if no document holds it, and is
    left alone.
    """
    counts = tokenizer.count([word.word for word in words])
    doubtful = [word for word, count in zip(words, counts, strict=True) if count > 1]
    found = await view.corrections([word.variants[0] for word in doubtful])
    corrected = {word: terms for word, terms in zip(doubtful, found, strict=True) if terms}
    certainty = sum(max(term.weight for term in terms) for terms in corrected.values())
    return corrected, certainty / len(words)


def _with_compounds(corrected: TextQuery, query: str) -> TextQuery:
    """The corrected query with the compounds of the original one."""
    names = tuple(weighed((name,), times) for name, times in Counter(compounds(query)).items())
    return replace(corrected, words=corrected.words + names)


def _added(
    expansion: Expansion | None,
    languages: Sequence[str | None],
    *,
    known: Sequence[Sequence[Term]],
) -> tuple[tuple[Term, ...], ...]:
    """The words that only the expansion has, with less weight."""
    if expansion is None:
        return ()
    asked = {term.text for word in known for term in word}
    words = content_words(" ".join((*expansion.queries, *expansion.passages)), languages)
    new = [word for word in words if asked.isdisjoint(word.variants)]
    return expansion.terms + tuple(
        tuple(Term(variant, ADDED_WEIGHT) for variant in word.variants) for word in new
    )


def _unit(vector: Vector, dimension: int) -> tuple[Vector, float]:
    """A caller's vector scaled to the norm 1, and the norm that it had."""
    given = np.asarray(vector, dtype=np.float32)
    if given.shape != (dimension,):
        raise ModelMismatchError(
            f"the query vector has the shape {given.shape}, but the vectors of this base have the "
            f"dimension {dimension}; embed the query with the base's model"
        )
    length = float(np.linalg.norm(given))
    if not np.isfinite(length) or length == 0:
        raise ConfigError(
            f"the norm of the query vector is {length}; pass a vector with a finite norm above 0"
        )
    return (given if abs(length - 1) < 1e-6 else given / np.float32(length)), length


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


def check_config(config: str | None, function: RankFunction, can: Capabilities) -> None:
    """Raise ConfigError for a configuration of a server where no server reads the query."""
    if config is None or is_language(config):
        return
    if function == "bm25" or function not in can.rank_functions:
        raise ConfigError(
            f"fts.config: {config!r} is no language; name one as english or en, or {UNSTEMMED} for "
            "none. A text search configuration of a PostgreSQL server is for bases on that server, "
            f"with fts.rank_func ts_rank or ts_rank_cd (it is {function})"
        )


class NativeText:
    """A query for the server's own full-text search, and parsed for the other legs."""

    def __init__(
        self, prefs: RetrievalPrefs, can: Capabilities, languages: Sequence[str | None]
    ) -> None:
        self._query = native_query(prefs, can, languages)
        self._refused: QueryError | None = None
        self.parsed = self._read(prefs, languages)

    def _read(self, prefs: RetrievalPrefs, languages: Sequence[str | None]) -> ParsedQuery:
        """The query by our own syntax, or only its words where the server may know more."""
        try:
            return parse_query(prefs.query_text, prefs.fts.mode, languages)
        except QueryError as exc:
            if self._query is None:
                raise
            self._refused = exc
            return parse_query(_OPERATORS.sub(" ", prefs.query_text), "any", languages)

    async def prepared(self, view: View, diagnostics: Diagnostics) -> NativeQuery | None:
        """The query, once the server is ready for it; None, and a note, if it can't be.

        A query that the server refuses as well is a QueryError: our own, which says where.
        """
        if self._query is None or view.native is None:
            return None
        try:
            await view.native.prepare(self._query)
        except (QueryError, StoreError) as exc:
            if self._refused is not None:
                raise self._refused from exc
            if isinstance(exc, QueryError):
                raise
            note = f"words are ranked by bm25, not by {self._query.function} ({exc})"
            diagnostics.note("text", note, cause=exc)
            return None
        return self._query


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
    config = fts.config if served else None
    return NativeQuery(prefs.query_text, fts.mode, fts.rank_func, config)
