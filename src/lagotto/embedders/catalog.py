"""The models that Lagotto knows by name, with all that is needed to fetch and to run them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from lagotto.documents import Record
from lagotto.embedders import minilm
from lagotto.embedders.onnx_config import OnnxConfig
from lagotto.embedders.static import StaticConfig
from lagotto.errors import UnknownNameError
from lagotto.models.fetched import FetchedModel

TOKENIZER = "tokenizer.json"
ONNX = "onnx/model.onnx"
TABLE = "model.safetensors"
ENGLISH = "English"
UNKNOWN: frozenset[str] = frozenset()
"""The hashes of a file for which none is known: the one that was fetched is taken."""

BERT_TOKENIZER = frozenset({"da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0"})


class KnownModel(Record):
    """A model by name: its files on the hub, its configuration, and what it is good for.

    `hashes` are the published SHA-256 of the files, and empty for a file whose hash is not known.
    `megabytes` is the approximate size of what is downloaded. `quantised_from` is the model in full
    precision that an 8-bit model is made from.
    """

    name: str
    repository: str
    revision: str = "main"
    hashes: Mapping[str, frozenset[str]]
    config: OnnxConfig | StaticConfig
    languages: str
    megabytes: int = Field(ge=1)
    quantised_from: str | None = None

    @property
    def files(self) -> FetchedModel:
        """Its files in the folder of fetched models; no hash of a quantised graph is published."""
        if self.quantised_from is None:
            return FetchedModel(self.name, self.hashes)
        return FetchedModel(self.name, {**self.hashes, self.config.model_file: UNKNOWN})

    def tokenizer_path(self) -> Path:
        """The fetched tokenizer, verified."""
        return self.files.verified(self.config.tokenizer_file)

    def model_path(self) -> Path:
        """The fetched weights, verified."""
        return self.files.verified(self.config.model_file)


def _transformer(
    name: str,
    repository: str,
    config: OnnxConfig,
    *,
    languages: str,
    megabytes: int,
    tokenizer: frozenset[str] = UNKNOWN,
    model: frozenset[str] = UNKNOWN,
) -> dict[str, KnownModel]:
    """A transformer in full precision, and the 8-bit model that can be made from it."""
    full = KnownModel(
        name=name,
        repository=repository,
        hashes={TOKENIZER: tokenizer, ONNX: model},
        config=config,
        languages=languages,
        megabytes=megabytes,
    )
    # The scales of a dynamically quantised graph are those of a batch: texts run one by one.
    changes = {"model_id": f"{config.model_id}-int8", "batch_tokens": 1}
    int8 = full.model_copy(
        update={
            "name": f"{name}-int8",
            "config": config.model_copy(update=changes),
            "quantised_from": name,
        }
    )
    return {name: full, int8.name: int8}


def _static(
    name: str, *, dimension: int, languages: str, megabytes: int, alphabets: tuple[str, ...] = (),
    tokenizer: frozenset[str] = UNKNOWN, table: frozenset[str] = UNKNOWN,
) -> dict[str, KnownModel]:  # fmt: skip
    """A static model of the potion family."""
    config = StaticConfig(
        model_id=name,
        dimension=dimension,
        alphabets=alphabets,
        languages=("en",) if languages == ENGLISH else (),
    )
    known = KnownModel(
        name=name,
        repository=f"minishlab/{name}",
        hashes={TOKENIZER: tokenizer, TABLE: table},
        config=config,
        languages=languages,
        megabytes=megabytes,
    )
    return {name: known}


MODELS: dict[str, KnownModel] = {
    **_transformer(
        "minilm",
        minilm.PUBLISHED.hub_id,
        minilm.CONFIG,
        languages=ENGLISH,
        megabytes=91,
        tokenizer=minilm.PUBLISHED.hashes[TOKENIZER],
        model=minilm.PUBLISHED.hashes[ONNX],
    ),
    **_transformer(
        "minilm-l12",
        "sentence-transformers/all-MiniLM-L12-v2",
        OnnxConfig(
            model_id="all-MiniLM-L12-v2",
            dimension=384,
            max_tokens=128,
            pooling="mean",
            alphabets=("LATIN",),
            languages=("en",),
        ),
        languages=ENGLISH,
        megabytes=134,
    ),
    **_transformer(
        "gte-small",
        "Xenova/gte-small",
        OnnxConfig(
            model_id="gte-small",
            dimension=384,
            max_tokens=512,
            pooling="mean",
            cosine_floor=0.75,
            alphabets=("LATIN",),
            languages=("en",),
        ),
        languages=ENGLISH,
        megabytes=134,
        tokenizer=BERT_TOKENIZER,
        model=frozenset({"398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3"}),
    ),
    **_transformer(
        "bge-small-en-v1.5",
        "BAAI/bge-small-en-v1.5",
        OnnxConfig(
            model_id="bge-small-en-v1.5",
            dimension=384,
            max_tokens=512,
            pooling="cls",
            query_prefix="Represent this sentence for searching relevant passages: ",
            cosine_floor=0.4,
            alphabets=("LATIN",),
            languages=("en",),
        ),
        languages=ENGLISH,
        megabytes=134,
    ),
    **_transformer(
        "multilingual-e5-small",
        "intfloat/multilingual-e5-small",
        OnnxConfig(
            model_id="multilingual-e5-small",
            dimension=384,
            max_tokens=512,
            pooling="mean",
            query_prefix="query: ",
            document_prefix="passage: ",
            cosine_floor=0.7,
        ),
        languages="about 100",
        megabytes=488,
    ),
    **_static(
        "potion-base-8M",
        dimension=256,
        languages=ENGLISH,
        megabytes=31,
        alphabets=("LATIN",),
        tokenizer=frozenset({"e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50"}),
        table=frozenset({"f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2"}),
    ),
    **_static(
        "potion-retrieval-32M",
        dimension=512,
        languages=ENGLISH,
        megabytes=130,
        alphabets=("LATIN",),
    ),
    **_static("potion-multilingual-128M", dimension=256, languages="about 100", megabytes=531),
}


def known_model(name: str) -> KnownModel:
    """The model called `name`; UnknownNameError lists the names."""
    if name not in MODELS:
        raise UnknownNameError(f'unknown model "{name}"; available: {", ".join(MODELS)}')
    return MODELS[name]
