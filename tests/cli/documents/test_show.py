from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Chunk, Document
from tests.cli.running import run

pytestmark = pytest.mark.slow


def id_of(base: Path, title: str) -> str:
    documents = run("--kb", base, "list", "--json", "--filters", f'{{"title": "{title}"}}').json
    return str(documents[0]["id"])


def test_show_prints_fields_and_text(base: Path) -> None:
    name = id_of(base, "Truffles")
    done = run("--kb", base, "show", name)
    assert done.code == 0
    fields, _, text = done.out.partition("\n\n")
    assert fields.splitlines()[0] == f"id:           {name}"
    assert 'metadata:     {"year": 2024}' in fields.splitlines()
    assert text == "# Truffles\n\n## Seasons\n\nThe white truffle ripens from October on.\n\n"


def test_show_prints_chunks(base: Path) -> None:
    done = run("--kb", base, "show", id_of(base, "Truffles"), "--chunks")
    place = next(line for line in done.out.splitlines() if line.startswith("flat"))
    assert place.startswith("flat 0, characters 0-")
    assert place.endswith(" tokens | Section: Truffles > Seasons")


def test_show_as_json(base: Path) -> None:
    name = id_of(base, "Truffles")
    assert set(run("--kb", base, "show", name, "--json").json) == {*Document.model_fields}
    shown = run("--kb", base, "show", name, "--json", "--chunks").json
    (chunk,) = [Chunk.model_validate(item) for item in shown["chunks"]]
    assert shown["text"][chunk.start : chunk.end] == chunk.text


def test_an_unknown_id_is_explained(base: Path) -> None:
    done = run("--kb", base, "show", "x")
    assert (done.code, done.err) == (
        2,
        "lagotto: no document has the id, path or title 'x'; `lagotto list` shows the documents\n",
    )
    assert "; did you mean Truffles?" in run("--kb", base, "show", "truffles").err


def test_an_id_in_two_collections_needs_one(base: Path, notes: Path) -> None:
    run("--kb", base, "add", notes / "dogs.md", "--collection", "one")
    run("--kb", base, "add", notes / "dogs.md", "--collection", "two")
    name = run("--kb", base, "list", "--collection", "one", "--json").json[0]["id"]
    refused = run("--kb", base, "show", name)
    assert refused.code == 2
    assert "is not unique" in refused.err
    assert refused.err.endswith("; pass --collection\n")
    chosen = run("--kb", base, "show", name, "--collection", "two", "--json").json
    assert chosen["collection"] == "two"
