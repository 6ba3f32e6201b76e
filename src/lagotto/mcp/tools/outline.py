"""`outline`: the sections of a document, numbered for `read`."""

from __future__ import annotations

from lagotto.chunkers.structure import Structure
from lagotto.documents import Document
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import BYTES_PER_TOKEN, most
from lagotto.mcp.excerpts import scope_of, status
from lagotto.mcp.names import Target, make_cursor, parse_cursor
from lagotto.mcp.quotation import MARK, NOTICE, label, label_room, shortened
from lagotto.mcp.sections import Section, line_count, sections
from lagotto.mcp.tools.base import Arguments, DocumentId, Tool, found_document


class OutlineArguments(Arguments):
    """What `outline` takes."""

    id: DocumentId


async def outline(base: AgentBase, asked: OutlineArguments) -> str:
    """The sections from the cursor on, as many as fit."""
    target = Target.parse(asked.id)
    document = await found_document(base, target.name)
    scope = ["outline", *scope_of(document)]
    (start,) = parse_cursor(asked.cursor, of=scope) if asked.cursor else (0,)
    known = sections(document)
    lines = _lines(document, known[start:])
    title = document.title or document.source or document.id
    head = f"{label(title, most=label_room(asked.max_tokens))} id={target.name}"

    def render(shown: int) -> str:
        end = start + shown
        more = make_cursor(end, of=scope) if shown and end < len(known) else None
        first = status("sections", shown, len(known), more)
        return "\n".join([first, head, _size(document), NOTICE, *lines[:shown]])

    return render(most(len(lines), render, budget=asked.max_tokens))


def _size(document: Document) -> str:
    text = document.text
    pages = f"{len(document.pages)} pages, " if document.pages else ""
    return f"{pages}{line_count(text)} lines, {len(text)} characters"


def _lines(document: Document, known: list[Section]) -> list[str]:
    structure = Structure(document)
    return [_line(section, structure.pages(section.span)) for section in known]


def _line(section: Section, pages: tuple[int, int] | None) -> str:
    tokens = -(-(section.span.end - section.span.start) // BYTES_PER_TOKEN)
    where = f", page {pages[0]}" if pages else ""
    return f"{MARK}{section.number} {shortened(section.heading.title)} (~{tokens} tokens{where})"


OUTLINE = Tool(
    "outline", "List a document's sections, with numbers for read.", OutlineArguments, outline
)
