"""`search` prints the bundle: documents with the passages that support them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lagotto.cli.app import COMMANDS
from lagotto.results import RetrievalBundle
from tests.cli.running import run
from tests.cli.test_docs import command_of


def test_documents_with_their_evidence(base: Path) -> None:
    done = run("--kb", base, "search", "which dog finds truffles?", "--top-k", "2")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0].startswith(" 1. 0.")
    assert lines[0].endswith("  Dogs")
    assert lines[1].startswith("    semantic 0.")
    assert re.search(r"/dogs\.md  [0-9a-f]{8}$", lines[1])
    assert lines[2].endswith("Section: Dogs")
    assert lines[3] == "    # Dogs The Lagotto Romagnolo was bred for finding truffles."


def test_json_is_the_bundle(base: Path) -> None:
    answer = run("--kb", base, "search", "white truffle", "--top-k", "1", "--json").json
    assert (answer.pop("query"), answer.pop("mode")) == ("white truffle", "hybrid")
    bundle = RetrievalBundle.model_validate(answer)
    assert len(bundle.evidence) == len(bundle.candidates) == 1
    assert bundle.evidence[0].item_id == bundle.candidates[0].item_id


def test_settings_of_other_views_are_refused(base: Path) -> None:
    done = run("--kb", base, "search", "truffle", "--set", "context.max_tokens=5")
    assert done.code == 2
    assert "context: search has no use for it" in done.err


def test_nothing_found_is_no_error(base: Path) -> None:
    done = run("--kb", base, "search", "zebra", "--mode", "keyword", "--set", "fuzzy.mode=off")
    assert (done.code, done.out, done.err) == (0, "", "nothing was found\n")


@pytest.mark.parametrize("name", ["retrieve", "search", "context"])
def test_the_three_views_have_the_same_options(name: str) -> None:
    own = {
        "retrieve": {"explain", "why_not"},
        "context": {"more", "max_tokens", "fill", "format", "counter"},
    }
    options = {(option.name or "").split("__")[-1] for option in command_of(name).params}
    common = {(option.name or "").split("__")[-1] for option in command_of("search").params}
    assert options - own.get(name, set()) == common
    assert name in COMMANDS


def test_a_context_for_several_questions_says_what_each_got(base: Path) -> None:
    done = run("--kb", base, "context", "which dog finds truffles?", "--and", "white truffle")
    assert done.code == 0
    assert re.search(r"^which dog finds truffles\?: \[1\].*, about \d+ tokens$", done.err, re.M)
    assert re.search(r"^white truffle: \[\d\].*, about \d+ tokens$", done.err, re.M)


def test_doctor_lists_duplicates(base: Path, tmp_path: Path) -> None:
    clean = run("--kb", base, "doctor", "--duplicates")
    assert "no passage of 32 characters or more is contained in another" in clean.out
    text = "The Lagotto Romagnolo was bred for finding truffles."
    (tmp_path / "copy.md").write_text(f"# Copied\n\n{text}", encoding="utf-8")
    (tmp_path / "again.md").write_text(f"# Copied\n\n{text}", encoding="utf-8")
    assert run("--kb", base, "add", tmp_path / "copy.md", tmp_path / "again.md").code == 0
    done = run("--kb", base, "doctor", "--duplicates")
    assert done.code == 0
    assert re.search(
        r"^note: +1 passage of default/\w+ also in default/\w+: 0-\d+$", done.out, re.M
    )
    assert "if it is a copy, `lagotto remove " in done.out
    (copy,) = run("--kb", base, "doctor", "--duplicates", "--json").json["duplicates"]
    assert copy["is_whole"]
    assert copy["document_id"] != copy["in_document_id"]
    assert "duplicates" not in run("--kb", base, "doctor", "--json").json


def test_the_command_sets_shows_and_clears(base: Path, tmp_path: Path) -> None:
    file = tmp_path / "synonyms.txt"
    file.write_text("PTO, paid time off\ncar, automobile", encoding="utf-8")
    done = run("--kb", base, "synonyms", file)
    assert (done.code, done.err) == (0, "2 groups\n")
    shown = run("--kb", base, "synonyms")
    assert shown.out == "# default\nPTO, paid time off\ncar, automobile\n"
    file.write_text(shown.out, encoding="utf-8")
    assert run("--kb", base, "synonyms", file, "--collection", "b").code == 0
    assert run("--kb", base, "synonyms", "--json").json["b"] == [
        ["PTO", "paid time off"], ["car", "automobile"],
    ]  # fmt: skip
    hits = run("--kb", base, "retrieve", "automobile", "--explain")
    assert "synonyms: automobile -> car" in hits.err
    assert run("--kb", base, "synonyms", "--clear").code == 0
    assert run("--kb", base, "synonyms").out.startswith("# b\n")
    assert run("--kb", base, "synonyms", file, "--clear").code == 2
    assert run("--kb", base, "synonyms", tmp_path / "none.txt").code == 2
