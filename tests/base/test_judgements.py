"""What people said of results: stored, replaced, taken back, and read by evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lagotto import CitationError, ConfigError, Document, KnowledgeBase, RelevanceJudgement
from lagotto.base.copy import copy_base
from lagotto.base.judgements import Judgements, relevant_documents
from lagotto.stores.base import MemoryKeyedValues
from lagotto.stores.registry import create_store
from lagotto.testing.hash_embedder import HashEmbedder

DOG = Document(id="dog", text="A water dog that finds truffles.")
OAK = Document(id="oak", collection="trees", text="Truffles grow on the roots of oak.")


def judged(
    document: str, relevance: int, *, judge: str = "", query: str = "q"
) -> RelevanceJudgement:
    return RelevanceJudgement(
        query=query, citation=f"default/{document}#0-9", relevance=relevance, judge=judge
    )


def test_a_judgement_is_stored_replaced_and_taken_back(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        kb.add(DOG)
        (hit,) = kb.retrieve("truffles")
        made = kb.judge(" truffles ", hit, 1)
        assert made is not None
        assert (made.query, made.document, made.relevance) == ("truffles", ("default", "dog"), 1)
        kb.judge("truffles", hit, 0)
        kb.judge("dogs", made.citation, 1)
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        assert [(item.query, item.relevance) for item in kb.judgements()] == [
            ("truffles", 0), ("dogs", 1),
        ]  # fmt: skip
        assert kb.resolve(made.citation).text == DOG.text
        assert kb.judge("truffles", hit, None) is None
        assert [item.query for item in kb.judgements(query="truffles")] == []


def test_what_is_no_judgement_is_refused() -> None:
    with KnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
        with pytest.raises(ConfigError, match="needs a query"):
            kb.judge("  ", "default/dog#0-9", 1)
        with pytest.raises(CitationError, match="is no citation"):
            kb.judge("truffles", "the first one", 1)


async def test_judges_do_not_replace_one_another() -> None:
    judgements = Judgements(MemoryKeyedValues())
    for judge, relevance in (("a", 1), ("b", 0), ("a", 0)):
        await judgements.put("q", "default/dog#0-9~12345678", relevance, judge=judge)
    assert [(item.judge, item.relevance) for item in await judgements.list()] == [
        ("b", 0),
        ("a", 0),
    ]
    assert len(await judgements.list(judge="a")) == 1


def test_a_document_is_relevant_if_half_of_its_judges_say_so() -> None:
    passages = [
        judged("dog", 0),
        RelevanceJudgement(query="q", citation="default/dog#10-20", relevance=1),
        judged("oak", 1, judge="a"),
        judged("oak", 0, judge="b"),
        judged("pig", 1, judge="a"),
        judged("pig", 0, judge="b"),
        judged("pig", 0, judge="c"),
    ]
    found = relevant_documents(passages)["q"]
    assert {name: score for (_, name), score in found.items()} == {"dog": 1, "oak": 1, "pig": 0}


def test_an_export_has_queries_and_relevance(tmp_path: Path) -> None:
    with KnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
        kb.add(DOG, OAK)
        for hit in kb.retrieve("truffles"):
            kb.judge("truffles", hit, 1)
        kb.export_documents(tmp_path / "beir", format="beir", collection="default")
    (line,) = (tmp_path / "beir" / "queries.jsonl").read_text().splitlines()
    query = json.loads(line)
    assert query["text"] == "truffles"
    rows = (tmp_path / "beir" / "qrels" / "test.tsv").read_text().splitlines()
    assert rows == ["query-id\tcorpus-id\tscore", f"{query['_id']}\tdog\t1"]


async def test_a_copy_of_a_base_has_them(tmp_path: Path) -> None:
    source, target = (create_store(str(tmp_path / name)) for name in ("a.db", "b.db"))
    await source.open()
    await target.open()
    await Judgements(source.keyed_values).put("q", "default/dog#0-9", 1)
    await copy_base(source, target)
    assert [item.query for item in await Judgements(target.keyed_values).list()] == ["q"]
    await source.close()
    await target.close()
