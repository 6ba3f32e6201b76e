"""What the `id` of a tool names: a document, or a passage of it by its citation key."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from lagotto.context.cite import CitationKey
from lagotto.documents import DEFAULT_COLLECTION, Document, digest
from lagotto.errors import CitationError, ConfigError

SCHEME = "lagotto"
URI_TEMPLATE = f"{SCHEME}://documents/{{collection}}/{{id}}"
CHECK = 8
"""Hexadecimal digits of a hash in a cursor."""


class DocumentAddress(NamedTuple):
    """A document in its collection; `str` and `parse` write it as one word, `collection/id`."""

    collection: str
    document_id: str

    def __str__(self) -> str:
        return "/".join(quote(name, safe="", errors="replace") for name in self)

    @property
    def uri(self) -> str:
        """Its address as a resource."""
        return f"{SCHEME}://documents/{self}"

    @classmethod
    def of(cls, document: Document) -> DocumentAddress:
        """The name of a document."""
        return cls(document.collection, document.id)

    @classmethod
    def parse(cls, text: str) -> DocumentAddress:
        """The name that is written like this; an id alone is one of the default collection."""
        word = text.strip().removeprefix(f"{SCHEME}://documents/")
        collection, slash, document_id = word.partition("/")
        if not slash:
            collection, document_id = DEFAULT_COLLECTION, word
        if not collection or not document_id:
            raise ConfigError(f"id {text[:200]!r} names no document; pass an id of search")
        return cls(unquote(collection), unquote(document_id))


class Target(NamedTuple):
    """A document, and the passage that is meant, if it is not all of it."""

    name: DocumentAddress
    passage: CitationKey | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """What an id of `search`, a citation key or a name of a document stands for."""
        try:
            key = CitationKey.parse(text)
        except CitationError:
            return cls(DocumentAddress.parse(text))
        return cls(DocumentAddress(key.collection, key.document_id), key)


def url_of(source: str, name: DocumentAddress) -> str:
    """The address that a document was read from, if it is one of the web, or its resource."""
    return source if urlsplit(source[:8]).scheme in ("http", "https") else name.uri


def make_cursor(*numbers: int, of: object) -> str:
    """A cursor at these numbers, for calls with the same arguments, `of`, alone."""
    return f"{'-'.join(map(str, numbers))}.{digest(of)[:CHECK]}"


def parse_cursor(cursor: str, *, of: object) -> tuple[int, ...]:
    """The numbers of a cursor; ConfigError if it is not one, or of another call."""
    numbers, _, check = cursor.strip().partition(".")
    parts = numbers.split("-")
    if check != digest(of)[:CHECK] or not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f"cursor {cursor[:60]!r} does not belong to this call, or the document has changed; "
            "repeat the arguments that the cursor came with, or leave it out to start again"
        )
    return tuple(map(int, parts))
