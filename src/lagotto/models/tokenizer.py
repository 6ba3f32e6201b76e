"""A model's own tokenizer, from its `tokenizer.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import digest, storable
from lagotto.errors import WeightsError

if TYPE_CHECKING:
    from tokenizers import Encoding

CUTTING = ("added_tokens", "normalizer", "pre_tokenizer", "model")
"""The parts of a tokenizer file that decide where a text is cut."""

CHARACTERS_PER_TOKEN = 8
UNSETTLED_WORDS = 8


class HfTokenizer:
    """Counts and finds tokens with the `tokenizers` library; lagotto.tokens.Tokenizer is met.

    Padding and truncation that the file may ask for are switched off. NULs and lone surrogates,
    which the library can't take, count as U+FFFD.
    """

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        try:
            text = path.read_text(encoding="utf-8")
            parts = json.loads(text)
            self._id = digest([parts.get(name) for name in CUTTING])[:16]
            self._tokenizer = Tokenizer.from_str(text)
        except Exception as exc:  # the library raises nothing more specific
            raise WeightsError(
                f"{path} is no usable tokenizer ({exc}); put the model's tokenizer.json there"
            ) from exc
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @property
    def id(self) -> str:
        """A hash of the vocabulary and the rules, whatever the file is called."""
        return self._id

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        clean = [storable(text) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each text, the character offsets at which its tokens start."""
        return [
            np.array([start for start, _ in encoding.offsets], dtype=np.int64)
            for encoding in self._encode([storable(text) for text in texts])
        ]

    def model_inputs(self, texts: Sequence[str], *, max_tokens: int) -> list[Encoding]:
        """Each text as the model reads it: at most `max_tokens`, special tokens included."""
        limit = max_tokens - self._tokenizer.num_special_tokens_to_add(False)
        encodings = self._beginnings([storable(text) for text in texts], limit)
        for encoding in encodings:
            encoding.truncate(limit)
        return [self._tokenizer.post_process(encoding) for encoding in encodings]

    def _beginnings(self, texts: Sequence[str], limit: int) -> list[Encoding]:
        """Encodings whose first `limit` tokens are those of the whole texts.

        A long text is cut before it is encoded. That may change its last words, so the cut counts
        only if it leaves enough tokens before them; otherwise more of the text is taken.
        """
        size = limit * CHARACTERS_PER_TOKEN
        found = dict(enumerate(self._encode([text[:size] for text in texts])))
        open_ = [index for index, text in enumerate(texts) if len(text) > size]
        while open_ := [index for index in open_ if _settled(found[index]) < limit]:
            size *= 8
            again = self._encode([texts[index][:size] for index in open_])
            found.update(zip(open_, again, strict=True))
            open_ = [index for index in open_ if len(texts[index]) > size]
        return [found[index] for index in range(len(texts))]

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self._tokenizer.encode_batch(texts, add_special_tokens=False)


def _settled(encoding: Encoding) -> int:
    """How many tokens lie before the last few words, and so don't depend on what follows."""
    words = [-1 if word is None else word for word in encoding.word_ids]
    last = max(chain(words, [-1]))
    return next((i for i, word in enumerate(words) if word > last - UNSETTLED_WORDS), len(words))
