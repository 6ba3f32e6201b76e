"""The verbs of a search: retrieve, search, context, explain, resolve."""

from __future__ import annotations

from typing import Any

from lagotto.context.cite import key_of
from lagotto.prefs import RetrievalPrefs
from lagotto.results import Results, RetrievalStats
from lagotto.retrieval.snippets import matched_spans
from lagotto.server.answers import (
    ContextAnswer,
    ExplainAnswer,
    ResolveAnswer,
    RetrieveAnswer,
    SearchAnswer,
)
from lagotto.server.bodies import ContextBody, ExplainBody, ResolveBody, SearchBody
from lagotto.server.operations import Call, Operation


async def retrieve(call: Call) -> object:
    """Answer with a ranked list."""
    planned = call.base.plan("retrieve", call.asked)
    found = await call.state.observed(call.http, planned, call.base.retrieve(planned, call.context))
    return {
        **_settled(call, planned.prefs, found.stats),
        "hits": hits_of(found, call.asked),
        "candidates": found.candidates,
        "stats": _asked_for(found.stats, planned.prefs),
    }


async def search(call: Call) -> object:
    """Answer with a bundle."""
    planned = call.base.plan("search", call.asked)
    bundle = await call.state.observed(call.http, planned, call.base.search(planned, call.context))
    return {
        **_settled(call, planned.prefs, bundle.stats),
        "candidates": bundle.candidates,
        "evidence": bundle.evidence,
        "stats": _asked_for(bundle.stats, planned.prefs),
    }


async def context(call: Call) -> object:
    """Answer with a cited pack."""
    planned = call.base.plan("context", call.asked)
    pack = await call.state.observed(
        call.http, planned, call.base.context(planned, call.asked, call.context)
    )
    stats = _asked_for(pack.trace.stats, planned.prefs)
    trace = pack.trace.model_copy(update={"stats": stats})
    return {
        **_settled(call, planned.prefs, pack.trace.stats),
        **dict(pack.model_copy(update={"trace": trace})),
    }


async def explain(call: Call) -> object:
    """Answer why a document is, or is not, among the hits."""
    planned = call.base.plan("retrieve", call.asked)
    name = call.asked.document
    found = await call.state.observed(
        call.http, planned, call.base.why_not(planned, name, call.context)
    )
    results = found.results
    return {
        **_settled(call, planned.prefs, results.stats),
        "document_id": found.document_id,
        "found": any(hit.document_id == found.document_id for hit in results),
        "reason": found.reason,
        "rank": found.rank,
        "breakdown": found.breakdown,
        "hits": hits_of(results, call.asked),
        "stats": _asked_for(results.stats, planned.prefs),
    }


async def resolve(call: Call) -> object:
    """Answer with the passage that a citation refers to."""
    citation = call.asked.citation
    passage, changed = await call.base.resolve(citation)
    return {"citation": citation, "changed": changed, "passage": passage}


def hits_of(found: Results, asked: SearchBody) -> list[dict[str, Any]]:
    """Hits, each with its citation and, if asked for, the words in it that match."""
    return [
        {
            **dict(hit),
            "citation": hit.citation,
            "key": key_of(hit),
            "highlights": matched_spans(hit.content, asked.query, language=hit.language)
            if asked.highlight
            else (),
        }
        for hit in found
    ]


def _settled(call: Call, prefs: RetrievalPrefs, stats: RetrievalStats) -> dict[str, Any]:
    settings = prefs.model_dump(mode="json", exclude={"query_text"})
    return {"query": prefs.query_text, "settings": settings, "degraded": stats.degraded}


def _asked_for(stats: RetrievalStats, prefs: RetrievalPrefs) -> RetrievalStats:
    """Times, counts and parameters are measured always, and shown if `debug` asks for them."""
    if prefs.debug:
        return stats
    return RetrievalStats(
        degraded=stats.degraded,
        corrections=stats.corrections,
        candidates=stats.candidates,
        fusion=stats.fusion,
    )


OPERATIONS = (
    Operation(
        "POST", "/v1/retrieve", "retrieve", "The best passages, as a ranked list.",
        retrieve, RetrieveAnswer, body=SearchBody, heavy=True,
    ),
    Operation(
        "GET", "/v1/retrieve", "retrieveByLink", "The same, with all settings in the address.",
        retrieve, RetrieveAnswer, query=SearchBody, heavy=True, permalink=True,
    ),
    Operation(
        "POST", "/v1/search", "search", "The best documents, and passages that support them.",
        search, SearchAnswer, body=SearchBody, heavy=True,
    ),
    Operation(
        "GET", "/v1/search", "searchByLink", "The same search, with all settings in the address.",
        search, SearchAnswer, query=SearchBody, heavy=True, permalink=True,
    ),
    Operation(
        "POST", "/v1/context", "context", "A cited context pack within a token budget.",
        context, ContextAnswer, body=ContextBody, heavy=True,
    ),
    Operation(
        "GET", "/v1/context", "contextByLink", "The same pack, with all settings in the address.",
        context, ContextAnswer, query=ContextBody, heavy=True, permalink=True,
    ),
    Operation(
        "POST", "/v1/explain", "explain", "Why a document is, or is not, among the hits.",
        explain, ExplainAnswer, body=ExplainBody, heavy=True, problems=(404,),
    ),
    Operation(
        "GET", "/v1/explain", "explainByLink", "The same, with all settings in the address.",
        explain, ExplainAnswer, query=ExplainBody, heavy=True, permalink=True, problems=(404,),
    ),
    Operation(
        "GET", "/v1/resolve", "resolveByLink", "The passage of a citation in the address.",
        resolve, ResolveAnswer, query=ResolveBody, heavy=True, problems=(404,),
    ),
    Operation(
        "POST", "/v1/resolve", "resolve", "The passage that a citation refers to.",
        resolve, ResolveAnswer, body=ResolveBody, heavy=True, problems=(404,),
    ),
)  # fmt: skip
