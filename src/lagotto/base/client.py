"""AsyncClient and Client: the verbs and the results of a knowledge base, over HTTP; and `open`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import quote

from lagotto import errors
from lagotto._internal.locations import is_web_address, mask_location
from lagotto.base.blocking import BlockingBase, KnowledgeBase, blocking, making
from lagotto.base.ingest import AddReport, OnProgress, Progress, batches, sum_reports
from lagotto.base.judgements import RelevanceJudgement, citation_of
from lagotto.base.protocol import AsyncBase, FilterLike, ReadResults
from lagotto.context import Citation, CitedPassage, ContextPack
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Document, DocumentRef, Record
from lagotto.errors import CitationError, ConfigError, LagottoError, StoreError
from lagotto.filters import parse_filter
from lagotto.prefs import SearchRequest, Verb
from lagotto.readers import Loading, ReadFailure
from lagotto.request_context import cancel_scope
from lagotto.results import Results, RetrievalBundle, RetrievalResult, RetrievalStats
from lagotto.retrieval.why_not import WhyNot, unknown_document
from lagotto.stores.base import StoreInfo

if TYPE_CHECKING:
    import httpx


KEY_VARIABLE = "LAGOTTO_API_KEY"

FROM_SERVER: Mapping[str, type[LagottoError]] = {
    "BadRequest": ConfigError,
    "InvalidRequest": ConfigError,
    "UnsupportedMediaType": ConfigError,
    "ContentTooLarge": ConfigError,
    "TooManyRequests": errors.StoreBusyError,
    "Unavailable": errors.StoreUnavailableError,
    "Timeout": errors.DeadlineExceeded,
}
"""The errors that problems of the server are; those named like an error are that one."""


def _error(problem: Any, location: str) -> LagottoError:
    name, detail = str(problem.get("error")), str(problem.get("detail"))
    named: type[LagottoError] = getattr(errors, name, StoreError)
    kind = FROM_SERVER.get(name, named)
    error = kind.__new__(kind)
    message = (
        detail if issubclass(kind, ConfigError | errors.QueryError) else f"{location}: {detail}"
    )
    Exception.__init__(error, message)  # some errors are made of parts that a problem has not
    return error


def search_body(request: SearchRequest) -> dict[str, Any]:
    """A search as the body of a request; what it leaves out is as in the base on the server."""
    verb: Verb = "retrieve" if request.verb == "why_not" else request.verb
    settings = dict(request.settings)
    for name, value in request.settings.items():  # groups may be records
        if name == "filters":
            settings[name] = parse_filter(value).to_json()
        elif isinstance(value, Record):
            settings[name] = value.model_dump(mode="json", exclude_unset=True)
    start: dict[str, Any] = {}
    if isinstance(request.prefs, str):
        start = {"prefs": request.prefs}
    elif request.prefs is not None:
        start = request.prefs.given_for(verb)
    if "top_k" in settings:
        start.pop("top_k_chunks", None)
    own = {
        "query": None if request.queries else request.query,
        "queries": request.queries or None,
        "query_vector": None if request.vector is None else list(map(float, request.vector)),
        "format": request.format if verb == "context" else None,
        "max_tokens": request.max_tokens,
        "document": request.document_id or None,
    }
    return {**start, **settings, **{name: each for name, each in own.items() if each is not None}}


def results_of(answer: Mapping[str, Any]) -> Results:
    hits, candidates = (
        [RetrievalResult(**fields_of(RetrievalResult, hit)) for hit in answer.get(name, ())]
        for name in ("hits", "candidates")
    )
    return Results(hits, candidates=candidates, stats=RetrievalStats(**answer["stats"]))


def fields_of(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in kind.model_fields if name in values}


PAGE = 500
BATCH_DOCUMENTS, BATCH_CHARACTERS = 500, 5_000_000
"""How much is sent in one request."""
PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Seconds between two looks at a task."""


