"""Uploads as tasks: files, documents, failures, cancellation, and a server that is killed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.base.ingest import AddReport
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import StoreError, StoreUnavailableError
from lagotto.filters import Eq
from lagotto.server.access import Access, digest_of
from lagotto.server.problems import Problem
from lagotto.server.settings import ServerSettings
from lagotto.server.tasks import (
    MOST_NAMED,
    OPEN,
    ORPHANED,
    TASK,
    UPLOAD,
    PendingWrites,
    StoredTask,
    Task,
    TaskQueue,
    TaskRun,
    Upload,
    Writes,
    do_tasks,
    writes_of,
)
from lagotto.stores.sql.extras import SqlKeyedValues
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import Running, bearer, serving, wait_until
from tests.server.server_process import server_process
from tests.server.test_events import parsed


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def ended(http: httpx.Client, task: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The task when it has ended."""
    return after(http, task, ("enqueued", "processing"), **headers)


def after(
    http: httpx.Client, task: dict[str, Any], states: tuple[str, ...], **headers: str
) -> dict[str, Any]:
    """The task when neither it nor its first file is in one of these states."""
    until = time.monotonic() + 60
    while task["state"] in states or task["files"][0]["state"] in states:
        assert time.monotonic() < until, task
        time.sleep(0.02)
        task = http.get(f"/v1/tasks/{task['id']}", headers=headers).json()
    return task


def test_files(server: Running) -> None:
    files = [
        ("file", ("../../etc/notes.md", b"# Notes\n\nA heron stands in the reeds.\n")),
        ("file", ("birds.txt", b"Cranes dance in spring.")),
        ("file", ("broken.pdf", b"%PDF-1.4 nothing else")),
    ]
    data = {"collection": "birds", "metadata": '{"year": 2024}', "language": "en"}
    sent = server.http.post("/v1/documents", files=files, data=data)
    assert sent.status_code == 202
    task = ended(server.http, sent.json())
    assert task["state"] == "succeeded"
    assert [file["state"] for file in task["files"]] == ["succeeded", "succeeded", "failed"]
    assert task["report"]["added"] == 2
    (failure,) = task["report"]["failures"]
    assert (failure["source"], failure["error"]) == ("broken.pdf", "CorruptSourceError")
    found = server.post("/v1/retrieve", {"query": "heron", "filters": {"year": 2024}}).json()
    assert found["hits"][0]["document_source"] == "../../etc/notes.md"
    assert found["hits"][0]["collection"] == "birds"
    again = ended(server.http, server.http.post("/v1/documents", files=files[:2], data=data).json())
    assert again["report"]["unchanged"] == 2


def test_documents(server: Running) -> None:
    body = {"documents": [{"id": "otter", "text": "Otters hunt at dusk.", "metadata": {"n": 1}}]}
    task = ended(server.http, server.post("/v1/documents", body).json())
    assert task["report"]["added"] == 1
    stored = server.http.get("/v1/documents/otter").json()
    assert (stored["text"], stored["metadata"]) == ("Otters hunt at dusk.", {"n": 1})
    wrong = server.post("/v1/documents", {"documents": [{"text": "a", "titel": "b"}]})
    assert wrong.json()["errors"][0]["pointer"] == "/documents/0/titel"
    assert server.post("/v1/documents", {"documents": []}).status_code == 422


