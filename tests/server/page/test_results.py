"""A long list of results in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest

from lagotto.documents import Document
from tests.server.page.tab import Tab, expect
from tests.server.running import Running, serving

MANY = 10_000
DRAWN = 400
"""Hits that are elements at once, at most."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    documents = [
        Document(
            id=f"d{number}",
            text="\n\n".join(f"truffle {number} {line} of a list of them" for line in range(1000)),
        )
        for number in range(MANY // 1000)
    ]
    small = "recursive:9/0"  # a line each
    with serving(documents=documents, chunker=small, max_top_k=MANY, timeout=60) as running:
        yield running


def scrolled(tab: Tab, share: float) -> list[int]:
    """Scroll to a share of the page's height; the ranks of the hits that are elements there."""
    tab.page.evaluate("share => scrollTo(0, document.body.scrollHeight * share)", share)
    rows = tab.page.locator("article")
    ranks: list[int] = rows.evaluate_all("rows => rows.map((row) => +row.ariaPosInSet)")
    assert len(ranks) <= DRAWN
    return ranks


def wait_until_scrolled(tab: Tab, share: float, *, shows: range) -> None:
    """Scroll, again while the page is still drawing, until a hit of these ranks is an element."""
    deadline = monotonic() + 30
    while not set(shows).intersection(ranks := scrolled(tab, share)):
        assert monotonic() < deadline, ranks
        tab.page.wait_for_timeout(50)


def test_ten_thousand_results_are_scrolled(tab: Tab) -> None:
    tab.search("truffle", mode="keyword")
    for count in (100, 500, 2_500, MANY):
        wait_until_scrolled(tab, 1, shows=range(count, count + 1))
        expect(tab.page.locator(".status")).to_contain_text(f"{count:,} passages")
    wait_until_scrolled(tab, 0.5, shows=range(MANY * 3 // 10, MANY * 7 // 10))
    wait_until_scrolled(tab, 0, shows=range(1, 2))
