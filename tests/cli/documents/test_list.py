from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from tests.cli.running import run

pytestmark = pytest.mark.slow


def test_the_list_for_people(base: Path) -> None:
    done = run("--kb", base, "list")
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["id", "title", "kind", "language", "source", "updated"]
    assert len(rows) == 4
    assert any("  Truffles     markdown  en        " in row for row in rows)


def test_sources_in_the_current_folder_are_short(notes: Path) -> None:
    run("add", notes / "dogs.md")
    assert "  notes/dogs.md  " in run("list").out


def test_the_list_for_programs(base: Path) -> None:
    found = run("--kb", base, "list", "--json", "--collection", "default").json
    fields = {*Document.model_fields} - {"text", "pages", "headings", "blocks"}
    assert all(set(item) == fields for item in found)
    assert [item["id"] for item in found] == sorted(item["id"] for item in found)
    assert run("--kb", base, "list", "--json", "--collection", "none").json == []
