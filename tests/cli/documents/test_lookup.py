from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import run

pytestmark = pytest.mark.slow


def listed(base: Path) -> dict[str, dict[str, str]]:
    return {item["title"]: item for item in run("--kb", base, "list", "--json").json}


@pytest.mark.parametrize("field", ["id", "source", "title"])
def test_show_takes_an_id_a_path_or_a_title(base: Path, field: str) -> None:
    dogs = listed(base)["Dogs"]
    assert run("--kb", base, "show", dogs[field], "--json").json["id"] == dogs["id"]


def test_a_path_from_here_and_the_beginning_of_an_id(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dogs = listed(base)["Dogs"]
    monkeypatch.chdir(Path(dogs["source"]).parent)
    assert run("--kb", base, "show", "dogs.md", "--json").json["id"] == dogs["id"]
    assert run("--kb", base, "show", dogs["id"][:8], "--json").json["id"] == dogs["id"]
    assert run("--kb", base, "show", dogs["id"][:3]).code == 2


def test_a_title_of_two_documents_is_refused_with_their_ids(base: Path, notes: Path) -> None:
    (notes / "more.md").write_text("# Dogs\n\nOther dogs.\n", encoding="utf-8")
    run("--kb", base, "add", notes / "more.md")
    refused = run("--kb", base, "show", "Dogs")
    assert refused.code == 2
    assert "'Dogs' is not unique: " in refused.err
    assert refused.err.endswith("; give the id of one of them\n")


def test_a_title_in_a_message_does_not_control_the_terminal(tmp_path: Path) -> None:
    base, exported = tmp_path / "kb.db", tmp_path / "all.jsonl"
    title = "Dogs\x1b]0;owned\x07\x1b[2J\u202e"
    lines = [{"id": name, "title": title, "text": name, "collection": title} for name in "ab"]
    exported.write_text("\n".join(map(json.dumps, lines)))
    assert run("--kb", base, "import", exported).code == 0
    for command in (
        ("show", title), ("show", title[:-1]), ("remove", title, "--yes"), ("show", "x" + title),
        ("search", "dogs", "--collection", title[1:]), ("list", "--collection", title[1:]),
        ("-vv", "show", title),
    ):  # fmt: skip
        done = run("--kb", base, *command)
        shown = done.out + done.err
        assert not {"\x1b", "\x07", "\u202e"} & set(shown), command


def test_remove_takes_a_folder(base: Path) -> None:
    folder = Path(listed(base)["Dogs"]["source"]).parent
    assert run("--kb", base, "remove", folder / "deep", "--yes").out == "1 removed\n"
    assert run("--kb", base, "remove", folder / "deep", "--yes").code == 2
    assert run("--kb", base, "remove", folder, "--yes").out == "3 removed\n"


def test_names_and_a_filter_must_both_hold(base: Path) -> None:
    german = '{"language": "de"}'
    assert run("--kb", base, "remove", "Dogs", "--filters", german, "--yes").code == 2
    done = run("--kb", base, "remove", "Bergwandern", "--filters", german, "--yes")
    assert done.out == "1 removed\n"
    assert sorted(map(str, listed(base))) == ["Dogs", "Truffles", "codes"]


def test_a_web_address(tmp_path: Path) -> None:
    base, exported = tmp_path / "kb.db", tmp_path / "page.jsonl"
    address = "https://example.org/cats"
    exported.write_text(f'{{"text": "Cats sleep.", "title": "Cats", "source": "{address}"}}')
    assert run("--kb", base, "import", exported).code == 0
    assert run("--kb", base, "show", f"{address}#sleep", "--json").json["source"] == address
    assert run("--kb", base, "remove", address, "--yes").out == "1 removed\n"
