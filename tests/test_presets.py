from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lagotto.errors import UnknownNameError
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import load_preset, preset_names

PRESETS = ["aiblox", "contextpack", "kotlin-rag", "local-rag", "oasis"]


def test_names() -> None:
    assert preset_names() == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_file_of_preferences(name: str, tmp_path: Path) -> None:
    preset = load_preset(name)
    (tmp_path / "prefs.toml").write_text(preset.toml, encoding="utf-8")
    prefs = RetrievalPrefs.preset(name)
    assert RetrievalPrefs.from_toml(tmp_path / "prefs.toml") == prefs
    assert prefs.model_dump(exclude_unset=True) == preset.settings


@pytest.mark.parametrize("name", PRESETS)
def test_the_first_line_describes_it(name: str) -> None:
    preset = load_preset(name)
    assert preset.toml.startswith(f"# {preset.description}\n")
    assert preset.description.endswith(".")
    assert 40 < len(preset.description) <= 67  # with the name it fits 80 columns
    assert "preset" not in preset.settings


@pytest.mark.parametrize("name", ["nope", "", "../presets/oasis", "oasis.toml", ["oasis"]])
def test_unknown(name: Any) -> None:
    message = r"unknown preset .*; available: aiblox, "
    with pytest.raises(UnknownNameError, match=message):
        load_preset(name)
    with pytest.raises(UnknownNameError, match=message):
        RetrievalPrefs.preset(name)
