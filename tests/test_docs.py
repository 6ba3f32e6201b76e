"""Every Python example in README and docs runs, top to bottom, one namespace per file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.servers.scripted import ScriptedServer, chat_route, rerank_route

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
SERVICES = {"/rerank": rerank_route(), "/v1/chat/completions": chat_route()}
"""At `url`, in the examples: answers like those of real services."""
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    with ScriptedServer(SERVICES) as server:
        namespace: dict[str, object] = {"__name__": "__main__", "url": server.url}
        for match in EXAMPLE.finditer(text):
            line = text.count("\n", 0, match.start(1))
            source = "\n" * line + match.group(1)
            exec(compile(source, str(page), "exec"), namespace)
