"""A long list of results in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest

from lagotto.documents import Document, Heading
from tests.server.page.tab import Tab, expect
from tests.server.running import Running, serving

MANY = 10_000
DRAWN = 400
"""Hits that are elements at once, at most."""


@pytest.fixture(scope="module")
def long() -> Iterator[Running]:
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


@pytest.fixture
def tab(browser: Any, browser_thread: ThreadPoolExecutor, long: Running) -> Iterator[Tab]:
    made = browser_thread.submit(Tab, browser, long.url).result()
    yield made
    browser_thread.submit(made.close).result()
    assert made.errors == []


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


SUMMARY = """async ([text, words]) => {
  const { summary } = await import("/assets/prose.js");
  const spans = words.map((word) => [text.indexOf(word), text.indexOf(word) + word.length]);
  return summary(text, spans).map((line) => [line.tagName, line.textContent,
    [...line.querySelectorAll("mark")].map((mark) => mark.textContent)]);
}"""

WRAPPED = """# Tuning

Twelve pure fifths upward should arrive at the same note as
seven octaves, but they overshoot by a little.

1. Pythagorean tuning keeps eleven fifths pure and puts all
   of the error in the last.
2. Equal temperament.

| name | ratio |
| --- | --- |
| fifth | 3:2 |

```
a line of code that is long enough to have been broken, but
was not
```

A section without marks, whose title is a long line of text
A title that is no more than a line
"""


def shown(tab: Tab, text: str, *words: str) -> list[Any]:
    tab.open("/")
    found: list[Any] = tab.page.evaluate(SUMMARY, [text, list(words)])
    return found


def test_an_excerpt_has_no_marks_of_markdown(tab: Tab) -> None:
    lines = shown(tab, WRAPPED.partition("```")[0], "Tuning", "octaves", "error", "fifth |", "3:2")
    assert lines == [
        ["B", "Tuning", ["Tuning"]],
        ["SPAN", "Twelve pure fifths upward should arrive at the same note as seven octaves, but "
         "they overshoot by a little.", ["octaves"]],
        ["SPAN", "1. Pythagorean tuning keeps eleven fifths pure and puts all    of the error in "
         "the last.", ["error"]],
        ["SPAN", "2. Equal temperament.", []],
        ["SPAN", " name  ·  ratio ", []],
        ["SPAN", " fifth  ·  3:2 ", ["3:2"]],
    ]  # fmt: skip


def test_a_text_without_marks_is_a_line(tab: Tab) -> None:
    assert shown(tab, "Pigs find truffles too.", "truffles") == [
        ["SPAN", "Pigs find truffles too.", ["truffles"]]
    ]
    assert shown(tab, "| | |") == []
    code = shown(tab, "Run it:\n\n```sh\nlagotto add .\nlagotto serve\n```\n")
    assert [text for _, text, _ in code] == ["Run it:", "lagotto add .", "lagotto serve"]


def test_a_document_flows_and_keeps_every_character(tab: Tab, server: Running) -> None:
    title = WRAPPED.index("A title that")
    headings = (
        Heading(start=0, end=len(WRAPPED), level=1, title="Tuning"),
        Heading(start=title, end=len(WRAPPED), level=2, title="A title"),
    )
    document = Document(id="wrapped", collection="prose", text=WRAPPED, headings=headings)
    server.call(server.state.base.add(document))
    try:
        cited = WRAPPED.index("note as")
        page = tab.open("/document", cite=f"prose/wrapped#{cited}-{cited + 13}")
        expect(page.locator("mark.cited")).to_be_visible()
        text = page.locator(".document-text")
        assert text.text_content() == WRAPPED
        assert page.locator("mark.cited").text_content() == "note as\nseven"
        lines = text.inner_text().splitlines()
        assert any("same note as seven octaves" in line for line in lines)
        assert any("puts all of the error" in line for line in lines)
        assert "was not" in lines  # code keeps its lines
        assert "A title that is no more than a line" in lines  # and so do titles
    finally:
        server.call(server.state.base.remove("wrapped", collection="prose"))
