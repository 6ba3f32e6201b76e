"""Lagotto: hybrid retrieval for RAG. Add documents, ask a question, get ranked and cited passages.

This module exports the knowledge base, records, results, preferences, filters and errors. Names are
imported on first use, so `import lagotto` is cheap. docs/api.md lists the other public modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lagotto.base_copy import (
        CopyReport,
    )
    from lagotto.blocking_client import (
        Client,
        open,  # noqa: A004
    )
    from lagotto.chunk_context import (
        context_of_chunks,
    )
    from lagotto.client import (
        AsyncClient,
    )
    from lagotto.context import (
        AnswerCheck,
        Citation,
        CitedPassage,
        ContextPack,
        ContextTrace,
        SelectedChunk,
        check_answer,
    )
    from lagotto.documents import (
        Block,
        Chunk,
        Document,
        Heading,
        Location,
        Page,
        Span,
    )
    from lagotto.errors import (
        CitationError,
        ConfigError,
        CorruptSourceError,
        DeadlineExceeded,
        DegradedError,
        EmbeddingError,
        EmbeddingServiceError,
        EmptySourceError,
        EncryptedSourceError,
        FilterError,
        IndexDamagedError,
        LagottoError,
        ModelMismatchError,
        NotABaseError,
        NoTextLayerError,
        QueryError,
        ReadError,
        RebuiltError,
        RerankError,
        RetrievalError,
        SearchCancelled,
        SourceTooLargeError,
        StoreBusyError,
        StoreDamagedError,
        StoreError,
        StoreFullError,
        StoreReadOnlyError,
        StoreUnavailableError,
        UnknownNameError,
        UnsupportedFormatError,
        WeightsError,
    )
    from lagotto.filters import (
        And,
        Contains,
        Eq,
        Exists,
        Filter,
        Gt,
        Gte,
        In,
        Lt,
        Lte,
        Ne,
        Not,
        NotIn,
        Or,
        parse_filter,
    )
    from lagotto.ingest import (
        AddReport,
        Progress,
    )
    from lagotto.knowledge_base import (
        AsyncKnowledgeBase,
    )
    from lagotto.knowledge_tool import (
        KnowledgeTool,
    )
    from lagotto.prefs import (
        CachePrefs,
        ChunkingPrefs,
        ContextPrefs,
        DiversityPrefs,
        ExpansionPrefs,
        FtsPrefs,
        FuzzyPrefs,
        ParentsPrefs,
        RerankPrefs,
        RetrievalPrefs,
        ScoringPrefs,
        SnippetPrefs,
        VectorPrefs,
    )
    from lagotto.presets import Preset, load_preset, preset_names
    from lagotto.readers import (
        Columns,
        ReadFailure,
        Skipped,
        SkippedFile,
    )
    from lagotto.rebuild import (
        RebuildProgress,
    )
    from lagotto.request_context import (
        CancellationToken,
        RequestContext,
    )
    from lagotto.results import (
        CandidateItem,
        EvidenceChunk,
        LegScore,
        Results,
        RetrievalBundle,
        RetrievalResult,
        RetrievalStats,
        ScoreBreakdown,
        ScoredCandidate,
    )
    from lagotto.retrieval.base import (
        Retriever,
    )
    from lagotto.retrieval.why_not import (
        WhyNot,
    )
    from lagotto.stores import (
        StoreInfo,
    )
    from lagotto.sync_facade import (
        KnowledgeBase,
    )

__version__ = "0.1.0.dev0"

_MODULES = {
    "base_copy": ("CopyReport",),
    "blocking_client": ("Client", "open"),
    "chunk_context": ("context_of_chunks",),
    "client": ("AsyncClient",),
    "context": (
        "AnswerCheck",
        "Citation",
        "CitedPassage",
        "ContextPack",
        "ContextTrace",
        "SelectedChunk",
        "check_answer",
    ),
    "documents": (
        "Block",
        "Chunk",
        "Document",
        "Heading",
        "Location",
        "Page",
        "Span",
    ),
    "errors": (
        "CitationError",
        "ConfigError",
        "CorruptSourceError",
        "DeadlineExceeded",
        "DegradedError",
        "EmbeddingError",
        "EmbeddingServiceError",
        "EmptySourceError",
        "EncryptedSourceError",
        "FilterError",
        "IndexDamagedError",
        "LagottoError",
        "ModelMismatchError",
        "NoTextLayerError",
        "NotABaseError",
        "NoTextLayerError",
        "QueryError",
        "ReadError",
        "RebuiltError",
        "RerankError",
        "RetrievalError",
        "SearchCancelled",
        "SourceTooLargeError",
        "StoreBusyError",
        "StoreDamagedError",
        "StoreError",
        "StoreFullError",
        "StoreReadOnlyError",
        "StoreUnavailableError",
        "UnknownNameError",
        "UnsupportedFormatError",
        "WeightsError",
    ),
    "filters": (
        "And",
        "Contains",
        "Eq",
        "Exists",
        "Filter",
        "Gt",
        "Gte",
        "In",
        "Lt",
        "Lte",
        "Ne",
        "Not",
        "NotIn",
        "Or",
        "parse_filter",
    ),
    "ingest": (
        "AddReport",
        "Progress",
    ),
    "knowledge_base": ("AsyncKnowledgeBase",),
    "knowledge_tool": ("KnowledgeTool",),
    "prefs": (
        "CachePrefs",
        "ChunkingPrefs",
        "ContextPrefs",
        "DiversityPrefs",
        "ExpansionPrefs",
        "FtsPrefs",
        "FuzzyPrefs",
        "ParentsPrefs",
        "RerankPrefs",
        "RetrievalPrefs",
        "ScoringPrefs",
        "SnippetPrefs",
        "VectorPrefs",
    ),
    "presets": ("Preset", "load_preset", "preset_names"),
    "readers": (
        "Columns",
        "ReadFailure",
        "Skipped",
        "SkippedFile",
    ),
    "rebuild": ("RebuildProgress",),
    "request_context": (
        "CancellationToken",
        "RequestContext",
    ),
    "results": (
        "CandidateItem",
        "EvidenceChunk",
        "LegScore",
        "RetrievalBundle",
        "RetrievalResult",
        "RetrievalStats",
        "Results",
        "ScoreBreakdown",
        "ScoredCandidate",
    ),
    "retrieval.base": ("Retriever",),
    "retrieval.why_not": ("WhyNot",),
    "stores": ("StoreInfo",),
    "sync_facade": ("KnowledgeBase",),
}
"""The module that defines each public name, as in the imports above."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AddReport",
    "And",
    "AnswerCheck",
    "AsyncClient",
    "AsyncKnowledgeBase",
    "Block",
    "CachePrefs",
    "CancellationToken",
    "CandidateItem",
    "Chunk",
    "ChunkingPrefs",
    "Citation",
    "CitationError",
    "CitedPassage",
    "Client",
    "Columns",
    "ConfigError",
    "Contains",
    "ContextPack",
    "ContextPrefs",
    "ContextTrace",
    "CopyReport",
    "CorruptSourceError",
    "DeadlineExceeded",
    "DegradedError",
    "DiversityPrefs",
    "Document",
    "EmbeddingError",
    "EmbeddingServiceError",
    "EmptySourceError",
    "EncryptedSourceError",
    "Eq",
    "EvidenceChunk",
    "Exists",
    "ExpansionPrefs",
    "Filter",
    "FilterError",
    "FtsPrefs",
    "FuzzyPrefs",
    "Gt",
    "Gte",
    "Heading",
    "In",
    "IndexDamagedError",
    "KnowledgeBase",
    "KnowledgeTool",
    "LagottoError",
    "LegScore",
    "Location",
    "Lt",
    "Lte",
    "ModelMismatchError",
    "Ne",
    "NoTextLayerError",
    "Not",
    "NotABaseError",
    "NotIn",
    "Or",
    "Page",
    "ParentsPrefs",
    "Preset",
    "Progress",
    "QueryError",
    "ReadError",
    "ReadFailure",
    "RebuildProgress",
    "RebuiltError",
    "RequestContext",
    "RerankError",
    "RerankPrefs",
    "Results",
    "RetrievalBundle",
    "RetrievalError",
    "RetrievalPrefs",
    "RetrievalResult",
    "RetrievalStats",
    "Retriever",
    "ScoreBreakdown",
    "ScoredCandidate",
    "ScoringPrefs",
    "SearchCancelled",
    "SelectedChunk",
    "Skipped",
    "SkippedFile",
    "SnippetPrefs",
    "SourceTooLargeError",
    "Span",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreInfo",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "UnknownNameError",
    "UnsupportedFormatError",
    "VectorPrefs",
    "WeightsError",
    "WhyNot",
    "check_answer",
    "context_of_chunks",
    "load_preset",
    "open",
    "parse_filter",
    "preset_names",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
