from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from lagotto.errors import ConfigError, RerankError
from lagotto.models.http import RetryPolicy
from lagotto.rerankers.api import ApiReranker, from_name
from lagotto.rerankers.base import LOGIT, UNIT, Candidate, create_reranker
from lagotto.testing.rerankers import RerankerContract
from tests.servers.scripted import (
    Reply,
    ScriptedServer,
    rerank_route,
    share_of_words,
    tei_rerank_route,
)

PATH = "/rerank"
ROUTE = rerank_route()
QUERY = "capital of France"
CANDIDATES = [
    Candidate(id="c0", text="Berlin is the capital of Germany", score=0.9),
    Candidate(id="c1", text="Paris is the capital of France", score=0.8),
    Candidate(id="c2", text="Bread is made of flour", score=0.7),
]
SCORES = [2 / 3, 1.0, 1 / 3]
QUICK = RetryPolicy(tries=3, timeout=5.0, pause=0.001, longest_pause=0.5)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer({PATH: ROUTE}) as server:
        yield server


@pytest.fixture
async def reranker(server: ScriptedServer) -> AsyncIterator[ApiReranker]:
    reranker = ApiReranker(server.url, model="m", api_key="sk-secret", retry=QUICK)
    yield reranker
    await reranker.close()


class TestApiReranker(RerankerContract):
    pass


async def scores(reranker: ApiReranker, candidates: list[Candidate] | None = None) -> list[float]:
    judgement = await reranker.rerank(QUERY, CANDIDATES if candidates is None else candidates)
    assert judgement.verdicts is not None
    return [verdict.score for verdict in judgement.verdicts if verdict]


async def test_scores_come_in_the_order_of_the_candidates(reranker: ApiReranker) -> None:
    assert await scores(reranker) == pytest.approx(SCORES)
    assert reranker.scale == UNIT


async def test_the_request(server: ScriptedServer, reranker: ApiReranker) -> None:
    await scores(reranker)
    (request,) = server.requests
    assert request.json == {
        "model": "m",
        "query": QUERY,
        "documents": [candidate.text for candidate in CANDIDATES],
        "top_n": 3,
    }
    assert request.headers["authorization"] == "Bearer sk-secret"


async def test_a_passage_goes_under_its_title_if_asked_for(
    server: ScriptedServer, reranker: ApiReranker
) -> None:
    candidate = Candidate(id="c", text="lone \ud800", score=1, title="Title")
    titled = ApiReranker(server.url, model="rank-1", title=True)
    for one in (reranker, titled):
        await scores(one, [candidate])
    await titled.close()
    sent = [request.json["documents"] for request in server.requests]
    assert sent == [["lone \ufffd"], ["Title\n\nlone \ufffd"]]
    assert reranker.id != titled.id


async def test_no_candidates_no_call(server: ScriptedServer, reranker: ApiReranker) -> None:
    assert await scores(reranker, []) == []
    assert server.requests == []


async def test_many_candidates_go_in_parts(server: ScriptedServer, reranker: ApiReranker) -> None:
    many = [CANDIDATES[number % 3] for number in range(250)]
    assert await scores(reranker, many) == pytest.approx([SCORES[n % 3] for n in range(250)])
    assert sorted(len(request.json["documents"]) for request in server.requests) == [50, 100, 100]


@pytest.mark.parametrize(
    "shape",
    [
        lambda results: {"results": results},
        lambda results: {"data": results},
        lambda results: results,
        lambda results: [{"index": r["index"], "score": r["relevance_score"]} for r in results],
        lambda results: {"results": [{**r, "document": {"text": "x"}} for r in results]},
    ],
)
async def test_shapes_of_answers(
    server: ScriptedServer, reranker: ApiReranker, shape: Callable[[object], object]
) -> None:
    server.script(PATH, lambda request: Reply(shape(ROUTE(request).body["results"])))
    assert await scores(reranker) == pytest.approx(SCORES)


async def test_the_dialect_of_tei() -> None:
    with ScriptedServer({PATH: tei_rerank_route()}) as server:
        reranker = ApiReranker(server.url, model="m", retry=QUICK)
        many = [CANDIDATES[number % 3] for number in range(40)]
        first, second = await asyncio.gather(scores(reranker, many), scores(reranker, many))
        assert first == second == pytest.approx([SCORES[n % 3] for n in range(40)])
        asked = len(server.requests)
        assert await scores(reranker) == pytest.approx(SCORES)
        await reranker.close()
    (last,) = server.requests[asked:]
    assert last.json["texts"] == [candidate.text for candidate in CANDIDATES]
    assert last.json["truncate"] is True


async def test_a_refusal_that_has_nothing_to_do_with_dialects(
    server: ScriptedServer, reranker: ApiReranker
) -> None:
    server.script(PATH, Reply({"message": "model 'm' not found"}, status=400))
    with pytest.raises(RerankError, match="400: model 'm' not found") as caught:
        await scores(reranker)
    assert caught.value.status == 400
    assert len(server.requests) == 1


Tamper = Callable[[list[dict[str, Any]]], object]

