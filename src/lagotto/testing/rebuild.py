"""The contract of rebuilding a base, as tests: inherit, and say where bases are.

A rebuilt base answers exactly as one that was made anew with the same choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lagotto.base.copy import copy_base
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.rebuild import RebuildProgress
from lagotto.chunkers import CHUNKERS
from lagotto.chunkers.spans import SpanChunker
from lagotto.documents import Document
from lagotto.embedders import EMBEDDERS, Role
from lagotto.errors import ModelMismatchError, StoreBusyError
from lagotto.stores.base import BaseConfig, Staging
from lagotto.testing.hash_embedder import HashEmbedder

WORDS = ("truffles", "training", "dogs", "oaks", "hazel", "lakes", "winter", "patience", "smell")
QUERIES = ("truffles", "training dogs", "oaks and hazel", "lakes in winter", "note 7")
OLD: dict[str, Any] = {"embedder": "hashed:old/64", "chunker": "sentence:24/4"}

Answers = list[list[tuple[float, str, str]]]


class Stop(Exception):  # noqa: N818
    """Stands for whatever may stop a rebuild."""


def hashed(parameters: str) -> HashEmbedder:
    """`hashed:NAME/DIMENSION`."""
    name, _, dimension = parameters.partition("/")
    return HashEmbedder(model_id=name, dimension=int(dimension))


def document(number: int) -> Document:
    """A document of a few sentences; no two have all their words in common."""
    words = [word for bit, word in enumerate(WORDS) if (number * 37 + 11) >> bit & 1]
    return Document(
        id=f"d{number:03}",
        collection="default" if number % 3 else "other",
        title=f"Note {number}",
        text="".join(f"Note {number} on {word}, which is {word}. " for word in words),
        language="en",
        metadata={"number": number},
    )


DOCUMENTS = [document(number) for number in range(30)]


async def answers(base: AsyncKnowledgeBase) -> Answers:
    """What a base finds."""
    return [
        sorted((-round(hit.score, 4), hit.document_id, hit.content) for hit in hits)
        for hits in await base.retrieve_many(QUERIES, top_k=500)
    ]


def texts(results: Answers) -> list[set[tuple[str, str]]]:
    """What was found, without scores: removed chunks may count in those of an index."""
    return [{(name, content) for _, name, content in hits} for hits in results]


async def fresh_answers(choice: dict[str, Any], documents: list[Document]) -> Answers:
    """What a base finds that was made with a choice from the beginning."""
    chosen = {name: value for name, value in choice.items() if name != "text_index"}
    async with AsyncKnowledgeBase(":memory:", **{**OLD, **chosen}) as base:
        await base.add(*documents)
        return await answers(base)


def stop(progress: RebuildProgress) -> None:
    """A progress callback that stops a rebuild once a document is ready."""
    if progress.done:
        raise Stop


class RebuildContract:
    """What a rebuild promises. A subclass has a fixture `location` for an empty base."""

    durable = True
    choices: tuple[dict[str, Any], ...] = (
        {"embedder": "hashed:new/64"},
        {"embedder": "hashed:new/32"},
        {"chunker": "recursive:48/8"},
        {"chunker": "parent-child:64/16/0"},
        {"embedder": "hashed:new/32", "chunker": "page:64/8"},
        {},
    )

    @pytest.fixture(autouse=True)
    def _embedders(self) -> None:
        EMBEDDERS.register("hashed", hashed)

    @pytest.fixture
    async def base(self, location: str | Path) -> AsyncIterator[AsyncKnowledgeBase]:
        """A base with DOCUMENTS, made with OLD."""
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            yield base

    async def test_naming_the_chunker_of_the_base_cuts_again(
        self, location: str | Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As for a base of an earlier version, whose chunks are kept until then."""
        chunker, note = "recursive:24/4", DOCUMENTS[0]
        earlier = partial(SpanChunker, "recursive", defaults=(256, 32), ranks=("word",))
        monkeypatch.setitem(CHUNKERS._registered, "recursive", earlier)
        async with AsyncKnowledgeBase(location, **{**OLD, "chunker": chunker}) as base:
            await base.add(*DOCUMENTS)
            former = await base.chunks(note.id, collection=note.collection)
        monkeypatch.undo()
        async with AsyncKnowledgeBase(location) as base:
            assert (await base.add(*DOCUMENTS)).unchanged == len(DOCUMENTS)
            await base.rebuild()
            assert await base.chunks(note.id, collection=note.collection) == former
            await base.rebuild(chunker=chunker)
            assert await base.chunks(note.id, collection=note.collection) != former
            assert await answers(base) == await fresh_answers({"chunker": chunker}, DOCUMENTS)

    async def test_documents_of_another_chunker_are_cut_again(self, location: str | Path) -> None:
        """They came by a copy of another base; from then on all are cut alike."""
        others = {**OLD, "chunker": "recursive:48/8"}
        async with (
            AsyncKnowledgeBase(":memory:", **others) as source,
            AsyncKnowledgeBase(location, **OLD) as base,
        ):
            await base.add(*DOCUMENTS[:15])
            await source.add(*DOCUMENTS[15:])
            await copy_base(source.store, base.store)
            await base.rebuild()
            assert await answers(base) == await fresh_answers({}, DOCUMENTS)

    async def test_a_rebuilt_base_is_like_a_new_one(self, location: str | Path) -> None:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            for choice in self.choices:
                report = await base.rebuild(**choice)
                assert (report.documents, report.done) == (len(DOCUMENTS), len(DOCUMENTS))
                await self._check(base, choice)
        async with AsyncKnowledgeBase(location) as base:
            await self._check(base, self.choices[-1])

    async def _check(self, base: AsyncKnowledgeBase, choice: dict[str, Any]) -> None:
        config = await base.store.config()
        settings = {**OLD, "embedder": config.embedder, "chunker": config.chunker_id}
        assert choice.items() <= {**settings, "text_index": config.text_index}.items()
        assert await answers(base) == await fresh_answers(settings, DOCUMENTS)
        assert len(await base.documents()) == len(DOCUMENTS)
        for each in DOCUMENTS:
            assert await base.get(each.id, collection=each.collection) == each
        assert not [item for item in await base.store.check() if item.level == "problem"]

    async def test_the_rebuilt_base_can_be_changed(self, location: str | Path) -> None:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS[:20])
            await base.rebuild(**self.choices[1])
            assert (await base.add(*DOCUMENTS)).added == 10
            assert (await base.add(*DOCUMENTS)).unchanged == 30
            await base.remove("d001", "d025")
            remaining = [item for item in DOCUMENTS if item.id not in ("d001", "d025")]
            expected = await fresh_answers(self.choices[1], remaining)
            assert texts(await answers(base)) == texts(expected)

    async def test_searches_see_the_former_state_meanwhile(
        self, location: str | Path, base: AsyncKnowledgeBase
    ) -> None:
        before = await answers(base)
        after = await fresh_answers(self.choices[1], DOCUMENTS)
        async with AsyncKnowledgeBase(location) as other:
            running = asyncio.create_task(base.rebuild(**self.choices[1]))
            seen = []
            while not running.done():
                seen.append(await answers(other))
                await asyncio.sleep(0)
            await running
            assert all(answer in (before, after) for answer in seen)
            assert seen[0] == before
            assert await answers(other) == after
            assert await answers(base) == after

    async def test_a_rebuild_goes_on_where_it_was_stopped(self, location: str | Path) -> None:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            before = await answers(base)
            with pytest.raises(Stop):
                await base.rebuild(**self.choices[1], progress=stop)
            assert await answers(base) == before
            findings = [item.what for item in await base.store.check()]
            assert any("unfinished rebuild" in what for what in findings) or not self.durable
        async with AsyncKnowledgeBase(location) as base:
            assert await answers(base) == before
            report = await base.rebuild(**self.choices[1])
            assert report.resumed > 0 or not self.durable
            assert report.done == len(DOCUMENTS)
            assert await answers(base) == await fresh_answers(self.choices[1], DOCUMENTS)

    async def test_another_choice_begins_anew(self, base: AsyncKnowledgeBase) -> None:
        with pytest.raises(Stop):
            await base.rebuild(**self.choices[1], progress=stop)
        assert (await base.rebuild(**self.choices[2])).resumed == 0
        assert await answers(base) == await fresh_answers(self.choices[2], DOCUMENTS)

    async def test_changes_meanwhile_are_caught_up_with(
        self, location: str | Path, base: AsyncKnowledgeBase
    ) -> None:
        changed = document(3).model_copy(update={"text": "Something else, with hazel."})
        changed = Document.model_validate(changed.model_dump(exclude={"content_hash"}))
        relabelled = document(4).model_copy(update={"metadata": {"number": -4}})
        async with AsyncKnowledgeBase(location, **OLD) as other:
            for _ in range(2):
                with pytest.raises(Stop):
                    await base.rebuild(**self.choices[1], progress=stop)
                await other.add(changed, relabelled, document(99))
                await other.remove("d007", "d008")
            await base.rebuild(**self.choices[1])
            gone = {"d003", "d004", "d007", "d008"}
            remaining = [item for item in DOCUMENTS if item.id not in gone]
            remaining += [changed, relabelled, document(99)]
            expected = await fresh_answers(self.choices[1], remaining)
            assert texts(await answers(base)) == texts(expected)
            assert await base.get("d004") == relabelled

    async def test_a_document_added_just_before_the_switch_is_kept(
        self, location: str | Path, base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late = [document(77)]
        async with AsyncKnowledgeBase(location, **OLD) as other:
            stage = base.store.staging

            @asynccontextmanager
            async def staging(config: BaseConfig) -> AsyncIterator[Staging]:
                async with stage(config) as target:
                    build = target.build_indexes

                    async def build_indexes() -> None:
                        await build()
                        if late:
                            await other.add(late.pop())

                    monkeypatch.setattr(target, "build_indexes", build_indexes)
                    yield target

            monkeypatch.setattr(base.store, "staging", staging)
            assert (await base.rebuild(**self.choices[1])).done == len(DOCUMENTS) + 1
            expected = await fresh_answers(self.choices[1], [*DOCUMENTS, document(77)])
            assert texts(await answers(base)) == texts(expected)

    async def test_others_notice_at_once(
        self, location: str | Path, base: AsyncKnowledgeBase
    ) -> None:
        async with (
            AsyncKnowledgeBase(location) as other,
            AsyncKnowledgeBase(location, embedder="hashed:old/64") as stubborn,
        ):
            assert await answers(other) == await answers(stubborn) == await answers(base)
            await base.rebuild(**self.choices[1])
            assert await answers(other) == await answers(base)
            with pytest.raises(ModelMismatchError, match=r"vectors of new.*vectors of old"):
                await stubborn.retrieve("truffles")
            with pytest.raises(ModelMismatchError):
                await stubborn.add(document(50))
            await base.rebuild(**self.choices[2])
            assert (await other.add(document(50))).added == 1
            assert {item.chunker_id for item in await other.chunks("d050")} == {"recursive:48/8"}

    async def test_an_empty_base_is_rebuilt(self, location: str | Path) -> None:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            assert (await base.rebuild(**self.choices[1])).documents == 0
            await base.add(*DOCUMENTS)
            assert await answers(base) == await fresh_answers(self.choices[1], DOCUMENTS)

    async def test_an_embedder_that_fails_leaves_the_base_alone(
        self, base: AsyncKnowledgeBase
    ) -> None:
        class Failing(HashEmbedder):
            async def embed(self, texts: Any, *, role: Role) -> Any:
                raise Stop

        before = await answers(base)
        with pytest.raises(Stop):
            await base.rebuild(embedder=Failing(model_id="failing", dimension=8))
        assert await answers(base) == before

    async def test_one_rebuild_at_a_time(
        self, location: str | Path, base: AsyncKnowledgeBase
    ) -> None:
        if not self.durable:  # a base in memory has one process
            return
        async with AsyncKnowledgeBase(location, **OLD) as other:
            config = (await base.store.config()).model_copy(update={"generation": 1})
            async with base.store.staging(config):
                with pytest.raises(StoreBusyError, match="another process is rebuilding"):
                    await other.rebuild(**self.choices[1])
            await other.rebuild(**self.choices[1])
