"""The embedding models that Lagotto knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from lagotto.embedders.base import Embedder, EmbedderFactory, EmbeddingModel
from lagotto.embedders.onnx import MINILM, MINILM_INT8, MODEL, TOKENIZER, OnnxConfig
from lagotto.embedders.static import StaticConfig
from lagotto.errors import ConfigError
from lagotto.models.files import known_hashes

TABLE = "model.safetensors"
QUANTISED = "onnx/model_quantized.onnx"
ENGLISH = "English"

FIFTY = (
    "ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "gl", "gu", "he",
    "hi", "hr", "hu", "hy", "id", "it", "ja", "ka", "ko", "ku", "lt", "lv", "mk", "mn", "mr", "ms",
    "my", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "th", "tr", "uk", "ur",
    "vi", "zh",
)  # fmt: skip
"""The languages that the multilingual sentence-transformers were trained on."""


def _transformer(
    name: str,
    repository: str,
    *,
    megabytes: int,
    good_for: str,
    languages: str = ENGLISH,
    tokenizer: str | None = None,
    model: str | None = None,
    **settings: object,
) -> dict[str, EmbeddingModel]:
    """A transformer in full precision, and the 8-bit model that can be made from it.

    `tokenizer` and `model` are the published hashes, if they are known.
    """
    english = {"alphabets": ("LATIN",), "languages": ("en",)} if languages == ENGLISH else {}
    config = OnnxConfig.model_validate({"dimension": 384, **english, **settings})
    full = EmbeddingModel(
        name=name,
        repository=repository,
        hashes=known_hashes({TOKENIZER: tokenizer, MODEL: model}),
        config=config,
        languages=languages,
        megabytes=megabytes,
        good_for=good_for,
    )
    return {name: full, f"{name}-int8": full.eight_bit(config.eight_bit())}


def _static(
    name: str,
    *,
    dimension: int,
    megabytes: int,
    good_for: str,
    languages: str = ENGLISH,
    tokenizer: str | None = None,
    table: str | None = None,
) -> dict[str, EmbeddingModel]:
    english = languages == ENGLISH
    config = StaticConfig(
        model_id=name,
        dimension=dimension,
        alphabets=("LATIN",) if english else (),
        languages=("en",) if english else (),
    )
    known = EmbeddingModel(
        name=name,
        repository=f"minishlab/{name}",
        hashes=known_hashes({TOKENIZER: tokenizer, TABLE: table}),
        config=config,
        languages=languages,
        megabytes=megabytes,
        good_for=good_for,
    )
    return {name: known}


MODELS: dict[str, EmbeddingModel] = {
    MINILM.name: MINILM,
    MINILM_INT8.name: MINILM_INT8,
    **_transformer(
        "minilm-l12",
        "sentence-transformers/all-MiniLM-L12-v2",
        megabytes=134,
        good_for="twice the time of minilm; not measured here",
        model_id="all-MiniLM-L12-v2",
        max_tokens=128,
        pooling="mean",
    ),
    **_transformer(
        "gte-small",
        "Xenova/gte-small",
        megabytes=134,
        good_for="English: hybrid +.011 over ten data sets, vectors alone +.08 on SciFact",
        tokenizer="da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
        model="398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
        model_id="gte-small",
        max_tokens=512,
        pooling="mean",
        cosine_floor=0.75,
    ),
    **_transformer(
        "bge-small-en-v1.5",
        "BAAI/bge-small-en-v1.5",
        megabytes=134,
        good_for="twice the time of minilm; not measured here",
        model_id="bge-small-en-v1.5",
        max_tokens=512,
        pooling="cls",
        query_prefix="Represent this sentence for searching relevant passages: ",
        cosine_floor=0.4,
    ),
    **_transformer(
        "multilingual-e5-small",
        "intfloat/multilingual-e5-small",
        megabytes=488,
        good_for="longer passages in many languages; not measured here",
        languages="about 100",
        model_id="multilingual-e5-small",
        max_tokens=512,
        pooling="mean",
        query_prefix="query: ",
        document_prefix="passage: ",
        cosine_floor=0.7,
    ),
    "multilingual": EmbeddingModel(
        name="multilingual",
        repository="Xenova/paraphrase-multilingual-MiniLM-L12-v2",
        hashes=known_hashes(
            {
                TOKENIZER: "b60b6b43406a48bf3638526314f3d232d97058bc93472ff2de930d43686fa441",
                QUANTISED: "66fc00f5f29afcaff34092e1bdd20008ca3918265a82fb9695a551e510cc4ebc",
            }
        ),
        languages="50",
        megabytes=136,
        good_for="50 languages, also across them: XQuAD Russian .984 hybrid (minilm .968), "
        "English questions about Russian texts .863 (.402), English .975 (.983)",
        config=OnnxConfig(
            model_id="paraphrase-multilingual-MiniLM-L12-v2-int8",
            dimension=384,
            max_tokens=128,
            pooling="mean",
            cosine_floor=0.1,
            languages=FIFTY,
            model_file=QUANTISED,
            batch_tokens=1,
        ),
    ),
    **_static(
        "potion-base-8M",
        dimension=256,
        megabytes=31,
        good_for="thousands of texts a second; ranks clearly worse",
        tokenizer="e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
        table="f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
    ),
    **_static(
        "potion-retrieval-32M",
        dimension=512,
        megabytes=130,
        good_for="as potion-base-8M; not measured here",
    ),
    **_static(
        "potion-multilingual-128M",
        dimension=256,
        megabytes=531,
        good_for="many languages, thousands of texts a second; not measured here",
        languages="about 100",
    ),
}


def from_fetched(name: str, rest: str = "") -> Embedder:
    """Create the known model `name` from its files; WeightsError names the command to fetch it."""
    if rest:
        raise ConfigError(
            f'"{name}:{rest}": {name} takes no parameters; write onnx:{rest} for a model in a '
            "folder of your own"
        )
    return MODELS[name].create()


FACTORIES: Mapping[str, EmbedderFactory] = {name: partial(from_fetched, name) for name in MODELS}
