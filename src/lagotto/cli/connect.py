"""Open the knowledge base, or only its store, that the options name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, cast

from lagotto._internal import locations
from lagotto.cli.options import BaseOptions, MakingOptions
from lagotto.errors import LagottoError, StoreError

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.stores.base import Store


def open_base(base: BaseOptions, making: MakingOptions | None = None) -> KnowledgeBase:
    """The base, created if it does not exist; one on a server has the same methods."""
    chosen = {"embedder": base.embedder, **({} if making is None else asdict(making))}
    if locations.is_web_address(base.kb):
        from lagotto.base.client import open as open_anywhere

        return cast("KnowledgeBase", open_anywhere(base.kb, **chosen))
    from lagotto.base.blocking import KnowledgeBase

    return KnowledgeBase(base.kb, **chosen)


@contextmanager
def no_empty_base(location: str) -> Iterator[None]:
    """Remove the base again if a command that creates it fails before it has a document."""
    is_new_file = locations.is_missing_file(location)
    is_new_on_server = _is_missing_on_server(location)
    try:
        yield
    except BaseException:
        if is_new_file and not locations.is_missing_file(location):
            from lagotto.stores.sqlite.database import discard_if_empty

            discard_if_empty(locations.file_of(location))
        elif is_new_on_server:
            from lagotto.stores.postgres import schema

            with suppress(LagottoError):  # the command has failed for another reason
                asyncio.run(schema.discard_if_empty(location))
        raise


def _is_missing_on_server(location: str) -> bool:
    if location.startswith(("postgresql://", "postgres://")):
        with suppress(LagottoError, ImportError):  # opening the base says what is wrong
            from lagotto.stores.postgres.schema import is_missing

            return asyncio.run(is_missing(location))
    return False


def open_existing(base: BaseOptions) -> KnowledgeBase:
    """The base; StoreError if it does not exist, so that reading never creates a file."""
    check_exists(base.kb)
    return open_base(base)


@contextmanager
def open_for_a_question(base: BaseOptions) -> Iterator[KnowledgeBase]:
    """The base, with models that are loaded sooner, since they run once."""
    from lagotto.models.onnx import without_prepacking

    with without_prepacking(), open_existing(base) as kb:
        yield kb


@asynccontextmanager
async def open_store(location: str, *, copy_of: str | None = None) -> AsyncIterator[Store]:
    """The store of a base, open, for commands that need no embedder.

    One that is created to copy a base to it says so from the beginning.
    """
    from lagotto.stores.registry import create_store

    store = create_store(location)
    if copy_of is not None:
        await store.mark_copy(copy_of)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def check_exists(location: str) -> None:
    """Raise StoreError if `location` is a file that does not exist."""
    if locations.is_address(location):
        return
    locations.check_path(location.removeprefix(locations.FILE_SCHEME))
    if locations.is_missing_file(location):
        path = locations.mask_location(location.removeprefix(locations.FILE_SCHEME))
        raise StoreError(
            f"there is no base at {path}; create one with `lagotto --kb {quote(path)} add PATH`, "
            "or pass the location of another with --kb"
        )
