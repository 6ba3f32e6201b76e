from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.indexes.base import LogPosition
from tests.indexes.vectors.made import made


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of an index with a sketch, saved once."""
    made(300).save(tmp_path / "index", LogPosition(300, 0))
    return tmp_path / "index"
