"""Lagotto: hybrid retrieval for RAG. Documents in, ranked and cited evidence out.

Names are imported when they are first used, so `import lagotto` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lagotto.documents import Chunk, Document, Embedding
    from lagotto.errors import LagottoError
    from lagotto.filters import parse_filter
    from lagotto.knowledge_base import AsyncKnowledgeBase
    from lagotto.results import RetrievalResult
    from lagotto.sync_facade import KnowledgeBase

__version__ = "0.1.0.dev0"

_HOMES = {
    "AsyncKnowledgeBase": "knowledge_base",
    "Chunk": "documents",
    "Document": "documents",
    "Embedding": "documents",
    "KnowledgeBase": "sync_facade",
    "LagottoError": "errors",
    "RetrievalResult": "results",
    "parse_filter": "filters",
}

__all__ = [
    "AsyncKnowledgeBase",
    "Chunk",
    "Document",
    "Embedding",
    "KnowledgeBase",
    "LagottoError",
    "RetrievalResult",
    "parse_filter",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
