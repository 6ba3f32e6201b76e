"""Attacks on the server, each by its name. Bodies, headers and bombs are in other modules here."""

from __future__ import annotations

import json
import logging
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lagotto.filters import Eq
from lagotto.server.keys import make_key
from lagotto.testing.server import Reply, ScriptedServer
from tests.server.running import Running, serving
from tests.server.test_tasks import ended


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("served") / "kb.db") as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with serving() as running:
        running.call(running.state.keys.create("any"))
        yield running


@pytest.mark.parametrize(
    "path",
    [
        "/v1/documents/..%2f..%2f..%2fetc%2fpasswd",
        "/problems/..%2f..%2fetc%2fpasswd",
        "/../etc/passwd",
    ],
)
def test_path_traversal_in_addresses(server: Running, path: str) -> None:
    answer = server.http.get(path)
    assert answer.status_code in (400, 404)
    assert "root:" not in answer.text


def test_path_traversal_in_uploads(server: Running, tmp_path: Path) -> None:
    """A file name is a label: nothing is read or written by it."""
    target = tmp_path / "target.txt"
    target.write_text("the contents of a file of the server")
    for name in (str(target), f"../../../..{target}", "/etc/passwd"):
        sent = server.http.post("/v1/documents", files={"file": (name, b"Sent as a text.")})
        assert ended(server.http, sent.json())["state"] == "succeeded"
    assert target.read_text() == "the contents of a file of the server"
    found = server.post("/v1/retrieve", {"query": "contents of a file of the server"}).json()
    assert not [hit for hit in found["hits"] if "contents of a file" in hit["content"]]


def test_ssrf(server: Running) -> None:
    """No request makes the server fetch an address."""
    with ScriptedServer({"/": lambda _: Reply({})}) as elsewhere:
        url = elsewhere.url
        bodies: list[tuple[str, dict[str, object]]] = [
            ("/v1/retrieve", {"query": "a", "rerank": {"reranker": f"api:x?base_url={url}"}}),
            ("/v1/retrieve", {"query": "a", "rerank": {"reranker": f"llm:x?base_url={url}"}}),
            ("/v1/rerank", {"query": "a", "documents": ["b"], "model": f"api:x?base_url={url}"}),
            ("/v1/embeddings", {"input": "a", "model": f"openai:x?base_url={url}"}),
            ("/v1/documents", {"documents": [{"text": "a", "source": url}]}),
            ("/v1/resolve", {"citation": url}),
        ]
        for path, body in bodies:
            answer = server.post(path, body)
            assert answer.status_code in (202, 403, 404, 422), answer.text
        sent = server.http.post("/v1/documents", files={"file": (f"{url}/a.html", b"<p>Text</p>")})
        ended(server.http, sent.json())
        assert elsewhere.requests == []


def test_header_and_log_injection(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lagotto.server")
    wanted = "a" * 65
    answer = server.http.get("/healthz", headers={"X-Request-Id": wanted})
    assert answer.headers["x-request-id"] != wanted
    kept = server.http.get("/healthz", headers={"X-Request-Id": "trace-1.2_3"})
    assert kept.headers["x-request-id"] == "trace-1.2_3"
    answer = server.http.get("/v1/documents/a%0d%0aX-Evil:%201")
    assert "x-evil" not in answer.headers
    server.post("/v1/retrieve", {"query": "line one\nline two"})
    for record in caplog.records:
        said = record.getMessage()
        assert "\n" not in said
        assert "line one" not in said
        json.loads(said)


def test_errors_name_no_path_of_the_server(server: Running) -> None:
    folder = str(Path(server.state.base.location).parent)
    answers = [
        server.post("/v1/retrieve", {"query": "a", "prefs": "../../x"}),
        server.post("/v1/retrieve", {"query": "a", "chunking": {"chunker_id": "nothing"}}),
        server.http.get("/v1/info"),
        server.http.get("/v1/documents/nothing"),
    ]
    assert folder
    assert not [answer for answer in answers if folder in answer.text or "Traceback" in answer.text]


def test_guessed_expired_and_revoked_keys(guarded: Running) -> None:
    keys = guarded.state.keys
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired, _ = guarded.call(keys.create("expired", expires_at=past))
    revoked, key = guarded.call(keys.create("revoked"))
    assert guarded.post("/v1/retrieve", {"query": "a"}, key=revoked).status_code == 200
    guarded.call(keys.revoke(key.id))
    for secret in (expired, revoked, make_key(), "lgt_x", revoked[:-1]):
        headers = {"Authorization": f"Bearer {secret}"}
        answer = guarded.http.get("/v1/documents", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded.http.get("/v1/documents").status_code == 401
    assert guarded.http.get("/metrics").status_code == 401
    assert guarded.http.get("/healthz").status_code == 200


def test_key_guessing_takes_constant_time(guarded: Running) -> None:
    """Keys are looked up by hash: a key that shares a long prefix is not slower to refuse."""
    real, _ = guarded.call(guarded.state.keys.create("real"))
    near = [real[:-2] + last for last in ("AA", "BB", "CC")]
    far = [make_key() for _ in range(3)]

    def seconds(secrets: list[str]) -> float:
        spent = []
        for secret in secrets * 40:
            started = time.perf_counter()
            guarded.call(guarded.state.keys.access(secret))
            spent.append(time.perf_counter() - started)
        return statistics.median(spent)

    assert seconds(near) < 5 * seconds(far)


def test_filter_widening(guarded: Running) -> None:
    secret, _ = guarded.call(guarded.state.keys.create("dogs", filters=Eq("topic", "dogs")))
    widening: list[dict[str, object]] = [
        {"filters": {"$or": [{"topic": "dogs"}, {"topic": "trees"}]}},
        {"filters": {"$not": {"topic": "dogs"}}},
        {"filters": {}},
        {"collection": "b"},
        {"prefs": "oasis", "filters": {"topic": "trees"}},
    ]
    for body in widening:
        found = guarded.post("/v1/retrieve", {"query": "truffles", **body}, key=secret).json()
        assert {hit["document_id"] for hit in found["hits"]} <= {"dog"}
        assert "dogs" not in json.dumps(found["settings"]["filters"]) or "dogs" in str(body)


def test_pages_of_other_sites(server: Running) -> None:
    evil = {"Origin": "https://evil.example"}
    body = {"documents": [{"text": "a"}]}
    assert server.http.post("/v1/documents", json=body, headers=evil).status_code == 403
    assert server.http.delete("/v1/documents/dog", headers=evil).status_code == 403
    rebound = server.http.get("/v1/documents", headers={"Host": "evil.example"})
    assert rebound.status_code == 403
    read = server.http.get("/v1/documents", headers=evil)
    assert "access-control-allow-origin" not in read.headers
