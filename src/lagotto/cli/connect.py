"""Open the knowledge base, or only its store, that the options name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lagotto.cli.options import BaseOptions, MakingOptions
from lagotto.errors import StoreError
from lagotto.locations import check_path, mask_location

if TYPE_CHECKING:
    from lagotto.stores.base import Store
    from lagotto.sync_facade import KnowledgeBase


def open_base(base: BaseOptions, making: MakingOptions) -> KnowledgeBase:
    """The base, created if it does not exist."""
    from lagotto.sync_facade import KnowledgeBase

    return KnowledgeBase(
        base.kb,
        embedder=base.embedder,
        chunker=making.chunker,
        pooling=making.pooling,
        text_index=making.text_index,
    )


def open_existing(base: BaseOptions) -> KnowledgeBase:
    """The base; StoreError if it does not exist, so that reading never creates a file."""
    from lagotto.sync_facade import KnowledgeBase

    check_exists(base.kb)
    return KnowledgeBase(base.kb, embedder=base.embedder)


@asynccontextmanager
async def open_store(location: str) -> AsyncIterator[Store]:
    """The store of a base, open, for commands that need no embedder."""
    from lagotto.stores.registry import create_store

    store = create_store(location)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def check_exists(location: str) -> None:
    """Raise StoreError if `location` is a file that does not exist."""
    path = location.removeprefix("sqlite:///")
    if "://" in path:
        return
    check_path(path)
    if not Path(path).exists():
        shown = mask_location(path)
        raise StoreError(
            f"there is no base at {shown}; create one with `lagotto --kb {quote(shown)} add PATH`, "
            "or pass the location of another with --kb"
        )
