from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lagotto._internal.tokens import Tokenizer
from lagotto.base.ingest import Progress
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS, Chunker
from lagotto.chunkers.spans import SpanChunker
from lagotto.documents import Document
from lagotto.embedders import EMBEDDERS
from lagotto.errors import (
    ConfigError,
    ModelMismatchError,
    ReadError,
    StoreError,
    UnknownNameError,
    WeightsError,
)
from lagotto.filters import In
from lagotto.prefs import RetrievalPrefs
from lagotto.readers.walk import Walk
from lagotto.request_context import RequestContext
from lagotto.testing.hash_embedder import HashEmbedder
from tests.counting import CountingEmbedder


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("oak", "hazel", "lake"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nA note on the {name}.\n")
    return folder


def memory() -> AsyncKnowledgeBase:
    return AsyncKnowledgeBase(":memory:", embedder=CountingEmbedder())


def titles(documents: list[Document]) -> list[str]:
    return sorted(str(document.title) for document in documents)


def take_away(folder: Path, *, leaving: str) -> None:
    folder.rename(folder.with_name("elsewhere"))
    if leaving == "an empty folder":
        folder.mkdir()


class TestLanguages:
    async def test_documents_are_detected_as_files_are(self) -> None:
        german = Document(id="de", text="Der Hund findet Trüffel unter alten Eichen im Wald.")
        titled = Document(id="title", title="Der Hund findet Trüffel unter den Eichen", text="")
        given = german.model_copy(update={"id": "nl", "language": "nl"})
        code = german.model_copy(update={"id": "code", "kind": "code"})
        async with memory() as base:
            await base.add(german, titled, given, code)
            found = {item.id: item.language for item in await base.documents()}
        assert found == {"de": "de", "title": "de", "nl": "nl", "code": None}

    async def test_the_language_of_the_caller(self) -> None:
        async with memory() as base:
            await base.add(
                Document(id="a", text="Ein Hund findet Trüffel im Wald."),
                Document(id="b", text="Ein Hund.", language="de"),
                language="sv",
            )
            found = {item.id: item.language for item in await base.documents()}
            again = await base.add(
                Document(id="a", text="Ein Hund findet Trüffel im Wald."), language="sv"
            )
        assert found == {"a": "sv", "b": "de"}
        assert again.unchanged == 1


class TestOnlyATitle:
    CATALOGUE = (
        Document(id="title", title="Wind erosion of dunes", text=" "),
        Document(id="text", title="Lakes", text="A lake between the hills."),
        Document(id="nothing", text=" "),
    )

    @pytest.mark.parametrize("location", [":memory:", "kb.db"])
    async def test_it_is_found_cited_and_counted(self, tmp_path: Path, location: str) -> None:
        place = location if location == ":memory:" else tmp_path / location
        async with AsyncKnowledgeBase(place, embedder=HashEmbedder()) as base:
            report = await base.add(*self.CATALOGUE)
            assert (report.added, report.chunks) == (3, 2)
            for mode in ("keyword", "semantic", "hybrid"):
                hit = (await base.retrieve("eroding dunes", mode=mode))[0]
                assert (hit.document_id, hit.content, hit.start, hit.end) == ("title", "", 0, 0)
                assert hit.citation == "Doc: Wind erosion of dunes"
            pack = await base.context("eroding dunes")
            assert "Wind erosion of dunes" in pack.context_pack
            cited = await base.resolve(pack.citations[0])
            assert (cited.document_title, cited.text) == ("Wind erosion of dunes", "")
            assert (await base.info()).chunks == 2
            assert (await base.add(*self.CATALOGUE)).unchanged == 3


class TestAdd:
    async def test_files_folders_and_documents(self, notes: Path) -> None:
        async with memory() as base:
            extra = Document(id="x", collection="own", text="Given as it is.")
            report = await base.add(notes / "oak.md", notes, extra, metadata={"by": "me"})
            assert report.added == 4
            assert (await base.info()).collections == {"default": 3, "own": 1}
            assert await base.get("x", collection="own") == extra
            assert {item.metadata.get("by") for item in await base.documents()} == {"me", None}

    async def test_unreadable_files_are_listed(self, notes: Path) -> None:
        (notes / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
        async with memory() as base:
            report = await base.add(notes)
            assert report.added == 3
            assert [failure.source.rsplit("/")[-1] for failure in report.failures] == ["broken.pdf"]

    @pytest.mark.parametrize("given", ["typo/path", "Cats sleep a lot.", "long " * 999, "a\0b"])
    async def test_what_is_no_path_is_an_error(self, notes: Path, given: str) -> None:
        async with memory() as base:
            with pytest.raises(ReadError, match="to add a text, pass Document") as told:
                await base.add(notes, given)
            assert len(str(told.value)) < 300
            assert (await base.info()).documents == 0

    async def test_an_empty_path_is_not_the_current_folder(
        self, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(notes)
        async with memory() as base:
            with pytest.raises(ReadError, match="an empty path; pass"):
                await base.add("")
            assert (await base.add(".")).added == 3

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ([Document(id="a", text="x")], r"not list; .* add\(\*documents\)"),
            (5, "Documents, not int$"),
            (None, "Documents, not NoneType$"),
            ({"text": "x"}, "Documents, not dict$"),
        ],
        ids=["list", "int", "None", "dict"],
    )
    async def test_what_is_no_source_is_an_error(self, given: Any, message: str) -> None:
        async with memory() as base:
            with pytest.raises(ConfigError, match=message):
                await base.add(given)

    async def test_a_folder_without_files_is_an_error(self, notes: Path) -> None:
        empty = notes.parent / "empty"
        empty.mkdir()
        (empty / ".hidden").write_text("x")
        async with memory() as base:
            with pytest.raises(ReadError, match=r"no files to read .*1 file skipped: 1 hidden"):
                await base.add(notes, empty)
            assert (await base.info()).documents == 0
            assert (await base.add(empty, everything=True)).added == 1

    async def test_a_folder_is_walked_once_whatever_is_shown(
        self, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        walked: list[Path] = []

        class CountingWalk(Walk):
            def __iter__(self) -> Iterator[Path | ReadError]:
                walked.append(self.root)
                return super().__iter__()

        monkeypatch.setattr("lagotto.readers.loader.Walk", CountingWalk)
        steps: list[Progress] = []
        async with memory() as base:
            await base.add(notes, progress=steps.append)
        assert walked == [notes]
        assert steps[-1].documents == 3
        assert (steps[0].files, steps[0].read) == (3, 0)
        assert steps[0].size > 3 * len("# oak\n")
        shares = [step.share or 0.0 for step in steps]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


class TestSync:
    async def test_what_vanished_is_removed(self, notes: Path) -> None:
        async with memory() as base:
            await base.sync(notes)
            (notes / "oak.md").unlink()
            (notes / "new.md").write_text("# new\n\nNew.\n")
            report = await base.sync(notes)
            assert (report.added, report.unchanged, report.removed) == (1, 2, 1)
            assert titles(await base.documents()) == ["hazel", "lake", "new"]

    async def test_what_lies_elsewhere_stays(self, notes: Path, tmp_path: Path) -> None:
        other = tmp_path / "notes and more"
        other.mkdir()
        (other / "far.md").write_text("# far\n\nFar away.\n")
        async with memory() as base:
            await base.add(other, Document(id="bare", text="No source."))
            await base.add(notes, collection="old")
            await base.sync(notes)
            (notes / "oak.md").unlink()
            assert (await base.sync(notes)).removed == 1
            left = titles(await base.documents(collection="default"))
            assert left == ["None", "far", "hazel", "lake"]
            assert (await base.info()).collections["old"] == 3

    async def test_what_cannot_be_read_stays(self, notes: Path) -> None:
        async with memory() as base:
            await base.sync(notes)
            (notes / "oak.md").write_bytes(b"")
            report = await base.sync(notes)
            assert (report.unchanged, report.removed, len(report.failures)) == (2, 0, 0)
            assert report.skipped.counts == {"empty": 1}
            [note] = report.notes
            assert "1 file is skipped now" in note
            assert "oak.md" in note
            assert titles(await base.documents()) == ["hazel", "lake", "oak"]

    @pytest.mark.parametrize("left", ["nothing", "an empty folder"])
    async def test_a_disk_that_is_not_there_removes_nothing(self, notes: Path, left: str) -> None:
        async with memory() as base:
            await base.sync(notes)
            take_away(notes, leaving=left)
            report = await base.sync(notes)
            assert (report.removed, len(report.failures)) == (0, 1)
            assert (await base.info()).documents == 3


class TestRemove:
    async def base(self) -> AsyncKnowledgeBase:
        base = await memory().open()
        for collection in ("default", "other"):
            for n in range(5):
                fields: Any = {"collection": collection, "metadata": {"n": n}}
                await base.add(Document(id=f"d{n}", text=f"Text {n}.", **fields))
        return base

    async def test_by_id(self) -> None:
        base = await self.base()
        assert await base.remove("d1", "d2", "d9", collection="default") == ["d1", "d2"]
        assert await base.remove("d3") == ["d3", "d3"]
        assert (await base.info()).collections == {"default": 2, "other": 4}

    async def test_by_filter(self) -> None:
        base = await self.base()
        assert await base.remove(filters={"n": {"$gte": 3}}, collection="other") == ["d3", "d4"]
        assert await base.remove("d0", filters='{"n": {"$gte": 1}}') == []
        assert (await base.info()).documents == 8

    @pytest.mark.parametrize("collection", [None, "other"])
    async def test_no_ids_remove_nothing(self, collection: str | None) -> None:
        base = await self.base()
        gone: list[str] = []
        with pytest.raises(ConfigError, match=r"pass ids, or filters=\{\}"):
            await base.remove(*gone, collection=collection)
        assert (await base.info()).documents == 10

    async def test_everything_only_if_said_so(self) -> None:
        base = await self.base()
        assert len(await base.remove(collection="other", filters={})) == 5
        assert (await base.info()).collections == {"default": 5}
        assert len(await base.remove(filters={})) == 5
        assert await base.retrieve("text") == []

    @pytest.mark.slow
    async def test_a_folder_that_lost_many_files_is_synced(self, tmp_path: Path) -> None:
        folder = tmp_path / "many"
        folder.mkdir()
        for number in range(1_300):
            (folder / f"{number}.txt").write_text(f"Note {number}.")
        async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=CountingEmbedder()) as base:
            await base.add(folder)
            for number in range(1_200):
                (folder / f"{number}.txt").unlink()
            assert (await base.sync(folder)).removed == 1_200
            ids = [document.id for document in await base.documents()]
            found = await base.retrieve("note", filters=In("document_id", ids * 20), top_k=200)
            assert len(found) == 100


@pytest.mark.parametrize("place", ["here", "elsewhere/deeper"])
async def test_ties_keep_their_order_wherever_their_folder_lies(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    names = [f"{name}.txt" for name in "abcdef"]
    for name in names:
        (folder / name).write_text("One note on one oak.")
    rows = folder / "rows.csv"
    rows.write_text("id,text\n" + "".join(f"{name},An oak.\n" for name in "fedcba"))
    for path, by in ((folder, "source"), (rows, "source_ref")):
        async with memory() as base:
            await base.add(path, exclude=["*.csv"])
            hits = await base.retrieve("oak", mode="keyword")
            found = (await base.search("oak", mode="keyword")).candidates
        assert len({hit.score for hit in hits}) == 1
        assert [hit.document_id for hit in hits] == [item.item_id for item in found]
        ordered = [str(getattr(item, by)) for item in found]
        assert ordered == sorted(ordered)
        assert len(ordered) == 6


class TestReading:
    async def test_documents_come_in_order_and_without_text(self) -> None:
        async with memory() as base:
            await base.add(*(Document(id=name, text=f"Text {name}.") for name in "cab"))
            found = await base.documents()
            assert [item.id for item in found] == ["a", "b", "c"]
            assert {item.text for item in found} == {""}
            assert await base.documents(filters={"document_id": "zzz"}) == []
            assert await base.get("zzz") is None

    async def test_an_id_alone_is_looked_for_in_the_default_collection_first(self) -> None:
        async with memory() as base:
            for collection, text in (("a", "An oak."), ("default", "A lake."), ("b", "A dog.")):
                await base.add(Document(id="both", collection=collection, text=text))
            await base.add(Document(id="once", collection="b", text="A hazel."))
            assert (await base.why_not("lake", "both", top_k=1)).rank == 1
            assert (await base.why_not("hazel", "once", top_k=1)).rank == 1
            assert "collection 'default'" in (await base.why_not("hazel", "nobody")).reason

    async def test_info(self, tmp_path: Path) -> None:
        embedder = HashEmbedder()
        async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=embedder) as base:
            empty = await base.info()
            assert (empty.documents, empty.model_id, empty.chunker_id) == (0, None, None)
            await base.add(Document(text="Ein Text.", language="de"), Document(text="A text."))
            info = await base.info()
        assert (info.documents, info.chunks, info.languages) == (2, 2, ("de",))
        assert info.of_unknown_language == 1  # too short to tell
        assert info.model_id == "hash"
        assert info.bytes_on_disk > 0


class TestOpening:
    @pytest.fixture
    async def made(self, tmp_path: Path) -> Path:
        """A base made with an embedder object, with one document."""
        async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as base:
            await base.add(Document(id="a", text="A text."))
        return tmp_path / "kb.db"

    async def test_another_embedder_is_refused(self, made: Path) -> None:
        other = AsyncKnowledgeBase(made, embedder=HashEmbedder(model_id="other"))
        async with other:
            for call in (
                other.add(Document(text="Another text.")),
                other.sync(made.parent),
                other.retrieve("text"),
                other.retrieve_many(["text"]),
                other.retriever.search(RequestContext(), RetrievalPrefs(query_text="text")),
                other.context("text"),
                other.why_not("text", "a"),
            ):
                with pytest.raises(
                    ModelMismatchError, match=r"vectors of hash, .* vectors of other"
                ):
                    await call

            assert (await other.info()).model_id == "hash"
            assert [document.id for document in await other.documents()] == ["a"]
            assert len(await other.chunks("a")) == 1
            assert await other.remove("a") == ["a"]

    async def test_another_dimension_is_refused(self, made: Path) -> None:
        async with AsyncKnowledgeBase(made, embedder=HashEmbedder(dimension=32)) as other:
            with pytest.raises(ModelMismatchError, match=r"dimension 64, .* dimension 32"):
                await other.add(Document(text="Another text."))
        async with AsyncKnowledgeBase(made, embedder=HashEmbedder()) as base:
            assert len(await base.retrieve("text")) == 1

    async def test_a_base_keeps_what_it_was_made_with(self, tmp_path: Path) -> None:
        EMBEDDERS.register("hashed", lambda name: HashEmbedder(model_id=name))
        path = tmp_path / "kb.db"
        made: Any = {"embedder": "hashed:m1", "chunker": "sentence:24/4", "text_index": "fts5"}
        async with AsyncKnowledgeBase(path, **made) as base:
            await base.add(Document(id="a", text="A text. " * 30))
            expected = await base.retrieve("text")
        async with AsyncKnowledgeBase(path) as base:
            assert await base.retrieve("text") == expected
            report = await base.add(Document(id="a", text="A text. " * 30))
            assert (report.unchanged, report.updated) == (1, 0)
            info = await base.info()
        assert (info.embedder, info.model_id, info.pooling) == ("hashed:m1", "m1", "chunk")
        assert (info.chunker_id, info.text_index) == ("sentence:24/4", "fts5")
        async with AsyncKnowledgeBase(path, **made) as base:
            assert await base.retrieve("text") == expected

    async def test_another_chunker_is_refused(self, tmp_path: Path) -> None:
        path, embedder = tmp_path / "kb.db", CountingEmbedder()
        async with AsyncKnowledgeBase(path, embedder=embedder, chunker="sentence:24/4") as base:
            await base.add(Document(id="a", text="A text. " * 30))
            chunks = await base.chunks("a")
        embedder.texts.clear()
        async with AsyncKnowledgeBase(path, embedder=embedder, chunker="page:24/4") as base:
            for call in (base.add(Document(id="a", text="A text. " * 30)), base.retrieve("text")):
                with pytest.raises(ConfigError, match=r"sentence:24/4.*rebuild --chunker page:24"):
                    await call
            assert await base.chunks("a") == chunks
            assert not embedder.texts

    async def test_another_pooling_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "kb.db"
        async with AsyncKnowledgeBase(path, embedder="minilm") as base:
            await base.add(Document(id="a", text="A text."))
        async with AsyncKnowledgeBase(path, pooling="late") as base:
            with pytest.raises(ModelMismatchError, match=r"rebuild --pooling late"):
                await base.retrieve("text")

    async def test_an_embedder_without_a_name_must_be_passed_again(self, made: Path) -> None:
        async with AsyncKnowledgeBase(made) as base:
            with pytest.raises(ModelMismatchError, match=r"vectors of hash.*embedder=\.\.\."):
                await base.retrieve("text")
            assert [document.id for document in await base.documents()] == ["a"]

    async def test_an_embedder_that_is_gone_hinders_only_searching(self, tmp_path: Path) -> None:
        EMBEDDERS.register("hashed", lambda name: HashEmbedder(model_id=name))
        async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder="hashed:gone") as base:
            await base.add(Document(id="a", text="A text."))

        def gone(_: str) -> HashEmbedder:
            raise WeightsError("the folder is not there")

        EMBEDDERS.register("hashed", gone)
        async with AsyncKnowledgeBase(tmp_path / "kb.db") as base:
            with pytest.raises(WeightsError):
                await base.retrieve("text")
            assert (await base.info()).embedder == "hashed:gone"
            assert await base.remove("a") == ["a"]

    async def test_a_choice_that_makes_no_sense_makes_no_base(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match="nonsense"):
            AsyncKnowledgeBase(tmp_path / "kb.db", chunker="nonsense:3")
        with pytest.raises(UnknownNameError, match="nonsense"):
            await AsyncKnowledgeBase(tmp_path / "kb.db", embedder="nonsense").open()
        assert os.listdir(tmp_path) == []  # noqa: PTH208

    async def test_another_text_index_is_refused(self, made: Path) -> None:
        other = AsyncKnowledgeBase(made, embedder=HashEmbedder(), text_index="fts5")
        with pytest.raises(ConfigError, match="made with text_index='tantivy'"):
            await other.open()

    async def test_a_closed_base_says_so(self, tmp_path: Path) -> None:
        base = AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder())
        with pytest.raises(StoreError, match="closed; open it first"):
            await base.info()
        async with base:
            await base.add(Document(id="a", text="A text."))
        for call in (base.info(), base.retrieve("text"), base.add(Document(text="B.")),
                     base.documents(), base.get("a"), base.remove("a")):  # fmt: skip
            with pytest.raises(StoreError, match="closed; open it first"):
                await call
        await base.close()
        async with base:
            assert len(await base.retrieve("text")) == 1

    async def test_memory_keeps_nothing_and_closes_the_embedder(self) -> None:
        for embedder in (CountingEmbedder(), CountingEmbedder()):
            async with AsyncKnowledgeBase(":memory:", embedder=embedder) as base:
                assert (await base.info()).documents == 0
                await base.add(Document(text="A text."))
                assert (await base.info()).location == ":memory:"
                assert not embedder.closed
            assert embedder.closed


