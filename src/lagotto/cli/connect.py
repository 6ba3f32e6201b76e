"""From options to an open base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lagotto.cli.options import BaseOptions, MakingOptions
from lagotto.errors import StoreError

if TYPE_CHECKING:
    from lagotto.stores.base import Store
    from lagotto.sync_facade import KnowledgeBase


def open_base(base: BaseOptions, making: MakingOptions) -> KnowledgeBase:
    """The base, made if there is none."""
    from lagotto.sync_facade import KnowledgeBase

    return KnowledgeBase(
        base.kb, embedder=base.embedder, chunker=making.chunker, text_index=making.text_index
    )


def open_existing(base: BaseOptions) -> KnowledgeBase:
    """The base; StoreError if there is none, because reading should not leave a file behind."""
    from lagotto.sync_facade import KnowledgeBase

    check_exists(base.kb)
    return KnowledgeBase(base.kb, embedder=base.embedder)


@asynccontextmanager
async def open_store(location: str) -> AsyncIterator[Store]:
    """What a base is kept in, for commands that need no embedder."""
    from lagotto.stores.registry import create_store

    store = create_store(location)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def check_exists(location: str) -> None:
    """StoreError if a base should be in a file that is not there."""
    place = location.removeprefix("sqlite:///")
    if "://" not in place and not Path(place).exists():
        raise StoreError(
            f"there is no base at {place}; make one with `lagotto --kb {place} add PATH`, "
            "or give the place where it is"
        )
