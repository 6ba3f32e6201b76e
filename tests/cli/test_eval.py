from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lagotto import KnowledgeBase
from tests.cli.running import run

pytestmark = pytest.mark.slow

CORPUS = {
    "dog": "The Lagotto Romagnolo was bred for finding truffles.",
    "white": "The white truffle ripens from October on.",
    "error": "Error 2067 means that a unique index has met a duplicate value.",
}
ASKED = {"a": ("which breed looks for truffles?", "dog"), "b": ("code 2067", "error")}


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A folder in the layout of BEIR."""
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    lines = [f'{{"_id": "{name}", "title": "", "text": "{text}"}}' for name, text in CORPUS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    queries = [f'{{"_id": "{name}", "text": "{text}"}}' for name, (text, _) in ASKED.items()]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    rows = [f"{name}\t{document}\t1" for name, (_, document) in ASKED.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    assert run("import", folder).code == 0
    return folder


def test_every_mode_with_intervals(judged: Path) -> None:
    done = run("eval", judged)
    assert done.code == 0, done.err
    head, *rows = [re.split(r" {2,}", line.strip()) for line in done.out.splitlines()]
    assert head == ["nDCG@10", "MRR@10", "recall@100", "nDCG@10 minus hybrid"]
    assert [row[0] for row in rows] == ["keyword", "semantic", "hybrid"]
    assert rows[2] == ["hybrid", "1.0000 [1.0000, 1.0000]", "1.0000", "1.0000"]
    assert re.fullmatch(r"[-+]0\.\d{4} \[[-+]0\.\d{4}, [-+]0\.\d{4}\]", rows[1][4])
    assert done.err == "queries: 2; in brackets, intervals of 95 %\n"


def test_as_json_with_a_compared_setting(judged: Path) -> None:
    done = run("eval", judged, "--json", "--compare", "scoring.blend=rrf", "--set", "strict=true")
    found = done.json
    assert [row["name"] for row in found["systems"]] == [
        "keyword",
        "semantic",
        "hybrid, scoring.blend=rrf",
        "hybrid",
    ]
    assert found["queries"] == 2
    assert found["systems"][3]["ndcg"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert found["systems"][3]["difference"] is None
    assert set(found["systems"][2]["difference"]) == {"mean", "low", "high"}


def test_one_mode_and_a_sample(judged: Path) -> None:
    found = run("eval", judged, "--json", "--mode", "semantic", "--queries", "1").json
    assert [row["name"] for row in found["systems"]] == ["semantic"]
    assert found["queries"] == 1


def test_the_judgements_of_a_base(judged: Path) -> None:
    with KnowledgeBase("lagotto.db") as kb:
        (hit,) = kb.retrieve("code 2067", mode="keyword", top_k=1)
        kb.judge("what is 2067?", hit, 1)
    found = run("eval", "--json").json
    assert found["queries"] == 1
    assert found["systems"][2]["recall"] == 1


def test_documents_that_are_missing(judged: Path) -> None:
    assert run("remove", "dog", "--yes").code == 0
    done = run("eval", judged)
    assert "warning: 1 of 2 relevant documents are not in the base" in done.err
    assert run("remove", "error", "--yes").code == 0
    done = run("eval", judged)
    assert (done.code, done.out) == (2, "")
    assert "none of the relevant documents is in the base" in done.err


def test_without_judgements(judged: Path) -> None:
    done = run("eval")
    assert done.code == 2
    assert "the base has no judgements of relevant passages" in done.err


def test_evidence_in_packs_where_spans_are_marked(judged: Path) -> None:
    (judged / "qrels" / "test.tsv").unlink()
    whole = [{"start": 0, "end": len(CORPUS[document])} for _, document in ASKED.values()]
    rows = [
        {"query_id": name, "corpus_id": document, "spans": [span]}
        for (name, (_, document)), span in zip(ASKED.items(), whole, strict=True)
    ]
    (judged / "spans.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run("eval", judged, "--json")
    assert done.code == 0, done.err
    evidence = json.loads(done.out)["evidence"]
    assert [row["budget"] for row in evidence] == [400, 1000, 2000, 4000]
    assert [row["recall"] for row in evidence] == [1.0] * 4
    assert "400 tokens" in run("eval", judged).out
    (judged / "spans.jsonl").write_text("{}")
    assert "query_id" in run("eval", judged).err