class AsyncClient(AsyncBase):
    """A base on a server at `url`; the methods of AsyncKnowledgeBase.

    `api_key` is LAGOTTO_API_KEY by default. Files are read here, and sent as documents, so they
    have the same ids as in a base of one's own. `sync` and `rebuild` work where the base is.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 60.0) -> None:
        self._url = url.rstrip("/")
        self._key = api_key or os.environ.get(KEY_VARIABLE)
        self._timeout = timeout
        self._http: httpx.AsyncClient | None = None

    @property
    def location(self) -> str:
        return mask_location(self._url)

    async def open(self) -> Self:
        """Connect; StoreError if there is no server."""
        await self._request("GET", "/healthz")
        return self

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _request(self, method: str, path: str, missing: bool = False, **content: Any) -> Any:
        """The JSON of an answer; None for NotFound if something may be missing."""
        import httpx

        if self._http is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._http = httpx.AsyncClient(headers=headers, timeout=self._timeout)
        try:
            answer = await self._http.request(method, self._url + path, **content)
            body = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            reason = str(exc) or type(exc).__name__
            raise errors.StoreUnavailableError(
                f"{self.location} does not answer: {reason}"
            ) from exc
        except ValueError as exc:
            raise StoreError(f"{self.location} is no server of Lagotto: no JSON at {path}") from exc
        if answer.is_success:
            return body
        if answer.status_code == 404 and missing:
            return None
        raise _error(body, self.location)

    async def answer(self, request: SearchRequest) -> Any:
        if request.counter is not None:
            raise ConfigError("a server counts tokens as its embedder does; leave the counter out")
        path = "/v1/" + request.verb.replace("_", "-")
        missing = request.verb == "why_not"
        async with cancel_scope(request.context):
            body = await self._request("POST", path, missing=missing, json=search_body(request))
        if body is None:
            hits = await self.answer(replace(request, verb="retrieve", document_id=""))
            collection = request.settings.get("collection") or DEFAULT_COLLECTION
            return unknown_document(hits, DocumentRef(collection, request.document_id))
        if request.verb == "retrieve":
            return results_of(body)
        if request.verb == "why_not":
            return WhyNot(**fields_of(WhyNot, body), results=results_of(body))
        kind = RetrievalBundle if request.verb == "search" else ContextPack
        return kind(**fields_of(kind, body))

    async def resolve(self, citation: Citation | str) -> CitedPassage:
        key = citation.key if isinstance(citation, Citation) else citation
        body = await self._request("POST", "/v1/resolve", missing=True, json={"citation": key})
        if body is None:
            raise CitationError(f"{key}: there is no such document; it may have been removed since")
        if body["changed"]:
            raise CitationError(f"{key}: the document has changed since it was cited; search again")
        return CitedPassage(**body["passage"])

    async def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> AsyncIterator[Document]:
        parameters: dict[str, Any] = {"limit": PAGE}
        if filters is not None:
            parameters["filters"] = json.dumps(parse_filter(filters).to_json())
        if collection is not None:
            parameters["collection"] = collection
        while True:
            page = await self._request("GET", "/v1/documents", params=parameters)
            for fields in page["documents"]:
                yield Document(**fields)
            if page["next"] is None:
                return
            parameters["after"] = page["next"]

    async def get(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> Document | None:
        fields = await self._of_document("documents", document_id, collection)
        return None if fields is None else Document(**fields)

    async def chunks(
        self, document_id: str, *, collection: str = DEFAULT_COLLECTION
    ) -> list[Chunk]:
        answer = await self._of_document("chunks", document_id, collection)
        return [] if answer is None else [Chunk(**fields) for fields in answer["chunks"]]

    async def _of_document(self, what: str, document_id: str, collection: str) -> Any:
        path = f"/v1/{what}/{quote(document_id, safe='')}"
        return await self._request("GET", path, missing=True, params={"collection": collection})

    async def info(self) -> StoreInfo:
        fields = await self._request("GET", "/v1/info")
        return StoreInfo(**{**fields, "location": self.location})

    async def collections(self) -> dict[str, int]:
        """Return the number of documents in each collection that the key may see."""
        answer = await self._request("GET", "/v1/collections")
        return {each["name"]: each["documents"] for each in answer["collections"]}

    async def remove(
        self, *document_ids: str, collection: str | None = None, filters: FilterLike = None
    ) -> list[str]:
        where = None if filters is None else parse_filter(filters).to_json()
        body = {"ids": document_ids, "collection": collection, "filters": where}
        return list((await self._request("POST", "/v1/documents/remove", json=body))["removed"])

    async def judge(
        self, query: str, passage: Citation | RetrievalResult | str, relevance: int | None
    ) -> RelevanceJudgement | None:
        body = {"query": query, "citation": citation_of(passage), "relevance": relevance}
        judgement = (await self._request("POST", "/v1/judgements", json=body))["judgement"]
        return None if judgement is None else RelevanceJudgement(**judgement)

    async def judgements(self, *, query: str | None = None) -> list[RelevanceJudgement]:
        """List the judgements made with this key, the oldest first; of one query if given."""
        params = {} if query is None else {"q": query}
        answer = await self._request("GET", "/v1/judgements", params=params)
        return [RelevanceJudgement(**fields) for fields in answer["judgements"]]

    async def sync(self, /, *folders: object, **options: object) -> NoReturn:
        """Raise ConfigError: folders are synchronised where the base is."""
        raise ConfigError(
            f"{self.location} is a server; run `lagotto sync` where its base is, or use add"
        )

    async def rebuild(self, /, **options: object) -> NoReturn:
        """Raise ConfigError: a base is rebuilt where it is."""
        raise ConfigError(f"{self.location} is a server; run `lagotto rebuild` where its base is")

    async def synonyms(self) -> NoReturn:
        """Raise ConfigError: synonyms are read and set where the base is."""
        raise ConfigError(f"{self.location} is a server; run `lagotto synonyms` where its base is")

    async def set_synonyms(self, /, *groups: object, **options: object) -> NoReturn:
        """Raise ConfigError: synonyms are read and set where the base is."""
        await self.synonyms()

    async def add_documents(
        self,
        documents: Sequence[Document],
        *,
        replace: bool = True,
        progress: OnProgress | None = None,
    ) -> AddReport:
        return await self._add_all(documents, progress, replace=replace)

    async def _add_all(
        self,
        results: ReadResults,
        progress: OnProgress | None,
        loading: Loading | None = None,
        *,
        replace: bool = True,
    ) -> AddReport:
        """Send documents in batches, and wait for the task of each."""
        reports: list[AddReport] = []
        items = chain(results, loading or ())
        groups = batches(items, documents=BATCH_DOCUMENTS, characters=BATCH_CHARACTERS)
        while batch := await asyncio.to_thread(next, groups, None):
            failures = tuple(item for item in batch if isinstance(item, ReadFailure))
            documents = [item for item in batch if isinstance(item, Document)]
            if failures:
                reports.append(AddReport(failures=failures))
            if documents:
                fields = [document.model_dump(mode="json") for document in documents]
                body = {"documents": fields, **({} if replace else {"replace": False})}
                task = await self._request("POST", "/v1/documents", json=body)
                reports.append(await self._finished(task["id"]))
            if progress is not None:
                done = sum_reports(reports)
                counts = done.model_dump(include={"added", "updated", "unchanged", "chunks"})
                progress(Progress(**counts, failed=len(done.failures), seconds=done.seconds))
        return sum_reports(reports)

    async def _finished(self, name: str) -> AddReport:
        pauses = iter(PAUSES)
        while True:
            task = await self._request("GET", f"/v1/tasks/{name}")
            if task["state"] == "cancelled" or (task["state"] == "failed" and task["error"]):
                raise StoreError(f"the task {name} was {task['state']}: {task['error'] or ''}")
            if task["state"] in ("succeeded", "failed"):
                return AddReport(**task["report"])
            await asyncio.sleep(next(pauses, PAUSES[-1]))


class Client(BlockingBase[AsyncClient]):
    """A base on a server at `url`; the methods of KnowledgeBase, over HTTP.

    Creating it connects. `api_key` is LAGOTTO_API_KEY by default.
    """

    @making(AsyncClient)
    def __init__(self, base: AsyncClient) -> None:
        super().__init__(base)

    sync = blocking(AsyncClient.sync)
    rebuild = blocking(AsyncClient.rebuild)
    synonyms = blocking(AsyncClient.synonyms)
    set_synonyms = blocking(AsyncClient.set_synonyms)


def open(  # noqa: A001
    location: str | Path = "lagotto.db", *, api_key: str | None = None, **options: Any
) -> KnowledgeBase | Client:
    """The base at a location: a file, `postgresql://...`, or the `http(s)://` address of a server.

    Both have the same methods and results. `options` are those of KnowledgeBase; a server has its
    own.
    """
    if not is_web_address(location):
        return KnowledgeBase(location, **options)
    if names := sorted(name for name, value in options.items() if value is not None):
        raise ConfigError(f"{', '.join(names)}: the server at this address decides on it")
    return Client(str(location), api_key=api_key)
