"""What the views have in common: the way from one to another and back, and empty ones."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.server.page.tab import Tab, expect
from tests.server.running import Running, serving


def query_of(tab: Tab) -> dict[str, list[str]]:
    return parse_qs(urlsplit(tab.page.url).query)


def test_a_query_may_start_with_a_bracket(tab: Tab) -> None:
    page = tab.open("/")
    expect(page.locator("#query")).to_be_focused()
    with page.expect_response("**/v1/retrieve?q=%5Btruffles*"):
        page.locator("#query").fill("[truffles")
    expect(page.locator("article.hit").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Use elsewhere").click()
    expect(page.locator('[data-as="curl"]')).to_contain_text('{"query":"[truffles"}')


def test_the_views_of_a_search_show_the_same_search(tab: Tab) -> None:
    tab.search("truffles", collection="default", mode="keyword", panel="weights", why="oak")
    page, views = tab.page, tab.page.get_by_role("navigation", name="Views")
    views.get_by_role("link", name="Context").click()
    expect(page.locator(".budget")).to_be_visible()
    assert urlsplit(page.url).path == "/context"
    same = {"q": ["truffles"], "collection": ["default"], "mode": ["keyword"]}
    assert query_of(tab) == same
    page.get_by_label("Budget in tokens").fill("300")
    page.wait_for_url("**max_tokens=300*")
    views.get_by_role("link", name="Search").click()
    expect(page.locator("article.hit").first).to_be_visible()
    assert query_of(tab) == same
    views.get_by_role("link", name="Documents").click()
    expect(page.locator(".documents a").first).to_be_visible()
    assert query_of(tab) == {}


def test_back_in_a_context_pack(tab: Tab) -> None:
    page = tab.open("/context", q="truffles")
    expect(page.locator("pre.tall")).to_contain_text("[1]")
    page.get_by_label("Format").select_option("xml")
    expect(page.locator("pre.tall")).to_contain_text("<")
    page.go_back()
    expect(page.get_by_label("Format")).to_have_value("plain")
    expect(page.locator("pre.tall")).not_to_contain_text("</")


def test_back_in_the_list_of_documents(tab: Tab) -> None:
    page = tab.open("/documents", collection="b")
    rows = page.locator(".documents a")
    expect(rows).to_have_text(["Plan"])
    box = page.locator(".listing").get_by_label("Collection")
    box.select_option("hostile")
    expect(rows.first).to_contain_text("Trap")
    page.go_back()
    expect(rows).to_have_text(["Plan"])
    expect(box).to_have_value("b")


def test_why_not_by_title_in_any_collection_and_for_every_query(tab: Tab) -> None:
    tab.search("dog")
    page = tab.page
    page.get_by_text("Why not this document?").click()
    expect(page.locator('#why-documents option[value="Plan"]')).to_be_attached()
    page.get_by_label("Document", exact=True).fill("Plan")
    answer = page.locator(".answer")
    expect(answer).to_contain_text("rank")
    expect(answer.locator("table")).to_be_visible()
    side = page.locator("aside.side")
    for room in (side, answer.locator(".explained")):
        assert room.evaluate("room => room.scrollWidth <= room.clientWidth")
    page.locator("#query").fill("plan of tenant b")
    expect(answer).to_contain_text("It is there: it was found, at rank 1")
    page.locator("#query").fill("")
    expect(answer).to_be_empty()


def test_before_a_search_the_page_says_what_there_is(tab: Tab) -> None:
    page = tab.open("/")
    blank = page.locator(".empty-state")
    expect(blank).to_contain_text("collections")
    page.locator("#query").fill("truffles")
    expect(page.locator("article.hit").first).to_be_visible()
    expect(blank).to_be_empty()
    page.locator("#query").fill("")
    expect(blank).to_contain_text("collections")
    expect(page.locator("article.hit")).to_have_count(0)


def test_nothing_found_comes_with_advice(tab: Tab) -> None:
    page = tab.open("/", q="truffles", filters='{"topic": "none"}')
    expect(page.locator(".status")).to_contain_text("Nothing found")
    expect(page.locator(".empty-state")).to_contain_text("filters")


class TestEmptyBase:
    @pytest.fixture
    def server(self) -> Iterator[Running]:
        with serving(documents=[]) as running:
            yield running

    def test_it_says_how_to_fill_it(self, tab: Tab) -> None:
        page = tab.open("/")
        expect(page.locator(".empty-state")).to_contain_text("no documents yet")
        page.get_by_role("link", name="Add files").click()
        expect(page.get_by_role("heading", name="Add files")).to_be_visible()
