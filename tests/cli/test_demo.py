from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from lagotto.cli.demo import PACK_TOKENS, demo_location
from lagotto.demo import (
    MODES,
    DemoOutcome,
    Question,
    corpus,
    document_rank,
    examples,
    questions,
)
from lagotto.results import RetrievalResult
from lagotto.retrieval.documents import Snippet
from tests.cli.running import Run, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo.db"


@pytest.fixture(scope="module")
def shown(place: Path) -> Run:
    """What the demo prints; made once, because it embeds a whole corpus."""
    return run("demo", "--kb", place)


def test_it_shows_a_rank_per_mode_and_some_answers(shown: Run, place: Path) -> None:
    assert shown.code == 0, shown.err
    assert "40 added" in shown.err
    for question in questions():
        row = next(line for line in shown.out.splitlines() if line.startswith(question.question))
        ranks = row.removeprefix(question.question).split()
        assert len(ranks) == len(MODES)
        assert all(rank == "-" or 1 <= int(rank) <= 10 for rank in ranks)
    assert shown.out.count("    Doc: ") >= 2
    assert f"Try next:  lagotto --kb {place} retrieve " in shown.out


def test_the_passages_it_shows_hold_the_answers(shown: Run) -> None:
    blocks = shown.out.partition("Right document first")[2].split("\n\n")[1:4]
    evidence = {question.question: question.evidence for question in questions()}
    shown_questions = [block.splitlines()[0] for block in blocks]
    assert len(set(shown_questions)) == 3
    for question, block in zip(shown_questions, blocks, strict=True):
        assert evidence[question] in " ".join(block.split())


def test_it_shows_a_cited_pack_within_its_budget(shown: Run) -> None:
    pack = shown.out.partition("A cited context for a prompt")[2]
    assert "[1] Doc: " in pack
    assert "[1] demo/" in pack
    (tokens,) = re.findall(r"^(\d+) tokens, \d+ citations?$", pack, re.MULTILINE)
    assert 0 < int(tokens) <= PACK_TOKENS


def test_each_way_of_searching_alone_misses_what_hybrid_search_finds(shown: Run) -> None:
    rows = {
        question.document: line.removeprefix(question.question).split()
        for question in questions()
        for line in shown.out.splitlines()
        if line.startswith(question.question) and line != question.question
    }
    semantic, keyword, hybrid = rows["sqlite-result-codes.md"]
    assert (keyword, hybrid) == ("1", "1")
    assert semantic != "1"
    assert rows["music-intervals.md"][0] == "1"
    assert rows["music-intervals.md"][1] != "1"


def test_the_base_can_be_searched_afterwards(shown: Run, place: Path) -> None:
    answer = run("--kb", place, "retrieve", "What is TP-4471-B?", "--collection", "demo", "--json")
    assert answer.json["results"][0]["document_source"].endswith("tartufo-t200-manual.pdf")


def test_every_question_has_its_document() -> None:
    with corpus() as folder:
        names = {path.name for path in folder.iterdir()}
    assert {question.document for question in questions()} <= names


def hit(source: str) -> RetrievalResult:
    return RetrievalResult(
        rank=1, score=1, content="", chunk_id="", document_id=source, document_title=None,
        document_source=f"/corpus/{source}", collection="demo", start=0, end=0,
    )  # fmt: skip


def test_a_document_counts_once_whatever_its_passages() -> None:
    hits = [hit("a.md"), hit("a.md"), hit("b.md")]
    assert [document_rank(hits, name) for name in ("a.md", "b.md", "c.md")] == [1, 2, None]


def outcome(name: str, *ranks: int | None) -> DemoOutcome:
    question = Question(question=name, answer="", document="", why="", evidence="word")
    by_mode = dict(zip(MODES, ranks, strict=True))
    shown = Snippet(text="no such thing" if name == "unanswered" else "a word")
    return DemoOutcome(question=question, ranks=by_mode, hit=None, snippet=shown)


def test_examples_are_answered_by_hybrid_search() -> None:
    outcomes = [
        outcome("nobody", None, None, None),
        outcome("all", 1, 1, 1),
        outcome("unanswered", None, None, 1),
        outcome("meaning", 1, None, 1),
        outcome("words", None, 1, 1),
        outcome("last", 1, 1, 1),
    ]
    chosen = [found.question.question for found in examples(outcomes)]
    assert chosen == ["meaning", "words", "last"]
    assert examples(outcomes[:1]) == []


def test_a_temporary_base_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with demo_location(None, keep=False) as location:
        assert Path(location).parent.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_kept_base_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with demo_location(None, keep=True) as location:
        Path(location).touch()
    assert Path(location).exists()


def test_the_base_of_the_environment_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGOTTO_KB", "/absent/kb.db")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = run("--embedder", "nonsense", "demo", "--keep")
    assert done.err.startswith('lagotto: unknown embedder "nonsense"')
    assert [path.name[:13] for path in tmp_path.iterdir()] == ["lagotto-demo-"]


def test_a_base_that_was_named_is_used() -> None:
    before = run("--kb", "/absent/kb.db", "demo")
    behind = run("demo", "--kb", "/absent/kb.db")
    assert before == behind
    assert before.code == 5
    assert "there is no folder /absent" in before.err


def test_only_the_documents(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    copied = run("demo", "--documents", folder)
    assert copied.out == f"40 documents copied to {folder}\n"
    with corpus() as bundled:
        assert {file.name for file in bundled.iterdir()} == {file.name for file in folder.iterdir()}
    again = run("demo", "--documents", folder)
    assert again.code == 2
    assert "name a new folder" in again.err
