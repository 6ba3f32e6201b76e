"""Uploads as tasks: files, documents, failures, cancellation, and a server that is killed."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import httpx
import pytest

from lagotto.sync_facade import KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import Running, serving
from tests.server.test_events import parsed


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def ended(http: httpx.Client, task: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The task when it has ended."""
    until = time.monotonic() + 60
    while task["state"] in ("enqueued", "processing"):
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
    assert server.http.get("/v1/tasks/none").status_code == 404
    assert server.http.post(f"/v1/tasks/{sent['id']}/cancel").status_code == 409


def test_forms_that_can_not_be(server: Running) -> None:
    file = {"file": ("a.txt", b"text")}
    wrong: list[dict[str, Any]] = [
        {"files": file, "data": {"metadata": "{"}},
        {"files": file, "data": {"metadata": "[1]"}},
        {"files": file, "data": {"colection": "a"}},
        {"files": {"other": ("a.txt", b"text")}},
    ]
    for arguments in wrong:
        assert server.http.post("/v1/documents", **arguments).status_code == 422, arguments
    broken = server.http.post(
        "/v1/documents", content=b"nonsense", headers={"Content-Type": "multipart/form-data"}
    )
    assert broken.status_code == 400


def test_cancelling_a_task(server: Running) -> None:
    worker = server.state.worker
    many = [{"id": f"m{number}", "text": f"Text {number}. " * 200} for number in range(300)]
    first = server.post("/v1/documents", {"documents": many}).json()
    second = server.post("/v1/documents", {"documents": [{"id": "never", "text": "No."}]}).json()
    assert server.http.post(f"/v1/tasks/{second['id']}/cancel").json()["state"] == "cancelled"
    server.http.post(f"/v1/tasks/{first['id']}/cancel")
    assert ended(server.http, first)["state"] in ("cancelled", "succeeded")
    assert server.http.get("/v1/documents/never").status_code == 404
    assert worker is server.state.worker


def test_of_keys(server: Running) -> None:
    """A key sees its own tasks, and can't add what it would not see."""
    with serving() as own:
        keys = own.state.keys
        one, _ = own.call(keys.create("one", scopes=["read", "write"], collections=["default"]))
        two, _ = own.call(keys.create("two", scopes=["read", "write"], collections=["b"]))
        reader, _ = own.call(keys.create("reader"))
        body = {"documents": [{"id": "mine", "text": "My text."}]}
        sent = own.post("/v1/documents", body, key=one)
        assert sent.status_code == 202
        path = f"/v1/tasks/{sent.json()['id']}"
        ended(own.http, sent.json(), Authorization=f"Bearer {one}")
        for suffix in ("", "/events"):
            hidden = own.http.get(path + suffix, headers={"Authorization": f"Bearer {two}"})
            assert hidden.status_code == 404
        listed = own.http.get("/v1/tasks", headers={"Authorization": f"Bearer {two}"}).json()
        assert listed["tasks"] == []
        assert own.post("/v1/documents", body, key=two).status_code == 403
        assert own.post("/v1/documents", body, key=reader).status_code == 403
        upload = own.http.post(
            "/v1/documents",
            files={"file": ("a.txt", b"text")},
            headers={"Authorization": f"Bearer {two}"},
        )
        assert upload.status_code == 403


def test_a_filtered_key_replaces_nothing_hidden() -> None:
    from lagotto.filters import Eq

    with serving() as own:
        secret, _ = own.call(
            own.state.keys.create("k", scopes=["read", "write"], filters=Eq("topic", "dogs"))
        )
        visible = {"id": "dog2", "text": "Another dog.", "metadata": {"topic": "dogs"}}
        assert own.post("/v1/documents", {"documents": [visible]}, key=secret).status_code == 202
        stolen = {"id": "oak", "text": "Mine now.", "metadata": {"topic": "dogs"}}
        assert own.post("/v1/documents", {"documents": [stolen]}, key=secret).status_code == 403
        unseen = {"id": "x", "text": "Hidden."}
        assert own.post("/v1/documents", {"documents": [unseen]}, key=secret).status_code == 403


SERVER = """
import sys
from lagotto.server.settings import ServerSettings
from lagotto.server.app import create_app
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder
import uvicorn

base = AsyncKnowledgeBase(sys.argv[1], embedder=HashEmbedder())
app = create_app(ServerSettings(location=sys.argv[1], lease=1.0), base)
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


@pytest.mark.slow
def test_a_killed_server_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Acknowledged uploads are done by the next server, each document once."""
    from tests.server.test_serve import free_port

    path, acknowledged = tmp_path / "kb.db", []
    for round_ in range(3):
        port = free_port()
        command = [sys.executable, "-c", SERVER, str(path), str(port)]
        process = subprocess.Popen(command, env=os.environ)
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        _wait(http)
        for part in range(3):
            documents = [
                {"id": f"r{round_}p{part}d{number}", "text": f"Text {number} of {part}. " * 20}
                for number in range(150)
            ]
            sent = http.post("/v1/documents", json={"documents": documents})
            assert sent.status_code == 202
            acknowledged.append(sent.json()["id"])
        time.sleep(0.15 * round_)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        http.close()
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(path), str(port)], env=os.environ)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            _wait(http)
            tasks = [ended(http, http.get(f"/v1/tasks/{name}").json()) for name in acknowledged]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert {task["state"] for task in tasks} == {"succeeded"}
    for task in tasks:
        report = task["report"]
        assert report["added"] + report["unchanged"] == 150
        assert report["updated"] == 0
    with KnowledgeBase(path, embedder=HashEmbedder()) as kb:
        assert kb.info().documents == 3 * 3 * 150
        assert kb.run(kb.base._record.keyed_values.items("upload")) == []


def _wait(http: httpx.Client) -> None:
    for _ in range(300):
        try:
            if http.get("/healthz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the server does not answer")


def archive(**parts: bytes) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml"), data)
    return made.getvalue()


ENTITIES = (
    b'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (c, b"&%c;" % (c - 1) * 10) for c in range(98, 108))
    + b"]><w:document xmlns:w='x'><w:body><w:p>&k;</w:p></w:body></w:document>"
)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(archive(word__document_xml=bytes(60_000_000)), id="zip"),
        pytest.param(archive(word__document_xml=ENTITIES), id="xml"),
    ],
)
def test_bombs_in_uploads_are_failures(server: Running, data: bytes) -> None:
    assert len(data) < 1_000_000
    sent = server.http.post("/v1/documents", files={"file": ("bomb.docx", data)})
    task = ended(server.http, sent.json())
    assert task["state"] == "failed"
    assert task["report"]["failures"]
    assert server.http.get("/readyz").status_code == 200
