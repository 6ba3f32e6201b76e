"""The embedder contract and the registry of embedders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lagotto.documents import Record, Vectors
from lagotto.errors import EmbeddingError, ModelMismatchError
from lagotto.registry import Registry
from lagotto.tokens import Tokenizer

Role = Literal["query", "document"]
"""What a text is for; some models put different words in front of the two."""


class EmbedderInfo(Record):
    """What there is to know about an embedder before it has embedded anything.

    `model_id` names the vectors: those of one id may be compared, others never. `max_tokens`
    counts special tokens; text beyond it is cut off. `cosine_floor` is where the cosines of
    unrelated texts start, a constant of the model. `alphabets` are the ones it has learned to
    read, as Unicode names letters (LATIN, CYRILLIC, CJK); none given means all.
    """

    model_id: str = Field(min_length=1)
    dimension: int = Field(ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    cosine_floor: float = Field(default=0.0, ge=-1.0, lt=1.0)
    alphabets: tuple[str, ...] = ()


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Contract: `embed` gives float32 of shape (len(texts), info.dimension), row i for text i, each
    row of length 1; no texts give (0, dimension). Any string is accepted: empty, with NULs or
    lone surrogates, a megabyte long. A text's vector depends on the text and its role only, not
    on the texts beside it, and is the same every time. Several calls may run at once, the event
    loop stays free meanwhile, and a cancelled call stops at its next batch. `info` and
    `tokenizer` are there before the first call. `close` frees what the embedder holds; it may be
    called twice, and a later call simply loads again. Failures are EmbeddingErrors.
    """

    @property
    def info(self) -> EmbedderInfo:
        """The model: its id, its dimension, its limits."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Counts tokens as the model does, or as near to it as can be had."""
        ...

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """One unit vector per text, in order."""
        ...

    async def close(self) -> None:
        """Free memory, threads and connections."""
        ...


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """A text's tokens in context: where each one lies in the text, and its vector.

    Special tokens and the model's prefix have empty spans.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    vectors: Vectors


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also tells the vector of each token, before they become one.

    Contract: the mean of a text's token vectors, scaled to length 1, is its embedding (only for a
    model that takes its first token for the whole text it is not).
    """

    async def token_vectors(
        self, texts: Sequence[str], *, role: Role = "document"
    ) -> list[TokenVectors]:
        """For each text, the vector of each of its tokens; text beyond `max_tokens` has none."""
        ...


def checked(vectors: Vectors, *, info: EmbedderInfo, count: int) -> Vectors:
    """`vectors`, once it is sure that they are `count` finite float32 rows of that model."""
    if vectors.shape[1:] != (info.dimension,):
        raise ModelMismatchError(
            f"{info.model_id} should give vectors of {info.dimension} numbers, but the result has "
            f"the shape {vectors.shape}; set the dimension that the model really has"
        )
    if len(vectors) != count:
        raise EmbeddingError(f"{info.model_id} gave {len(vectors)} vectors for {count} texts")
    if vectors.dtype != np.float32:
        raise EmbeddingError(f"{info.model_id} gave {vectors.dtype} vectors instead of float32")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(f"{info.model_id} gave vectors that are not finite numbers")
    return vectors


def normalised(vectors: NDArray[np.floating]) -> Vectors:
    """The rows scaled to length 1, as float32; EmbeddingError for one that has no direction."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    if not norms.all():
        raise EmbeddingError("a vector is all zeros and has no direction; the model is broken")
    unit: Vectors = (wide / norms).astype(np.float32)
    return unit


EmbedderFactory = Callable[[str], Embedder]
"""Makes an embedder from what stands behind the colon of its name, or from an empty string."""

EMBEDDERS: Registry[EmbedderFactory] = Registry(
    "embedder",
    group="lagotto.embedders",
    builtin={
        "minilm": "lagotto.embedders.minilm:minilm",
        "minilm-int8": "lagotto.embedders.minilm:minilm_int8",
        "onnx": "lagotto.embedders.onnx:from_folder",
        "openai": "lagotto.embedders.openai:from_spec",
    },
)


def create_embedder(spec: str | Embedder) -> Embedder:
    """The embedder that `spec` names, or `spec` itself if it is one.

    `minilm`, `minilm-int8`, `onnx:FOLDER`, `openai:MODEL`, or a name that another package has
    registered. Model files are looked for here and loaded on first use.
    """
    if not isinstance(spec, str):
        return spec
    name, _, rest = spec.partition(":")
    return EMBEDDERS.get(name)(rest)
