"""The errors that Lagotto raises.

    LagottoError
    ├── ConfigError       FilterError, UnknownNameError
    ├── ReadError         UnsupportedFormatError, EmptySourceError (NoTextLayerError),
    │                     EncryptedSourceError, CorruptSourceError, SourceTooLargeError
    ├── EmbeddingError    WeightsError, ModelMismatchError, EmbeddingServiceError,
    │                     NativeEmbeddingError
    ├── QueryError
    ├── CitationError
    ├── RetrievalError    DegradedError, RerankError, SearchCancelled, DeadlineExceeded
    ├── NativeError       NativeEmbeddingError
    └── StoreError        NotABaseError, StoreUnavailableError, StoreBusyError,
                          ReplaceRefusedError, RebuiltError, StoreFullError, StoreReadOnlyError,
                          StoreDamagedError, IndexUnavailableError, IndexDamagedError

A message says what is wrong, with the value, and how to fix it. `exit_code` is the exit status of
the command line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any


class LagottoError(Exception):
    """The base class of all errors that Lagotto raises."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is: what some errors are made of is not what they say."""
        return Exception.__new__, (type(self), *self.args), vars(self)


class ConfigError(LagottoError, ValueError):
    """A setting is invalid or unknown."""

    exit_code = 2


class FilterError(ConfigError):
    """A filter is invalid."""


class UnknownNameError(ConfigError):
    """No implementation is registered under that name."""


class ReadError(LagottoError):
    """A source can't be read; `source` is its name, `reason` the reason."""

    exit_code = 3

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class UnsupportedFormatError(ReadError):
    """There is no reader for this format."""


class EmptySourceError(ReadError):
    """The source has no text."""


class NoTextLayerError(EmptySourceError):
    """Pages are pictures without text: they need OCR."""


class EncryptedSourceError(ReadError):
    """The source is password-protected."""


class CorruptSourceError(ReadError):
    """The source is damaged, or not of the format its name says."""


class SourceTooLargeError(ReadError):
    """The source exceeds the size limit."""


class EmbeddingError(LagottoError):
    """Texts can't be embedded."""

    exit_code = 4


class WeightsError(EmbeddingError):
    """Model files are missing, damaged or not the published ones."""


class ModelMismatchError(EmbeddingError):
    """Vectors have another model or dimension, and can't be compared or stored together."""


class EmbeddingServiceError(EmbeddingError):
    """The service failed or sent an invalid answer; `status` is the HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NativeError(LagottoError):
    """The native code of a library failed ("panicked") on a text that it should have taken."""


class NativeEmbeddingError(EmbeddingError, NativeError):
    """The native code of a tokenizer or model failed on a text; others can be embedded."""


@contextmanager
def native_panics(part: str, error: type[LagottoError] = NativeError) -> Iterator[None]:
    """Turn a panic of a library in Rust into `error`; `part` is what failed, for its message.

    pyo3's PanicException is a BaseException, so it passes every handler, and can't be imported.
    """
    try:
        yield
    except BaseException as exc:
        if type(exc).__name__ != "PanicException":
            raise
        raise error(f"{part} failed: {exc}") from exc


@contextmanager
def missing_package(what: str, extra: str) -> Iterator[None]:
    """Turn an import that fails into a ConfigError; `extra` of Lagotto has what `what` needs."""
    try:
        yield
    except ModuleNotFoundError as exc:
        package = str(exc.name).partition(".")[0]
        raise ConfigError(
            f"{what} needs the package {package}, which is not installed; run "
            f"`pip install 'lagotto[{extra}]'`"
        ) from exc


class QueryError(LagottoError, ValueError):
    """A query is not valid in its syntax; `position` is the offset of the problem."""

    exit_code = 2

    def __init__(self, query: str, position: int, problem: str) -> None:
        start = max(0, position - 60)
        line = "".join(char if char.isprintable() else " " for char in query[start : start + 100])
        pointer = " " * (position - start) + "^"
        super().__init__(f"{problem}, at character {position + 1}:\n  {line}\n  {pointer}")
        self.query = query
        self.position = position
        self.problem = problem


class CitationError(LagottoError, ValueError):
    """A citation is invalid, or what it cites no longer exists."""

    exit_code = 2


class RetrievalError(LagottoError):
    """A search can't be carried out as requested."""

    exit_code = 6


class DegradedError(RetrievalError):
    """A part of a search failed, and `strict` is set."""


class RerankError(RetrievalError):
    """A reranker failed or gave an invalid answer; `status` is the HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class SearchCancelled(RetrievalError):  # noqa: N818
    """The request's cancellation token fired."""


class DeadlineExceeded(RetrievalError):  # noqa: N818
    """The request's deadline passed."""


class StoreError(LagottoError):
    """A base can't be opened, read or written."""

    exit_code = 5


class NotABaseError(StoreError):
    """The file or database is not a base, or was created by a newer version of Lagotto."""


class StoreUnavailableError(StoreError):
    """The server can't be reached, or the connection was lost; acknowledged writes are stored."""


class StoreBusyError(StoreError):
    """A lock was not available within the timeout, because others use the base."""


class ReplaceRefusedError(StoreError):
    """Stored documents may not be replaced by this writer; `names` are their collections and ids.

    Nothing of the write was stored.
    """

    def __init__(self, names: Collection[tuple[str, str]]) -> None:
        super().__init__(f"may not be replaced: {', '.join(repr(name) for _, name in names)}")
        self.names = frozenset(names)


class RebuiltError(StoreError):
    """The base was rebuilt since it was opened: its chunks and vectors are others now."""


class StoreFullError(StoreError):
    """The disk is full; the current write is not stored, all earlier ones are."""


class StoreReadOnlyError(StoreError):
    """There is no permission to write to the base."""


class StoreDamagedError(StoreError):
    """The database file is damaged."""


class IndexUnavailableError(StoreError):
    """An index behind a network can't be reached, or refused a request; the record is intact."""


class IndexDamagedError(StoreError):
    """A derived index is damaged or belongs to another model; it can be rebuilt."""


if not TYPE_CHECKING:  # they see the classes
    __all__ = [
        name
        for name, value in vars().items()
        if isinstance(value, type) and issubclass(value, LagottoError)
    ]
