from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagotto.base import ingest
from lagotto.base.blocking import KnowledgeBase
from lagotto.base.ingest import NAMED
from lagotto.context.cite import key_of
from lagotto.documents import Chunk, Document
from lagotto.errors import ConfigError
from lagotto.readers import Columns, Source, load
from lagotto.testing.hash_embedder import HashEmbedder

LONG_AGO = 1_600_000_000


def write(path: Path, text: str, *, time: int = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (time, time))
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        write(tmp_path / "notes" / f"{name}.md", f"The text of {name}.")
    return tmp_path / "notes"


@pytest.fixture(params=["memory", "sqlite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeBase]:
    location = ":memory:" if request.param == "memory" else str(tmp_path / "kb.db")
    with KnowledgeBase(location, embedder=HashEmbedder()) as base:
        yield base


def titles(base: KnowledgeBase) -> list[str]:
    return sorted(Path(document.source).name for document in base.documents())


def text_of(base: KnowledgeBase, name: str) -> str:
    (found,) = (item for item in base.documents() if Path(item.source).name == name)
    document = base.get(found.id)
    assert document is not None
    return document.text.strip()


def test_an_unchanged_file_is_not_read_again(base: KnowledgeBase, notes: Path) -> None:
    base.sync(notes)
    write(notes / "a.md", "The news of a.")  # as long as before, and of the same time
    report = base.sync(notes)
    assert (report.unchanged, report.updated, report.removed) == (3, 0, 0)
    assert text_of(base, "a.md") == "The text of a."
    report = base.sync(notes, checksum=True)
    assert (report.unchanged, report.updated) == (2, 1)
    assert text_of(base, "a.md") == "The news of a."
    assert base.sync(notes).unchanged == 3


@pytest.mark.parametrize(
    ("text", "time"), [("Longer than it was.", LONG_AGO), (None, LONG_AGO + 1)]
)
def test_size_and_time_each_show_a_change(
    base: KnowledgeBase, notes: Path, text: str | None, time: int
) -> None:
    base.sync(notes)
    write(notes / "a.md", text or "The news of a.", time=time)
    assert base.sync(notes).updated == 1
    assert text_of(base, "a.md") == (text or "The news of a.")


def test_a_file_that_was_just_written_is_read_again(base: KnowledgeBase, notes: Path) -> None:
    """Its next change may have the same time."""
    (notes / "a.md").write_text("The text of a.")
    time = (notes / "a.md").stat().st_mtime_ns
    base.sync(notes)
    (notes / "a.md").write_text("The news of a.")
    os.utime(notes / "a.md", ns=(time, time))
    assert base.sync(notes).updated == 1


def test_other_options_read_everything(base: KnowledgeBase, notes: Path) -> None:
    base.sync(notes)
    assert base.sync(notes, metadata={"year": 2024}).updated == 3
    assert base.sync(notes, metadata={"year": 2024}).unchanged == 3
    assert base.sync(notes, collection="other").added == 3


def test_a_document_that_was_removed_or_changed_comes_back(
    base: KnowledgeBase, notes: Path
) -> None:
    base.sync(notes)
    first, second, _ = base.documents()
    base.remove(first.id)
    base.add(Document(id=second.id, source=second.source, text="Something else."))
    report = base.sync(notes)
    assert (report.added, report.updated, report.unchanged) == (1, 1, 1)
    assert titles(base) == ["a.md", "b.md", "c.md"]


def test_a_file_that_is_not_text_any_more_keeps_its_document(
    base: KnowledgeBase, notes: Path
) -> None:
    write(notes / "d.notes", "A text of no known format.")
    base.sync(notes)
    assert "d.notes" in titles(base)
    (notes / "d.notes").write_bytes(bytes(range(256)) * 50)
    assert base.sync(notes).removed == 0
    assert "d.notes" in titles(base)
    (notes / "d.notes").unlink()
    assert base.sync(notes).removed == 1


def test_what_is_excluded_is_kept_as_long_as_its_file(base: KnowledgeBase, notes: Path) -> None:
    base.sync(notes)
    assert base.sync(notes, exclude=["b.md"]).removed == 0
    assert base.sync(notes, include=["c.*"]).removed == 0
    assert titles(base) == ["a.md", "b.md", "c.md"]
    (notes / "b.md").unlink()
    assert base.sync(notes, exclude=["b.md"]).removed == 1
    assert titles(base) == ["a.md", "c.md"]


def test_a_deleted_link_takes_its_documents_with_it(
    base: KnowledgeBase, notes: Path, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere" / "deep" / "d.md", "The text of d.")
    write(tmp_path / "single.md", "A single file.")
    (notes / "link").symlink_to(tmp_path / "elsewhere")
    (notes / "e.md").symlink_to(tmp_path / "single.md")
    base.sync(notes)
    assert titles(base) == ["a.md", "b.md", "c.md", "d.md", "single.md"]
    assert base.sync(notes).unchanged == 5
    (notes / "link").unlink()
    assert base.sync(notes).removed == 1
    (notes / "e.md").unlink()
    assert base.sync(notes).removed == 1
    assert titles(base) == ["a.md", "b.md", "c.md"]


def test_a_file_that_is_found_by_another_link_keeps_its_documents(
    base: KnowledgeBase, notes: Path, tmp_path: Path
) -> None:
    """Also if nothing could be read of it this time: it is there."""
    single = write(tmp_path / "single.md", "The text of a single one.")
    (notes / "old.md").symlink_to(single)
    base.sync(notes)
    (notes / "old.md").unlink()
    (notes / "new.md").symlink_to(write(single, ""))
    report = base.sync(notes)
    assert report.removed == 0
    assert "single.md" in titles(base)


def test_a_link_to_what_is_not_mounted_keeps_its_documents(
    base: KnowledgeBase, notes: Path, tmp_path: Path
) -> None:
    write(tmp_path / "disk" / "d.md", "The text of d.")
    (notes / "link").symlink_to(tmp_path / "disk")
    base.sync(notes)
    (tmp_path / "disk").rename(tmp_path / "away")
    assert base.sync(notes).removed == 0
    (tmp_path / "away").rename(tmp_path / "disk")
    assert base.sync(notes).unchanged == 4


def test_rows_that_are_gone_go(base: KnowledgeBase, notes: Path) -> None:
    rows = [f'{{"id": "r{number}", "text": "Row {number}."}}' for number in range(4)]
    write(notes / "rows.jsonl", "\n".join(rows))
    assert base.sync(notes).added == 7
    assert base.sync(notes).unchanged == 7
    write(notes / "rows.jsonl", "\n".join(rows[:2]))
    report = base.sync(notes)
    assert (report.unchanged, report.removed) == (5, 2)


def test_a_file_that_failed_is_tried_again(
    base: KnowledgeBase, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.sync(notes)
    write(notes / "a.md", "The text of a is longer now.")

    def fail(_chunker: object, _document: Document) -> list[Chunk]:
        raise RuntimeError("no chunks today")

    with monkeypatch.context() as patch:
        patch.setattr(ingest, "chunk_document", fail)
        assert len(base.sync(notes).failures) == 1
    assert base.sync(notes).updated == 1
    assert text_of(base, "a.md") == "The text of a is longer now."


def test_an_unchanged_folder_is_not_opened(
    base: KnowledgeBase, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.sync(notes)

    def fail(*_: object, **__: object) -> bytes:
        raise AssertionError("the file is read")

    monkeypatch.setattr(Source, "read", fail)
    assert base.sync(notes).unchanged == 3
    assert len(list(load(notes))) == 3  # which are failures, since reading fails


def test_documents_of_files_that_are_ignored_now_are_kept_and_noted(
    base: KnowledgeBase, notes: Path
) -> None:
    base.sync(notes)
    before = sorted(document.id for document in base.documents())
    (notes / ".lagottoignore").write_text("b.md\n")
    report = base.sync(notes)
    assert report.removed == 0
    assert report.skipped.counts == {"hidden": 1, "ignored": 1}
    [note] = report.notes
    assert "1 file is skipped now" in note
    assert (notes / "b.md").as_posix() in note
    assert sorted(document.id for document in base.documents()) == before
    (notes / "b.md").unlink()
    report = base.sync(notes)
    assert (report.removed, report.notes) == (1, ())


def topics(base: KnowledgeBase) -> dict[str, object]:
    return {Path(item.source).name: item.metadata.get("topic") for item in base.documents()}


class TestPathMetadata:
    """What is given for a path stays with it."""

    def test_a_plain_add_keeps_it(self, base: KnowledgeBase, notes: Path) -> None:
        base.add(notes, metadata={"topic": "oaks"})
        assert base.add(notes).unchanged == 3
        assert topics(base) == {"a.md": "oaks", "b.md": "oaks", "c.md": "oaks"}

    def test_so_does_a_changed_file_alone_and_a_new_one(
        self, base: KnowledgeBase, notes: Path
    ) -> None:
        base.add(notes, metadata={"topic": "oaks"})
        base.add(write(notes / "a.md", "Other text."), write(notes / "d.md", "New text."))
        assert topics(base) == dict.fromkeys(["a.md", "b.md", "c.md", "d.md"], "oaks")

    def test_another_value_replaces_it_and_null_takes_it_back(
        self, base: KnowledgeBase, notes: Path
    ) -> None:
        base.add(notes, metadata={"topic": "oaks", "year": 2024})
        base.add(notes, metadata={"topic": "elms"})
        base.add(notes / "b.md", metadata={"topic": None})
        base.add(notes)
        assert topics(base) == {"a.md": "elms", "b.md": None, "c.md": "elms"}
        assert {item.metadata["year"] for item in base.documents()} == {2024}
        assert base.documents(filters={"topic": {"$exists": False}})[0].source.endswith("b.md")

    def test_it_wins_over_what_the_file_says(self, base: KnowledgeBase, tmp_path: Path) -> None:
        file = write(tmp_path / "x.md", "---\ntopic: elms\nyear: 2020\n---\nText.")
        base.add(file, metadata={"topic": "oaks"})
        write(file, "---\ntopic: ash\nyear: 2021\n---\nText.")
        base.add(file)
        assert base.documents()[0].metadata == {"topic": "oaks", "year": 2021}

    def test_collections_are_apart(self, base: KnowledgeBase, notes: Path) -> None:
        base.add(notes, metadata={"topic": "oaks"}, collection="trees")
        base.add(notes)
        found = base.documents(collection="default")
        assert [item.metadata.get("topic") for item in found] == [None] * 3

    def test_a_plain_sync_reads_nothing_again(
        self, base: KnowledgeBase, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base.sync(notes, metadata={"topic": "oaks"})
        monkeypatch.setattr("lagotto.readers.markdown.decode", None)
        assert base.sync(notes).unchanged == 3
        assert set(topics(base).values()) == {"oaks"}

    def test_documents_keep_their_own(self, base: KnowledgeBase) -> None:
        base.add(Document(id="x", text="Text.", metadata={"topic": "oaks"}))
        base.add(Document(id="x", text="Text."))
        assert base.documents()[0].metadata == {}


class TestMoved:
    """`sync(moved=True)` finds the files that are somewhere else now."""

    def test_a_moved_folder_is_not_duplicated(self, base: KnowledgeBase, notes: Path) -> None:
        base.add(notes, metadata={"topic": "oaks"})
        moved = notes.rename(notes.parent / "archive")
        report = base.sync(moved, moved=True)
        assert (report.added, report.removed) == (3, 3)
        assert report.notes == (
            f"3 documents were moved, such as {notes / 'a.md'} to {moved / 'a.md'}",
        )
        assert {Path(item.source).parent for item in base.documents()} == {moved}
        assert topics(base) == {"a.md": "oaks", "b.md": "oaks", "c.md": "oaks"}
        base.add(moved)
        assert base.sync(moved, moved=True).unchanged == 3
        assert set(topics(base).values()) == {"oaks"}

    def test_without_it_both_stay(self, base: KnowledgeBase, notes: Path) -> None:
        base.add(notes)
        moved = notes.rename(notes.parent / "archive")
        report = base.sync(moved)
        assert len(base.documents()) == 6
        assert report.notes == (
            "3 documents of files that are gone have the content of files here, such as "
            f"{notes / 'a.md'} that of {moved / 'a.md'}; sync with --prune-moved removes them",
        )

    def test_a_copy_and_other_content_stay(self, base: KnowledgeBase, notes: Path) -> None:
        other = write(notes.parent / "other" / "x.md", "Only here.")
        base.add(notes, other)
        write(notes.parent / "copy" / "a.md", "The text of a.")
        other.unlink()
        report = base.sync(notes.parent / "copy", moved=True)
        assert (report.added, report.removed) == (1, 0)
        assert titles(base) == ["a.md", "a.md", "b.md", "c.md", "x.md"]

    def test_a_moved_file(self, base: KnowledgeBase, notes: Path) -> None:
        base.add(notes)
        base.add(notes / "b.md", metadata={"topic": "elms"})
        (notes / "sub").mkdir()
        (notes / "b.md").rename(notes / "sub" / "b.md")
        report = base.sync(notes, moved=True)
        assert (report.added, report.unchanged, report.removed) == (1, 2, 1)
        assert topics(base) == {"a.md": None, "b.md": "elms", "c.md": None}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    write(tmp_path / "project" / "app" / "limits.py", "def wait_for_tokens():\n    return 7\n")
    write(tmp_path / "project" / "docs" / "limits.md", "---\nslug: waiting\n---\nWait for tokens.")
    write(tmp_path / "project" / "rows.csv", "text,price\nWait for it,7\nWait more,8\n")
    return tmp_path / "project"


def test_citations_have_paths_below_the_folder(base: KnowledgeBase, sources: Path) -> None:
    base.sync(sources)
    hits = base.retrieve("wait for tokens")
    named = {hit.citation.removeprefix("Doc: ").split(" | ")[0] for hit in hits}
    assert named == {"app/limits.py", "limits", "rows.csv"}
    pack = base.context("wait for tokens", max_tokens=500, fill=True)
    assert "Doc: app/limits.py | " in pack.context_pack
    assert str(sources) not in pack.context_pack
    (citation,) = (item for item in pack.citations if "limits.py" in item.label)
    assert base.resolve(citation).label == citation.label
    assert Path(base.resolve(citation).document_source).is_absolute()
    assert base.why_not("wait for tokens", "app/limits.py").document_id == citation.document_id

    moved = sources.rename(sources.with_name("moved"))
    assert base.sync(moved, moved=True).removed == 4
    base.sync(moved, metadata={"path": None})
    assert str(moved) in next(hit.citation for hit in base.retrieve("tokens limits.py return"))


def test_a_report_names_the_first_files(base: KnowledgeBase, notes: Path) -> None:
    sources = {name: (notes / f"{name}.md").as_posix() for name in "abc"}
    assert set(base.sync(notes).changed["added"]) == set(sources.values())
    write(notes / "a.md", "Another text.")
    (notes / "b.md").unlink()
    report = base.sync(notes)
    assert report.changed == {"updated": (sources["a"],), "removed": (sources["b"],)}
    base.add(notes, metadata={"year": 2024})
    assert base.sync(notes, metadata={"year": 2025}).changed.keys() == {"updated"}
    for number in range(9):
        write(notes / f"{number}.md", f"The number {number}.")
    assert len(base.sync(notes, metadata={"year": 2025}).changed["added"]) == NAMED


def ids(base: KnowledgeBase) -> set[str]:
    return {document.id for document in base.documents()}


def test_ids_from_paths(base: KnowledgeBase, sources: Path) -> None:
    base.sync(sources, id_from="path")
    assert ids(base) == {"app/limits.py", "docs/limits.md", "rows.csv#1", "rows.csv#2"}
    assert base.sync(sources, id_from="path").unchanged == 4
    write(sources / "docs" / "limits.md", "Changed.")
    assert base.sync(sources, id_from="path").updated == 1
    (sources / "docs").rename(sources / "guide")
    assert base.sync(sources, id_from="path").removed == 1
    assert ids(base) == {"app/limits.py", "guide/limits.md", "rows.csv#1", "rows.csv#2"}
    key = next(hit for hit in base.retrieve("wait tokens") if hit.document_id == "app/limits.py")
    assert base.resolve(key_of(key)).text.startswith("def wait_for_tokens")
    base.sync(sources)  # under hashes, as without the option
    assert not ids(base) & {"app/limits.py", "guide/limits.md"}


def test_ids_from_front_matter(base: KnowledgeBase, sources: Path) -> None:
    report = base.sync(sources, id_from="front-matter:slug", include=["*.md"])
    assert (report.failures, ids(base)) == ((), {"waiting"})
    write(sources / "docs" / "more.md", "No front matter.")
    write(sources / "docs" / "other.md", "---\nslug: waiting\n---\nAnother one.")
    failures = base.sync(sources, id_from="front-matter:slug", include=["*.md"]).failures
    assert [failure.reason for failure in failures] == [
        "no slug in its front matter for the id; add it, or take ids from path",
        f"its id 'waiting' is that of {(sources / 'docs' / 'limits.md').as_posix()}; "
        "give one of them another collection",
    ]
    with pytest.raises(ConfigError, match="write path, or front-matter:KEY"):
        base.sync(sources, id_from="title")


def test_ids_in_a_column_stay(base: KnowledgeBase, sources: Path) -> None:
    base.add(sources / "rows.csv", id_from="path", columns=Columns(id="price"))
    assert ids(base) == {"7", "8"}


def test_no_file_takes_the_id_of_another_one(base: KnowledgeBase, notes: Path) -> None:
    base.add(notes, id_from="path")
    other = write(notes.with_name("others") / "a.md", "Another text.")
    (failure,) = base.add(other.parent, id_from="path").failures
    assert failure.reason.startswith(f"its id 'a.md' is that of {(notes / 'a.md').as_posix()};")
    (notes / "a.md").unlink()
    assert base.add(other.parent, id_from="path").updated == 1
