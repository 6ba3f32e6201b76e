"""A Pinecone index on 127.0.0.1: the routes that the vendor's SDK uses, its limits and its lag.

It speaks the wire format of the Documents API (2026-07) as SDK 10.2 sends and reads it. Searches
see a write only once it is indexed; each search tells the number of the last write that it
reflects. A test decides how writes are indexed, and which answers fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from tests.servers.scripted import Reply, Request, ScriptedServer

MOST_DOCUMENTS = 1_000
MOST_BYTES = 2 * 1024 * 1024
MOST_METADATA = 40 * 1024
MOST_VALUES = 10_000
DEEPEST = 10_000

_OPERATION = re.compile(r"/namespaces/(?P<namespace>[^/]+)/documents/(?P<verb>\w+)")
_NAMESPACE = re.compile(r"/namespaces/(?P<namespace>[^/]+)")

Documents = dict[str, dict[str, Any]]


class Refused(Exception):  # noqa: N818 an answer, not an error of this module
    """The service refuses a request."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Namespace:
    """The documents after each write, and the number of the last one that searches see."""

    writes: list[Documents] = field(default_factory=lambda: [{}])
    indexed: int = 0

    @property
    def written(self) -> Documents:
        """The documents after the last write."""
        return self.writes[-1]

    def write(self, change: Callable[[Documents], None]) -> int:
        """Apply a change; its number."""
        documents = dict(self.written)
        change(documents)
        self.writes.append(documents)
        return len(self.writes) - 1


