"""`context`: cited passages with what is around them, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lagotto.context import ContextPack
from lagotto.context.cite import key_of_text
from lagotto.context.formats import CUT
from lagotto.context.passages import stitched
from lagotto.documents import Span
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import most
from lagotto.mcp.excerpts import fitting, status
from lagotto.mcp.names import make_cursor, parse_cursor
from lagotto.mcp.quotation import NOTICE, label, label_room, quoted
from lagotto.mcp.tools.base import Tool
from lagotto.mcp.tools.search import NOTHING, SearchArguments
from lagotto.results import Results

PACKED = 0.7
"""The share of the budget that is asked of the pack: its tokens are those of the embedder, and it
does not count the quotation marks."""


@dataclass(frozen=True, slots=True)
class QuotedPassage:
    """A passage of an answer; `ranks` are those of the hits in it."""

    collection: str
    document_id: str
    start: int
    text: str
    label: str
    ranks: frozenset[int]
    is_cut: bool = False

    def block(self, marker: int, *, room: int) -> str:
        """The passage under its marker; its label has `room` characters."""
        key = key_of_text(self.collection, self.document_id, self.start, self.text)
        shown = self.text.rstrip() + CUT * self.is_cut
        return f"[{marker}] {label(self.label, most=room)} key={key}\n{quoted(shown)}"

    def cut(self, length: int) -> QuotedPassage:
        """Its beginning."""
        return replace(self, text=self.text[:length], is_cut=length < len(self.text))


async def context(base: AgentBase, asked: SearchArguments) -> str:
    """The pack of a query, or, from a cursor on, the hits that it had no room for."""
    question = asked.question(asked.top_k)
    if asked.cursor:
        (seen,) = parse_cursor(asked.cursor, of=[*asked.scope, asked.top_k])
        found = await base.retrieve(question)
        return _answer(asked, _of_hits(found, seen), total=len(found), seen=seen)
    pack = await base.context(question, max_tokens=int(PACKED * asked.max_tokens))
    if not any(candidate.score > 0 for candidate in pack.trace.candidates):
        return _answer(asked, (), total=0, seen=0)
    total = min(asked.top_k, len(pack.trace.candidates))
    return _answer(asked, _of_pack(pack), total=total, seen=0)


def _answer(
    asked: SearchArguments, passages: Sequence[QuotedPassage], *, total: int, seen: int
) -> str:
    """As many passages as fit; of the first one at least the beginning."""
    room = label_room(asked.max_tokens)

    def render(chosen: Sequence[QuotedPassage]) -> str:
        ranks = frozenset[int]().union(*(passage.ranks for passage in chosen))
        blocks = [passage.block(at, room=room) for at, passage in enumerate(chosen, seen + 1)]
        missing = next((rank for rank in range(seen + 1, total + 1) if rank not in ranks), None)
        scope = [*asked.scope, asked.top_k]
        more = make_cursor(missing - 1, of=scope) if missing and chosen else None
        note = NOTICE if chosen else NOTHING.capitalize()
        return "\n".join([status("hits", len(ranks), total, more), note, *blocks])

    number = most(len(passages), lambda n: render(passages[:n]), budget=asked.max_tokens)
    if number or not passages:
        return render(passages[:number])
    first = passages[0]
    span = Span(0, len(first.text))
    length = fitting(first.text, span, lambda n: render([first.cut(n)]), budget=asked.max_tokens)
    return render([first.cut(length)])


def _of_pack(pack: ContextPack) -> list[QuotedPassage]:
    return [
        QuotedPassage(
            citation.collection,
            citation.document_id,
            citation.start,
            stitched((chunk.start, chunk.text) for chunk in chunks),
            citation.label,
            frozenset(chunk.rank for chunk in chunks if chunk.role == "primary"),
            any(chunk.truncated and chunk.end == citation.end for chunk in chunks),
        )
        for citation in pack.citations
        if (chunks := [each for each in pack.selected_chunks if each.marker == citation.marker])
    ]


def _of_hits(found: Results, seen: int) -> list[QuotedPassage]:
    return [
        QuotedPassage(
            hit.collection,
            hit.document_id,
            hit.start,
            hit.content,
            hit.citation,
            frozenset({hit.rank}),
        )
        for hit in found[seen:]
    ]


CONTEXT = Tool(
    "context",
    "Cited passages for a question, with what surrounds them, in one call. "
    'filters: {"field": value}.',
    SearchArguments,
    context,
)
