"""Attacks on the server, each by its name. Random keys and requests are in test_leaks.py."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import httpx
import pytest

from lagotto.base.ingest import AddReport
from lagotto.documents import Document
from lagotto.errors import EmbeddingError, StoreError, StoreUnavailableError
from lagotto.filters import Eq
from lagotto.server.access import ApiKeys, digest_of, make_key
from lagotto.server.endpoints import OPERATIONS
from lagotto.stores.base import KeyedValue, MemoryKeyedValues
from tests.server.running import Running, bearer, serving
from tests.server.test_tasks import ended
from tests.servers.scripted import Reply, ScriptedServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("served") / "kb.db") as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with serving() as running:
        running.key()
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


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def xml_bomb(levels: int) -> bytes:
    """A document with entities of entities: ten letters, ten times as many with each level."""
    names = range(ord("a") + 1, ord("a") + levels + 1)
    entities = b"".join(b'<!ENTITY %c "%s">' % (name, b"&%c;" % (name - 1) * 10) for name in names)
    head = b'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "aaaaaaaaaa">' + entities + b"]>"
    return head + word(b"Some text. &%c;" % names[-1])


def word(text: bytes) -> bytes:
    start = f"<w:document xmlns:w='{WORD}'><w:body><w:p><w:r><w:t>".encode()
    return start + text + b"</w:t></w:r></w:p></w:body></w:document>"


def docx(document: bytes) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", document)
    return made.getvalue()


def upload(server: Running, name: str, document: bytes) -> Any:
    """The task that has read a Word file."""
    sent = server.http.post("/v1/documents", files={"file": (name, docx(document))})
    return ended(server.http, sent.json())


def test_zip_bombs_in_uploads(server: Running) -> None:
    """Refused by the size that it would have; what is inside is a document otherwise."""
    bomb = word(b"Some text." + b" " * 60_000_000)
    assert len(docx(bomb)) < 100_000
    task = upload(server, "bomb.docx", bomb)
    (failure,) = task["report"]["failures"]
    assert (task["state"], failure["error"]) == ("failed", "SourceTooLargeError")
    assert upload(server, "none.docx", word(b"Some text."))["state"] == "succeeded"
    assert server.http.get("/readyz").status_code == 200


def test_xml_bombs_in_uploads(server: Running) -> None:
    """Ten billion letters: libxml2 stops at a million, and what it has read by then is not used."""
    task = upload(server, "xml.docx", xml_bomb(10))
    (failure,) = task["report"]["failures"]
    assert (task["state"], failure["error"]) == ("failed", "CorruptSourceError")
    assert "amplification" in failure["reason"]
    assert server.http.get("/readyz").status_code == 200


def test_small_xml_bombs_in_uploads(server: Running) -> None:
    """A hundred thousand letters, which libxml2 lets pass: the readers expand no entity."""
    assert upload(server, "small.docx", xml_bomb(4))["state"] == "succeeded"
    found = server.post("/v1/retrieve", {"query": "some text", "filters": {"source": "small.docx"}})
    (hit,) = found.json()["hits"]
    assert hit["content"].split() == ["Some", "text."]


def test_files_of_the_server_in_uploaded_xml(server: Running, tmp_path: Path) -> None:
    """An entity that is a file of the server, or an address, is not read."""
    target = tmp_path / "target.txt"
    target.write_text("salamander")
    entity = f'<!ENTITY a SYSTEM "{target.as_uri()}">'.encode()
    head = b'<?xml version="1.0"?><!DOCTYPE d [' + entity + b"]>"
    assert upload(server, "entity.docx", head + word(b"Some text. &a;"))["state"] == "succeeded"
    found = server.post("/v1/retrieve", {"query": "salamander", "mode": "keyword"})
    assert not [hit for hit in found.json()["hits"] if "salamander" in hit["content"]]


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


def test_ssrf(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request makes the server fetch an address: one that it names, or one of its settings."""
    with ScriptedServer({"/": lambda _: Reply({})}) as elsewhere:
        url = elsewhere.url
        for name in ("LAGOTTO_RERANK_URL", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        bodies: list[tuple[str, dict[str, Any]]] = [
            *(
                (f"/v1/{verb}", {"query": "truffles", "rerank": {"reranker": named}})
                for verb in ("retrieve", "search", "context")
                for named in ("api:x", "llm:x", f"api:x?base_url={url}")
            ),
            ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "api:x"}),
            ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "llm:x"}),
            ("/v1/embeddings", {"input": "a", "model": "openai:x"}),
            ("/v1/documents", {"documents": [{"text": "a", "source": url, "source_ref": url}]}),
            ("/v1/resolve", {"citation": url}),
        ]
        for path, body in bodies:
            answer = server.post(path, body)
            assert answer.status_code in (202, 403, 404, 422), answer.text
        sent = server.http.post("/v1/documents", files={"file": (f"{url}/a.html", b"<p>Text</p>")})
        ended(server.http, sent.json())
        assert elsewhere.requests == []


