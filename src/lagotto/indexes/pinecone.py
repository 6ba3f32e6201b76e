"""The vector index in a Pinecone index: the service proposes, the record confirms and scores."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import checkpoint, in_thread
from lagotto.documents import JsonScalar, Vector, Vectors, digest
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.filters import And, Condition, Eq, Filter, Gt, Gte, In, Lt, Lte, Or
from lagotto.indexes.base import (
    NO_HITS,
    OTHER_HISTORY,
    START,
    ChangeLog,
    ChunkFields,
    ChunkKeys,
    FilterKeys,
    Finding,
    Hits,
    LogPosition,
    missing_index,
    other_history,
)
from lagotto.indexes.overlay import RecordVectors
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.vectors.rows import check_vectors
from lagotto.models.http import RETRIED, RetryPolicy

if TYPE_CHECKING:
    from pinecone import ApiError, Index, PineconeError
    from pinecone.models.indexes.index import IndexModel
    from pinecone.models.response_info import ResponseInfo


STATES = "lagotto-states"
"""The namespace with a document per index of Lagotto: its state."""

STATE = "state"
"""The field of the state."""

SHARDS = 16
"""Namespaces of an index. A search in one collection reads, and pays for, one of them; a search in
all collections asks each of them, and the state has a number of each. A namespace per collection
would make both grow with the number of collections."""


def prefix(index: str, epoch: str = "") -> str:
    """What the names of an index's namespaces begin with, or those of one of its epochs."""
    return f"lagotto-{index}-{epoch}-" if epoch else f"lagotto-{index}-"


def namespace(index: str, epoch: str, collection: str) -> str:
    """The namespace of a collection's chunks."""
    return f"{prefix(index, epoch)}{int(digest(collection), 16) % SHARDS:x}"


Metadata = dict[str, Any]

MOST_METADATA_BYTES = 36_000
"""Of the metadata of a document; the vendor takes 40 kB."""

CROWDED: Metadata = {"crowded": True}
"""The metadata of a chunk with more fields than fit: every condition holds for it."""

LONGEST_TEXT = 64
"""Characters; a longer text is compared by its hash."""

MOST_VALUES = 1_000
"""Values of a condition; the vendor takes 10,000."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_]{1,48}")


def metadata_of(fields: ChunkFields) -> Metadata:
    """The metadata of a chunk's document; CROWDED if it would be too large."""
    found: Metadata = {}
    for name, values in fields.values.items():
        safe = _safe(name)
        found[f"e_{safe}"] = sorted({_text(value) for value in values})
        if numbers := [_number(value) for value in values if _is_number(value)]:
            found[f"lo_{safe}"], found[f"hi_{safe}"] = min(numbers), max(numbers)
    size = len(json.dumps(found, ensure_ascii=False).encode())
    return found if size <= MOST_METADATA_BYTES else dict(CROWDED)


def condition(where: Filter, *, crowded: bool = False) -> Metadata | None:
    """A condition that holds for whatever matches a filter; None if there is none but all."""
    found = _condition(where)
    return {"$or": [found, {"crowded": {"$eq": True}}]} if found and crowded else found


def collections_of(where: Filter) -> frozenset[str] | None:
    """The only collections in which a match may be, None for any."""
    match where:
        case And(filters):
            found = [some for part in filters if (some := collections_of(part)) is not None]
            return frozenset.intersection(*found) if found else None
        case Eq(field, value) if field.name == "collection":
            return _texts([value])
        case In(field, values) if field.name == "collection":
            return _texts(values)
    return None


def _condition(where: Filter) -> Metadata | None:
    if isinstance(where, And | Or):
        return _junction(where)
    if not isinstance(where, Condition) or where.field.type == "time":
        return None  # times are compared as instants, not as they are written
    name = _safe(where.field.name)
    match where:
        case Eq(_, value):
            return _any_of(name, [value])
        case In(_, values):
            return _any_of(name, values)
        # `$gte` for both: numbers are rounded, and rounding keeps their order, but not strictly
        case Gt(_, value) | Gte(_, value) if _is_number(value):
            return {f"hi_{name}": {"$gte": _number(value)}}
        case Lt(_, value) | Lte(_, value) if _is_number(value):
            return {f"lo_{name}": {"$lte": _number(value)}}
    return None


