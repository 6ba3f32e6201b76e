"""Lagotto: hybrid retrieval for RAG. Add documents, ask a question, get ranked and cited passages.

This module exports the knowledge base, records, results, preferences, filters and errors. Names are
imported on first use, so `import lagotto` is cheap. docs/api.md lists the other public modules.
"""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from typing import TYPE_CHECKING

from lagotto._internal.registry import exports
from lagotto.errors import *  # noqa: F403  every error is public

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase as KnowledgeBase
    from lagotto.base.chunk_context import context_of_chunks as context_of_chunks
    from lagotto.base.client import (
        AsyncClient as AsyncClient,
        Client as Client,
        open as open,  # noqa: A004
    )
    from lagotto.base.copy import CopyReport as CopyReport
    from lagotto.base.ingest import AddReport as AddReport, Progress as Progress
    from lagotto.base.judgements import RelevanceJudgement as RelevanceJudgement
    from lagotto.base.knowledge_base import AsyncKnowledgeBase as AsyncKnowledgeBase
    from lagotto.base.rebuild import RebuildProgress as RebuildProgress
    from lagotto.base.tool import KnowledgeTool as KnowledgeTool
    from lagotto.context import (
        AnswerCheck as AnswerCheck,
        Citation as Citation,
        CitedPassage as CitedPassage,
        ContextPack as ContextPack,
        ContextTrace as ContextTrace,
        Coverage as Coverage,
        SelectedChunk as SelectedChunk,
        check_answer as check_answer,
    )
    from lagotto.documents import (
        Block as Block,
        Chunk as Chunk,
        Document as Document,
        Heading as Heading,
        Location as Location,
        Page as Page,
        Span as Span,
    )
    from lagotto.filters import (
        And as And,
        Contains as Contains,
        Eq as Eq,
        Exists as Exists,
        Filter as Filter,
        Gt as Gt,
        Gte as Gte,
        In as In,
        Lt as Lt,
        Lte as Lte,
        Ne as Ne,
        Not as Not,
        NotIn as NotIn,
        Or as Or,
        parse_filter as parse_filter,
    )
    from lagotto.prefs import (
        Boost as Boost,
        CachePrefs as CachePrefs,
        ChunkingPrefs as ChunkingPrefs,
        ContextPrefs as ContextPrefs,
        DiversityPrefs as DiversityPrefs,
        ExpansionPrefs as ExpansionPrefs,
        FtsPrefs as FtsPrefs,
        FuzzyPrefs as FuzzyPrefs,
        ParentsPrefs as ParentsPrefs,
        RerankPrefs as RerankPrefs,
        RetrievalPrefs as RetrievalPrefs,
        ScoringPrefs as ScoringPrefs,
        SnippetPrefs as SnippetPrefs,
        VectorPrefs as VectorPrefs,
        field as field,
        recency as recency,
    )
    from lagotto.presets import (
        Preset as Preset,
        load_preset as load_preset,
        preset_names as preset_names,
    )
    from lagotto.readers import (
        Columns as Columns,
        ReadFailure as ReadFailure,
        Skipped as Skipped,
        SkippedFile as SkippedFile,
    )
    from lagotto.request_context import (
        CancellationToken as CancellationToken,
        RequestContext as RequestContext,
    )
    from lagotto.results import (
        CandidateItem as CandidateItem,
        EvidenceChunk as EvidenceChunk,
        FusionInputs as FusionInputs,
        LegScore as LegScore,
        Results as Results,
        RetrievalBundle as RetrievalBundle,
        RetrievalResult as RetrievalResult,
        RetrievalStats as RetrievalStats,
        ScoreBreakdown as ScoreBreakdown,
        ScoredCandidate as ScoredCandidate,
    )
    from lagotto.retrieval.retriever import Retriever as Retriever
    from lagotto.retrieval.why_not import WhyNot as WhyNot
    from lagotto.stores import StoreInfo as StoreInfo

__version__ = "0.1.0.dev0"

__all__, __getattr__, __dir__ = exports(
    __name__,
    {
        "base.blocking": "KnowledgeBase",
        "base.chunk_context": "context_of_chunks",
        "base.client": "AsyncClient Client open",
        "base.copy": "CopyReport",
        "base.ingest": "AddReport Progress",
        "base.judgements": "RelevanceJudgement",
        "base.knowledge_base": "AsyncKnowledgeBase",
        "base.rebuild": "RebuildProgress",
        "base.tool": "KnowledgeTool",
        "context": "AnswerCheck Citation CitedPassage ContextPack ContextTrace Coverage "
        "SelectedChunk check_answer",
        "documents": "Block Chunk Document Heading Location Page Span",
        "filters": "And Contains Eq Exists Filter Gt Gte In Lt Lte Ne Not NotIn Or parse_filter",
        "prefs": "Boost CachePrefs ChunkingPrefs ContextPrefs DiversityPrefs ExpansionPrefs "
        "FtsPrefs FuzzyPrefs ParentsPrefs RerankPrefs RetrievalPrefs ScoringPrefs SnippetPrefs "
        "VectorPrefs field recency",
        "presets": "Preset load_preset preset_names",
        "readers": "Columns ReadFailure Skipped SkippedFile",
        "request_context": "CancellationToken RequestContext",
        "results": "CandidateItem EvidenceChunk FusionInputs LegScore Results RetrievalBundle "
        "RetrievalResult RetrievalStats ScoreBreakdown ScoredCandidate",
        "retrieval.retriever": "Retriever",
        "retrieval.why_not": "WhyNot",
        "stores": "StoreInfo",
    },
)
__all__.remove("open")  # or `from lagotto import *` would replace the built-in function
