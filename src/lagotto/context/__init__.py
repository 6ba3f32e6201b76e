"""From hits to a prompt: cited, token-budgeted context packs, and answers checked against them."""

from typing import TYPE_CHECKING

from lagotto._internal.registry import exports
from lagotto.context.budget import TokenCounter, token_counter
from lagotto.context.cite import Citation, CitationKey, CitedPassage, resolve
from lagotto.context.formats import PackFormat
from lagotto.context.pack import (
    ContextPack,
    ContextTrace,
    Coverage,
    SelectedChunk,
    as_pack,
    build_pack,
)
from lagotto.context.passages import expand_neighbors

if TYPE_CHECKING:
    from lagotto.context.answer_check import AnswerCheck, Claim, Quote, check_answer

__all__ = [
    "AnswerCheck",
    "Citation",
    "CitationKey",
    "CitedPassage",
    "Claim",
    "ContextPack",
    "ContextTrace",
    "Coverage",
    "PackFormat",
    "Quote",
    "SelectedChunk",
    "TokenCounter",
    "as_pack",
    "build_pack",
    "check_answer",
    "expand_neighbors",
    "resolve",
    "token_counter",
]

_, __getattr__, __dir__ = exports(
    __name__, {"context.answer_check": "AnswerCheck Claim Quote check_answer"}
)