def _junction(where: And | Or) -> Metadata | None:
    parts = [_condition(part) for part in where.filters]
    known = [part for part in parts if part is not None]
    if not known or (isinstance(where, Or) and len(known) < len(parts)):
        return None
    return known[0] if len(known) == 1 else {where.operator: known}


def _any_of(name: str, values: Iterable[JsonScalar]) -> Metadata | None:
    wanted = list(values)
    if None in wanted or not 0 < len(wanted) <= MOST_VALUES:
        return None
    return {f"e_{name}": {"$in": sorted({_text(value) for value in wanted})}}


def _texts(values: Iterable[JsonScalar]) -> frozenset[str] | None:
    wanted = list(values)
    return frozenset(map(str, wanted)) if all(isinstance(v, str) for v in wanted) else None


def _safe(name: str) -> str:
    """The name of a field in the service, which restricts characters and length."""
    return name if PLAIN_NAME.fullmatch(name) else f"h_{digest(name)}"


def _text(value: JsonScalar) -> str:
    """A text that equal values share, and others hardly ever."""
    if isinstance(value, bool):
        return f"b:{value}"
    if isinstance(value, str):
        return f"t:{value}" if len(value) <= LONGEST_TEXT else f"d:{digest(value)}"
    return f"n:{_number(value) + 0.0!r}"  # 1 equals 1.0, and 0.0 equals -0.0


def _is_number(value: JsonScalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: JsonScalar) -> float:
    """The nearest number that the service knows; integers have 64 bits at most here."""
    assert isinstance(value, int | float)
    return float(value)


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


MOST_MARKS = 8
"""Marks that are kept: while documents are added without a pause, one of them has been reached."""


@dataclass(frozen=True, slots=True)
class WriteMark:
    """A position of the change log, and the writes that a search must reflect to have reached it.

    `writes` has, for each namespace, the service's number of the last write up to this position.
    """

    number: int
    token: int
    writes: Mapping[str, int]

    @property
    def position(self) -> LogPosition:
        """The position."""
        return LogPosition(self.number, self.token)

    def reached_by(self, seen: Mapping[str, int]) -> bool:
        """Whether searches that had reached the numbers `seen` have all writes of this mark."""
        return all(seen.get(name, 0) >= number for name, number in self.writes.items())


NOTHING = WriteMark(*START, writes={})


