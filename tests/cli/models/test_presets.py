from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.presets import load_preset, preset_names
from tests.cli.running import run
from tests.closeness import are_close


def test_the_list_has_a_description_each() -> None:
    done = run("presets")
    assert (done.code, done.err) == (0, "")
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["name", "description"]
    assert [row.split()[0] for row in rows] == preset_names()
    assert [row.split(maxsplit=1)[1] for row in rows] == [
        load_preset(name).description for name in preset_names()
    ]


def test_the_list_as_json() -> None:
    found = run("presets", "--json").json
    assert [item["name"] for item in found] == preset_names()
    assert all(set(item) == {"name", "description"} for item in found)


@pytest.mark.slow
def test_settings_are_a_file_for_prefs(base: Path, tmp_path: Path) -> None:
    done = run("presets", "oasis")
    assert done.code == 0
    (tmp_path / "mine.toml").write_text(done.out, encoding="utf-8")
    query: list[str | Path] = ["--kb", base, "retrieve", "white truffle", "--json"]
    from_file = run(*query, "--prefs", tmp_path / "mine.toml")
    assert from_file.code == 0
    by_name = run(*query, "--preset", "oasis")
    assert are_close(from_file.json["results"], by_name.json["results"])


def test_settings_as_json() -> None:
    found = run("presets", "oasis", "--json").json
    assert found["settings"] == load_preset("oasis").settings
    assert found["description"] == load_preset("oasis").description


def test_an_unknown_preset() -> None:
    done = run("presets", "nope")
    assert done.code == 2
    assert done.err.startswith('lagotto: unknown preset "nope"; available: aiblox, ')
