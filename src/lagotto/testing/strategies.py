"""Hypothesis strategies for difficult texts and for documents with structure."""

from __future__ import annotations

from hypothesis import strategies as st

from lagotto.documents import Block, Document, Heading, Page, Span

_SAMPLES = """
the cat sat on a mat. Dr. Smith, e.g., went home! Really? 3.14 naïve Straße поле чудес. 你好。 世界
こんにちは ภาษาไทย שלום مرحبا 👩‍👩‍👧 e\u0301 İstanbul ﷺ x_y foo(bar) antidisestablishmentarianism
https://example.org/a?b=c#d
"""
_WORDS = st.sampled_from(_SAMPLES.split())
_GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", "\r\n", "\t", "\n    ", "", "\u00a0", "\u3000"])


def texts(*, max_words: int = 120) -> st.SearchStrategy[str]:
    """Prose in many scripts with any white space, and sometimes arbitrary Unicode."""
    prose = st.lists(st.tuples(_WORDS, _GAPS), max_size=max_words).map(
        lambda pairs: "".join(word + gap for word, gap in pairs)
    )
    return st.one_of(prose, st.text(max_size=300), st.text("ab .\n", max_size=600))


@st.composite
def documents(draw: st.DrawFn, *, max_elements: int = 12) -> Document:
    """Documents with paragraphs, headings, tables, lists and pages, and correct spans."""
    builder = _Builder()
    for _ in range(draw(st.integers(0, max_elements))):
        kind = draw(st.sampled_from(["paragraph", "heading", "table", "list", "page"]))
        if kind == "paragraph":
            builder.paragraph(draw(texts(max_words=40)))
        elif kind == "heading":
            builder.heading(draw(st.integers(1, 4)), draw(_WORDS))
        elif kind == "page":
            builder.page()
        else:
            parts = draw(st.lists(texts(max_words=25), min_size=1, max_size=6))
            builder.block("table" if kind == "table" else "list", parts)
    return builder.document()


class _Builder:
    """Appends elements to a text and records their spans."""

    def __init__(self) -> None:
        self._text = ""
        self._page_starts = [0]
        self._headings: list[tuple[int, int, str]] = []
        self._blocks: list[Block] = []

    def paragraph(self, text: str) -> None:
        self._text += text + "\n\n"

    def heading(self, level: int, title: str) -> None:
        self._headings.append((len(self._text), level, title))
        self.paragraph(title)

    def page(self) -> None:
        self._page_starts.append(len(self._text))

    def block(self, kind: str, parts: list[str]) -> None:
        start, spans = len(self._text), []
        for part in parts:
            begin = len(self._text)
            self._text += part.replace("\n", " ") + "\n"
            spans.append(Span(begin, len(self._text)))
        block = {"start": start, "end": len(self._text), "kind": kind, "parts": spans}
        self._blocks.append(Block.model_validate(block))
        self._text += "\n"

    def document(self) -> Document:
        ends = [*self._page_starts[1:], len(self._text)]
        pages = [
            Page(start=start, end=end, number=number)
            for number, (start, end) in enumerate(zip(self._page_starts, ends, strict=True), 1)
        ]
        headings = [
            Heading(start=start, end=self._section_end(index), level=level, title=title)
            for index, (start, level, title) in enumerate(self._headings)
        ]
        return Document(
            text=self._text,
            pages=tuple(pages) if len(pages) > 1 else (),
            headings=tuple(headings),
            blocks=tuple(self._blocks),
        )

    def _section_end(self, index: int) -> int:
        level = self._headings[index][1]
        later = self._headings[index + 1 :]
        return next((start for start, other, _ in later if other <= level), len(self._text))
