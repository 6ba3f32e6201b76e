"""The verbs of a base, wherever it is: in this process, on a server, or as one caller sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from lagotto._internal.concurrency import in_thread
from lagotto._internal.locations import is_web_address
from lagotto._internal.tokens import Tokenizer
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, Vector
from lagotto.errors import ConfigError
from lagotto.filters import And, Eq, Filter, Gt, Or, parse_filter
from lagotto.prefs import Mode, RetrievalPrefs, SearchRequest, merged_settings, several_queries
from lagotto.request_context import RequestContext
from lagotto.results import Results, RetrievalBundle, RetrievalResult
from lagotto.retrieval.retriever import Retriever
from lagotto.retrieval.why_not import WhyNot
from lagotto.stores.base import StoreInfo

if TYPE_CHECKING:
    from lagotto.base.export import ExportFormat
    from lagotto.base.ingest import AddReport, OnProgress
    from lagotto.base.judgements import RelevanceJudgement
    from lagotto.context import Citation, CitedPassage, ContextPack, PackFormat, TokenCounter
    from lagotto.readers import Columns, FetchLimits, Loading, Ocr, ReadFailure


FilterLike = Filter | Mapping[str, object] | str | None
ReadResults: TypeAlias = "Iterable[Document | ReadFailure]"


class BaseVerbs(ABC):
    """Searches and documents: what every caller of a base may ask for.

    A search is a SearchRequest, which `answer` answers in the view of its verb.
    """

    @abstractmethod
    async def answer(self, request: SearchRequest) -> Any:
        """The Results, RetrievalBundle, ContextPack or WhyNot of a search, by its verb."""

    async def retrieve(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> Results:
        """Return the best passages for `query` as a ranked list; empty for an empty query.

        `prefs` are RetrievalPrefs or the name of a preset, by default those of the base. The other
        arguments, and any setting of RetrievalPrefs passed by name, override them. `degraded` of
        the result lists what could not be used.
        """
        options = _options(settings, top_k=top_k, mode=mode, filters=filters, collection=collection)
        context = request or RequestContext()
        search_request = SearchRequest("retrieve", query, prefs, options, query_vector, context)
        return cast("Results", await self.answer(search_request))

    async def retrieve_many(
        self,
        /,
        queries: Sequence[str],
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> list[Results]:
        """Return the results of `retrieve` for each query; faster than one call per query."""
        options = _options(settings, top_k=top_k, mode=mode, filters=filters, collection=collection)
        context = request or RequestContext()
        search_request = SearchRequest("retrieve", "", prefs, options, context=context)
        return await self._answer_each(queries, search_request)

    async def search(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> RetrievalBundle:
        """Return the best documents for `query`, and the passages that support them.

        The arguments are those of `retrieve`; `top_k` is the number of passages (`top_k_chunks`).
        """
        options = _options(settings, top_k=top_k, mode=mode, filters=filters, collection=collection)
        context = request or RequestContext()
        search_request = SearchRequest("search", query, prefs, options, query_vector, context)
        return cast("RetrievalBundle", await self.answer(search_request))

    async def context(
        self,
        /,
        query: str | None = None,
        *,
        queries: Sequence[str] = (),
        max_tokens: int | None = None,
        fill: bool | None = None,
        format: PackFormat = "plain",  # noqa: A002
        counter: TokenCounter | Tokenizer | str | None = None,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> ContextPack:
        """Return cited passages for a prompt, within `max_tokens`.

        The pack stops where evidence stops; with `fill` it uses the whole budget. Several
        `queries`, in place of one, share the budget: `trace.coverage` says what each of them got.

        `counter` counts tokens: the tokenizer of the model that will read the pack, a function, or
        `tiktoken:ENCODING`; by default the embedder's tokenizer. The other arguments are those of
        `retrieve`.
        """
        if fill is not None:
            settings = merged_settings({"context": {"fill": fill}}, settings)
        options = _options(settings, top_k=top_k, mode=mode, filters=filters, collection=collection)
        several = several_queries(query, queries, query_vector)
        context = request or RequestContext()
        search = SearchRequest("context", query or "", prefs, options, query_vector, context)
        sizes: Any = {"max_tokens": max_tokens, "format": format, "counter": counter}
        return cast("ContextPack", await self.answer(replace(search, queries=several, **sizes)))

    async def why_not(
        self,
        /,
        query: str,
        document_id: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> WhyNot:
        """Explain why a document is not among the results of `retrieve`.

        The arguments are those of `retrieve`, which is run once; `results` of the answer has its
        results. The document is named by its id or the beginning of it, its path or its title, and
        looked up in `collection`; without one, in the default collection first, and then in the
        others.
        """
        options = _options(settings, top_k=top_k, mode=mode, filters=filters, collection=collection)
        context = request or RequestContext()
        search = SearchRequest("why_not", query, prefs, options, query_vector, context)
        return cast("WhyNot", await self.answer(replace(search, document_id=document_id)))

    async def _answer_each(self, queries: Sequence[str], request: SearchRequest) -> list[Results]:
        """The answers to a request with each of the queries."""
        return [await self.answer(request.with_query(query)) for query in queries]

    @property
    def retriever(self) -> Retriever:
        """The base as a Retriever: `await base.retriever.search(ctx, prefs)`.

        What `prefs` leave unset is as in the preferences of the base.
        """
        return BaseRetriever(self)

    @abstractmethod
    def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> AsyncIterator[Document]:
        """Yield what `documents` returns, a few at a time, however many there are."""

    async def documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> list[Document]:
        """List matching documents by collection and id, without their texts."""
        documents = self.iter_documents(filters=filters, collection=collection)
        return [document async for document in documents]

    @abstractmethod
    async def get(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> Document | None:
        """Return a document with its text, or None if there is no document with this id."""

    @abstractmethod
    async def collections(self) -> dict[str, int]:
        """Return the number of documents in each collection."""

    @abstractmethod
    async def add_documents(
        self,
        documents: Sequence[Document],
        *,
        replace: bool = True,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add Documents; without `replace`, one whose id is taken is a failure in the report."""

    @abstractmethod
    async def remove(
        self, *document_ids: str, collection: str | None = None, filters: FilterLike = None
    ) -> list[str]:
        """Remove documents by id, by filter, or both; returns the ids of the removed documents.

        `collection` only narrows down ids and `filters`, so an empty list of ids never removes a
        whole collection; `filters={}` does.
        """


