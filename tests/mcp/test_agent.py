"""The scripted agent of `python benchmarks agent`: three cited answers within 12,000 tokens."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.demo import add_corpus, questions

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
async def test_three_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    script: Any = importlib.import_module("agent")
    with KnowledgeBase(tmp_path / "demo.db") as kb:
        add_corpus(kb)
        asked = [each for each in questions() if each.question in script.SCRIPT]
        agent = await script.run(tmp_path / "demo.db", asked)
        assert len(agent.answers) == 3
        for answer in agent.answers:
            assert answer.is_right
            assert answer.resolves
            assert kb.resolve(answer.key).text
    assert agent.tokens <= 12_000
    documented = re.search(r"([\d,]+) tokens in all", (ROOT / "docs" / "mcp.md").read_text("utf-8"))
    assert documented is not None
    # ids, and so tokens, differ a little with the folder
    assert agent.tokens == pytest.approx(int(documented[1].replace(",", "")), rel=0.01)
