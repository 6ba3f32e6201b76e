"""The site builds from the pages, strictly: every link, anchor and page of the menu exists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


def test_it_builds_with_every_page_and_the_reference(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in tmp_path.glob("*.html")} >= pages | {"index", "architecture"}
    reference = (tmp_path / "reference.html").read_text(encoding="utf-8")
    for name in ("KnowledgeBase", "AsyncKnowledgeBase.retrieve"):
        assert f'id="lagotto.{name}"' in reference
    assert "fonts.googleapis" not in (tmp_path / "index.html").read_text(encoding="utf-8")
