from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

pytestmark = pytest.mark.slow


def test_a_pack_with_citations_that_can_be_shown(base: Path) -> None:
    done = run("--kb", base, "context", "white truffle", "--max-tokens", "200")
    assert done.code == 0
    assert done.out.startswith("[1] Doc: Truffles")
    first = done.err.splitlines()[0]
    assert first.startswith("[1] default/")
    shown = run("--kb", base, "show", first.removeprefix("[1] "))
    assert shown.code == 0
    assert shown.out.splitlines()[0].startswith("Doc: Truffles")
    assert "truffle" in shown.out
    as_json = run("--kb", base, "show", first.removeprefix("[1] "), "--json").json
    assert as_json["text"] in done.out


def test_a_pack_stops_where_evidence_does_unless_it_is_to_be_filled(base: Path) -> None:
    command: list[str | Path] = ["--kb", base, "context", "white truffle", "--max-tokens", "200"]
    short, full = run(*command), run(*command, "--fill")
    assert short.err.splitlines()[-1].startswith("note: stopped at a score of ")
    assert "note: stopped" not in full.err
    assert len(full.out) > len(short.out)


def test_as_json(base: Path) -> None:
    pack = run("--kb", base, "context", "white truffle", "--format", "xml", "--json").json
    assert pack["context_pack"].startswith("<passages>")
    assert pack["tokens"] == pack["trace"]["final_token_count"]
    assert len(pack["citations"]) <= len(pack["selected_chunks"])


def test_nothing_found(base: Path) -> None:
    done = run("--kb", base, "context", "zebra", "--mode", "keyword", "--set", "fuzzy.mode=off")
    assert (done.code, done.out) == (0, "")
    assert "0 citations" in done.err


def test_a_citation_of_nothing(base: Path) -> None:
    done = run("--kb", base, "show", "default/nobody#0-5")
    assert done.code == 2
    assert "no such document" in done.err
