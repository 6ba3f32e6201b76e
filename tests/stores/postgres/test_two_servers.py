from __future__ import annotations

import pytest

from tests.server.two_servers import check_two_servers


@pytest.mark.slow
def test_new_documents_are_found_soon_and_never_half(location: str) -> None:
    check_two_servers(location)
