"""A tab of the browser, at the page of a server."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Locator, Page, expect

__all__ = ["Tab", "expect"]

PATIENCE = 30_000
"""Milliseconds; a machine that has much else to do is slow, not wrong."""

expect.set_options(timeout=PATIENCE)


class Tab:
    """A page; `errors` are those of its scripts and of its policy, `foreign` what it asked others.

    Answers that are problems are part of the tests, so the browser's notes on them don't count.
    """

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda note: self._note(note.type, note.text))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def open(self, path: str = "/", **params: object) -> Page:
        """Open a view, with its state in the address."""
        query = f"?{urlencode(params)}" if params else ""
        self.page.goto(f"{path}{query}")
        return self.page

    def search(self, query: str, **params: object) -> Locator:
        """Open the search view, and wait for the hits."""
        self.open("/", q=query, **params)
        hits = self.page.locator("article.hit")
        expect(hits.first).to_be_visible()
        self.wait_for_rows()
        return hits

    def wait_for_rows(self) -> None:
        """Wait until all hits of the answer are drawn."""
        for column in self.page.locator(".column").all():
            expect(column).not_to_have_attribute("aria-busy", "true")
            expect(column.locator(".results")).not_to_have_attribute("aria-busy", "true")

    def close(self) -> None:
        self.context.close()

    def _note(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text:
            self.errors.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:", "about:")):
            self.foreign.append(url)
