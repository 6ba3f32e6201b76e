"""Documents in several languages and scripts, and how any document is made ready for a store."""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document, in_context
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.stores.base import Entry
from lagotto.terms import content_terms, query_terms
from lagotto.testing.hash_embedder import HashEmbedder

EMBEDDER = HashEmbedder(dimension=32)
CHUNKER = CHUNKERS.create("recursive:24/4", tokenizer=EMBEDDER.tokenizer)

DOCUMENTS = (
    Document(
        id="truffle",
        title="Truffles",
        language="en",
        metadata={"year": 2021, "tags": ["food"]},
        text="Truffles grow on the roots of oak and hazel. A trained dog finds them by smell.",
    ),
    Document(
        id="dog",
        title="Lagotto Romagnolo",
        language="en",
        metadata={"year": 2023},
        text="The Lagotto is a water dog from Romagna that is trained to find truffles.",
    ),
    Document(
        id="code",
        title="Errors",
        language="en",
        metadata={"year": 2023, "draft": True},
        text="SQLITE_BUSY means that another connection is writing. ECONNREFUSED is not.",
    ),
    Document(
        id="ru",
        title="Байкал",
        language="ru",
        metadata={"year": 2020},
        text="Байкал самое глубокое озеро на Земле. В озере живут нерпы и омули.",
    ),
    Document(id="cjk", title="東京", text="東京都は日本の首都です。人口は約千四百万人。"),
    Document(id="thai", text="กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
    Document(id="dog", collection="other", title="Elsewhere", text="A dog somewhere else."),
)


async def entry(document: Document, *, chunker_id: str = CHUNKER.id) -> Entry:
    """A document ready to be written."""
    chunker = CHUNKERS.create(chunker_id, tokenizer=EMBEDDER.tokenizer)
    chunks = chunker.chunk(document)
    texts = [in_context(document.title, item.text) for item in chunks if item.level != "parent"]
    vectors = await EMBEDDER.embed(texts, role="document")
    return Entry(document, chunks, vectors, EMBEDDER.info.model_id)


async def entries(documents: Sequence[Document] = DOCUMENTS) -> list[Entry]:
    """Documents ready to be written."""
    return [await entry(document) for document in documents]


def text_query(text: str, languages: Sequence[str | None]) -> TextQuery:
    """Any of the content words of `text`."""
    words = content_terms(query_terms(text, languages))
    return TextQuery(tuple(tuple(map(Term, word.variants)) for word in words))
