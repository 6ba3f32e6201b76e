from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import CitationKey, resolve
from lagotto.context.cite import cite, cited, key_of, key_of_text
from lagotto.context.passages import Piece, merged
from lagotto.documents import Document
from lagotto.errors import CitationError

from .made import Shelf, hit, paged

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
CHECKS = st.sampled_from(["", "0123abcd"])


@given(NAMES, NAMES, st.integers(0, 10**9), st.integers(0, 10**9), CHECKS)
def test_a_key_is_one_word_and_can_be_read_back(
    collection: str, document_id: str, start: int, end: int, check: str
) -> None:
    key = CitationKey(collection, document_id, start, end, check)
    assert CitationKey.parse(str(key)) == key
    assert str(key).isascii()
    assert str(key).split() == [str(key)]


def test_a_key_is_readable() -> None:
    assert str(CitationKey("notes", "a/b c", 120, 480)) == "notes/a%2Fb%20c#120-480"
    assert CitationKey.parse(" notes/é#1-2 ") == CitationKey("notes", "é", 1, 2)


@pytest.mark.parametrize(
    "text", ["", "notes", "notes/a", "notes/a#", "notes/a#1", "a/b/c#1-2", "a/b#1-2~xyz", "/b#1-2"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(CitationError, match="is no citation; one looks like"):
        CitationKey.parse(text)


def test_a_mere_title_is_cited_without_a_section() -> None:
    document = Document(id="d", title="The title", text="")
    assert cited(document, CitationKey("default", "d", 0, 0)).label == "Doc: The title"


def test_the_key_of_a_mere_title_checks_no_text() -> None:
    (chunk,) = Shelf(paged("Dogs find truffles."), chunker="page:16/0").all_to_find()
    titled = hit(chunk, content="The title", start=0, end=0)
    expected = key_of_text(chunk.collection, chunk.document_id, 0, "")
    assert key_of(titled) == str(expected)
    assert key_of(hit(chunk)) != str(expected)


async def test_citations_and_their_keys_resolve() -> None:
    document = paged("Truffles grow on roots. ", "Dogs find them. ")
    shelf = Shelf(document, chunker="page:16/0")
    chunk = shelf.all_to_find()[1]
    (passage,) = merged([Piece(chunk, "primary", hit(chunk, document_title="Paged"))])
    citation = cite(passage, marker=3)
    assert str(citation) == "Doc: Paged | Page: 2"
    assert citation.chunk_ids == (chunk.id,)
    found = await resolve(citation, document_of=shelf.get)
    assert found == await resolve(citation.key, document_of=shelf.get)
    assert (found.text, found.pages) == (chunk.text, (2, 2))
    assert (found.start, found.end) == (chunk.start, chunk.end)
    assert found.label == citation.label


async def test_a_document_that_is_gone_is_told() -> None:
    with pytest.raises(CitationError, match="no such document"):
        await resolve("default/gone#0-3", document_of=Shelf().get)


def test_a_span_without_text_is_told() -> None:
    document = Document(id="d", text="Short. ")
    for start, end in ((0, 8), (6, 7), (3, 3), (5, 2)):
        with pytest.raises(CitationError, match="the document has 7 characters"):
            cited(document, CitationKey("default", "d", start, end))


async def test_a_document_that_has_changed_is_told() -> None:
    document = Document(id="d", text="Truffles grow on roots.")
    shelf = Shelf(document)
    (chunk,) = shelf.all_to_find()
    citation = cite(merged([Piece(chunk, "primary", hit(chunk))])[0], marker=1)
    changed = Shelf(Document(id="d", text="Mushrooms grow on roots."))
    with pytest.raises(CitationError, match="has changed since it was cited"):
        await resolve(citation, document_of=changed.get)
    anyway = await resolve(citation.key.split("~")[0], document_of=changed.get)
    assert anyway.text == "Mushrooms grow on roots"