NONSENSE: dict[str, tuple[Tamper, str]] = {
    "none": (lambda found: {"results": []}, "got 3 texts and answered with 0"),
    "a negative index": (
        lambda found: {"results": [{**found[0], "index": -1}, *found[1:]]},
        r"indexes \[-1, ",
    ),
    "an index in words": (
        lambda found: {"results": [{**found[0], "index": "0"}, *found[1:]]},
        "0.index: Input should be a valid integer",
    ),
    "no index": (lambda found: {"results": [{"relevance_score": 1.0}]}, "0.index: Field required"),
    "no score": (lambda found: {"results": [{"index": 0}]}, "relevance_score: Field required"),
    "not a number": (
        lambda found: {"results": [{**found[0], "relevance_score": float("nan")}, *found[1:]]},
        "finite number",
    ),
    "log-odds": (
        lambda found: {"results": [{**found[0], "relevance_score": 7.25}, *found[1:]]},
        "score 7.25.*of 0 to 1.*write api:m.scale=logit",
    ),
    "an error with status 200": (lambda found: {"error": "not loaded"}, "not loaded"),
    "a text": (lambda found: "hello", "answer: Input should be a valid list"),
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_nonsense_is_refused(
    server: ScriptedServer, reranker: ApiReranker, case: str
) -> None:
    tamper, message = NONSENSE[case]
    server.script(PATH, lambda request: Reply(tamper(ROUTE(request).body["results"])))
    with pytest.raises(RerankError, match=message):
        await scores(reranker)


@pytest.mark.parametrize(("end", "beyond"), [(1.0, 1), (0.0, -1)])
async def test_rounding_is_forgiven_and_no_more(
    server: ScriptedServer, reranker: ApiReranker, end: float, beyond: int
) -> None:
    def reply(score: float) -> Reply:
        return Reply({"results": [{"index": at, "relevance_score": score} for at in range(3)]})

    server.script(PATH, reply(end + beyond * 0.0009), reply(end + beyond * 0.0011))
    assert await scores(reranker) == [end, end, end]
    with pytest.raises(RerankError, match="outside its scale of 0 to 1"):
        await scores(reranker)


async def test_log_odds() -> None:
    def log_odds(query: str, text: str) -> float:
        return 20 * share_of_words(query, text) - 10

    with ScriptedServer({PATH: rerank_route(log_odds)}) as server:
        reranker = ApiReranker(server.url, model="m", scale=LOGIT, retry=QUICK)
        found = await scores(reranker)
        await reranker.close()
    assert found == pytest.approx([20 * score - 10 for score in SCORES])
    assert reranker.scale.unit(found[1]) == pytest.approx(1.0, abs=1e-4)


async def test_lasting_trouble(server: ScriptedServer, reranker: ApiReranker) -> None:
    """With passing trouble before it, which is tried again."""
    server.script(PATH, Reply(status=503), Reply({"detail": "bad key sk-secret"}, status=401))
    with pytest.raises(RerankError, match=r"401: bad key \*\*\*") as caught:
        await scores(reranker)
    assert caught.value.status == 401


async def test_by_name(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_RERANK_URL", server.url)
    monkeypatch.setenv("LAGOTTO_RERANK_KEY", "sk-env")
    reranker = from_name("org/model:1")
    assert reranker.id == f"api:org/model:1@{server.url}"
    assert await scores(reranker) == pytest.approx(SCORES)
    await reranker.close()
    assert server.requests[0].json["model"] == "org/model:1"
    assert server.requests[0].headers["authorization"] == "Bearer sk-env"


def test_by_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAGOTTO_RERANK_URL", raising=False)
    with pytest.raises(ConfigError, match=r"api:m needs the URL.*LAGOTTO_RERANK_URL"):
        from_name("m")
    monkeypatch.setenv("LAGOTTO_RERANK_URL", "http://127.0.0.1")
    with pytest.raises(ConfigError, match="missing model name"):
        from_name("")


def test_servers_of_one_model_name_are_told_apart() -> None:
    one = ApiReranker("http://me:secret@a.example/", model="m")
    other = ApiReranker("http://b.example", model="m")
    assert one.id == "api:m@http://a.example"
    assert one.id != other.id


async def test_passages_that_the_service_leaves_out_are_dropped(
    server: ScriptedServer, reranker: ApiReranker
) -> None:
    server.script(PATH, lambda request: Reply({"results": ROUTE(request).body["results"][:1]}))
    one, two = (Candidate(id=name, text=name, score=1) for name in ("truffle", "oak"))
    judgement = await reranker.rerank("truffle", [one, two])
    assert judgement.verdicts is not None
    assert [verdict is None for verdict in judgement.verdicts].count(True) == 1
    assert judgement.notes == ("m left out 1 of 2 passages, which are dropped",)


def test_settings_in_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_RERANK_URL", "http://localhost:1")
    plain, logit = create_reranker("api:m"), create_reranker("api:m?scale=logit&title=true")
    assert (plain.scale, logit.scale) == (UNIT, LOGIT)
    assert logit.id == f"{plain.id}?title=true"
    with pytest.raises(ConfigError, match="available settings: scale, title"):
        create_reranker("api:m?scales=logit")
