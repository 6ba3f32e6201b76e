"""A scripted agent, without a language model: what do cited answers through MCP cost in tokens?

    python benchmarks agent          # three questions on the documents of the demo
    python benchmarks agent --all    # all of its questions

It starts `lagotto mcp` as clients do. For each question it asks `context`, takes the part of the
best passage that matches the question as the answer, and reads the citation back. Counted is what
a model would be given: the instructions, the list of tools, every call and every answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import mcp_types as types

from lagotto.base.blocking import KnowledgeBase
from lagotto.demo import Question, add_corpus, questions
from lagotto.mcp.quotation import MARK, estimate, on_wire
from mcp import Client, StdioServerParameters

SCRIPT = (
    "Which toadstool is dangerous together with beer?",
    "What does result code 2067 mean?",
    "Когда запретили ловить омуля?",
)
"""Other words than the document's, a code, another language; the answer stands in one place."""
PACK_TOKENS = 1_500
READ_TOKENS = 1_000
PASSAGE = re.compile(r'^\[\d+\] "(?:[^"\\]|\\.)*" key=(\S+)\n((?:>.*\n?)+)', re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """The passage that the agent answers from, its key, and whether the key leads back to it."""

    question: Question
    text: str
    key: str
    resolves: bool

    @property
    def is_right(self) -> bool:
        """Whether the answer has the words that it must have."""
        return self.question.evidence in self.text


@dataclass
class Agent:
    """Calls tools, and counts the tokens that a model would be charged for."""

    client: Client
    tokens: int = 0
    answers: list[Answer] = field(default_factory=list)

    async def greet(self) -> None:
        """Read the instructions and the tools, as every conversation begins."""
        tools = await self.client.list_tools()
        self.tokens += estimate(self.client.instructions or "")
        self.tokens += estimate(tools.model_dump_json(by_alias=True, exclude_none=True))

    async def call(self, name: str, **arguments: Any) -> str:
        """The answer of a tool."""
        result = await self.client.call_tool(name, arguments)
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        assert not result.is_error, block.text
        self.tokens += estimate(json.dumps({"name": name, "arguments": arguments}))
        self.tokens += on_wire(block.text)
        return block.text

    async def answer(self, question: Question) -> None:
        """Answer a question from its context, and check the citation."""
        context = await self.call("context", query=question.question, max_tokens=PACK_TOKENS)
        passages = [(key, _unquoted(text)) for key, text in PASSAGE.findall(context)]
        # as a good reader would, it takes the passage that has the answer
        key, text = max(passages, key=lambda passage: question.evidence in passage[1])
        said = " ".join(text.split())
        read = await self.call("read", id=key, max_tokens=READ_TOKENS)
        held = " ".join(_unquoted(read.split("\n", 3)[3]).split())
        self.answers.append(Answer(question, said, key, said in held))


def _unquoted(text: str) -> str:
    return "\n".join(line.removeprefix(MARK) for line in text.splitlines())


async def run(kb: str | Path, asked: list[Question]) -> Agent:
    """Answer questions over a base that has the documents of the demo."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lagotto", "mcp", "--kb", str(kb)],
        env=dict(os.environ),  # by default, the SDK passes little of it on
    )
    async with Client(command) as client:
        agent = Agent(client)
        await agent.greet()
        for question in asked:
            await agent.answer(question)
        return agent


def main() -> None:
    """Make a base of the demo's documents, and ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="ask all questions of the demo")
    everything = parser.parse_args().all
    asked = [each for each in questions() if everything or each.question in SCRIPT]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.db"
        with KnowledgeBase(path) as kb:
            add_corpus(kb)
        agent = asyncio.run(run(path, asked))
    for answer in agent.answers:
        mark = "right" if answer.is_right else "wrong"
        print(f"{answer.question.question}\n  {mark}: {shorten(answer.text, 200)}\n  {answer.key}")
    right = sum(answer.is_right for answer in agent.answers)
    resolved = sum(answer.resolves for answer in agent.answers)
    print(
        f"{len(asked)} questions, {right} right answers, {resolved} citations that resolve, "
        f"{agent.tokens:,} tokens"
    )
