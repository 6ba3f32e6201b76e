"""Presets: published retrieval designs as settings of RetrievalPrefs.

Each preset is a TOML file in this folder, named after it. The file is what `--prefs` and
`RetrievalPrefs.from_toml` read; its first line is a comment that describes the preset.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lagotto.documents import Record
from lagotto.errors import UnknownNameError

FOLDER = Path(__file__).parent


class Preset(Record):
    """A preset: its name, a description of one line, and its settings as TOML."""

    name: str
    description: str
    toml: str

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that differ from the defaults, by group."""
        import tomllib

        return tomllib.loads(self.toml)


def preset_names() -> list[str]:
    """The names of the presets that come with Lagotto."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load_preset(name: str) -> Preset:
    """The preset called `name`; UnknownNameError if there is none."""
    if name not in preset_names():
        raise UnknownNameError(f'unknown preset "{name}"; available: {", ".join(preset_names())}')
    return _read(name)


@cache
def _read(name: str) -> Preset:
    toml = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    first_line, _, _ = toml.partition("\n")
    return Preset(name=name, description=first_line.removeprefix("# "), toml=toml)
