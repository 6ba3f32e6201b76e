"""Preferences of a search, from Python, TOML or the environment; a search as a request.

The groups follow the stages of a search: legs (`fts`, `vector`, `fuzzy`), `expansion`, `scoring`,
`rerank`, `parents`, `diversity`; `chunking` and `cache` for chunks made at query time; `snippet`
for bundles, `context` for packs. Unknown names and impossible settings are a ConfigError with the
reason.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast, get_args

import pydantic
from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from lagotto._internal.registry import did_you_mean
from lagotto.documents import Moment, Record, Vector
from lagotto.errors import ConfigError
from lagotto.filters import And, Eq, Filter, In, parse_filter
from lagotto.request_context import RequestContext
from lagotto.results import Leg
from lagotto.terms.languages import is_language

Mode = Literal["hybrid", "semantic", "keyword"]
QueryType = Literal["question", "keywords", "exact", "description"]
FtsMode = Literal["any", "web", "plain", "phrase", "strict"]
Distance = Literal["cosine", "l2", "ip"]
Blend = Literal["linear", "rrf"]
Normalisation = Literal["absolute", "theoretical", "minmax", "zscore", "sigmoid", "none"]
CiteBy = Literal["title", "id"]
Verb = Literal["retrieve", "search", "context"]

_VERBS: Mapping[str, tuple[Verb, ...]] = {
    "top_k_chunks": ("search",),
    "per_item_chunk_cap": ("search",),
    "snippet": ("search",),
    "context": ("context",),
    "parents.section_chars": ("retrieve", "search"),
}
"""The verbs for which a setting has a meaning, where these are not all."""

FilterPref = Annotated[
    pydantic.InstanceOf[Filter],
    BeforeValidator(parse_filter),
    pydantic.PlainSerializer(lambda where: where.to_json()),
    pydantic.WithJsonSchema({"type": "object"}),
]
Share = Annotated[float, Field(ge=0, le=1)]
MOST_WEIGHT = 1e6
"""Only ratios of weights count; sums and products of greater ones could overflow."""
Weight = Annotated[float, Field(ge=0, le=MOST_WEIGHT, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]
MOST_SCORE = 1e9
"""Scores are single-precision numbers; a much greater threshold could not be compared with them."""


def _number_or(word: str, value: Any) -> Any:
    if value == word or value is None or isinstance(value, bool):
        return value
    try:
        count = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"give a number, or {word} (it is {value!r})") from None
    if count < 1:
        raise ValueError(f"Input should be greater than or equal to 1 (it is {value!r})")
    return value


CandidateCount = Annotated[
    int | Literal["needed"] | None, BeforeValidator(partial(_number_or, "needed"))
]
JudgedCount = Annotated[int | Literal["all"] | None, BeforeValidator(partial(_number_or, "all"))]

FEWEST_CANDIDATES = 100
"""Candidates of each leg where no number is given; more if more results are requested."""
MOST_PACK_HITS = 100
"""Hits that are considered for a pack where no number is given."""
FEWEST_PACK_TOKENS = 20
"""Tokens that a passage takes at least, with its citation: so many hits can a budget pay for."""
FEWEST_JUDGED = 50
"""Passages for a reranker where no number is given; more if more results are requested."""
BLENDED_JUDGED = 20
"""The same for a cross-encoder: 30 gain a little more on average, and lose on some data."""


MOST_CHANGED = 64
"""Settings of calls that are kept with the preferences which they change."""


class Preferences(Record):
    """A group of settings; a wrong one is a ConfigError."""

    if not TYPE_CHECKING:  # the real signature is better for editors

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as exc:
                raise ConfigError("; ".join(_messages(exc))) from exc


class FtsPrefs(Preferences):
    """The full-text leg. The mode `any` takes a question as it is; the others have a syntax.

    `config` is the language of the query, if the base has several: `english` or `en`; `simple` is
    none. Any other name is that of a text search configuration which the owner of a PostgreSQL
    database made, for the rank functions of the server.
    """

    mode: FtsMode = "any"
    config: str | None = None
    rank_func: Literal["bm25", "ts_rank", "ts_rank_cd"] = "bm25"
    min_rank: float | None = Field(default=None, ge=0, le=MOST_SCORE, allow_inf_nan=False)

    @pydantic.field_validator("config")
    @classmethod
    def _is_a_name(cls, config: str | None) -> str | None:
        if config is not None:
            is_language(config)
        return config


class VectorPrefs(Preferences):
    """The semantic leg. Without `embed_query` the caller passes `query_vector`."""

    embed_query: bool = True
    distance: Distance = "cosine"
    min_score: float | None = Field(
        default=None, ge=-MOST_SCORE, le=MOST_SCORE, allow_inf_nan=False
    )

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        if self.min_score is not None and self.distance != "ip" and self.min_score > 1:
            raise ValueError(
                f"min_score is {self.min_score}, but no {self.distance} score is above 1"
            )
        return self


class FuzzyPrefs(Preferences):
    """The fuzzy leg: `correct` runs it for words that the base lacks, `always` for all words.

    `threshold` is the least trigram similarity of two words. `always` compares each word with
    the index terms, or, `over` the chunks, all of them together with whole texts, where a store can
    do that and the base is small.
    """

    mode: Literal["correct", "always", "off"] = "correct"
    threshold: Share = 0.3
    over: Literal["terms", "chunks"] = "terms"


class ExpansionPrefs(Preferences):
    """Query expansion; `feedback` adds words of the best passages of a first recall."""

    answers: bool = False
    feedback: bool = False
    feedback_passages: Count = 5
    feedback_terms: Count = 10


WeightName = Literal["w_vec", "w_text", "w_fuzzy", "w_exact"]
_WEIGHTS: dict[Leg, WeightName] = {
    "semantic": "w_vec", "text": "w_text", "fuzzy": "w_fuzzy", "exact": "w_exact",
}  # fmt: skip


class ScoringPrefs(Preferences):
    """Fusion of the scores of the legs.

    `keyword_weight` is the share of the text leg, and the semantic leg has the rest; with it, a
    `w_vec` or `w_text` given alone leaves the rest to the other.
    `w_exact` is the weight of quoted phrases and identifiers; None means the sum of all others, so
    that passages with them rank first. Without `rrf_weighted`, reciprocal rank fusion of what the
    legs found counts every leg that has a weight alike; chunks made at query time are weighted all
    the same. `fill` gives every candidate its exact score in every leg.
    `adapt` reduces the weight of a leg that can't do much with a query: vectors of an alphabet that
    the model was not trained on, misspelt words. `by_type` overrides weights for a query type.
    """

    blend: Blend = "linear"
    normalize: Normalisation = "absolute"
    w_vec: Weight = 1.0
    w_text: Weight = 0.5
    w_fuzzy: Weight = 0.5
    w_exact: Weight | None = None
    keyword_weight: Share | None = None
    rrf_k: Count = 60
    rrf_weighted: bool = True
    fill: bool = True
    adapt: bool = True
    min_score: Share | None = None
    by_type: dict[QueryType, dict[WeightName, Weight]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _shared_weight(self) -> Self:
        """Derived weights are not marked as set, so that `replace` derives them again."""
        if self.keyword_weight is None:
            return self
        fields = self.model_fields_set & {"w_vec", "w_text"}
        if not fields:
            object.__setattr__(self, "w_text", self.keyword_weight)
            object.__setattr__(self, "w_vec", 1 - self.keyword_weight)
        elif len(fields) == 1:
            (name,) = fields
            weight: float = getattr(self, name)
            if weight > 1:
                raise ValueError(
                    f"{name} is {weight:g}; with keyword_weight it is a share, at most 1"
                )
            object.__setattr__(self, "w_text" if name == "w_vec" else "w_vec", 1 - weight)
        return self

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        own: dict[WeightName, float]
        own = {"w_vec": self.w_vec, "w_text": self.w_text, "w_fuzzy": self.w_fuzzy}
        for weights in ({}, *self.by_type.values()):
            if not any({**own, **weights}.values()):
                raise ValueError("all weights are 0, so no passage could have a score; raise one")
        return self

    def weights(
        self, query_type: QueryType | None = None, *, as_given: bool = False
    ) -> dict[Leg, float]:
        """What each leg counts for a type of query, in the fusion of what the legs found.

        `as_given` is the weight that was given, also if fusion does not honour it.
        """
        alike = self.blend == "rrf" and not self.rrf_weighted and not as_given
        special = self.by_type.get(query_type, {}) if query_type else {}
        weights: dict[Leg, float] = {
            leg: float(weight > 0) if alike else weight
            for leg, name in _WEIGHTS.items()
            if (weight := special.get(name, getattr(self, name))) is not None
        }
        return {**weights, "exact": weights.get("exact", sum(weights.values()))}


class RerankPrefs(Preferences):
    """The name of the reranker, none by default; the number of passages it sees, and keeps.

    `enabled` is whether a reranker that there is judges; `named`: only one that is named here, not
    one that the base or retriever was made with. At most `candidates` passages go in, and no other
    comes out: a number, `all` candidates of the legs, or None for 50, or `top_k` if that is more.
    Of a cross-encoder, whose scores are blended with the fused ones, None is 20, and what it does
    not see follows in its fused order. `min_score` is on the reranker's own scale in [0, 1].
    `max_ms` ends a reranker after so many milliseconds: a cross-encoder keeps what it has read by
    then, the fused order stands for others. In place of the group, its name is enough:
    `rerank="lexical"`.
    """

    reranker: str | None = None
    enabled: bool | Literal["named"] = True
    candidates: JudgedCount = None
    keep: Count | None = None
    max_text_chars: Count | None = None
    min_score: Share | None = None
    max_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return {"reranker": value} if isinstance(value, str) else value


class ParentsPrefs(Preferences):
    """Parents of hits: replace the child, attach the parent or its beginning, or leave it alone."""

    mode: Literal["replace", "attach", "section", "none"] = "replace"
    stage: Literal["before_rerank", "after_rerank"] = "after_rerank"
    section_chars: Count = 200


class DiversityPrefs(Preferences):
    """At most `per_document` passages of one document; copies; maximal marginal relevance.

    `mmr` is the weight of the score against diversity: 1 changes nothing, 0 ignores the score.
    With `copies="once"`, a text that several documents have is one hit, which names the others in
    `also_in`, and the list goes on with other texts.
    """

    per_document: Count | None = None
    mmr: Share | None = None
    copies: Literal["each", "once"] = "each"


class ChunkingPrefs(Preferences):
    """Where candidates come from: stored chunks, chunks made at query time, or both.

    Chunks are made of the best `top_k_items` documents.

    `chunker_id` is a registered chunker, by default the base's own; the sizes override its.
    """

    strategy: Literal["late", "precomputed", "mixed"] = "precomputed"
    chunker_id: str | None = None
    include_headers: bool = True
    max_chunk_tokens: Count | None = None
    overlap_tokens: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _overlap_leaves_something_new(self) -> Self:
        size, overlap = self.max_chunk_tokens, self.overlap_tokens
        if size is not None and overlap is not None and overlap > size // 2:
            raise ValueError(
                f"overlap_tokens is {overlap}; give at most half of max_chunk_tokens, {size}"
            )
        return self


class CachePrefs(Preferences):
    """The cache of chunks made at query time."""

    use_chunk_cache: bool = True
    write_chunk_cache: bool = True
    ttl_seconds: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)


class SnippetPrefs(Preferences):
    """Snippets of the documents in a bundle."""

    max_chars: int = Field(default=360, ge=3)
    prefer_chunk_snippet: bool = True


_ROLE_SETTINGS = frozenset(
    ("neighbor_same_page", "neighbor_cross_page", "include_parents", "min_primary_hits_to_keep")
)


class ContextPrefs(Preferences):
    """The token budget of a context pack, the neighbours of its hits, and what citations name.

    `select` says what the budget is spent on: the pieces that are `worth` most, hits or neighbours,
    or by `roles`: hits first, then parents, siblings and chunks of other pages. None is `roles` if
    one of the settings of roles (`neighbor_same_page` to `min_primary_hits_to_keep`) is given.
    A pack by worth stops where evidence stops, by its scores; `fill` uses the whole budget instead.
    `cite_by` the document's title (or source), or its id, with the title beside it.
    """

    max_tokens: Count = 12_000
    select: Literal["worth", "roles"] | None = None
    fill: bool = False
    neighbor_same_page: int = Field(default=1, ge=0)
    neighbor_cross_page: int = Field(default=2, ge=0)
    include_parents: bool = True
    min_primary_hits_to_keep: Count = 3
    cite_by: CiteBy = "title"

    @property
    def by_roles(self) -> bool:
        """Whether the budget is spent by the roles of chunks."""
        if self.select is None:
            return not _ROLE_SETTINGS.isdisjoint(self.model_fields_set)
        return self.select == "roles"


_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([hdwmy]?)")
_DAYS = {"h": 1 / 24, "d": 1.0, "": 1.0, "w": 7.0, "m": 30.4375, "y": 365.25}


def _days(value: Any) -> Any:
    """A duration in days: a number, a timedelta, or text such as 12h, 90d, 6w, 3m or 2y."""
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ValueError(f"write a number of days, or 12h, 90d, 6w, 3m or 2y (it is {value!r})")
    return float(match[1]) * _DAYS[match[2]]


class Boost(Preferences):
    """A factor of the fused scores of passages; `recency` and `field` make the usual ones.

    It is for documents that match `where`, any by default. With `recency`, the name of a field with
    a date, a document of today has the whole factor, and one that is `half_life` days old is raised
    by half as much; one without a date is left alone. The field `date` is the date in the metadata,
    or else when a document says it was created, the date in its file name, when it was changed.
    `now` is what ages are counted from, by default the beginning of this day in UTC.
    """

    where: FilterPref = Field(default_factory=And)
    factor: float = Field(default=1.2, gt=0, le=100)
    recency: str | None = Field(default=None, min_length=1)
    half_life: Annotated[float, BeforeValidator(_days)] = Field(default=90.0, gt=0, le=1e6)
    now: Moment | None = None

    @model_validator(mode="after")
    def _speaks_of_something(self) -> Self:
        if self.recency is None and self.where == And():
            raise ValueError("give where, a filter, or recency, a field with a date")
        if self.recency is None and {"half_life", "now"} & self.model_fields_set:
            raise ValueError("half_life and now are for recency; name its field, such as date")
        return self

    @property
    def name(self) -> str:
        """What it is called in explanations."""
        where = json.dumps(self.where.to_json(), ensure_ascii=False)
        if self.recency is None:
            return where
        return f"recency of {self.recency}" + ("" if self.where == And() else f" where {where}")


def recency(
    name: str = "date",
    *,
    half_life: str | float | timedelta = "90d",
    factor: float = 1.2,
    **more: Any,
) -> Boost:
    """A boost for documents whose date, in the field `name`, is recent; see Boost."""
    return Boost(recency=name, half_life=half_life, factor=factor, **more)


def field(name: str, value: Any, factor: float = 1.2) -> Boost:
    """A boost for documents that have a value, or one of a list of values, in a field."""
    where = In(name, value) if isinstance(value, list | tuple) else Eq(name, value)
    return Boost(where=where, factor=factor)


def _boosts(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(
                f'write JSON such as [{{"recency": "date"}}] (it is {value!r})'
            ) from None
    return (value,) if isinstance(value, Boost | Mapping) else value


Boosts = Annotated[tuple[Boost, ...], BeforeValidator(_boosts)]


class RetrievalPrefs(Preferences):
    """All settings of a search.

    `top_k` is for lists and packs, by default what the reranker is to keep, or 10; `top_k_items`,
    `top_k_chunks` and `per_item_chunk_cap` are for bundles, `top_k_items` also for the documents
    that are cut at query time. Each leg brings `candidates` chunks: a number, or as many as are
    `needed`, which is what the reranker sees, or else what is asked for; None is 100, or more if
    more are needed. Or it brings `overfetch` times as many as are asked for. `min_score` is
    the threshold on the final score. `strict` turns whatever had to be left out into an error.
    `explain` puts the scores of all candidates into the statistics, not only those of the hits.
    `boost` multiplies fused scores by what is known of documents, see Boost.
    `strategy` is how a server is asked, leg by leg or in one statement where it can; the results
    are the same.
    """

    query_text: str = ""
    filters: FilterPref = Field(default_factory=And)
    collection: str | None = Field(default=None, min_length=1)
    mode: Mode = "hybrid"
    strict: bool = False
    top_k: Count = 10
    top_k_items: Count = 20
    top_k_chunks: Count = 12
    per_item_chunk_cap: Count = 3
    candidates: CandidateCount = None
    overfetch: float | None = Field(default=None, ge=1, le=1000)
    strategy: Literal["auto", "legs", "statement"] = "auto"
    min_score: Share = 0.0
    fts: FtsPrefs = FtsPrefs()
    vector: VectorPrefs = VectorPrefs()
    fuzzy: FuzzyPrefs = FuzzyPrefs()
    expansion: ExpansionPrefs = ExpansionPrefs()
    scoring: ScoringPrefs = ScoringPrefs()
    boost: Boosts = ()
    rerank: RerankPrefs = RerankPrefs()
    parents: ParentsPrefs = ParentsPrefs()
    diversity: DiversityPrefs = DiversityPrefs()
    chunking: ChunkingPrefs = ChunkingPrefs()
    cache: CachePrefs = CachePrefs()
    snippet: SnippetPrefs = SnippetPrefs()
    context: ContextPrefs = ContextPrefs()
    explain: Literal["hits", "candidates"] = "hits"
    debug: bool = False
    _of_preset: frozenset[str] = PrivateAttr(default=frozenset())
    """The names of settings that a preset gave; like what follows, no matter of comparisons."""
    _changed: dict[object, RetrievalPrefs] = PrivateAttr(default_factory=dict)
    """Preferences by the settings that made them. A copy with other settings has none."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copy = super().model_copy(update=update, deep=deep)
        copy._changed = {}
        return copy

    @model_validator(mode="after")
    def _as_many_as_are_kept(self) -> Self:
        """A derived number is not marked as set, so that `replace` derives it again."""
        if "top_k" not in self.model_fields_set and self.rerank.keep is not None:
            object.__setattr__(self, "top_k", self.rerank.keep)
        return self

    @model_validator(mode="after")
    def _some_leg_has_weight(self) -> Self:
        keywords = self.mode != "semantic"
        runs: dict[Leg, bool] = {
            "semantic": self.mode != "keyword",
            "text": keywords,
            "fuzzy": keywords and self.fuzzy.mode != "off",
        }
        for query_type in (None, *self.scoring.by_type):
            weights = self.scoring.weights(query_type)
            if not any(weights[leg] for leg, can_run in runs.items() if can_run):
                legs = ", ".join(leg for leg, can_run in runs.items() if can_run)
                kind = f" for queries of the type {query_type}" if query_type else ""
                raise ValueError(
                    f"mode is {self.mode} and fuzzy.mode is {self.fuzzy.mode}, but what is left "
                    f"({legs}) has a weight of 0{kind}; raise it in scoring, or change the mode"
                )
        return self

    def check_call(self, verb: Verb, settings: Mapping[str, Any]) -> None:
        """Raise ConfigError for settings, given in a call, that have no meaning for its verb.

        The same settings may stand in preferences, which serve all verbs.
        """
        for name in _names(settings):
            if verb not in (verbs := self._verbs_of(name)):
                raise ConfigError(
                    f"{name}: {verb} has no use for it; it is a setting of {' and '.join(verbs)}"
                )

    def _verbs_of(self, name: str) -> tuple[Verb, ...]:
        """The verbs that a setting has a meaning for."""
        if name == "top_k_items" and self.chunking.strategy == "precomputed":
            return ("search",)
        return _VERBS.get(name, get_args(Verb))

    def given_for(self, verb: Verb) -> dict[str, Any]:
        """The settings that differ from the defaults and have a meaning for a verb, as JSON."""
        values = self.model_dump(mode="json", exclude_unset=True, exclude={"query_text", "filters"})
        if self.filters != And():
            values["filters"] = self.filters.to_json()
        if verb == "search":
            values.pop("top_k", None)
        if verb not in self._verbs_of("parents.section_chars"):
            values.get("parents", {}).pop("section_chars", None)
        return {name: value for name, value in values.items() if verb in self._verbs_of(name)}

    def depth(self, count: int, *, reranked: int | None = None) -> int:
        """The number of candidates of each leg if `count` passages are requested.

        `reranked` is how many a reranker is to see, None without one. An `overfetch` is a multiple
        of what is requested, with a reranker too.
        """
        if self.overfetch is not None:
            return max(1, round(count * self.overfetch))
        if self.candidates is None:
            return max(FEWEST_CANDIDATES, count, reranked or 0)
        return (reranked or count) if self.candidates == "needed" else self.candidates

    def has_absolute_scores(self) -> bool:
        """Whether fused scores of different queries compare: none is relative to the best one."""
        scoring = self.scoring
        linear = scoring.blend == "linear" and scoring.normalize == "absolute"
        return linear and self.mode == "hybrid" and self.vector.distance == "cosine"

    def pack_hits(self) -> int:
        """How many hits are considered for a pack: `top_k`, unless the budget alone decides."""
        sized = self.overfetch is not None or self.candidates == "needed"
        is_set = "top_k" in self.model_fields_set or self.rerank.keep is not None
        if is_set or sized or self.context.by_roles:
            return self.top_k
        affordable = self.top_k + self.context.max_tokens // FEWEST_PACK_TOKENS
        return min(MOST_PACK_HITS, affordable)

    def judged(self, count: int, *, blended: bool = False) -> int | None:
        """How many passages a reranker sees if `count` are requested; None for all candidates.

        One whose scores are `blended` sees fewer, and the others are kept.
        """
        candidates = self.rerank.candidates
        if candidates is None:
            return max(BLENDED_JUDGED if blended else FEWEST_JUDGED, count)
        return None if candidates == "all" else candidates

    def replace(self, **changes: Any) -> RetrievalPrefs:
        """These preferences with changes.

        Of a group, given as a dict or as an object, only what is set in it changes.
        """
        prefs = RetrievalPrefs(**merged_settings(self._settings(), changes))
        prefs._of_preset = self._of_preset.difference(_names(changes))
        return prefs

    def changed(self, settings: Mapping[str, Any]) -> RetrievalPrefs:
        """As `replace`; the same settings are checked once, which takes longer than a view does."""
        key = tuple((name, type(value), value) for name, value in settings.items())
        try:
            known = self._changed.get(key)
        except TypeError:  # a dict or a list
            return self.replace(**settings)
        if known is None:
            if len(self._changed) >= MOST_CHANGED:
                self._changed.clear()
            known = self._changed[key] = self.replace(**settings)
        return known

    def with_query(self, query: str) -> RetrievalPrefs:
        """These preferences for another query; nothing else needs to be checked again."""
        if not isinstance(query, str):
            return self.replace(query_text=query)
        return self.model_copy(update={"query_text": query})

    def overlaid(self, others: RetrievalPrefs) -> RetrievalPrefs:
        """These preferences, and over them what is set in others."""
        prefs = self.replace(**others._settings())
        prefs._of_preset |= others._of_preset
        return prefs

    def is_from_preset(self, name: str) -> bool:
        """Whether a setting, such as `rerank.reranker`, is a preset's and not the caller's own."""
        return name in self._of_preset

    def _settings(self) -> dict[str, Any]:
        """The settings that differ from the defaults, as arguments of the constructor."""
        settings = self.model_dump(exclude_unset=True, exclude={"filters"})
        return settings if self.filters == And() else {**settings, "filters": self.filters}

    @classmethod
    def preset(cls, name: str, **changes: Any) -> RetrievalPrefs:
        """The preferences of a known design, with changes."""
        from lagotto.presets import load_preset

        settings = load_preset(name).settings
        prefs = cls(**merged_settings(settings, changes))
        prefs._of_preset = frozenset(_names(settings)).difference(_names(changes))
        return prefs

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> RetrievalPrefs:
        """Preferences as plain data; `preset` names what they start from."""
        fields = dict(given)
        name = fields.pop("preset", None)
        return cls(**fields) if name is None else cls.preset(name, **fields)

    @classmethod
    def from_toml(cls, path: str | Path) -> RetrievalPrefs:
        """Preferences from a TOML file, from its `[retrieval]` table if it has one."""
        import tomllib

        try:
            config = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:  # not UTF-8, not TOML, or no path at all
            raise ConfigError(f"{path} can't be read as TOML: {exc}") from exc
        except RecursionError:
            raise ConfigError(f"{path} can't be read as TOML: it is nested too deeply") from None
        table = config.get("retrieval", config)
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: retrieval is {table!r}; make it a table, [retrieval]")
        return cls.from_dict(table)

    @classmethod
    def from_env(
        cls, environment: Mapping[str, str] | None = None, *, prefix: str = "LAGOTTO_RETRIEVAL_"
    ) -> RetrievalPrefs:
        """Preferences from variables such as LAGOTTO_RETRIEVAL_SCORING__BLEND=rrf.

        Two underscores lead into a group; LAGOTTO_RETRIEVAL_PRESET names what to start from.
        """
        variables = os.environ if environment is None else environment
        settings: dict[str, Any] = {}
        for name in sorted(variables):  # a group comes before what is in it
            if name.startswith(prefix):
                *groups, field = name.removeprefix(prefix).lower().split("__")
                inner = settings
                for group in groups:
                    inner = inner.setdefault(group, {})
                    if not isinstance(inner, dict):
                        raise ConfigError(f"{name}: {group} is set to {inner!r}; unset one of both")
                inner[field] = variables[name]
        return cls.from_dict(settings)


