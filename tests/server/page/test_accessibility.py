"""Every view for everybody: axe-core finds nothing, the keyboard is enough, phones have room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.page.tab import Tab, expect
from tests.server.running import Running
from tests.servers.browser import REMEDY, axe_path

PHONE = {"width": 360, "height": 740}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def search(tab: Tab) -> None:
    tab.search("green button truffles", panel="weights", collection="default", mode="keyword")
    tab.page.get_by_text("Why this result").first.click()
    tab.page.evaluate("document.querySelector('.filters').open = true")
    expect(tab.page.locator(".facet").first).to_be_attached()


def compare(tab: Tab) -> None:
    tab.search("truffles dog", compare="1", collection="default", **{"b.mode": "keyword"})
    expect(tab.page.locator(".move").first).to_be_visible()


def share(tab: Tab) -> None:
    tab.search("green button", mode="keyword")
    tab.page.get_by_role("button", name="Use elsewhere").click()


def document(tab: Tab) -> None:
    tab.open("/document", cite="default/manual#60-90")
    expect(tab.page.locator("mark.cited").first).to_be_visible()


def context(tab: Tab) -> None:
    tab.open("/context", q="truffles", max_tokens=90)
    expect(tab.page.locator(".budget")).to_be_visible()


def documents(tab: Tab) -> None:
    tab.open("/documents", collection="b")
    expect(tab.page.locator(".documents a").first).to_be_visible()


def nothing(tab: Tab) -> None:
    tab.open("/", q="truffles", filters='{"topic": "none"}', why="Oaks")
    expect(tab.page.locator(".empty-state")).to_contain_text("Nothing")


def key(tab: Tab) -> None:
    tab.open("/")
    tab.page.locator("#key-button").click()


VIEWS: list[Callable[[Tab], None]] = [
    search, compare, share, document, context, documents, nothing, key,
]  # fmt: skip


@pytest.fixture(params=[("light", {"width": 1280, "height": 900}), ("dark", PHONE)], ids=str)
def themed(
    request: pytest.FixtureRequest,
    browser: Any,
    browser_thread: ThreadPoolExecutor,
    server: Running,
) -> Iterator[Tab]:
    theme, size = request.param
    options = {"color_scheme": theme, "viewport": size, "reduced_motion": "reduce"}

    def make() -> Tab:
        return Tab(browser, server.url, bypass_csp=True, **options)

    made = browser_thread.submit(make).result()
    yield made
    browser_thread.submit(made.close).result()


def test_axe_finds_nothing(themed: Tab, browser_thread: ThreadPoolExecutor) -> None:
    if not axe_path().is_file():
        pytest.skip(f"no axe-core: {REMEDY}")
    found = browser_thread.submit(lambda: [_violations(themed, view) for view in VIEWS]).result()
    assert [violation for view in found for violation in view] == []


def _violations(tab: Tab, view: Callable[[Tab], None]) -> list[str]:
    view(tab)
    tab.page.add_script_tag(path=axe_path())
    report = tab.page.evaluate(
        "(rules) => axe.run(document, {"
        " runOnly: { type: 'tag', values: rules }, resultTypes: ['violations'] })",
        RULES,
    )
    return [
        f"{view.__name__}: {item['id']}: {node['html'][:150]}"
        for item in report["violations"]
        for node in item["nodes"][:3]
    ]


def test_no_view_is_wider_than_a_phone(tab: Tab) -> None:
    tab.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for view in VIEWS:
        view(tab)
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], view.__name__


def test_the_keyboard_is_enough(tab: Tab) -> None:
    page = tab.open("/")
    expect(page.locator("#query")).to_be_focused()
    with page.expect_response("**/v1/retrieve?q=green+button&*"):
        page.keyboard.type("green button")
    tab.wait_for_rows()  # until then, those of what was typed before may be there
    expect(page.locator("article.hit").first).to_be_visible()
    page.locator("article.hit h3 a").first.focus()
    for name in ("Why this result", "Copy citation", "Relevant"):
        page.keyboard.press("Tab")
        focused = page.evaluate_handle("document.activeElement").as_element()
        assert focused is not None
        assert (focused.get_attribute("aria-label") or focused.text_content()) == name
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("article.hit tfoot").first).to_be_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("mark.cited").first).to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
