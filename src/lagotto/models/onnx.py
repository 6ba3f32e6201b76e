"""ONNX models: load, run and quantise them."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import Lazy, available_cpus, run_all
from lagotto.errors import ConfigError, LagottoError, WeightsError
from lagotto.models.files import own_cache, sha256_of

if TYPE_CHECKING:
    from tokenizers import Encoding

log = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")

DIGITS = 32
"""Hash characters in the name of a quantised file."""

MOST_THREADS = 8

_prepack = True
"""Whether a model that is loaded now is prepacked."""


@contextmanager
def without_prepacking() -> Iterator[None]:
    """For a process that runs its models once: they are loaded as they are meanwhile."""
    global _prepack
    former, _prepack = _prepack, False
    try:
        yield
    finally:
        _prepack = former


class ModelThreads:
    """The threads of one model: `count`, or by default one per CPU up to eight.

    On a CPU, several small batches side by side, each on one thread, beat a large one.
    """

    def __init__(self, name: str, count: int | None) -> None:
        if count is not None and count < 1:
            raise ConfigError(f"threads is {count}; it must be 1 or more")
        self._count = count or min(available_cpus(), MOST_THREADS)
        self._pool = Lazy(lambda: ThreadPoolExecutor(self._count, thread_name_prefix=name))

    def start(self, work: Callable[[], object]) -> None:
        """Start `work` beside other work; what fails there fails again where it is needed."""
        self._pool().submit(work)

    def run(self, work: Callable[[*Arguments], T], *args: *Arguments) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool(), work, *args)

    async def run_all(self, batches: Iterable[T], work: Callable[[T], None]) -> None:
        """Run `work` on every batch, in order, as many at a time as there are threads."""
        await run_all(batches, lambda batch: self.run(work, batch), workers=self._count)

    async def close(self) -> None:
        """End the threads; the next call starts new ones."""
        pool = self._pool()
        self._pool.drop()
        await asyncio.to_thread(pool.shutdown)


class OnnxSession:
    """A loaded ONNX model, safe to run from several threads at once.

    A run uses only the thread that calls it. A file that can't be loaded raises `unusable`, a run
    that fails raises `failed`.
    """

    def __init__(
        self, path: Path, *, unusable: type[LagottoError], failed: type[LagottoError]
    ) -> None:
        import onnxruntime

        self._failed = failed
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not _prepack:
            options.add_session_config_entry("session.disable_prepacking", "1")
        log.info("loading the model %s", path)
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # each kind of failure has a class of its own, without a base
            raise unusable(f"can't load {path} as an ONNX model: {exc}") from exc
        self._output = self._session.get_outputs()[0].name
        self._inputs = [item.name for item in self._session.get_inputs()]
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ConfigError(
                f"{path} needs inputs that are not text: {', '.join(sorted(unknown))}; "
                "export the model for feature extraction or sequence classification"
            )

    def run(self, texts: Sequence[Encoding]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the first output, a row per text, and the mask: 1 for a token, 0 for padding."""
        shape = (len(texts), max(len(text) for text in texts))
        ids, mask, types = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text.ids
            mask[row, : len(text)] = 1
            types[row, : len(text)] = text.type_ids
        arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        try:
            feeds = {name: arrays[name] for name in self._inputs}
            output = self._session.run([self._output], feeds)[0]
        except Exception as exc:
            raise self._failed(f"the model failed on an input of {shape[1]} tokens: {exc}") from exc
        return np.asarray(output, dtype=np.float32), mask


def batches_by_length(encodings: Sequence[Encoding], *, budget: int) -> Iterator[list[int]]:
    """Indices of texts of similar length, longest first; padded, a batch has `budget` tokens."""
    order = sorted(range(len(encodings)), key=lambda index: -len(encodings[index]))
    while order:
        size = max(1, budget // max(1, len(encodings[order[0]])))
        chosen, order = order[:size], order[size:]
        yield chosen


def quantized(source: Callable[[], Path], *, name: str) -> Path:
    """Return the 8-bit copy `name` in Lagotto's cache, created from `source()` if missing.

    The file's name ends in a hash of its content: one rename publishes it whole, and a damaged
    copy is detected, removed and created again.
    """
    cache = own_cache()
    for path in sorted(cache.glob(f"{name}.{'[0-9a-f]' * DIGITS}.onnx")):
        if path.name == _file_name(name, path):
            return path
        path.unlink(missing_ok=True)
    model = source()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as folder:
            draft = Path(folder) / "model.onnx"
            quantize(model, draft)
            target = cache / _file_name(name, draft)
            with draft.open("r+b") as file:
                os.fsync(file.fileno())
            draft.replace(target)
    except OSError as exc:
        raise WeightsError(
            f"can't write the 8-bit model to {cache}: {exc}; "
            "set LAGOTTO_CACHE to a folder with 100 MB of free space"
        ) from exc
    return target


def _file_name(name: str, path: Path) -> str:
    return f"{name}.{sha256_of(path)[:DIGITS]}.onnx"


def check_quantizer() -> None:
    """Raise the WeightsError that names the package to install, unless models can be quantised."""
    if find_spec("onnx") is None:
        raise WeightsError("quantising needs the onnx package; run `pip install lagotto[int8]`")


def quantize(source: Path, target: Path) -> None:
    check_quantizer()
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(str(source))
    # Without this entry the quantiser logs the advice to optimise the graph first, which the
    # runtime does anyway when it loads the result.
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    # One scale per channel: one per tensor costs too much precision.
    quantize_dynamic(model, str(target), per_channel=True, weight_type=QuantType.QInt8)
