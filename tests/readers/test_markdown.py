from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.errors import EmptySourceError
from lagotto.readers import read_text
from lagotto.testing.readers import check_structure
from tests.readers.samples import MARKDOWN, only, texts


def read(text: str) -> Document:
    [document] = read_text(text, kind="markdown")
    return document


def test_front_matter_and_headings_span_their_sections_and_blocks() -> None:
    document = only(MARKDOWN, "cats.md")
    assert (document.title, document.language) == ("On cats", "en")
    assert document.created_at == datetime(2024, 5, 6, tzinfo=UTC)
    assert document.metadata == {"author": "Ann", "date": "2024-05-06", "tags": ["cats", "sleep"]}
    assert document.text == MARKDOWN.split("---\n", 2)[2]
    cats, facts = document.headings
    assert (cats.title, cats.level, cats.start, cats.end) == ("Cats", 1, 0, len(document.text))
    assert (facts.title, facts.level, facts.end) == ("Facts", 2, len(document.text))
    assert document.text[facts.start :].startswith("## Facts\n")
    assert texts(document, "table") == [
        "| cat | hours |\n|-----|-------|",
        "| Tom | 16    |",
        "| Kit | 14    |",
    ]
    assert texts(document, "list") == ["- eat", "- sleep\n  - deeply"]
    assert texts(document, "code") == ["```python\n# no heading\nnap()\n```"]


def test_titles_lose_their_markup() -> None:
    document = read("# The *very* `best` [cat](http://x) &amp;\nmore\n\nSetext\nheading\n===\n")
    assert [h.title for h in document.headings] == ["The very best cat &", "Setext heading"]
    assert document.title == "The very best cat &"


def test_headings_and_blocks_inside_a_block_belong_to_it() -> None:
    assert read("> # quoted\n\n- # listed\n").headings == ()
    document = read("1. a\n\n   ```\n   x\n   ```\n2. b\n   - c\n\n> - quoted\n>   list\n")
    assert [block.kind for block in document.blocks] == ["list", "list"]
    parts = [[document.text[p.start : p.end] for p in b.parts] for b in document.blocks]
    assert parts == [
        ["1. a\n\n   ```\n   x\n   ```", "2. b\n   - c"],
        ["> - quoted\n>   list"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "front",
    [
        "a: [",
        "just text",
        "- list",
        "a: &x [1]\nb: [*x, *x]",
        "a: !!python/name:os.system",
        "a: !!int x",
        "a: " + "[" * 3000,
        "a: 2024-99-99",
        "a: 1" + ":0" * 300 + ".5",
        "? [1]\n: 2",
    ],
)
def test_broken_front_matter_is_text(front: str) -> None:
    text = f"---\n{front}\n---\nbody\n"
    document = read(text)
    assert document.text == text
    assert document.metadata == {}


def test_front_matter_keeps_what_json_has_no_word_for() -> None:
    document = read("---\n1: one\nnan: .nan\nbig: 123456789012345678901234567890\n---\nbody")
    assert document.metadata == {"1": "one", "nan": "nan", "big": "123456789012345678901234567890"}


def test_a_rule_at_the_top_is_no_front_matter_and_that_alone_is_empty() -> None:
    assert read("---\n\ntext\n").text == "---\n\ntext\n"
    assert read("--- \nlang: Elvish\n...\ntext").metadata == {"lang": "Elvish"}
    with pytest.raises(EmptySourceError):
        read("---\ntitle: nothing else\n---\n")


PIECES = st.sampled_from(
    ["# ", "## ", "- ", "1. ", "  ", "    ", "> ", "```", *"|ab\n\t\r", "---", "b|c", "\n\n"]
)


@given(st.lists(PIECES, min_size=1).map("".join))
def test_spans_fit_whatever_is_written(text: str) -> None:
    try:
        document = read(text)
    except EmptySourceError:
        assert not text.strip("- \t\r\n")
        return
    check_structure(document)
    for block in document.blocks:
        assert document.text[block.start : block.end].strip()


CELLS = st.text("abc 1", min_size=1).filter(str.strip)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_rows_hold_their_cells(rows: list[tuple[str, str]]) -> None:
    written = [f"| {one} | {other} |" for one, other in rows]
    document = read("\n".join(["intro", "", written[0], "|-|-|", *written[1:], "", "end"]))
    for row, text in zip(rows, texts(document, "table"), strict=True):
        assert all(cell.strip() in text for cell in row)
