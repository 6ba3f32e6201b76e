"""The view of a context pack in a browser."""

from __future__ import annotations

import re

from tests.server.page.tab import Tab, expect


def test_a_pack_shows_its_budget_and_what_was_left_out(tab: Tab) -> None:
    page = tab.open("/context", q="truffles water woods", max_tokens=120)
    caption = page.locator(".budget figcaption")
    expect(caption).to_contain_text("of 120 tokens")
    used = int(re.match(r"(\d+)", caption.inner_text())[1])  # type: ignore[index]
    assert 0 < used <= 120
    kept = page.locator("section", has_text="Kept").locator("ol.chunks").first
    expect(kept.get_by_role("link").first).to_be_visible()
    expect(
        page.get_by_text("Why: with it the pack would have had more than 120 tokens")
    ).to_be_visible()
    width = page.evaluate(
        "[...document.querySelectorAll('.budget-bar > span')]"
        ".reduce((sum, part) => sum + part.offsetWidth, 0)"
    )
    whole = page.evaluate("document.querySelector('.budget-bar').offsetWidth")
    assert abs(width / whole - used / 120) < 0.05
    page.get_by_label("Budget in tokens").fill("4000")
    expect(page.get_by_text("stopped at a score of")).to_be_visible()
    assert "max_tokens=4000" in page.url


def test_a_pack_says_what_was_cut(tab: Tab) -> None:
    page = tab.open("/context", q="spare parts QX-77", max_tokens=60)
    expect(page.locator(".chunks").first).to_contain_text("cut at a sentence")
    expect(page.locator(".budget-bar .cut").first).to_be_visible()


def test_its_citations_open(tab: Tab) -> None:
    page = tab.open("/context", q="green button")
    page.locator("ol.chunks a").first.click()
    expect(page.locator("mark.cited").first).to_be_in_viewport()
