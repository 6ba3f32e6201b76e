"""Requests to a Pinecone index: within its limits, with retries, errors translated once.

This is the Documents API (2026-07) of the vendor's SDK. An index that was made for the older
Vectors API refuses these requests.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lagotto.concurrency import checkpoint
from lagotto.documents import Vector, Vectors
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.models.http import RETRIED, RetryPolicy

if TYPE_CHECKING:
    from pinecone import ApiError, Index, PineconeError
    from pinecone.models.indexes.index import IndexModel
    from pinecone.models.response_info import ResponseInfo

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_DOCUMENTS = 1_000
"""Documents of an upsert, and ids of a deletion."""

MOST_BYTES = 1_900_000
"""Bytes of an upsert: the vendor takes 2 MB, with everything around the documents."""

DEEPEST = 10_000
"""The greatest `top_k` of a search."""

DECIMALS = 7
"""Of a component that is sent: the record has the exact one, and twice as many fit a request."""

LONGEST_REQUEST = 20.0
TRIES = 4
"""How often the SDK itself sends a request for data, which can't be changed."""

PAUSES = RetryPolicy(pause=0.2, longest_pause=5.0)
SLEEP = 0.05
"""Seconds between two checkpoints during a pause."""


class Proposals(NamedTuple):
    """The ids that a search found, best first, and the sequence number that it had reached.

    The service numbers the writes of each namespace. A search reflects all writes up to the number
    that comes with it; 0 where it tells none.
    """

    ids: list[str]
    reached: int


