from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from tests.cli.running import run

pytestmark = pytest.mark.slow


def test_the_list_for_people(base: Path) -> None:
    done = run("--kb", base, "list")
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["path", "title", "kind", "language", "updated", "id"]
    assert len(rows) == 4
    assert any("  Truffles     markdown  en        " in row for row in rows)
    assert rows == sorted(rows)
    assert rows[0].split()[0].endswith("/bergwandern.md")


def test_sources_in_the_current_folder_are_short(notes: Path) -> None:
    run("add", notes / "dogs.md")
    assert "\nnotes/dogs.md  " in run("list").out


def test_the_list_for_programs(base: Path) -> None:
    found = run("--kb", base, "list", "--json", "--collection", "default").json
    fields = {*Document.model_fields} - {"text", "pages", "headings", "blocks"}
    assert all(set(item) == fields for item in found)
    assert [item["source"] for item in found] == sorted(item["source"] for item in found)
    missing = run("--kb", base, "list", "--json", "--collection", "defautl")
    assert missing.json == []
    assert missing.err == "warning: there is no collection 'defautl'; did you mean default?\n"


def test_filters_as_pairs_and_as_json(base: Path) -> None:
    """Each may be given, several of them hold together; a number is a number."""

    def titles(*filters: str) -> set[str]:
        options = [word for text in filters for word in ("--filter", text)]
        return {item["title"] for item in run("--kb", base, "list", "--json", *options).json}

    assert titles("kind=markdown") == {"Truffles", "Dogs", "Bergwandern"}
    assert titles("kind=markdown", "language=de") == {"Bergwandern"}
    assert titles("kind=markdown", '{"year": {"$gte": 2024}}', "language=de") == {"Bergwandern"}
    assert titles("year=2024") == titles()
    wrong = run("--kb", base, "list", "--filter", "markdown")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--filter 'markdown' is not KEY=VALUE; write topic=dogs, for example" in wrong.err
