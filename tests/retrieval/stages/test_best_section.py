from __future__ import annotations

from pathlib import Path

import pytest

from lagotto import KnowledgeBase, RetrievalPrefs
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Chunk
from lagotto.retrieval.stages import best_section
from lagotto.testing.hash_embedder import HashEmbedder
from tests.chunkers.words import Words
from tests.readers.samples import only

LOG = """# Changelog

## 0.31.0

Faster searches. Support for Python 3.13.

## 0.30.0

Drop Python 3.7 support.

## 0.29.0

Truffles are found, not bought.
"""


@pytest.mark.parametrize(
    ("query", "headings"),
    [
        ("drop support of Python 3.7", ("Changelog", "0.30.0")),
        ("faster searches", ("Changelog", "0.31.0")),
        ("finding a truffle", ("Changelog", "0.29.0")),
        ("0.29.0", ("Changelog", "0.29.0")),
        ("Python", ("Changelog",)),
        ("nothing of it", ("Changelog",)),
    ],
)
def test_the_words_tell_the_section(query: str, headings: tuple[str, ...]) -> None:
    document = only(LOG.encode(), "log.md")
    (chunk,) = CHUNKERS.create("section:90/0", tokenizer=Words()).chunk(document)
    assert best_section(chunk, query, language="en").heading_path == headings


def test_hits_cite_the_best_section_and_packs_the_one_that_covers_the_passage(
    tmp_path: Path,
) -> None:
    (tmp_path / "log.md").write_text(LOG)
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder(), chunker="section") as kb:
        kb.add(tmp_path / "log.md")
        query = "drop support of Python 3.7"
        (hit,) = kb.retrieve(query)
        assert hit.heading_path == ("Changelog", "0.30.0")
        assert hit.citation.endswith("Section: Changelog > 0.30.0")
        assert kb.search(query).evidence[0].heading_path == ["Changelog", "0.30.0"]
        (citation,) = kb.context(query, fill=True).citations
        assert citation.heading_path == ("Changelog",)
        assert ("Changelog", "0.30.0") in citation.sections
        shown = kb.resolve(citation)
        assert (shown.label, shown.sections) == (citation.label, citation.sections)


def test_a_misspelt_word_tells_the_section_too(tmp_path: Path) -> None:
    (tmp_path / "log.md").write_text(LOG)
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        kb.add(tmp_path / "log.md")
        (hit,) = kb.retrieve("trufles")
        assert hit.heading_path == ("Changelog", "0.29.0")


def test_children_and_parents(tmp_path: Path) -> None:
    (tmp_path / "log.md").write_text(LOG)
    with KnowledgeBase(
        tmp_path / "kb.db", embedder=HashEmbedder(), chunker="parent-child:256/16/0"
    ) as kb:
        kb.add(tmp_path / "log.md")
        given = RetrievalPrefs(parents={"mode": "replace"}, scoring={"adapt": False})
        hit = kb.retrieve("drop Python 3.7", prefs=given)[0]
        assert hit.child_id
        assert hit.heading_path == ("Changelog", "0.30.0")


LISTS = """# Log

## 0.31.0

- Faster zebras.
- Slower horses.

## 0.30.0

- One giraffe.
- Two giraffes.
- Three giraffes in all of the enclosures.

## Prices

| animal | price |
| --- | --- |
| horse | 1 |
| llama | 2 |
"""


@pytest.mark.parametrize(
    ("query", "location"),
    [
        ("faster zebras", "Section: Log > 0.31.0 | Items: 1-2"),
        ("three giraffes", "Section: Log > 0.30.0 | Items: 1-3"),
        ("price of a llama", "Section: Log > Prices | Rows: 1-3"),
        ("nothing of it", "Section: Log | Rows: 1-3"),  # items of which list is not clear
    ],
)
def test_rows_and_items_are_those_of_the_section(tmp_path: Path, query: str, location: str) -> None:
    (tmp_path / "log.md").write_text(LISTS)
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        kb.add(tmp_path / "log.md")
        (hit,) = kb.retrieve(query)
        assert hit.citation == f"Doc: Log | {location}"
        anchors = kb.search(query).evidence[0].anchors or {}
        assert anchors.get("items") == hit.item_range
        (citation,) = kb.context(query, fill=True).citations
        assert citation.label == kb.resolve(citation).label == "Doc: Log | Section: Log"


def test_a_chunk_without_sections_is_its_own() -> None:
    place = {"heading_path": ("Prices",), "row_range": (1, 2), "item_range": (3, 4)}
    text = {"start": 7, "end": 12, "text": "horse", "token_count": 1}
    names = {
        "id": "c",
        "collection": "default",
        "document_id": "d",
        "chunker_id": "x",
        "ordinal": 0,
    }
    chunk = Chunk.model_validate({**names, **text, **place})
    assert best_section(chunk, "horse", language="en")._asdict() == {"start": 7, **place}
