"""The embedding models that Lagotto knows by name."""

from __future__ import annotations

from lagotto.embedders.base import EmbeddingModel
from lagotto.embedders.onnx import MINILM, MINILM_INT8, MODEL, TOKENIZER, OnnxConfig
from lagotto.embedders.static import StaticConfig
from lagotto.models.files import known_hashes

ENGLISH = "English"

FIFTY = (
    "ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "gl", "gu", "he",
    "hi", "hr", "hu", "hy", "id", "it", "ja", "ka", "ko", "ku", "lt", "lv", "mk", "mn", "mr", "ms",
    "my", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "th", "tr", "uk", "ur",
    "vi", "zh",
)  # fmt: skip
"""The languages that the multilingual sentence-transformers were trained on."""


def _entries(
    name: str,
    repository: str,
    *,
    kind: type[OnnxConfig | StaticConfig] = OnnxConfig,
    megabytes: int,
    good_for: str,
    languages: str = ENGLISH,
    codes: tuple[str, ...] = (),
    tokenizer: str | None = None,
    weights: str | None = None,
    **settings: object,
) -> dict[str, EmbeddingModel]:
    """A model, and the 8-bit one that can be made of it; `tokenizer` and `weights` are hashes."""
    of_english = {"alphabets": ("LATIN",), "languages": ("en",)}
    coverage = of_english if languages == ENGLISH else {"languages": codes}
    config = kind.model_validate({"model_id": name, "dimension": 384, **coverage, **settings})
    model = EmbeddingModel(
        name=name,
        repository=repository,
        hashes=known_hashes({TOKENIZER: tokenizer, config.model_file: weights}),
        config=config,
        languages=languages,
        megabytes=megabytes,
        good_for=good_for,
    )
    if not isinstance(config, OnnxConfig) or config.model_file != MODEL:
        return {name: model}
    return {name: model, f"{name}-int8": model.eight_bit(config.eight_bit())}


MODELS: dict[str, EmbeddingModel] = {
    MINILM.name: MINILM,
    MINILM_INT8.name: MINILM_INT8,
    **_entries(
        "minilm-l12",
        "sentence-transformers/all-MiniLM-L12-v2",
        megabytes=134,
        good_for="twice the time of minilm; not measured here",
        model_id="all-MiniLM-L12-v2",
        max_tokens=128,
        pooling="mean",
    ),
    **_entries(
        "gte-small",
        "Xenova/gte-small",
        megabytes=134,
        good_for="English: hybrid +.011 over ten data sets, vectors alone +.08 on SciFact",
        tokenizer="da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
        weights="398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
        max_tokens=512,
        pooling="mean",
        cosine_floor=0.75,
    ),
    **_entries(
        "bge-small-en-v1.5",
        "BAAI/bge-small-en-v1.5",
        megabytes=134,
        good_for="twice the time of minilm; not measured here",
        max_tokens=512,
        pooling="cls",
        query_prefix="Represent this sentence for searching relevant passages: ",
        cosine_floor=0.4,
    ),
    **_entries(
        "multilingual-e5-small",
        "intfloat/multilingual-e5-small",
        megabytes=488,
        good_for="longer passages in many languages; not measured here",
        languages="about 100",
        max_tokens=512,
        pooling="mean",
        query_prefix="query: ",
        document_prefix="passage: ",
        cosine_floor=0.7,
    ),
    **_entries(
        "multilingual",
        "Xenova/paraphrase-multilingual-MiniLM-L12-v2",
        megabytes=136,
        good_for="50 languages, also across them: XQuAD Russian .984 hybrid (minilm .968), "
        "English questions about Russian texts .863 (.402), English .975 (.983)",
        languages="50",
        codes=FIFTY,
        tokenizer="b60b6b43406a48bf3638526314f3d232d97058bc93472ff2de930d43686fa441",
        weights="66fc00f5f29afcaff34092e1bdd20008ca3918265a82fb9695a551e510cc4ebc",
        model_id="paraphrase-multilingual-MiniLM-L12-v2-int8",
        max_tokens=128,
        pooling="mean",
        cosine_floor=0.1,
        model_file="onnx/model_quantized.onnx",
        batch_tokens=1,
    ),
    **_entries(
        "potion-base-8M",
        "minishlab/potion-base-8M",
        kind=StaticConfig,
        dimension=256,
        megabytes=31,
        good_for="thousands of texts a second; ranks clearly worse",
        tokenizer="e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
        weights="f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
    ),
    **_entries(
        "potion-retrieval-32M",
        "minishlab/potion-retrieval-32M",
        kind=StaticConfig,
        dimension=512,
        megabytes=130,
        good_for="as potion-base-8M; not measured here",
    ),
    **_entries(
        "potion-multilingual-128M",
        "minishlab/potion-multilingual-128M",
        kind=StaticConfig,
        dimension=256,
        megabytes=531,
        good_for="many languages, thousands of texts a second; not measured here",
        languages="about 100",
    ),
}
