"""What may be added to a query before it is searched for: by rules, by feedback, by a model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lagotto.indexes.text_query import Term
from lagotto.retrieval.query.answers import answer_patterns, declarative
from lagotto.retrieval.query.feedback import feedback_candidates, feedback_terms

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

LONGEST_QUERY = 4_000
"""Characters of a query that a model is shown."""

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
    """What to look for besides the query.

    `queries` are other ways to ask; `passages` are made-up answers, which are embedded as
    documents; `terms` are more words for the text leg, each by its alternatives.
    """

    queries: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    terms: tuple[tuple[Term, ...], ...] = ()


@runtime_checkable
class Expander(Protocol):
    """Thinks of more to look for.

    Contract: `expand` changes nothing and may be called concurrently. An Expansion without
    anything in it means that there is nothing to add. The query itself is always searched for,
    so it need not be repeated. A failure is a RetrievalError: the search goes on without.
    """

    async def expand(self, query: str) -> Expansion:
        """What to look for besides `query`."""
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
