"""The `/embeddings` route of an OpenAI-compatible service, for a ScriptedServer."""

from __future__ import annotations

import asyncio

from lagotto.embedders.base import Embedder
from lagotto.testing.server import Handler, Reply, Request


def embeddings_route(embedder: Embedder) -> Handler:
    """Reply as OpenAI does, with the vectors of `embedder`; empty texts are refused.

    The items are in reverse order, because clients must go by their `index`.
    """

    def handle(request: Request) -> Reply:
        body = request.json
        texts: list[str] = body["input"]
        if not texts or "" in texts:
            return Reply({"error": {"message": "'$.input' is invalid."}}, status=400)
        vectors = asyncio.run(embedder.embed(texts, role="document"))
        data = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        return Reply({"object": "list", "data": data[::-1], "model": body["model"]})

    return handle
