"""The page of the server in Chromium: its weight, the time to the first result, layout shifts.

    python benchmarks/page.py [--rounds 15] [--screenshots FOLDER] [--json]

The documents of the demo, with the embedder of the base, served by a process of its own. The weight
is what a first visit to the search view transfers besides answers of the API. The time to the first
result runs from the end of the answer of the server to the frame that shows it. Layout shifts are
those while a view loads, as the browser reports them.
`--screenshots` writes the pictures of the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page

import lagotto.demo
from lagotto import KnowledgeBase
from lagotto.server.serve import VARIABLE
from lagotto.server.settings import ServerSettings
from servers import launched

SERVER = "from lagotto.server.serve import serve_environment; serve_environment()"
QUESTION = "Which dog finds truffles?"
SEARCH = "/?q=Which+dog+finds+truffles%3F"
CONTEXT = "/context?q=How+do+I+find+truffles%3F&max_tokens=1500"
SHIFTS = """
window.shifts = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
PAINTED = """(query) => new Promise((resolve) => {
  const results = document.querySelector(".results");
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => {
      const channel = new MessageChannel(); // its message comes after the frame is drawn
      channel.port1.onmessage = () => {
        const asked = performance.getEntriesByType("resource").filter((entry) => entry.name.includes("/v1/retrieve"));
        resolve(performance.now() - asked.at(-1).responseEnd);
      };
      channel.port2.postMessage(null);
    });
  }).observe(results, { childList: true });
  setTimeout(() => resolve(null), 5000);
  const input = document.getElementById("query");
  input.value = query;
  input.dispatchEvent(new Event("input"));
})"""  # noqa: E501


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with demo_server() as url, launched() as browser:
        weight, files = weigh(browser, url)
        painted = time_to_results(browser, url, options.rounds)
        figures: dict[str, Any] = {
            "weight_bytes": weight,
            "files": files,
            "first_result_ms_median": round(statistics.median(painted), 1),
            "first_result_ms_most": round(max(painted), 1),
            "layout_shift": {view: shift_of(browser, url + view) for view in VIEWS},
        }
        if options.screenshots:
            take_screenshots(browser, url, options.screenshots)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:24} {value}")


VIEWS = ("/", SEARCH, f"{SEARCH}&panel=weights", f"{SEARCH}&compare=1", CONTEXT, "/documents")


@contextmanager
def demo_server() -> Iterator[str]:
    """The address of a server with the documents of the demo."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        location = str(Path(folder) / "demo.db")
        with KnowledgeBase(location) as kb:
            kb.add(Path(lagotto.demo.__file__).parent / "corpus")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        settings = ServerSettings(location=location, port=port)
        environment = {**os.environ, VARIABLE: settings.model_dump_json()}
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER], env=environment, stderr=subprocess.DEVNULL
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            yield url
        finally:
            server.terminate()
            server.wait()


def wait_for(url: str) -> None:
    """Wait until a search is answered, so that the model is loaded."""
    last = time.monotonic() + 60
    while True:
        try:
            httpx.get(f"{url}/v1/retrieve?q=dog", timeout=30).raise_for_status()
            return
        except httpx.TransportError:
            if time.monotonic() > last:
                raise
            time.sleep(0.1)


def weigh(browser: Browser, url: str) -> tuple[int, int]:
    """The bytes of a first visit with their headers, and the number of files."""
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    addresses: dict[str, str] = {}
    sizes: dict[str, int] = {}

    def received(event: dict[str, Any]) -> None:
        addresses[event["requestId"]] = event["response"]["url"]

    def finished(event: dict[str, Any]) -> None:
        sizes[event["requestId"]] = event["encodedDataLength"]

    session.on("Network.responseReceived", received)
    session.on("Network.loadingFinished", finished)
    page.goto(f"{url}{SEARCH}")
    page.wait_for_load_state("networkidle")
    of_page = [size for name, size in sizes.items() if "/v1/" not in addresses.get(name, "")]
    context.close()
    return int(sum(of_page)), len(of_page)


def time_to_results(browser: Browser, url: str, rounds: int) -> list[float]:
    """Milliseconds from the end of the answer to the frame with the first result."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{url}/")
    page.wait_for_load_state("networkidle")
    queries = [" ".join(QUESTION.split()[: 1 + number % 4]) for number in range(rounds)]
    found = [float(page.evaluate(PAINTED, query)) for query in queries]
    context.close()
    return found


def shift_of(browser: Browser, address: str) -> float:
    """The sum of the layout shifts while a view is loaded."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(SHIFTS)
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(700)
    shift = float(page.evaluate("window.shifts"))
    context.close()
    return round(shift, 4)


def take_screenshots(browser: Browser, url: str, folder: Path) -> None:
    """The pictures of the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    wide, phone = {"width": 1200, "height": 760}, {"width": 360, "height": 740}
    wanted = (
        ("page-search", f"{SEARCH}&panel=weights", "light", wide, explain),
        ("page-compare", f"{SEARCH}&compare=1&b.mode=keyword", "dark", wide, None),
        ("page-document", SEARCH, "light", wide, open_first),
        ("page-context", CONTEXT, "dark", wide, None),
        ("page-documents", "/documents", "light", wide, None),
        ("page-phone", SEARCH, "dark", phone, None),
    )
    for name, view, theme, size, act in wanted:
        context = browser.new_context(viewport=size, color_scheme=theme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{url}{view}")
        page.wait_for_load_state("networkidle")
        if act is not None:
            act(page)
            page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)
        page.screenshot(path=folder / f"{name}.png")
        context.close()


def explain(page: Page) -> None:
    """Open the explanation of the first result."""
    page.locator(".why summary").first.click()


def open_first(page: Page) -> None:
    """Open the document of the first result."""
    page.locator("article h3 a").first.click()
    page.locator("mark.cited").first.wait_for()


if __name__ == "__main__":
    main()
