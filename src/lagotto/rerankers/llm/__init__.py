"""Rerank with a language model behind an OpenAI-compatible chat API."""

from lagotto.rerankers.llm.reranker import LlmConfig, LlmReranker, from_name, from_score_name

__all__ = ["LlmConfig", "LlmReranker", "from_name", "from_score_name"]
