"""The search view in a browser."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Route

from tests.server.page.tab import Tab, expect
from tests.server.running import Running

QUESTION = "Which dog finds truffles?"


def test_results_come_while_one_types(tab: Tab) -> None:
    page = tab.open()
    expect(page.locator("#query")).to_be_focused()
    with page.expect_response("**/v1/retrieve?q=dog+truffles&*"):  # "dog" may have been searched
        page.keyboard.type("dog truffles")
    tab.wait_for_rows()
    first = page.locator("article.hit").first
    expect(first).to_contain_text("Lagotto")
    assert {mark.lower() for mark in first.locator("mark").all_inner_texts()} == {"dog", "truffles"}
    assert parse_qs(urlsplit(page.url).query) == {"q": ["dog truffles"]}


def test_a_newer_search_cancels_the_one_before(tab: Tab) -> None:
    held: list[Route] = []
    tab.page.route("**/v1/retrieve?q=slow*", lambda route: held.append(route))
    page = tab.open()
    expect(page.locator("#query")).to_be_focused()
    with page.expect_request("**/v1/retrieve?q=slow*"):
        page.keyboard.type("slow")
    with page.expect_event("requestfailed") as failed:
        page.locator("#query").fill("truffles")
    assert "q=slow" in failed.value.url
    expect(page.locator("article.hit").first).to_be_visible()


def test_a_hit_says_where_it_is_and_why(tab: Tab) -> None:
    hit = tab.search("green button").first
    expect(hit.locator(".where")).to_contain_text("manuals/pump.md")
    expect(hit.locator(".where")).to_contain_text("page")
    hit.get_by_text("Why this result").click()
    expect(hit.locator("tfoot td")).to_be_visible()
    cells = hit.locator("tbody tr td:last-child").all_inner_texts()
    total = hit.locator("tfoot td").inner_text()
    assert len(cells) >= 2
    assert abs(sum(map(float, cells)) - float(total)) < 0.0002
    assert hit.locator(".score").inner_text() == f"{float(total):.3f}"[:5]
    for row in hit.locator("tbody tr").all():
        _, _, normalised, weight, part = (
            text.split()[0] for text in row.locator("td").all_inner_texts()
        )
        assert abs(float(normalised) * float(weight) - float(part)) < 0.0002


def test_settings_are_in_the_address_and_come_back(tab: Tab) -> None:
    tab.search("truffles")
    page = tab.page
    page.get_by_label("Keyword").check(force=True)
    page.get_by_label("Reranker").select_option("overlap")
    page.get_by_label("Collection").select_option("default")
    page.wait_for_url(re.compile("collection=default"))
    state = parse_qs(urlsplit(page.url).query)
    assert state["mode"] == ["keyword"]
    assert state["rerank.reranker"] == ["overlap"]
    page.reload()
    expect(page.get_by_label("Keyword")).to_be_checked()
    expect(page.get_by_label("Reranker")).to_have_value("overlap")
    hit = page.locator("article.hit").first
    hit.get_by_text("Why this result").click()
    expect(hit).to_contain_text("The reranker gave")
    page.go_back()
    expect(page.get_by_label("Collection")).to_have_value("")


def test_filters_have_the_values_that_exist(tab: Tab) -> None:
    hits = tab.search("truffles")
    page = tab.page
    page.get_by_text("Filters", exact=True).click()
    notes = page.get_by_label(re.compile("^notes"))
    expect(notes).to_be_visible()
    with page.expect_response("**/v1/retrieve?*"):
        notes.check()
    expect(hits.first).to_contain_text("Note")
    tab.wait_for_rows()
    assert all("Note" in title for title in page.locator("article.hit h3").all_inner_texts())
    assert json.loads(parse_qs(urlsplit(page.url).query)["filters"][0]) == {"topic": ["notes"]}
    page.get_by_label("As JSON").fill('{"topic": ["dogs"]}')
    expect(page.locator("article.hit")).to_have_count(1)


def test_a_slider_fuses_at_once_and_as_the_server_does(tab: Tab) -> None:
    tab.search(QUESTION, panel="weights")
    page = tab.page
    expect(page.locator(".weights .hint")).to_contain_text("at once")
    before = page.locator("article.hit h3").all_inner_texts()
    held: list[Route] = []
    page.route("**/v1/retrieve*", lambda route: held.append(route))  # the browser is on its own
    page.get_by_label("Weight of text").fill("0.05")
    page.get_by_label("Weight of semantic").fill("2")
    shown = page.locator("article.hit h3").all_inner_texts()
    scores = page.locator("article.hit .score").all_inner_texts()
    assert shown != before
    with page.expect_response("**/v1/retrieve*"):
        while not any("w_vec=2" in route.request.url for route in held):
            page.wait_for_timeout(50)
        held[-1].continue_()
    tab.wait_for_rows()
    assert page.locator("article.hit h3").all_inner_texts() == shown
    assert page.locator("article.hit .score").all_inner_texts() == scores
    assert parse_qs(urlsplit(page.url).query)["scoring.w_text"] == ["0.05"]


def ranks_in(column: Locator) -> dict[str, int]:
    rows = column.locator("article").all()
    names = [row.get_attribute("data-chunk") or "" for row in rows]
    ranks = [int(row.get_attribute("aria-posinset") or 0) for row in rows]
    return dict(zip(names, ranks, strict=True))


def test_two_settings_side_by_side(tab: Tab) -> None:
    tab.search("dog water woods", compare="1", **{"b.mode": "keyword"})
    page = tab.page
    columns = page.locator(".column")
    expect(columns).to_have_count(2)
    expect(columns.nth(1).locator(".move").first).to_be_visible()
    ranks = [ranks_in(column) for column in columns.all()]
    moves = columns.nth(1).locator(".move").all_inner_texts()
    for chunk, rank, move in zip(ranks[1], ranks[1].values(), moves, strict=True):
        other = ranks[0].get(chunk)
        if other is None:
            assert move.startswith("＋")
        elif other == rank:
            assert move.startswith("=")
        else:
            assert move.startswith(f"{'▲' if other > rank else '▼'}{abs(other - rank)}")


def test_why_not_this_document(tab: Tab) -> None:
    tab.search("truffles")
    page = tab.page
    page.get_by_text("Why not this document?").click()
    box = page.get_by_label("Document", exact=True)
    box.fill("lake")
    answer = page.locator(".answer")
    expect(answer).to_contain_text("would be rank")
    expect(answer.locator("table")).to_be_visible()
    box.fill("nothing")
    expect(answer).to_contain_text("there is no document")


def test_use_elsewhere_gives_the_same_results(tab: Tab, server: Running) -> None:
    tab.search("it's “truffles”", mode="keyword", **{"scoring.w_text": "0.4"})
    page = tab.page
    page.get_by_role("button", name="Use elsewhere").click()
    curl = page.locator('[data-as="curl"]').inner_text()
    body = json.loads(curl[curl.index("-d '") + 4 : -1].replace("'\\''", "'"))
    assert body == {"query": "it's “truffles”", "mode": "keyword", "scoring": {"w_text": 0.4}}
    python = page.locator('[data-as="Python"]').inner_text()
    assert 'kb.retrieve("it\'s “truffles”", mode="keyword", scoring={"w_text": 0.4})' in python
    called = json.loads(page.locator('[data-as="MCP"]').inner_text())
    assert called["arguments"]["query"] == "it's “truffles”"
    twin = page.get_by_role("link", name="JSON of this view").get_attribute("href")
    shown = server.http.get(twin or "").json()
    asked = server.post("/v1/retrieve", body).json()
    assert shown["hits"] == asked["hits"]


def test_a_judgement_is_stored_and_shown_again(tab: Tab, server: Running) -> None:
    tab.search("truffles in the woods")
    page = tab.page
    thumb = page.get_by_role("button", name="Relevant", exact=True).first
    with page.expect_response("**/v1/judgements"):
        thumb.click()
    expect(thumb).to_have_attribute("aria-pressed", "true")
    stored = server.http.get("/v1/judgements").json()["judgements"]
    assert [(item["query"], item["relevance"]) for item in stored] == [("truffles in the woods", 1)]
    page.reload()
    expect(thumb).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/v1/judgements"):
        thumb.click()
    expect(thumb).to_have_attribute("aria-pressed", "false")
    assert server.http.get("/v1/judgements").json()["judgements"] == []


def test_problems_are_shown(tab: Tab) -> None:
    page = tab.open("/", q="truffles", filters='{"year": {"$oops": 1}}')
    expect(page.locator(".notes").get_by_role("alert")).to_contain_text("$oops")
