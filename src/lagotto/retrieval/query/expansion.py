"""Query expansion: by rules, by feedback, by a language model."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lagotto.indexes.text_query import Term
from lagotto.retrieval.query.answers import answer_patterns, declarative
from lagotto.terms import analyze, stop_words
from lagotto.terms.words import fold, words

__all__ = [
    "Expander",
    "Expansion",
    "LlmExpander",
    "answer_patterns",
    "declarative",
    "feedback_candidates",
    "feedback_terms",
    "parse_list",
    "parse_passage",
]

FEEDBACK_WEIGHT = 0.3
"""The weight of the best added word beside that of a word of the query."""

LONGEST_QUERY = 4_000
"""The part of a query that a model is shown, in characters."""

REWRITE_PROMPT = """\
Write {count} other search queries for what this query asks. Use other words and names for the same
things. One query per line, nothing else.

<query>
{query}
</query>"""

PASSAGE_PROMPT = """\
Write one short passage, as it might stand in a document, that answers this query. If you don't know
the answer, write what such a passage would say. Only the passage, in the language of the query.

<query>
{query}
</query>"""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What to search for besides the query.

    `queries` are other ways to ask; `passages` are made-up answers, which are embedded as
    documents; `terms` are more words for the text leg, each by its alternatives.
    """

    queries: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    terms: tuple[tuple[Term, ...], ...] = ()


@runtime_checkable
class Expander(Protocol):
    """Expands queries.

    Contract: `expand` changes nothing and may be called concurrently. An Expansion without
    anything in it means that there is nothing to add. The query itself is always searched for,
    so it need not be repeated. A failure is a RetrievalError: the search continues without it.
    """

    async def expand(self, query: str) -> Expansion:
        """What to search for besides `query`."""
        ...


class LlmExpander:
    """Asks a language model for other queries and for a passage that would answer.

    `complete` takes a prompt and gives the model's answer; what it raises is raised. Numbered
    lists, JSON, code fences and remarks around the list are understood.
    """

    def __init__(
        self, complete: Callable[[str], Awaitable[str]], *, queries: int = 3, passages: int = 1
    ) -> None:
        self._complete = complete
        self._queries = queries
        self._passages = passages

    async def expand(self, query: str) -> Expansion:
        """Other queries and made-up passages; fewer than asked for if the model gives fewer."""
        shown = query[:LONGEST_QUERY]
        queries, passages = await asyncio.gather(
            self._rewrites(shown),
            asyncio.gather(*(self._passage(shown) for _ in range(self._passages))),
        )
        return Expansion(tuple(queries), tuple(dict.fromkeys(filter(None, passages))))

    async def _rewrites(self, query: str) -> list[str]:
        if not self._queries:
            return []
        answer = await self._complete(REWRITE_PROMPT.format(count=self._queries, query=query))
        asked = query.strip().casefold()
        return [item for item in parse_list(answer) if item.casefold() != asked][: self._queries]

    async def _passage(self, query: str) -> str:
        return parse_passage(await self._complete(PASSAGE_PROMPT.format(query=query)))


_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_FENCE = re.compile(r"^[^\S\n]*+```.*$", re.MULTILINE)
_OPENING = re.compile(r"[\[{]")
_MARKER = re.compile(r"^\s*(?:[-*•]+\s|\(?\d{1,2}[.):]\)?\s|(?:query|passage)\s*\d*\s*:)\s*", re.I)
_QUOTES = "\"'“”`*"


def parse_list(answer: str) -> list[str]:
    """The distinct items of a model's list, however it is written: JSON, numbers, bullets, lines.

    A line that ends in a colon is a remark.
    """
    bare = _bare(answer)
    items = _json_items(bare) or [_unmarked(line) for line in bare.splitlines()]
    kept = [item for item in items if item and not item.endswith(":")]
    return list(dict.fromkeys(kept))


def parse_passage(answer: str) -> str:
    """The passage of a model's answer, without fences, labels and quotation marks around it."""
    return " ".join(_unmarked(_bare(answer)).split())


def _bare(answer: str) -> str:
    return _FENCE.sub("", _THOUGHTS.sub("", answer)).strip()


def _unmarked(line: str) -> str:
    text = _MARKER.sub("", line).strip()
    quoted = len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES
    return text.strip(_QUOTES).strip() if quoted else text


def _json_items(text: str) -> list[str]:
    """The texts of the first JSON value in an answer, none if there is no such value."""
    start = _OPENING.search(text)
    if start is None:
        return []
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start.start())
    except (ValueError, RecursionError):
        return []
    return [text.strip() for text in _strings(value)]


def _strings(value: object) -> list[str]:
    """The items of a list, of the list in a dict, or the values of a dict without one."""
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        value = lists[0] if lists else list(value.values())
    items = value if isinstance(value, list) else []
    texts = (_first_text(item) if isinstance(item, dict) else item for item in items)
    return [text for text in texts if isinstance(text, str)]


def _first_text(item: dict[str, object]) -> str | None:
    return next((part for part in item.values() if isinstance(part, str)), None)


def feedback_candidates(texts: Sequence[str], languages: Sequence[str | None]) -> list[str]:
    """The terms that feedback may add, to look up their IDF: sorted, each once.

    Of several passages, terms that two of them hold; no stop words, no single characters.
    `languages` are those of the texts, one each.
    """
    bags = [set(_content_terms(*pair)) for pair in zip(texts, languages, strict=True)]
    holders = Counter(term for bag in bags for term in bag)
    return sorted(term for term, count in holders.items() if count > 1 or len(bags) == 1)


def feedback_terms(
    texts: Sequence[str],
    scores: Sequence[float],
    languages: Sequence[str | None],
    idf: Mapping[str, float],
    count: int,
    *,
    known: Collection[str] = (),
) -> tuple[tuple[Term, ...], ...]:
    """The `count` terms that tell the passages apart from the rest of the base, best first.

    A term is worth its share of each passage, weighted by the passage's score, times its IDF
    (a relevance model, as in RM3). The best gets `FEEDBACK_WEIGHT`, others less in proportion.
    Only terms of `idf` come in question, and none of `known`, the query's own.
    """
    worth: dict[str, float] = {}
    for text, language, weight in zip(texts, languages, _score_shares(scores), strict=True):
        terms = Counter(_content_terms(text, language))
        for term, times in terms.items():
            value = weight * times / terms.total() * idf.get(term, 0.0)
            worth[term] = worth.get(term, 0.0) + value
    kept = [(term, value) for term, value in worth.items() if value > 0 and term not in known]
    best = sorted(kept, key=lambda pair: (-pair[1], pair[0]))[:count]
    return tuple((Term(term, FEEDBACK_WEIGHT * (value / best[0][1])),) for term, value in best)


def _score_shares(scores: Sequence[float]) -> list[float]:
    """Shares of the scores; equal ones if there is none above 0."""
    above = [max(score, 0.0) for score in scores]
    total = sum(above)
    return [score / total for score in above] if total else [1.0] * len(above)


def _content_terms(text: str, language: str | None) -> list[str]:
    stops = stop_words(language)
    pairs = zip(words(text), analyze(text, language), strict=True)
    return [term for word, term in pairs if len(term) > 1 and fold(word) not in stops]
