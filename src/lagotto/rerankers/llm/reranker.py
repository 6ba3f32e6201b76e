"""A language model as reranker, behind any OpenAI-compatible chat service."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal

from pydantic import Field

from lagotto.concurrency import run_all
from lagotto.documents import Record
from lagotto.errors import ConfigError, RerankError
from lagotto.models.http import JsonService, RetryPolicy
from lagotto.rerankers.base import Candidate, Judgement, ScoreScale, Verdict
from lagotto.rerankers.llm.answer import read_answer
from lagotto.rerankers.llm.chat import ChatService
from lagotto.rerankers.llm.prompt import PROMPT_VERSION, RUBRICS, Prompt, build_prompt, framed
from lagotto.tokens import ApproximateTokenizer

RubricName = Literal["rubric100", "score10"]

PUBLIC_URL = "https://api.openai.com/v1"
ASKED = 3
"""How often a model is asked until it has given a verdict on every candidate."""


class LlmConfig(Record):
    """A model behind an OpenAI-compatible `/chat/completions` address, and how it is asked.

    `rubric100` has it score from 0 to 100, say whether a passage answers the query, and quote
    the evidence; `score10` has it score from 0 to 10. The first `max_text_chars` of a passage
    are shown, as many passages at once as `context_tokens` hold together with the answer and
    the `thinking_tokens` that the model may spend before it. With `one_by_one` the model never
    sees two passages at once. `base_url` defaults to OPENAI_BASE_URL, then to OpenAI.
    `connections` requests go out at once.
    """

    model: str = Field(min_length=1)
    base_url: str | None = None
    rubric: RubricName = "rubric100"
    max_text_chars: int = Field(default=1200, ge=1)
    context_tokens: int = Field(default=8192, ge=1024)
    thinking_tokens: int = Field(default=1000, ge=0)
    one_by_one: bool = False
    seed: int = 0
    connections: int = Field(default=4, ge=1)


class LlmReranker:
    """Asks a language model how well passages answer a query.

    What a passage says can't reach beyond its frame, and only verdicts on known ids count. A
    model that is persuaded by one passage may still judge its neighbours differently: then
    `one_by_one` is needed. Evidence is kept where the passage really says it. An answer that
    can't be used, or leaves passages out, is asked for again. `api_key` defaults to
    OPENAI_API_KEY.
    """

    def __init__(
        self, config: LlmConfig, *, api_key: str | None = None, retry: RetryPolicy | None = None
    ) -> None:
        self.config = config
        self._rubric = RUBRICS[config.rubric]
        self._retry = retry or RetryPolicy()
        self._tokenizer = ApproximateTokenizer()
        self._secret = secrets.token_bytes(32)
        service = JsonService(
            config.base_url or os.environ.get("OPENAI_BASE_URL") or PUBLIC_URL,
            api_key=api_key or os.environ.get("OPENAI_API_KEY"),
            retry=self._retry,
            connections=config.connections,
            failure=RerankError,
        )
        self._address = service.address
        self._chat = ChatService(service, model=config.model, seed=config.seed)

    @property
    def id(self) -> str:
        """Model, address, prompt and all that changes a prompt."""
        settings = self.config.model_dump(exclude={"model", "base_url", "connections"})
        parts = "&".join(f"{name}={value}" for name, value in settings.items())
        return f"llm:{self.config.model}@{self._address}?prompt={PROMPT_VERSION}&{parts}"

    @property
    def scale(self) -> ScoreScale:
        """The rubric's."""
        return self._rubric.scale

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The model's verdict on each candidate."""
        verdicts: list[Verdict | None] = [None] * len(candidates)

        async def judge(batch: range) -> None:
            found = await self._judged(query, [candidates[index] for index in batch])
            verdicts[batch.start : batch.stop] = found

        batches = self._batches(query, candidates)
        await run_all(batches, judge, workers=self.config.connections)
        return Judgement(verdicts)

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()

    async def _judged(self, query: str, candidates: Sequence[Candidate]) -> list[Verdict]:
        """A verdict on each candidate; those that an answer leaves out are asked for again."""
        verdicts: dict[int, Verdict] = {}
        problem: RerankError | None = None
        for asked in range(1, ASKED + 1):
            waiting = [index for index in range(len(candidates)) if index not in verdicts]
            prompt = self._prompt(query, [candidates[index] for index in waiting], asked)
            answer = await self._answer(prompt)
            try:
                found = self._read(answer, prompt)
            except RerankError as exc:
                found, problem = {}, exc
            names = zip(waiting, prompt.candidates, strict=True)
            verdicts |= {index: found[name] for index, name in names if name in found}
            if len(verdicts) == len(candidates):
                return [verdicts[index] for index in range(len(candidates))]
            if asked < ASKED:
                await asyncio.sleep(self._retry.wait(asked))
        missing = len(candidates) - len(verdicts)
        raise RerankError(
            f"{self.config.model} was asked {ASKED} times and left {missing} of {len(candidates)} "
            "passages without a verdict that can be used" + (f"; {problem}" if problem else "")
        ) from problem

    def _prompt(self, query: str, candidates: Sequence[Candidate], asked: int) -> Prompt:
        """A prompt whose code and ids nobody can guess, since they depend on a secret.

        They are the same for the same question, so that a repeated search can give the same
        scores, and others when it is asked again, so that a model that went wrong starts afresh.
        """
        subject = json.dumps([query, [one.text for one in candidates], asked]).encode()
        digest = hashlib.blake2b(subject, key=self._secret).digest()
        return build_prompt(
            query,
            candidates,
            rubric=self._rubric,
            max_text_chars=self.config.max_text_chars,
            chance=Random(digest),
        )

    async def _answer(self, prompt: Prompt) -> object:
        room = self.config.thinking_tokens + len(prompt.candidates) * self._rubric.answer_tokens
        return await self._chat.complete(
            prompt.messages, schema=self._rubric.schema, max_tokens=room
        )

    def _read(self, answer: object, prompt: Prompt) -> dict[str, Verdict]:
        return read_answer(
            answer, candidates=prompt.candidates, scale=self.scale, model=self.config.model
        )

    def _batches(self, query: str, candidates: Sequence[Candidate]) -> Iterator[range]:
        """Runs of neighbours, as long as the context allows."""
        if self.config.one_by_one:
            return runs([0] * len(candidates), room=-1)
        empty = self._prompt(query, [], 0).messages
        taken = sum(self._tokenizer.count([message["content"] for message in empty]))
        shown = self.config.max_text_chars
        frames = [
            framed(one, name="p0a0a0a", code="0a" * 8, max_text_chars=shown) for one in candidates
        ]
        costs = [count + self._rubric.answer_tokens for count in self._tokenizer.count(frames)]
        room = self.config.context_tokens - self.config.thinking_tokens - taken
        return runs(costs, room=room)


def runs(costs: Sequence[int], *, room: int) -> Iterator[range]:
    """Ranges of neighbours whose costs fit in the room together; what fits nowhere goes alone."""
    start = used = 0
    for index, cost in enumerate(costs):
        if index > start and used + cost > room:
            yield range(start, index)
            start, used = index, 0
        used += cost
    if costs:
        yield range(start, len(costs))


def from_name(model: str) -> LlmReranker:
    """`llm:MODEL`: scores from 0 to 100 with evidence, at OPENAI_BASE_URL with OPENAI_API_KEY."""
    return _named(model, "rubric100")


def from_score_name(model: str) -> LlmReranker:
    """`llm-score:MODEL`: plain scores from 0 to 10."""
    return _named(model, "score10")


def _named(model: str, rubric: RubricName) -> LlmReranker:
    if not model:
        raise ConfigError("a language model is needed as reranker; give its name, as in llm:gpt-4o")
    return LlmReranker(LlmConfig(model=model, rubric=rubric))
