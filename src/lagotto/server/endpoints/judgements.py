"""Judgements: what callers said of results, for evaluation."""

from __future__ import annotations

from lagotto.context.cite import CitationKey
from lagotto.judgements import Judgements
from lagotto.server.answers import JudgedAnswer, JudgementsAnswer
from lagotto.server.bodies import JudgementBody, JudgementsQuery
from lagotto.server.operations import Call, Operation
from lagotto.server.problems import Problem


async def judge(call: Call) -> object:
    """Store a judgement of the caller on a passage that it sees, or take it back."""
    body: JudgementBody = call.body
    key = CitationKey.parse(body.citation)
    if await call.base.outline(key.document_id, collection=key.collection) is None:
        raise Problem("NotFound", f"there is no document {key.document_id!r} in {key.collection!r}")
    judge = call.access.key_id or ""
    made = await call.state.judgements.put(body.query, body.citation, body.relevance, judge=judge)
    return {"judgement": made}


async def list_judgements(call: Call) -> object:
    """Answer with the judgements of the caller, or all of them for one who sees everything."""
    judgements: Judgements = call.state.judgements
    everybody = call.access.is_admin and not call.query.mine
    judge = None if everybody else call.access.key_id or ""
    return {"judgements": await judgements.list(query=call.query.q, judge=judge)}


OPERATIONS = (
    Operation(
        "POST", "/v1/judgements", "judge", "Say whether a passage is relevant for a query.",
        judge, JudgedAnswer, "write", body=JudgementBody, heavy=True, problems=(404,),
    ),
    Operation(
        "GET", "/v1/judgements", "listJudgements", "The judgements of the key.",
        list_judgements, JudgementsAnswer, query=JudgementsQuery, heavy=True,
    ),
)  # fmt: skip
