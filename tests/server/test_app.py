"""The endpoints of the server, over a real connection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from lagotto.documents import Vectors
from lagotto.embedders.base import Role
from lagotto.errors import EmbeddingError
from lagotto.server.endpoints import OPERATIONS
from lagotto.server.problems import problem_names
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import DOCUMENTS, Running, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    assert found["request_id"] == answer.headers["x-request-id"]
    assert found["type"] == f"/problems/{found['error']}"
    return found


def test_retrieve(server: Running) -> None:
    answer = server.post("/v1/retrieve", {"query": "Which dog finds truffles?", "top_k": 2})
    assert answer.status_code == 200
    found = answer.json()
    assert found["hits"][0]["document_id"] == "dog"
    assert len(found["hits"]) == 2
    assert found["hits"][0]["citation"] == "Doc: Lagotto"
    assert found["settings"]["top_k"] == 2
    assert found["settings"]["mode"] == "hybrid"
    assert found["degraded"] == []
    assert found["stats"]["timing_ms"] == {}


@pytest.mark.parametrize(
    "path", ["top_k", "top_k_items", "top_k_chunks", "candidates", "rerank/candidates"]
)
def test_no_count_is_above_the_limit_of_the_server(path: str) -> None:
    section, _, name = path.rpartition("/")
    endpoint = "/v1/search" if name in ("top_k_items", "top_k_chunks") else "/v1/retrieve"
    with serving(max_top_k=120) as server:
        for count, status in ((120, 200), (121, 422)):
            asked = {section: {name: count}} if section else {name: count}
            answer = server.post(endpoint, {"query": "truffles", **asked})
            assert answer.status_code == status
        assert [field["pointer"] for field in problem(answer)["errors"]] == [f"/{path}"]


def test_settings_are_those_of_the_library(server: Running) -> None:
    body = {
        "query": "truffles",
        "mode": "keyword",
        "scoring": {"blend": "rrf"},
        "filters": {"topic": "trees"},
        "collection": "default",
        "rerank": {"reranker": "overlap"},
        "debug": True,
    }
    found = server.post("/v1/retrieve", body).json()
    assert [hit["document_id"] for hit in found["hits"]] == ["oak"]
    assert found["settings"]["scoring"]["blend"] == "rrf"
    assert found["settings"]["filters"] == {"topic": {"$eq": "trees"}}
    assert found["stats"]["timing_ms"]["total"] > 0
    assert [hit["document_id"] for hit in found["candidates"]] == ["oak"]


def test_a_preset(server: Running) -> None:
    found = server.post("/v1/retrieve", {"query": "truffles", "prefs": "oasis"}).json()
    assert found["settings"]["scoring"]["blend"] == "rrf"


def test_every_candidate_with_every_leg(server: Running) -> None:
    body = {"query": "truffles", "top_k": 1, "explain": "candidates"}
    found = server.post("/v1/retrieve", body).json()
    candidates = found["stats"]["candidates"]
    assert len(found["hits"]) == 1
    assert {item["document_id"] for item in candidates} >= {"dog", "oak", "secret"}
    for item in candidates:
        parts = item["breakdown"]
        legs = [parts[leg] for leg in ("semantic", "text") if parts[leg]]
        assert len(legs) == 2
        assert sum(leg["contribution"] for leg in legs) == pytest.approx(parts["fused_score"])


def test_boosts_are_settings(server: Running) -> None:
    boost = [{"where": {"topic": "trees"}, "factor": 5}]
    found = server.post("/v1/retrieve", {"query": "truffles", "boost": boost}).json()
    best = found["hits"][0]
    assert best["document_id"] == "oak"
    assert best["breakdown"]["boosts"] == {'{"topic": {"$eq": "trees"}}': 5}
    params = {"q": "truffles", "boost": json.dumps(boost)}
    link = server.http.get("/v1/search", params=params).json()
    assert link["candidates"][0]["item_id"] == "oak"


def test_search_and_its_permalink(server: Running) -> None:
    body = {"query": "truffles", "top_k": 3, "scoring": {"w_text": 0.25}, "filters": {"year": 2021}}
    posted = server.post("/v1/search", body)
    linked = server.http.get(
        "/v1/search",
        params={"q": "truffles", "top_k": 3, "scoring.w_text": 0.25, "filters": '{"year": 2021}'},
    )
    assert posted.status_code == linked.status_code == 200
    assert posted.json() == linked.json()
    assert [item["item_id"] for item in posted.json()["candidates"]] == ["oak"]
    assert posted.json()["settings"]["top_k_chunks"] == 3


@pytest.mark.parametrize("query", ["[truffles", "{truffles}", "[1]", "true", "12", " "])
def test_a_query_in_an_address_is_a_text_whatever_it_looks_like(
    server: Running, query: str
) -> None:
    for verb in ("retrieve", "search", "context"):
        linked = server.http.get(f"/v1/{verb}", params={"q": query})
        assert linked.status_code == 200, linked.text
        assert linked.json() == server.post(f"/v1/{verb}", {"query": query}).json()
    named = {"q": "dog", "collection": "[a]", "document": "{b}"}
    missing = server.http.get("/v1/why-not", params=named)
    assert (missing.status_code, problem(missing)["detail"]) == (
        404,
        "there is no document '{b}' in '[a]'",
    )


def test_every_setting_of_a_permalink_counts(server: Running) -> None:
    """Groups, JSON, numbers, flags, presets, and what a context pack has of its own."""
    link: dict[str, Any] = {
        "q": "truffles", "mode": "keyword", "top_k": 2, "prefs": "oasis", "debug": "true",
        "collection": "default", "filters": '{"year": {"$gte": 2021}}', "strict": "true",
        "scoring.rrf_k": 7, "scoring.w_text": 0.25, "rerank.reranker": "overlap", "rerank.keep": 1,
        "fts.mode": "web", "explain": "candidates", "min_score": 0.01,
    }  # fmt: skip
    body = {
        "query": "truffles", "mode": "keyword", "top_k": 2, "prefs": "oasis", "debug": True,
        "collection": "default", "filters": {"year": {"$gte": 2021}}, "strict": True,
        "scoring": {"rrf_k": 7, "w_text": 0.25}, "rerank": {"reranker": "overlap", "keep": 1},
        "fts": {"mode": "web"}, "explain": "candidates", "min_score": 0.01,
    }  # fmt: skip
    plain = server.post("/v1/retrieve", {"query": "truffles"}).json()["settings"]
    of_pack: dict[str, Any] = {"max_tokens": 60, "format": "xml"}
    for verb, more in (("retrieve", {}), ("search", {}), ("context", of_pack)):
        linked = server.http.get(f"/v1/{verb}", params={**link, **more})
        posted = server.post(f"/v1/{verb}", {**body, **more})
        assert linked.status_code == posted.status_code == 200, linked.text
        settings = linked.json()["settings"]
        assert settings == posted.json()["settings"]
        given = {"mode", "collection", "filters", "strict", "scoring", "rerank", "fts", "explain"}
        assert not [name for name in given if settings[name] == plain[name]]
    pack = server.http.get("/v1/context", params={"q": "dog", "max_tokens": 60, "format": "xml"})
    assert pack.json()["tokens"] <= 60
    assert pack.json()["context_pack"].startswith("<")


def test_highlights_are_the_words_that_match(server: Running) -> None:
    body: dict[str, Any] = {"query": "Which dog finds truffles?", "top_k": 1}
    (plain,) = server.post("/v1/retrieve", body).json()["hits"]
    assert plain["highlights"] == []
    for answer in (
        server.post("/v1/retrieve", {**body, "highlight": True}),
        server.http.get("/v1/retrieve", params={"q": body["query"], "top_k": 1, "highlight": 1}),
        server.post("/v1/why-not", {**body, "highlight": True, "document": "dog"}),
    ):
        (hit,) = answer.json()["hits"]
        shown = [hit["content"][start:end] for start, end in hit["highlights"]]
        assert shown == ["dog", "finds", "truffles"]


def test_a_context_of_several_questions(server: Running) -> None:
    asked = {"queries": ["dog", "oak"], "max_tokens": 200}
    pack = server.post("/v1/context", asked).json()
    assert pack["query"] == "dog\noak"
    assert [served["query"] for served in pack["trace"]["coverage"]] == ["dog", "oak"]
    assert all(served["markers"] for served in pack["trace"]["coverage"])
    link = server.http.get("/v1/context", params={"queries": '["dog", "oak"]', "max_tokens": 200})
    assert link.json()["context_pack"] == pack["context_pack"]
    wrong: list[dict[str, Any]] = [
        {},
        {**asked, "query": "dog"},
        {"queries": []},
        {"queries": ["a"] * 21},
    ]
    for body in wrong:
        answer = server.post("/v1/context", body)
        assert (answer.status_code, problem(answer)["error"]) == (422, "InvalidRequest"), body


def test_context_and_resolve(server: Running) -> None:
    pack = server.post("/v1/context", {"query": "dog", "max_tokens": 200, "format": "xml"}).json()
    assert pack["tokens"] <= 200
    assert pack["context_pack"].startswith("<")
    key = pack["citations"][0]["key"]
    found = server.post("/v1/resolve", {"citation": key}).json()
    assert found["changed"] is False
    assert found["passage"]["text"] == DOCUMENTS[0].text
    changed = server.post("/v1/resolve", {"citation": key[:-8] + "00000000"}).json()
    assert changed["changed"] is True
    assert changed["passage"]["text"] == DOCUMENTS[0].text
    beyond = server.post("/v1/resolve", {"citation": "default/dog#900-990~00000000"}).json()
    assert beyond == {
        "citation": "default/dog#900-990~00000000",
        "changed": True,
        "passage": None,
    }
    gone = server.post("/v1/resolve", {"citation": "default/none#0-9"})
    assert (gone.status_code, problem(gone)["error"]) == (404, "NotFound")
    wrong = server.post("/v1/resolve", {"citation": "nothing"})
    assert (wrong.status_code, problem(wrong)["error"]) == (422, "CitationError")


def test_explain(server: Running) -> None:
    body = {"query": "Which dog finds truffles?", "top_k": 1}
    there = server.post("/v1/why-not", {**body, "document": "dog"}).json()
    assert there["found"]
    assert there["rank"] == 1
    missing = server.post("/v1/why-not", {**body, "document": "oak"}).json()
    assert not missing["found"]
    assert missing["rank"] > 1
    assert missing["breakdown"]["semantic"]["score"] > 0
    assert "would be rank" in missing["reason"]
    by_title = server.post("/v1/why-not", {**body, "document": "Lagotto"}).json()
    assert (by_title["document_id"], by_title["reason"]) == ("dog", there["reason"])
    assert server.post("/v1/why-not", {**body, "document": "none"}).status_code == 404
    elsewhere = server.post("/v1/why-not", {**body, "document": "secret"}).json()
    assert elsewhere["rank"] > 1  # among the documents of all collections
    named = {**body, "document": "secret", "collection": "default"}
    assert server.post("/v1/why-not", named).status_code == 404


def test_documents(server: Running) -> None:
    first = server.http.get("/v1/documents", params={"limit": 3}).json()
    assert [item["id"] for item in first["documents"]] == ["secret", "dog", "error/4012"]
    rest = server.http.get("/v1/documents", params={"limit": 3, "after": first["next"]}).json()
    assert [item["id"] for item in rest["documents"]] == ["oak"]
    assert rest["next"] is None
    assert server.http.get("/v1/documents", params={"limit": 4}).json()["next"] is None
    filtered = server.http.get("/v1/documents", params={"filters": '{"year": 2020}'}).json()
    assert [item["id"] for item in filtered["documents"]] == ["dog"]
    wrong = server.http.get("/v1/documents", params={"after": "nonsense"})
    assert problem(wrong)["errors"][0]["pointer"] == "/after"


def test_a_document_and_its_chunks(server: Running) -> None:
    found = server.http.get("/v1/documents/error%2F4012").json()
    assert found["text"] == DOCUMENTS[2].text
    chunks = server.http.get("/v1/chunks/error%2F4012").json()["chunks"]
    assert [chunk["text"] for chunk in chunks] == [DOCUMENTS[2].text]
    other = server.http.get("/v1/documents/secret", params={"collection": "b"}).json()
    assert other["collection"] == "b"
    assert server.http.get("/v1/documents/secret").status_code == 404
    assert server.http.get("/v1/chunks/secret").status_code == 404


def test_collections_and_info(server: Running) -> None:
    found = server.http.get("/v1/collections").json()
    assert found == {
        "collections": [{"name": "b", "documents": 1}, {"name": "default", "documents": 3}]
    }
    assert server.http.get("/v1/info").json()["documents"] == 4


def test_remove() -> None:
    with serving() as own:
        assert own.http.delete("/v1/documents/dog").json() == {"removed": ["dog"]}
        assert own.http.delete("/v1/documents/dog").status_code == 404
        body = {"filters": {"topic": "trees"}}
        assert own.post("/v1/documents/remove", body).json() == {"removed": ["oak"]}
        assert own.post("/v1/documents/remove", {"ids": []}).status_code == 422
        left = own.http.get("/v1/documents").json()["documents"]
        assert {item["id"] for item in left} == {"error/4012", "secret"}


def test_rerank(server: Running) -> None:
    texts = ["A recipe for bread.", "The dog finds truffles.", "Oaks and truffles."]
    body = {"query": "dog truffles", "documents": texts, "top_n": 2, "return_documents": True}
    found = server.post("/v1/rerank", body).json()
    assert found["results"][0]["index"] == 1
    assert len(found["results"]) == 2
    assert found["results"][0]["document"] == {"text": texts[1]}
    assert all(0 <= item["relevance_score"] <= 1 for item in found["results"])
    assert server.post("/v1/rerank", {"query": "dog", "documents": []}).json()["results"] == []
    refused = server.post("/v1/rerank", {**body, "model": "api:x?base_url=http://localhost:9"})
    assert refused.status_code == 403


def test_embeddings(server: Running) -> None:
    found = server.post("/v1/embeddings", {"input": ["a dog", "an oak"]}).json()
    assert [item["index"] for item in found["data"]] == [0, 1]
    vector = found["data"][0]["embedding"]
    assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-5)
    one = server.post("/v1/embeddings", {"input": "a dog", "model": "hash"}).json()
    assert one["data"][0]["embedding"] == vector
    coded = server.post("/v1/embeddings", {"input": "a dog", "encoding_format": "base64"}).json()
    assert isinstance(coded["data"][0]["embedding"], str)
    assert server.post("/v1/embeddings", {"input": "a", "model": "gpt"}).status_code == 404
    assert server.post("/v1/embeddings", {"input": "a", "dimensions": 64}).status_code == 200
    shorter = server.post("/v1/embeddings", {"input": "a", "dimensions": 3})
    assert problem(shorter)["errors"][0]["pointer"] == "/dimensions"


class Unwell(HashEmbedder):
    """Can't embed queries."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if role == "query":
            raise EmbeddingError("the model at http://10.0.0.7:8080 is gone")
        return await super().embed(texts, role=role)


