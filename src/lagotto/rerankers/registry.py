"""From a name such as `overlap` or `cross-encoder:FOLDER` to a reranker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagotto.registry import Registry
from lagotto.rerankers.base import Reranker

RerankerFactory = Callable[[str], Reranker]
"""Makes a reranker from what stands behind the colon of its name, or from an empty string."""


@dataclass(frozen=True, slots=True)
class WithEmbedder:
    """A factory of rerankers that use the base's embedder."""

    make: Callable[[str, object], Reranker]


RERANKERS: Registry[RerankerFactory | WithEmbedder] = Registry(
    "reranker",
    group="lagotto.rerankers",
    builtin={
        "score": "lagotto.rerankers.score:from_name",
        "overlap": "lagotto.rerankers.overlap:overlap",
        "overlap-idf": "lagotto.rerankers.overlap:overlap_idf",
        "lexical": "lagotto.rerankers.lexical:from_name",
        "maxsim": "lagotto.rerankers.maxsim:from_name",
        "cross-encoder": "lagotto.rerankers.cross_encoder:from_name",
        "api": "lagotto.rerankers.api:from_name",
        "llm": "lagotto.rerankers.llm:from_name",
        "llm-score": "lagotto.rerankers.llm:from_score_name",
    },
)


def create_reranker(spec: str | Reranker, *, embedder: object = None) -> Reranker:
    """The reranker that `spec` names, or `spec` itself if it is one.

    `score:MIN`, `overlap`, `overlap-idf`, `lexical`, `maxsim`, `cross-encoder:FOLDER`,
    `api:MODEL`, `llm:MODEL`, `llm-score:MODEL`, or a name that another package has registered.
    `embedder` is the base's; `maxsim` is the one that needs it.
    """
    if not isinstance(spec, str):
        return spec
    name, _, rest = spec.partition(":")
    factory = RERANKERS.get(name)
    return factory.make(rest, embedder) if isinstance(factory, WithEmbedder) else factory(rest)