def test_header_injection(server: Running) -> None:
    """Ids of requests come back in a header and in the log; only harmless ones do."""
    kept = server.http.get("/healthz", headers={"X-Request-Id": "trace-1.2_3"})
    assert kept.headers["x-request-id"] == "trace-1.2_3"
    for wanted in ("a" * 65, 'a", "status": 200', "a b", "a;b=c", ""):
        answer = server.http.get("/healthz", headers={"X-Request-Id": wanted})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    for path in ("/v1/documents/a%0d%0aX-Evil:%201", "/problems/a%0d%0aX-Evil:%201"):
        assert "x-evil" not in server.http.get(path).headers


def test_log_injection(caplog: pytest.LogCaptureFixture) -> None:
    """One line of JSON per request, whatever is in it; queries only where they are asked for."""
    caplog.set_level(logging.INFO, logger="lagotto.server")
    attack = 'first\n{"request_id": "forged", "status": 200}\u2028\x1b[2J'
    for log_queries in (False, True):
        caplog.clear()
        with serving(log_queries=log_queries) as own:
            own.post("/v1/retrieve", {"query": attack})
            own.http.get("/v1/documents/a%0a%7B%22status%22:200%7D")
            own.http.request("GET", "/" + "a%0a" * 20)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 3
        assert all(line.isascii() and line.isprintable() for line in lines)
        found = [json.loads(line) for line in lines]
        assert "forged" not in [line["request_id"] for line in found]
        assert [line.get("query") for line in found] == [
            attack if log_queries else None,
            None,
            None,
        ]


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


