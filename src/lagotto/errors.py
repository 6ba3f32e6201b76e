"""Every error that Lagotto raises on purpose.

    LagottoError
    ├── ConfigError                 a setting is wrong, unknown or impossible
    │   ├── FilterError             a filter that can't be parsed, or never makes sense
    │   └── UnknownNameError        no chunker, embedder or reader of that name
    ├── ReadError                   a source can't be turned into a document
    │   ├── UnsupportedFormatError  no reader knows this kind of file
    │   ├── EmptySourceError        there is no text in it
    │   ├── EncryptedSourceError    it needs a password
    │   ├── CorruptSourceError      it is damaged, or not what its name says
    │   └── SourceTooLargeError     it is larger than the limit
    ├── EmbeddingError              texts can't be turned into vectors
    │   ├── WeightsError            model files are missing, or not the files they should be
    │   ├── ModelMismatchError      vectors of another model or dimension
    │   └── EmbeddingServiceError   the remote service failed or answered nonsense
    ├── QueryError                  a query breaks the rules of the syntax that was asked for
    ├── CitationError               a citation can't be read, or what it cites is not there
    ├── RetrievalError              a search that can't be carried out as asked
    │   ├── DegradedError           a part of it failed, and `strict` forbids to go on without
    │   ├── RerankError             a reranker failed or answered nonsense
    │   ├── SearchCancelled         the request's token was fired
    │   └── DeadlineExceeded        the request's time is up
    └── StoreError                  a base can't be opened, read or written
        ├── NotABaseError           the file is something else, or made by a newer Lagotto
        ├── StoreUnavailableError   the server can't be reached, or went away
        ├── StoreBusyError          others keep it busy, and went on for too long
        ├── StoreFullError          the disk is full
        ├── StoreReadOnlyError      there is no right to write
        ├── StoreDamagedError       the database file is damaged
        └── IndexDamagedError       a derived index is damaged, or of another model

A message says what was wrong and what to do. `exit_code` is what the command line ends with.
"""

from __future__ import annotations


class LagottoError(Exception):
    """Root of the tree: catch this to catch whatever Lagotto raises on purpose."""

    exit_code = 1


class ConfigError(LagottoError, ValueError):
    """A setting is wrong, unknown or impossible."""

    exit_code = 2


class FilterError(ConfigError):
    """A filter that can't be parsed, or compares what can't be compared."""


class UnknownNameError(ConfigError):
    """No chunker, embedder or reader is registered under that name."""


class ReadError(LagottoError):
    """A source can't be turned into a document; `source` says which, `reason` why."""

    exit_code = 3

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, str]]:
        return type(self), (self.source, self.reason)


class UnsupportedFormatError(ReadError):
    """No reader knows this kind of file."""


class EmptySourceError(ReadError):
    """There is no text in it."""


class EncryptedSourceError(ReadError):
    """It needs a password."""


class CorruptSourceError(ReadError):
    """It is damaged, or not what its name says."""


class SourceTooLargeError(ReadError):
    """It is larger than the limit."""


class EmbeddingError(LagottoError):
    """Texts can't be turned into vectors."""

    exit_code = 4


class WeightsError(EmbeddingError):
    """Model files are missing, or are not the files they should be."""


class ModelMismatchError(EmbeddingError):
    """Vectors of another model or dimension; they must never be compared or stored together."""


class EmbeddingServiceError(EmbeddingError):
    """The remote service failed or answered nonsense; `status` is its HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class QueryError(LagottoError, ValueError):
    """A query breaks the rules of its syntax; `position` is the character where it does."""

    exit_code = 2

    def __init__(self, query: str, position: int, problem: str) -> None:
        start = max(0, position - 60)
        shown = "".join(char if char.isprintable() else " " for char in query[start : start + 100])
        pointer = " " * (position - start) + "^"
        super().__init__(f"{problem}, at character {position + 1}:\n  {shown}\n  {pointer}")
        self.query = query
        self.position = position
        self.problem = problem

    def __reduce__(self) -> tuple[type[QueryError], tuple[str, int, str]]:
        return type(self), (self.query, self.position, self.problem)


class CitationError(LagottoError, ValueError):
    """A citation can't be read, or what it cites is not there any more."""

    exit_code = 2


class RetrievalError(LagottoError):
    """A search that can't be carried out as asked."""

    exit_code = 6


class DegradedError(RetrievalError):
    """A part of a search failed, and `strict` forbids to go on without it."""


class RerankError(RetrievalError):
    """A reranker failed or answered nonsense; `status` is its HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class SearchCancelled(RetrievalError):  # noqa: N818
    """The request's cancellation token was fired."""


class DeadlineExceeded(RetrievalError):  # noqa: N818
    """The request's time is up."""


class StoreError(LagottoError):
    """A base can't be opened, read or written."""

    exit_code = 5


class NotABaseError(StoreError):
    """The file is something else than a base, or was made by a newer Lagotto."""


class StoreUnavailableError(StoreError):
    """The server can't be reached, or went away; what it has acknowledged is stored."""


class StoreBusyError(StoreError):
    """Others write or search, and went on for too long."""


class StoreFullError(StoreError):
    """The disk is full; what was being written is not stored, all that was before is."""


class StoreReadOnlyError(StoreError):
    """There is no right to write where the base is."""


class StoreDamagedError(StoreError):
    """The database file is damaged."""


class IndexDamagedError(StoreError):
    """A derived index is damaged, or of another model; it is made again from the database."""
