"""Stores by the scheme of their URL; a location without one is a file.

An entry point in `lagotto.stores`, named after a scheme, adds one: a callable that takes the
location as it was given and `text_index`, which is None unless the user asked for one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lagotto.errors import ConfigError, UnknownNameError
from lagotto.indexes.registry import TEXT_INDEXES
from lagotto.locations import check_path, mask_location
from lagotto.registry import Registry
from lagotto.stores.base import Store

MEMORY = ":memory:"


class StoreFactory(Protocol):
    """Makes the store at a location; connects to nothing yet."""

    def __call__(self, location: str, /, *, text_index: str | None) -> Store: ...


STORES: Registry[StoreFactory] = Registry(
    "store",
    group="lagotto.stores",
    builtin={
        "memory": "lagotto.stores.registry:open_memory",
        "sqlite": "lagotto.stores.registry:open_sqlite",
        "postgresql": "lagotto.stores.registry:open_postgres",
        "postgres": "lagotto.stores.registry:open_postgres",
    },
)


def create_store(location: str | Path | Store, *, text_index: str | None = None) -> Store:
    """The store at a location: a file, `sqlite:///FILE`, `postgresql://…`, `:memory:`, a Store."""
    if not isinstance(location, str | Path):
        return location
    text = str(location)
    scheme, separator, _ = text.partition("://")
    if text == MEMORY:
        scheme = "memory"
    elif not separator:
        scheme = "sqlite"
    try:
        factory = STORES.get(scheme)
    except UnknownNameError as exc:
        known = ", ".join(STORES.names())
        raise ConfigError(
            f"no store for {mask_location(text)}; give a file such as kb.db, "
            f"sqlite:///kb.db, postgresql://host/database or {MEMORY} (schemes: {known})"
        ) from exc
    return factory(text, text_index=text_index)


def open_memory(_location: str, *, text_index: str | None) -> Store:
    """A store in memory."""
    from lagotto.stores.memory import MemoryStore

    return MemoryStore()


def open_sqlite(location: str, *, text_index: str | None) -> Store:
    """The embedded store, in a file."""
    if text_index is not None and text_index not in TEXT_INDEXES.names():
        raise ConfigError(
            f"no text index is called {text_index!r}; there are: {', '.join(TEXT_INDEXES.names())}"
        )
    path = location.removeprefix("sqlite:///")
    check_path(path)
    from lagotto.stores.sqlite.store import SqliteStore

    return SqliteStore(path, text_index=text_index)


def open_postgres(location: str, *, text_index: str | None) -> Store:
    """The store on a PostgreSQL server; its text index is always that of postings in tables."""
    try:
        from lagotto.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"a base on PostgreSQL needs the package {exc.name}, which is not installed; run "
            "`pip install 'lagotto[postgresql]'`"
        ) from exc
    return PostgresStore(location)
