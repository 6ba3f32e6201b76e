from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from lagotto.documents import Chunk, Document
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


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def ids(base: Path) -> list[str]:
    return [item["id"] for item in run("--kb", base, "list", "--json").json]


def test_by_id(base: Path) -> None:
    first, second, *rest = ids(base)
    done = run("--kb", base, "remove", first, second, "--yes")
    assert (done.code, done.out) == (0, "2 removed\n")
    assert ids(base) == rest


def test_by_filter_as_json(base: Path) -> None:
    done = run("--kb", base, "remove", "--filters", '{"language": "de"}', "-y", "--json")
    assert len(done.json["removed"]) == 1
    assert len(ids(base)) == 3
    again = run("--kb", base, "remove", "--filters", '{"language": "de"}', "--json")
    assert again.json == {"removed": []}


def test_a_whole_collection(base: Path) -> None:
    assert run("--kb", base, "remove", "--collection", "other", "--yes").out == "0 removed\n"
    assert run("--kb", base, "remove", "--collection", "default", "--yes").out == "4 removed\n"
    assert ids(base) == []


def test_an_unknown_id_removes_nothing(base: Path) -> None:
    before = ids(base)
    done = run("--kb", base, "remove", before[0], "unknown", "--yes")
    assert done.code == 2
    assert done.err.startswith("lagotto: no document has the id, path or title 'unknown'")
    assert ids(base) == before


def test_something_must_be_said(base: Path) -> None:
    done = run("--kb", base, "remove", "--yes")
    assert done.code == 2
    assert done.err.startswith("lagotto: nothing to remove was given")


def test_nobody_to_ask(base: Path) -> None:
    done = run("--kb", base, "remove", "--collection", "default")
    assert done.code == 2
    assert done.err.startswith(f"lagotto: this removes 4 documents from {base};")
    assert len(ids(base)) == 4


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 4), ("", 1, 4)])
def test_asking(
    base: Path, answer: str, code: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    done = run("--kb", base, "remove", "--collection", "default")
    assert done.code == code
    assert f"Remove 4 documents from {base}?" in done.err
    assert len(ids(base)) == left
