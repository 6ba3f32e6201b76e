from __future__ import annotations

import pytest

from lagotto.cli.ingest import parse_metadata, parse_types
from lagotto.errors import ConfigError


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("k=2024", 2024),
        ("k=true", True),
        ('k=["a", 1]', ["a", 1]),
        ('k="1.10"', "1.10"),
        ("k=a=b", "a=b"),
        ("k=", ""),
        ("k=NaN", "NaN"),
        ("k=99999999999999999999", "99999999999999999999"),
        ("k=" + "[" * 100_000, "[" * 100_000),
    ],
    ids=range(9),
)
def test_metadata_values(pair: str, value: object) -> None:
    assert parse_metadata([pair]) == {"k": value}


@pytest.mark.parametrize("pairs", [["year"], ["=1"], ["a=1", "a=2"]])
def test_metadata_that_makes_no_sense(pairs: list[str]) -> None:
    with pytest.raises(ConfigError, match="--metadata"):
        parse_metadata(pairs)


def test_types_of_columns() -> None:
    assert parse_types(["year=integer,price=number", "a=b=text"]) == {
        "year": "integer",
        "price": "number",
        "a=b": "text",
    }
    assert parse_types(["text"]) == {}
    for wrong in ("year", "year=date", "=text"):
        with pytest.raises(ConfigError, match="NAME=TYPE"):
            parse_types([wrong])
