from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Chunk, Document
from lagotto.embedders import ApproximateTokenizer
from lagotto.readers import ReadOptions, Source
from lagotto.readers.base import TextBuilder
from tests.chunkers.words import Words
from tests.readers.samples import only

SENTENCE = "Some dogs find truffles below old oaks. "


def chunked(markdown: str, chunker: str = "section:40/8") -> list[Chunk]:
    document = only(markdown.encode(), "x.md")
    return CHUNKERS.create(chunker, tokenizer=Words()).chunk(document)


def sections(markdown: str, chunker: str = "section:40/8") -> list[str]:
    return [" > ".join(chunk.heading_path) for chunk in chunked(markdown, chunker)]


def test_a_large_section_does_not_share_chunks() -> None:
    text = f"# Log\n\n## 0.31.0\n\n{SENTENCE * 4}\n\n## 0.30.0\n\n{SENTENCE * 4}"
    assert sections(text) == ["Log > 0.31.0", "Log > 0.30.0"]


def test_small_siblings_are_merged_under_their_parent() -> None:
    text = "# Log\n\n## 0.31.0\n\nFaster.\n\n## 0.30.0\n\nDrop Python 3.7.\n"
    (chunk,) = chunked(text)
    assert chunk.heading_path == ("Log",)
    assert [section.heading_path for section in chunk.sections] == [
        ("Log", "0.31.0"),
        ("Log", "0.30.0"),
    ]


def test_a_small_section_does_not_join_that_of_another_parent() -> None:
    text = f"# A\n\n## A1\n\n{SENTENCE * 5}\n\n## A2\n\nSmall.\n\n# B\n\n{SENTENCE * 5}"
    assert sections(text) == ["A > A1", "A > A2", "B"]


def test_a_heading_without_text_is_not_alone() -> None:
    text = f"# A\n\n## A1\n\n{SENTENCE * 9}\n\n## A2\n\n{SENTENCE * 9}"
    first, *_ = chunked(text)
    assert first.text.startswith("# A\n\n## A1\n\nSome dogs")


def test_sections_are_merged_even_if_the_first_skips_a_level() -> None:
    first, _ = chunked(f"# A\n\n### X\n\nSmall.\n\n## Y\n\nSmall.\n\n## Z\n\n{SENTENCE * 5}")
    assert [section.heading_path for section in first.sections] == [("A", "X"), ("A", "Y")]


def test_text_before_the_first_heading() -> None:
    assert sections(f"{SENTENCE * 5}\n\n# A\n\n{SENTENCE * 5}") == ["", "A"]


@pytest.mark.parametrize("overlap", [0, 8, 16])
def test_chunks_begin_at_sentences(overlap: int) -> None:
    lines = (SENTENCE * 30).replace("below ", "below\n")
    chunks = chunked(lines, f"section:40/{overlap}")
    assert len(chunks) > 5
    assert all(chunk.text.startswith("Some dogs") for chunk in chunks)
    shared = sum(one.end > two.start for one, two in pairwise(chunks))
    assert (shared > 0) == (overlap >= 8)


def test_a_chunk_is_filled_to_a_quarter_rather_than_cut_within_a_sentence() -> None:
    text = "A short one is here, with fifteen words in it, so that it fills a quarter. " + (
        "word " * 30 + "end. "
    )
    first, second, *_ = chunked(text)
    assert first.text.rstrip().endswith("quarter.")
    assert second.text.startswith("word")


def test_code_begins_at_lines() -> None:
    code = "\n".join(f"value_{number} = compute(number) + {number}" for number in range(60))
    document = only(code.encode(), "x.py")
    chunks = CHUNKERS.create("section:40/8", tokenizer=Words()).chunk(document)
    assert len(chunks) > 3
    assert all(chunk.text.startswith("value_") for chunk in chunks)


def test_lines_of_code() -> None:
    code = "import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return 2\n"
    document = Document(kind="code", text=code)
    chunks = CHUNKERS.create("code:8/0", tokenizer=Words()).chunk(document)
    found = {chunk.text.strip().split("(")[0]: chunk.lines for chunk in chunks}
    assert found == {"import os\n\n\ndef first": (1, 5), "def second": (8, 9)}
    prose = CHUNKERS.create("code:8/0", tokenizer=Words()).chunk(Document(text=code))
    assert all(chunk.lines is None for chunk in prose)