def test_what_could_not_be_used_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """The error, which may name servers and files, is in the log alone."""
    with serving(embedder=Unwell()) as own:
        body = {"query": "truffles"}
        answers = [own.post(f"/v1/{verb}", body).json() for verb in ("retrieve", "search")]
        answers.append(own.post("/v1/context", body).json())
        answers.append(own.post("/v1/why-not", {**body, "document": "oak"}).json())
        answers.append(own.http.get("/v1/retrieve", params={"q": "truffles"}).json())
        stream = own.post("/v1/search/stream", body).text
        answers.append(json.loads(stream.partition("data: ")[2].partition("\n")[0]))
        for answer in answers:
            (note,) = answer["degraded"]
            assert note == "semantic: the query could not be embedded, only words count"
        assert "10.0.0.7" not in str(answers)
        logged = [record.getMessage() for record in caplog.records]
        assert sum("the model at http://10.0.0.7:8080 is gone" in line for line in logged) == 6
        for verb in ("retrieve", "search", "context"):
            refused = own.post(f"/v1/{verb}", {**body, "strict": True})
            assert (refused.status_code, problem(refused)["error"]) == (503, "DegradedError")
            assert refused.headers["retry-after"] == "1"


class Asymmetric(HashEmbedder):
    """Embeds queries otherwise than documents, as many models do."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return await super().embed([f"{role}: {text}" for text in texts], role=role)


def test_embeddings_of_queries_and_documents() -> None:
    with serving(embedder=Asymmetric()) as own:

        def vector(**given: str) -> Any:
            found = own.post("/v1/embeddings", {"input": "a dog", **given}).json()
            return found["data"][0]["embedding"]

        assert vector() == vector(input_type="document") != vector(input_type="query")
        wrong = own.post("/v1/embeddings", {"input": "a", "input_type": "passage"})
        assert wrong.status_code == 422


def test_health(server: Running) -> None:
    assert server.http.get("/healthz").json() == {"status": "ok"}
    assert server.http.get("/readyz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("body", "status", "error", "pointer"),
    [
        ({}, 422, "InvalidRequest", "/query"),
        ({"query": "a", "top_k": 0}, 422, "InvalidRequest", "/top_k"),
        ({"query": "a", "scoring": {"rrf_k": 10**20}}, 422, "InvalidRequest", "/scoring/rrf_k"),
        ({"query": "a", "top_k": 100_000}, 422, "InvalidRequest", "/top_k"),
        ({"query": "a" * 20_000}, 422, "InvalidRequest", "/query"),
        ({"query": "a", "nothing": 1}, 422, "InvalidRequest", "/nothing"),
        ({"query": "a", "scoring": {"blend": "x"}}, 422, "InvalidRequest", "/scoring/blend"),
        ({"query": "a", "scoring": {"rrf_q": 1}}, 422, "InvalidRequest", "/scoring/rrf_q"),
        ({"query": "a", "filters": {"a": {"$x": 1}}}, 422, "FilterError", "/filters"),
        ({"query": "a", "prefs": "none"}, 422, "UnknownNameError", None),
        ({"query": "(", "fts": {"mode": "strict"}}, 422, "QueryError", None),
        ({"query": "a", "query_vector": [1.0]}, 422, "InvalidRequest", "/query_vector"),
        ({"query": "a", "query_vector": [1e308] * 64}, 422, "ConfigError", None),
        ({"query": "a", "fts": {"min_rank": 1e308}}, 422, "InvalidRequest", "/fts/min_rank"),
        (
            {"query": "a", "vector": {"min_score": -1e99}},
            422,
            "InvalidRequest",
            "/vector/min_score",
        ),
        ({"query": "a", "cache": {"ttl_seconds": 1e300}}, 422, "InvalidRequest", None),
        ({"query": "a", "rerank": {"reranker": "llm:gpt"}}, 403, "Forbidden", None),
        ({"query": "a", "prefs": "contextpack"}, 403, "Forbidden", None),
    ],
)
def test_problems(
    server: Running, body: dict[str, Any], status: int, error: str | None, pointer: str | None
) -> None:
    answer = server.post("/v1/retrieve", body)
    found = problem(answer)
    assert answer.status_code == status, found
    assert error in (None, found["error"])
    if pointer:
        assert pointer in [item["pointer"] for item in found["errors"]]


def test_other_problems(server: Running) -> None:
    broken = server.http.post(
        "/v1/retrieve", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert (broken.status_code, problem(broken)["error"]) == (400, "BadRequest")
    untyped = server.http.post("/v1/retrieve", content=b"{}")
    assert problem(untyped)["error"] == "UnsupportedMediaType"
    assert problem(server.http.get("/nothing"))["error"] == "NotFound"
    assert problem(server.http.get("/v1/rerank"))["error"] == "MethodNotAllowed"
    unasked = server.http.get("/v1/search?top_k=3")
    assert problem(unasked)["errors"] == [{"pointer": "/q", "detail": "Field required"}]
    foreign = server.post("/v1/documents", {"documents": [{"text": "A dog.", "language": "é"}]})
    (only,) = problem(foreign)["errors"]  # and not also the fields that are made of others
    assert only["pointer"] == "/documents/0/language"
    twice = server.http.get("/v1/search?q=a&q=b")
    assert problem(twice)["error"] == "BadRequest"


def test_every_kind_of_problem_has_a_page(server: Running) -> None:
    for name in problem_names():
        page = server.http.get(f"/problems/{name}")
        assert page.status_code == 200
        assert f"<h1>{name}</h1>" in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert server.http.get("/problems/None").status_code == 404


def test_the_document_describes_every_operation(server: Running) -> None:
    document = server.http.get("/openapi.json").json()
    described = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert described == {operation.name for operation in OPERATIONS}
    names = {item["name"] for item in document["paths"]["/v1/search"]["get"]["parameters"]}
    assert {"q", "top_k", "scoring.blend", "filters", "rerank.keep"} <= names


def test_an_operation_is_declared_by_its_handler() -> None:
    """The name is its id, the docstring its summary; a permalink has both of the POST."""
    known = {operation.name: operation for operation in OPERATIONS}
    assert len(known) == len(OPERATIONS)
    listed = known["listDocuments"]
    assert (listed.method, listed.path) == ("GET", "/v1/documents")
    assert listed.answer is not None
    assert listed.answer.__name__ == "ListDocumentsAnswer"
    link = known["retrieveByLink"]
    assert (link.method, link.summary) == ("GET", known["retrieve"].summary)
    assert all(operation.summary for operation in OPERATIONS)


def test_wrong_fields_beyond_measure_are_counted_only(server: Running) -> None:
    wrong = server.post("/v1/retrieve", {"query": "a", **{f"x{n}": 1 for n in range(1_001)}})
    assert problem(wrong)["error"] == "InvalidRequest"
    assert "1,001 values are wrong" in problem(wrong)["detail"]
    assert len(wrong.content) < 1_000


def test_large_bodies_are_parsed_one_after_another(server: Running) -> None:
    large = {"query": "a", "filters": {"n": {"$in": list(range(10_000))}}}
    server.call(server.state.large_bodies.acquire())
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/retrieve", json=large, timeout=0.5)
    assert server.post("/v1/retrieve", {"query": "a"}).status_code == 200

    async def release() -> None:
        server.state.large_bodies.release()

    server.call(release())
    assert server.post("/v1/retrieve", large).status_code == 200
