"""YAML front matter: the block between two `---` lines at the top of a Markdown file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import yaml

from lagotto.documents import json_value
from lagotto.readers.dates import parse_iso_date
from lagotto.readers.language import language_code

MAX_LENGTH = 65_536
FENCED = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)

CREATED = ("created_at", "created", "date", "published")
UPDATED = ("updated_at", "updated", "modified", "lastmod", "last_modified")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the front matter says; `metadata` is all of it that has no field of its own."""

    title: str | None
    summary: str | None
    language: str | None
    created_at: datetime | None
    updated_at: datetime | None
    metadata: Mapping[str, object]


NOTHING = FrontMatter(None, None, None, None, None, {})


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases (which can grow without bound) and explicit tags."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent) or self.peek_event().tag:  # type: ignore[no-untyped-call]
            raise yaml.YAMLError("aliases and tags are not front matter")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """The front matter and the text behind it; text whose front matter is broken stays whole."""
    match = FENCED.match(text, 0, MAX_LENGTH)
    fields = _load(match[1]) if match else None
    if match is None or fields is None:
        return NOTHING, text
    return _front_matter(fields), text[match.end() :].lstrip("\n")


def _load(block: str) -> dict[str, object] | None:
    try:
        loaded = yaml.load(block, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError):
        return None
    if not isinstance(loaded, dict):
        return None
    return {str(key): _plain(value) for key, value in loaded.items()}


def _plain(value: object) -> object:
    """`value` as JSON, or its text if JSON has no such thing."""
    try:
        json_value(value)
    except ValueError:
        return str(value)
    return value


def _front_matter(fields: dict[str, object]) -> FrontMatter:
    title, summary = fields.get("title"), fields.get("summary") or fields.get("description")
    tag = fields.get("language") or fields.get("lang")
    language = language_code(str(tag)) if tag else None
    used = {"title", "summary", "description"} | ({"language", "lang"} if language else set())
    return FrontMatter(
        title=str(title) if title else None,
        summary=str(summary) if summary else None,
        language=language,
        created_at=_moment(fields, CREATED),
        updated_at=_moment(fields, UPDATED),
        metadata={key: value for key, value in fields.items() if key not in used},
    )


def _moment(fields: Mapping[str, object], names: tuple[str, ...]) -> datetime | None:
    for name in names:
        match fields.get(name):
            case datetime() as moment:
                return moment
            case date() as day:
                return datetime(day.year, day.month, day.day, tzinfo=UTC)
            case str() as written:
                return parse_iso_date(written)
    return None
