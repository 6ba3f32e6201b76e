from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.running import run

FILES = {
    "truffles.md": "# Truffles\n\n## Seasons\n\nThe white truffle ripens from October on.\n",
    "dogs.md": "# Dogs\n\nThe Lagotto Romagnolo was bred for finding truffles.\n",
    "deep/codes.txt": "Error 2067 means that a unique index has met a duplicate value.\n",
    "bergwandern.md": "# Bergwandern\n\nIm Hochsommer gehen Gewitter meist nachmittags nieder, "
    "deshalb brechen Wanderer früh auf und kehren mittags um.\n",
}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("LAGOTTO_KB", "LAGOTTO_EMBEDDER", "LAGOTTO_DEBUG", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def write_files(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of documents."""
    return write_files(tmp_path / "notes")


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_files(folder / "notes")
    made = run("--kb", folder / "kb.db", "add", folder / "notes", "--metadata", "year=2024")
    assert made.code == 0, made.err
    return folder


@pytest.fixture
def base(_made: Path, tmp_path: Path) -> Path:
    """A base of the test's own, copied from one that was made once."""
    for path in _made.glob("kb.db*"):
        if path.is_dir():
            shutil.copytree(path, tmp_path / path.name)
        else:
            shutil.copy(path, tmp_path / path.name)
    return tmp_path / "kb.db"