def merged_settings(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, group by group."""
    merged = dict(settings)
    for name, value in changes.items():
        if isinstance(value, Record):
            value = value.model_dump(exclude_unset=True)
        if name == "rerank" and isinstance(value, str):
            value = {"reranker": value}
        former = merged.get(name)
        if isinstance(former, Record):
            former = former.model_dump(exclude_unset=True)
        if isinstance(former, Mapping) and isinstance(value, Mapping) and name != "filters":
            value = merged_settings(former, value)
        merged[name] = value
    return merged


def _names(settings: Mapping[str, Any]) -> Iterator[str]:
    """The names of settings and of those in their groups, such as `rerank` and `rerank.keep`."""
    for name, value in settings.items():
        yield name
        if name == "rerank" and isinstance(value, str):
            yield "rerank.reranker"
        group = value.model_fields_set if isinstance(value, Record) else value
        if isinstance(value, Record | Mapping) and name != "filters":
            yield from (f"{name}.{inner}" for inner in group)


def _messages(problem: ValidationError, *, group: tuple[int | str, ...] = ()) -> list[str]:
    """A message for each setting that is wrong."""
    (known,) = (kind for kind in Preferences.__subclasses__() if kind.__name__ == problem.title)
    lines = []
    for error in problem.errors():
        path = (*group, *error["loc"])
        where = ".".join(map(str, path)) or "preferences"
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, ConfigError) and isinstance(cause.__cause__, ValidationError):
            lines += _messages(cause.__cause__, group=path)
        elif error["type"] == "extra_forbidden":
            guess = did_you_mean(str(path[-1]), known.model_fields)
            if path == ("reranker",):
                guess = f"; write rerank={error['input']!r}"
            lines.append(f"{where}: there is no such setting{guess}")
        elif isinstance(cause, ValueError):
            lines.append(f"{where}: {cause}")
        else:
            lines.append(f"{where}: {error['msg']} (it is {error['input']!r})")
    return lines


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: a verb, a query, and how it is to be answered.

    `prefs` are the preferences to start from: RetrievalPrefs, the name of a preset, or None for
    those of the base that is asked; `over_own`, what they leave unset is as in the base's.
    `settings` change them, in this call alone. `vector` is the query's, if the caller has one.
    `max_tokens`, `format` and `counter` are for a pack, and so are several `queries`, which then
    are the lines of `query`. `document_id` is the document that
    `why_not` is about, in `document_collection` if that is known. A bundle that is `only_evident`
    has no documents but those of its passages: `top_k` of them were asked for, and no number of
    documents.
    """

    verb: Verb | Literal["why_not"]
    query: str
    prefs: RetrievalPrefs | str | None = None
    settings: Mapping[str, Any] = dataclass_field(default_factory=dict)
    vector: Vector | None = None
    context: RequestContext = dataclass_field(default_factory=RequestContext)
    max_tokens: int | None = None
    format: Literal["plain", "markdown", "xml"] = "plain"
    counter: Any = None
    queries: tuple[str, ...] = ()
    document_id: str = ""
    document_collection: str | None = None
    over_own: bool = False
    only_evident: bool = False

    @classmethod
    def of(
        cls,
        prefs: RetrievalPrefs,
        verb: Verb,
        *,
        vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> SearchRequest:
        """The request for the query of `prefs`."""
        return cls(verb, prefs.query_text, prefs, vector=vector, context=ctx or RequestContext())

    def resolve(self, own: RetrievalPrefs) -> SearchRequest:
        """The request with all its settings in `prefs`; `own` are those of the base.

        ConfigError for settings that are wrong, or have no meaning for the verb.
        """
        if self.queries and not self.query:
            return replace(self, query="\n".join(self.queries)).resolve(own)
        settings = dict(self.settings)
        as_passages = self.verb == "search" and "top_k" in settings
        for name in ("query_text", "top_k_chunks") if as_passages else ("query_text",):
            if name in settings:
                raise ConfigError(f"{name}: given twice in one call; give it once")
        if as_passages:
            settings["top_k_chunks"] = settings.pop("top_k")
        evident = self.verb == "search" and (
            self.only_evident or (as_passages and "top_k_items" not in settings)
        )
        if "filters" in settings:
            settings["filters"] = parse_filter(settings["filters"])
        if self.max_tokens is not None:
            settings = merged_settings(settings, {"context": {"max_tokens": self.max_tokens}})
        start = own if self.prefs is None else preferences(self.prefs)
        if self.over_own:
            start = own.overlaid(start)
        if settings:
            start = start.changed(settings)
        if start.query_text != self.query:
            start = start.with_query(self.query)
        start.check_call("retrieve" if self.verb == "why_not" else self.verb, self.settings)
        return replace(
            self, prefs=start, settings={}, max_tokens=None, over_own=False, only_evident=evident
        )

    def each(self) -> list[SearchRequest]:
        """A request for each of its queries."""
        return [replace(self.with_query(query), queries=()) for query in self.queries]

    def with_query(self, query: str) -> SearchRequest:
        """The same request for another query."""
        prefs = self.prefs
        if isinstance(prefs, RetrievalPrefs):
            prefs = prefs.with_query(query)
        return replace(self, query=query, prefs=prefs)

    @property
    def preferences(self) -> RetrievalPrefs:
        """The preferences of a request that is resolved."""
        assert not self.settings, "resolve the request first"
        return cast("RetrievalPrefs", self.prefs)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for."""
        return self.vector is None and not self.query.strip()


MOST_QUERIES = 20
"""Questions of a pack that a server answers: each is a search."""


def several_queries(
    query: str | None, queries: Sequence[str] | None, vector: Any = None
) -> tuple[str, ...]:
    """The questions of a pack of several, none for one of a single query; ConfigError if both."""
    if query is None and queries and not isinstance(queries, str) and vector is None:
        return tuple(queries)
    if query is not None and not queries:
        return ()
    problem = "a pack is for a query, or for a list of queries, which have no query_vector"
    raise ConfigError(f"{problem}; pass one of both")


def preferences(prefs: RetrievalPrefs | str | None) -> RetrievalPrefs:
    """Preferences as they are, by the name of a preset, or the defaults."""
    return RetrievalPrefs.preset(prefs) if isinstance(prefs, str) else prefs or RetrievalPrefs()
