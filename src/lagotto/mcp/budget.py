"""The token budget of an answer, counted on the whole message that goes over the wire.

Which model reads the answer is not known here, so tokens are estimated: a little above what the
tokenizers of language models count in English and code, and never far below it, whatever a document
holds. The tokenizer of an embedder would not do: to it, a megabyte without a space is one token.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from lagotto import __version__
from lagotto.models.tokenizer import ApproximateTokenizer

DEFAULT_TOKENS = 4_000
MOST_TOKENS = 9_000
LEAST_TOKENS = 500
"""Room for the envelope, one citation and a few lines of its text."""

BYTES_PER_TOKEN = 4
"""White space has no tokens in the estimate, yet it is not free."""

_DENSE = re.compile(r"[A-Za-z0-9+=]{24,}")
"""Encoded data and hashes: seven tokens for ten characters."""
_WIDE = re.compile(r"[\U00010000-\U0010ffff]")
"""Emoji and rare scripts: three tokens each."""
_PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,2}|[\u00c0-\u024f\u0370-\u04ff]{1,2}|\S")
"""One token each."""


def estimate(text: str) -> int:
    """The number of tokens that a language model may see in a text."""
    dense = sum(map(len, _DENSE.findall(text)))
    rest = _DENSE.sub(" ", text) if dense else text
    pieces = len(_PIECE.findall(rest)) + 2 * len(_WIDE.findall(rest))
    size = -(-len(text.encode()) // BYTES_PER_TOKEN)
    return max(pieces - -7 * dense // 10, size, ApproximateTokenizer().count([text])[0])


def on_wire(text: str) -> int:
    """The tokens of an answer with this text: the message with its escapes and its envelope."""
    return _envelope() + estimate(json.dumps(text, ensure_ascii=False))


@cache
def _envelope() -> int:
    """The tokens of the message around the text, of the protocol revision that has the most."""
    stamp = {"io.modelcontextprotocol/serverInfo": {"name": "lagotto", "version": __version__}}
    result = {
        "_meta": stamp,
        "content": [{"type": "text", "text": ""}],
        "isError": False,
        "resultType": "complete",
    }
    return estimate(json.dumps({"jsonrpc": "2.0", "id": 10**9, "result": result})) + 8


def cut(text: str, *, budget: int = LEAST_TOKENS) -> str:
    """As much of a text as fits, with an ellipsis for the rest."""
    kept = most(len(text), lambda n: text[:n] + "…" * (n < len(text)), budget=budget)
    return text if kept == len(text) else text[:kept] + "…"


def most(limit: int, render: Callable[[int], str], *, budget: int) -> int:
    """The largest n up to `limit` with `render(n)` within the budget, 0 if there is none.

    `render(n)` must not become shorter as n grows.
    """
    if limit == 0 or on_wire(render(limit)) <= budget:
        return limit
    return bisect_left(range(1, limit), True, key=lambda n: on_wire(render(n)) > budget)