def test_tasks_are_listed_and_streamed(server: Running) -> None:
    sent = server.post("/v1/documents", {"documents": [{"text": "A short text."}]}).json()
    answer = server.http.get(f"/v1/tasks/{sent['id']}/events")
    events = parsed(answer.text)
    assert events[-1][1] == "end"
    assert events[-2][2]["state"] == "succeeded"
    numbers = [number for number, _, _ in events]
    assert numbers == sorted(set(numbers))
    headers = {"Last-Event-ID": str(events[-2][0])}
    rest = server.http.get(f"/v1/tasks/{sent['id']}/events", headers=headers).text
    assert [name for _, name, _ in parsed(rest)] == ["end"]
    listed = server.http.get("/v1/tasks", params={"limit": 1}).json()
    assert [task["id"] for task in listed["tasks"]] == [sent["id"]]
    more = server.http.get("/v1/tasks", params={"after": listed["next"]}).json()
    assert sent["id"] not in [task["id"] for task in more["tasks"]]
    assert more["next"] is None
    assert server.http.get("/v1/tasks/none").status_code == 404
    assert server.http.post(f"/v1/tasks/{sent['id']}/cancel").status_code == 409


def test_forms_that_can_not_be(server: Running) -> None:
    file = {"file": ("a.txt", b"text")}
    wrong: list[dict[str, Any]] = [
        {"files": file, "data": {"metadata": "{"}},
        {"files": file, "data": {"metadata": "[1]"}},
        {"files": file, "data": {"colection": "a"}},
        {"files": file, "data": {"language": "é"}},
        {"files": {"other": ("a.txt", b"text")}},
    ]
    for arguments in wrong:
        assert server.http.post("/v1/documents", **arguments).status_code == 422, arguments
    broken = server.http.post(
        "/v1/documents", content=b"nonsense", headers={"Content-Type": "multipart/form-data"}
    )
    assert broken.status_code == 400


