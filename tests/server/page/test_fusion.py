"""The fusion in the browser gives what the server answers for the same weights."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.server.page.tab import Tab
from tests.server.running import Running

METHODS: list[dict[str, Any]] = [
    *(
        {"blend": "linear", "normalize": name}
        for name in ("absolute", "theoretical", "minmax", "zscore", "sigmoid", "none")
    ),
    {"blend": "rrf"},
    {"blend": "rrf", "rrf_k": 5},
    {"blend": "rrf", "fill": False, "rrf_weighted": False},
    {"blend": "linear", "normalize": "minmax", "fill": False},
]
QUERIES = (
    "Which dog finds truffles in the water?",
    '"green button" truffles',  # a quotation: the exact leg
    # an identifier that is mentioned: its best holder is boosted
    "How do dogs in the water and the woods find truffles on oak and hazel roots with a QX-77?",
    "trufles in wter and wods",  # misspelt: the fuzzy leg
    "note 7",
)

FUSE = """async (given) => {
  const [answer, scoring] = JSON.parse(given);
  const { canFuse, refuse } = await import("/assets/fusion.js");
  return JSON.stringify(canFuse(answer, scoring) ? refuse(answer, scoring) : null);
}"""


def fused(tab: Tab, answer: Any, scoring: Any) -> Any:
    """What the page shows; as texts, since Playwright copies objects slowly."""
    return json.loads(tab.page.evaluate(FUSE, json.dumps([answer, scoring])))


def ask(server: Running, query: str, scoring: dict[str, Any], mode: str) -> Any:
    body = {"query": query, "scoring": scoring, "mode": mode, "explain": "candidates", "top_k": 15}
    answer = server.post("/v1/retrieve", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_browser_fuses_as_the_server_does(
    tab: Tab, server: Running, method: dict[str, Any]
) -> None:
    tab.open("/")
    chance = random.Random(str(method))
    for query in QUERIES:
        for mode in ("hybrid", "keyword"):
            before = ask(server, query, method, mode)
            weights = {
                name: round(chance.uniform(0.05, 2), 2) for name in ("w_vec", "w_text", "w_fuzzy")
            }
            if chance.random() < 0.5:
                weights["w_exact"] = round(chance.uniform(0.1, 2), 2)
            after = ask(server, query, {**method, **weights}, mode)
            shown = fused(tab, before, after["settings"]["scoring"])
            assert shown is not None
            assert names(shown) == names(after["hits"]), (query, weights)
            for ours, theirs in zip(shown, after["hits"], strict=True):
                assert ours["score"] == pytest.approx(theirs["score"], abs=1e-9)
                check_parts(ours["breakdown"], theirs["breakdown"])


def names(hits: list[Any]) -> list[tuple[str, int]]:
    return [(hit["document_id"], hit["start"]) for hit in hits]


def check_parts(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Every number of a breakdown agrees, and the parts add up to the score."""
    legs = [leg for leg in ("semantic", "text", "fuzzy", "exact") if theirs[leg]]
    assert [leg for leg in ("semantic", "text", "fuzzy", "exact") if ours.get(leg)] == legs
    for leg in legs:
        for name, value in theirs[leg].items():
            assert ours[leg][name] == pytest.approx(value, abs=1e-9), (leg, name)
    assert sum(ours[leg]["contribution"] for leg in legs) == pytest.approx(
        ours["fused_score"], abs=1e-9
    )
    assert ours["fused"] == pytest.approx(theirs["fused"], abs=1e-9)


def test_the_queries_try_every_way_to_a_weight(server: Running) -> None:
    found = [ask(server, query, {}, "hybrid")["stats"]["fusion"] for query in QUERIES]
    assert {inputs["exact"] for inputs in found} == {None, "sum", "boosted"}
    assert any(factor < 1 for inputs in found for factor in inputs["damping"].values())
    assert any(factor == 0 for inputs in found for factor in inputs["factors"].values())


def test_what_changes_the_legs_is_left_to_the_server(tab: Tab, server: Running) -> None:
    tab.open("/")
    before = ask(server, "truffles", {}, "hybrid")
    scoring = before["settings"]["scoring"]
    assert fused(tab, before, scoring) is not None
    for change in ({"w_text": 0}, {"blend": "rrf"}, {"normalize": "minmax"}):
        assert fused(tab, before, {**scoring, **change}) is None
    reranked = server.post(
        "/v1/retrieve",
        {"query": "truffles", "explain": "candidates", "rerank": {"reranker": "overlap"}},
    ).json()
    assert fused(tab, reranked, scoring) is None