def test_many_headings_take_linear_time() -> None:
    deep = "\n\n".join(f"{'#' * (1 + number % 6)} Heading {number}" for number in range(5000))
    assert chunked(deep)


class TestAuto:
    """Each kind of document has its own way, under one id."""

    def chunks(self, document: Document) -> list[Chunk]:
        chunks = CHUNKERS.create("auto:40/8", tokenizer=Words()).chunk(document)
        assert {chunk.chunker_id for chunk in chunks} == {"auto:40/8"}
        return chunks

    def slides(self, kind: str, *, paged: bool = True) -> Document:
        builder = TextBuilder()
        for title in ("Risks", "Costs", "Plan"):
            if paged:
                builder.page()
            builder.heading(title, level=1)
            builder.paragraph(SENTENCE)
        source = Source(name="x.pptx")
        return builder.draft().document(source, kind=kind, options=ReadOptions())

    def test_a_slide_is_not_merged_with_the_next(self) -> None:
        chunks = self.chunks(self.slides("pptx"))
        assert [chunk.pages for chunk in chunks] == [(1, 1), (2, 2), (3, 3)]
        assert [chunk.heading_path for chunk in chunks] == [("Risks",), ("Costs",), ("Plan",)]

    @pytest.mark.parametrize("chunker", ["prose:40/8", "section:40/8", "auto:40/8"])
    def test_nor_is_a_page_that_begins_with_a_heading(self, chunker: str) -> None:
        create = CHUNKERS.create(chunker, tokenizer=Words())
        assert len(create.chunk(self.slides("pdf"))) == 3
        assert len(create.chunk(self.slides("docx", paged=False))) < 3

    def test_nor_is_a_sheet(self) -> None:
        assert len(self.chunks(self.slides("xlsx", paged=False))) == 3

    def test_functions_stay_whole(self) -> None:
        lines = "\n".join(f"    step_{number}()" for number in range(16))
        python = only(f"def first():\n{lines}\n\n\ndef second():\n{lines}\n".encode(), "x.py")
        assert [chunk.heading_path for chunk in self.chunks(python)] == [("first",), ("second",)]
        body = "\n".join(f"  step{number}();" for number in range(24))
        script = only(
            f"function a() {{\n{body}\n}}\n\nfunction b() {{\n{body}\n}}\n".encode(), "x.js"
        )
        assert [chunk.text[:10] for chunk in self.chunks(script)] == ["function a", "function b"]

    def test_prose_is_cut_by_sections(self) -> None:
        text = f"# A\n\n{SENTENCE * 5}\n\n# B\n\n{SENTENCE * 5}"
        assert sections(text, "auto:40/8") == sections(text) == ["A", "B"]


def test_prose_cuts_long_documents_finer() -> None:
    short, long = SENTENCE * 6, SENTENCE * 60
    assert sections(short, "prose:40/8") == sections(short)
    assert [chunk.text for chunk in chunked(short, "prose:40/8")] == [
        chunk.text for chunk in chunked(short, "section:40/8")
    ]
    assert [chunk.text for chunk in chunked(long, "prose:40/8")] == [
        chunk.text for chunk in chunked(long, "section:20/0")
    ]


class CountingTokenizer(ApproximateTokenizer):
    """Remembers the texts whose tokens were located."""

    def __init__(self) -> None:
        self.located: list[str] = []

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        self.located += texts
        return super().starts(texts)


@pytest.mark.parametrize(
    ("text", "is_located"),
    [("A short text. " * 20, False), ("Ein kürzerer Text. " * 20, False), ("word " * 400, True)],
)
def test_the_tokens_of_a_short_text_are_only_counted(text: str, is_located: bool) -> None:
    tokenizer = CountingTokenizer()
    CHUNKERS.create("prose", tokenizer=tokenizer).chunk(Document(id="a", text=text))
    assert bool(tokenizer.located) == is_located
