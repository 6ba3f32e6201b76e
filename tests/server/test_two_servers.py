from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.two_servers import check_two_servers


@pytest.mark.slow
def test_new_documents_are_found_soon_and_never_half(tmp_path: Path) -> None:
    check_two_servers(str(tmp_path / "kb.db"))