@dataclass(frozen=True, slots=True)
class PineconeProgress:
    """The state of an index, as one document of the service has it.

    `epoch` is part of the names of its namespaces: an index that is built anew gets other ones, and
    `former` are the epochs before it, whose namespaces are to be deleted. Documents of chunks whose
    removal is at most at `deleted` have been deleted. `crowded` says that some document has more
    metadata than the service takes, and so none. `version` counts writes of this document: the
    service may answer with an earlier one.
    """

    version: int = 0
    epoch: str = ""
    marks: tuple[WriteMark, ...] = ()
    deleted: int = 0
    crowded: bool = False
    former: tuple[str, ...] = ()

    @property
    def last(self) -> WriteMark:
        """The last position whose changes have all been written."""
        return self.marks[-1] if self.marks else NOTHING

    def reached(self, seen: Mapping[str, int]) -> tuple[WriteMark, ...]:
        """The marks that searches have reached, NOTHING first."""
        return (NOTHING, *(mark for mark in self.marks if mark.reached_by(seen)))

    def marked(self, mark: WriteMark, *, crowded: bool) -> PineconeProgress:
        """After the changes up to a mark have been written."""
        marks = (*self.marks, mark)[-MOST_MARKS:]
        return replace(self, marks=marks, crowded=self.crowded or crowded)

    def anew(self, epoch: str) -> PineconeProgress:
        """An empty index under other names."""
        former = (*self.former, self.epoch) if self.epoch else self.former
        return PineconeProgress(version=self.version, epoch=epoch, former=former)

    def to_json(self) -> str:
        """As text, for `from_json`."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> PineconeProgress:
        """The progress that `to_json` has written."""
        values = json.loads(text)
        marks = tuple(WriteMark(**mark) for mark in values.pop("marks"))
        return cls(**{**values, "marks": marks, "former": tuple(values["former"])})


FEW = 1_000
"""So many allowed chunks are scored from the record, without a request."""

OVERFETCH = 20
"""Documents that are asked for beyond twice as many as wanted: some are removed or newer, and the
service ranks by approximations."""

DEEPER = 4

SEARCH_PAUSES = (0.05, 0.1, 0.2)
"""Seconds to wait before another try, if a search reflects less than an earlier one did: it was
answered by a copy of the namespace that is behind."""

MOST_MISSING = 20_000
"""Changes that are read from the record in place of what such a copy lacks."""


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """Where to search, and under which condition."""

    namespaces: Sequence[str]
    where: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class IndexView:
    """What a snapshot knows of its index, at the time it was made.

    `marks` are the positions that the service had reached, the last is that of the snapshot.
    """

    service: PineconeService
    name: str
    epoch: str
    marks: Sequence[WriteMark]
    crowded: bool
    model_id: str
    dimension: int
    saw: Callable[..., None]
    """Is told the number that a search in a namespace had reached; `at_most`, after some tries."""

    def question(self, allowed: FilterKeys | None) -> NamespaceQuery:
        """What to ask for the chunks that a filter allows."""
        used = self.marks[-1].writes
        where = allowed.where if allowed is not None else None
        if where is None:
            return NamespaceQuery(list(used), None)
        collections = collections_of(where)
        names = {namespace(self.name, self.epoch, some) for some in collections or ()}
        return NamespaceQuery(
            [name for name in used if collections is None or name in names],
            condition(where, crowded=self.crowded),
        )

    def reached(self, answers: Mapping[str, Proposals]) -> WriteMark:
        """The last mark whose writes all answers reflect."""
        for mark in reversed(self.marks):
            writes = {name: number for name, number in mark.writes.items() if name in answers}
            if all(answers[name].reached >= number for name, number in writes.items()):
                return mark
        return NOTHING


class PineconeSnapshot:
    """A VectorSnapshot at the last of the marks of a view."""

    immediate = False

    def __init__(self, view: IndexView, changes: ChangeLog) -> None:
        self._view = view
        self._changes = changes
        self._record = RecordVectors(changes, model_id=view.model_id, dimension=view.dimension)

    @property
    def position(self) -> LogPosition:
        return self._view.marks[-1].position

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        check_vectors(query[None], dimension=self._view.dimension)
        among = None if allowed is None else self._included(allowed.keys)
        if k < 1 or self._view.marks[-1] == NOTHING:
            return NO_HITS
        if among is not None and len(among) <= max(FEW, k):
            return await self._record.best(query, among, k=k)
        question = self._view.question(allowed)
        depth = min(DEEPEST, 2 * k + OVERFETCH)
        while True:
            answers, reached = await self._ask(query, question, depth)
            found = partial(self._confirmed, query, _keys(answers), allowed, k, reached)
            hits = await self._changes.run(found)
            if len(hits) == k:
                return hits
            if depth == DEEPEST or all(len(some.ids) < depth for some in answers.values()):
                break
            depth = min(DEEPEST, DEEPER * depth)
        if among is None:
            return await self._record.best_of_all(query, k=k, last=self.position.seq)
        return await self._record.best(query, among, k=k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        check_vectors(query[None], dimension=self._view.dimension)
        return await self._record.scores(query, keys)

    async def _ask(
        self, query: Vector, question: NamespaceQuery, depth: int
    ) -> tuple[Mapping[str, Proposals], WriteMark]:
        """What each namespace proposes, and the mark that all of them have reached."""
        last = self._view.marks[-1]
        for pause in (*SEARCH_PAUSES, None):
            found = await asyncio.gather(
                *(
                    in_thread(
                        self._view.service.nearest,
                        name,
                        query,
                        top_k=depth,
                        where=question.where,
                    )
                    for name in question.namespaces
                )
            )
            answers = dict(zip(question.namespaces, found, strict=True))
            for name, some in answers.items():
                self._view.saw(name, some.reached, at_most=pause is None)
            reached = self._view.reached(answers)
            if reached == last or pause is None:
                break
            await asyncio.sleep(pause)
        if last.number - reached.number > MOST_MISSING:
            raise IndexUnavailableError(
                f"the Pinecone index {self._view.service.name!r} answers as of change "
                f"{reached.number}, although it had reached {last.number}; try again later"
            )
        return answers, reached

    def _confirmed(
        self,
        query: Vector,
        proposed: ChunkKeys,
        allowed: FilterKeys | None,
        k: int,
        reached: WriteMark,
    ) -> Hits:
        """The best of what was proposed, and of what the answers may lack."""
        last, head = self.position.seq, self._changes.head.seq
        lacking = [proposed]
        if reached.number < last:
            lacking.append(self._record.added(reached.number, last)[0])
        if allowed is not None and reached.number < head:
            # documents with other metadata than the condition was asked of
            lacking.append(self._changes.updated(reached.number, head))
        keys = self._included(np.unique(np.concatenate(lacking)))
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return self._record.best_of(query, keys, k=k)

    def _included(self, keys: ChunkKeys) -> ChunkKeys:
        """Those of ascending keys that are not newer than the snapshot."""
        return keys[: np.searchsorted(keys, self.position.seq, side="right")]


def _keys(answers: Mapping[str, Proposals]) -> ChunkKeys:
    return np.array([int(id) for some in answers.values() for id in some.ids], np.int64)


FORMAT = "pinecone 1"
"""What documents and state look like; others have other names."""

KEPT = 60.0
"""Seconds for which documents of removed chunks, and replaced namespaces, are kept for searches
that began before."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two questions how far the service has come."""


