"""The fields of filters: the document's own fields, and paths into its metadata.

A reserved name is a field of the document or chunk. Any other name is a path of metadata keys,
joined by dots; a dot or backslash inside a key is escaped by a backslash. The prefix `metadata.` is
optional; with it a metadata key may have the name of a reserved field. `doc_id` is another name of
`document_id`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from lagotto.documents import storable
from lagotto.errors import FilterError

FieldType = Literal["text", "number", "time", "any"]

RESERVED: Mapping[str, FieldType] = MappingProxyType(
    {
        "document_id": "text",
        "collection": "text",
        "kind": "text",
        "source": "text",
        "source_ref": "text",
        "title": "text",
        "summary": "text",
        "language": "text",
        "content_hash": "text",
        "page": "number",
        "created_at": "time",
        "updated_at": "time",
    }
)
"""The document's own fields and their types; `page` has several numbers."""

ALIASES: Mapping[str, str] = MappingProxyType({"doc_id": "document_id"})
"""Other names of reserved fields."""

_PREFIX = "metadata"
_ESCAPED = re.compile(r"\\(.)")
_SPECIAL = re.compile(r"([.\\])")
_SEGMENTS = re.compile(r"\A(?:[^.\\]|\\[.\\])++(?:\.(?:[^.\\]|\\[.\\])++)*+")
_SEGMENT = re.compile(r"(?:[^.\\]|\\[.\\])+")


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field: its canonical name, its metadata path (None if reserved), and its type."""

    name: str
    path: tuple[str, ...] | None
    type: FieldType


def field_ref(name: str) -> FieldRef:
    """Resolve a field name; two spellings of one field give equal references."""
    if not isinstance(name, str):
        raise FilterError(f"a field name must be text, not {name!r}")
    name = storable(str.__str__(name))  # also the value of an enum member
    name = ALIASES.get(name, name)
    if name in RESERVED:
        return FieldRef(name, None, RESERVED[name])
    if not _SEGMENTS.fullmatch(name):
        raise FilterError(
            f"{name!r} is not a field name; write keys joined by single dots, such as "
            r"author.name, with \. for a dot and \\ for a backslash inside a key"
        )
    path = tuple(_ESCAPED.sub(r"\1", segment) for segment in _SEGMENT.findall(name))
    if path[0] == _PREFIX and len(path) > 1:
        path = path[1:]
    return FieldRef(field_name(path), path, "any")


def field_name(path: tuple[str, ...]) -> str:
    """The canonical name of a metadata path."""
    name = ".".join(_SPECIAL.sub(r"\\\1", key) for key in path)
    nested_in_prefix = path[0] == _PREFIX and len(path) > 1
    # A leading $ would be read as an operator in the JSON form.
    if name in RESERVED or name in ALIASES or nested_in_prefix or name.startswith("$"):
        return f"{_PREFIX}.{name}"
    return name
