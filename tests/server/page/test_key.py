"""A key in a browser: asked for, kept in the tab, and no further."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.page.tab import Tab, expect
from tests.server.running import DOCUMENTS, Running, serving


@pytest.fixture
def keyed() -> Iterator[Running]:
    with serving(documents=DOCUMENTS) as running:
        yield running


@pytest.fixture
def tab(browser: Any, browser_thread: ThreadPoolExecutor, keyed: Running) -> Iterator[Tab]:
    made = browser_thread.submit(Tab, browser, keyed.url).result()
    yield made
    browser_thread.submit(made.close).result()
    assert made.errors == []


def test_a_key_is_entered_once_and_stays_in_the_tab(tab: Tab, keyed: Running) -> None:
    secret, _ = keyed.call(keyed.state.keys.create("reader", collections=["default"]))
    page = tab.open("/", q="truffles")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.locator("#key-input").fill("lgt_wrong")
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("unknown")
    page.locator("#key-input").fill(secret)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("article.hit").first).to_be_visible()
    assert "tenant b" not in page.locator("main").inner_text()  # of another collection
    expect(page.locator(".thumb")).to_have_count(0)  # which needs the scope write
    page.reload()
    expect(page.locator("article.hit").first).to_be_visible()
    assert secret not in page.url
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.get_by_role("button", name="Use elsewhere").click()
    assert secret not in page.get_by_role("dialog", name="Use elsewhere").inner_text()
    other = tab.context.new_page()
    other.goto(f"{keyed.url}/?q=truffles")
    expect(other.get_by_role("dialog")).to_be_visible()


def test_a_key_can_be_forgotten(tab: Tab, keyed: Running) -> None:
    secret, _ = keyed.call(keyed.state.keys.create("writer", scopes=["read", "write"]))
    page = tab.open("/documents")
    page.locator("#key-input").fill(secret)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator(".documents a").first).to_be_visible()
    page.locator("#key-button").click()
    page.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
