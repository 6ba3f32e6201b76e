from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

pytestmark = pytest.mark.slow


def test_documents_go_from_one_base_to_another(base: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "all.jsonl", tmp_path / "other.db"
    done = run("--kb", base, "export", out)
    assert (done.code, done.out) == (0, f"4 documents written to {out}\n")
    done = run("--kb", other, "import", out)
    assert done.code == 0, done.err
    assert done.out.startswith("4 added, 0 updated, 0 unchanged")
    listed = [run("--kb", kb, "list", "--json").json for kb in (base, other)]
    assert listed[0] == listed[1]


def test_beir_and_a_broken_line(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    german = '{"language": "de"}'
    done = run("--kb", base, "export", folder, "--format", "beir", "--filters", german, "--json")
    assert done.json == {"exported": 1, "path": str(folder)}
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    done = run("--kb", tmp_path / "b.db", "import", folder, "--collection", "wild", "--json")
    assert (done.code, done.json["added"]) == (3, 1)
    assert f"failed: {folder / 'corpus.jsonl'}:2: not an exported document" in done.err


def test_a_file_of_another_kind_does_not_fill_the_screen(tmp_path: Path) -> None:
    file, base = tmp_path / "notes.md", tmp_path / "b.db"
    file.write_text("no JSON\n" * 50)
    done = run("--kb", base, "import", file)
    assert (done.code, base.exists()) == (3, False)
    assert done.err.count("failed: ") == 21
    assert done.err.endswith("failed: 30 more; --verbose names all of them\n")
    assert "more; --verbose" not in run("--kb", base, "import", file, "--verbose").err
    assert len(run("--kb", base, "import", file, "--json").json["failures"]) == 50
