"""LlmReranker: scores passages with a language model behind a chat API."""

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
from lagotto.rerankers.base import Candidate, Judgement, ScoreScale, Verdict, parse_settings
from lagotto.rerankers.llm.answer import read_answer
from lagotto.rerankers.llm.chat import ChatService
from lagotto.rerankers.llm.prompt import PROMPT_VERSION, RUBRICS, Prompt, build_prompt, framed
from lagotto.tokens import ApproximateTokenizer

RubricName = Literal["rubric100", "score10"]

PUBLIC_URL = "https://api.openai.com/v1"
ATTEMPTS = 3
"""Attempts to get a valid verdict on every candidate."""


class LlmConfig(Record):
    """The settings of an LlmReranker.

    With `rubric100` the model scores from 0 to 100, says whether a passage answers the query, and
    quotes the evidence; with `score10` it scores from 0 to 10. A prompt has the first
    `max_text_chars` of each passage, and as many passages as fit in `context_tokens` together with
    the answer and `thinking_tokens` for reasoning; with `one_by_one` it has a single passage.
    `strict_json_output` asks the service to hold answers to a JSON schema; without it, to JSON.
    `base_url` defaults to OPENAI_BASE_URL, then to OpenAI. At most `connections` requests run
    concurrently.
    """

    model: str = Field(min_length=1)
    base_url: str | None = None
    rubric: RubricName = "rubric100"
    max_text_chars: int = Field(default=1200, ge=1)
    context_tokens: int = Field(default=8192, ge=1024)
    thinking_tokens: int = Field(default=1000, ge=0)
    one_by_one: bool = False
    strict_json_output: bool = True
    seed: int = 0
    connections: int = Field(default=4, ge=1)


class LlmReranker:
    """Scores passages with a language model.

    Passages are enclosed in tags that they can't forge, and only verdicts on known ids count. A
    passage that manipulates the model may still change the scores of its neighbours; `one_by_one`
    prevents that. Quoted evidence is kept only if the passage contains it. Passages without a valid
    verdict are asked for again. `api_key` defaults to OPENAI_API_KEY.
    """

    reads_only_text = True

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
        self._chat = ChatService(
            service, model=config.model, seed=config.seed, strict=config.strict_json_output
        )

    @property
    def id(self) -> str:
        """Model, address, prompt version and every setting that changes a prompt."""
        settings = self.config.model_dump(exclude={"model", "base_url", "connections"})
        parts = "&".join(f"{name}={value}" for name, value in settings.items())
        return f"llm:{self.config.model}@{self._address}?prompt={PROMPT_VERSION}&{parts}"

    @property
    def scale(self) -> ScoreScale:
        """The scale of the rubric."""
        return self._rubric.scale

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Return the model's verdict on each candidate."""
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
        """Get a verdict on each candidate, asking again for those that an answer leaves out."""
        verdicts: dict[int, Verdict] = {}
        problem: RerankError | None = None
        for asked in range(1, ATTEMPTS + 1):
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
            if asked < ATTEMPTS:
                await asyncio.sleep(self._retry.wait(asked))
        missing = len(candidates) - len(verdicts)
        raise RerankError(
            f"{self.config.model} left {missing} of {len(candidates)} passages without a valid "
            f"verdict after {ATTEMPTS} attempts" + (f"; {problem}" if problem else "")
        ) from problem

    def _prompt(self, query: str, candidates: Sequence[Candidate], asked: int) -> Prompt:
        """Build a prompt with a code and ids that depend on a secret, so nobody can guess them.

        The same question gets the same prompt, so that a repeated search can give the same scores.
        Each further attempt gets another one, so that a model that failed starts afresh.
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
        """Group consecutive candidates, as many as the context allows."""
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
    """Ranges of consecutive items that fit in `room`; an item that is too large is alone."""
    start = used = 0
    for index, cost in enumerate(costs):
        if index > start and used + cost > room:
            yield range(start, index)
            start, used = index, 0
        used += cost
    if costs:
        yield range(start, len(costs))


def from_name(spec: str) -> LlmReranker:
    """Create `llm:MODEL`: scores from 0 to 100 with evidence."""
    return _named("llm", spec, "rubric100")


def from_score_name(spec: str) -> LlmReranker:
    """Create `llm-score:MODEL`: scores from 0 to 10."""
    return _named("llm-score", spec, "score10")


class _NameSettings(Record):
    strict_json_output: bool = True
    one_by_one: bool = False


def _named(kind: str, spec: str, rubric: RubricName) -> LlmReranker:
    model, settings = parse_settings(kind, spec, _NameSettings)
    if not model:
        raise ConfigError("missing model name; write llm:MODEL, as in llm:gpt-4o")
    return LlmReranker(LlmConfig(model=model, rubric=rubric, **settings.model_dump()))