async def test_a_preset_by_its_name() -> None:
    """For every call, or for one; what else is given changes it."""
    preset = RetrievalPrefs.preset("oasis")
    async with memory() as base:
        await base.add(Document(id="dog", text="A dog that finds truffles."))
        named = await base.retrieve("truffles", prefs="oasis", top_k=1)
        assert named == await base.retrieve("truffles", prefs=preset, top_k=1)
        assert named != await base.retrieve("truffles", top_k=1)
        (many,) = await base.retrieve_many(["truffles"], prefs="oasis", top_k=1)
        assert many == named
        assert (await base.context("truffles", prefs="oasis")).citations
        with pytest.raises(UnknownNameError, match="oasis"):
            await base.retrieve("truffles", prefs="mirage")


async def test_a_base_is_searched_where_its_chunker_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole(parameters: str, tokenizer: Tokenizer) -> Chunker:
        return SpanChunker("mine", parameters, tokenizer, defaults=(64, 0), ranks=("paragraph",))

    with monkeypatch.context() as patch:
        patch.setitem(CHUNKERS._registered, "mine", whole)
        async with AsyncKnowledgeBase(
            tmp_path / "kb.db", embedder=HashEmbedder(), chunker="mine"
        ) as base:
            await base.add(Document(id="a", text="A water dog finds truffles."))
    async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as base:
        assert [hit.document_id for hit in await base.retrieve("truffles")] == ["a"]
        with pytest.raises(UnknownNameError, match="mine"):
            await base.add(Document(id="b", text="Another text."))


