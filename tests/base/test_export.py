from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from lagotto import Document, KnowledgeBase
from lagotto.base.export import import_from, jsonl_line
from lagotto.errors import ConfigError, ReadError
from lagotto.readers import ReadFailure
from lagotto.readers.language import with_language
from lagotto.testing.strategies import documents

DOCUMENTS = (
    Document(id="a", title="Oaks", text="Oaks grow slowly.", metadata={"year": 2020}),
    Document(id="b", text="Truffles.\u2028 Next line.", collection="other", language="en"),
)


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    base = KnowledgeBase(":memory:")
    base.add(*DOCUMENTS)
    return base


def test_a_line_with_an_impossible_language_fails_alone(tmp_path: Path) -> None:
    lines = [{"id": "bad", "text": "A dog.", "language": "é"}, {"id": "good", "text": "A dog."}]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with KnowledgeBase(":memory:") as base:
        report = base.import_documents(tmp_path / "all.jsonl")
        assert (report.added, len(report.failures)) == (1, 1)
        assert "is not a language tag" in report.failures[0].reason
        assert [hit.document_id for hit in base.retrieve("dog")] == ["good"]


def test_an_export_is_imported_as_it_was(kb: KnowledgeBase, tmp_path: Path) -> None:
    with kb, KnowledgeBase(":memory:") as other:
        assert kb.export_documents(tmp_path / "all.jsonl") == 2
        report = other.import_documents(tmp_path / "all.jsonl")
        assert (report.added, report.failures) == (2, ())
        for document in DOCUMENTS:
            assert other.get(document.id, collection=document.collection) == kb.get(
                document.id, collection=document.collection
            )
        assert other.import_documents(tmp_path / "all.jsonl").unchanged == 2


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents())
def test_any_document_survives(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(jsonl_line(document) + "\n", encoding="utf-8")
    assert list(import_from(path)) == [with_language(document)]


def test_the_layout_of_beir(kb: KnowledgeBase, tmp_path: Path) -> None:
    with kb, KnowledgeBase(":memory:") as other:
        with pytest.raises(ConfigError, match="BEIR has one collection, not default and other"):
            kb.export_documents(tmp_path / "beir", format="beir")
        assert list((tmp_path / "beir").iterdir()) == []
        assert kb.export_documents(tmp_path / "beir", format="beir", collection="default") == 1
        (line,) = (tmp_path / "beir" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        assert json.loads(line) == {
            "_id": "a", "title": "Oaks", "text": "Oaks grow slowly.", "metadata": {"year": 2020},
        }  # fmt: skip
        other.import_documents(tmp_path / "beir", collection="wood")
        found = other.get("a", collection="wood")
        assert found is not None
        assert (found.title, found.metadata) == ("Oaks", {"year": 2020})


@pytest.mark.parametrize("name", ["id", "_id"])
def test_the_language_is_detected_as_when_adding(name: str, tmp_path: Path) -> None:
    text = "The tree grows slowly, and its wood is hard and heavy."
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({name: "a", "text": text}), encoding="utf-8")
    (found,) = import_from(path if name == "id" else tmp_path)
    assert isinstance(found, Document)
    assert found.language == "en"


def test_a_wrong_line_is_a_failure_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = ["{", "[]", "{}", '{"id": "a", "text": "ok"}', '{"text": "x", "nope": 1}', ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    first, second, third, document, last = import_from(path)
    assert isinstance(document, Document)
    for number, failure in ((1, first), (2, second), (3, third), (5, last)):
        assert isinstance(failure, ReadFailure)
        assert failure.source == f"{path}:{number}"
        assert failure.reason.startswith("not an exported document (")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"nope\.jsonl: can't be read"):
        list(import_from(tmp_path / "nope.jsonl"))


def test_a_failed_export_leaves_the_file_as_it_was(kb: KnowledgeBase, tmp_path: Path) -> None:
    with kb:
        (tmp_path / "corpus.jsonl").write_text("mine")
        with pytest.raises(ConfigError):
            kb.export_documents(tmp_path, format="beir")
        assert (tmp_path / "corpus.jsonl").read_text() == "mine"
        with pytest.raises(ConfigError, match="can't be written"):
            kb.export_documents(tmp_path / "absent" / "all.jsonl")
