"""The table chunk_words: chunks as the server's text search configurations read them.

The table exists only in a base that was searched with ts_rank or ts_rank_cd (`native/`), since it
takes space and time that BM25 has no use for. Once it exists, every write keeps it up to date. The
setting `native_text` lists the configurations that it was built with: those the server had then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, text

from lagotto.stores.sql.read import setting
from lagotto.stores.sql.statements import FINDABLE
from lagotto.terms.languages import NAMES, UNSTEMMED, language_of

SETTING = "native_text"

MOST_BYTES = 250_000
"""Of a longer chunk only the beginning is indexed: a tsvector holds at most 1 MB, and can be four
times the size of its text."""

Configs = tuple[str, ...]

_ADD = text(
    "INSERT INTO chunk_words (chunk_key, config, words, generation) "
    "SELECT key, config, to_tsvector(config::regconfig, content), :generation "
    "FROM unnest(cast(:keys AS bigint[]), cast(:configs AS text[]), cast(:texts AS text[])) "
    "AS new (key, config, content) "
    "ON CONFLICT (chunk_key) DO UPDATE SET config = excluded.config, words = excluded.words"
)
_WITHOUT = text(
    "SELECT count(*) FROM chunk LEFT JOIN chunk_words ON chunk_key = key "
    f"WHERE {FINDABLE} AND chunk_key IS NULL"
)


def config_of(language: str | None, known: Collection[str]) -> str:
    """The configuration for a language, or of that name, among those that the server has."""
    if language in known:
        return language or UNSTEMMED
    wanted = NAMES.get(language_of(language) or "", UNSTEMMED)
    return wanted if wanted in known else UNSTEMMED


def parse_configs(value: str | None) -> Configs | None:
    """The configurations that the setting lists; None if the table does not exist."""
    return tuple(value.split(",")) if value else None


def keep_words(
    connection: Connection,
    keys: Sequence[int],
    texts: Sequence[tuple[str, str | None]],
    *,
    generation: int,
) -> None:
    """Add new chunks, given by their texts and languages, if the table exists."""
    known = parse_configs(setting(connection, SETTING))
    if known and keys:
        add_words(connection, keys, texts, known, generation=generation)


def add_words(
    connection: Connection,
    keys: Sequence[int],
    texts: Sequence[tuple[str, str | None]],
    known: Configs,
    *,
    generation: int,
) -> None:
    """Add or replace the rows of chunks."""
    rows = {
        "keys": list(keys),
        "configs": [config_of(language, known) for _, language in texts],
        "texts": [_beginning(content) for content, _ in texts],
        "generation": generation,
    }
    connection.execute(_ADD, rows)


def chunks_without_words(connection: Connection) -> int:
    """How many chunks the table lacks, if it exists."""
    if not setting(connection, SETTING):
        return 0
    return int(connection.scalar(_WITHOUT) or 0)


def _beginning(content: str) -> str:
    return content.encode()[:MOST_BYTES].decode(errors="ignore")
