"""The named chunkers, from `recursive` to `document`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise

from lagotto._internal.tokens import Tokenizer
from lagotto.chunkers.base import SMALLEST_CHUNK, parse_sizes
from lagotto.chunkers.spans import Cut, Cutter, SpanChunker, make_chunks
from lagotto.chunkers.structure import is_bare
from lagotto.documents import CODE, Chunk, Document, Heading, Span
from lagotto.errors import ConfigError


def _pages(document: Document) -> Iterable[Span]:
    """The pages; text before the first or after the last belongs to the nearest."""
    edges = [0, *(item.start for item in document.pages[1:]), len(document.text)]
    return [Span(start, end) for start, end in pairwise(edges) if start < end]


def _sections(document: Document) -> Iterable[Span]:
    """Yield the text from each heading to the next; a heading without text joins the next one."""
    text = document.text
    starts = [item.start for item in document.headings]
    headings = set(starts)
    start = 0
    for before, end in pairwise([0, *starts, len(text)]):
        bare = is_bare(text[before:end]) if before in headings else not text[:end].strip()
        if end == len(text) or not bare:
            yield Span(start, end)
            start = end


recursive = partial(SpanChunker, "recursive", defaults=(256, 32))
"""Prefers sections, then paragraphs, sentences, lines and words."""
sentence = partial(SpanChunker, "sentence", defaults=(256, 32), ranks=("sentence", "part", "word"))
"""Fills chunks with sentences; table rows and list items count as such."""
code = partial(
    SpanChunker, "code", defaults=(256, 0), ranks=("definition", "paragraph", "line", "word")
)
"""For any language: an unindented line after a blank line is a definition."""
page = partial(SpanChunker, "page", defaults=(512, 0), regions=_pages)
"""One chunk per page, or several if the page is larger than SIZE."""
heading = partial(SpanChunker, "heading", defaults=(256, 32), regions=_sections)
"""Cuts at every heading, and within sections as `recursive` does."""

SMALL = 0.25
"""Sections of up to this share of the size join their siblings."""

LONG = 4
"""Documents of more than this many chunks are cut finer.

