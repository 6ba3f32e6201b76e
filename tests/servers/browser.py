"""A real browser for the tests of the server's page, and axe-core, which checks accessibility.

`python -m tests.servers.browser` looks for Chromium, installs Debian's if it may, and downloads
axe-core from npm once, into the virtual environment. Where that can't be done it says so, and the
tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers import npm

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GIVEN = "LAGOTTO_TEST_BROWSER"
"""The environment variable with the path of a browser to use."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
AXE_PACKAGE = "axe-core@4.10.3"
AXE_SHA256 = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
AXE_MEMBER = "package/axe.min.js"

REMEDY = (
    f"install Chromium (`apt-get install chromium`) or set {GIVEN} to the path of one, and run "
    "`python -m tests.servers.browser`"
)


def browser_path() -> str | None:
    """The path of a Chromium, None if there is none."""
    given = os.environ.get(GIVEN)
    return given or next(filter(None, map(shutil.which, NAMES)), None)


def axe_path() -> Path:
    """The file of axe-core, whether it is there or not."""
    return npm.shared_folder("axe-core", AXE_SHA256) / "axe.min.js"


@contextmanager
def launched(*arguments: str) -> Iterator[Browser]:
    """A browser without a window; RuntimeError if there is none."""
    path = browser_path()
    if path is None:
        raise RuntimeError(f"no browser to test with: {REMEDY}")
    from playwright.sync_api import sync_playwright

    # Chromium refuses its sandbox to root, and containers have little shared memory.
    flags = [
        "--disable-dev-shm-usage",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        *arguments,
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def install() -> str | None:
    """Install Debian's Chromium if there is none and we may; the path of what there is then."""
    if browser_path() is None and shutil.which("apt-get") and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        wanted = ["-y", "-q", "--no-install-recommends", "chromium"]
        for command in (["apt-get", "update", "-q"], ["apt-get", "install", *wanted]):
            subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
    return browser_path()


def fetch_axe() -> Path:
    """Download axe-core, unless that was done before."""
    target = axe_path()
    if not target.is_file():
        archive = npm.reviewed(npm.download(AXE_PACKAGE), AXE_SHA256, AXE_PACKAGE)
        npm.install(target.parent, {target.name: npm.members(archive, AXE_MEMBER)[AXE_MEMBER]})
    return target


def main() -> None:
    """Set up what can be set up, and say what can't."""
    print(install() or f"no browser, so the tests of the page will be skipped: {REMEDY}")
    try:
        print(fetch_axe())
    except (OSError, subprocess.CalledProcessError) as exc:
        print(f"axe-core can't be downloaded, so the tests of accessibility will be skipped: {exc}")


if __name__ == "__main__":
    main()
