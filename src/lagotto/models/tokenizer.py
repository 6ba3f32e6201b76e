"""Tokenizers of models, loaded from their `tokenizer.json`, and an approximation of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import digest, storable
from lagotto.errors import LagottoError, NativeEmbeddingError, WeightsError, native_panics

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

SPLITTING = ("added_tokens", "normalizer", "pre_tokenizer", "model")
"""The parts of a tokenizer file that decide where a text is split into tokens."""

SPLITS_AT_SPACES = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
NORMALISES_WORDS = ("NoneType", "BertNormalizer", "Lowercase")
"""With these pre-tokenizers and normalizers, a text has the tokens of its words, in order."""

SPACES = "\t\n\r"
"""Characters at which these split; they remove other control characters, or split at them."""

PARAGRAPHS_CACHED = 5_000
WORDS_CACHED = 100_000
"""Texts are counted by paragraphs, and these by words: five times as fast as the library. So many
of each are cached: a context pack is counted several times with few changes."""
LONGEST_CACHED = 500
"""Characters; a longer word, of which a file of data may have many, empties the cache."""

CHARACTERS_PER_TOKEN = 8
UNSETTLED_WORDS = 8


def load_tokenizer(path: Path, *, unusable: type[LagottoError]) -> Tokenizer:
    """Load a tokenizer without padding and truncation; `unusable` is raised for a bad file."""
    from tokenizers import Tokenizer

    try:
        with native_panics("tokenizers", unusable):
            tokenizer: Tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as exc:  # the library raises nothing more specific
        raise unusable(
            f"can't load the tokenizer {path}: {exc}; put the model's tokenizer.json there"
        ) from exc
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class HfTokenizer:
    """Implements lagotto._internal.tokens.Tokenizer with the `tokenizers` library.

    NULs and lone surrogates, which the library does not accept, count as U+FFFD.
    """

    def __init__(self, path: Path) -> None:
        self._tokenizer = load_tokenizer(path, unusable=WeightsError)
        self._path = path
        self._by_words = (
            type(self._tokenizer.pre_tokenizer).__name__ in SPLITS_AT_SPACES
            and type(self._tokenizer.normalizer).__name__ in NORMALISES_WORDS
        )
        self._paragraphs: dict[str, int] = {}
        self._words: dict[str, tuple[int, ...]] = {}

    @cached_property
    def id(self) -> str:
        """A hash of the vocabulary and the splitting rules, independent of the file's name."""
        parts = json.loads(self._path.read_text(encoding="utf-8"))
        return digest([parts.get(name) for name in SPLITTING])[:16]

    @cached_property
    def _unknown(self) -> int | None:
        """The id of the token for what is not in the vocabulary, if there is one."""
        model = json.loads(self._path.read_text(encoding="utf-8"))["model"]
        name: str | None = model.get("unk_token")
        by_id: int | None = model.get("unk_id")  # Unigram models have the id
        return self._tokenizer.token_to_id(name) if name else by_id

    @native_panics("the tokenizer", NativeEmbeddingError)
    def count(self, texts: Sequence[str]) -> list[int]:
        if self._by_words:
            return [self._count_paragraphs(text.split("\n\n")) for text in texts]
        clean = [storable(text) for text in texts]
        return list(map(len, self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)))

    def _count_paragraphs(self, paragraphs: Sequence[str]) -> int:
        counts = self._paragraphs  # other threads may be here; nothing is ever removed from it
        for text in paragraphs:
            if text not in counts:
                counts[text] = sum(map(len, self._word_starts(_words(text))))
        if len(counts) > PARAGRAPHS_CACHED:
            self._paragraphs = {}
        return sum(map(counts.__getitem__, paragraphs))

    def _word_starts(self, words: Sequence[str]) -> Iterator[tuple[int, ...]]:
        """For each word, the offsets in it at which its tokens start."""
        known = self._words
        if new := [word for word in dict.fromkeys(words) if word not in known]:
            encoding = self._tokenizer.encode(new, is_pretokenized=True, add_special_tokens=False)
            starts: list[list[int]] = [[] for _ in new]
            for index, (start, _) in zip(encoding.word_ids, encoding.offsets, strict=True):
                starts[index or 0].append(start)
            known.update(zip(new, map(tuple, starts), strict=True))
            if len(known) > WORDS_CACHED or max(map(len, new)) > LONGEST_CACHED:
                self._words = {}
        return map(known.__getitem__, words)

    @native_panics("the tokenizer", NativeEmbeddingError)
    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        if not self._by_words:
            return [
                np.array([start for start, _ in encoding.offsets], dtype=np.int64)
                for encoding in self._encode(texts)
            ]
        token_starts = []
        for words in map(_words, texts):
            starts = list(self._word_starts(words))
            offsets = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
            within = np.fromiter(chain.from_iterable(starts), np.int64)
            token_starts.append(np.repeat(offsets, list(map(len, starts))) + within)
        return token_starts

    @native_panics("the tokenizer", NativeEmbeddingError)
    def model_inputs(self, texts: Sequence[str], *, max_tokens: int) -> list[Encoding]:
        """Encode texts for the model, truncated to `max_tokens` including special tokens."""
        limit = max_tokens - self._tokenizer.num_special_tokens_to_add(False)
        encodings = self._beginnings(texts, limit)
        for encoding in encodings:
            encoding.truncate(limit)
        return [self._tokenizer.post_process(encoding) for encoding in encodings]

    def token_ids(self, texts: Sequence[str], *, max_tokens: int) -> list[NDArray[np.int64]]:
        """The ids of each text's first tokens, without special and unknown ones."""
        encodings = self._beginnings(texts, max_tokens)
        sequences = [np.array(encoding.ids[:max_tokens], dtype=np.int64) for encoding in encodings]
        return [ids if self._unknown is None else ids[ids != self._unknown] for ids in sequences]

    def _beginnings(self, texts: Sequence[str], limit: int) -> list[Encoding]:
        """Encode texts so that the first `limit` tokens are those of the whole text.

        A long text is cut before it is encoded. That may change its last words, so a cut is
        accepted only if there are enough tokens before them; otherwise more of the text is taken.
        """
        size = limit * CHARACTERS_PER_TOKEN
        encodings = dict(enumerate(self._encode([text[:size] for text in texts])))
        open_ = [index for index, text in enumerate(texts) if len(text) > size]
        while open_ := [index for index in open_ if _settled(encodings[index]) < limit]:
            size *= 8
            again = self._encode([texts[index][:size] for index in open_])
            encodings.update(zip(open_, again, strict=True))
            open_ = [index for index in open_ if len(texts[index]) > size]
        return [encodings[index] for index in range(len(texts))]

    @native_panics("the tokenizer", NativeEmbeddingError)
    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        clean = [storable(text) for text in texts]
        return self._tokenizer.encode_batch(clean, add_special_tokens=False)


def _words(text: str) -> list[str]:
    text = storable(text)
    for space in SPACES:
        text = text.replace(space, " ")
    return text.split(" ")


def _settled(encoding: Encoding) -> int:
    """The number of tokens before the last few words, which no longer depend on what follows."""
    words = [-1 if word is None else word for word in encoding.word_ids]
    last = max(chain(words, [-1]))
    return next((i for i, word in enumerate(words) if word > last - UNSETTLED_WORDS), len(words))


class ApproximateTokenizer:
    """An approximation for models without an available tokenizer.

    A token is up to six Latin letters, up to three digits, up to two letters of another script, or
    one other character. English text has 10 to 15 % more of these than of real tokens.
    """

    _TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\W\d_]{1,2}|\S")

    id = "approximate-1"
    """The version of the rule."""

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(self._TOKEN.findall(text)) for text in texts]

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [
            np.fromiter((match.start() for match in self._TOKEN.finditer(text)), dtype=np.int64)
            for text in texts
        ]
