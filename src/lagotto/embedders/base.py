"""The embedder contract and the registry of embedders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lagotto._internal.display import counted
from lagotto._internal.registry import Registry
from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Record, Vectors
from lagotto.errors import ConfigError, EmbeddingError, ModelMismatchError
from lagotto.models.files import KnownModel, ModelFiles

Role = Literal["query", "document"]
"""What a text is used for; some models need a different prefix for each."""

FETCHED = (
    "minilm-l12", "minilm-l12-int8", "gte-small", "gte-small-int8", "bge-small-en-v1.5",
    "bge-small-en-v1.5-int8", "multilingual-e5-small", "multilingual-e5-small-int8",
    "multilingual", "potion-base-8M", "potion-retrieval-32M", "potion-multilingual-128M",
)  # fmt: skip
"""Models of the catalog that have to be fetched before they can be used."""

EMBEDDERS: Registry[EmbedderFactory] = Registry(
    "embedder",
    group="lagotto.embedders",
    builtin={
        **dict.fromkeys(FETCHED, "lagotto.embedders.catalog:MODELS"),
        "minilm": "lagotto.embedders.onnx:MINILM",
        "minilm-int8": "lagotto.embedders.onnx:MINILM_INT8",
        "onnx": "lagotto.embedders.onnx:from_folder",
        "openai": "lagotto.embedders.openai:from_spec",
    },
)


class EmbedderInfo(Record):
    """The properties of an embedding model.

    `model_id` identifies the vectors: only vectors of the same id may be compared. `max_tokens`
    includes special tokens; longer texts are truncated. `cosine_floor` is the cosine of unrelated
    texts, a constant of the model. `alphabets` are those the model was trained on, by their Unicode
    names (LATIN, CYRILLIC, CJK), `languages` its languages (en); empty means all.
    """

    model_id: str = Field(min_length=1)
    dimension: int = Field(ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    cosine_floor: float = Field(default=0.0, ge=-1.0, lt=1.0)
    alphabets: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()


class ModelConfig(EmbedderInfo):
    """The properties of a model on this machine, for subclasses to add what it takes to run it."""

    def create(self, files: ModelFiles) -> Embedder:
        raise NotImplementedError


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Contract: `embed` returns float32 of shape (len(texts), info.dimension), row i for text i, each
    row with norm 1; no texts give (0, dimension). Any string is accepted: empty, with NULs or lone
    surrogates, a megabyte long. The vector of a text depends only on the text and its role, not on
    the other texts, and is the same every time. Several calls may run concurrently, none of them
    blocks the event loop, and a cancelled call stops at its next batch. `info` and `tokenizer` are
    available before the first call. `close` frees resources; closing twice is allowed, and a later
    call loads them again. Failures are EmbeddingErrors.
    """

    @property
    def info(self) -> EmbedderInfo:
        """The model: its id, dimension and limits."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model, or an approximation."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one unit vector per text, in order."""

    async def close(self) -> None:
        """Free memory, threads and connections."""


class EmbeddingModel(KnownModel):
    kind: ClassVar[Literal["embedder", "reranker"]] = "embedder"
    own_weights: ClassVar[str] = "onnx:FOLDER"
    described: ClassVar[frozenset[str]] = frozenset(EmbedderInfo.model_fields)
    config: ModelConfig

    def __call__(self, rest: str = "") -> Embedder:
        """Create the embedder from files that are there; they are verified when they are read.

        `rest` can be the folder of a model that a package has.
        """
        if rest and not self.installed:
            raise ConfigError(
                f'"{self.name}:{rest}": {self.name} takes no parameters; write onnx:{rest} for a '
                "model in a folder of your own"
            )
        folder = self.find(Path(rest) if rest else None)
        return self.config.create(partial(self.verified, folder=folder))

    async def run_once(self, folder: Path) -> None:
        embedder = self.config.create(folder.joinpath)
        try:
            await embedder.embed(["Does it work?"], role="query")
        finally:
            await embedder.close()


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The contextual vectors of a text's tokens, with the character span of each.

    Special tokens and the model's prefix have empty spans.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    vectors: Vectors


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also returns the vector of each token, before pooling.

    Contract: the mean of a text's token vectors, scaled to norm 1, is its embedding, except for a
    model with CLS pooling.
    """

    async def token_vectors(
        self, texts: Sequence[str], *, role: Role = "document"
    ) -> list[TokenVectors]:
        """Return the token vectors of each text; tokens beyond `max_tokens` are left out."""


def unknown_languages(
    info: EmbedderInfo, counts: Mapping[str, int], *, total: int, what: str = "document"
) -> str | None:
    """A note on documents in languages that a model was not trained on, if there are any.

    `counts` are the documents of each language, of `total`, and `what` is the word for one.
    """
    others = sorted(set(counts) - set(info.languages)) if info.languages else []
    if not others:
        return None
    count = sum(counts[name] for name in others)
    return (
        f"{counted(count, what)} in {', '.join(others)} ({count / max(total, count):.0%}): "
        f"{info.model_id} was trained on {', '.join(info.languages)}, so what is in other "
        "languages is found by its words, hardly by its meaning; to change that, run `lagotto "
        "models fetch multilingual` and `lagotto rebuild --embedder multilingual`"
    )


def checked(vectors: Vectors, *, info: EmbedderInfo, count: int) -> Vectors:
    """Return `vectors` if they are `count` finite float32 rows of the model's dimension."""
    if vectors.shape[1:] != (info.dimension,):
        raise ModelMismatchError(
            f"{info.model_id} is configured with dimension {info.dimension}, but returned vectors "
            f"of shape {vectors.shape}; set the dimension of the model"
        )
    if len(vectors) != count:
        raise EmbeddingError(f"{info.model_id} returned {len(vectors)} vectors for {count} texts")
    if vectors.dtype != np.float32:
        raise EmbeddingError(f"{info.model_id} returned {vectors.dtype} vectors instead of float32")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(f"{info.model_id} returned vectors with NaN or infinite values")
    return vectors


def normalised(vectors: NDArray[np.floating]) -> Vectors:
    """Scale rows to norm 1, as float32; EmbeddingError for a zero-norm vector."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    if not norms.all():
        raise EmbeddingError("zero-norm vector: the model returned only zeros; check its files")
    unit: Vectors = (wide / norms).astype(np.float32)
    return unit


EmbedderFactory = Callable[[str], Embedder]
"""Creates an embedder from the part of its name after the colon, or from an empty string."""


def create_embedder(spec: str | Embedder) -> Embedder:
    """Create the embedder called `spec`; an embedder is returned unchanged.

    Names: `minilm`, `minilm-int8`, `onnx:FOLDER`, `openai:MODEL`, the models that were fetched, and
    those that other packages register. Model files are located here and loaded on first use.
    """
    if not isinstance(spec, str):
        return spec
    name, _, rest = spec.partition(":")
    return EMBEDDERS.get(name)(rest)
