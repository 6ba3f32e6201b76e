"""The embedder and the chunker of a base: those it was made with, unless it is being made.

A base stores what made its chunks and vectors. Whoever opens it need not name them again, and can't
change them by naming others: `rebuild` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lagotto._internal.locations import mask_location
from lagotto._internal.trust import how_to_trust, is_trusted, trust
from lagotto.embedders import EMBEDDERS, Embedder, create_embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder, Pooling
from lagotto.errors import ConfigError, ModelMismatchError
from lagotto.stores.base import BaseConfig

if TYPE_CHECKING:
    from lagotto.chunkers import Chunker

DEFAULT_EMBEDDER = "minilm"
"""For chunks that are in no base; see `default_embedder` for new bases."""
NAMED_MODELS = {"all-MiniLM-L6-v2": "minilm", "all-MiniLM-L6-v2-int8": "minilm-int8"}
"""Names of embedders by their models, for bases that were filled with an embedder object."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the caller asked for; None stands for what the base was made with."""

    embedder: str | Embedder | None = None
    chunker: str | None = None
    pooling: Pooling | None = None


@dataclass(frozen=True, slots=True)
class BaseParts:
    """What turns documents into chunks and vectors; `spec` is the name of the embedder, if any.

    The chunker is created by its id when it is asked for: a base can be searched where its chunker
    is not installed.
    """

    spec: str | None
    chunker_id: str
    vectors: ChunkEmbedder
    pooling: Pooling

    @property
    def embedder(self) -> Embedder:
        return self.vectors.embedder

    @property
    def chunker(self) -> Chunker:
        """The chunker; UnknownNameError if it is not registered here.

        ConfigError if it is of a package that is installed, and only the base has named it.
        """
        from lagotto.chunkers import CHUNKERS
        from lagotto.chunkers.boundaries import measuring_tokenizer

        name = self.chunker_id.partition(":")[0]
        if CHUNKERS.is_installed(name) and not is_trusted(name):
            raise ConfigError(f"the chunker {name} of the base is not used; {how_to_trust(name)}")
        measured = measuring_tokenizer(self.embedder.tokenizer, self.embedder.info.alphabets)
        return CHUNKERS.create(self.chunker_id, tokenizer=measured)

    @property
    def config(self) -> BaseConfig:
        return BaseConfig(
            embedder=self.spec,
            model_id=self.vectors.model_id,
            dimension=self.embedder.info.dimension,
            pooling=self.pooling,
            chunker_id=self.chunker_id,
        )


def create_parts(choice: Choice, stored: BaseConfig, *, location: str) -> BaseParts:
    """The parts that a choice and a base's own settings stand for; defaults fill the rest."""
    chosen = choice.embedder if choice.embedder is not None else _stored_embedder(stored, location)
    embedder = create_embedder(chosen)
    spec = None
    if isinstance(chosen, str):
        name, colon, rest = chosen.partition(":")
        is_path = rest and Path(rest).exists()  # `onnx:models/gte`, which any folder has to mean
        spec = f"{name}{colon}{Path(rest).resolve()}" if is_path else chosen
        if not _is_built_in(spec):
            trust(spec)
    chunker_id = stored.chunker_id
    if choice.chunker is not None or chunker_id is None:  # an id has all sizes spelled out
        from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER

        chunker_spec = choice.chunker or DEFAULT_CHUNKER
        chunker_id = CHUNKERS.create(chunker_spec, tokenizer=embedder.tokenizer).id
        if CHUNKERS.is_installed(name := chunker_id.partition(":")[0]):
            trust(name)
    pooling = choice.pooling or stored.pooling or "chunk"
    return BaseParts(spec, chunker_id, ChunkEmbedder(embedder, pooling=pooling), pooling)


def check_choice(parts: BaseParts, stored: BaseConfig, *, location: str) -> None:
    """Raise if a base was made with other parts; nobody changes them by opening it."""
    model_id = parts.vectors.model_id
    if stored.model_id not in (None, model_id):
        named = f"embedder={parts.spec!r}" if parts.spec else "embedder=..."
        option = f"--embedder {quote(parts.spec)}" if parts.spec else ""
        if parts.pooling != (stored.pooling or "chunk"):
            named, option = f"{named}, pooling={parts.pooling!r}", f"--pooling {parts.pooling}"
        raise ModelMismatchError(
            f"{location} holds vectors of {stored.model_id}, and this embedder makes vectors of "
            f"{model_id}; leave the embedder out to use the one of the base, or change the base "
            f"with kb.rebuild({named})" + (f" or `lagotto rebuild {option}`" if option else "")
        )
    if stored.chunker_id not in (None, parts.chunker_id):
        raise ConfigError(
            f"{location} has chunks of {stored.chunker_id}, not of {parts.chunker_id}; leave the "
            "chunker out to use the one of the base, or change the base with "
            f"`lagotto rebuild --chunker {quote(parts.chunker_id)}` or "
            f"kb.rebuild(chunker={parts.chunker_id!r})"
        )


def _stored_embedder(stored: BaseConfig, location: str) -> str:
    if stored.model_id is None:
        from lagotto.embedders.onnx import default_embedder  # not needed by an existing base

        return default_embedder()
    name = stored.embedder or NAMED_MODELS.get(stored.model_id.partition("+")[0])
    if name is None:
        raise ModelMismatchError(
            f"{location} holds vectors of {stored.model_id}, and does not know by which name the "
            "embedder can be created; pass the embedder that makes them: "
            "KnowledgeBase(..., embedder=...) or --embedder NAME"
        )
    if not _is_built_in(name) and not is_trusted(name):
        raise ConfigError(
            f"the embedder {mask_location(name)} of {location} is not used; {how_to_trust(name)}"
        )
    return name


def _is_built_in(spec: str) -> bool:
    """Whether a base may name an embedder by itself: no folder, service or other package."""
    return ":" not in spec and EMBEDDERS.is_builtin(spec)