@pytest.mark.parametrize("kind", [RuntimeError, StoreError, StoreUnavailableError, EmbeddingError])
def test_unforeseen_errors_show_no_trace_and_no_path(
    server: Running,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever fails inside, the log has all of it, under the id that the answer has."""
    location = server.state.base.location

    async def fail(*_: object, **options: object) -> None:
        raise kind(f"{location}: broken, with the password hunter2")

    for verb in ("answer", "get"):
        monkeypatch.setattr(server.state.base, verb, fail)
    body: dict[str, object] = {"query": "truffles"}
    answers = [
        *(server.post(f"/v1/{verb}", body) for verb in ("retrieve", "search", "context")),
        server.post("/v1/why-not", {**body, "document": "dog"}),
        server.http.get("/v1/documents/dog"),
        server.post("/v1/resolve", {"citation": "default/dog#0-9"}),
    ]
    for answer in answers:
        found = answer.json()
        assert answer.status_code == found["status"] >= 500
        assert (answer.status_code == 503) == ("retry-after" in answer.headers)
        assert answer.headers["cache-control"] == "no-store"
        logged = [record.getMessage() for record in caplog.records if record.levelno >= 40]
        assert any(found["request_id"] in line and "hunter2" in line for line in logged)
    with suppress(httpx.RemoteProtocolError):  # a stream that breaks off has no answer
        answers.append(server.post("/v1/search/stream", body))
    shown = "".join(answer.text + str(answer.headers) for answer in answers)
    assert not [
        word
        for word in ("hunter2", location, "Traceback", ".py", "RuntimeError", "raise ")
        if word in shown
    ]


def test_unforeseen_errors_of_tasks_show_no_trace_and_no_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task fails, the next one is done."""
    with serving() as own:
        add = own.state.base.add_guarded

        async def fail(documents: Sequence[Document], *args: Any, **options: Any) -> AddReport:
            if documents[0].id == "bad":
                raise RuntimeError("/srv/kb.db: broken")
            return await add(documents, *args, **options)

        monkeypatch.setattr(own.state.base, "add_guarded", fail)
        bad = own.post("/v1/documents", {"documents": [{"id": "bad", "text": "a"}]})
        good = own.post("/v1/documents", {"documents": [{"id": "good", "text": "a"}]})
        failed = ended(own.http, bad.json())
        assert (failed["state"], failed["error"]) == ("failed", "InternalError")
        assert "/srv" not in json.dumps(failed)
        assert ended(own.http, good.json())["state"] == "succeeded"


def test_guessed_expired_and_revoked_keys(guarded: Running) -> None:
    expired = guarded.key(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    revoked = guarded.key(name="revoked")
    assert guarded.post("/v1/retrieve", {"query": "a"}, key=revoked).status_code == 200
    guarded.call(guarded.state.keys.revoke("revoked"))
    for secret in (expired, revoked, make_key(), "lgt_x", revoked[:-1]):
        answer = guarded.get("/v1/documents", key=secret)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded.http.get("/v1/documents").status_code == 401
    assert guarded.http.get("/metrics").status_code == 401
    assert guarded.http.get("/healthz").status_code == 200


class Lookups(MemoryKeyedValues):
    """Notes what is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.listed = 0

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        self.names.append(name)
        return await super().get(kind, name)

    async def items(self, *args: Any, **options: Any) -> list[KeyedValue]:
        self.listed += 1
        return await super().items(*args, **options)


async def test_key_guessing_takes_constant_time() -> None:
    """A guess costs one lookup by the hash of all of it, however much of it is right."""
    values = Lookups()
    keys = ApiKeys(values)
    real, _ = await keys.create("real")
    guess, values.listed = make_key(), 0
    assert await keys.access(guess) is None
    assert await keys.access(real) is not None
    assert values.names == [digest_of(guess), digest_of(real)]
    assert await keys.access(real[:-1]) is None
    assert await keys.access(real[:-1] + "~") is None
    assert len(values.names) == 2
    assert values.listed == 0  # guesses are not compared with stored keys one by one


def test_filter_widening(guarded: Running) -> None:
    secret = guarded.key(filters=Eq("topic", "dogs"))
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


def test_a_document_that_is_replaced_while_it_is_read(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the key saw when the request came is no longer what there is to send."""
    secret = guarded.key(filters=Eq("topic", "dogs"))
    assert guarded.get("/v1/documents/dog", key=secret).status_code == 200
    hidden: Document = guarded.call(guarded.state.base.get("oak"))

    async def get(*_: object, **options: object) -> Document:
        return hidden

    monkeypatch.setattr(guarded.state.base, "get", get)
    assert guarded.get("/v1/documents/dog", key=secret).status_code == 404
    resolved = guarded.post("/v1/resolve", {"citation": "default/dog#0-9"}, key=secret)
    assert resolved.status_code == 404


def test_an_explanation_names_the_filter_of_the_request_alone(guarded: Running) -> None:
    secret = guarded.key(filters=Eq("topic", "dogs"))
    body = {"query": "truffles", "document": "dog", "filters": {"year": 1999}, "debug": True}
    answer = guarded.post("/v1/why-not", body, key=secret)
    assert "1999" in answer.json()["reason"]
    assert "leaves it out" in answer.json()["reason"]
    assert "topic" not in answer.text


def test_pages_of_other_sites(server: Running) -> None:
    evil = {"Origin": "https://evil.example"}
    body = {"documents": [{"text": "a"}]}
    assert server.http.post("/v1/documents", json=body, headers=evil).status_code == 403
    assert server.http.delete("/v1/documents/dog", headers=evil).status_code == 403
    rebound = server.http.get("/v1/documents", headers={"Host": "evil.example"})
    assert rebound.status_code == 403
    read = server.http.get("/v1/documents", headers=evil)
    assert read.status_code == 403
    assert "access-control-allow-origin" not in read.headers


@pytest.mark.parametrize("origin", ["http://[", "null", "", "http://127.0.0.1:1", "x" * 5_000])
def test_origins_that_are_no_address(server: Running, origin: str) -> None:
    for method in ("GET", "POST"):
        answer = server.http.request(method, "/v1/retrieve", headers={"Origin": origin})
        assert answer.status_code == 403
        assert answer.json()["error"] == "Forbidden"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_nothing_is_done_for_pages_of_other_sites(server: Running, site: str) -> None:
    """Whatever they ask for: one answer, which does not depend on what is in the base."""
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    image = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    frame = {**link, "Sec-Fetch-Dest": "iframe"}
    paths = [operation.path for operation in OPERATIONS]
    paths += ["/v1/documents/dog", "/v1/documents/none", "/openapi.json", "/mcp", "/none"]
    for path in paths:
        for headers in (link, image, frame):
            answer = server.http.get(path, headers=headers)
            assert answer.status_code == 403, (path, headers)
    for path in ("/", "/context", "/document", "/documents"):
        assert server.http.get(path, headers=link).status_code == 200
        assert server.http.get(path, headers=frame).status_code == 403
        assert server.http.get(path, headers=image).status_code == 403
    for own in ("same-origin", "none"):
        answer = server.http.get("/v1/documents/dog", headers={**link, "Sec-Fetch-Site": own})
        assert answer.status_code == 200


def test_answers_are_for_those_alone_who_asked(server: Running) -> None:
    answers = [
        server.http.get("/v1/documents/dog"),
        server.http.get("/v1/documents/none"),
        server.http.get("/openapi.json"),
        server.http.get("/none"),
        server.post("/v1/retrieve", {"query": "dog"}),
        server.http.get("/v1/retrieve", params={"q": "dog"}, headers={"Origin": "http://x"}),
    ]
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_pages_of_allowed_sites() -> None:
    ours, evil = {"Origin": "https://ours.example"}, {"Origin": "https://evil.example"}
    with serving(cors_origins=("https://ours.example",)) as own:
        asked = own.http.post("/v1/retrieve", json={"query": "dog"}, headers=ours)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == "https://ours.example"
        preflight = {**ours, "Access-Control-Request-Method": "POST"}
        assert own.http.options("/v1/retrieve", headers=preflight).status_code == 200
        crossing = {**ours, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
        read = own.http.get("/v1/documents/dog", headers=crossing)
        assert (read.status_code, read.json()["id"]) == (200, "dog")
        refused = own.http.post("/v1/retrieve", json={"query": "dog"}, headers=evil)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


HIDDEN = "hippopotamus"
FREE = {
    "health", "ready", "problem", "rerank", "embeddings",
}  # fmt: skip
"""Operations that read and write no document."""


def crossing(name: str, document: str, collection: str, task: str) -> tuple[str, str, Any]:
    """The request of an operation that asks for a document, or task, of another collection."""
    where = f"?collection={collection}"
    misspelt = "hippopotamos"  # the correction of which would be a word of the other tenant
    search = {"query": misspelt, "collection": collection, "debug": True, "explain": "candidates"}
    link = f"q={misspelt}&collection={collection}&debug=true&explain=candidates"
    judgement = {"query": misspelt, "citation": f"{collection}/{document}#0-9", "relevance": 1}
    add = {"documents": [{"id": document, "collection": collection, "text": "Mine now."}]}
    return {
        "retrieve": ("POST", "/v1/retrieve", search),
        "search": ("POST", "/v1/search", search),
        "searchByLink": ("GET", f"/v1/search?q={misspelt}", None),
        "retrieveByLink": ("GET", f"/v1/retrieve?{link}", None),
        "contextByLink": ("GET", f"/v1/context?{link}", None),
        "whyNotByLink": ("GET", f"/v1/why-not?{link}&document={document}", None),
        "resolveByLink": ("GET", f"/v1/resolve?citation={collection}/{document}%230-9", None),
        "options": ("GET", "/v1/options", None),
        "fields": ("GET", f"/v1/fields{where}", None),
        "judge": ("POST", "/v1/judgements", judgement),
        "listJudgements": ("GET", "/v1/judgements", None),
        "searchStream": ("POST", "/v1/search/stream", search),
        "context": ("POST", "/v1/context", search),
        "whyNot": ("POST", "/v1/why-not", {**search, "document": document}),
        "resolve": ("POST", "/v1/resolve", {"citation": f"{collection}/{document}#0-9"}),
        "listDocuments": ("GET", f"/v1/documents{where}", None),
        "getDocument": ("GET", f"/v1/documents/{document}{where}", None),
        "removeDocument": ("DELETE", f"/v1/documents/{document}{where}", None),
        "remove": ("POST", "/v1/documents/remove", {"ids": [document], "collection": collection}),
        "chunks": ("GET", f"/v1/chunks/{document}{where}", None),
        "collections": ("GET", "/v1/collections", None),
        "info": ("GET", "/v1/info", None),
        "add": ("POST", "/v1/documents", add),
        "listTasks": ("GET", "/v1/tasks", None),
        "getTask": ("GET", f"/v1/tasks/{task}", None),
        "cancelTask": ("POST", f"/v1/tasks/{task}/cancel", None),
        "taskEvents": ("GET", f"/v1/tasks/{task}/events", None),
        "metrics": ("GET", "/metrics", None),
    }[name]


@pytest.fixture(scope="module")
def tenants() -> Iterator[tuple[Running, str, str]]:
    """A server, the key of one tenant, and a task of another one, whose collection is `theirs`."""
    with serving() as running:
        key, other = (
            running.key("read", "write", collections=[name]) for name in ("default", "theirs")
        )
        text = f"The {HIDDEN} of another tenant."
        body = {"documents": [{"id": "hidden", "collection": "theirs", "text": text}]}
        task = running.post("/v1/documents", body, key=other).json()
        ended(running.http, task, **bearer(other))
        yield running, key, task["id"]


@pytest.mark.parametrize("name", sorted({operation.name for operation in OPERATIONS} - FREE))
def test_cross_collection_access(tenants: tuple[Running, str, str], name: str) -> None:
    """What is there but not for this key is answered like what is not there at all."""
    server, key, task = tenants

    def answer(*asked: str) -> tuple[int, str]:
        method, path, body = crossing(name, *asked)
        got = server.http.request(method, path, json=body, headers=bearer(key))
        said = re.sub(r'"(request_id|trace_id)":"\w+"|"\w+":\d+\.\d+(e-\d+)?', "", got.text)
        for word in asked:
            said = said.replace(word, "NAME")
        return got.status_code, said

    there = answer("hidden", "theirs", task)
    assert HIDDEN not in there[1]
    assert there == answer("zzabsentzz", "zzelsewherezz", "0" * len(task))
    found = server.call(server.state.base.get("hidden", collection="theirs"))
    assert found is not None
    assert HIDDEN in found.text
