"""From hits to a prompt: cited, token-budgeted context packs, and answers checked against them."""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported

from typing import TYPE_CHECKING

from lagotto._internal.registry import exports
from lagotto.context.budget import TokenCounter as TokenCounter, token_counter as token_counter
from lagotto.context.cite import (
    Citation as Citation,
    CitationKey as CitationKey,
    CitedPassage as CitedPassage,
    resolve as resolve,
)
from lagotto.context.formats import PackFormat as PackFormat
from lagotto.context.pack import (
    ContextPack as ContextPack,
    ContextTrace as ContextTrace,
    Coverage as Coverage,
    SelectedChunk as SelectedChunk,
    as_pack as as_pack,
    build_pack as build_pack,
)
from lagotto.context.passages import expand_neighbors as expand_neighbors

if TYPE_CHECKING:
    from lagotto.context.answer_check import AnswerCheck as AnswerCheck, Claim as Claim
    from lagotto.context.answer_check import Quote as Quote, check_answer as check_answer

__all__, __getattr__, __dir__ = exports(
    __name__, {"context.answer_check": "AnswerCheck Claim Quote check_answer"}
)
