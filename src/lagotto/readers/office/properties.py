"""The properties of an Office Open XML file: title, author, dates."""

from __future__ import annotations

from typing import Any

from lagotto.readers.builder import one_line
from lagotto.readers.draft import parse_iso_date
from lagotto.readers.language import language_code
from lagotto.readers.office.package import Package
from lagotto.readers.office.xml import local_name

CORE = "docProps/core.xml"
PLACEHOLDERS = frozenset({"PowerPoint Presentation", "Presentation", "Untitled"})
"""Titles that programs fill in."""


def core_properties(package: Package, *, title: str | None = None) -> dict[str, Any]:
    """The fields of a Draft that the properties give; `title` is used if they have none."""
    root = package.xml(CORE)
    texts = {local_name(item): one_line(item.text or "") for item in (() if root is None else root)}
    found = {name: text for name, text in texts.items() if text}
    known = {"author": found.get("creator"), "keywords": found.get("keywords")}
    own = found.get("title")
    return {
        "title": title if own is None or own in PLACEHOLDERS else own,
        "summary": found.get("description"),
        "language": language_code(found.get("language")),
        "metadata": {name: text for name, text in known.items() if text},
        "created_at": parse_iso_date(found.get("created")),
        "updated_at": parse_iso_date(found.get("modified")),
    }