class PineconeIndex:
    """A VectorIndex in the service; `clock` is that of `compact`."""

    kind = "pinecone"
    remote = True
    folder = None

    def __init__(
        self,
        service: PineconeService,
        *,
        name: str,
        model_id: str,
        dimension: int,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model_id = model_id
        self.dimension = dimension
        self.position = START
        self._service = service
        self._name = name
        self._timeout = timeout
        self._clock = clock
        self._progress: PineconeProgress | None = None
        self._seen: dict[str, int] = {}
        self._discarded: set[str] = set()
        self._noticed: dict[str | int, float] = {}
        """When this process first knew of a position, or of a former epoch."""
        self._following = threading.Lock()
        self._changing = threading.Lock()
        """Held for moments, never during a request: searches don't wait for one that follows."""

    def catch_up(self, changes: ChangeLog) -> PineconeSnapshot | None:
        with self._following:
            self.refresh()
            progress = self._continued(changes)
            if progress.last.number > changes.head.seq:
                return None
            for start, stop in changes.ranges(since=progress.last.number):
                progress = self._write_range(progress, changes, start, stop)
            self._wait_for(progress)
            return self._snapshot(changes, progress)

    def latest(self, changes: ChangeLog) -> PineconeSnapshot | None:
        found = self._snapshot(changes, self._progress)
        return None if found is None or found.position == START else found

    def refresh(self) -> None:
        """Read the state, and ask how far searches have come, if the state says more than known."""
        text = self._service.text_of(STATES, self._name, field=STATE)
        stored = PineconeProgress.from_json(text) if text is not None else PineconeProgress()
        progress = self._learn(stored)
        self._look(progress)
        now = self._clock()
        self._noticed.setdefault(progress.last.number, now)
        for epoch in progress.former:
            self._noticed.setdefault(epoch, now)

    def applied_seq(self, changes: ChangeLog) -> int:
        if self._progress is None:
            self.refresh()
        return self._mark_of(changes, self._known).number

    def reset_if_at(self, position: LogPosition) -> None:
        with self._changing:
            if self._progress is not None and self.position == position:
                self._discarded.add(self._progress.epoch)

    def delete(self) -> None:
        with self._following:
            for found in self._service.namespaces(prefix(self._name)):
                self._service.delete_namespace(found)
            self._service.delete(STATES, [self._name])
            self._progress, self.position = None, START

    def compact(self, changes: ChangeLog) -> None:
        """Delete the documents of removed chunks, and former epochs, if that is due."""
        with self._following:
            self.refresh()
            progress = self._delete_removed(self._known, changes)
            progress = self._delete_former(progress)
            if progress != self._known:
                self._write(progress)

    def close(self) -> None:
        self._service.close()

    def check(self, changes: ChangeLog) -> Finding:
        try:
            self.refresh()
        except (IndexUnavailableError, ConfigError) as exc:
            return Finding(level="problem", what=str(exc), advice="searches go on without it")
        written, reached = self._known.last, self._mark_of(changes, self._known).number
        if written == NOTHING:
            return missing_index("vector")
        if written.number <= changes.head.seq and not _is_of(changes, written):
            return other_history("vector")
        head = changes.head.seq
        what = f"the vector index in Pinecone ({self._service.name}) "
        if reached >= head:
            return Finding(level="ok", what=f"{what}is up to date ({head} changes)")
        lag = f"has {reached} of {head} changes; {min(written.number, head)} are written to it"
        return Finding(level="note", what=what + lag, advice="searches read the rest themselves")

    @property
    def _known(self) -> PineconeProgress:
        assert self._progress is not None, "refresh comes first"
        return self._progress

    def _learn(self, stored: PineconeProgress) -> PineconeProgress:
        """Take over a state that was read, unless a newer one is known."""
        with self._changing:
            if self._progress is None or stored.version >= self._progress.version:
                self._progress = stored
            return self._progress

    def _mark_of(self, changes: ChangeLog, progress: PineconeProgress) -> WriteMark:
        """The last mark of this history that searches have reached, not ahead of the log."""
        if progress.epoch in self._discarded:
            return NOTHING
        for mark in reversed(progress.reached(self._seen)):
            if mark.number <= changes.head.seq and _is_of(changes, mark):
                return mark
        return NOTHING

    def _snapshot(
        self, changes: ChangeLog, progress: PineconeProgress | None
    ) -> PineconeSnapshot | None:
        if progress is None:
            return None
        mark = self._mark_of(changes, progress)
        marks = [some for some in (NOTHING, *progress.marks) if some.number <= mark.number]
        view = IndexView(
            self._service,
            name=self._name,
            epoch=progress.epoch,
            marks=marks,
            crowded=progress.crowded,
            model_id=self.model_id,
            dimension=self.dimension,
            saw=self._saw,
        )
        return PineconeSnapshot(view, changes)

    def _continued(self, changes: ChangeLog) -> PineconeProgress:
        """The state to go on from; an empty one under other names if it is of another history."""
        progress = self._known
        last = progress.last
        other = last.number <= changes.head.seq and not _is_of(changes, last)
        if other:
            log.warning(OTHER_HISTORY, "vector")
        unusable = other or progress.epoch in self._discarded or self._is_lost(progress)
        if progress.epoch and not unusable:
            return progress
        return self._write(progress.anew(secrets.token_hex(4)))

    def _is_lost(self, progress: PineconeProgress) -> bool:
        """Whether somebody has deleted a namespace: it is not there, long after it was written."""
        if progress.last.reached_by(self._seen) or not self._is_due(progress.last.number):
            return False
        return not progress.last.writes.keys() <= set(self._service.namespaces(prefix(self._name)))

    def _write_range(
        self, progress: PineconeProgress, changes: ChangeLog, start: int, stop: int
    ) -> PineconeProgress:
        """Write the documents of a range of changes, then that it is written."""
        writes = dict(progress.last.writes)
        crowded = False
        for name, documents in self._documents(progress.epoch, changes, start, stop).items():
            writes[name] = max(writes.get(name, 0), self._service.upsert(name, documents))
            crowded |= any(CROWDED.keys() <= document.keys() for document in documents)
        mark = WriteMark(stop, changes.token_at(stop) or 0, writes)
        return self._write(progress.marked(mark, crowded=crowded))

    def _documents(
        self, epoch: str, changes: ChangeLog, start: int, stop: int
    ) -> dict[str, list[dict[str, Any]]]:
        """The documents of chunks that are new in a range or have other metadata, by namespace."""
        record = RecordVectors(changes, model_id=self.model_id, dimension=self.dimension)
        keys, vectors = record.added(start, stop)
        more, others = record.of(np.setdiff1d(changes.updated(start, stop), keys))
        rows = dict(
            zip([*keys.tolist(), *more.tolist()], [*sent(vectors), *sent(others)], strict=True)
        )
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for fields in changes.fields_of(np.array(sorted(rows), np.int64)):
            name = namespace(self._name, epoch, fields.collection)
            document = {"_id": str(fields.key), "": rows[fields.key]}
            found[name].append(document | metadata_of(fields))
        return found

    def _write(self, progress: PineconeProgress) -> PineconeProgress:
        written = replace(progress, version=progress.version + 1)
        self._service.put_text(STATES, self._name, field=STATE, text=written.to_json())
        with self._changing:
            self._progress = written
        return written

    def _look(self, progress: PineconeProgress) -> None:
        """Ask how far searches have come in each namespace that is not known to be up to date."""
        probe: Vector = np.zeros(self.dimension, np.float32)
        probe[0] = 1.0
        for name, number in progress.last.writes.items():
            if self._seen.get(name, 0) < number:
                answer = self._service.nearest(name, probe, top_k=1, where=None)
                self._saw(name, answer.reached)
        self.position = progress.reached(self._seen)[-1].position

    def _saw(self, name: str, reached: int, *, at_most: bool = False) -> None:
        """Note what a search in a namespace reflects, or that it can't be had to reflect more."""
        self._seen[name] = reached if at_most else max(reached, self._seen.get(name, 0))

    def _wait_for(self, progress: PineconeProgress) -> None:
        """Wait until searches have all that is written, but not longer than the timeout."""
        deadline = time.monotonic() + self._timeout
        pause = FIRST_PAUSE
        self._look(progress)
        while not progress.last.reached_by(self._seen) and time.monotonic() < deadline:
            checkpoint()
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            self._look(progress)

    def _delete_removed(self, progress: PineconeProgress, changes: ChangeLog) -> PineconeProgress:
        """Delete the documents of chunks whose removal is old enough."""
        due = [key for key in list(self._noticed) if isinstance(key, int) and self._is_due(key)]
        last = max((key for key in due if key <= progress.last.number), default=0)
        if last <= progress.deleted or not _is_of(changes, progress.last):
            return progress
        gone = [str(key) for key in changes.removed(progress.deleted, last).tolist()]
        for name in progress.last.writes:
            self._service.delete(name, gone)
        for key in due:
            del self._noticed[key]
        return replace(progress, deleted=last)

    def _delete_former(self, progress: PineconeProgress) -> PineconeProgress:
        """Delete the namespaces of former epochs, if they were replaced long enough ago."""
        due = [epoch for epoch in progress.former if self._is_due(epoch)]
        for epoch in due:
            for found in self._service.namespaces(prefix(self._name, epoch)):
                self._service.delete_namespace(found)
        kept = tuple(epoch for epoch in progress.former if epoch not in due)
        return replace(progress, former=kept)

    def _is_due(self, known: str | int) -> bool:
        return self._clock() - self._noticed.get(known, self._clock()) >= KEPT


def _is_of(changes: ChangeLog, mark: WriteMark) -> bool:
    return changes.token_at(mark.number) == mark.token


def open_pinecone(site: IndexSite, *, model_id: str, dimension: int) -> PineconeIndex:
    """The vector index of a base in the Pinecone index that `pinecone:INDEX` names."""
    index = site.address.partition(":")[2]
    if not index:
        raise ConfigError("a Pinecone index is given by its name, as in pinecone:my-index")
    return PineconeIndex(
        PineconeService(index, dimension=dimension, timeout=site.timeout),
        name=site.name("vectors", f"{FORMAT} {model_id} {dimension}"),
        model_id=model_id,
        dimension=dimension,
        timeout=site.timeout,
    )
