"""Documents made to attack the page stay text, wherever they are shown."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import FilePayload

from tests.server.page.documents import ATTACKS, hostile
from tests.server.page.tab import Tab, expect
from tests.server.running import Running
from tests.servers.scripted import Reply, ScriptedServer


def check(tab: Tab) -> None:
    """Nothing ran, nothing was loaded, and no element of an attack is there."""
    page = tab.page
    assert page.evaluate("window.attacked") is None
    foreign = "img:not([src^='/assets/']), svg:not(.icon), iframe, script:not([src^='/assets/'])"
    assert page.locator(foreign).count() == 0
    bad = page.locator("a[href]").evaluate_all(
        "links => links.map((link) => link.protocol).filter((name) => !/^https?:$/.test(name))"
    )
    assert bad == []


def test_in_results_filters_and_explanations(tab: Tab) -> None:
    hits = tab.search("trap hostile readers", collection="hostile")
    page = tab.page
    expect(hits).to_have_count(len(ATTACKS))
    for summary in page.locator(".why summary").all():
        summary.click()
    page.get_by_text("Filters", exact=True).click()
    expect(page.locator(".facet").first).to_be_visible()
    titles = set(page.locator("article.hit h3").all_inner_texts())
    assert titles == {str(document.title) for document in hostile()}
    page.get_by_text("Why not this document?").click()
    page.get_by_label("Document", exact=True).fill(f"{ATTACKS[0]} nowhere")
    expect(page.locator(".answer")).to_contain_text("onerror")
    page.get_by_role("button", name="Use elsewhere").click()
    check(tab)


@pytest.mark.parametrize("number", range(len(ATTACKS)))
def test_in_a_document(tab: Tab, number: int) -> None:
    document = hostile()[number]
    page = tab.open("/document", collection="hostile", id=document.id)
    expect(page.locator(".document-text")).to_contain_text(ATTACKS[number])
    expect(page.get_by_role("heading", level=1)).to_have_text(document.title or "")
    page.get_by_text("About this document").click()
    expect(page.locator(".outline")).to_contain_text("Heading")
    check(tab)


def test_in_a_pack_and_in_the_list(tab: Tab) -> None:
    page = tab.open("/context", q="trap hostile readers", collection="hostile")
    expect(page.locator("pre.tall")).to_contain_text("<script>")
    check(tab)
    page = tab.open("/documents", collection="hostile")
    expect(page.locator(".documents a")).to_have_count(len(ATTACKS))
    check(tab)


def test_in_the_name_of_a_file(tab: Tab, server: Running) -> None:
    page = tab.open("/documents")
    name = '<img src=x onerror="window.attacked=1">.md'
    files: FilePayload = {
        "name": name,
        "mimeType": "text/markdown",
        "buffer": f"# {name}\n\nText.".encode(),
    }
    page.get_by_label("Collection").first.fill("named")
    page.locator("#files").set_input_files([files])
    expect(page.locator(".files li")).to_contain_text("added")
    expect(page.locator(".tasks .name").first).to_contain_text("onerror")
    check(tab)
    server.post("/v1/documents/remove", {"filters": {"collection": "named"}})


def test_in_the_address(tab: Tab) -> None:
    for attack in ATTACKS:
        page = tab.open("/", q=attack, why=attack, filters=attack, prefs="", panel=attack)
        expect(page.locator("#query")).to_have_value(attack)
        expect(page.locator(".column")).not_to_have_attribute("aria-busy", "true")
        check(tab)
    tab.page.goto(f"/document?cite={quote('javascript:window.attacked=1')}")
    expect(tab.page.get_by_role("alert")).to_be_visible()
    check(tab)


PROBE = """async ([tag, field, url]) => new Promise((resolve) => {
  const element = document.createElement(tag);
  element.onload = () => resolve("load");
  element.onerror = () => resolve("error");
  element[field] = url;
  document.body.append(element);
})"""


def answered(server: Running) -> Counter[tuple[str, str]]:
    """How many requests were answered so far, by operation and status; but for this one."""
    text = server.http.get("/metrics").text
    pattern = r'lagotto_http_requests_total\{operation="(\w+)",status="(\d+)".*} (\d+)'
    found = {(name, status): int(count) for name, status, count in re.findall(pattern, text)}
    return Counter({name: count for name, count in found.items() if name[0] != "metrics"})


@pytest.fixture
def elsewhere(server: Running) -> Iterator[ScriptedServer]:
    """A page of somebody else, with a link to ours."""
    page = f'<a href="{server.url}/?q=truffle">Search</a>'.encode()
    with ScriptedServer(
        {"/": lambda _: Reply(page, headers={"Content-Type": "text/html"})}
    ) as running:
        yield running


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])  # another site; another port of ours
def test_a_page_of_another_site_learns_and_does_nothing(
    tab: Tab, server: Running, elsewhere: ScriptedServer, name: str
) -> None:
    """It can open ours, which is what links are for."""
    page = tab.page
    page.goto(elsewhere.url.replace("127.0.0.1", name))
    there = server.http.get("/v1/documents").json()["documents"][0]
    document = f"/v1/documents/{there['id']}?collection={there['collection']}"
    assert server.http.get(document).status_code == 200
    search = "/v1/retrieve?q=truffle&filters=%7B%22none%22%3A1%7D&strict=true"
    probes = [
        ("object", "data", document),
        ("object", "data", "/v1/documents/none"),
        ("img", "src", search),
        ("script", "src", search),
        ("script", "src", "/assets/app.js"),
    ]
    before = answered(server)
    for tag, field, path in probes:
        assert page.evaluate(PROBE, [tag, field, f"{server.url}{path}"]) == "error"
    for mode in ("no-cors", "cors"):
        asked = page.evaluate(
            "([url, mode]) => fetch(url, { mode }).then((it) => it.type, () => 'refused')",
            [f"{server.url}{search}", mode],
        )
        assert asked == "refused"
    assert answered(server) - before == Counter({("none", "403"): len(probes) + 2})
    page.get_by_text("Search").click()
    expect(page.locator("article.hit").first).to_be_visible()
    tab.errors.clear()  # the browser reports what it stopped
    tab.foreign.clear()


def test_names_in_a_link_do_not_become_code(tab: Tab) -> None:
    """A snippet has settings, and nothing else that a link brings."""
    attack = "x=1)\nimport os  #"
    names = [attack, "__proto__.polluted", "constructor.prototype.polluted", "q.x", "fts.mode"]
    page = tab.open("/", q="truffle", filters="{", **dict.fromkeys(names, "all"))
    page.get_by_role("button", name="Use elsewhere").click()
    snippet = page.locator("pre[data-as=Python]").inner_text()
    assert 'kb.retrieve("truffle", filters="{", ' in snippet
    assert 'fts={"mode": "all"}' in snippet
    statements = [type(statement).__name__ for statement in ast.parse(snippet).body]
    assert statements == ["Import", "Assign", "For"]
    assert page.evaluate("({}).polluted") is None
    check(tab)


def test_the_policy_stops_what_a_mistake_would_let_through(tab: Tab) -> None:
    """The guard behind the guard: markup can't be parsed, not even by our own scripts."""
    page = tab.open("/")
    stopped = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return false; }"
        " catch (error) { return error instanceof TypeError; } }"
    )
    assert stopped
    tab.errors.clear()  # the browser reports what it stopped
