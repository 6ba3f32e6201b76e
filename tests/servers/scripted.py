"""An HTTP server on 127.0.0.1 whose replies a test decides, faults included; routes of services."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from lagotto.embedders.base import Embedder


@dataclass(frozen=True, slots=True)
class Request:
    """A request; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: `body` is sent as it is if it is bytes, else as JSON.

    It is sent after `delay` seconds; `drop` closes the connection without a response, and after so
    many bytes of the body as are `sent`. Without `sized` its length is not said.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    sent: int | None = None
    sized: bool = True


Handler = Callable[[Request], Reply]


class ScriptedServer:
    """Answers requests by route; replies queued with `script` come first, one per request.

    `requests` has every request so far. The server listens at `url` inside of a `with` block.
    """

    def __init__(self, routes: Mapping[str, Handler]) -> None:
        self.requests: list[Request] = []
        self._routes = dict(routes)
        self._scripts: dict[str, deque[Reply | Handler]] = defaultdict(deque)
        self._closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))
        self._http.daemon_threads = False  # closing waits for replies under way
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def url(self) -> str:
        """The root URL, without a trailing slash."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def script(self, path: str, *replies: Reply | Handler) -> None:
        """Queue replies for the next requests to `path`; after them its route answers again."""
        self._scripts[path].extend(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reply(self, request: Request) -> Reply:
        """The reply to a request, after its delay."""
        self.requests.append(request)
        script = self._scripts[request.path]
        chosen = script.popleft() if script else self._routes.get(request.path, _not_found)
        reply = chosen if isinstance(chosen, Reply) else chosen(request)
        self._closing.wait(reply.delay)
        return reply


def _not_found(request: Request) -> Reply:
    return Reply({"error": f"no route for {request.path}"}, status=404)


def _handler_class(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class RequestHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply(Request(self.path, headers, body, self.command))
            if reply.drop:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            try:
                self._send(reply)
            except ConnectionError:
                return  # the client timed out

        do_GET = do_DELETE = do_POST  # noqa: N815

        def _send(self, reply: Reply) -> None:
            raw = isinstance(reply.body, bytes)
            body = reply.body if raw else json.dumps(reply.body).encode()
            kind = "text/plain" if raw else "application/json"
            length = {"Content-Length": str(len(body))} if reply.sized else {}
            self.send_response(reply.status)
            for name, value in {"Content-Type": kind, **length, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: reply.sent])

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log nothing."""

    return RequestHandler


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
