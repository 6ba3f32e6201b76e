from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.errors import StoreError
from lagotto.models.cache import DiskCache


@given(st.dictionaries(st.binary(min_size=1, max_size=8), st.binary(), max_size=5))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, values: dict[bytes, bytes]
) -> None:
    path = tmp_path_factory.mktemp("cache") / "cache.db"
    file = DiskCache(path, table="things", what="cache of things", failure=StoreError)
    file.write(values)
    assert file.read([*values, b"no such key"]) == values


def test_failures_are_those_of_its_owner(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cache")
    file = DiskCache(folder, table="things", what="cache of things", failure=StoreError)
    with pytest.raises(StoreError, match="the cache of things"):
        file.read([b"key"])
