"""A document in a browser: open at the cited span, and whether that has changed."""

from __future__ import annotations

from lagotto.documents import Document
from tests.server.page.documents import MANUAL, manual
from tests.server.page.tab import Tab, expect
from tests.server.running import Running


def test_a_hit_opens_its_document_at_the_passage(tab: Tab) -> None:
    hit = tab.search("green button").first
    page = tab.page
    hit.get_by_role("link", name="Pump manual").click()
    cited = page.locator("mark.cited")
    expect(cited.first).to_be_in_viewport()
    shown = "".join(cited.all_text_contents())
    assert "press the green button" in shown
    assert shown in MANUAL  # counted in characters, behind one that takes two units
    assert "%7E" in page.url  # the hash of the text
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.locator(".document-text").inner_text().count("Page ") == 2
    outline = page.get_by_role("navigation", name="Outline")
    assert outline.get_by_role("link").all_inner_texts() == ["Pump manual", "Start", "Stop"]
    outline.get_by_role("link", name="Stop").click()
    expect(page.locator(".heading", has_text="## Stop")).to_be_in_viewport()


def test_a_span_behind_long_characters_is_exact(tab: Tab) -> None:
    start = MANUAL.index("press the green")
    page = tab.open("/document", cite=f"default/manual#{start}-{start + 15}")
    expect(page.locator("mark.cited")).to_have_text("press the green")


def test_neighbours_are_shown_and_linked(tab: Tab, server: Running) -> None:
    chunks = server.http.get("/v1/chunks/parts").json()["chunks"]
    page = tab.open("/document", cite="default/parts#50-90")
    expect(page.locator("mark.cited")).to_be_visible()
    expect(page.locator(".near").first).to_be_visible()
    assert bool(page.locator(".pager a").count()) == (len(chunks) > 0)


def test_a_changed_text_is_said_to_have_changed(tab: Tab, server: Running) -> None:
    hit = tab.search("red button").first
    address = hit.locator("h3 a").get_attribute("href") or ""
    changed = manual(MANUAL.replace("red button", "blue lever twice"))
    try:
        server.call(server.state.base.add(changed))
        page = tab.open(address)
        expect(page.get_by_role("alert")).to_contain_text("has changed since it was cited")
        expect(page.locator("mark.cited").first).to_be_visible()
        server.call(server.state.base.add(Document(id="manual", text="All gone.")))
        page = tab.open(address)
        expect(page.get_by_role("alert")).to_contain_text("no longer in the document")
    finally:
        server.call(server.state.base.add(manual()))


def test_an_unknown_document_is_a_problem(tab: Tab) -> None:
    page = tab.open("/document", id="nowhere", collection="default")
    expect(page.get_by_role("alert")).to_contain_text("there is no document")


def test_without_a_citation_the_whole_document_is_shown(tab: Tab) -> None:
    page = tab.open("/document", id="error/4012", collection="default")
    expect(page.locator(".document-text")).to_contain_text("ERR_4012: the base is busy.")
    expect(page.locator("mark.cited")).to_have_count(0)
    page.get_by_text("About this document").click()
    expect(page.locator(".facts")).to_contain_text("error/4012")


def test_back_leads_to_the_results(tab: Tab) -> None:
    tab.search("truffles", mode="keyword")
    page = tab.page
    page.locator("article.hit h3 a").first.click()
    expect(page.locator("mark.cited").first).to_be_visible()
    page.go_back()
    expect(page.locator("article.hit").first).to_be_visible()
    expect(page.get_by_label("Keyword")).to_be_checked()
