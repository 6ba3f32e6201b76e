from __future__ import annotations

from collections.abc import Iterator

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.errors import ConfigError
from lagotto.stores.postgres.store import PostgresStore
from tests.stores.postgres.schemas import own_schema
from tests.test_hostile_arguments import (
    filled,
    test_a_collection_needs_a_name_that_can_be_stored,
    test_a_name_that_cannot_be_stored_is_not_found,
    test_a_query_of_any_text_is_answered,
)

__all__ = [
    "test_a_collection_needs_a_name_that_can_be_stored",
    "test_a_name_that_cannot_be_stored_is_not_found",
    "test_a_query_of_any_text_is_answered",
]


@pytest.fixture
def base(server_url: str) -> Iterator[KnowledgeBase]:
    with own_schema(server_url) as location:
        yield from filled(location)


async def test_the_store_itself_names_the_argument(store: PostgresStore) -> None:
    with pytest.raises(ConfigError, match="not valid Unicode text"):
        await store.get("default", "\ud800")
