"""Records to rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lagotto.documents import Chunk, ChunkSection, Document, iso
from lagotto.filters.fields import field_name
from lagotto.filters.operands import kind_of
from lagotto.stores.base import fingerprint

STRUCTURE = ("pages", "headings", "blocks")


def document_row(key: int, document: Document) -> dict[str, Any]:
    """The row of a document."""
    plain = document.model_dump(mode="json", exclude={*STRUCTURE, "created_at", "updated_at"})
    return {
        **plain,
        "key": key,
        "created_at": iso(document.created_at) if document.created_at else None,
        "updated_at": iso(document.updated_at) if document.updated_at else None,
        "fingerprint": fingerprint(document),
        "structure": {
            name: [item.model_dump(mode="json") for item in getattr(document, name)]
            for name in STRUCTURE
        },
    }


def document_of(row: Mapping[Any, Any]) -> Document:
    """The document of a row; one read without its text has an empty one, and no structure."""
    fields = dict(row)
    structure = fields.pop("structure", {})
    fields.pop("key")
    fields.pop("fingerprint")
    return Document(**{"text": "", **fields, **structure})


def attribute_rows(key: int, document: Document) -> list[dict[str, Any]]:
    """A row for every value in the metadata that a filter can ask for."""
    return [
        {"document_key": key, "position": position, **value}
        for position, value in enumerate(_values(document.metadata, ()))
    ]


def _values(metadata: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for name, value in metadata.items():
        here = (*path, name)
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield _value(here, None)
            yield from _values(value, here)
        elif isinstance(value, list):
            yield _value(here, None)
            yield from (_value(here, item, in_list=True) for item in value if kind_of(item))
        else:
            yield _value(here, value)


def _value(path: tuple[str, ...], value: object, *, in_list: bool = False) -> dict[str, Any]:
    """A row for a value; a list or dict as a whole has the kind `group`, it merely exists."""
    kind = kind_of(value)
    return {
        "field": field_name(path),
        "kind": kind or "group",
        "in_list": in_list,
        "text_value": value if kind == "text" else None,
        "number_value": value if kind in ("number", "boolean") else None,
    }


def chunk_row(key: int, document_key: int, set_key: int, chunk: Chunk) -> dict[str, Any]:
    """The row of a chunk; its text has a row of its own."""
    page_first, page_last = chunk.pages or (None, None)
    row_first, row_last = chunk.row_range or (None, None)
    item_first, item_last = chunk.item_range or (None, None)
    line_first, line_last = chunk.lines or (None, None)
    return {
        "key": key,
        "id": chunk.id,
        "document_key": document_key,
        "set_key": set_key,
        "level": chunk.level,
        "parent_id": chunk.parent_id,
        "ordinal": chunk.ordinal,
        "start": chunk.start,
        "end": chunk.end,
        "token_count": chunk.token_count,
        "page_first": page_first,
        "page_last": page_last,
        "heading_path": list(chunk.heading_path),
        "element": chunk.element,
        "row_first": row_first,
        "row_last": row_last,
        "item_first": item_first,
        "item_last": item_last,
        "line_first": line_first,
        "line_last": line_last,
        "sections": [_section_row(section) for section in chunk.sections] or None,
    }


def chunk_text_rows(chunks: Iterable[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """The rows with the texts of chunks, whose rows these are, of a document's text."""
    return [{"chunk_key": row["key"], "text": text[row["start"] : row["end"]]} for row in chunks]


def chunk_of(row: Mapping[str, Any], *, collection: str, document_id: str) -> Chunk:
    """The chunk of a row that also has its `text` and `chunker_id`."""
    return Chunk(
        id=row["id"],
        collection=collection,
        document_id=document_id,
        chunker_id=row["chunker_id"],
        level=row["level"],
        parent_id=row["parent_id"],
        ordinal=row["ordinal"],
        start=row["start"],
        end=row["end"],
        text=row["text"],
        token_count=row["token_count"],
        pages=_range(row["page_first"], row["page_last"]),
        heading_path=tuple(row["heading_path"]),
        element=row["element"],
        row_range=_range(row["row_first"], row["row_last"]),
        item_range=_range(row["item_first"], row["item_last"]),
        lines=_range(row["line_first"], row["line_last"]),
        sections=tuple(map(_section, row["sections"] or ())),
    )


def _section_row(section: ChunkSection) -> list[Any]:
    start, heading_path, *ranges = section
    return [start, heading_path, *(ranges if any(ranges) else ())]


def _section(row: Sequence[Any]) -> ChunkSection:
    start, heading_path, *ranges = row
    return ChunkSection(start, tuple(heading_path), *(one and tuple(one) for one in ranges))


def _range(first: int | None, last: int | None) -> tuple[int, int] | None:
    return (first, last) if first is not None and last is not None else None
