"""Fetching a known model: from a hub or a folder to the folder of fetched models.

No other module downloads embedding models, and this one only when it is called.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lagotto.embedders import minilm
from lagotto.embedders.catalog import KnownModel, known_model
from lagotto.embedders.fetched import create_from_files, model_status
from lagotto.embedders.static import StaticConfig
from lagotto.errors import ConfigError, EmbeddingError, WeightsError
from lagotto.models.fetched import hash_of, workplace
from lagotto.models.http import without_credentials
from lagotto.models.hub import Hub, HubFile, hub_address
from lagotto.models.onnx import check_quantizer, quantize
from lagotto.models.weights import MODEL_FILES, FolderFiles

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
        found = minilm.QuantizedMiniLMFiles(fetch_model("minilm", source=source, progress=progress))
        return found.model_path().parent
    if model.name == "minilm" and source is None and model_status(name).state == "present":
        return minilm.PUBLISHED.find()
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
                report=_reporter(path, progress),
            )
            _accept(model, path, part, work / path, published=published)


def _reporter(path: str, progress: Progress | None) -> Callable[[int, int | None], None] | None:
    return (lambda arrived, total: progress(path, arrived, total)) if progress else None


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

    files = FolderFiles(work, tokenizer=model.config.tokenizer_file, model=model.config.model_file)

    async def embed() -> None:
        embedder = create_from_files(model, files)
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