Of a long document only parts answer a question, and small parts leave room for others: in packs of
400 and 1,000 tokens there is a third and a tenth more of the evidence than with chunks of the full
size (`lagotto eval benchmarks/clauses`). A short document is found by what it
says as a whole: with small chunks everywhere, nDCG@10 was .005 lower on XQuAD.
"""


class SectionChunker(SpanChunker):
    """Cuts a document into its sections, larger ones further, and merges small ones.

    As `prose`, it cuts long documents into chunks of half the size without overlap.
    """

    def __init__(self, name: str, parameters: str, tokenizer: Tokenizer) -> None:
        super().__init__(name, parameters, tokenizer, defaults=(256, 32))
        self._finer = name == "prose"

    def chunk(self, document: Document) -> list[Chunk]:
        cutter = Cutter(document, self._tokenizer, strict=True)
        size, overlap = self._size, self._overlap
        # each token of ASCII has a character of its own: few texts are read to know their length
        is_short = len(document.text) <= LONG * size and document.text.isascii()
        if self._finer and not is_short and cutter.all_tokens > LONG * size:
            size, overlap = max(SMALLEST_CHUNK, size // 2), 0
        cuts = (
            cut
            for region in _regions(document, tokens=cutter.tokens, size=size)
            for cut in cutter.cut(region, size=size, overlap=overlap)
        )
        return make_chunks(document, self.id, cuts, common_headings=True)


section = partial(SectionChunker, "section")
prose = partial(SectionChunker, "prose")


def _regions(document: Document, *, tokens: Callable[[Span], int], size: int) -> Iterator[Span]:
    """The stretches of a document that no chunk leaves; together they are the whole text.

    A section that fits into a chunk stays whole. It joins the stretch before if that is of its
    parent or of its siblings, both fit into one chunk, and one of them is small; not if it begins
    a page, as a slide does. A heading without text is never alone.
    """
    text = document.text
    page_starts = {page.start for page in document.pages}
    start = last = covered = 0
    level: int | None = None  # of the first heading of the stretch
    bare = True

    def joins(heading: Heading) -> bool:
        if heading.level < (level or 0) or heading.start in page_starts:
            return False
        if tokens(Span(start, heading.end)) > size:
            return False
        parts = tokens(Span(start, heading.start)), tokens(Span(heading.start, heading.end))
        return min(parts) <= SMALL * size

    for heading in document.headings:
        if heading.start < covered:
            continue
        between = text[last : heading.start]
        bare = bare and (not between.strip() if level is None else is_bare(between))
        if not bare and not joins(heading):
            yield Span(start, heading.start)
            start, level, bare = heading.start, heading.level, True
        elif level is None and bare:
            level = heading.level
        last = heading.start
        if tokens(Span(start, heading.end)) <= size:
            covered, bare = heading.end, False
    yield Span(start, len(text))


class AutoChunker:
    """Cuts each kind of document in its own way: slides, sheets and code, and prose by sections.

    A slide or a sheet is not merged with the next one. Functions and classes of Python, which are
    its sections, stay whole where they fit, and so do the definitions of other languages.
    """

    def __init__(self, parameters: str, tokenizer: Tokenizer) -> None:
        size, overlap = parse_sizes("auto", parameters, (256, 32))
        self.id = f"auto:{size}/{overlap}"
        self._prose = prose(f"{size}/{overlap}", tokenizer)
        self._definitions = section(f"{size}/{overlap}", tokenizer)
        self._code = code(f"{size}/0", tokenizer)
        self._slides = page(f"{size}/{overlap}", tokenizer)
        self._sheets = heading(f"{size}/0", tokenizer)
        for own in (self._prose, self._definitions, self._code, self._slides, self._sheets):
            own.id = self.id  # part of the ids of chunks

    def chunk(self, document: Document) -> list[Chunk]:
        chunker: SpanChunker = self._prose
        if document.kind == CODE:
            chunker = self._definitions if document.headings else self._code
        elif document.kind == "pptx" and document.pages:
            chunker = self._slides
        elif document.kind == "xlsx":
            chunker = self._sheets
        return chunker.chunk(document)


class ParentChildChunker:
    """Cuts parents as `recursive` does, without overlap, and each parent into children."""

    def __init__(self, parameters: str, tokenizer: Tokenizer) -> None:
        sizes = parse_sizes("parent-child", parameters, (1024, 256, 32))
        self._parent_size, self._child_size, self._overlap = sizes
        self.id = f"parent-child:{'/'.join(map(str, sizes))}"
        self._tokenizer = tokenizer

    def chunk(self, document: Document) -> list[Chunk]:
        cutter = Cutter(document, self._tokenizer)
        text = Span(0, len(document.text))
        large = cutter.cut(text, size=self._parent_size, overlap=0)
        parents = make_chunks(document, self.id, large, level="parent")
        cuts: list[Cut] = []
        parent_of_cut: list[Chunk] = []
        for parent in parents:
            span = Span(parent.start, parent.end)
            cuts += cutter.cut(span, size=self._child_size, overlap=self._overlap)
            parent_of_cut += [parent] * (len(cuts) - len(parent_of_cut))
        return parents + make_chunks(document, self.id, cuts, level="child", parents=parent_of_cut)


class DocumentChunker:
    """Creates one chunk of any length; a blank text has none."""

    id = "document"

    def __init__(self, parameters: str, tokenizer: Tokenizer) -> None:
        if parameters:
            raise ConfigError(f"document takes no parameters, got {parameters!r}; write document")
        self._tokenizer = tokenizer

    def chunk(self, document: Document) -> list[Chunk]:
        text = document.text
        cuts = [Cut(0, len(text), *self._tokenizer.count([text]))] if text.strip() else []
        return make_chunks(document, self.id, cuts)