class PineconeServer(ScriptedServer):
    """The service with one index, `name`, whose documents have a vector in `vector_field`.

    `held` keeps writes from being indexed, until `index_all`; with `lags`, each search of a
    namespace lets the next one see one write more. `behind` makes the next searches reflect so
    many writes less, as a copy that is behind does. Ids in `lost` are never found by a search,
    though they can be fetched. `failures` are replies to the next requests, before anything else.
    """

    def __init__(
        self, *, dimension: int, name: str = "chunks", vector_field: str = "embedding"
    ) -> None:
        super().__init__({})
        self.name = name
        self.dimension = dimension
        self.vector_field = vector_field
        self.namespaces: dict[str, Namespace] = {}
        self.held = False
        self.lags = False
        self.behind: list[int] = []
        self.lost: set[str] = set()
        self.failures: list[Reply] = []

    def throttle(self, times: int, *, status: int = 429) -> None:
        """Refuse the next requests as a service under load does."""
        body = {"error": {"code": "RESOURCE_EXHAUSTED", "message": "too many requests"}}
        self.failures += [Reply(body, status=status, headers={"Retry-After": "0"})] * times

    def index_all(self) -> None:
        """Let searches see all that is written."""
        for namespace in self.namespaces.values():
            namespace.indexed = len(namespace.writes) - 1

    def verbs(self) -> list[str]:
        """The operations on documents so far, in their order."""
        return [found["verb"] for r in self.requests if (found := _OPERATION.fullmatch(r.path))]

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.failures:
            return self.failures.pop(0)
        try:
            return self._answer(request)
        except Refused as exc:
            body = {"error": {"code": "REFUSED", "message": str(exc)}}
            return Reply(body, status=exc.status)

    def _answer(self, request: Request) -> Reply:
        if not request.headers.get("api-key"):
            raise Refused("no API key", status=401)
        url = urlsplit(request.path)
        if url.path.startswith("/indexes/"):
            return self._describe(url.path.removeprefix("/indexes/"))
        if url.path == "/namespaces":
            return self._list_namespaces(parse_qs(url.query).get("prefix", [""])[0])
        if found := _OPERATION.fullmatch(url.path):
            return self._operate(unquote(found["namespace"]), found["verb"], request)
        if (found := _NAMESPACE.fullmatch(url.path)) and request.method == "DELETE":
            self.namespaces.pop(unquote(found["namespace"]), None)
            return Reply({})
        raise Refused(f"no route for {request.method} {url.path}", status=404)

    def _describe(self, name: str) -> Reply:
        if name != self.name:
            raise Refused(f"Resource {name} not found", status=404)
        vectors = {"type": "dense_vector", "dimension": self.dimension, "metric": "cosine"}
        return Reply(
            {
                "name": name,
                "host": self.url,
                "status": {"ready": True, "state": "Ready"},
                "schema": {"fields": {self.vector_field: vectors}},
                "deployment": {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"},
                "deletion_protection": "disabled",
            }
        )

    def _list_namespaces(self, prefix: str) -> Reply:
        found = [
            {"name": name, "record_count": str(len(some.written))}
            for name, some in sorted(self.namespaces.items())
            if name.startswith(prefix)
        ]
        return Reply({"namespaces": found, "total_count": len(found)})

    def _operate(self, name: str, verb: str, request: Request) -> Reply:
        if len(request.body) > MOST_BYTES:
            raise Refused("the request is larger than 2 MB", status=413)
        body = request.json
        match verb:
            case "upsert":
                return self._upsert(name, body["documents"])
            case "search":
                return self._search(name, body)
            case "fetch":
                return self._fetch(name, body["ids"])
            case "delete":
                return self._delete(name, body["ids"])
        raise Refused(f"no operation {verb}", status=404)

    def _upsert(self, name: str, documents: list[dict[str, Any]]) -> Reply:
        if not 0 < len(documents) <= MOST_DOCUMENTS:
            raise Refused(f"{len(documents)} documents; 1 to {MOST_DOCUMENTS} are accepted")
        for document in documents:
            self._check(document)
        made = {document["_id"]: document for document in documents}
        number = self._written(name, lambda found: found.update(made))
        return Reply({"upserted_count": len(documents)}, headers=number)

    def _delete(self, name: str, ids: list[str]) -> Reply:
        if len(ids) > MOST_DOCUMENTS:
            raise Refused(f"{len(ids)} ids; {MOST_DOCUMENTS} are accepted")

        def without(found: Documents) -> None:
            for id in ids:
                found.pop(id, None)

        return Reply({}, headers=self._written(name, without))

    def _fetch(self, name: str, ids: list[str]) -> Reply:
        namespace = self.namespaces.get(name, Namespace())
        found = {id: namespace.written[id] for id in ids if id in namespace.written}
        return Reply({"documents": found, "namespace": name, "usage": {"read_units": 1}})

    def _written(self, name: str, change: Callable[[Documents], None]) -> dict[str, str]:
        namespace = self.namespaces.setdefault(name, Namespace())
        number = namespace.write(change)
        if not (self.held or self.lags):
            namespace.indexed = number
        return {"x-pinecone-request-lsn": str(number)}

    def _search(self, name: str, body: Mapping[str, Any]) -> Reply:
        if not 0 < body["top_k"] <= DEEPEST:
            raise Refused(f"top_k is {body['top_k']}; 1 to {DEEPEST} is accepted")
        (clause,) = body["score_by"]
        if clause["type"] != "dense_vector" or clause["field"] != self.vector_field:
            raise Refused(f"no dense_vector field {clause['field']}")
        query = np.array(clause["values"])
        if query.shape != (self.dimension,):
            raise Refused(f"the query has the dimension {len(query)}, not {self.dimension}")
        if name not in self.namespaces:
            return Reply({"matches": [], "namespace": name, "usage": {"read_units": 1}})
        namespace = self.namespaces[name]
        seen = max(0, namespace.indexed - (self.behind.pop(0) if self.behind else 0))
        documents = [
            document
            for id, document in namespace.writes[seen].items()
            if id not in self.lost and holds(body.get("filter"), document)
        ]
        scores = {
            document["_id"]: float(np.dot(document[self.vector_field], query))
            for document in documents
        }
        best = sorted(scores, key=lambda id: (-scores[id], id))[: body["top_k"]]
        matches = [{"_id": id, "_score": scores[id]} for id in best]
        if self.lags and not self.held:
            namespace.indexed = min(namespace.indexed + 1, len(namespace.writes) - 1)
        return Reply(
            {"matches": matches, "namespace": name, "usage": {"read_units": 1}},
            headers={"x-pinecone-max-indexed-lsn": str(seen)},
        )

    def _check(self, document: Mapping[str, Any]) -> None:
        vector = document.get(self.vector_field)
        if not isinstance(vector, list) or len(vector) != self.dimension:
            raise Refused(f"{document.get('_id')}: no vector of the dimension {self.dimension}")
        rest = {key: value for key, value in document.items() if key != self.vector_field}
        if len(json.dumps(rest).encode()) > MOST_METADATA:
            raise Refused(f"{document['_id']}: more than 40 kB of metadata")
        for key, value in rest.items():
            if key.startswith("$") or (key.startswith("_") and key != "_id"):
                raise Refused(f"{key!r} is not the name of a field")
            if not (isinstance(value, str | int | float) or _is_texts(value)):
                raise Refused(f"{key!r} is {value!r}: not a text, number, boolean or texts")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(some, str) for some in value)


def holds(where: Mapping[str, Any] | None, document: Mapping[str, Any]) -> bool:
    """Whether a filter of the service holds for a document."""
    return all(_holds(key, value, document) for key, value in (where or {}).items())


def _holds(key: str, value: Any, document: Mapping[str, Any]) -> bool:
    if key == "$and":
        return all(holds(part, document) for part in value)
    if key == "$or":
        return any(holds(part, document) for part in value)
    if key not in document:
        return False
    had = document[key] if isinstance(document[key], list) else [document[key]]
    return all(any(_compare(name, some, wanted) for some in had) for name, wanted in value.items())


def _compare(operator: str, value: Any, wanted: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == wanted)
        case "$in":
            if len(wanted) > MOST_VALUES:
                raise Refused(f"{len(wanted)} values; {MOST_VALUES} are accepted")
            return value in wanted
        case "$gte":
            return bool(value >= wanted)
        case "$lte":
            return bool(value <= wanted)
    raise Refused(f"no operator {operator}")
