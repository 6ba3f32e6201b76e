from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.base.judgements import RelevanceJudgement
from lagotto.errors import ConfigError
from lagotto.evals import JudgedQuery, read_beir, read_judgements

QUERIES = '{"_id": "1", "text": "first"}\n\n{"_id": "2", "text": "second", "metadata": {}}\n'
QRELS = "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\ta\t0\n3\tc\t1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queries.jsonl").write_text(QUERIES, encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text(QRELS, encoding="utf-8")
    return tmp_path


def test_queries_with_a_relevant_document(folder: Path) -> None:
    assert read_beir(folder) == [JudgedQuery("first", {(None, "a"): 2, (None, "b"): 0})]


def test_the_layout_that_beir_itself_has_comes_first(folder: Path) -> None:
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n2\tz\t1\n")
    assert read_beir(folder) == [JudgedQuery("second", {(None, "z"): 1})]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("queries.jsonl", '{"_id": "1"}', r"queries\.jsonl: line 1 is no query"),
        ("queries.jsonl", '{"_id": "1", "text": null}', "line 1 is no query"),
        ("queries.jsonl", '{"_id": "1", "text": " "}', "line 1 is no query"),
        ("queries.jsonl", f"{QUERIES}[1]", r"line 4 is no query; write \{"),
        ("qrels.tsv", "1\ta\t2\n1\tb\t1\n", r"line 2 should have query-id, corpus-id and score"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\n1\ta\tyes\n", "line 2 should have"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\n1\ta\n", "line 2 should have"),
    ],
)
def test_wrong_lines_are_named(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_beir(folder)


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "queries.jsonl").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"queries\.jsonl is not UTF-8"):
        read_beir(folder)
    (folder / "queries.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"queries\.jsonl can't be read: No such file"):
        read_beir(folder)
    (folder / "qrels.tsv").unlink()
    with pytest.raises(ConfigError, match=r"has no qrels/test\.tsv or qrels\.tsv"):
        read_beir(folder)


def test_judgements_of_a_base() -> None:
    def judged(query: str, citation: str, relevance: int) -> RelevanceJudgement:
        return RelevanceJudgement(query=query, citation=citation, relevance=relevance)

    found = read_judgements(
        [judged("q", "wiki/a#0-5", 1), judged("q", "wiki/b#0-5", 0), judged("r", "wiki/a#0-5", 0)]
    )
    assert found == [JudgedQuery("q", {("wiki", "a"): 1, ("wiki", "b"): 0})]
