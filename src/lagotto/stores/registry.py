"""From a location to a store."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from lagotto.errors import ConfigError
from lagotto.stores.base import Store

MEMORY = ":memory:"
POSTGRES = ("postgresql://", "postgres://")


def create_store(location: str | Path | Store, *, text_index: str | None = None) -> Store:
    """The store at a location: a file, `sqlite:///FILE`, `postgresql://…`, `:memory:`, a Store."""
    if not isinstance(location, str | Path):
        return location
    place = str(location).removeprefix("sqlite:///")
    if place == MEMORY:
        from lagotto.stores.memory import MemoryStore

        return MemoryStore()
    if place.startswith(POSTGRES):
        return _on_postgres(place)
    if "://" in place:
        raise ConfigError(
            f"{place} is not a place for a base; give a file such as kb.db, sqlite:///kb.db, "
            f"postgresql://host/database or {MEMORY}"
        )
    if text_index not in (None, "tantivy", "fts5"):
        raise ConfigError(f"text_index is {text_index!r}; it must be 'tantivy' or 'fts5'")
    from lagotto.stores.sqlite.store import SqliteStore, TextIndex

    return SqliteStore(place, text_index=cast("TextIndex | None", text_index))


def _on_postgres(location: str) -> Store:
    try:
        from lagotto.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"a base on PostgreSQL needs the package {exc.name}, which is not installed; run "
            "`pip install 'lagotto[postgresql]'`"
        ) from exc
    return PostgresStore(location)
