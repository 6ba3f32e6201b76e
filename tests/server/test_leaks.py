"""No key sees, finds, counts, changes or removes what its filter and its collections hide.

Random keys and random requests, at every operation; the evaluator of filters is the oracle.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document, Vectors
from lagotto.embedders.base import Role
from lagotto.filters import And, Eq, Filter, In, Ne, Not, Or, matches, parse_filter
from lagotto.server.endpoints import OPERATIONS
from lagotto.server.scoped_base import ScopedBase
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import Running, bearer, serving
from tests.server.test_tasks import ended

TENANTS, COLLECTIONS, WORDS = ("x", "y", "z"), ("a", "b", "c"), ("truffle", "oak", "dog", "lake")
BASE = [
    Document(
        id=f"d{number}",
        collection=COLLECTIONS[number % 3],
        title=f"Title{number}",
        text=f"{WORDS[number % 4]} {WORDS[number % 3]} marker{number:02} of the forest.",
        metadata={"tenant": TENANTS[number // 3 % 3], "year": number % 5},
    )
    for number in range(24)
]
MARKER = re.compile(r"marker(\d\d)|\"d(\d+)\"|Title(\d+)")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(documents=BASE) as running:
        yield running


conditions: st.SearchStrategy[Filter] = st.recursive(
    st.sampled_from(
        [
            Eq("tenant", "x"),
            Ne("tenant", "y"),
            In("tenant", ["y", "z"]),
            Eq("collection", "a"),
            Eq("year", 1),
            In("document_id", ["d1", "d2", "d3", "d9"]),
            And(),
            Or(),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, max_size=2).map(lambda parts: And(*parts)),
        st.lists(inner, max_size=2).map(lambda parts: Or(*parts)),
    ),
    max_leaves=3,
)
seen_collections = st.one_of(st.none(), st.lists(st.sampled_from(COLLECTIONS), max_size=2))
requests = st.fixed_dictionaries(
    {
        "query": st.sampled_from(
            ["truffle", "oak dog", "marker01 marker02", "truffel", "d3", '"lake"']
        )
    },
    optional={
        "filters": conditions.map(lambda condition: condition.to_json()),
        "collection": st.sampled_from(COLLECTIONS),
        "mode": st.sampled_from(["hybrid", "keyword", "semantic"]),
        "top_k": st.integers(1, 30),
        "explain": st.just("candidates"),
        "debug": st.just(True),
        "prefs": st.sampled_from(["oasis", "local-rag", "aiblox"]),
        "rerank": st.just({"reranker": "overlap"}),
    },
)


def visible(condition: Filter, names: list[str] | None) -> set[int]:
    return {
        number
        for number, document in enumerate(BASE)
        if matches(condition, document) and (names is None or document.collection in names)
    }


def shown(text: str) -> set[int]:
    """The numbers of all documents of which an answer has an id, a title or text."""
    return {int(next(filter(None, found))) for found in MARKER.findall(text)}


def calls(body: dict[str, Any], number: int) -> Iterator[tuple[str, str, Any]]:
    """A request to every operation that reads documents."""
    document, place = f"d{number}", COLLECTIONS[number % 3]
    for verb in ("retrieve", "search", "context", "search/stream"):
        yield "POST", f"/v1/{verb}", body
    yield "POST", "/v1/why-not", {**body, "collection": place, "document": document}
    yield "POST", "/v1/why-not", {**body, "document": document}
    yield "POST", "/v1/resolve", {"citation": f"{place}/{document}#0-20"}
    yield "GET", f"/v1/documents?limit=500&filters={_json(body.get('filters', {}))}", None
    yield "GET", f"/v1/documents/{document}?collection={place}", None
    yield "GET", f"/v1/chunks/{document}?collection={place}", None
    yield "GET", "/v1/collections", None
    yield "GET", "/v1/info", None
    yield "GET", f"/v1/retrieve?q={body['query']}&explain=candidates", None
    yield "GET", f"/v1/context?q={body['query']}", None
    yield "GET", f"/v1/why-not?q={body['query']}&collection={place}&document={document}", None
    yield "GET", f"/v1/resolve?citation={place}/{document}%230-20", None
    yield "GET", f"/v1/search?q={body['query']}", None
    yield "GET", "/v1/tasks", None
    yield "GET", "/v1/options", None
    yield "GET", "/v1/judgements", None
    yield "GET", "/v1/fields", None


def _json(value: object) -> str:
    import json
    from urllib.parse import quote

    return quote(json.dumps(value))


@settings(max_examples=25)
@given(condition=conditions, names=seen_collections, body=requests, number=st.integers(0, 23))
def test_nothing_leaks(
    server: Running,
    condition: Filter,
    names: list[str] | None,
    body: dict[str, Any],
    number: int,
) -> None:
    headers = bearer(server.key(collections=names, filters=condition))
    may_see = visible(condition, names)
    named = {int(name) for name in re.findall(r"(?:marker|\bd)(\d+)", str(body))}
    for method, path, content in calls(body, number):
        answer = server.http.request(method, path, json=content, headers=headers)
        assert answer.status_code < 500, answer.text
        said = shown(answer.text)
        if answer.status_code != 200:
            said -= {number}  # a problem names what was asked for
        asked = named | ({number} if "explain" in path else set())
        assert said - asked <= may_see, (method, path, answer.text)
        if answer.status_code == 200 and method == "GET" and path == "/v1/collections":
            counted = sum(item["documents"] for item in answer.json()["collections"])
            assert counted == len(may_see)
        if path.startswith("/v1/documents?") and answer.status_code == 200:
            wanted = parse_filter(body.get("filters", {}))
            found = {(item["collection"], item["id"]) for item in answer.json()["documents"]}
            expected = {n for n in may_see if matches(wanted, BASE[n])}
            assert found == {(BASE[n].collection, BASE[n].id) for n in expected}
        if path == f"/v1/documents/d{number}?collection={COLLECTIONS[number % 3]}":
            assert (answer.status_code == 200) == (number in may_see)


@pytest.mark.parametrize("path", ["retrieve", "search", "context"])
def test_fields_of_hidden_documents_are_not_told(server: Running, path: str) -> None:
    """Neither a note nor the failure of a strict search says what fields the others have."""

    def answer(names: list[str] | None, **asked: Any) -> Any:
        key = server.key(collections=names)
        return server.post(f"/v1/{path}", {"query": "oak", **asked}, key=key)

    typo = {"filters": {"tenannt": "x"}}
    assert "did you mean tenant" in answer(None, **typo).text
    assert answer(None, **typo, strict=True).status_code == 503
    assert "tenant" not in answer(["a"], **typo).text.replace("tenannt", "")
    assert answer(["a"], **typo, strict=True).status_code == 200
    unable = {"fts": {"rank_func": "ts_rank"}, "strict": True}  # only PostgreSQL has it
    assert answer(["a"], **unable).status_code == 503


@settings(max_examples=10)
@given(condition=conditions, names=seen_collections, asked=conditions, number=st.integers(0, 23))
def test_nothing_hidden_is_removed(
    server: Running, condition: Filter, names: list[str] | None, asked: Filter, number: int
) -> None:
    hidden = set(range(len(BASE))) - visible(condition, names)
    key = server.key("read", "write", collections=names, filters=condition)
    server.post("/v1/documents/remove", {"filters": asked.to_json()}, key=key)
    where = {"collection": COLLECTIONS[number % 3]}
    server.http.delete(f"/v1/documents/d{number}", params=where, headers=bearer(key))
    left = {document.id for document in server.call(server.state.base.documents())}
    assert {f"d{number}" for number in hidden} <= left
    server.call(server.state.base.add(*BASE))


def answers_of(hidden: list[str], bodies: list[dict[str, Any]]) -> list[Any]:
    """What a key that sees one of the tenants is told, beside documents of another one."""
    visible = [
        Document(id="v1", text="The romagnolo view of a lake.", metadata={"tenant": "x"}),
        Document(id="v2", text="A dog by the lake.", metadata={"tenant": "x"}),
    ]
    others = [
        Document(id=f"h{number}", text=text, language=language, metadata={"tenant": "y"})
        for number, (text, language) in enumerate((text, "de") for text in hidden)
    ]
    visible = [document.model_copy(update={"language": "en"}) for document in visible]
    with serving(documents=[*visible, *others]) as own:
        key = own.key(filters=Eq("tenant", "x"))
        found = [own.post("/v1/retrieve", body, key=key).json() for body in bodies]
    return [
        (_without_idf(answer["stats"]), answer["stats"]["corrections"], answer["degraded"])
        for answer in found
    ]


def _without_idf(stats: dict[str, Any]) -> dict[str, Any]:
    """Damping follows the IDF and the mean length of the whole base, as scores do."""
    fusion = stats["fusion"]
    return {**fusion, "damping": sorted(fusion["damping"])}


def test_hidden_words_and_languages_change_no_answer() -> None:
    """The factor of the fuzzy leg was a way to guess words letter by letter."""
    queries = ["zenithc", "zenithco", "zenithcor", "zenithcorp", "romagnollo lake", "lake"]
    bodies: list[dict[str, Any]] = [
        *({"query": query, "explain": "candidates"} for query in queries),
        {"query": "zenithcorp lake", "fuzzy": {"mode": "always"}, "explain": "candidates"},
        {"query": "lake", "fts": {"config": "finnish"}, "explain": "candidates"},
    ]
    alone = answers_of(["Ein See."], bodies)
    assert answers_of(["Zenithcorp, Zenithcora, romagnolla."], bodies) == alone
    factors, corrections, _ = alone[4]
    assert corrections == {"romagnollo": ["romagnolo"]}
    assert factors["factors"]["fuzzy"] > 1
    assert "finnish" not in str(alone[-1])


class Held(HashEmbedder):
    """Embeds texts of tenant a only once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.released = threading.Event(), threading.Event()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if any("tenant a" in text for text in texts):
            self.begun.set()
            await asyncio.to_thread(self.released.wait, 60)
        return await super().embed(texts, role=role)


