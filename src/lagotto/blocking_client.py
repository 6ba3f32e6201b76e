"""Client: the methods of AsyncClient, blocking; and `open`, for bases wherever they are."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from lagotto.client import AsyncClient
from lagotto.documents import Document
from lagotto.errors import ConfigError, StoreError
from lagotto.locations import is_served
from lagotto.search_verbs import FilterLike
from lagotto.sync_facade import KnowledgeBase, LoopThread, blocking, next_of

T = TypeVar("T")


class Client:
    """A base on a server at `url`; the methods of KnowledgeBase, over HTTP.

    Creating it connects. `api_key` is LAGOTTO_API_KEY by default.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 60.0) -> None:
        self.base = AsyncClient(url, api_key=api_key, timeout=timeout)
        self._loop = LoopThread()
        self._closed = False
        try:
            self.run(self.base.open())
        except BaseException:
            self.close()
            raise

    add = blocking(AsyncClient.add)
    sync = blocking(AsyncClient.sync)
    remove = blocking(AsyncClient.remove)
    rebuild = blocking(AsyncClient.rebuild)
    documents = blocking(AsyncClient.documents)
    get = blocking(AsyncClient.get)
    chunks = blocking(AsyncClient.chunks)
    export_documents = blocking(AsyncClient.export_documents)
    import_documents = blocking(AsyncClient.import_documents)
    retrieve = blocking(AsyncClient.retrieve)
    retrieve_many = blocking(AsyncClient.retrieve_many)
    search = blocking(AsyncClient.search)
    context = blocking(AsyncClient.context)
    resolve = blocking(AsyncClient.resolve)
    why_not = blocking(AsyncClient.why_not)
    judge = blocking(AsyncClient.judge)
    judgements = blocking(AsyncClient.judgements)
    info = blocking(AsyncClient.info)
    collections = blocking(AsyncClient.collections)

    def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> Iterator[Document]:
        """Yield what `documents` returns, a page at a time."""
        documents = self.base.iter_documents(filters=filters, collection=collection)
        while page := self.run(next_of(documents)):
            yield from page

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the client, and return its result."""
        if self._closed:
            coroutine.close()
            raise StoreError("this client is closed; create a new one")
        return self._loop.run(coroutine)

    def close(self) -> None:
        """Close the connections, and cancel calls of other threads."""
        if not self._closed:
            self._closed = True
            self._loop.cancel_all()
            self._loop.run(self.base.close())
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(  # noqa: A001
    location: str | Path = "lagotto.db", *, api_key: str | None = None, **options: Any
) -> KnowledgeBase | Client:
    """The base at a location: a file, `postgresql://...`, or the `http(s)://` address of a server.

    Both have the same methods and results. `options` are those of KnowledgeBase; a server has its
    own.
    """
    if not is_served(location):
        return KnowledgeBase(location, **options)
    if given := sorted(name for name, value in options.items() if value is not None):
        raise ConfigError(f"{', '.join(given)}: the server at this address decides on it")
    return Client(str(location), api_key=api_key)
