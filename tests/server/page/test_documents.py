"""Uploads, tasks and the list of documents in a browser."""

from __future__ import annotations

from playwright.sync_api import FilePayload

from lagotto.documents import Document
from tests.server.page.documents import MANUAL, manual
from tests.server.page.tab import Tab, expect
from tests.server.running import Running


def file(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def test_files_are_sent_with_progress_and_found(tab: Tab, server: Running) -> None:
    page = tab.open("/documents")
    page.get_by_label("Collection").first.fill("uploads")
    page.locator("#files").set_input_files(
        [
            file("marmot.md", "# Marmots\n\nA marmot whistles when an eagle comes."),
            file("broken.pdf", "not a PDF at all"),
        ]
    )
    rows = page.locator(".files li")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="marmot.md")).to_contain_text("1 added")
    expect(rows.filter(has_text="broken.pdf").locator(".hint")).not_to_have_text("being added")
    expect(rows.filter(has_text="marmot.md").locator("progress")).to_have_js_property("value", 1)
    expect(page.locator(".tasks .state.succeeded").first).to_be_visible()
    expect(page.locator(".tasks .state.failed").first).to_be_visible()
    expect(page.locator(".documents")).to_contain_text("Marmots")
    hits = tab.search("marmot eagle", collection="uploads")
    expect(hits.first.locator("h3")).to_have_text("Marmots")
    server.http.post("/v1/documents/remove", json={"filters": {"collection": "uploads"}})


def test_a_document_is_removed_after_a_second_press(tab: Tab, server: Running) -> None:
    body = {"documents": [{"id": "gone", "title": "Gone soon", "text": "Bye.", "collection": "z"}]}
    task = server.post("/v1/documents", body).json()["id"]
    server.http.get(f"/v1/tasks/{task}/events")  # ends when the task does
    page = tab.open("/documents", collection="z")
    button = page.get_by_role("button", name="Remove Gone soon")
    button.click()
    expect(button).to_have_text("Really remove?")
    assert server.http.get("/v1/documents/gone?collection=z").status_code == 200
    with page.expect_response("**/v1/documents/gone*"):
        button.click()
    expect(page.locator(".documents a")).to_have_count(0)
    assert server.http.get("/v1/documents/gone?collection=z").status_code == 404


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
