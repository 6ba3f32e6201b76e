"""The routes of rerank services and of chat models, for a ScriptedServer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from lagotto.testing.server import Handler, Reply, Request

Relevance = Callable[[str, str], float]
"""The relevance of a text to a query, from 0 to 1."""

_WORD = re.compile(r"\w+")
_QUERY = re.compile(r"<query-(\w+)>\n(.*?)\n</query-\1>", re.DOTALL)
_PASSAGE = re.compile(r'<passage-(\w+) id="(\w+)">\n(.*?)\n</passage-\1>', re.DOTALL)


def share_of_words(query: str, text: str) -> float:
    """The share of the query's words that occur in the text."""
    words = set(_WORD.findall(query.lower()))
    return len(words & set(_WORD.findall(text.lower()))) / max(1, len(words))


def rerank_route(relevance: Relevance = share_of_words) -> Handler:
    """Reply to `/rerank` as Cohere, Jina and vLLM do: best first, at most `top_n`."""

    def handle(request: Request) -> Reply:
        body = request.json
        ranked = _ranked(body["query"], body["documents"], relevance)
        results = [{"index": index, "relevance_score": score} for index, score in ranked]
        return Reply({"model": body["model"], "results": results[: body["top_n"]]})

    return handle


def tei_rerank_route(relevance: Relevance = share_of_words) -> Handler:
    """Reply to `/rerank` as Text Embeddings Inference does: other field names, 32 texts at most."""

    def handle(request: Request) -> Reply:
        body = request.json
        if "texts" not in body:
            said = "Failed to deserialize the JSON body into the target type: missing field `texts`"
            return Reply(said.encode(), status=422)
        if len(body["texts"]) > 32:
            said = f"batch size {len(body['texts'])} > maximum allowed batch size 32"
            return Reply({"error": said, "error_type": "Validation"}, status=422)
        ranked = _ranked(body["query"], body["texts"], relevance)
        return Reply([{"index": index, "score": score} for index, score in ranked])

    return handle


def _ranked(query: str, texts: list[str], relevance: Relevance) -> list[tuple[int, float]]:
    scores = [(index, relevance(query, text)) for index, text in enumerate(texts)]
    return sorted(scores, key=lambda scored: -scored[1])


def chat_route(relevance: Relevance = share_of_words) -> Handler:
    """Reply to `/chat/completions` like a model that judges passages exactly as the prompt asks."""

    def handle(request: Request) -> Reply:
        return chat_reply(json.dumps({"results": list(judged(request, relevance).values())}))

    return handle


def chat_reply(content: str | None, **message: object) -> Reply:
    """A chat completion with `content` as the message."""
    answer = {"role": "assistant", "content": content, **message}
    return Reply({"object": "chat.completion", "choices": [{"index": 0, "message": answer}]})


def judged(request: Request, relevance: Relevance = share_of_words) -> dict[str, dict[str, object]]:
    """The verdicts of such a model, by passage id."""
    system, user = (message["content"] for message in request.json["messages"])
    query = _QUERY.search(user)
    assert query, "the prompt has no query"
    verdicts: dict[str, dict[str, object]] = {}
    for _, name, text in _PASSAGE.findall(user):
        score = relevance(query[2], text)
        verdicts[name] = (
            {
                "id": name,
                "relevance_score": round(100 * score),
                "answerability": score > 0.5,
                "key_evidence": text.splitlines()[-1] if text and score else "",
            }
            if "relevance_score" in system
            else {"id": name, "score": round(10 * score)}
        )
    return verdicts