class PineconeService:
    """The index called `name`, with the key in PINECONE_API_KEY; connects on first use.

    A request is tried again for `timeout` seconds; then IndexUnavailableError.
    """

    def __init__(self, name: str, *, dimension: int, timeout: float) -> None:
        if find_spec("pinecone") is None:
            raise ConfigError(
                "a Pinecone index needs the package pinecone, which is not installed; run "
                "`pip install 'lagotto[pinecone]'`"
            )
        self.name = name
        self._dimension = dimension
        self._timeout = timeout
        self._connecting = threading.Lock()
        self._connected: tuple[Index, str] | None = None

    def upsert(self, namespace: str, documents: Sequence[Mapping[str, Any]]) -> int:
        """Write documents in as few requests as possible; the number of the last write."""
        _, field = self._connect()
        return max(
            (self._upsert(namespace, some) for some in batches(documents, vector_field=field)),
            default=0,
        )

    def nearest(
        self, namespace: str, query: Vector, *, top_k: int, where: Mapping[str, Any] | None
    ) -> Proposals:
        """The ids of the documents that the service takes for the nearest."""
        _, field = self._connect()
        clause = {"type": "dense_vector", "field": field, "values": sent(query)}
        answer = self._ask_existing(
            lambda index: index.documents.search(
                namespace=namespace, score_by=[clause], top_k=top_k, filter=where
            )
        )
        if answer is None:
            return Proposals([], 0)
        reached = answer.response_info.lsn_reconciled if answer.response_info else None
        return Proposals([match.id for match in answer.matches], reached or 0)

    def text_of(self, namespace: str, id: str, *, field: str) -> str | None:
        """A text field of a document, None if there is no such document."""
        answer = self._ask_existing(
            lambda index: index.documents.fetch(
                namespace=namespace, ids=[id], include_fields=[field]
            )
        )
        found = answer.documents.get(id) if answer else None
        return None if found is None else str(found.to_dict()[field])

    def put_text(self, namespace: str, id: str, *, field: str, text: str) -> None:
        """Write a document that is only its text; a vector is required, so it gets some vector."""
        vector = [1.0, *[0.0] * (self._dimension - 1)]
        self.upsert(namespace, [{"_id": id, "": vector, field: text}])

    def delete(self, namespace: str, ids: Sequence[str]) -> None:
        """Delete documents; those that are not there are left alone."""
        for start in range(0, len(ids), MOST_DOCUMENTS):
            self._delete(namespace, ids[start : start + MOST_DOCUMENTS])

    def namespaces(self, prefix: str) -> list[str]:
        """The namespaces whose names begin with a prefix."""
        pages = self._ask(lambda index: list(index.list_namespaces(prefix=prefix)))
        return [found.name for page in pages for found in page.namespaces]

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace with all its documents."""
        self._ask_existing(lambda index: index.delete_namespace(name=namespace))

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        with self._connecting:
            if self._connected is not None:
                self._connected[0].close()
            self._connected = None

    def _upsert(self, namespace: str, documents: Sequence[Mapping[str, Any]]) -> int:
        answer = self._ask(
            lambda index: index.documents.upsert(namespace=namespace, documents=documents)
        )
        return self._committed(answer.response_info)

    def _delete(self, namespace: str, ids: Sequence[str]) -> None:
        self._ask_existing(lambda index: index.documents.delete(namespace=namespace, ids=ids))

    def _connect(self) -> tuple[Index, str]:
        """The client of the index, and the name of its vector field."""
        with self._connecting:
            if self._connected is None:
                self._connected = self._retried(self._described)
            return self._connected

    def _described(self) -> tuple[Index, str]:
        from pinecone import NotFoundError, Pinecone, PineconeValueError, RetryConfig

        try:
            client = Pinecone(
                timeout=min(self._timeout / TRIES, LONGEST_REQUEST),
                retry_config=RetryConfig(max_retries=0),  # `_retried` has a deadline
                source_tag="lagotto",
            )
        except PineconeValueError as exc:
            raise ConfigError(
                f"the Pinecone index {self.name!r} needs an API key ({exc}); set PINECONE_API_KEY"
            ) from exc
        try:
            with client:
                found = client.indexes.describe(self.name)
        except NotFoundError as exc:
            raise ConfigError(
                f"there is no Pinecone index {self.name!r}; {self._advice()}"
            ) from exc
        field = self._vector_field(found)
        if not found.host:
            raise IndexUnavailableError(
                f"the Pinecone index {self.name!r} is not ready; try again in a minute"
            )
        return client.index(host=found.host), field

    def _vector_field(self, found: IndexModel) -> str:
        """The dense field of the index; ConfigError unless there is one, of our dimension."""
        from pinecone import DenseVectorField

        dense = {
            name: field.dimension
            for name, field in found.schema.fields.items()
            if isinstance(field, DenseVectorField)
        }
        if list(dense.values()) != [self._dimension]:
            raise ConfigError(
                f"the Pinecone index {self.name!r} has the vector fields {dense}, and needs "
                f"exactly one, of the dimension {self._dimension}; {self._advice()}"
            )
        return next(iter(dense))

    def _advice(self) -> str:
        fields = {
            "embedding": {
                "type": "dense_vector",
                "dimension": self._dimension,
                "metric": "cosine",
            }
        }
        return f"create it: Pinecone().indexes.create(name=..., schema={{'fields': {fields}}})"

    def _committed(self, info: ResponseInfo | None) -> int:
        number = info.lsn_committed if info else None
        if number is None:
            raise IndexUnavailableError(
                f"the Pinecone index {self.name!r} does not number its writes, so it can't be "
                "told when a search has them; use a serverless index"
            )
        return number

    def _ask(self, request: Callable[[Index], T]) -> T:
        index, _ = self._connect()
        return self._retried(lambda: request(index))

    def _ask_existing(self, request: Callable[[Index], T]) -> T | None:
        """The answer, None if there is no such namespace: the first write makes it, later on."""
        from pinecone import NotFoundError

        index, _ = self._connect()
        try:
            return self._retried(lambda: request(index), passed=NotFoundError)
        except NotFoundError:
            return None

    def _retried(
        self, request: Callable[[], T], *, passed: type[PineconeError] | tuple[()] = ()
    ) -> T:
        """The answer to a request, which is repeated until the timeout if that may help.

        Errors are translated, except those that the caller wants `passed` on.
        """
        from pinecone import PineconeError

        deadline = time.monotonic() + self._timeout
        failures = 0
        while True:
            try:
                return request()
            except passed:
                raise
            except PineconeError as exc:
                failures += 1
                pause = wait_of(exc, failures)
                if pause is None or time.monotonic() + pause > deadline:
                    raise self._translated(exc) from exc
                log.debug("Pinecone index %s: another try in %.1f s: %s", self.name, pause, exc)
            _sleep(pause)

    def _translated(self, problem: PineconeError) -> IndexUnavailableError:
        from pinecone import ApiError, ForbiddenError, UnauthorizedError

        if isinstance(problem, UnauthorizedError | ForbiddenError):
            advice = "check PINECONE_API_KEY"
        elif isinstance(problem, ApiError) and problem.status_code not in RETRIED:
            advice = "it refused a request; see the message"
        else:
            advice = "check the connection, or try again later"
        return IndexUnavailableError(
            f"the Pinecone index {self.name!r} can't be used: {problem}; {advice}"
        )


def batches(
    documents: Sequence[Mapping[str, Any]], *, vector_field: str
) -> Iterator[list[dict[str, Any]]]:
    """Documents in batches that a request may have; the vector, under "", gets its field's name."""
    batch: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        named = {key or vector_field: value for key, value in document.items()}
        length = len(json.dumps(named, ensure_ascii=False).encode()) + 1
        if batch and (size + length > MOST_BYTES or len(batch) == MOST_DOCUMENTS):
            yield batch
            batch, size = [], 0
        batch.append(named)
        size += length
    if batch:
        yield batch


def sent(vectors: Vector | Vectors) -> list[Any]:
    """Vectors as they are sent."""
    rounded: list[Any] = vectors.astype("float64").round(DECIMALS).tolist()
    return rounded


def wait_of(problem: PineconeError, failures: int) -> float | None:
    """Seconds to wait before another try, None if it would not help."""
    from pinecone import ApiError, PineconeConnectionError, PineconeTimeoutError

    if isinstance(problem, PineconeConnectionError | PineconeTimeoutError):
        return PAUSES.wait(failures)
    if isinstance(problem, ApiError) and problem.status_code in RETRIED:
        return max(PAUSES.wait(failures), _asked_for(problem))
    return None


def _asked_for(problem: ApiError) -> float:
    """What the service asks to wait for, in seconds."""
    try:
        return max(0.0, float((problem.headers or {}).get("retry-after", 0)))
    except ValueError:
        return 0.0


def _sleep(seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        checkpoint()
        time.sleep(min(left, SLEEP))
