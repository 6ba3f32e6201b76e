"""Stores by the scheme of their URL; a location without one is a file.

An entry point in `lagotto.stores`, named after a scheme, adds one: a callable that takes the
location as it was given and the indexes that the user asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lagotto._internal.locations import check_path, is_web_address, mask_location
from lagotto._internal.registry import Registry
from lagotto.errors import ConfigError, UnknownNameError, missing_package
from lagotto.indexes.registry import IndexChoice
from lagotto.stores.base import Store

MEMORY = ":memory:"


StoreFactory = Callable[..., Store]
"""`factory(location, indexes=IndexChoice(...))` makes the store; it connects to nothing yet."""

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


def create_store(
    location: str | Path | Store, *, text_index: str | None = None, vector_index: str | None = None
) -> Store:
    """The store at a location: a file, `sqlite:///FILE`, `postgresql://…`, `:memory:`, a Store."""
    indexes = IndexChoice.of(text_index=text_index, vector_index=vector_index)
    if not isinstance(location, str | Path):
        return location
    text = str(location)
    if is_web_address(text):
        raise ConfigError(
            f"{mask_location(text)} is a server; this works where its base is, with the location "
            "of the base. In Python, lagotto.open opens a base on a server"
        )
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
    return factory(text, indexes=indexes)


def open_memory(_location: str, *, indexes: IndexChoice) -> Store:
    """A store in memory."""
    from lagotto.stores.memory import MemoryStore

    return MemoryStore()


def open_sqlite(location: str, *, indexes: IndexChoice) -> Store:
    """The embedded store, in a file."""
    path = location.removeprefix("sqlite:///")
    check_path(path)
    from lagotto.stores.sqlite.store import SqliteStore

    return SqliteStore(path, text_index=indexes.text, vector_index=indexes.vectors)


def open_postgres(location: str, *, indexes: IndexChoice) -> Store:
    """The store on a PostgreSQL server; without a choice, its indexes are tables of its own."""
    with missing_package("a base on PostgreSQL", "postgresql"):
        from lagotto.stores.postgres.store import PostgresStore
    return PostgresStore(location, text_index=indexes.text, vector_index=indexes.vectors)