async def test_why_not_by_title_path_or_beginning(tmp_path: Path) -> None:
    """As `show` names documents; several are an error, and none is an answer."""
    for name in ("lakes", "oaks"):
        (tmp_path / f"{name}.md").write_text(f"# On {name}\n\nText about {name}.\n")
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        await base.add(tmp_path)
        (oaks,) = await base.documents(filters={"title": "On oaks"})
        for called in (oaks.id, oaks.id[:6], "On oaks", tmp_path / "oaks.md", "oaks.md"):
            assert (await base.why_not("lakes", str(called), top_k=1)).document_id == oaks.id
        with pytest.raises(ConfigError, match=r"is not unique: .*On lakes.*; give the id of one"):
            await base.why_not("lakes", str(tmp_path))
        assert "there is no document" in (await base.why_not("lakes", "On elms")).reason


async def test_a_representation_is_one_short_line() -> None:
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        await base.add(
            *(Document(id=f"d{n}", title="Oaks " * 30, text="word " * n) for n in (9, 99))
        )
        assert repr(base) == "AsyncKnowledgeBase(':memory:')"
        hits = await base.retrieve("word")
        assert repr(hits).startswith("Results(2 hits, best: RetrievalResult(1, 0.")
        shown = [hits, hits[0], await base.search("word"), await base.context("word " * 50)]
        for each in map(repr, shown):
            assert "\n" not in each
            assert len(each) <= 120, each


async def test_top_k_passages_bring_only_their_documents() -> None:
    """`top_k_items` alone is a number of documents."""
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        texts = ["oak oak oak", "oak elm", "oak lake"]
        await base.add(*(Document(id=f"d{n}", text=text) for n, text in enumerate(texts)))
        few = await base.search("oak", top_k=1)
        assert [item.item_id for item in few.candidates] == [few.evidence[0].item_id]
        assert len((await base.search("oak", top_k=1, top_k_items=2)).candidates) == 2
        assert len((await base.search("oak", top_k_chunks=1)).candidates) == 3