def of_tenant(name: str) -> Document:
    return Document(id="shared", text=f"Written by tenant {name}.", metadata={"tenant": name})


def test_a_document_that_became_hidden_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Another process stores it under the same id after the upload was accepted."""
    held = Held()
    with serving(tmp_path / "kb.db", embedder=held, documents=[]) as own:
        key = own.key("read", "write", filters=Eq("tenant", "a"))
        body = {"documents": [of_tenant("a").model_dump(mode="json"), {
            "id": "own", "text": "Also of tenant a.", "metadata": {"tenant": "a"}}]}  # fmt: skip
        sent = own.post("/v1/documents", body, key=key)
        assert sent.status_code == 202
        assert held.begun.wait(60)
        with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as another:
            another.add(of_tenant("b"))
            held.released.set()
            task = ended(own.http, sent.json(), **bearer(key))
            stored = another.get("shared")
    assert stored is not None
    assert stored.text == "Written by tenant b."
    assert task["report"]["added"] == 1
    (failure,) = task["report"]["failures"]
    assert (failure["source"], failure["error"]) == ("shared", "ReplaceRefusedError")


def test_chunks_of_a_document_that_changes_hands_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(documents=[of_tenant("a")]) as own:
        key = own.key(filters=Eq("tenant", "a"))
        outline = ScopedBase.outline

        async def then_handed_over(scoped: ScopedBase, name: str, **options: Any) -> Any:
            found = await outline(scoped, name, **options)
            await own.state.base.add(of_tenant("b"))
            return found

        monkeypatch.setattr(ScopedBase, "outline", then_handed_over)
        for _ in range(2):
            assert "tenant b" not in own.get("/v1/chunks/shared", key=key).text
        own.call(own.state.base.add(of_tenant("b")))
        assert own.get("/v1/chunks/shared", key=key).status_code == 404


def test_every_operation_is_asked() -> None:
    """A new operation has to be added to `calls`, or be one that has nothing to hide."""
    asked = {path.partition("?")[0] for _, path, _ in calls({"query": "a"}, 1)}
    harmless = {
        "/v1/rerank", "/v1/embeddings", "/healthz", "/readyz", "/metrics", "/problems/{name}",
        "/v1/documents/remove",
    }  # fmt: skip
    paths = {operation.path.replace("{document_id:path}", "d1") for operation in OPERATIONS}
    of_one_task = {path for path in paths if "{task_id}" in path}
    assert paths - harmless - of_one_task <= asked
