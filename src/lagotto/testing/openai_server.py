"""The `/embeddings` route of an OpenAI-compatible service, for a ScriptedServer."""

from __future__ import annotations

import asyncio

from lagotto.embedders.base import Embedder
from lagotto.testing.server import Handler, Reply, Request


def embeddings_route(embedder: Embedder) -> Handler:
    """Answers as OpenAI does, with the vectors of `embedder`; refuses empty texts, as OpenAI does.

    The items come in reverse order, since only their index counts.
    """

    def handle(request: Request) -> Reply:
        asked = request.json
        texts: list[str] = asked["input"]
        if not texts or "" in texts:
            return Reply({"error": {"message": "'$.input' is invalid."}}, status=400)
        vectors = asyncio.run(embedder.embed(texts, role="document"))
        data = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        return Reply({"object": "list", "data": data[::-1], "model": asked["model"]})

    return handle