async def forever(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


def test_cancelling_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits is never begun, and one that is under way ends where it is."""
    with serving(lease=0.2) as own:
        monkeypatch.setattr(own.state.base, "add_guarded", forever)
        first = own.post("/v1/documents", {"documents": [{"text": "Long."}]}).json()
        second = own.post("/v1/documents", {"documents": [{"text": "Never."}]}).json()
        first = after(own.http, first, ("enqueued",))
        assert (first["state"], first["files"][0]["state"]) == ("processing", "processing")
        waiting = own.http.post(f"/v1/tasks/{second['id']}/cancel").json()
        assert (waiting["state"], waiting["files"][0]["state"]) == ("cancelled", "cancelled")
        own.http.post(f"/v1/tasks/{first['id']}/cancel")
        first = ended(own.http, first)
        assert (first["state"], first["files"][0]["state"]) == ("cancelled", "cancelled")


def test_a_task_that_fails_says_so_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as own:

        async def fail(*_: object, **__: object) -> AddReport:
            raise StoreError("the disk is gone")

        monkeypatch.setattr(own.state.base, "add_guarded", fail)
        task = ended(own.http, own.post("/v1/documents", {"documents": [{"text": "A."}]}).json())
        assert (task["state"], task["error"]) == ("failed", "StoreError")
        assert task["files"][0]["state"] == "failed"


def test_of_a_revoked_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has queued is not done, what is under way ends, and so does its stream."""
    with serving(lease=0.2) as own:
        monkeypatch.setattr(own.state.base, "add_guarded", forever)
        admin = own.key("write", "admin")
        secret = own.key("read", "write", name="web")
        sent = [
            own.post("/v1/documents", {"documents": [{"text": text}]}, key=secret).json()
            for text in ("Under way.", "Queued.")
        ]
        after(own.http, sent[0], ("enqueued",), **bearer(secret))
        path = f"/v1/tasks/{sent[0]['id']}/events"
        with own.http.stream("GET", path, headers=bearer(secret)) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("id: ")
            own.call(own.state.keys.revoke("web"))
            *_, last = parsed("\n".join(["id: 0", *lines]))
        assert (last[1], last[2]["error"]) == ("error", "Unauthorized")
        for task in sent:
            done = ended(own.http, task, **bearer(admin))
            assert (done["state"], done["error"]) == ("cancelled", "Unauthorized")
            assert done["report"]["added"] == 0


def test_of_an_expired_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sent while it was valid is done."""
    with serving() as own:
        soon = datetime.now(UTC) + timedelta(hours=1)
        admin = own.key("write", "admin")
        secret, key = own.call(own.state.keys.create("web", scopes=["write"], expires_at=soon))
        add = own.state.base.add_guarded
        begun, expired = threading.Event(), threading.Event()

        async def later(*args: Any, **options: Any) -> AddReport:
            begun.set()
            await asyncio.to_thread(expired.wait, 60)
            return await add(*args, **options)

        monkeypatch.setattr(own.state.base, "add_guarded", later)
        bodies = [{"documents": [{"text": text}]} for text in ("One.", "Two.")]
        sent = [own.post("/v1/documents", body, key=secret).json() for body in bodies]
        assert begun.wait(60)
        values = own.state.tasks.values
        stored = key.model_copy(update={"expires_at": datetime.now(UTC)}).model_dump(mode="json")
        own.call(values.put("api_key", digest_of(secret), stored))
        assert own.post("/v1/documents", bodies[0], key=secret).status_code == 401
        expired.set()
        for task in sent:
            done = ended(own.http, task, **bearer(admin))
            assert (done["state"], done["report"]["added"]) == ("succeeded", 1)


def test_of_keys() -> None:
    """A key sees its own tasks, and can't add what it would not see."""
    with serving() as own:
        one, two = (own.key("read", "write", collections=[name]) for name in ("default", "b"))
        body = {"documents": [{"id": "mine", "text": "My text."}]}
        sent = own.post("/v1/documents", body, key=one)
        assert sent.status_code == 202
        path = f"/v1/tasks/{sent.json()['id']}"
        ended(own.http, sent.json(), **bearer(one))
        for suffix in ("", "/events"):
            assert own.get(path + suffix, key=two).status_code == 404
        assert own.get("/v1/tasks", key=two).json()["tasks"] == []
        assert own.post("/v1/documents", body, key=two).status_code == 403
        assert own.post("/v1/documents", body, key=own.key()).status_code == 403
        file = {"file": ("a.txt", b"text")}
        upload = own.http.post("/v1/documents", files=file, headers=bearer(two))
        assert upload.status_code == 403


def test_a_filtered_key_replaces_nothing_hidden() -> None:
    with serving() as own:
        secret = own.key("read", "write", filters=Eq("topic", "dogs"))
        visible = {"id": "dog2", "text": "Another dog.", "metadata": {"topic": "dogs"}}
        assert own.post("/v1/documents", {"documents": [visible]}, key=secret).status_code == 202
        stolen = {"id": "oak", "text": "Mine now.", "metadata": {"topic": "dogs"}}
        assert own.post("/v1/documents", {"documents": [stolen]}, key=secret).status_code == 403
        unseen = {"id": "x", "text": "Hidden."}
        assert own.post("/v1/documents", {"documents": [unseen]}, key=secret).status_code == 403


def test_an_impossible_language_is_refused_and_one_in_the_base_stops_nobody() -> None:
    """Stemming fails at it: one document would stop the searches of everybody."""
    with serving() as own:
        secret, other = (
            own.key("read", "write", filters=Eq("topic", topic)) for topic in ("dogs", "b")
        )
        poison = {"id": "p", "text": "A poison.", "language": "é", "metadata": {"topic": "dogs"}}
        refused = own.post("/v1/documents", {"documents": [poison]}, key=secret)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/documents/0/language"
        body = {"documents": [{**poison, "language": None}], "language": "é"}
        assert own.post("/v1/documents", body, key=secret).status_code == 422
        stored = Document.model_validate({**poison, "language": "en"})
        own.call(own.state.base.add(stored.model_copy(update={"language": "é"})))
        for verb in ("retrieve", "search", "context"):
            for mode in ("hybrid", "semantic", "keyword"):
                answer = own.post(f"/v1/{verb}", {"query": "dog", "mode": mode}, key=other)
                assert answer.status_code == 200
                assert "é" not in answer.text
        fine = {"id": "f", "text": "Fine.", "metadata": {"topic": "b"}}
        sent = own.post("/v1/documents", {"documents": [fine]}, key=other)
        assert ended(own.http, sent.json(), **bearer(other))["state"] == "succeeded"


def test_an_admin_who_sees_a_part_has_no_business_with_the_tasks_of_others() -> None:
    with serving() as own:
        whole, writer = own.key("read", "write", "admin"), own.key("read", "write")
        part = own.key("read", "write", "admin", collections=["default"])
        sent = own.post("/v1/documents", {"documents": [{"text": "Mine."}]}, key=writer).json()
        judged = {"query": "dog", "citation": "default/dog#0-9", "relevance": 1}
        assert own.post("/v1/judgements", judged, key=writer).status_code == 200
        for secret, found in ((whole, 1), (part, 0), (writer, 1)):
            listed = own.get("/v1/tasks", key=secret).json()["tasks"]
            one = own.get(f"/v1/tasks/{sent['id']}", key=secret)
            assert (len(listed), one.status_code) == (found, 200 if found else 404)
            said = own.get("/v1/judgements", key=secret).json()["judgements"]
            assert len(said) == found
        ended(own.http, sent, **bearer(writer))


def test_files_of_a_filtered_key_are_checked_when_they_are_read() -> None:
    """What a file is called and holds is known only then: it may hide itself, or replace others."""
    with serving() as own:
        upload: dict[str, Any] = {"files": {"file": ("a.txt", b"The first text.")}}
        hidden = ended(own.http, own.http.post("/v1/documents", **upload).json())
        assert hidden["state"] == "succeeded"
        authorised = bearer(own.key("write", filters=Eq("topic", "dogs")))
        for name, topic in (("a.txt", "dogs"), ("b.txt", "trees"), ("c.txt", "dogs")):
            sent = own.http.post(
                "/v1/documents",
                files={"file": (name, b"Another text.")},
                data={"metadata": f'{{"topic": "{topic}"}}'},
                headers=authorised,
            )
            assert sent.status_code == 202
            task = ended(own.http, sent.json(), **authorised)
            errors = [failure["error"] for failure in task["report"]["failures"]]
            assert errors == ([] if name == "c.txt" else ["Forbidden"])
        stored = own.call(own.state.base.documents(collection="default"))
        found = {item.source: item.metadata for item in stored if item.source}
        assert found == {"a.txt": {}, "c.txt": {"topic": "dogs"}}


@pytest.mark.slow
def test_a_killed_server_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Acknowledged uploads are done by the next server, each document once."""
    path, acknowledged = tmp_path / "kb.db", []
    rounds, parts, each = 2, 2, 50
    for round_ in range(rounds):
        with server_process(str(path)) as (http, process):
            for part in range(parts):
                documents = [
                    {"id": f"r{round_}p{part}d{number}", "text": f"Text {number} of {part}. " * 20}
                    for number in range(each)
                ]
                sent = http.post("/v1/documents", json={"documents": documents})
                assert sent.status_code == 202
                acknowledged.append(sent.json()["id"])
            time.sleep(0.15 * round_)
            process.kill()
            process.wait()
    with server_process(str(path)) as (http, process):
        tasks = [ended(http, http.get(f"/v1/tasks/{name}").json()) for name in acknowledged]
        wait_until(lambda: kept_values(path) == [])  # its marks go after a task has ended
        process.terminate()
        process.wait()
    assert {task["state"] for task in tasks} == {"succeeded"}
    for task in tasks:
        report = task["report"]
        assert report["added"] + report["unchanged"] == each
        assert report["updated"] == 0
    with KnowledgeBase(path, embedder=HashEmbedder()) as kb:
        assert kb.info().documents == rounds * parts * each


def kept_values(path: Path) -> list[Any]:
    """Uploads and marks of open tasks in a base."""
    with KnowledgeBase(path, embedder=HashEmbedder()) as kb:
        values = kb.base._record.keyed_values
        return [item for kind in ("upload", "open_task") for item in kb.run(values.items(kind))]


def test_tasks_wait_while_the_base_can_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that meets an outage is taken up again; whoever sent it need not know."""
    with serving(lease=0.3) as own:
        add, calls = own.state.base.add_guarded, []

        async def fail_first(*documents: Any, **options: Any) -> AddReport:
            calls.append(documents)
            if len(calls) == 1:
                raise StoreUnavailableError("the database is gone")
            return await add(*documents, **options)

        monkeypatch.setattr(own.state.base, "add_guarded", fail_first)
        sent = own.post("/v1/documents", {"documents": [{"id": "late", "text": "A text."}]})
        assert ended(own.http, sent.json())["report"]["added"] == 1
        assert len(calls) == 2


FILES = [Upload("first.txt", b"The first file."), Upload("second.txt", b"The second file.")]
PATIENT = ServerSettings(location=":memory:", lease=600)
"""The settings of a process that does not notice that its lease has ended."""


class Base(AsyncKnowledgeBase):
    """Notes what is added; `held` files are added only when they are let go."""

    def __init__(self) -> None:
        super().__init__(":memory:", embedder=HashEmbedder())
        self.begun: list[str] = []
        self.held = {"second.txt"}
        self.released = asyncio.Event()

    async def add_guarded(self, documents: Any, *args: Any, **options: Any) -> AddReport:
        (document,) = documents
        assert isinstance(document, Document)
        self.begun.append(document.source or "")
        if document.source in self.held:
            await self.released.wait()
        return await super().add_guarded(documents, *args, **options)


class Setting:
    """A base and its tasks, on which several processes work."""

    def __init__(self, base: Base, **settings: Any) -> None:
        self.base = base
        self.values = base.store.keyed_values
        self.settings = ServerSettings(location=":memory:", **settings)
        self.queue = TaskQueue(self.values, self.settings)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Another process does tasks meanwhile."""
        running = asyncio.create_task(do_tasks(self.queue, self.base))
        try:
            yield
        finally:
            await died(running)

    async def claim(self, owner: str = "") -> TaskRun | None:
        claimed = await self.queue.claim(owner)
        return claimed and TaskRun(*claimed, self.queue, self.base)

    async def stored(self, task: Task) -> StoredTask:
        return (await self.queue.get(task.id, Access()))[1]

    async def until(self, task: Task, reached: Callable[[StoredTask], bool]) -> StoredTask:
        """The task once it has come so far."""
        async with asyncio.timeout(60):
            while not reached(stored := await self.stored(task)):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return stored

    async def done(self, task: Task) -> StoredTask:
        return await self.until(task, lambda stored: stored.task.state == "succeeded")


@pytest.fixture
async def base() -> AsyncIterator[Base]:
    async with Base() as base:
        yield base


def first_is_done(stored: StoredTask) -> bool:
    return stored.task.files[0].state == "succeeded"


async def died(running: asyncio.Task[None]) -> None:
    """End a task as if its process had been killed."""
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_what_is_done_is_not_done_again_by_another_process(base: Base) -> None:
    setting = Setting(base, lease=0.3)
    task = await setting.queue.submit(FILES, Access())
    run = await setting.claim()
    assert run is not None
    running = asyncio.create_task(run.run())
    await setting.until(task, first_is_done)
    await died(running)
    base.released.set()
    async with setting.working(), asyncio.timeout(60):
        ended = await setting.done(task)
        while await setting.values.items(OPEN):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert base.begun[0] == "first.txt"
    assert set(base.begun[1:]) == {"second.txt"}
    assert [file.report.added for file in ended.task.files] == [1, 1]
    assert ended.task.report.added == 2
    assert await setting.values.items(UPLOAD) == []


async def test_what_a_process_that_died_did_not_remove_goes_with_the_task(base: Base) -> None:
    """It stored that a file is done, and was killed before it removed what had been sent."""
    setting, base.held = Setting(base), set()
    task = await setting.queue.submit(FILES, Access())
    version, stored = await setting.queue.get(task.id, Access())
    done = stored.changed(**stored.in_state("succeeded")).changed(state="processing")
    assert await setting.queue.put(done, expected=version)
    async with setting.working():
        await setting.done(task)
    assert base.begun == []
    assert await setting.values.items(UPLOAD) == []


async def test_a_task_that_is_worked_on_is_left_alone(base: Base) -> None:
    setting = Setting(base, lease=600)
    await setting.queue.submit(FILES, Access())
    assert await setting.claim() is not None
    assert await setting.claim() is None


async def test_a_process_that_lost_its_lease_changes_nothing(base: Base) -> None:
    """It was stopped for so long that another one has taken the task over."""
    setting = Setting(base, lease=0.001)
    base.held = set()
    task = await setting.queue.submit(FILES, Access())
    lost = await setting.claim("slow")
    assert lost is not None
    await asyncio.sleep(0.01)  # more than the lease
    assert await setting.claim("quick") is not None
    before = await setting.stored(task)
    await lost.run()
    assert await setting.stored(task) == before
    assert before.owner == "quick"
    assert await setting.values.data(UPLOAD, f"{task.id}/000000") == FILES[0].data


async def test_a_process_that_ends_gives_its_task_back(base: Base) -> None:
    """The next one need not wait for the end of the lease."""
    setting = Setting(base, lease=600)
    task = await setting.queue.submit(FILES, Access())
    async with setting.working():
        await setting.until(task, lambda stored: first_is_done(stored) and len(base.begun) == 2)
    stored = await setting.stored(task)
    assert stored.task.state == "enqueued"
    assert [file.state for file in stored.task.files] == ["succeeded", "enqueued"]
    base.released.set()
    async with setting.working():
        await setting.done(task)
    assert base.begun == ["first.txt", "second.txt", "second.txt"]


def revision(number: int) -> list[Upload]:
    """An upload of a document, the same one each time."""
    document = Document(id="shared", text=f"Revision {number}.", source=f"r{number}")
    data = json.dumps([document.model_dump(mode="json")]).encode()
    return [Upload("documents.json", data, "documents")]


SHARED = writes_of([Document(id="shared", text="")])


async def text_of_shared(base: Base) -> str | None:
    stored = await base.get("shared")
    return stored.text if stored else None


async def test_uploads_of_one_document_are_done_in_order(base: Base) -> None:
    """Even if the process that had begun the first one has died, and its lease goes on."""
    setting = Setting(base, lease=600)
    base.held = set()
    first, second = [
        await setting.queue.submit(revision(number), Access(), writes=SHARED) for number in (1, 2)
    ]
    other = await setting.queue.submit(
        revision(3), Access(), writes=writes_of([Document(id="other", text="")])
    )
    left = await setting.claim()
    assert left is not None
    assert left._stored.task.id == first.id
    claimed = await setting.claim()
    assert claimed is not None
    assert claimed._stored.task.id == other.id  # not the second one, which waits for the first
    assert await setting.claim() is None
    over = left._stored.model_copy(update={"lease_until": 0.0})
    await setting.values.put(TASK, first.id, over.model_dump(mode="json"))
    async with setting.working():
        await setting.done(second)
    assert await text_of_shared(base) == "Revision 2."
    assert base.begun == ["r1", "r2"]


async def test_a_process_that_wakes_up_late_does_not_bring_the_older_upload_back(
    base: Base,
) -> None:
    setting = Setting(base, lease=0.001)
    first = await setting.queue.submit(revision(1), Access(), writes=SHARED)
    second = await setting.queue.submit(revision(2), Access(), writes=SHARED)
    base.held = {"r1"}
    claimed = await setting.claim()
    assert claimed is not None
    claimed._queue = TaskQueue(setting.values, PATIENT)
    late = asyncio.create_task(claimed.run())
    async with asyncio.timeout(60):
        while base.begun != ["r1"]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    base.held = set()
    async with setting.working():
        await setting.done(first)
        await setting.done(second)
        base.released.set()
        await late
    assert await text_of_shared(base) == "Revision 2."


async def test_the_order_of_uploads_does_not_depend_on_the_clock(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting(base)
    now = time.time()
    names = []
    for moment in (now, now, now - 3_600, now - 7_200, now + 1):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        names.append((await setting.queue.submit(FILES, Access())).id)
    assert names == sorted(names)
    assert [item.name for item in await setting.values.items(OPEN)] == names


@pytest.mark.parametrize(
    ("writes", "waits"),
    [
        ({"a": ("1",)}, True),
        ({"a": ("3",)}, False),
        ({"a": None}, True),
        ({"b": ("1",)}, True),  # it may be any document there
        ({"c": None}, False),
        ({"c": ("9",), "a": ("2",)}, True),
    ],
)
def test_which_tasks_wait_for_others(writes: Writes, waits: bool) -> None:
    pending = PendingWrites()
    pending.add({"a": ("1",)})
    pending.add({"a": ("2",), "b": None})
    pending.add({"b": ("7",)})
    assert pending.overlap(writes) is waits
    many = [Document(id=str(number), text="") for number in range(MOST_NAMED + 1)]
    assert writes_of(many) == {"default": None}
    assert len(writes_of(many[1:])["default"] or ()) == MOST_NAMED


async def test_too_many_tasks_are_told_to_come_back(base: Base) -> None:
    setting = Setting(base, max_tasks=2)
    first = await setting.queue.submit(FILES, Access())
    await setting.queue.submit(FILES, Access())
    with pytest.raises(Problem, match="2 tasks are waiting; try again later") as refused:
        await setting.queue.submit(FILES, Access())
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
    await setting.queue.cancel(first.id, Access())
    await setting.queue.submit(FILES, Access())


async def test_what_ended_long_ago_is_removed(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are files that were stored for a request that was never acknowledged."""
    setting = Setting(base, keep_tasks=86_400)
    over = await setting.queue.submit(FILES, Access())
    await setting.queue.cancel(over.id, Access())
    waiting = await setting.queue.submit(FILES, Access())
    await setting.values.put(UPLOAD, "lost/000000", {"task": "lost", "at": time.time()}, data=b"x")

    async def kept() -> tuple[set[str], set[str]]:
        await setting.queue.clean_up()
        files = {item.value["task"] for item in await setting.values.items(UPLOAD)}
        return {item.name for item in await setting.values.items(TASK)}, files

    assert await kept() == ({over.id, waiting.id}, {waiting.id, "lost"})
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ORPHANED + 1)
    assert await kept() == ({over.id, waiting.id}, {waiting.id})
    monkeypatch.setattr(time, "time", lambda: now + 86_401)
    assert await kept() == ({waiting.id}, {waiting.id})


async def test_an_upload_is_stored_in_one_transaction(tmp_path: Path) -> None:
    """Each of them waits for others that write, and for the disk."""
    store = SqliteStore(tmp_path / "kb.db")
    await store.open()
    writes = list[str]()

    async def write(change: Callable[[Any], Any]) -> Any:
        writes.append("write")
        return await store.change(change)

    values = SqlKeyedValues(store.ask, write)
    queue = TaskQueue(values, ServerSettings(location=":memory:"))
    task = await queue.submit(FILES, Access())
    assert writes == ["write"]
    assert [item.name for item in await values.items(OPEN)] == [task.id]
    stored = [await values.data(UPLOAD, item.name) for item in await values.items(UPLOAD)]
    assert stored == [file.data for file in FILES]
    assert await values.put(OPEN, "again", {})
    assert writes == ["write"] * 2
    await store.close()
