"""The files of the page: their policy, their weight, and what their sources may not do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import pytest

from lagotto.server.page import MEDIA_TYPES, VIEWS, load_assets
from tests.server.page.tab import Tab, expect
from tests.server.running import DOCUMENTS, Running, serving

HEAVIEST = 150_000
OWN = ("script-src", "style-src", "img-src", "connect-src")
NONE = ("default-src", "base-uri", "form-action", "frame-ancestors", "trusted-types")
POLICY = {
    **dict.fromkeys(OWN, "'self'"),
    **dict.fromkeys(NONE, "'none'"),
    "require-trusted-types-for": "'script'",
}
ASSETS = load_assets()
SCRIPTS = sorted(name for name in ASSETS if name.endswith(".js"))
FOREIGN = re.compile(r"(?:src|href|url\(|import\s|from\s)\W{0,3}(?:https?:)?//\w")
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|setHTML|srcdoc|\beval\b|new Function|localStorage|document\.cookie"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(documents=DOCUMENTS) as running:
        yield running


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_is_served_under_a_strict_policy(server: Running, path: str) -> None:
    answer = server.http.get(path)
    assert answer.status_code == 200
    directives = answer.headers["content-security-policy"].split("; ")
    assert dict(directive.split(" ", 1) for directive in directives) == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    again = server.http.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_file_is_served_with_its_type(server: Running) -> None:
    for name, data in ASSETS.items():
        if name != "index.html":
            answer = server.http.get(f"/assets/{name}")
            assert (answer.status_code, answer.content) == (200, data)
            assert answer.headers["content-type"] == MEDIA_TYPES[name[name.rfind(".") :]]
    assert server.http.get("/assets/routes.py").status_code == 404
    assert server.http.get("/assets/..%2Froutes.py").status_code == 404


def test_every_file_of_the_folder_is_known() -> None:
    folder = resources.files("lagotto.server.page") / "assets"
    assert {file.name for file in folder.iterdir()} == set(ASSETS)


def test_the_page_is_light() -> None:
    assert sum(map(len, ASSETS.values())) < HEAVIEST


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_parses_markup_or_keeps_what_outlives_the_tab(name: str) -> None:
    assert MARKUP.findall(ASSETS[name].decode()) == []


def test_nothing_is_inline_and_nothing_is_of_another_host() -> None:
    page = ASSETS["index.html"].decode()
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\son\w+=", page)
    for name, data in ASSETS.items():
        assert not FOREIGN.search(data.decode()), name


def test_every_module_that_is_imported_is_there() -> None:
    for name in SCRIPTS:
        for wanted in re.findall(r"(?:from|import\()\s*\"\./([\w.]+)\"", ASSETS[name].decode()):
            assert wanted in ASSETS, (name, wanted)


def test_a_key_is_entered_once_and_stays_in_the_tab(tab: Tab, server: Running) -> None:
    secret = server.key(collections=["default"])
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
    other.goto(f"{server.url}/?q=truffles")
    expect(other.get_by_role("dialog")).to_be_visible()


def test_a_key_can_be_forgotten(tab: Tab, server: Running) -> None:
    secret = server.key("read", "write")
    page = tab.open("/documents")
    page.locator("#key-input").fill(secret)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator(".documents a").first).to_be_visible()
    page.locator("#key-button").click()
    page.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
