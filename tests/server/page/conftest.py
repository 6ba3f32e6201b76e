"""One browser and one server for all tests of the page; a tab of its own for each test.

Playwright's plain API keeps an event loop running in its thread, which tests of asyncio could not
share. So the browser has a thread of its own, and tests that use a tab run there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.page.documents import DOCUMENTS
from tests.server.page.tab import Tab
from tests.server.running import Running, serving
from tests.servers.browser import REMEDY, browser_path, launched


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="browser") as thread:
        yield thread


@pytest.fixture(scope="session")
def browser(browser_thread: ThreadPoolExecutor) -> Iterator[Any]:
    if browser_path() is None:
        pytest.skip(f"no browser: {REMEDY}")
    opening = launched()
    yield browser_thread.submit(opening.__enter__).result()
    browser_thread.submit(opening.__exit__, None, None, None).result()


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with serving(documents=DOCUMENTS, max_top_k=10_000) as running:
        yield running


@pytest.fixture
def tab(browser: Any, browser_thread: ThreadPoolExecutor, server: Running) -> Iterator[Tab]:
    """A tab that remembers errors, and refuses requests to other hosts."""
    made = browser_thread.submit(Tab, browser, server.url).result()
    yield made
    browser_thread.submit(made.close).result()
    assert made.errors == []
    assert made.foreign == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the browser out of the fast inner loop."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that use a tab in the thread of the browser."""
    if "tab" not in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    thread = pyfuncitem.funcargs["browser_thread"]
    assert isinstance(thread, ThreadPoolExecutor)
    thread.submit(pyfuncitem.obj, **arguments).result()
    return True
