"""Where chunkers cut, by examples small enough to check by eye."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Block, Chunk, Document, Heading, Page, Span
from tests.chunkers.words import Words


def cut(chunker_id: str, document: Document | str) -> list[Chunk]:
    if isinstance(document, str):
        document = Document(text=document)
    return CHUNKERS.create(chunker_id, tokenizer=Words()).chunk(document)


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def table(rows: list[str], *, before: str = "") -> Document:
    text, parts = before, []
    for row in rows:
        parts.append(Span(len(text), len(text) + len(row) + 1))
        text += row + "\n"
    block = Block(start=len(before), end=len(text), kind="table", parts=tuple(parts))
    return Document(text=text, blocks=(block,))


@pytest.mark.parametrize(
    ("chunker", "expected"),
    [
        ("recursive:10/0", ["One two three.\n\nFour five."]),  # it fits
        ("recursive:10/0", ["a b c. d e f.\n\n", "g h. i j k. l m n."]),
        ("recursive:8/0", ["All of it was good. ", "But none of it went on."]),
        ("sentence:8/0", ["We met Dr. Smith in the street. ", "He was late again today."]),
    ],
)
def test_paragraphs_are_preferred_to_sentences_and_these_to_words(
    chunker: str, expected: list[str]
) -> None:
    assert texts(cut(chunker, "".join(expected))) == expected


def test_sentences_in_other_scripts() -> None:
    document = Document(text="Раз два три четыре пять. Шесть семь восемь девять.", language="ru")
    assert len(cut("sentence:8/0", document)) == 2


def test_a_word_longer_than_a_chunk_is_cut() -> None:
    chunks = cut("recursive:8/0", "x" * 1000)
    assert "".join(texts(chunks)) == "x" * 1000
    assert max(len(chunk.text) for chunk in chunks) == 8 * 16


def test_overlap_repeats_as_many_words_as_asked() -> None:
    words = " ".join(f"w{number}" for number in range(100))
    chunks = cut("recursive:20/5", words)
    for before, after in pairwise(chunks):
        shared = words[after.start : before.end].split()
        assert len(shared) == 5


def test_overlap_prefers_to_start_at_a_sentence() -> None:
    text = "A b c d. E f g h. I j k l. M n o p. Q r s t. U v w x."
    first, second, *_ = cut("sentence:16/8", text)
    assert first.text.endswith("M n o p. ")
    assert second.text.startswith("I j k l. ")


def test_indentation_stays_with_its_line() -> None:
    code = "def f():\n    one two three four five six\n    seven eight nine ten\n"
    assert texts(cut("recursive:8/0", code))[1].startswith("    seven")


def test_rows_are_not_cut() -> None:
    rows = [f"cell{number} a b c d" for number in range(6)]
    chunks = cut("recursive:12/4", table(rows, before="An intro of just seven words here.\n\n"))
    assert texts(chunks) == [
        "An intro of just seven words here.\n\n",
        "".join(f"{row}\n" for row in rows[0:2]),
        "".join(f"{row}\n" for row in rows[2:4]),
        "".join(f"{row}\n" for row in rows[4:6]),
    ]
    assert [chunk.row_range for chunk in chunks] == [None, (1, 2), (3, 4), (5, 6)]
    assert [chunk.element for chunk in chunks] == ["paragraph", "table", "table", "table"]


def test_a_row_larger_than_a_chunk_is_cut_at_words() -> None:
    long_row = " ".join(f"w{number}" for number in range(20))
    chunks = cut("recursive:8/0", table(["a b", long_row, "c d"]))
    assert all(chunk.token_count <= 8 for chunk in chunks)
    assert [chunk.row_range for chunk in chunks] == [(1, 1), (2, 2), (2, 2), (2, 3)]


def test_items_of_a_list_are_kept_and_numbered() -> None:
    document = table(["- one two three four", "- five six seven eight", "- nine ten"])
    block = document.blocks[0].model_copy(update={"kind": "list"})
    chunks = cut("recursive:8/0", Document(text=document.text, blocks=(block,)))
    assert [chunk.item_range for chunk in chunks] == [(1, 1), (2, 3)]
    assert {chunk.element for chunk in chunks} == {"list"}


def sections() -> Document:
    text = "Preface.\n\n# A\n\n## A1\n\nbody of a1\n\n## A2\n\nbody of a2\n\n# B\n\nbody of b\n"
    at = {title: text.index(f"{title}\n") for title in ("# A", "## A1", "## A2", "# B")}
    return Document(
        text=text,
        headings=(
            Heading(start=at["# A"], end=at["# B"], level=1, title="A"),
            Heading(start=at["## A1"], end=at["## A2"], level=2, title="A1"),
            Heading(start=at["## A2"], end=at["# B"], level=2, title="A2"),
            Heading(start=at["# B"], end=len(text), level=1, title="B"),
        ),
    )


def test_heading_chunks_keep_to_their_section() -> None:
    chunks = cut("heading:100/0", sections())
    assert [chunk.text.strip().splitlines()[-1] for chunk in chunks] == [
        "Preface.",
        "body of a1",
        "body of a2",
        "body of b",
    ]
    assert [chunk.heading_path for chunk in chunks] == [(), ("A",), ("A", "A2"), ("B",)]


def test_markdown_is_another_name_for_heading() -> None:
    assert CHUNKERS.create("markdown:64/8", tokenizer=Words()).id == "heading:64/8"


def test_page_chunks_keep_to_their_page() -> None:
    text = "One two.\nThree four.\nFive six."
    pages = (
        Page(start=0, end=9, number=1),
        Page(start=9, end=21, number=2),
        Page(start=21, end=30, number=3),
    )
    chunks = cut("page:100/0", Document(text=text, pages=pages))
    assert texts(chunks) == ["One two.\n", "Three four.\n", "Five six."]
    assert [chunk.pages for chunk in chunks] == [(1, 1), (2, 2), (3, 3)]


def test_a_chunk_says_which_pages_it_touches() -> None:
    pages = (Page(start=0, end=9, number=4), Page(start=9, end=20, number=5))
    (chunk,) = cut("recursive:100/0", Document(text="One two.\nThree four.", pages=pages))
    assert chunk.pages == (4, 5)


def test_code_is_cut_between_definitions() -> None:
    one = "def one():\n    a = 1\n\n    b = 2\n    return a\n\n\n"
    two = "def two():\n    a = 1\n\n    b = 2\n    return b\n"
    assert texts(cut("code:14/0", one + two)) == [one, two]


def test_children_lie_in_their_parents() -> None:
    words = " ".join(f"w{number}" for number in range(100))
    chunks = cut("parent-child:40/10/0", words)
    parents = [chunk for chunk in chunks if chunk.level == "parent"]
    children = [chunk for chunk in chunks if chunk.level == "child"]
    assert [parent.token_count for parent in parents] == [40, 40, 20]
    assert [child.parent_id for child in children] == [
        parent.id for parent in parents for _ in range(parent.token_count // 10)
    ]


def test_ids_depend_on_the_chunker_and_the_level() -> None:
    text = "A text that fits."
    ids = {
        chunk.id
        for name in ("recursive:16/0", "recursive:17/0", "parent-child:16/8/0")
        for chunk in cut(name, text)
    }
    assert len(ids) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recursive", "sentence", "heading", "page", "code"])
def test_a_long_text_is_cut_in_linear_time(name: str) -> None:
    """Not timed: a quadratic chunker would not come back from this."""
    text = "Some words of a sentence. " * 100_000
    chunks = cut(f"{name}:256/32", text)
    assert chunks[-1].end == len(text)


SENTENCES = {
    "en": "Revenue of the segment rose by nine percent over the year. ",
    "ru": "Выручка этого сегмента выросла за год на девять процентов. ",
    "de": "Der Umsatz der Sparte stieg im Jahr um neun Prozent. ",
    "hi": "इस वर्ष खंड का राजस्व नौ प्रतिशत बढ़ गया। ",
}


def wrapped(text: str, width: int = 7) -> str:
    """`text` with a line end after every `width` words, as in a PDF."""
    words = text.split()
    rows = range(0, len(words), width)
    return "\n".join(" ".join(words[row : row + width]) for row in rows)


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("chunker", ["recursive:40/12", "heading:40/12", "section:40/12"])
def test_chunks_of_wrapped_lines_start_at_sentences(chunker: str, language: str) -> None:
    sentence = SENTENCES[language]
    document = Document(text=wrapped(sentence * 20), language=language)
    chunks = cut(chunker, document)
    assert {chunk.text.split()[0] for chunk in chunks} == {sentence.split()[0]}
    assert all(before.end > after.start for before, after in pairwise(chunks))


def test_an_overlap_too_small_for_a_sentence_starts_within_one() -> None:
    first, second, *_ = cut("recursive:20/4", SENTENCES["en"] * 6)
    assert first.text.endswith("year. ")
    assert second.text.startswith("percent over the year. Revenue")


def test_within_a_long_sentence_an_overlap_starts_at_a_line() -> None:
    text = wrapped("one two three four five six seven " * 9)
    first, second, *_ = cut("recursive:28/10", text)
    assert second.text.startswith("one two")
    assert second.start < first.end


def headed(*parts: tuple[str, str]) -> Document:
    """Sections of one level, each a heading and its text."""
    text, headings = "", []
    for title, body in parts:
        start = len(text)
        text += f"{title}\n\n{body}"
        headings.append(Heading(start=start, end=len(text), level=1, title=title))
    return Document(text=text, headings=tuple(headings))


@pytest.mark.parametrize("title", ["Two", "Two\n==="])
def test_a_heading_stays_with_its_text(title: str) -> None:
    """Even where a table below it is the coarser boundary."""
    head = headed(("One", "a b c d.\n\n"), (title, ""))
    rows = table(["e f g", "h i j"], before=head.text)
    last = head.headings[-1].model_copy(update={"end": len(rows.text)})
    document = Document(text=rows.text, blocks=rows.blocks, headings=(head.headings[0], last))
    chunks = cut("recursive:8/0", document)
    assert texts(chunks) == ["One\n\na b c d.\n\n", f"{title}\n\ne f g\nh i j\n"]


def test_an_empty_section_ends_where_the_next_starts() -> None:
    document = headed(("One", "a b c d.\n\n"), ("Two", ""), ("Three", "e f g h i j."))
    assert texts(cut("recursive:8/0", document)) == [
        "One\n\na b c d.\n\nTwo\n\n",
        "Three\n\ne f g h i j.",
    ]
