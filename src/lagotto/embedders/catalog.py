"""The models that Lagotto knows by name, fetched and run by it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pydantic import Field

from lagotto.documents import Record
from lagotto.embedders import onnx
from lagotto.embedders.base import Embedder, EmbedderFactory
from lagotto.embedders.onnx import OnnxConfig, OnnxEmbedder
from lagotto.embedders.static import StaticConfig, StaticEmbedder
from lagotto.errors import ConfigError, EmbeddingError, UnknownNameError, WeightsError
from lagotto.models.files import (
    MODEL_FILES,
    FetchedModel,
    Hub,
    HubFile,
    ModelFiles,
    State,
    hash_of,
    hub_address,
    workplace,
)
from lagotto.models.http import without_credentials
from lagotto.models.onnx import check_quantizer, quantize

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
        onnx.PUBLISHED.hub_id,
        onnx.CONFIG,
        languages=ENGLISH,
        megabytes=91,
        tokenizer=onnx.PUBLISHED.hashes[TOKENIZER],
        model=onnx.PUBLISHED.hashes[ONNX],
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


Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, the bytes that have arrived, and its size if it is known."""

SLACK = 1.5
"""A file may exceed the size of its model by this factor, and no more."""


def fetch_model(
    name: str,
    *,
    source: str | None = None,
    quantise: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Fetch a known model, unless it is here, and return its folder.

    `source` is a folder with the model's files or the address of a hub; by default the hub is
    LAGOTTO_HUB, HF_ENDPOINT or huggingface.co. `quantise` makes the 8-bit model: fetching `x` with
    it is the same as fetching `x-int8`. Every file is compared with its published hash, if that is
    known, and the model has to embed a text before it is put in its place. An interrupted download
    is resumed by the next call.
    """
    model = known_model(name)
    if quantise and model.quantised_from is None:
        if isinstance(model.config, StaticConfig):
            raise ConfigError(f"{name} is a static model, which can't be quantised; fetch it as is")
        model = known_model(f"{name}-int8")
    if model.quantised_from is not None:
        check_quantizer()
    if model.name == "minilm-int8":  # made from `minilm`, wherever that is
        full = fetch_model("minilm", source=source, progress=progress)
        return onnx.minilm_int8_files(full)(ONNX).parent
    if model.name == "minilm" and source is None and model_status(name).state == "present":
        return onnx.PUBLISHED.find()
    if not model.files.is_intact():
        _fetch(model, source, progress)
    return model.files.folder


def _fetch(model: KnownModel, source: str | None, progress: Progress | None) -> None:
    full = known_model(model.quantised_from) if model.quantised_from else model
    if model is not full and full.files.is_intact():
        source = str(full.files.folder)
    folder = Path(source) if source and "://" not in source else None
    if folder and not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; give the folder with the model's files")
    origin = str(folder.resolve()) if folder else hub_address(source)
    try:
        with workplace(model.name, source=origin) as work:
            if folder:
                _copy_files(full, folder, work)
            else:
                _download_files(full, origin, work, progress)
            _try_out(full, work)
            complete = work if model is full else _quantised(model, work)
            model.files.publish(complete, source=without_credentials(origin))
    except OSError as exc:
        raise WeightsError(
            f"can't write {model.files.folder}: {exc}; set LAGOTTO_MODELS to a folder with "
            f"{2 * model.megabytes} MB of free space"
        ) from exc


def _download_files(model: KnownModel, address: str, work: Path, progress: Progress | None) -> None:
    most_bytes = int(model.megabytes * 1_000_000 * SLACK)
    with Hub(address) as hub:
        for path in model.hashes:
            if (work / path).exists():
                continue  # complete and verified by the last try
            part = work / f"{path}.part"
            published = hub.download(
                HubFile(model.repository, model.revision, path),
                part,
                most_bytes=most_bytes,
                report=partial(progress, path) if progress else None,
            )
            _accept(model, path, part, work / path, published=published)


def _copy_files(model: KnownModel, folder: Path, work: Path) -> None:
    for path in model.hashes:
        names = MODEL_FILES if path in MODEL_FILES else (path,)
        found = next((folder / name for name in names if (folder / name).is_file()), None)
        if found is None:
            raise WeightsError(
                f"{folder} has no {' or '.join(names)}, which {model.name} needs; give a folder "
                f"with the files of {model.repository}"
            )
        part = work / f"{path}.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, part)
        _accept(model, path, part, work / path, published=None)


def _accept(
    model: KnownModel, path: str, part: Path, target: Path, *, published: str | None
) -> None:
    """Give a complete file its name; one with another hash than the published one is deleted."""
    found = hash_of(part)
    expected = model.hashes[path] or ({published} if published else {found})
    if found not in expected:
        part.unlink()
        raise WeightsError(
            f"{path} is not the published file of {model.name}: its SHA-256 is {found}, expected "
            f"{' or '.join(sorted(expected))}; choose another source with --from, or use your own "
            "weights as onnx:FOLDER"
        )
    part.replace(target)


def _quantised(model: KnownModel, work: Path) -> Path:
    """Make the 8-bit copy of a model, with its tokenizer, in a folder of its own."""
    made = work / "int8"
    shutil.rmtree(made, ignore_errors=True)
    for path in model.hashes:
        (made / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(work / model.config.tokenizer_file, made / model.config.tokenizer_file)
    quantize(work / model.config.model_file, made / model.config.model_file)
    _try_out(model, made)
    return made


def _try_out(model: KnownModel, work: Path) -> None:
    """Embed a text; files that can't are deleted, so that the next call fetches them again."""

    async def embed() -> None:
        embedder = create_from_files(model, work.joinpath)
        try:
            await embedder.embed(["Does it work?"], role="query")
        finally:
            await embedder.close()

    try:
        with ThreadPoolExecutor(1) as thread:  # this one may have an event loop of its own
            thread.submit(asyncio.run, embed()).result()
    except EmbeddingError as exc:
        for path in model.hashes:
            (work / path).unlink(missing_ok=True)
        raise WeightsError(f"the files of {model.name} can't be used: {exc}") from exc


def from_fetched(name: str, rest: str = "") -> Embedder:
    """Create the known model `name` from the folder of fetched models.

    WeightsError names the command that fetches it.
    """
    if rest:
        raise ConfigError(
            f'"{name}:{rest}": {name} takes no parameters; write onnx:{rest} for a model in a '
            "folder of your own"
        )
    model = MODELS[name]
    model.files.check_present()
    return create_from_files(model, model.files.verified)


def create_from_files(model: KnownModel, files: ModelFiles) -> Embedder:
    """Create the embedder that a model's configuration describes, with these files."""
    if isinstance(model.config, StaticConfig):
        return StaticEmbedder(files, config=model.config)
    return OnnxEmbedder(files, config=model.config)


class ModelStatus(Record):
    """Whether the files of a known model are on this machine, and where.

    The MiniLM models are also present if the package with their weights is.
    """

    name: str
    state: State
    folder: str


def model_status(name: str) -> ModelStatus:
    """Look for the files of a known model, by their names and sizes."""
    model = known_model(name)
    state, folder = model.files.state(), model.files.folder
    if name.partition("-int8")[0] == "minilm":
        state, folder = _minilm_status(folder)
    return ModelStatus(name=name, state=state, folder=str(folder))


def _minilm_status(otherwise: Path) -> tuple[State, Path]:
    try:
        return "present", onnx.PUBLISHED.find()
    except WeightsError:
        return "missing", otherwise


FACTORIES: Mapping[str, EmbedderFactory] = {name: partial(from_fetched, name) for name in MODELS}