class AsyncBase(BaseVerbs):
    """A base with all its verbs: those of BaseVerbs, and what only its owner does."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The location of the base without passwords, for messages."""

    @abstractmethod
    async def open(self) -> Self:
        """Open the base."""

    @abstractmethod
    async def close(self) -> None:
        """Close the base; closing it again has no effect."""

    async def prepare(self) -> None:
        """Load what searches need; raises what would prevent them. A server has done so."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def add(
        self,
        *sources: str | Path | Document,
        collection: str = DEFAULT_COLLECTION,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        everything: bool = False,
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        columns: Columns | None = None,
        id_from: str | None = None,
        fetch_limits: FetchLimits | None = None,
        ocr: str | Ocr | None = None,
        progress: OnProgress | None = None,
    ) -> AddReport:
        """Add files, folders, web addresses (`https://...`) and Documents.

        Unchanged ones are skipped, changed ones replaced.
        A path that does not exist, and a folder without files to read, are a ReadError before
        anything is added. Files that can't be read, and those that were skipped, are listed in the
        report; `everything` reads hidden, ignored, secret, vendored and minified files too. A
        Document keeps its own collection, and its language; without one, that is `language`, or
        detected as for files.

        `metadata` is merged over that of the files, and stays with their paths: adding them again
        without it does not lose it, and another value replaces it. None takes a value back.
        `id_from` decides on the ids of files, as in `ReadOptions`; without it they are hashes.
        """
        from lagotto.base.ingest import paths_and_documents, read_options
        from lagotto.readers import load

        options = read_options(collection, language, metadata, columns, id_from)
        paths, documents = paths_and_documents(sources, options.language)
        loading = load(
            paths,
            include=include,
            exclude=exclude,
            everything=everything,
            options=options,
            fetch_limits=fetch_limits,
            ocr=ocr,
        )
        if problem := await in_thread(loading.find_files):
            raise problem
        report = await self._add_all(documents, progress, loading)
        return report.model_copy(
            update={"skipped": loading.skipped, "notes": (*report.notes, *loading.notes)}
        )

    async def import_documents(
        self, path: str | Path, *, collection: str | None = None, progress: OnProgress | None = None
    ) -> AddReport:
        """Add what `export_documents` wrote: a file, or a folder in the layout of BEIR.

        Documents keep their ids and, unless `collection` is given, their collections.
        """
        from lagotto.base.export import import_from

        return await self._add_all(import_from(Path(path), collection=collection), progress)

    @abstractmethod
    async def _add_all(
        self, results: ReadResults, progress: OnProgress | None, loading: Loading | None = None
    ) -> AddReport:
        """Add documents as they are read, then those of `loading`."""

    async def export_documents(
        self,
        path: str | Path,
        *,
        format: ExportFormat = "jsonl",  # noqa: A002
        filters: FilterLike = None,
        collection: str | None = None,
    ) -> int:
        """Write matching documents to a file, or for `beir` to a folder; return their number.

        For `beir`, judgements become its queries and the relevance of documents.
        """
        from lagotto.base.export import export_to
        from lagotto.base.judgements import write_judgements

        count = await export_to(Path(path), self._whole(filters, collection), format=format)
        if format == "beir":
            write_judgements(Path(path), await self.judgements(), collection=collection)
        return count

    async def _whole(self, filters: FilterLike, collection: str | None) -> AsyncIterator[Document]:
        async for listed in self.iter_documents(filters=filters, collection=collection):
            if document := await self.get(listed.id, collection=listed.collection):
                yield document

    @abstractmethod
    async def chunks(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> list[Chunk]:
        """Return the chunks of a document in order, parents first; empty if it does not exist."""

    @abstractmethod
    async def resolve(self, citation: Citation | str) -> CitedPassage:
        """Return the text that a citation, or the key of one, refers to, with its location."""

    @abstractmethod
    async def judge(
        self, query: str, passage: Citation | RetrievalResult | str, relevance: int | None
    ) -> RelevanceJudgement | None:
        """Store whether a hit, or what a citation refers to, is relevant for a query: 1 or 0.

        It replaces the judgement before; None takes it back.
        """

    @abstractmethod
    async def judgements(self, *, query: str | None = None) -> list[RelevanceJudgement]:
        """List all judgements, the oldest first; of one query if given."""

    @abstractmethod
    async def info(self) -> StoreInfo:
        """Return the size of the base, what it was made with, and the state of its indexes."""


@dataclass(frozen=True, slots=True)
class BaseRetriever:
    """A Retriever that searches a base; `vector` is that of the query, if it is known."""

    base: BaseVerbs
    vector: Vector | None = None

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        request = SearchRequest.of(prefs, "search", vector=self.vector, ctx=ctx)
        return cast("RetrievalBundle", await self.base.answer(replace(request, over_own=True)))


async def page_of_documents(
    base: BaseVerbs,
    *,
    after: tuple[str, str] | None,
    limit: int,
    filters: FilterLike = None,
    collection: str | None = None,
) -> list[Document]:
    """The first `limit` documents behind the collection and id `after`, without their texts."""
    wanted = parse_filter(filters)
    if after is not None:
        same = And(Eq("collection", after[0]), Gt("document_id", after[1]))
        wanted = And(wanted, Or(Gt("collection", after[0]), same))
    return await first_documents(base.iter_documents(filters=wanted, collection=collection), limit)


async def first_documents(documents: AsyncIterator[Document], count: int) -> list[Document]:
    """The next `count` documents, or those that are left."""
    first: list[Document] = []
    async for document in documents:
        first.append(document)
        if len(first) == count:
            break
    return first


SHORTEST_PREFIX = 4
"""Characters; fewer would name too many documents."""
LISTED = 5
"""Documents that a message names."""


async def documents_called(
    base: BaseVerbs,
    name: str,
    *,
    collection: str | None = None,
    is_local: bool = True,
    by_end: bool = True,
) -> list[Document]:
    """The documents that `name` stands for; several for a folder or a file of many rows.

    Tried in this order: an id, a file or web address, the path in a citation, a title, then
    folders, ends of paths and the beginnings of ids. With `is_local` a relative path is one of this
    process.
    """
    path = _path(name) if is_local else name
    for field, value in (("document_id", name), ("source", path), ("path", name), ("title", name)):
        if matches := await base.documents(filters=Eq(field, value), collection=collection):
            return matches
    end = f"/{name.removeprefix('./')}"
    return [
        document
        async for document in base.iter_documents(collection=collection)
        if (document.source and Path(path) in Path(document.source).parents)
        or (by_end and document.source.endswith(end))
        or (len(name) >= SHORTEST_PREFIX and document.id.startswith(name))
    ]


async def document_called(
    base: BaseVerbs, name: str, *, collection: str | None = None, is_local: bool = True
) -> Document | None:
    """The one document that `name` stands for, without its text, None if there is none.

    ConfigError if there are several; an id alone is first one of the default collection.
    """
    items = await documents_called(base, name, collection=collection, is_local=is_local)
    if items and all(document.id == name for document in items):
        return min(items, key=lambda item: (item.collection != DEFAULT_COLLECTION, item.collection))
    return only_document(name, items)


def only_document(name: str, matches: Sequence[Document]) -> Document | None:
    """The document, None if there is none; ConfigError if there are several."""
    if len(matches) > 1:
        several = len({document.id for document in matches}) < len(matches)
        remedy = "pass --collection" if several else "give the id of one of them"
        raise ConfigError(f"{name!r} is not unique: {described(matches)}; {remedy}")
    return matches[0] if matches else None


def described(documents: Sequence[Document]) -> str:
    """The first few documents, for messages."""
    names = [
        f"{document.id} ({document.title or document.source}, collection {document.collection})"
        for document in documents[:LISTED]
    ]
    more = len(documents) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _path(name: str) -> str:
    """`name` as the source of what was added from here: an absolute path, or a web address."""
    if is_web_address(name):
        return name.partition("#")[0]
    try:
        return Path(name).expanduser().resolve().as_posix()
    except (OSError, RuntimeError, ValueError):  # not a path at all
        return name


def _options(settings: Mapping[str, Any], **named: object) -> dict[str, Any]:
    """The settings that a call changes."""
    return {**settings, **{name: value for name, value in named.items() if value is not None}}
