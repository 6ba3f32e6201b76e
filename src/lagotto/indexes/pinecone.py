"""Vectors in a Pinecone index: the calls of its Documents API, and what its service promises.

Writes are indexed later. Each has a log sequence number in its namespace, and a search tells the
number that it reflects, so a RemoteIndex knows what an answer lacks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lagotto._internal.concurrency import Lazy, checkpoint, in_thread
from lagotto.documents import Vector, digest
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.indexes import remote
from lagotto.indexes.base import ChunkKeys, batches
from lagotto.indexes.pushdown import AnyOf, Condition, Joined, Payload
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteState, RemoteVectorIndex
from lagotto.models.http import RETRIED, RetryPolicy, runs

if TYPE_CHECKING:
    from pinecone import Index, PineconeError

log = logging.getLogger(__name__)

T = TypeVar("T")

LAYOUT = "2"  # of documents and state; other layouts have other names
STATES = "lagotto-states"  # the namespace with a document per index of Lagotto: its state
STATE = "state"  # the field of the state
SHARDS = 16
"""Namespaces of an epoch. A search in one collection reads, and pays for, one of them; a search in
all collections asks each of them, and the state has a number of each. A namespace per collection
would make both grow with the number of collections."""

MOST_DOCUMENTS = 1_000  # documents of an upsert, and ids of a deletion
MOST_BYTES = 1_900_000
"""Bytes of an upsert: the vendor takes 2 MB, with everything around the documents."""

DECIMALS = 7
"""Of a component that is sent: the record has the exact one, and twice as many fit a request."""

API_KEY = "PINECONE_API_KEY"
LONGEST_REQUEST = 20.0
TRIES = 4  # how often the SDK itself sends a request for data, which can't be changed
PAUSES = RetryPolicy(pause=0.2, longest_pause=5.0)
SLEEP = 0.05  # seconds between two checkpoints during a pause

Metadata = dict[str, Any]


def open_pinecone(site: IndexSite, *, model_id: str, dimension: int) -> RemoteVectorIndex:
    """The vector index of a base in the Pinecone index that `pinecone:INDEX` names."""
    index = site.address.partition(":")[2]
    if not index:
        raise ConfigError("a Pinecone index is given by its name, as in pinecone:my-index")
    name = site.name("vectors", f"pinecone {LAYOUT} {model_id} {dimension}")
    driver = PineconeDriver(index, name=name, dimension=dimension, timeout=site.timeout)
    return RemoteVectorIndex(driver, model_id=model_id, dimension=dimension, timeout=site.timeout)


class PineconeDriver(remote.RemoteDriver):
    """Points in namespaces of the Pinecone index `service`, with the key in PINECONE_API_KEY.

    It connects on first use. A request is tried again for `timeout` seconds; then
    IndexUnavailableError.
    """

    kind = "pinecone"
    deepest = 10_000

    def __init__(self, service: str, *, name: str, dimension: int, timeout: float) -> None:
        if find_spec("pinecone") is None:
            raise ConfigError(
                "a Pinecone index needs the package pinecone, which is not installed; run "
                "`pip install 'lagotto[pinecone]'`"
            )
        self.shown = f"pinecone:{service}"
        self._service = service
        self._index = f"the Pinecone index {service!r}"
        self._name = name
        self._dimension = dimension
        self._timeout = timeout
        self._connection = Lazy(lambda: self._retried(self._described))
        """The client of the index, and the name of its vector field."""

    def read_state(self, *, briefly: bool) -> str | None:
        answer = self._call_existing(
            "documents.fetch", namespace=STATES, ids=[self._name], include_fields=[STATE]
        )
        document = answer.documents.get(self._name) if answer else None
        return None if document is None else str(document.to_dict()[STATE])

    def write_state(self, text: str) -> None:
        vector = [1.0, *[0.0] * (self._dimension - 1)]  # some vector, since one is required
        self._write(STATES, [{"_id": self._name, self._field: vector, STATE: text}])

    def upsert(self, epoch: str, points: Sequence[remote.Point]) -> remote.Writes:
        documents: dict[str, list[Metadata]] = defaultdict(list)
        for point in points:
            assert isinstance(point.vector, np.ndarray)
            document = {"_id": str(point.key), self._field: _sent(point.vector)}
            namespace = self._namespace(epoch, point.collection)
            documents[namespace].append(document | metadata(point.fields))
        return {namespace: self._write(namespace, some) for namespace, some in documents.items()}

    def delete_points(self, state: RemoteState, keys: ChunkKeys) -> None:
        for namespace in state.last.writes:
            self._delete(namespace, list(map(str, keys.tolist())))

    async def query(
        self,
        state: RemoteState,
        vector: Vector,
        *,
        limit: int,
        where: Condition | None,
        collections: frozenset[str] | None,
    ) -> remote.Proposals:
        namespaces = set(state.last.writes)
        if collections is not None:
            namespaces &= {self._namespace(state.epoch, some) for some in collections}
        answers = await asyncio.gather(
            *(in_thread(self._nearest, name, vector, limit, where) for name in namespaces)
        )
        return remote.Proposals(
            np.array([int(id) for ids, _ in answers for id in ids], np.int64),
            more=any(len(ids) == limit for ids, _ in answers),
            reached={name: seq for name, (_, seq) in zip(namespaces, answers, strict=True)},
        )

    def reached(self, parts: Iterable[str]) -> remote.Writes:
        probe: Vector = np.zeros(self._dimension, np.float32)
        probe[0] = 1.0
        return {namespace: self._nearest(namespace, probe, 1, None)[1] for namespace in parts}

    def is_intact(self, state: RemoteState, *, overdue: bool) -> bool:
        """Whether nobody has deleted a namespace: it is not there, long after it was written."""
        return not overdue or state.last.writes.keys() <= set(self._namespaces(state.epoch))

    def delete_epoch(self, epoch: str) -> None:
        for name in self._namespaces(epoch):
            self._call_existing("delete_namespace", name=name)

    def delete_all(self) -> None:
        self.delete_epoch("")
        self._delete(STATES, [self._name])

    def close(self) -> None:
        if connection := self._connection.drop():
            connection[0].close()

    def _namespace(self, epoch: str, collection: str) -> str:
        return f"lagotto-{self._name}-{epoch}-{int(digest(collection), 16) % SHARDS:x}"

    def _namespaces(self, epoch: str) -> list[str]:
        """The namespaces of an epoch, or of all for ""."""
        prefix = f"lagotto-{self._name}-{epoch}-" if epoch else f"lagotto-{self._name}-"
        index, _ = self._connection()
        pages = self._retried(lambda: list(index.list_namespaces(prefix=prefix)))
        return [namespace.name for page in pages for namespace in page.namespaces]

    def _write(self, namespace: str, documents: Sequence[Metadata]) -> int:
        """Write documents in as few requests as possible; the number of the last write."""
        last = 0
        sizes = [len(json.dumps(each, ensure_ascii=False).encode()) + 1 for each in documents]
        for run in runs(sizes, room=MOST_BYTES, most=MOST_DOCUMENTS):
            some = documents[run.start : run.stop]
            answer = self._call("documents.upsert", namespace=namespace, documents=some)
            seq = answer.response_info.lsn_committed if answer.response_info else None
            if seq is None:
                raise IndexUnavailableError(
                    f"{self._index} does not number its writes, so it can't be told when a search "
                    "has them; use a serverless index"
                )
            last = max(last, seq)
        return last

    def _delete(self, namespace: str, ids: Sequence[str]) -> None:
        for some in batches(ids, MOST_DOCUMENTS):
            self._call_existing("documents.delete", namespace=namespace, ids=some)

    def _nearest(
        self, namespace: str, query: Vector, limit: int, where: Condition | None
    ) -> tuple[list[str], int]:
        """The ids that the service takes for the nearest, and the number that the answer reflects.

        The number is 0 where it tells none.
        """
        clause = {"type": "dense_vector", "field": self._field, "values": _sent(query)}
        answer = self._call_existing(
            "documents.search",
            namespace=namespace,
            score_by=[clause],
            top_k=limit,
            filter=None if where is None else condition(where),
        )
        if answer is None:
            return [], 0
        reached = answer.response_info.lsn_reconciled if answer.response_info else None
        return [match.id for match in answer.matches], reached or 0

    @property
    def _field(self) -> str:
        return self._connection()[1]

    def _described(self) -> tuple[Index, str]:
        import pinecone

        try:
            client = pinecone.Pinecone(
                timeout=min(self._timeout / TRIES, LONGEST_REQUEST),
                retry_config=pinecone.RetryConfig(max_retries=0),  # `_retried` has a deadline
                source_tag="lagotto",
            )
        except pinecone.PineconeValueError as exc:
            raise ConfigError(f"{self._index} needs an API key ({exc}); set {API_KEY}") from exc
        try:
            with client:
                description = client.indexes.describe(self._service)
        except pinecone.NotFoundError as exc:
            raise ConfigError(
                f"there is no Pinecone index {self._service!r}; {self._advice()}"
            ) from exc
        dense = {
            name: field.dimension
            for name, field in description.schema.fields.items()
            if isinstance(field, pinecone.DenseVectorField)
        }
        if list(dense.values()) != [self._dimension]:
            raise ConfigError(
                f"{self._index} has the vector fields {dense}, and needs exactly one, of the "
                f"dimension {self._dimension}; {self._advice()}"
            )
        if not description.host:
            raise IndexUnavailableError(f"{self._index} is not ready; try again in a minute")
        return client.index(host=description.host), next(iter(dense))

    def _advice(self) -> str:
        vector = {"type": "dense_vector", "dimension": self._dimension, "metric": "cosine"}
        schema = {"fields": {"embedding": vector}}
        return f"create it: Pinecone().indexes.create(name=..., schema={schema})"

    def _call(self, method: str, **options: Any) -> Any:
        """Call a method of the index, or of a part of it."""
        index, _ = self._connection()
        return self._retried(lambda: attrgetter(method)(index)(**options))

    def _call_existing(self, method: str, **options: Any) -> Any:
        """The same; None if there is no such namespace: the first write makes it, later on."""
        from pinecone import NotFoundError

        try:
            return self._call(method, **options)
        except IndexUnavailableError as exc:
            if isinstance(exc.__cause__, NotFoundError):
                return None
            raise

    def _retried(self, request: Callable[[], T]) -> T:
        """The answer to a request, which is repeated until the timeout if that may help."""
        from pinecone import PineconeError

        deadline = time.monotonic() + self._timeout
        failures = 0
        while True:
            try:
                return request()
            except PineconeError as exc:
                failures += 1
                pause = _wait_of(exc, failures)
                if pause is None or time.monotonic() + pause > deadline:
                    raise self._translated(exc) from exc
                log.debug("Pinecone index %s: another try in %.1f s: %s", self._service, pause, exc)
            while (left := pause) > 0:
                checkpoint()
                time.sleep(min(left, SLEEP))
                pause -= SLEEP

    def _translated(self, problem: PineconeError) -> IndexUnavailableError:
        import pinecone

        if isinstance(problem, pinecone.UnauthorizedError | pinecone.ForbiddenError):
            advice = f"check {API_KEY}"
        elif isinstance(problem, pinecone.ApiError) and problem.status_code not in RETRIED:
            advice = "it refused a request; see the message"
        else:
            advice = "check the connection, or try again later"
        return IndexUnavailableError(f"{self._index} can't be used: {problem}; {advice}")


def metadata(fields: Payload) -> Metadata:
    """Fields as the service takes them: texts as a list, of numbers the least and the greatest."""
    entries: Metadata = {}
    for name, values in fields.items():
        if isinstance(values[0], str):
            entries[name] = values
        else:
            entries[f"lo_{name}"], entries[f"hi_{name}"] = min(values), max(values)
    return entries


def condition(where: Condition) -> Metadata:
    if isinstance(where, Joined):
        return {f"${where.operator}": [condition(part) for part in where.parts]}
    if isinstance(where, AnyOf):
        return {where.name: {"$in": list(where.keywords)}}
    ends = []
    if where.least is not None:
        ends.append({f"hi_{where.name}": {"$gte": where.least}})
    if where.most is not None:
        ends.append({f"lo_{where.name}": {"$lte": where.most}})
    return ends[0] if len(ends) == 1 else {"$and": ends}


def _sent(vector: Vector) -> list[float]:
    rounded: list[float] = vector.astype("float64").round(DECIMALS).tolist()
    return rounded


def _wait_of(problem: PineconeError, failures: int) -> float | None:
    """Seconds to wait before another try, None if it would not help."""
    from pinecone import ApiError, PineconeConnectionError, PineconeTimeoutError

    pause = PAUSES.wait(failures)
    if isinstance(problem, PineconeConnectionError | PineconeTimeoutError):
        return pause
    if not isinstance(problem, ApiError) or problem.status_code not in RETRIED:
        return None
    with suppress(ValueError):
        pause = max(pause, float((problem.headers or {}).get("retry-after", 0)))
    return pause
