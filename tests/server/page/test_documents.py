"""Uploads, tasks and the list of documents in a browser."""

from __future__ import annotations

from playwright.sync_api import FilePayload

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
